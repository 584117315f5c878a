"""What differs between results besides the model: named before any number is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lmrel_tasks.contestants import Contestant
from lmrel_tasks.paired_results import PairedTask

# kind -> fields of the task's configuration that belong to it
_TASK_FIELDS = {
    "generation settings": ("generation_kwargs", "repeats"),
    "prompts": (
        "description", "doc_to_text", "doc_to_choice", "target_delimiter", "fewshot_delimiter",
        "fewshot_config", "gen_prefix",
    ),
    "data": ("dataset_path", "dataset_name", "dataset_kwargs", "test_split", "process_docs"),
    "scoring": ("doc_to_target", "filter_list", "output_type"),
}  # fmt: skip
_RUN_FIELDS = {
    "generation settings": ("gen_kwargs",),
    "item sets": ("limit",),
    "seeds": ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed"),
}
_TOP_FIELDS = {
    "prompts": ("chat_template_sha", "system_instruction_sha", "fewshot_as_multiturn"),
    "software": ("lm_eval_version", "transformers_version"),
}
# Different seeds are what repeated runs are made of, and software often cannot be the same.
_HARMLESS = frozenset({"seeds", "software"})
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_ABSENT = object()


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not the same.

    Attributes:
        kind: item sets, prompts, targets, versions, generation settings, data, scoring, seeds or
            software.
        task: the task it concerns.
        text: a sentence.
        serious: True if it can change what the difference means.
    """

    kind: str
    task: str
    text: str
    serious: bool


def find_mismatches(paired: PairedTask) -> list[Mismatch]:
    """Everything that differs between those who ran a task."""
    found = [
        Mismatch(kind, paired.task, f"{paired.task}: {text}", kind not in _HARMLESS)
        for kind, text in [*_items(paired), *_hashes(paired), *_settings(paired)]
    ]
    return list(dict.fromkeys(found))


def _items(paired: PairedTask) -> Iterator[tuple[str, str]]:
    shared = len(paired.keys)
    for who, scores in zip(paired.contestants, paired.scores, strict=True):
        if not scores.complete:
            yield (
                "item sets",
                f"the samples of {who.name} hold {len(scores.rows)} of {scores.expected} items "
                "(a half-written file?); run it again with --log_samples for all",
            )
        if extra := len(scores.rows) - shared:
            yield (
                "item sets",
                f"{extra} of {len(scores.rows)} items of {who.name} are not in all the others; "
                "they are left out",
            )


def _hashes(paired: PairedTask) -> Iterator[tuple[str, str]]:
    first = paired.scores[0]
    rows = first.at(paired.keys)
    for who, scores in zip(paired.contestants[1:], paired.scores[1:], strict=True):
        theirs = scores.at(paired.keys)
        for kind, what, mine, other in (
            ("prompts", "asked with another prompt", first.prompts, scores.prompts),
            ("targets", "judged by another target", first.targets, scores.targets),
        ):
            if changed := int((mine[rows] != other[theirs]).sum()):
                yield (
                    kind,
                    f"{changed} of {len(rows)} shared items were {what} for {who.name} than for "
                    f"{paired.contestants[0].name}",
                )


def _settings(paired: PairedTask) -> Iterator[tuple[str, str]]:
    task, who = paired.task, paired.contestants
    contents = [_content(one, task) for one in who]
    configs = [content.get("configs", {}).get(task) or {} for content in contents]
    runs = [content.get("config") or {} for content in contents]

    yield from _differing("versions", who, "version", [_of(c, "versions", task) for c in contents])
    yield from _differing("prompts", who, "shots", [_of(c, "n-shot", task) for c in contents])
    for fields, sources in ((_TASK_FIELDS, configs), (_RUN_FIELDS, runs), (_TOP_FIELDS, contents)):
        for kind, names in fields.items():
            for name in names:
                yield from _differing(kind, who, name, [one.get(name, _ABSENT) for one in sources])
    own = [(one.get("metadata") or {}).get("lmrel") or {} for one in configs]
    for name in dict.fromkeys(key for one in own for key in one):
        if name in ("store", "max_n", "max_missing"):
            continue
        own_kind = {"seed": "seeds", "conditions": "prompts"}.get(name, "generation settings")
        yield from _differing(
            own_kind, who, f"metadata.lmrel.{name}",
            [one.get(name, _ABSENT) for one in own],
        )  # fmt: skip


def _content(one: Contestant, task: str) -> Mapping[str, Any]:
    evaluation = one.newest(task)
    return evaluation.content if evaluation is not None else {}


def _of(content: Mapping[str, Any], key: str, task: str) -> Any:
    return (content.get(key) or {}).get(task, _ABSENT)


def _differing(
    kind: str, who: Sequence[Contestant], name: str, values: Sequence[Any]
) -> Iterator[tuple[str, str]]:
    """Sentences on a setting, split into its leaves where it is a mapping."""
    plain = [_plain(value) for value in values]
    if all(one == plain[0] for one in plain):
        return
    if all(isinstance(one, Mapping) for one in plain):
        for key in dict.fromkeys(key for one in plain for key in one):
            leaves = [one.get(key, _ABSENT) for one in plain]
            yield from _differing(kind, who, f"{name}.{key}", leaves)
        return
    shown = [_shown(one) for one in plain]
    if max(map(len, shown)) > 60 or len(set(shown)) == 1:
        yield kind, f"{name} differs between {', '.join(one.name for one in who)}"
        return
    pairs = ", ".join(f"{text} ({one.name})" for text, one in zip(shown, who, strict=True))
    yield kind, f"{name} differs: {pairs}"


def _plain(value: Any) -> Any:
    if value is None:
        return _ABSENT
    if isinstance(value, str):
        return _ADDRESS.sub("", value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _shown(value: Any) -> str:
    return "not set" if value is _ABSENT else str(value).replace("\n", "\\n")
