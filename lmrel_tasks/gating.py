"""Conditions on results that a release has to meet: read from YAML, judged, with reasons.

    lmrel_gsm8k:
      reliability_lower: ">= 0.90"
      semantic_repeatability: ">= 0.8 with 95% confidence"

A condition "with c % confidence" is judged by a one-sided bound: exact (Clopper-Pearson) where the
metric is a share of items that each count 0 or 1, else value and standard error with Student's t.
A group's items are those of its tasks, pooled; that some tasks are easier than others only makes
the exact bound wider than it need be (Hoeffding, Annals of Mathematical Statistics 27 (1956)).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from lmrel_tasks.gate_bounds import bound
from lmrel_tasks.metrics.bounds import check_probability
from lmrel_tasks.results import Evaluation
from lmrel_tasks.suggesting import did_you_mean, listed

_CONDITION = re.compile(
    r"(?P<operator>>=|<=|>|<)\s*(?P<number>[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)\s*(?P<percent>%?)"
    r"(\s+with\s+(?P<confidence>\d+\.?\d*)\s*%\s+confidence)?"
)
_OPERATORS = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
}

Status = Literal["pass", "fail", "error"]


@dataclass(frozen=True)
class GateCondition:
    """One condition.

    Attributes:
        task: name or pattern (``lmrel_mmlu_*``) of tasks or groups.
        metric: name, with its filter as in ``exact_match,strict-match`` where there are several.
        operator: ``>=``, ``>``, ``<=`` or ``<``.
        threshold: the number.
        confidence: of the one-sided bound that is held against it; None for the value itself.
        text: as written.
    """

    task: str
    metric: str
    operator: str
    threshold: float
    confidence: float | None
    text: str


@dataclass(frozen=True)
class Judgement:
    """A condition on one model's task.

    Attributes:
        model, task, metric, condition: what was judged.
        value: as reported; NaN if there is none.
        tested: what was held against the threshold: the value, or a confidence bound of it.
        status: pass, fail, or error where it could not be judged.
        reason: why, in words.
    """

    model: str
    task: str
    metric: str
    condition: str
    value: float
    tested: float
    status: Status
    reason: str


def read_gate(path: str | Path) -> list[GateCondition]:
    """The conditions of a gate file.

    Raises:
        FileNotFoundError: without the file.
        ValueError: if it is no gate file, naming task and metric and what to write.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: no text in UTF-8 ({error}); save it as UTF-8") from None
    except yaml.YAMLError as error:
        raise ValueError(
            f'{path}: not readable as YAML ({error}); put conditions in quotes: acc: ">= 0.9"'
        ) from None
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path}: a gate file maps tasks to conditions of their metrics")
    found = []
    for task, metrics in content.items():
        if not isinstance(metrics, Mapping) or not metrics:
            raise ValueError(f'{path}: task {task} needs conditions, as {{acc: ">= 0.9"}}')
        for metric, written in metrics.items():
            for text in written if isinstance(written, list) else [written]:
                try:
                    found.append(read_condition(str(task), str(metric), text))
                except ValueError as error:
                    raise ValueError(f"{path}: {error}") from None
    return found


def read_condition(task: str, metric: str, text: Any) -> GateCondition:
    """A condition such as ``>= 0.8``, ``< 5%`` or ``>= 0.8 with 95% confidence``.

    Raises:
        ValueError: if it is written otherwise.
    """
    match = _CONDITION.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f'{task}, {metric}: {text!r} is no condition; write ">= 0.9" or '
            '">= 0.8 with 95% confidence" (>=, >, <=, <)'
        )
    confidence = match["confidence"]
    if confidence is not None:
        confidence = check_probability(float(confidence) / 100, f"{task}, {metric}: confidence")
    threshold = float(match["number"]) / (100 if match["percent"] else 1)
    return GateCondition(task, metric, match["operator"], threshold, confidence, text.strip())


def judge(
    conditions: Sequence[GateCondition], evaluations: Sequence[Evaluation]
) -> list[Judgement]:
    """Every condition on every model; a task or metric that is not there is an error.

    Args:
        conditions: from `read_gate`.
        evaluations: newest of each model and set of tasks; where a task is in several of a
            model's in one folder, the newest counts.
    """
    models: dict[tuple[str, Path], list[Evaluation]] = {}
    for one in sorted(evaluations, key=lambda one: one.age, reverse=True):
        models.setdefault((one.model, one.path.parent), []).append(one)
    names = [name for name, _ in models]
    found = []
    for (name, folder), theirs in models.items():
        model = name if names.count(name) == 1 else f"{name} ({folder})"
        known: dict[str, Evaluation] = {}
        for one in theirs:
            for task in one.content["results"]:
                known.setdefault(task, one)
        for condition in conditions:
            tasks = [task for task in known if fnmatchcase(task, condition.task)]
            if not tasks:
                reason = (
                    f"no results of {condition.task}{did_you_mean(condition.task, known)}; there "
                    f"are {listed(known)}"
                )
                found.append(_error(model, condition.task, condition, math.nan, reason))
            found += [_judge(model, task, known[task], condition) for task in tasks]
    return found


def _judge(model: str, task: str, evaluation: Evaluation, condition: GateCondition) -> Judgement:
    row = evaluation.content["results"][task]
    keys = [key for key in row if _is(key, condition.metric)]
    if len(keys) != 1:
        there = [key.removesuffix(",none") for key in row if "," in key and "_stderr," not in key]
        reason = (
            f"several filters; name one of {', '.join(keys)}"
            if keys
            else f"no metric {condition.metric}{did_you_mean(condition.metric, there)}; there are "
            f"{', '.join(there)}"
        )
        return _error(model, task, condition, math.nan, reason)
    (key,) = keys
    value = row[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        return _error(model, task, condition, math.nan, f"its value is {value!r}, not a number")
    if condition.confidence is None:
        tested, how = float(value), "value"
    else:
        try:
            tested, how = bound(
                evaluation, task, key, float(value), condition.confidence,
                lower=condition.operator.startswith(">"),
            )  # fmt: skip
        except (ValueError, OSError) as error:
            return _error(model, task, condition, float(value), str(error))
    holds = bool(_OPERATORS[condition.operator](tested, condition.threshold))
    # Rounding must not make a failure look like a pass.
    digits = next(d for d in range(4, 17) if d == 16 or _holds(tested, condition, d) == holds)
    reason = (
        f"{how} {tested:.{digits}f} is {'' if holds else 'not '}{condition.operator} "
        f"{condition.threshold:g}"
    )
    return Judgement(
        model, task, condition.metric, condition.text, float(value), tested,
        "pass" if holds else "fail", reason,
    )  # fmt: skip


def _holds(tested: float, condition: GateCondition, digits: int) -> bool:
    return bool(_OPERATORS[condition.operator](round(tested, digits), condition.threshold))


def _error(model: str, task: str, condition: GateCondition, value: float, reason: str) -> Judgement:
    return Judgement(
        model, task, condition.metric, condition.text, value, math.nan, "error", reason
    )


def _is(key: str, metric: str) -> bool:
    if key == metric or key == f"{metric},none":
        return True
    return "," not in metric and "," in key and key.split(",")[0] == metric
