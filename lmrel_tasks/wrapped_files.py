"""From the harness's index of tasks to the YAML files of wrapped ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lmrel_tasks.suggesting import did_you_mean

CLASSES = "lmrel_tasks.wrapping"
DEFAULT_REPEATS = 10
DEFAULT_TEMPERATURE = 0.7
DEFAULT_METRICS = (
    "semantic_repeatability",
    "internal_repeatability",
    "internal_stability",
    "answer_agreement",
    "tar_answer",
    "empty_rate",
)


@dataclass(frozen=True)
class Wish:
    """What the user wants of wrapped tasks.

    Attributes:
        repeats: runs per item; None keeps an original's own number above 1, else 10.
        metrics: names of metrics to add; None for the usual ones.
        answer: arguments of the ``answer`` filter; None compares what the original's filters give.
        temperature: None keeps an original's sampling, and is 0.7 where it is greedy.
        options: ``letters`` or ``probabilities``, for ``multiple_choice`` tasks.
        prefix: put in front of the names.
    """

    repeats: int | None = None
    metrics: tuple[str, ...] | None = None
    answer: Mapping[str, Any] | None = None
    temperature: float | None = None
    options: str = "letters"
    prefix: str = "repeated_"


def checked(wish: Wish) -> Wish:
    """The wish, if it can be granted.

    Raises:
        ValueError, TypeError: saying what is wrong.
    """
    from lmrel_tasks.filters.answer import AnswerFilter
    from lmrel_tasks.measures import get_metric

    if wish.repeats is not None and wish.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {wish.repeats}")
    if wish.temperature is not None and not wish.temperature >= 0:
        raise ValueError(f"--temperature must be 0 or more, got {wish.temperature}")
    if not wish.prefix:
        raise ValueError("--prefix must not be empty: a wrapped task needs a name of its own")
    for name in wish.metrics or ():
        try:
            metric = get_metric(name)
        except KeyError as error:
            raise ValueError(f"--metrics: {error.args[0]}") from None
        if "conditions" in metric.needs or "targeted" in metric.needs:
            raise ValueError(
                f"--metrics: {name} compares conditions, and a wrapped task has one; add "
                "`conditions` to metadata.lmrel of the written YAML and name the metric there"
            )
        if "repeats" in metric.needs and wish.repeats == 1:
            raise ValueError(f"--metrics: {name} needs --repeats 2 or more")
    if wish.answer is not None:
        AnswerFilter(**wish.answer)
        if wish.answer["kind"] == "label" and not wish.answer.get("choices"):
            raise ValueError("--kind label needs --choices: the labels that an answer may be")
    return wish


def refusal(name: str, kind: str, config: Mapping[str, Any]) -> str | None:
    """Why a task cannot be wrapped; None if it can."""
    given = str(config.get("class", ""))
    if "lmrel_tasks" in given:
        return "it is a repeated task already"
    if kind == "PY_TASK" or given:
        return (
            f"it is the Python class {given.rsplit('/', 1)[-1] or name}, which makes requests and "
            "scores of its own"
        )
    if config.get("doc_to_image") is not None or config.get("doc_to_audio") is not None:
        return "it is multimodal, and runs are sampled for texts only"
    output_type = config.get("output_type", "generate_until")
    if output_type == "loglikelihood_rolling":
        return "it measures the (rolling) perplexity of fixed texts; there is no answer to repeat"
    if output_type == "loglikelihood":
        return "it measures the log-likelihood of a fixed text; there is no answer to repeat"
    if output_type not in ("generate_until", "multiple_choice"):
        return f"its output_type {output_type} is unknown"
    if config.get("use_prompt"):
        return "its prompt comes from promptsource (use_prompt)"
    steps = [
        str(step["function"])
        for one in config.get("filter_list") or ()
        for step in one.get("filter", ())
    ]
    if "regex_pos" in steps:
        return "its filter regex_pos makes lists of a text; runs are compared as texts"
    return None


def wrapped_config(name: str, kind: str, path: Path, config: Mapping[str, Any], wish: Wish) -> Any:
    """The YAML of a wrapped task without its ``class`` line: ``(class name, content)``."""
    repeats = wish.repeats or max(int(config.get("repeats") or 1), 0)
    if wish.repeats is None and repeats == 1:
        repeats = DEFAULT_REPEATS
    choice = config.get("output_type") == "multiple_choice"
    probabilities = choice and wish.options == "probabilities"
    wrap: dict[str, Any] = {"metrics": _metrics(wish, repeats, probabilities)}
    if wish.answer is not None and not choice:
        wrap["answer"] = dict(wish.answer)
    if not probabilities:
        wrap["generation"] = _generation(config.get("generation_kwargs") or {}, wish, repeats)
    metadata = config.get("metadata")
    content: dict[str, Any] = {
        "include": str(path),
        "task": f"{wish.prefix}{name}",
        "tag": [],  # the original's tags stay the original's
        "repeats": 1 if probabilities else repeats,
        "wrap": {key: value for key, value in wrap.items() if value},
        "metadata": {
            **(metadata if isinstance(metadata, Mapping) else {}),
            **({} if probabilities else {"lmrel": {"top_logprobs": 30}}),
        },
    }
    shown = "WrappedOptions" if probabilities else "LetterTask" if choice else "WrappedTask"
    return shown, content


def _metrics(wish: Wish, repeats: int, probabilities: bool) -> list[str]:
    from lmrel_tasks.measures import get_metric

    if wish.metrics is not None:
        return list(wish.metrics)
    if probabilities:
        return []
    return [one for one in DEFAULT_METRICS if repeats > 1 or "repeats" not in get_metric(one).needs]


def _generation(original: Mapping[str, Any], wish: Wish, repeats: int) -> dict[str, Any]:
    if wish.temperature is None:
        if repeats == 1 or original.get("do_sample"):
            return {}
        return {"do_sample": True, "temperature": DEFAULT_TEMPERATURE}
    return {"do_sample": wish.temperature > 0, "temperature": wish.temperature}


@dataclass
class Wrapper:
    """Collects wrapped tasks and groups, and writes them.

    Attributes:
        index: the harness's ``TaskManager.task_index``.
        wish: what is wanted.
        names: original name -> name of what it became.
        refused: original name -> why it cannot be wrapped.
        files: new name -> text of its YAML file.
    """

    index: Mapping[str, Any]
    wish: Wish
    names: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def add(self, name: str) -> str | None:
        """Wrap a task, group or tag; its new name, None if it was refused.

        Raises:
            ValueError: if the harness has nothing of that name.
        """
        if name in self.names or name in self.refused:
            return self.names.get(name)
        entry = self.index.get(name)
        if entry is None:
            hint = did_you_mean(name, self.index)
            raise ValueError(f"the harness has no task, group or tag {name!r}{hint}")
        kind = entry.kind.name
        if kind == "TAG":
            return self._group(name, sorted(entry.tags), {})
        if kind == "GROUP":
            config = entry.cfg or {}
            members = config.get("task")
            if not isinstance(members, list):
                self.refused[name] = "the group lists no tasks"
                return None
            return self._group(name, members, config)
        return self._task(name, kind, entry, {})

    def _task(self, name: str, kind: str, entry: Any, changes: Mapping[str, Any]) -> str | None:
        config = {**(entry.cfg or {}), **changes}
        reason = refusal(name, kind, config)
        if entry.yaml_path is None and reason is None:
            reason = "it has no YAML file that could be included"
        if reason is not None:
            self.refused[name] = reason
            return None
        shown, content = wrapped_config(name, kind, entry.yaml_path, config, self.wish)
        # What a group says of its member holds here too.
        own = {key: value for key, value in changes.items() if key not in _STRUCTURE}
        content = {**own, **content}
        self._write(content["task"], content, shown, f"the harness's task {name}")
        self.names[name] = content["task"]
        return self.names[name]

    def _group(
        self, name: str, members: Sequence[Any], config: Mapping[str, Any],
        inherited: Mapping[str, Any] | None = None,
    ) -> str | None:  # fmt: skip
        shared = {**_overrides(config), **(inherited or {})}
        found = [one for one in (self._member(name, one, shared) for one in members) if one]
        if not found:
            self.refused[name] = "none of its members can be wrapped"
            return None
        new = f"{self.wish.prefix}{name}"
        content: dict[str, Any] = {"group": new, "task": found}
        if config.get("group_alias"):
            content["group_alias"] = config["group_alias"]
        rows = config.get("aggregate_metric_list")
        if rows:
            rows = [rows] if isinstance(rows, Mapping) else rows
            # Ours are means over items, so items count alike.
            ours = [{"metric": one, "weight_by_size": True} for one in self._added(found)]
            content["aggregate_metric_list"] = [dict(one) for one in rows] + ours
        if isinstance(config.get("metadata"), Mapping):
            content["metadata"] = dict(config["metadata"])
        self._write(new, content, None, f"the harness's {'group' if config else 'tag'} {name}")
        self.names[name] = new
        return new

    def _added(self, members: Sequence[str]) -> list[str]:
        from lmrel_tasks.measures import get_metric
        from lmrel_tasks.metrics.registry import mean

        wanted = DEFAULT_METRICS if self.wish.metrics is None else self.wish.metrics
        texts = [self.files[one] for one in members]
        return [
            one
            for one in wanted
            if get_metric(one).aggregate is mean
            and all(f"- {one}\n" in text or "\ngroup: " in text for text in texts)
        ]

    def _member(self, group: str, member: Any, shared: Mapping[str, Any]) -> str | None:
        if isinstance(member, str):
            if self._is_task(member):
                return self._with_changes(group, member, shared)
            if not shared:
                return self.add(member)
            member = {"group": member}
        name = member.get("group") or member.get("task")
        changes = {**shared, **_overrides(member)}
        if isinstance(name, str) and self._is_task(name):
            return self._with_changes(group, name, changes)
        if isinstance(name, str) and name in self.index:
            entry = self.index[name]
            inner = entry.cfg or {}
            members = sorted(entry.tags) if entry.kind.name == "TAG" else inner.get("task", [])
            return self._group(name, members, inner, changes)
        if isinstance(name, str) and isinstance(member.get("task"), list):
            return self._group(name, member["task"], member, changes)
        self.refused[f"{group}::{name}"] = (
            "it is written inside its group's file and has no YAML of its own to include"
        )
        return None

    def _is_task(self, name: str) -> bool:
        return name in self.index and self.index[name].kind.name in ("TASK", "PY_TASK")

    def _with_changes(self, group: str, name: str, changes: Mapping[str, Any]) -> str | None:
        own = {key: value for key, value in changes.items() if key not in _STRUCTURE}
        if not own:
            return self.add(name)
        if not _plain(own):
            self.refused[f"{group}::{name}"] = (
                f"its group changes {', '.join(own)} by functions, which no other file can name"
            )
            return None
        if name in self.names:
            self.refused[f"{group}::{name}"] = f"it was wrapped already, without {group}'s changes"
            return None
        entry = self.index[name]
        return self._task(name, entry.kind.name, entry, own)

    def _write(self, name: str, content: Mapping[str, Any], shown: str | None, source: str) -> None:
        lines = [f"# Written by `lmrel wrap` from {source}."]
        if shown:
            lines.append(f"class: !function {CLASSES}.{shown}")
        text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
        self.files[name] = "\n".join([*lines, text])

    def write(self, folder: str | Path) -> list[Path]:
        """Write the files.

        Returns:
            their paths.
        """
        target = Path(folder)
        if self.files:
            target.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, text in self.files.items():
            path = target / f"{name.replace('/', '_')}.yaml"
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        return paths


_STRUCTURE = frozenset(
    {"task", "group", "tag", "group_alias", "aggregate_metric_list", "metadata", "include"}
)


def _overrides(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _STRUCTURE}


def _plain(values: Any) -> bool:
    """Whether no value is a function, which the harness's index shows as its file's path."""
    if isinstance(values, Mapping):
        return all(_plain(one) for one in values.values())
    if isinstance(values, (list, tuple)):
        return all(_plain(one) for one in values)
    if not isinstance(values, str):
        return True
    path = Path(values)
    return not (path.is_absolute() and "." in path.name and path.parent.is_dir())
