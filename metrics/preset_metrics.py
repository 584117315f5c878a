"""Metrics under a published definition, for tasks with ``metadata.lmrel.preset``."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from lmrel_tasks.metrics.cosine import CellSums
from lmrel_tasks.metrics.entropy import nanmean
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.presets import preset_scores
from lmrel_tasks.metrics.registry import Metric, get_metric

DEFINED = (
    "semantic_repeatability",
    "semantic_reproducibility",
    "internal_repeatability",
    "internal_reproducibility",
)


def under_preset(metric: Metric, preset: str, k: int) -> Metric:
    """The metric as the preset defines it, named ``metric:preset``; others stay as they are.

    Args:
        metric: any metric; a preset defines those in `DEFINED`.
        preset: a key of `presets.PRESETS`.
        k: candidates per token position that the task asks for.

    The published scores belong to one item; the reported number is their mean over items, and
    over conditions for repeatability, with the standard error of that mean.
    """
    if metric.name not in DEFINED:
        return metric
    return replace(
        metric,
        name=f"{metric.name}:{preset}",
        per_item=partial(_value, name=metric.name, preset=preset, k=k),
        aggregate=get_metric(metric.name).aggregate,
    )


def _value(item: Item, name: str, preset: str, k: int) -> float | None:
    if "reproducibility" in name and len(item.conditions) < 2:
        return None
    sums, bits = item.sums, None
    if name.startswith("internal"):
        bits = _entropies(item)
        if bits is None:
            return None
    elif sums is None:
        return None
    # Internal scores need no embeddings, only the number of conditions.
    cells = _no_sums(len(item.conditions)) if sums is None else sums
    score = getattr(preset_scores(preset, cells, bits, max(k, 2)), name)
    value = float(nanmean(np.atleast_1d(score)))
    return None if math.isnan(value) else value


def _entropies(item: Item) -> np.ndarray | None:
    """(P, R) mean token entropies in bits, padded with NaN; None if none was captured."""
    width = max((one.entropy.size for one in item.conditions), default=0)
    bits = np.full((len(item.conditions), width), np.nan)
    for row, one in zip(bits, item.conditions, strict=True):
        row[: one.entropy.size] = one.entropy
    return None if np.isnan(bits).all() else bits


def _no_sums(conditions: int) -> CellSums:
    nothing = np.zeros(conditions, dtype=np.int64)
    return CellSums(nothing, np.zeros((conditions, 1)), np.zeros(conditions), nothing)
