"""Variance components of items, conditions and runs for scalar measures.

The crossed random-effects model is

    y_ipr = mu + item_i + condition_p + (item x condition)_ip + run_ipr

over I items, P conditions and the runs of each cell. In the terms of ISO 5725, the repeatability
variance is s_r^2 = run, the between-condition variance s_L^2 = condition + item x condition, and
the reproducibility variance s_R^2 = s_r^2 + s_L^2.

`meaning.meaning_components` gives the same decomposition for embeddings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from statsmodels.regression.mixed_linear_model import MixedLM

from lmrel_tasks.metrics.entropy import nanmean
from lmrel_tasks.metrics.reml import fit_reml

FloatArray = NDArray[np.float64]

# Dense random-effects matrices: statsmodels needs minutes beyond this.
MAX_REML_CELLS = 400


@dataclass(frozen=True)
class VarianceComponents:
    """Estimated variances, raw: an estimate may be negative when the true value is near zero.

    Attributes:
        item, condition, item_condition, run: the components; condition and item_condition are NaN
            with a single condition.
        n_items, n_conditions, n_runs: items, conditions and runs used.
        method: "anova", "reml" or "cosine".
    """

    item: float
    condition: float
    item_condition: float
    run: float
    n_items: int
    n_conditions: int
    n_runs: int
    method: str

    @property
    def between_conditions(self) -> float:
        """s_L^2 = condition + item x condition, raw."""
        return self.condition + self.item_condition

    @property
    def repeatability_sd(self) -> float:
        """s_r."""
        return float(np.sqrt(max(self.run, 0.0)))

    @property
    def between_sd(self) -> float:
        """s_L, from the variance truncated at 0."""
        return float(np.sqrt(np.maximum(self.between_conditions, 0.0)))

    @property
    def reproducibility_sd(self) -> float:
        """s_R, with s_L truncated at 0."""
        return float(np.sqrt(max(self.run, 0.0) + np.maximum(self.between_conditions, 0.0)))

    def truncated(self) -> dict[str, float]:
        """The components with negative estimates put to 0."""
        names = ("item", "condition", "item_condition", "run")
        return {name: float(np.maximum(getattr(self, name), 0.0)) for name in names}

    def percent(self) -> dict[str, float]:
        """Truncated components as a percentage of their sum.

        Components that are NaN stay NaN and do not count; all are NaN if nothing varies.
        """
        parts = self.truncated()
        total = float(np.nansum(list(parts.values())))
        return {k: 100 * v / total if total > 0 else float("nan") for k, v in parts.items()}


@dataclass(frozen=True)
class CellMoments:
    """What the analysis of variance needs of the runs of one cell, or of an array of cells.

    Attributes:
        count: (...) number of runs.
        mean: (...) their mean, NaN without any.
        within: (...) sum of their squared differences from it.
    """

    count: FloatArray
    mean: FloatArray
    within: FloatArray


def cell_moments(values: ArrayLike) -> CellMoments:
    """Moments of the runs on the last axis; (..., R) -> (...), NaN runs left out.

    Raises:
        ValueError: for a scalar or infinite values.
    """
    y = np.asarray(values, dtype=np.float64)
    if y.ndim < 1:
        raise ValueError("values must have the runs on their last axis")
    if np.isinf(y).any():
        raise ValueError("values holds infinite entries; use NaN for a missing run")
    present = ~np.isnan(y)
    mean = nanmean(y)
    within = np.where(present, (y - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    return CellMoments(present.sum(axis=-1).astype(np.float64), mean, within)


@dataclass(frozen=True)
class _ItemSums:
    """Per item and condition: number of runs, sum (about the grand mean), sum of squares within."""

    count: FloatArray
    total: FloatArray
    within: FloatArray


def _item_sums(values: ArrayLike | CellMoments) -> _ItemSums:
    if isinstance(values, CellMoments):
        cells = values
    else:
        y = np.asarray(values, dtype=np.float64)
        if y.ndim != 3:
            raise ValueError(
                f"values must have shape (items, conditions, runs), padded with NaN; got {y.shape}"
            )
        cells = cell_moments(y)
    if cells.count.ndim != 2:
        raise ValueError(f"cells must have shape (items, conditions), got {cells.count.shape}")
    filled = cells.count > 0
    items, conditions = filled.any(axis=1), filled.any(axis=0)
    if items.sum() < 2:
        raise ValueError(
            f"variance components need at least two items with runs, got {items.sum()}"
        )
    count, mean, within = (x[items][:, conditions] for x in (cells.count, cells.mean, cells.within))
    if not (count > 1).any():
        raise ValueError(
            "variance components need at least two runs in some cell; with one run per cell the "
            "run and the item x condition component cannot be told apart"
        )
    mean = np.where(count > 0, mean, 0.0)
    grand = (count * mean).sum() / count.sum()
    return _ItemSums(count, count * (mean - grand), within)


def _anova(sums: _ItemSums, weights: FloatArray) -> FloatArray:
    """Raw components (4, B): item, condition, item x condition, run, for item weights (B, I).

    Henderson's method I: quadratic forms of totals equated to their expectations. On balanced
    data these are the mean squares of the analysis of variance; with unequal or empty cells they
    stay unbiased.
    """
    n, t = sums.count, sums.total
    cells = n > 0
    n_item, t_item = n.sum(axis=1), t.sum(axis=1)
    runs = weights @ n_item
    items = weights.sum(axis=1)
    filled = weights @ cells.sum(axis=1)
    run = (weights @ sums.within.sum(axis=1)) / (runs - filled)

    n_condition, t_condition = weights @ n, weights @ t
    with np.errstate(divide="ignore", invalid="ignore"):
        from_cells = weights @ np.where(cells, t**2 / n, 0.0).sum(axis=1)
        from_items = weights @ (t_item**2 / n_item)
        filled_conditions = n_condition > 0
        from_conditions = np.where(filled_conditions, t_condition**2 / n_condition, 0.0).sum(axis=1)
        k_condition = np.where(filled_conditions, weights @ n**2 / n_condition, 0.0).sum(axis=1)
    grand = (weights @ t_item) ** 2 / runs
    k_item = weights @ ((n**2).sum(axis=1) / n_item)
    g_item = weights @ n_item**2 / runs
    g_condition = (n_condition**2).sum(axis=1) / runs
    g_cell = weights @ (n**2).sum(axis=1) / runs

    square_item = from_items - grand - (items - 1) * run
    if n.shape[1] == 1:
        missing = np.full_like(run, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            # A resample that holds one item only says nothing of items: NaN.
            item = square_item / (runs - g_item)
        return np.stack([item, missing, missing, run])
    conditions = filled_conditions.sum(axis=1)
    square_condition = from_conditions - grand - (conditions - 1) * run
    square_cell = (
        from_cells - from_items - from_conditions + grand - (filled - items - conditions + 1) * run
    )
    coefficients = np.stack(
        [
            np.stack([runs - g_item, k_item - g_condition, k_item - g_cell], axis=-1),
            np.stack([k_condition - g_item, runs - g_condition, k_condition - g_cell], axis=-1),
            np.stack(
                [
                    g_item - k_condition,
                    g_condition - k_item,
                    runs - k_item - k_condition + g_cell,
                ],
                axis=-1,
            ),
        ],
        axis=-2,
    )
    right = np.stack([square_item, square_condition, square_cell], axis=-1)
    solvable = np.abs(np.linalg.det(coefficients)) > 1e-9 * runs**3
    coefficients = np.where(solvable[:, None, None], coefficients, np.eye(3))
    solved = np.linalg.solve(coefficients, right[..., None])[..., 0]
    solved = np.where(solvable[:, None], solved, np.nan)
    return np.stack([solved[:, 0], solved[:, 1], solved[:, 2], run])


def _reml(values: ArrayLike) -> FloatArray:
    y = np.asarray(values, dtype=np.float64)
    item, condition, _ = np.nonzero(~np.isnan(y))
    frame = pd.DataFrame({"y": y[~np.isnan(y)], "item": item, "condition": condition})
    cells = len(frame[["item", "condition"]].drop_duplicates())
    if cells > MAX_REML_CELLS:
        raise ValueError(
            f"method='reml' is limited to {MAX_REML_CELLS} item-by-condition cells, got {cells}; "
            "method='anova' handles unbalanced data of any size"
        )
    scale = float(frame["y"].std()) or 1.0
    frame["y"] = (frame["y"] - frame["y"].mean()) / scale
    formulas = {"item": "0 + C(item)"}
    if frame["condition"].nunique() > 1:
        formulas |= {
            "condition": "0 + C(condition)",
            "item_condition": "0 + C(item):C(condition)",
        }
    model = MixedLM.from_formula(
        "y ~ 1", frame, groups=np.ones(len(frame)), re_formula="0", vc_formula=formulas
    )
    fit = fit_reml(model)
    if fit is None:
        raise ValueError("REML did not converge on these values; use method='anova'")
    found = dict(zip(model.exog_vc.names, fit.vcomp, strict=True))
    names = ("item", "condition", "item_condition")
    return np.array([*(found.get(name, np.nan) for name in names), fit.scale]) * scale**2


def variance_components(
    values: ArrayLike | CellMoments, *, method: Literal["anova", "reml"] = "anova"
) -> VarianceComponents:
    """Variance components of a scalar measure over items, conditions and runs.

    Args:
        values: (I, P, R), NaN for missing runs, cells or items; or, for "anova", the
            `CellMoments` of shape (I, P).
        method: "anova", the method of moments: exactly the mean squares' solution on balanced
            data, Henderson's method I (unbiased) on unequal or empty cells; any size. "reml",
            restricted maximum likelihood by statsmodels, never negative, small data only.

    Returns:
        raw components; see `VarianceComponents.percent` for shares.

    Raises:
        ValueError: for a wrong shape, infinite values, fewer than two items, no cell with two
            runs, cells too sparse to separate the components, or REML on too many cells.

    Source: Henderson, Biometrics 9 (1953) 226-252; Searle, Casella & McCulloch, "Variance
    Components" (1992), chapters 4 and 5.
    """
    if method not in ("anova", "reml"):
        raise ValueError(f"method must be 'anova' or 'reml', got {method!r}")
    if method == "reml" and isinstance(values, CellMoments):
        raise ValueError("method='reml' needs the values of the runs, not their moments")
    sums = _item_sums(values)
    items, conditions = sums.count.shape
    found = (
        _reml(values)
        if method == "reml" and not isinstance(values, CellMoments)
        else _anova(sums, np.ones((1, items)))[:, 0]
    )
    if np.isnan(found[0]):
        raise ValueError(
            "cells are too sparse: too few items have runs under two conditions to separate the "
            "item, condition and item x condition components"
        )
    item, condition, cell, run = (float(x) for x in found)
    return VarianceComponents(
        item, condition, cell, run, items, conditions, int(sums.count.sum()), method
    )


def scalar_statistic(
    values: ArrayLike | CellMoments,
) -> tuple[Callable[[FloatArray], FloatArray], int]:
    """Raw components as a function of item weights, for `intervals.weight_bootstrap`.

    Returns:
        a function from weights (B, I) to (4, B), and the number of items I that have runs.
    """
    sums = _item_sums(values)
    return (lambda weights: _anova(sums, weights)), len(sums.count)
