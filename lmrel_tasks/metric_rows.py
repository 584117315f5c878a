"""The rows of a results table that one entry of ``metric_list`` stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.preset_metrics import under_preset
from lmrel_tasks.metrics.registry import METRICS, Metric, PerItem, takes

COMPANIONS = ("_p", "_ci_low", "_ci_high")


def rows_of(
    shown: str,
    metric: Metric,
    conditions: Sequence[str],
    *,
    preset: str | None = None,
    k: int = 30,
    per_condition: bool = True,
    targeted: Sequence[str] = (),
) -> dict[str, Metric]:
    """The metric over all conditions, then, where it has a meaning there, of each by itself.

    Args:
        shown: the name that the entry gives the metric.
        metric: with its arguments filled in.
        conditions: names of the task's conditions.
        preset: the published definition to use, if the metric has one: ``metric:preset``.
        k: candidates per token position that the task asks for, for presets.
        per_condition: False to leave out the rows ``metric@condition``.
        targeted: names of the task's targeted conditions; with several, a metric of bias has a row
            ``metric@condition`` for each, unless its argument ``targeted`` names one.
    """
    if "targeted" in metric.needs and len(targeted) > 1 and takes(metric, "targeted"):
        return {f"{shown}@{name}": metric.bind({"targeted": name}) for name in targeted}
    defined = under_preset(metric, preset, k) if preset else metric
    name = f"{shown}:{preset}" if defined is not metric else shown
    rows = {name: defined}
    if per_condition and metric.per_condition and len(conditions) > 1:
        for condition in conditions:
            only = partial(_under, per_item=defined.per_item, condition=condition)
            rows[f"{name}@{condition}"] = replace(defined, per_item=only)
    return rows


def companions_of(name: str) -> list[str]:
    """Suffixes of the metrics that belong to one: its p-value and the ends of its interval."""
    return [suffix for suffix in COMPANIONS if f"{name}{suffix}" in METRICS]


def _under(item: Item, per_item: PerItem, condition: str) -> float | None:
    one = item.condition(condition)
    return None if one is None else per_item(replace(item, conditions=(one,)))
