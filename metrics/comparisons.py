"""Comparisons of conditions, or of models, on one value per item and condition, paired by item.

Missing values are NaN; each test uses the items that have what it needs, and says how many. Values
that leave a test undefined give NaN, except where the answer is plain: identical conditions have
p = 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from lmrel_tasks.metrics.bounds import unseen_share
from lmrel_tasks.metrics.intervals import item_bootstrap

FloatArray = NDArray[np.float64]

# Up to this many items that differ the signed-rank test goes through all patterns of signs.
MAX_EXACT = 13


@dataclass(frozen=True)
class TestResult:
    """A test over several groups or conditions.

    Attributes:
        statistic, pvalue: of the test, NaN if undefined.
        n: number of items used.
        effect: effect size in [-1, 1], or Kendall's W in [0, 1] for `friedman`.
        note: why the test is undefined, empty if it is not.
    """

    __test__ = False

    statistic: float
    pvalue: float
    n: int
    effect: float
    note: str = ""


@dataclass(frozen=True)
class PairedComparison:
    """Two conditions compared on the items that have both.

    Attributes:
        first, second: names of the conditions.
        n: number of items with both.
        difference: mean of first - second.
        ci_low, ci_high: Student's t limits of the difference.
        t_statistic, t_pvalue, t_pvalue_adjusted: paired t-test; adjusted over all pairs.
        wilcoxon_statistic, wilcoxon_pvalue, wilcoxon_pvalue_adjusted: signed-rank test.
    """

    first: str
    second: str
    n: int
    difference: float
    ci_low: float
    ci_high: float
    t_statistic: float
    t_pvalue: float
    t_pvalue_adjusted: float
    wilcoxon_statistic: float
    wilcoxon_pvalue: float
    wilcoxon_pvalue_adjusted: float


@dataclass(frozen=True)
class Noninferiority:
    """Whether a candidate is at most `margin` worse than a reference.

    Attributes:
        difference: mean of candidate - reference over items.
        lower_bound: one-sided lower confidence bound of the difference; NaN if undefined.
        margin: the largest loss that is acceptable.
        alpha: one-sided level of the bound.
        noninferior: True if lower_bound > -margin.
        n: items with both values.
        alike: True if all items differ by the same amount, where resampling shows nothing.
    """

    difference: float
    lower_bound: float
    margin: float
    alpha: float
    noninferior: bool
    n: int
    alike: bool = False


def _matrix(values: ArrayLike) -> FloatArray:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(
            f"values must have shape (items, conditions) with two conditions or more, got {x.shape}"
        )
    return x


def holm(pvalues: Sequence[float] | FloatArray) -> FloatArray:
    """Holm-adjusted p-values; NaN entries stay NaN and do not count as tests."""
    p = np.asarray(pvalues, dtype=np.float64)
    adjusted = np.full(p.shape, np.nan)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def _signed_rank(gap: FloatArray) -> tuple[float, float]:
    """Wilcoxon's statistic and two-sided p-value; exact for few items, ties or not."""
    kept = gap[gap != 0]
    if kept.size > MAX_EXACT:
        with warnings.catch_warnings():
            # scipy warns where ties force the normal approximation, which is what is wanted.
            warnings.simplefilter("ignore")
            test = stats.wilcoxon(gap)
        return float(test.statistic), float(test.pvalue)
    # All sign patterns at once; scipy would go through them one by one where ranks are tied.
    ranks = stats.rankdata(np.abs(kept))
    signs = (np.arange(2**kept.size)[:, None] >> np.arange(kept.size)) & 1
    sums, observed = signs @ ranks, float(ranks[kept > 0].sum())
    tail = min((sums <= observed).mean(), (sums >= observed).mean())
    return min(observed, float(ranks.sum()) - observed), float(min(2.0 * tail, 1.0))


def _compare_pair(first: str, second: str, gap: FloatArray, level: float) -> PairedComparison:
    n, mean = gap.size, float(gap.mean()) if gap.size else float("nan")
    nan = float("nan")
    t, t_p, low, high, w, w_p = nan, nan, nan, nan, nan, nan
    if n > 1 and np.ptp(gap) == 0:
        # No spread: equal conditions agree for certain, a constant shift differs for certain.
        t, t_p = (0.0, 1.0) if mean == 0 else (float(np.copysign(np.inf, mean)), 0.0)
        low = high = mean
    elif n > 1:
        test = stats.ttest_1samp(gap, 0.0)
        limits = test.confidence_interval(level)
        t, t_p, low, high = (float(x) for x in (test.statistic, test.pvalue, *limits))
    if n and not gap.any():
        w, w_p = 0.0, 1.0
    elif n:
        w, w_p = _signed_rank(gap)
    return PairedComparison(first, second, n, mean, low, high, t, t_p, t_p, w, w_p, w_p)


