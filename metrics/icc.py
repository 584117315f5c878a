"""Intraclass correlations of items measured under the same conditions, or in the same runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

Model = Literal["1", "2", "3"]


@dataclass(frozen=True)
class IntraclassCorrelation:
    """An intraclass correlation with its F test.

    Attributes:
        kind: Shrout and Fleiss' name, as "ICC(2,1)".
        estimate: the correlation; may be negative.
        ci_low, ci_high: confidence limits.
        statistic, df1, df2, pvalue: F test of a correlation of 0.
        n: items used; items with a missing value are left out.
        k: measurements per item.
    """

    kind: str
    estimate: float
    ci_low: float
    ci_high: float
    statistic: float
    df1: float
    df2: float
    pvalue: float
    n: int
    k: int


def _two_way_limits(
    between: float, judges: float, error: float, n: int, k: int, rho: float, level: float
) -> tuple[float, float]:
    # Satterthwaite's degrees of freedom of the sum of judge and error mean squares.
    ratio = judges / error
    rest = n * (1 + (k - 1) * rho) - k * rho
    freedom = (k - 1) * (n - 1) * (k * rho * ratio + rest) ** 2
    freedom /= (n - 1) * k**2 * rho**2 * ratio**2 + rest**2
    upper_f = stats.f.ppf((1 + level) / 2, n - 1, freedom)
    lower_f = stats.f.ppf((1 + level) / 2, freedom, n - 1)
    spread = k * judges + (k * n - k - n) * error
    low = n * (between - upper_f * error) / (upper_f * spread + n * between)
    high = n * (lower_f * between - error) / (spread + n * lower_f * between)
    return float(low), float(high)


def icc(
    ratings: ArrayLike, model: Model = "2", *, average: bool = False, confidence_level: float = 0.95
) -> IntraclassCorrelation:
    """Intraclass correlation ICC(model, 1), or ICC(model, k) of the mean of k measurements.

    Args:
        ratings: (n, k) measurements; rows with a NaN are left out.
        model: "1" if columns are exchangeable (runs of an item); "2" if they are conditions that
            stand for others like them (absolute agreement); "3" if they are all conditions of
            interest and a constant shift between them does not matter (consistency).
        average: reliability of the mean over the k columns.
        confidence_level: of the limits.

    Returns:
        the estimate is NaN if nothing varies; limits are NaN where there is no error variance.

    Raises:
        ValueError: for another model, a wrong shape, or fewer than two complete items.

    Source: Shrout & Fleiss, "Intraclass correlations: uses in assessing rater reliability",
    Psychological Bulletin 86 (1979) 420-428.
    """
    if model not in ("1", "2", "3"):
        raise ValueError(f"model must be '1', '2' or '3', got {model!r}")
    x = np.asarray(ratings, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(f"ratings must have shape (items, two columns or more), got {x.shape}")
    x = x[~np.isnan(x).any(axis=1)]
    n, k = x.shape
    if n < 2:
        raise ValueError(f"ratings hold {n} complete items; an ICC needs at least two")
    x = x - x.mean()
    item, column = x.mean(axis=1), x.mean(axis=0)
    between = float(k * np.square(item).sum() / (n - 1))
    judges = float(n * np.square(column).sum() / (k - 1))
    within = float(np.square(x - item[:, None]).sum() / (n * (k - 1)))
    error = float(np.square(x - item[:, None] - column).sum() / ((n - 1) * (k - 1)))
    noise, df1, df2 = (
        (within, n - 1, n * (k - 1)) if model == "1" else (error, n - 1, (n - 1) * (k - 1))
    )
    kind = f"ICC({model},{k if average else 1})"
    scale = between + (k - 1) * noise + (k * (judges - error) / n if model == "2" else 0.0)
    nan = float("nan")
    if not scale > 0:
        return IntraclassCorrelation(kind, nan, nan, nan, nan, df1, df2, nan, n, k)
    single = (between - noise) / scale
    low = high = statistic = pvalue = nan
    if noise > 0:
        statistic = between / noise
        pvalue = float(stats.f.sf(statistic, df1, df2))
        if model == "2":
            low, high = _two_way_limits(between, judges, error, n, k, single, confidence_level)
        else:
            quantile = (1 + confidence_level) / 2
            least = statistic / stats.f.ppf(quantile, df1, df2)
            most = statistic * stats.f.ppf(quantile, df2, df1)
            low, high = ((f - 1) / (f + k - 1) for f in (least, most))
    if average:
        # Spearman-Brown: the reliability of a mean of k.
        single, low, high = (k * v / (1 + (k - 1) * v) for v in (single, low, high))
    return IntraclassCorrelation(
        kind,
        float(single),
        float(low),
        float(high),
        float(statistic),
        df1,
        df2,
        float(pvalue),
        n,
        k,
    )
