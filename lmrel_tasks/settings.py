"""The plugin's settings of a task: ``metadata: {lmrel: {...}}`` in its YAML, checked."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_args

from lmrel_tasks.metrics.presets import PRESETS
from lmrel_tasks.metrics.stopping import Rule

STORE_VARIABLE = "LMREL_STORE"
EMBEDDER_VARIABLE = "LMREL_EMBEDDER"
READ_VARIABLE = "LMREL_READ"
# How option probabilities are read; see `lmrel_tasks.options`.
READINGS = ("loglikelihood", "first_token", "samples")


@dataclass(frozen=True)
class Settings:
    """What ``metadata.lmrel`` may hold.

    Attributes:
        top_logprobs: log-probabilities captured per token; 0 captures none.
        logprobs: ``raw`` captures the model's own distribution, ``sampling`` the warped one.
        conditions: the ways of asking each item; see `lmrel_tasks.conditions`.
        embedder: sentence-transformers model name or folder.
        store: SQLite file that keeps every run; the environment variable LMREL_STORE otherwise.
        seed: seed of the draws; the harness's ``--seed`` otherwise.
        max_n: most runs that one API request may ask for.
        max_missing: share of runs that may be missing before the task fails.
        stopping: sequential stopping rule, ``{rule: curtail}``.
        preset: published definition of the repeatability metrics to reproduce; see
            `lmrel_tasks.metrics.presets`.
        option_fields: names of the documents' fields with the answer options and the label, for
            conditions with ``option_order``; see `lmrel_tasks.option_order`.
        text: name of the documents' field whose text the conditions of a bias experiment edit; see
            `lmrel_tasks.edits`.
        read: how the option probabilities of a ``multiple_choice`` task are read:
            ``loglikelihood`` (default), ``first_token`` or ``samples``; the environment variable
            LMREL_READ comes first. See `lmrel_tasks.options`.
        samples: answers drawn per condition with ``read: samples``.
    """

    top_logprobs: int = 30
    logprobs: str = "raw"
    conditions: tuple[Mapping[str, Any], ...] = ()
    embedder: str | None = None
    store: str | None = None
    seed: int | None = None
    max_n: int | None = None
    max_missing: float = 0.01
    stopping: Mapping[str, Any] | None = None
    preset: str | None = None
    option_fields: Mapping[str, str] | None = None
    text: str | None = None
    read: str | None = None
    samples: int = 10


_TYPES: dict[str, tuple[type, ...]] = {
    "top_logprobs": (int,),
    "logprobs": (str,),
    "conditions": (list, tuple),
    "embedder": (str,),
    "store": (str,),
    "seed": (int,),
    "max_n": (int,),
    "max_missing": (int, float),
    "stopping": (dict, str),
    "preset": (str,),
    "option_fields": (dict,),
    "text": (str,),
    "read": (str,),
    "samples": (int,),
}


def read_settings(task: str, metadata: Mapping[str, Any] | None) -> Settings:
    """Check ``metadata.lmrel`` of a task.

    Args:
        task: the task's name, for messages.
        metadata: the task's whole ``metadata``.

    Raises:
        ValueError: for an unknown key or a value out of range.
        TypeError: for a value of the wrong type.
    """
    given = (metadata or {}).get("lmrel", {})
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise TypeError(f"task {task}: metadata.lmrel must be a mapping, not {given!r}")
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in _TYPES:
            raise ValueError(f"task {task}: unknown setting metadata.lmrel.{key}; {_hint(key)}")
        if value is None:
            continue
        _check_type(task, key, value)
        values[key] = value
    if isinstance(values.get("stopping"), str):
        values["stopping"] = {"rule": values["stopping"]}
    if "conditions" in values:
        values["conditions"] = tuple(values["conditions"])
    if os.environ.get(READ_VARIABLE):
        values["read"] = os.environ[READ_VARIABLE]
    _check_ranges(task, values)
    values.setdefault("store", os.environ.get(STORE_VARIABLE) or None)
    values.setdefault("embedder", os.environ.get(EMBEDDER_VARIABLE) or None)
    return Settings(**values)


def check_generation(where: str, settings: Any) -> None:
    """Refuse generation settings that no backend could draw with.

    Raises:
        TypeError, ValueError: naming the place and the field.
    """
    if not isinstance(settings, Mapping):
        raise TypeError(f"{where}: generation_kwargs must be a mapping, got {settings!r}")
    temperature = settings.get("temperature")
    if temperature is None:
        return
    try:
        number = float(temperature)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(
            f"{where}: generation_kwargs.temperature must be a number of 0 or more, "
            f"got {temperature!r}"
        )


def sampling_temperature(settings: Mapping[str, Any]) -> float:
    """The temperature that runs are drawn at; 0 where the settings mean greedy decoding."""
    temperature, sampled = settings.get("temperature"), settings.get("do_sample")
    if sampled is False or (sampled is None and temperature is None):
        return 0.0
    return 1.0 if temperature is None else float(temperature)


def _check_type(task: str, key: str, value: Any) -> None:
    wanted = _TYPES[key]
    if isinstance(value, bool) or not isinstance(value, wanted):
        names = " or ".join(kind.__name__ for kind in wanted)
        raise TypeError(
            f"task {task}: metadata.lmrel.{key} must be {names}, "
            f"not {type(value).__name__} ({value!r})"
        )


def _check_ranges(task: str, values: Mapping[str, Any]) -> None:
    def refuse(key: str, rule: str) -> None:
        raise ValueError(f"task {task}: metadata.lmrel.{key} {rule}, got {values[key]!r}")

    if values.get("top_logprobs", 0) < 0 or values.get("top_logprobs", 2) == 1:
        refuse("top_logprobs", "must be 0 (off) or at least 2")
    if values.get("logprobs", "raw") not in ("raw", "sampling"):
        refuse("logprobs", "must be raw or sampling")
    if values.get("read", "samples") not in READINGS:
        refuse("read", f"must be one of {', '.join(READINGS)}")
    if values.get("samples", 1) < 1:
        refuse("samples", "must be at least 1")
    if values.get("max_n", 1) < 1:
        refuse("max_n", "must be at least 1")
    if not 0 <= values.get("max_missing", 0) <= 1:
        refuse("max_missing", "must be a share between 0 and 1")
    stopping = values.get("stopping")
    if stopping is not None:
        rules = get_args(Rule)
        if stopping.get("rule") not in rules or set(stopping) - {"rule", "delta"}:
            refuse("stopping", f"must be {{rule: one of {', '.join(rules)}, delta: 0.05}}")
        delta = stopping.get("delta", 0.05)
        if not isinstance(delta, (int, float)) or not 0 < delta < 1:
            refuse("stopping", "needs a delta between 0 and 1")
    if values.get("preset") is not None and values["preset"] not in PRESETS:
        refuse("preset", f"must be one of {', '.join(PRESETS)}")
    options = values.get("option_fields")
    if options is not None and set(options) != {"choices", "answer"}:
        refuse("option_fields", "must be {choices: FIELD, answer: FIELD}")
    names = [_name(one) for one in values.get("conditions", ())]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        refuse("conditions", f"must have different names; {repeated[0]!r} is there twice")


def _name(condition: Any) -> Any:
    return condition.get("name") if isinstance(condition, Mapping) else condition


def _hint(key: str) -> str:
    known: Sequence[str] = [one.name for one in fields(Settings)]
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known settings: {', '.join(known)}"
