"""Conditions: the ways in which one item is asked, declared in ``metadata.lmrel.conditions``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lmrel_tasks.edits import EDIT_FIELDS, Edit, check_family, read_edit
from lmrel_tasks.option_order import REVERSED

DEFAULT = "default"

# Fields of the harness's own task configuration that a condition may replace.
PROMPT_FIELDS = ("doc_to_text", "description", "gen_prefix", "target_delimiter", "num_fewshot")
OWN_FIELDS = (
    "name", "system", "fewshot_seed", "fewshot_target", "option_order", "generation_kwargs",
)  # fmt: skip
_TYPES: dict[str, tuple[type, ...]] = {
    "system": (str,),
    "fewshot_seed": (int,),
    "fewshot_target": (str,),
    "option_order": (int, str),
    "num_fewshot": (int,),
    "description": (str,),
}


@dataclass(frozen=True)
class ConditionSpec:
    """One way of asking an item.

    Attributes:
        name: what the condition is called in results.
        prompt: task fields that it replaces (`PROMPT_FIELDS`), as in the task's YAML.
        system: system instruction put before the command line's.
        fewshot_seed: seed of the few-shot sampler; the same shots as the others if None.
        fewshot_target: what the few-shot examples answer, as a template; as ``doc_to_target`` of
            the task's ``fewshot_config``.
        option_order: order of the answer options: ``reversed``, or the seed of a random order that
            is drawn for each document; see `lmrel_tasks.option_order`. None keeps the data's.
        generation: generation settings that it changes.
        edit: what it does to the item's text in a bias experiment; see `lmrel_tasks.edits`.
    """

    name: str = DEFAULT
    prompt: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    fewshot_seed: int | None = None
    fewshot_target: str | None = None
    option_order: int | str | None = None
    generation: Mapping[str, Any] = field(default_factory=dict)
    edit: Edit | None = None


def read_conditions(
    task: str, declared: Sequence[Any], text: str | None = None
) -> tuple[ConditionSpec, ...]:
    """The conditions of a task; one plain condition if it declares none.

    Args:
        task: the task's name, for messages.
        declared: ``metadata.lmrel.conditions``.
        text: the field that holds the text which conditions with a role edit.

    Raises:
        ValueError, TypeError: naming the task and the field.
    """
    if not declared:
        return (ConditionSpec(),)
    read = tuple(_read(task, number, one, text) for number, one in enumerate(declared))
    check_family(task, {one.name: one.edit for one in read if one.edit is not None})
    return read


def _read(task: str, number: int, declared: Any, text: str | None) -> ConditionSpec:
    where = f"task {task}: metadata.lmrel.conditions[{number}]"
    if not isinstance(declared, Mapping):
        raise TypeError(f"{where} must be a mapping with a name, not {declared!r}")
    name = declared.get("name")
    if not isinstance(name, str) or not name or "," in name:
        raise ValueError(f"{where} needs a name without commas, got {name!r}")
    known = (*OWN_FIELDS, *PROMPT_FIELDS, *EDIT_FIELDS)
    unknown = [key for key in declared if key not in known]
    if unknown:
        raise ValueError(f"{where} ({name}): unknown field {unknown[0]!r}; known: {known}")
    generation = declared.get("generation_kwargs") or {}
    if not isinstance(generation, Mapping):
        raise TypeError(f"{where} ({name}): generation_kwargs must be a mapping")
    for key, wanted in _TYPES.items():
        value = declared.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, wanted)):
            kinds = " or ".join(kind.__name__ for kind in wanted)
            raise TypeError(f"{where} ({name}): {key} must be {kinds}, not {value!r}")
    order = declared.get("option_order")
    if isinstance(order, str) and order != REVERSED:
        raise ValueError(f"{where} ({name}): option_order is {REVERSED!r} or a seed, not {order!r}")
    for key in ("doc_to_text", "gen_prefix", "target_delimiter"):
        given = declared.get(key, "")
        if not isinstance(given, str) and not callable(given):
            raise TypeError(f"{where} ({name}): {key} must be a text, not {given!r}")
    if (declared.get("num_fewshot") or 0) < 0:
        raise ValueError(f"{where} ({name}): num_fewshot must not be negative")
    return ConditionSpec(
        name=name,
        prompt={key: declared[key] for key in PROMPT_FIELDS if key in declared},
        system=declared.get("system"),
        fewshot_seed=declared.get("fewshot_seed"),
        fewshot_target=declared.get("fewshot_target"),
        option_order=order,
        generation=dict(generation),
        edit=read_edit(f"{where} ({name})", declared, text),
    )


@contextmanager
def asked_under(task: Any, condition: ConditionSpec) -> Iterator[None]:
    """Replace the task's prompt fields by the condition's for the length of a block.

    Few-shot examples follow the condition's template unless the task gives them their own.
    """
    config, shots = task._config, task.fewshot_cfg
    before = {key: getattr(config, key) for key in condition.prompt}
    shot_fields = [
        key
        for key in ("doc_to_text", "gen_prefix", "target_delimiter")
        if key in condition.prompt and getattr(shots, key, None) == before[key]
    ]
    for_shots = {key: condition.prompt[key] for key in shot_fields}
    if condition.fewshot_target is not None:
        for_shots["doc_to_target"] = condition.fewshot_target
    shots_before = {key: getattr(shots, key) for key in for_shots}
    try:
        for key, value in condition.prompt.items():
            setattr(config, key, value)
        for key, value in for_shots.items():
            setattr(shots, key, value)
        yield
    finally:
        for key, value in before.items():
            setattr(config, key, value)
        for key, value in shots_before.items():
            setattr(shots, key, value)


def joined(*parts: str | None) -> str | None:
    """System instructions one after the other, or None without any."""
    present = [part for part in parts if part]
    return "\n\n".join(present) if present else None
