"""Standard errors and confidence intervals with items as the sampling unit.

Runs are nested in items, so whatever is computed over runs is resampled, or clustered, by item.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FloatArray = NDArray[np.float64]
Method = Literal["percentile", "bca"]


@dataclass(frozen=True)
class Interval:
    """An estimate with its uncertainty.

    Attributes:
        estimate: the statistic on the data.
        standard_error: its standard error.
        ci_low, ci_high: confidence limits.
        confidence_level: nominal level of the limits.
        n: number of items used.
        missing: number of items left out because their value is missing.
        method: "t", "percentile" or "bca".
    """

    estimate: float
    standard_error: float
    ci_low: float
    ci_high: float
    confidence_level: float
    n: int
    missing: int
    method: str


def _check_level(confidence_level: float) -> None:
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie between 0 and 1, got {confidence_level}")


def _present(values: ArrayLike, name: str = "values") -> tuple[FloatArray, int]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"{name} must hold one number per item (shape (I,)), got {x.shape}")
    kept = x[~np.isnan(x)]
    return kept, x.size - kept.size


def mean_stderr(values: ArrayLike) -> float:
    """Standard error of the mean of one value per item, SD / sqrt(n) with ddof = 1.

    NaN items are left out; NaN with fewer than two left. Valid for values that are themselves
    averages over the item's runs, since items are independent of each other.
    """
    x, _ = _present(values)
    return float(x.std(ddof=1) / np.sqrt(x.size)) if x.size > 1 else float("nan")


def mean_interval(values: ArrayLike, *, confidence_level: float = 0.95) -> Interval:
    """Mean of one value per item with Student's t interval; NaN items are counted and left out."""
    _check_level(confidence_level)
    x, missing = _present(values)
    mean = float(x.mean()) if x.size else float("nan")
    error = mean_stderr(x)
    half = error * stats.t.ppf((1 + confidence_level) / 2, x.size - 1) if x.size > 1 else np.nan
    low, high = float(mean - half), float(mean + half)
    return Interval(mean, error, low, high, confidence_level, x.size, missing, "t")


def interval_of_stderr(
    value: float, stderr: float, freedom: int | None = None, *, confidence_level: float = 0.95
) -> tuple[float, float]:
    """Two-sided interval of a value that has a standard error over items.

    Args:
        value, stderr: in one unit.
        freedom: degrees of freedom of Student's t, one less than there are items; the normal
            quantile where it is unknown or below 1.
        confidence_level: nominal level.

    Returns:
        (low, high).

    Raises:
        ValueError: for a level outside (0, 1).
    """
    _check_level(confidence_level)
    half = quantile_of_stderr((1 + confidence_level) / 2, freedom) * stderr
    return value - half, value + half


def quantile_of_stderr(level: float, freedom: int | None = None) -> float:
    """How many standard errors a one-sided bound of that level is away.

    Args:
        level: in (0, 1).
        freedom: as in `interval_of_stderr`.
    """
    known = freedom is not None and freedom > 0
    return float(stats.t.ppf(level, freedom) if known else stats.norm.ppf(level))


def clustered_stderr(values: ArrayLike, clusters: Sequence[object] | NDArray) -> float:
    """Standard error of the mean over runs when runs of an item depend on each other.

    Args:
        values: (N,) one value per run; NaN runs are left out.
        clusters: (N,) the item of each run, any labels.

    Returns:
        sqrt(G/(G-1) sum_g (sum_{r in g} (x_r - mean))^2) / N over the G items, the cluster-robust
        error of a regression on a constant; NaN with fewer than two items.

    Raises:
        ValueError: if the lengths differ.
    """
    x = np.asarray(values, dtype=np.float64)
    labels = np.asarray(clusters)
    if x.ndim != 1 or labels.shape != x.shape:
        raise ValueError(
            f"values and clusters must be one-dimensional and of one length, got {x.shape} and "
            f"{labels.shape}"
        )
    present = ~np.isnan(x)
    _, group = np.unique(labels[present], return_inverse=True)
    x = x[present]
    groups = int(group.max()) + 1 if x.size else 0
    if groups < 2:
        return float("nan")
    totals = np.bincount(group, weights=x - x.mean())
    return float(np.sqrt(groups / (groups - 1) * np.square(totals).sum()) / x.size)


def _widened(confidence_level: float, n: int) -> float:
    # A bootstrap sample varies around its mean by (n-1)/n of the variance and knows no t quantile.
    quantile = stats.t.ppf((1 + confidence_level) / 2, n - 1) * np.sqrt(n / (n - 1))
    return float(2 * stats.norm.cdf(quantile) - 1)


