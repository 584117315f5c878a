"""Cosine similarity of runs within cells, between conditions and between items.

A cell holds the runs of one item under one condition. All statistics here are means over pairs of
runs, yet none needs the pairs, nor even the runs: the sum of a cell's unit vectors, their number
and their scatter are enough. So a caller streams over cells and keeps one `CellSums`.

With unit vectors e and S = sum of the R runs of a cell:

* within a cell, the mean pairwise cosine is w = (||S||^2 - R) / (R (R - 1)), equal to
  1 - sum ||e - mean||^2 / (R - 1), the form used since it is exact when vectors nearly coincide;
* between conditions p and q of an item it is c_pq = S_p . S_q / (R_p R_q);
* between items it is the baseline b, what unrelated texts score with this embedder.

Missing runs (rows with NaN, rows of zeros, or simply fewer rows) leave the sums; missing results
are NaN and leave the averages. With unequal numbers of runs every cell and every pair of conditions
of an item, and every pair of items, counts the same, whatever the number of runs behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.entropy import nanmean

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class CellSums:
    """What the cosine statistics need of the runs of one cell, or of an array of cells.

    Attributes:
        count: (...) number of runs with an embedding.
        total: (..., d) sum of their unit vectors, float64.
        scatter: (...) sum of squared distances of the unit vectors to their mean.
        missing: (...) number of runs without an embedding.
    """

    count: NDArray[np.int64]
    total: FloatArray
    scatter: FloatArray
    missing: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, ...]:
        """Leading shape: () for one cell, (P,) for an item, (I, P) for items."""
        return self.total.shape[:-1]

    def __getitem__(self, index: Any) -> CellSums:
        """Select among the leading axes, as in ``cells[i]`` or ``cells[:, p]``."""
        return CellSums(
            np.asarray(self.count[index]),
            self.total[index],
            np.asarray(self.scatter[index]),
            np.asarray(self.missing[index]),
        )


def cell_sums(embeddings: ArrayLike) -> CellSums:
    """Sums of the runs of a cell, or of a batch of cells with equally many rows.

    Args:
        embeddings: (..., R, d) vectors of any length other than zero; they are normalised here in
            float64. A row that is all zeros or holds a NaN or infinite value is a missing run.

    Returns:
        `CellSums` of shape (...).

    Raises:
        ValueError: if there are fewer than two axes, or d is 0 while there are rows.
    """
    x = np.asarray(embeddings, dtype=np.float64)
    if x.ndim < 2:
        raise ValueError(f"embeddings must have shape (..., R, d), got {x.shape}")
    if x.shape[-1] == 0 and x.shape[-2] > 0:
        raise ValueError("embeddings have no dimensions (d = 0)")
    square = np.einsum("...d,...d->...", x, x)
    if not ((square > 1e-200) & (square < 1e200)).all():
        # Rare: missing rows, or entries whose squares leave the range of floats.
        largest = np.abs(x).max(axis=-1, initial=0.0)
        largest[~np.isfinite(largest)] = 0.0
        present = largest > 0
        x = np.where(present[..., None], x, 0.0) / np.where(present, largest, 1.0)[..., None]
        square = np.where(present, np.einsum("...d,...d->...", x, x), 1.0)
    else:
        present = np.ones(square.shape, dtype=bool)
    unit = x / np.sqrt(square)[..., None]
    count = present.sum(axis=-1)
    total = unit.sum(axis=-2)
    share = 1.0 / np.maximum(count, 1)
    scatter = count - share * np.einsum("...d,...d->...", total, total)
    if np.any(scatter < 1e-4 * count):
        # Vectors that nearly coincide: subtract the mean first, the difference above cancels.
        unit -= (total * share[..., None])[..., None, :]
        distance = np.einsum("...d,...d->...", unit, unit)
        scatter = np.where(present, distance, 0.0).sum(axis=-1)
    return CellSums(count, total, scatter, x.shape[-2] - count)


def no_sums(dimensions: int) -> CellSums:
    """Sums of a cell without runs."""
    nothing = np.zeros((), dtype=np.int64)
    return CellSums(nothing, np.zeros(dimensions), np.zeros(()), nothing)


def merge_cells(first: CellSums, second: CellSums) -> CellSums:
    """Sums of the runs of both, as when the runs of a cell come in several parts.

    Raises:
        ValueError: if shapes or dimensions differ.
    """
    if first.total.shape != second.total.shape:
        raise ValueError(
            f"cannot merge cells of shape {first.total.shape} and {second.total.shape}"
        )
    count = first.count + second.count
    gap = cell_means(first) - cell_means(second)
    both = (first.count > 0) & (second.count > 0)
    weight = first.count * second.count / np.maximum(count, 1)
    between = np.where(both, weight * np.einsum("...d,...d->...", gap, gap), 0.0)
    return CellSums(
        count,
        first.total + second.total,
        first.scatter + second.scatter + between,
        first.missing + second.missing,
    )


def stack_cells(cells: Sequence[CellSums]) -> CellSums:
    """Put cells (or items) on a new first axis: P cells -> (P,), I items of (P,) -> (I, P).

    Raises:
        ValueError: if there are none, or shapes or dimensions differ.
    """
    if not cells:
        raise ValueError("no cells to stack")
    shapes = {cell.total.shape for cell in cells}
    if len(shapes) > 1:
        raise ValueError(
            f"cells differ in shape: {sorted(shapes)}; give every item the same conditions "
            "(an empty cell for one without runs) and one embedding model"
        )
    if len(cells) == 1:
        return cells[0][None]  # nothing to copy
    return CellSums(
        np.stack([cell.count for cell in cells]),
        np.stack([cell.total for cell in cells]),
        np.stack([cell.scatter for cell in cells]),
        np.stack([cell.missing for cell in cells]),
    )


def stack_items(items: Sequence[Sequence[CellSums]]) -> CellSums:
    """Put the cells of all items into one table: I items of P cells -> (I, P).

    Raises:
        ValueError: as `stack_cells`, and for items with different numbers of cells.
    """
    conditions = {len(cells) for cells in items}
    if len(conditions) > 1:
        raise ValueError(f"items differ in their number of conditions: {sorted(conditions)}")
    flat = stack_cells([cell for cells in items for cell in cells])
    shape = (len(items), -1)
    return CellSums(
        flat.count.reshape(shape),
        flat.total.reshape(*shape, flat.total.shape[-1]),
        flat.scatter.reshape(shape),
        flat.missing.reshape(shape),
    )


def cell_means(cells: CellSums) -> FloatArray:
    """Mean unit vector of each cell, (..., d); NaN for an empty cell."""
    count = cells.count[..., None]
    return np.divide(
        cells.total, count, out=np.full(cells.total.shape, np.nan), where=np.asarray(count > 0)
    )


def means_under(cells: CellSums, condition: int) -> FloatArray:
    """Mean unit vectors of the items under one condition, (I, P) -> (I, d); zero without runs.

    For sums over conditions: the vectors of all conditions at once would be a second copy of the
    sums, of the size of ``cells.total``.
    """
    means = cell_means(cells[:, condition])
    means[cells.count[:, condition] == 0] = 0.0
    return means


def item_means(cells: CellSums) -> FloatArray:
    """Mean over an item's non-empty cells of their mean vectors, (I, P) -> (I, d); NaN without."""
    total = np.zeros((cells.shape[0], cells.total.shape[-1]))
    for condition in range(cells.shape[1]):
        total += means_under(cells, condition)
    filled = (cells.count > 0).sum(axis=1)[:, None]
    return np.divide(total, filled, out=np.full(total.shape, np.nan), where=filled > 0)


