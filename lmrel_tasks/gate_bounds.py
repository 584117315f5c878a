"""One-sided confidence bounds of reported numbers, from their items or their standard errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lmrel_tasks.group_items import member_tasks, pooled_items, without_results
from lmrel_tasks.measures import METRICS
from lmrel_tasks.metrics.bounds import clopper_pearson
from lmrel_tasks.metrics.intervals import quantile_of_stderr
from lmrel_tasks.metrics.registry import mean
from lmrel_tasks.paired_results import read_scores
from lmrel_tasks.results import Evaluation
from lmrel_tasks.shares import base_name
from lmrel_tasks.suggesting import listed

# Both are counts of items whose most frequent answer is right.
_LEVELS = ("reliability_level", "reliability_lower")


def bound(
    evaluation: Evaluation, task: str, key: str, value: float, confidence: float, *, lower: bool
) -> tuple[float, str]:
    """The one-sided bound of a value, and what it is called.

    Args:
        evaluation, task: which; the task may be a group.
        key: ``metric,filter``.
        value: as reported.
        confidence: of the bound.
        lower: True for the lower bound, False for the upper one.

    Raises:
        ValueError: if there is nothing to compute it from, or items without spread.
        FileNotFoundError: if it needs samples that were not logged.
    """
    side = "lower" if lower else "upper"
    shown = f"{100 * confidence:g} % {side} bound"
    metric, name = key.rsplit(",", 1)
    members = member_tasks(evaluation, task)
    if members:
        values = pooled_items(
            evaluation, task, key, lambda one: _items(evaluation, one, metric, name)
        )
    else:
        values = _items(evaluation, task, metric, name)
    n = None if values is None else len(values)
    base = base_name(metric)
    if base in _LEVELS or _is_share(values, base, value):
        if values is None and (lacking := without_results(evaluation, task)):
            raise ValueError(
                f"{metric} is bounded from its items, and {listed(lacking)} of {task} have no "
                "results; run the evaluation again with all its tasks"
            )
        if values is None and members and all(map(evaluation.samples_path, members)):
            raise ValueError(
                f"{metric} is bounded from its items, and those of {task} cannot be pooled with "
                f"the group's weights; gate its tasks ({listed(members)})"
            )
        if values is None:
            raise ValueError(
                f"{metric} is bounded from its items, which were not logged; run the evaluation "
                "with --log_samples"
            )
        low, high = clopper_pearson(
            int(values.sum()), len(values), confidence, "greater" if lower else "less"
        )
        return float(low if lower else high), f"exact {shown} ({len(values)} items)"
    error = evaluation.content["results"][task].get(f"{metric}_stderr,{name}")
    if isinstance(error, bool) or not isinstance(error, (int, float)) or not error >= 0:
        raise ValueError(
            f"no standard error of {metric}; run the evaluation with --log_samples, or leave out "
            '"with ... confidence"'
        )
    if error == 0:
        instead = (
            f"gate its member tasks ({listed(there)})"
            if (there := [one for one in members if one in evaluation.content["results"]])
            else 'leave out "with ... confidence"'
        )
        raise ValueError(
            f"the standard error of {metric} is 0, which bounds nothing: items that agree exactly "
            f"show no spread; {instead}"
        )
    n = n or evaluation.size(task) or sum(evaluation.size(one) or 0 for one in members)
    freedom = n - max(1, len(members))
    reach = quantile_of_stderr(confidence, freedom) * error
    return value - reach if lower else value + reach, f"{shown} (± {error:.4f})"


def _items(
    evaluation: Evaluation, task: str, metric: str, name: str
) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The items' values of a metric; None without samples.

    Raises:
        ValueError: if the sample file is not complete.
    """
    if evaluation.samples_path(task) is None:
        return None
    scores = read_scores(evaluation, task).get(name)
    if scores is None or metric not in scores.values:
        return None
    if not scores.complete:
        raise ValueError(
            f"the sample file holds {len(scores.rows)} of {scores.expected} items (half-written?); "
            "run the evaluation again with --log_samples"
        )
    values = scores.values[metric]
    return values[~np.isnan(values)]


def _is_share(values: Any, base: str, value: float) -> bool:
    """True if the reported value is the share of items that count 1, and the others 0."""
    if values is None or not len(values) or not np.isin(values, (0.0, 1.0)).all():
        return False
    if base in METRICS and METRICS[base].aggregate is not mean:
        return False
    return math.isclose(float(values.mean()), value, rel_tol=1e-9, abs_tol=1e-12)
