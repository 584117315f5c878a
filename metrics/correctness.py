"""Comparison of a metric between answers that are right and answers that are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.regression.mixed_linear_model import MixedLM

from lmrel_tasks.metrics.comparisons import TestResult
from lmrel_tasks.metrics.reml import fit_reml, intercept_start, intercept_variance_ratio

Alternative = Literal["two-sided", "less", "greater"]


@dataclass(frozen=True)
class MixedComparison:
    """Fixed effect of a correct answer in ``metric ~ correct + (1 | item)``.

    Attributes:
        coefficient: difference of the metric, correct minus incorrect, within items.
        standard_error, ci_low, ci_high, pvalue: Wald, of the coefficient.
        item_variance, residual_variance: variance components of the model.
        n: observations used; n_items: items used.
        note: why the model is undefined, empty if it is not.
    """

    coefficient: float
    standard_error: float
    ci_low: float
    ci_high: float
    pvalue: float
    item_variance: float
    residual_variance: float
    n: int
    n_items: int
    note: str = ""


def compare_groups(
    values: ArrayLike, correct: ArrayLike, *, alternative: Alternative = "two-sided"
) -> TestResult:
    """Mann-Whitney test of a metric on items answered correctly against the others.

    Args:
        values: (I,) one value per item, NaN if missing.
        correct: (I,) True or 1 for correct, False or 0 for incorrect, NaN if unknown.
        alternative: "greater" if correct items are expected to have larger values.

    Returns:
        U of the correct items, its p-value, and the rank-biserial correlation 2 U / (n m) - 1.

    Raises:
        ValueError: if lengths differ or `correct` holds other values.
    """
    x, right = np.asarray(values, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if x.ndim != 1 or x.shape != right.shape:
        raise ValueError(
            f"values and correct must be one-dimensional of one length, got {x.shape} and "
            f"{right.shape}"
        )
    known = ~np.isnan(x) & ~np.isnan(right)
    x, right = x[known], right[known]
    if not np.isin(right, (0.0, 1.0)).all():
        raise ValueError("correct must be 0 or 1; dichotomise shares of correct runs first")
    one, other = x[right == 1], x[right == 0]
    nan = float("nan")
    if not one.size or not other.size:
        return TestResult(nan, nan, x.size, nan, "one of the two groups is empty")
    test = stats.mannwhitneyu(one, other, alternative=alternative)
    effect = 2 * test.statistic / (one.size * other.size) - 1
    return TestResult(float(test.statistic), float(test.pvalue), x.size, float(effect))


def mixed_comparison(
    values: ArrayLike,
    correct: ArrayLike,
    items: Sequence[object] | NDArray,
    *,
    confidence_level: float = 0.95,
) -> MixedComparison:
    """Linear mixed model ``metric ~ correct + (1 | item)`` by REML.

    Args:
        values: (N,) metric of each run, or of each item under each condition; NaN if missing.
        correct: (N,) 0/1, or share of correct runs; NaN if unknown.
        items: (N,) item of each observation, any labels.
        confidence_level: of the Wald limits.

    Raises:
        ValueError: if lengths differ.
    """
    label = pd.Series(np.asarray(items)).astype(str)
    y, x = np.asarray(values, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if y.ndim != 1 or y.shape != x.shape or y.shape != label.shape:
        raise ValueError(
            "values, correct and items must be one-dimensional of one length, got "
            f"{y.shape}, {x.shape} and {label.shape}"
        )
    frame = pd.DataFrame({"metric": y, "correct": x, "item": label}).dropna()
    n, n_items = len(frame), frame["item"].nunique()
    nan = float("nan")
    empty = MixedComparison(nan, nan, nan, nan, nan, nan, nan, n, n_items)
    if frame["correct"].nunique() < 2:
        return replace(empty, note="all observations are equally correct")
    if n_items < 2 or n == n_items:
        return replace(empty, note="needs two items or more with several observations of some")
    scale = float(frame["metric"].std())
    if scale == 0:
        return replace(empty, coefficient=0.0, note="the metric does not vary")
    # Standardised, so that the optimiser's tolerances fit metrics of any size.
    frame["metric"] = (frame["metric"] - frame["metric"].mean()) / scale
    model = MixedLM.from_formula("metric ~ correct", frame, groups=frame["item"])
    ratio = intercept_variance_ratio(model)
    if ratio == 0.0:
        # Without item variance the model is the ordinary regression.
        fit = OLS.from_formula("metric ~ correct", frame).fit(use_t=False)
        item_variance = 0.0
    else:
        fit = fit_reml(model, intercept_start(model, ratio))
        if fit is None:
            return replace(empty, note="the model did not converge")
        item_variance = float(np.asarray(fit.cov_re)[0, 0])
    low, high = fit.conf_int(alpha=1 - confidence_level).loc["correct"]
    return MixedComparison(
        coefficient=float(fit.params["correct"]) * scale,
        standard_error=float(fit.bse["correct"]) * scale,
        ci_low=float(low) * scale,
        ci_high=float(high) * scale,
        pvalue=float(fit.pvalues["correct"]),
        item_variance=item_variance * scale**2,
        residual_variance=float(fit.scale) * scale**2,
        n=n,
        n_items=n_items,
    )