def within_cosine(cells: CellSums) -> FloatArray:
    """Mean pairwise cosine w within each cell, (...); NaN with fewer than two runs.

    Lies in [-1/(R-1), 1]. Unbiased for the cosine of two independent runs, whatever R.
    """
    freedom = cells.count - 1
    return 1.0 - np.divide(
        cells.scatter, freedom, out=np.full(np.shape(cells.scatter), np.nan), where=freedom > 0
    )


def _condition_pairs(cells: CellSums) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if not cells.shape:
        raise ValueError("cells must have conditions on the last axis: shape (..., P)")
    return np.triu_indices(cells.shape[-1], 1)


def mean_products(cells: CellSums) -> FloatArray:
    """Products of the mean vectors of all pairs of conditions, (..., P, P); NaN without runs."""
    pairs = cells.count[..., :, None] * cells.count[..., None, :]
    products = np.einsum("...pd,...qd->...pq", cells.total, cells.total)
    return np.divide(products, pairs, out=np.full(products.shape, np.nan), where=pairs > 0)


def between_cosine(cells: CellSums) -> FloatArray:
    """Mean cosine c_pq over the runs of one condition and the runs of another.

    Args:
        cells: shape (..., P), conditions last.

    Returns:
        (..., P(P-1)/2), pairs in the order of ``numpy.triu_indices(P, 1)``; NaN where a cell is
        empty. Unbiased for the cosine of two independent runs, whatever R.
    """
    first, second = _condition_pairs(cells)
    return mean_products(cells)[..., first, second]


