"""The rows of the headline table: a value with its interval and where that comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lmrel_tasks.metrics.bounds import proportion
from lmrel_tasks.results import Evaluation

Z = 1.959963984540054

# What is 0 or 1 of an item by definition, so that "all items alike" is a share too.
_SHARES = frozenset({
    "acc", "exact_match", "mode_acc", "tar_answer", "tar_raw", "capability_gap", "empty_rate",
    "missing_rate", "reliability_level", "flip_rate_targeted", "flip_rate_benign",
    "flip_rate_rerun", "flip_rate_fixed_phrase", "benign_missing_rate", "applicable_rate",
})  # fmt: skip


@dataclass(frozen=True)
class Headline:
    """One number of the results file.

    Attributes:
        metric, filter: its name, in two parts.
        value: None where it is undefined.
        stderr: the harness's standard error; None without one.
        ci_low, ci_high: 95 % interval; None without one.
        method: how the interval was found: ``exact``, ``normal`` or ``own`` (rows of the results).
        higher_is_better: direction; None if unknown.
        n: items with a value; None without samples.
    """

    metric: str
    filter: str
    value: float | None
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    method: str
    higher_is_better: bool | None
    n: int | None


def headlines(
    evaluation: Evaluation, task: str, values: Mapping[str, np.ndarray]
) -> Iterator[Headline]:
    """All metrics of a task, in the order of the results file.

    Args:
        evaluation: the harness's results.
        task: a task or group.
        values: ``metric,filter`` -> values of the items.

    Yields:
        Shares of items that are 0 or 1 get the exact interval (Clopper-Pearson), since a standard
        error of 0 says nothing; others value +/- 1.96 standard errors, cut to [0, 1] where every
        item lies there.
    """
    row = evaluation.content.get("results", {}).get(task, {})
    directions = evaluation.content.get("higher_is_better", {}).get(task, {})
    for key, value in row.items():
        metric, comma, filter_name = key.partition(",")
        if not comma or metric.endswith("_stderr") or _is_end(metric, filter_name, row):
            continue
        items = values.get(key)
        present = items[~np.isnan(items)] if items is not None else None
        number = _number(value)
        stderr = _number(row.get(f"{metric}_stderr,{filter_name}"))
        own = [_number(row.get(_end(metric, end, filter_name))) for end in _ENDS]
        if None in own:
            low, high, method = _interval(metric, number, stderr, present)
        else:
            low, high, method = *own, "own"
        yield Headline(
            metric, filter_name, number, stderr, low, high, method, directions.get(metric),
            None if present is None else len(present),
        )  # fmt: skip


_ENDS = ("_ci_low", "_ci_high")


def _end(metric: str, end: str, filter_name: str) -> str:
    """Key of an end of the interval that a metric brings itself."""
    name, at, condition = metric.partition("@")
    return f"{name}{end}{at}{condition},{filter_name}"


def _is_end(metric: str, filter_name: str, row: Mapping[str, object]) -> bool:
    name, at, condition = metric.partition("@")
    return any(
        name.endswith(end) and f"{name.removesuffix(end)}{at}{condition},{filter_name}" in row
        for end in _ENDS
    )


def _number(value: object) -> float | None:
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if plain and math.isfinite(value) else None  # type: ignore[arg-type]


def _interval(
    metric: str, value: float | None, stderr: float | None, items: np.ndarray | None
) -> tuple[float | None, float | None, str]:
    if value is None:
        return None, None, ""
    if (
        items is not None
        and items.size
        and np.isin(items, (0.0, 1.0)).all()
        and (metric.partition("@")[0] in _SHARES or np.unique(items).size > 1)
    ):
        successes = int(items.sum())
        if abs(successes / items.size - value) < 1e-9:
            exact = proportion(successes, items.size)
            return exact.ci_low, exact.ci_high, "exact"
    if stderr is None:
        return None, None, ""
    low_, high_ = value - Z * stderr, value + Z * stderr
    if items is not None and items.size and items.min() >= 0 and items.max() <= 1 and value <= 1:
        low_, high_ = max(0.0, low_), min(1.0, high_)
    return low_, high_, "normal"