def weight_bootstrap(
    statistic: Callable[[FloatArray], FloatArray],
    n_items: int,
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    method: Method = "percentile",
    widen: bool = True,
    seed: int = 0,
) -> list[Interval]:
    """Bootstrap over items of statistics that can be computed from how often each item is drawn.

    Args:
        statistic: takes weights (B, I), how often each item stands in each of B resamples, and
            returns (B,) or, for k statistics at once, (k, B).
        n_items: number of items I, at least 2.
        n_resamples: number of resamples.
        confidence_level: nominal level.
        method: "percentile", or "bca" (bias-corrected and accelerated; falls back to percentile,
            and says so in the result, where it is undefined, as for a constant statistic).
        widen: correct the narrowness of bootstrap intervals for few items by the level that makes
            a normal mean's interval as wide as Student's t (Hesterberg, "What teachers should
            know about the bootstrap", The American Statistician 69 (2015), section 4.2).
        seed: of the resampling.

    Returns:
        one `Interval` per statistic.

    Raises:
        ValueError: with fewer than two items, or a level outside (0, 1).
    """
    _check_level(confidence_level)
    if n_items < 2:
        raise ValueError(f"a bootstrap over items needs at least two items, got {n_items}")

    def on_indices(index: NDArray[np.intp], axis: int = -1) -> FloatArray:
        single = index.ndim == 1
        rows = np.atleast_2d(index)
        first = np.arange(len(rows))[:, None] * n_items
        drawn = np.bincount((rows + first).ravel(), minlength=len(rows) * n_items)
        weights = drawn.reshape(len(rows), n_items).astype(np.float64)
        result = np.atleast_2d(np.asarray(statistic(weights), dtype=np.float64))
        return result[:, 0] if single else result

    # Batches bound the memory of the weights, here to 4 MB.
    batch = int(np.clip(500_000 // n_items, 1, n_resamples))
    level = _widened(confidence_level, n_items) if widen else confidence_level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = stats.bootstrap(
            (np.arange(n_items),),
            on_indices,
            vectorized=True,
            axis=-1,
            n_resamples=n_resamples,
            batch=batch,
            confidence_level=level,
            method="BCa" if method == "bca" else "percentile",
            random_state=np.random.default_rng(seed),
        )
    estimates = on_indices(np.arange(n_items))
    draws = np.reshape(result.bootstrap_distribution, (len(estimates), -1))
    lows = np.reshape(result.confidence_interval.low, -1)
    highs = np.reshape(result.confidence_interval.high, -1)
    intervals = []
    for estimate, draw, low, high in zip(estimates, draws, lows, highs, strict=True):
        kept, used = draw[~np.isnan(draw)], method
        if kept.size < 2:
            low = high = np.nan
        elif np.isnan(low) or np.isnan(high):
            used = "percentile"
            low, high = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2])
        spread = float(kept.std(ddof=1)) if kept.size > 1 else float("nan")
        intervals.append(
            Interval(
                float(estimate), spread, float(low), float(high), confidence_level, n_items, 0, used
            )
        )
    return intervals


def item_bootstrap(
    data: ArrayLike | tuple[ArrayLike, ...],
    statistic: Callable[..., float] | None = None,
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    method: Method = "percentile",
    widen: bool = True,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval, over items, of any aggregate of per-item data.

    Args:
        data: an array with items on the first axis, or a tuple of such arrays that are resampled
            together (all runs of an item move with it).
        statistic: called with the resampled arrays, returns a float; by default the mean of one
            value per item, NaN items left out.
        n_resamples, confidence_level, method, widen, seed: as in `weight_bootstrap`.

    Returns:
        an `Interval`; resamples for which the statistic is NaN are left out of the limits.

    Raises:
        ValueError: if the arrays differ in length or hold fewer than two items.
    """
    arrays = tuple(np.asarray(x) for x in (data if isinstance(data, tuple) else (data,)))
    sizes = {len(x) if x.ndim else 0 for x in arrays}
    if len(sizes) != 1:
        raise ValueError(f"arrays in data differ in their number of items: {sorted(sizes)}")
    n_items, missing = sizes.pop(), 0

    if statistic is None:
        if len(arrays) != 1:
            raise ValueError("give a statistic for data of several arrays")
        values, missing = _present(arrays[0], "data")
        n_items = values.size

        def by_weights(weights: FloatArray) -> FloatArray:
            return weights @ values / weights.sum(axis=-1)

    else:
        chosen = statistic

        def by_weights(weights: FloatArray) -> FloatArray:
            index = [np.repeat(np.arange(n_items), row.astype(np.intp)) for row in weights]
            return np.array([chosen(*(x[i] for x in arrays)) for i in index], dtype=np.float64)

    (interval,) = weight_bootstrap(
        by_weights,
        n_items,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        method=method,
        widen=widen,
        seed=seed,
    )
    return replace(interval, missing=missing)