def compare_conditions(
    values: ArrayLike, names: Sequence[str] | None = None, *, confidence_level: float = 0.95
) -> list[PairedComparison]:
    """Compare all pairs of conditions, paired by item, with Holm's correction over the pairs.

    Args:
        values: (I, P) one value per item and condition, NaN if missing; two-sided tests.
        names: P names of the conditions, by default their numbers.
        confidence_level: of the t limits.

    Returns:
        P(P-1)/2 comparisons in the order of ``itertools.combinations``.

    Raises:
        ValueError: for a wrong shape or number of names.
    """
    x = _matrix(values)
    labels = [str(p) for p in range(x.shape[1])] if names is None else [str(p) for p in names]
    if len(labels) != x.shape[1]:
        raise ValueError(f"names has {len(labels)} entries for {x.shape[1]} conditions")
    pairs = []
    for p, q in combinations(range(x.shape[1]), 2):
        gap = x[:, p] - x[:, q]
        pairs.append(_compare_pair(labels[p], labels[q], gap[~np.isnan(gap)], confidence_level))
    t_adjusted = holm([pair.t_pvalue for pair in pairs])
    w_adjusted = holm([pair.wilcoxon_pvalue for pair in pairs])
    return [
        replace(pair, t_pvalue_adjusted=float(t), wilcoxon_pvalue_adjusted=float(w))
        for pair, t, w in zip(pairs, t_adjusted, w_adjusted, strict=True)
    ]


def friedman(values: ArrayLike) -> TestResult:
    """Friedman's test that all conditions have the same distribution, blocked by item.

    Args:
        values: (I, P); items with a missing value are left out. P = 2 is a sign test: prefer
            `compare_conditions`, which uses sizes too.

    Returns:
        chi-square corrected for ties, its p-value, and Kendall's W as effect.

    Raises:
        ValueError: for a wrong shape or fewer than three conditions.
    """
    x = _matrix(values)
    if x.shape[1] < 3:
        raise ValueError("Friedman's test needs three conditions or more; use compare_conditions")
    x = x[~np.isnan(x).any(axis=1)]
    nan = float("nan")
    if len(x) < 2:
        return TestResult(nan, nan, len(x), nan, "fewer than two items have every condition")
    if (np.ptp(x, axis=1) == 0).all():
        return TestResult(0.0, 1.0, len(x), 0.0, "the conditions are identical on every item")
    test = stats.friedmanchisquare(*x.T)
    w = test.statistic / (len(x) * (x.shape[1] - 1))
    return TestResult(float(test.statistic), float(test.pvalue), len(x), float(w))


def noninferiority(
    candidate: ArrayLike,
    reference: ArrayLike,
    margin: float,
    *,
    alpha: float = 0.025,
    n_resamples: int = 5000,
    seed: int = 0,
    largest_loss: float | None = None,
) -> Noninferiority:
    """Test that a candidate is worse than the reference by less than `margin`, items resampled.

    Where all items differ by the same amount d no resample differs from the sample. Then the bound
    is exact: no more than a share q = 1 - alpha**(1/n) of all items can differ otherwise, at worst
    by ``-largest_loss``, so the mean is at least (1 - q) d - q largest_loss.

    Args:
        candidate, reference: (I,) values of the same items, larger is better, NaN if missing.
        margin: largest acceptable loss, in units of the metric, at least 0; chosen beforehand.
        alpha: one-sided level; 0.025 is the lower limit of a 95 % interval.
        n_resamples, seed: of the bootstrap over items.
        largest_loss: most that one item can lose, 1 for a metric within [0, 1]; without it there is
            no bound for items that all differ by the same amount.

    Raises:
        ValueError: if lengths differ, the margin is negative, alpha lies outside (0, 0.5), or
            fewer than two items have both values.
    """
    x, y = np.asarray(candidate, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(
            "candidate and reference must be one-dimensional of one length, got "
            f"{x.shape} and {y.shape}"
        )
    if not margin >= 0:
        raise ValueError(f"margin must be at least 0, got {margin}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    gap = (x - y)[~np.isnan(x - y)]
    if gap.size < 2:
        raise ValueError("fewer than two items have a value for both candidate and reference")
    if np.ptp(gap) == 0:
        other = unseen_share(gap.size, 1 - alpha)
        loss = float("nan") if largest_loss is None else largest_loss
        bound = float((1 - other) * gap[0] - other * loss)
        return Noninferiority(
            float(gap[0]), bound, float(margin), alpha, bound > -margin, gap.size, True
        )
    interval = item_bootstrap(
        gap, confidence_level=1 - 2 * alpha, n_resamples=n_resamples, seed=seed
    )
    return Noninferiority(
        float(gap.mean()),
        interval.ci_low,
        float(margin),
        alpha,
        bool(interval.ci_low > -margin),
        gap.size,
    )
