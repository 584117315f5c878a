"""The rows of the headline table: a value with its interval and where that comes from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from lmrel_tasks.group_items import member_tasks
from lmrel_tasks.metrics.bounds import proportion
from lmrel_tasks.metrics.intervals import interval_of_stderr
from lmrel_tasks.results import Evaluation
from lmrel_tasks.shares import SHARES, base_name

# Differences of sums that are equal leave errors of this size.
NOISE = 1e-12
# Where metrics can lie by definition, for rows whose items do not show it (groups, tests).
_UNIT = frozenset({
    "answer_agreement", "answer_reproducibility", "no_answer_rate", "internal_repeatability",
    "coverage", "acc_norm", "edit_fraction_targeted", "edit_fraction_benign",
}) | SHARES  # fmt: skip
_LIMITS = {
    **dict.fromkeys(_UNIT, (0.0, 1.0)),
    **{
        f"{measure}_{side}": (0.0, math.inf)
        for measure in ("mi", "jsd", "kl", "log_odds_shift")
        for side in ("targeted", "benign", "rerun", "fixed_phrase")
    },
    "semantic_entropy": (0.0, math.inf),
    "semantic_repeatability": (-1.0, 1.0),
    # The SD of two numbers in [0, 1] is at most sqrt(1/2).
    "internal_stability": (1 - math.sqrt(2), 1.0),
}  # fmt: skip


@dataclass(frozen=True)
class Headline:
    """One number of the results file.

    Attributes:
        metric, filter: its name, in two parts.
        value: None where it is undefined.
        stderr: the harness's standard error; None without one.
        ci_low, ci_high: 95 % interval; None without one.
        method: how the interval was found: ``exact``, ``t``, ``normal`` where the number of items
            is unknown, or ``own`` (rows of the results); empty without one.
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
        A metric that brings its own interval has that one. Shares of items that are 0 or 1 get
        the exact interval (Clopper-Pearson); others Student's t on the standard error, cut to
        where the metric can lie. There is none where the standard error is 0, which says nothing,
        or where it leaves [0, 1] and whether the metric can is unknown.
    """
    row = evaluation.content.get("results", {}).get(task, {})
    tasks = max(1, len(member_tasks(evaluation, task)))
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
        low: float | None
        high: float | None
        if any(_end(metric, end, filter_name) in row for end in _ENDS):
            low, high, method = _own(*own)
        else:
            size = evaluation.size(task) if present is None else len(present)
            freedom = None if size is None else size - tasks
            low, high, method = _interval(metric, number, stderr, present, freedom)
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


_Ends = tuple[float | None, float | None, str]
_NOTHING: _Ends = (None, None, "")


def _own(low: float | None, high: float | None) -> _Ends:
    """The interval of the metric's test; a test of few or equal items has none that says much."""
    if low is None or high is None or high - low <= NOISE:
        return _NOTHING
    return low, high, "own"


def _interval(
    metric: str,
    value: float | None,
    stderr: float | None,
    items: np.ndarray | None,
    freedom: int | None,
) -> _Ends:
    base = base_name(metric)
    if value is None:
        return _NOTHING
    mean_of_items = items is not None and items.size > 0 and abs(items.mean() - value) < 1e-9
    if items is not None and items.size and np.isin(items, (0.0, 1.0)).all():
        # The level is scaled by n / (n + 1): not the mean of its items, but a count of them.
        counted = mean_of_items or base == "reliability_level"
        if counted and (base in SHARES or np.unique(items).size > 1):
            exact = proportion(int(items.sum()), items.size)
            return exact.ci_low, exact.ci_high, "exact"
    if stderr is None or stderr <= NOISE:
        return _NOTHING
    low, high = interval_of_stderr(value, stderr, freedom)
    method = "t" if freedom is not None and freedom > 0 else "normal"
    least, most = -math.inf, math.inf
    if base in _LIMITS:
        least, most = _LIMITS[base]
    elif mean_of_items and items is not None and items.min() >= 0 and items.max() <= 1:
        least, most = 0.0, 1.0
    elif items is None and 0 <= value <= 1 and (low < 0 or high > 1):
        return _NOTHING
    # An estimate can lie a little outside, as an unbiased one of a mean near the limit does.
    return max(low, min(least, value)), min(high, max(most, value)), method
