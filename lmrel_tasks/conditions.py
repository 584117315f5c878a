"""Conditions: the ways in which one item is asked, declared in ``metadata.lmrel.conditions``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

DEFAULT = "default"

# Fields of the harness's own task configuration that a condition may replace.
PROMPT_FIELDS = ("doc_to_text", "description", "gen_prefix", "target_delimiter", "num_fewshot")
OWN_FIELDS = ("name", "system", "fewshot_seed", "generation_kwargs")


@dataclass(frozen=True)
class ConditionSpec:
    """One way of asking an item.

    Attributes:
        name: what the condition is called in results.
        prompt: task fields that it replaces (`PROMPT_FIELDS`), as in the task's YAML.
        system: system instruction put before the command line's.
        fewshot_seed: seed of the few-shot sampler; the same shots as the others if None.
        generation: generation settings that it changes.
    """

    name: str = DEFAULT
    prompt: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    fewshot_seed: int | None = None
    generation: Mapping[str, Any] = field(default_factory=dict)


def read_conditions(task: str, declared: Sequence[Any]) -> tuple[ConditionSpec, ...]:
    """The conditions of a task; one plain condition if it declares none.

    Raises:
        ValueError, TypeError: naming the task and the field.
    """
    if not declared:
        return (ConditionSpec(),)
    return tuple(_read(task, number, one) for number, one in enumerate(declared))


def _read(task: str, number: int, declared: Any) -> ConditionSpec:
    where = f"task {task}: metadata.lmrel.conditions[{number}]"
    if not isinstance(declared, Mapping):
        raise TypeError(f"{where} must be a mapping with a name, not {declared!r}")
    name = declared.get("name")
    if not isinstance(name, str) or not name or "," in name:
        raise ValueError(f"{where} needs a name without commas, got {name!r}")
    known = (*OWN_FIELDS, *PROMPT_FIELDS)
    unknown = [key for key in declared if key not in known]
    if unknown:
        raise ValueError(f"{where} ({name}): unknown field {unknown[0]!r}; known: {known}")
    generation = declared.get("generation_kwargs") or {}
    if not isinstance(generation, Mapping):
        raise TypeError(f"{where} ({name}): generation_kwargs must be a mapping")
    return ConditionSpec(
        name=name,
        prompt={key: declared[key] for key in PROMPT_FIELDS if key in declared},
        system=declared.get("system"),
        fewshot_seed=declared.get("fewshot_seed"),
        generation=dict(generation),
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
    shots_before = {key: getattr(shots, key) for key in shot_fields}
    try:
        for key, value in condition.prompt.items():
            setattr(config, key, value)
        for key in shot_fields:
            setattr(shots, key, condition.prompt[key])
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
