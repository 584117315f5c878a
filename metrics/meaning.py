"""Variance components of meaning: the decomposition of `variance` with cosines.

For unit vectors half the squared distance is 1 - cosine, so mean cosines between runs that share
item and condition (w), the item only (c), or neither (b) play the part of covariances.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.cosine import (
    CellSums,
    between_cosine,
    item_means,
    mean_products,
    means_under,
    within_cosine,
)
from lmrel_tasks.metrics.entropy import nanmean
from lmrel_tasks.metrics.variance import VarianceComponents

FloatArray = NDArray[np.float64]


def meaning_statistic(cells: CellSums) -> tuple[Callable[[FloatArray], FloatArray], int]:
    """Raw components of meaning as a function of item weights, as `variance.scalar_statistic`.

    Pairs of copies of one item are no pairs of different items, so they never enter the baseline.
    """
    if len(cells.shape) != 2:
        raise ValueError(f"cells must have shape (items, conditions), got {cells.shape}")
    known = (cells.count > 0).any(axis=1)
    if not known.all():
        cells = cells[known]
    if cells.shape[0] < 2:
        raise ValueError(f"variance components need two items with runs, got {cells.shape[0]}")
    within = nanmean(within_cosine(cells))
    between = nanmean(between_cosine(cells))
    there = cells.count > 0
    conditions = range(cells.shape[1])

    copies = there.sum(axis=1)
    item_mean = item_means(cells)
    item_square = np.einsum("id,id->i", item_mean, item_mean)
    total_square = copies**2 * item_square
    cell_square = np.diagonal(mean_products(cells), axis1=1, axis2=2)
    cell_square = np.where(there, cell_square, 0.0)

    def weighted_mean(weights: FloatArray, x: FloatArray) -> FloatArray:
        known = ~np.isnan(x)
        share = weights @ known
        total = weights @ np.where(known, x, 0.0)
        return np.divide(total, share, out=np.full(share.shape, np.nan), where=share > 0)

    def statistic(weights: FloatArray) -> FloatArray:
        w, c = weighted_mean(weights, within), weighted_mean(weights, between)
        square = weights**2
        total = weights @ item_mean
        pairs = weights.sum(axis=1) ** 2 - square.sum(axis=1)
        b = _ratio(np.einsum("bd,bd->b", total, total) - square @ item_square, pairs)
        if len(conditions) == 1:
            missing = np.full_like(w, np.nan)
            return np.stack([w - b, missing, missing, 1.0 - w])
        counted = weights @ there
        same, grand = -square @ cell_square, np.zeros_like(total)
        for p in conditions:
            of_condition = weights @ means_under(cells, p)
            same[:, p] += np.einsum("bd,bd->b", of_condition, of_condition)
            grand += of_condition
        same_pairs = (counted**2 - square @ there).sum(axis=1)
        every = np.einsum("bd,bd->b", grand, grand) - square @ total_square
        every_pairs = (weights @ copies) ** 2 - square @ copies**2
        other = _ratio(every - same.sum(axis=1), every_pairs - same_pairs)
        condition = _ratio(same.sum(axis=1), same_pairs) - other
        return np.stack([c - b, condition, w - c - condition, 1.0 - w])

    return statistic, cells.shape[0]


def _ratio(total: FloatArray, pairs: FloatArray) -> FloatArray:
    """A mean over pairs; NaN without any, where rounding would make it infinite."""
    return np.divide(total, pairs, out=np.full(total.shape, np.nan), where=pairs > 0)


def meaning_components(cells: CellSums) -> VarianceComponents:
    """Variance components of meaning, from cosines.

    Args:
        cells: `CellSums` of shape (I, P).

    Returns:
        run = 1 - w (s_r^2), item = c - b, and s_L^2 = w - c split in two: condition is how much
        closer runs about different items are under one condition than under two, what a common
        style of a condition adds, and item_condition is the rest. Their sum with run is
        s_R^2 = 1 - c. w and c are means over items of the means over cells and pairs of
        conditions; b is `cosine.item_baseline`. With one condition, item = w - b.

    Raises:
        ValueError: for a wrong shape, fewer than two items, or no cell with two runs.
    """
    statistic, items = meaning_statistic(cells)
    item, condition, cell, run = (float(x) for x in statistic(np.ones((1, items)))[:, 0])
    if np.isnan(run):
        raise ValueError("variance components need at least two runs in some cell")
    return VarianceComponents(
        item, condition, cell, run, items, cells.shape[1], int(cells.count.sum()), "cosine"
    )