def centroid_cosine(cells: CellSums) -> FloatArray:
    """Cosine between the mean vectors of each pair of conditions; shapes as `between_cosine`.

    Biased downwards by noise in the means: for a true 0.80 it shows about 0.74 with five runs.
    NaN where a cell is empty or its runs cancel out.
    """
    first, second = _condition_pairs(cells)
    products = mean_products(cells)
    norm = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
    scale = norm[..., first] * norm[..., second]
    product = products[..., first, second]
    # Means shorter than rounding error point nowhere.
    defined = scale > 1e-14
    cosine = np.divide(product, scale, out=np.full(product.shape, np.nan), where=defined)
    return np.clip(cosine, -1.0, 1.0)


def debiased_cosine(cells: CellSums) -> FloatArray:
    """c_pq / sqrt(w_p w_q), the centroid cosine freed of its dependence on R.

    Both parts are unbiased for any R, and their ratio is the cosine between the expected vectors
    of two conditions (Spearman's correction for attenuation). Shapes as `between_cosine`. NaN
    where w of either condition is missing or at most 0: runs that share no direction have no
    mean direction to compare. A value a little over 1 is sampling error and stays. The noise of w
    itself leaves a bias of second order, under 0.01 for five runs with w = 0.5.
    """
    first, second = _condition_pairs(cells)
    within = within_cosine(cells)
    product = np.where(
        (within[..., first] > 0) & (within[..., second] > 0),
        within[..., first] * within[..., second],
        np.nan,
    )
    return between_cosine(cells) / np.sqrt(product)


def item_baseline(cells: CellSums) -> float:
    """Mean cosine b between runs of different items.

    Args:
        cells: shape (I,) or (I, P); an item's mean vector is the mean over its non-empty cells.

    Returns:
        b; NaN with fewer than two items that have runs. For equally many runs everywhere,
        b = (||G||^2 - sum_i ||T_i||^2) / ((P R)^2 I (I - 1)).
    """
    if len(cells.shape) not in (1, 2):
        raise ValueError(f"cells must have shape (I,) or (I, P), got {cells.shape}")
    means = item_means(cells) if len(cells.shape) == 2 else cell_means(cells)
    means = means[~np.isnan(means).any(axis=-1)]
    if len(means) < 2:
        return float("nan")
    grand = means.sum(axis=0)
    pairs = len(means) * (len(means) - 1)
    return float((grand @ grand - np.einsum("id,id->", means, means)) / pairs)


def chance_corrected(mean_cosine: ArrayLike, baseline: float) -> FloatArray:
    """(s - b) / (1 - b): Krippendorff's alpha with cosine distance and the between-item baseline.

    1 is perfect agreement, 0 is what texts about different items score. NaN if the baseline
    itself is 1 to rounding (all texts mean the same, so there is nothing to agree about).
    """
    s = np.asarray(mean_cosine, dtype=np.float64)
    room = 1.0 - baseline
    if not room > 1e-12:
        return np.full(s.shape, np.nan)
    return (s - baseline) / room


@dataclass(frozen=True)
class ItemCosines:
    """Cosine statistics of one item, each averaged over its cells or pairs of conditions.

    Attributes:
        repeatability: mean over cells of w.
        between: mean over pairs of conditions of c_pq.
        reproducibility: mean over pairs of the cosine between mean vectors.
        reproducibility_debiased: mean over pairs of c_pq / sqrt(w_p w_q), where defined.
        debiased_missing: number of pairs for which that is undefined.
        runs: number of runs used.
        missing: number of runs without an embedding.
    """

    repeatability: float
    between: float
    reproducibility: float
    reproducibility_debiased: float
    debiased_missing: int
    runs: int
    missing: int


def item_cosines(cells: CellSums) -> ItemCosines:
    """All cosine statistics of one item from its cells, shape (P,); NaN where undefined."""
    if len(cells.shape) != 1:
        raise ValueError(f"cells of one item must have shape (P,), got {cells.shape}")
    debiased = debiased_cosine(cells)
    return ItemCosines(
        repeatability=float(nanmean(within_cosine(cells))),
        between=float(nanmean(between_cosine(cells))),
        reproducibility=float(nanmean(centroid_cosine(cells))),
        reproducibility_debiased=float(nanmean(debiased)),
        debiased_missing=int(np.isnan(debiased).sum()),
        runs=int(cells.count.sum()),
        missing=int(cells.missing.sum()),
    )
