"""Paired tests in closed form, and what a family of them needs.

Every test takes ``alternative`` in scipy's words ("greater": targeted above benign) and returns
a `PairedTest`. Data with a leading axis are a batch: ``(repetitions, items)`` gives arrays of
shape ``(repetitions,)`` in the fields, which is how their sizes are simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import binom_test

Floats = NDArray[np.float64]

ALTERNATIVES = ("greater", "less", "two-sided")


@dataclass(frozen=True)
class PairedTest:
    """Result of a paired test (fields are arrays for batches).

    Attributes
    ----------
    method : str
    alternative : str
    estimate : float
        Mean difference; for McNemar too, where it is the difference of the flip rates.
    statistic : float
        t for the t-test, the count of targeted-only flips for McNemar, else the mean difference.
    pvalue : float
    ci_low, ci_high : float
        Two-sided interval of the mean difference; NaN where the test has none.
    confidence_level : float
    n : int
        Items.
    n_resamples : int
        Resamples or rearrangements; 0 for a closed form.
    note : str
        What is degenerate, in words; empty otherwise and for batches.
    """

    method: str
    alternative: str
    estimate: float
    statistic: float
    pvalue: float
    ci_low: float
    ci_high: float
    confidence_level: float
    n: int
    n_resamples: int
    note: str


def paired_t(
    differences: ArrayLike, *, alternative: str = "greater", confidence_level: float = 0.95
) -> PairedTest:
    """Student's t on paired differences.

    Parameters
    ----------
    differences : array_like, shape (..., items)
        Targeted minus benign.
    alternative : {"greater", "less", "two-sided"}
    confidence_level : float

    Returns
    -------
    PairedTest
        Without variance the interval shrinks to the mean; p is then 0 or 1 by its sign, and 1
        when every difference is zero.

    Raises
    ------
    ValueError
        For fewer than two items, or NaN or infinite differences.
    """
    d = checked_differences(differences)
    n = d.shape[-1]
    if n < 2:
        raise ValueError("the paired t-test needs two items or more")
    if not np.isfinite(d).all():
        raise ValueError(
            "the paired t-test needs finite differences; use the permutation test, or JSD in "
            "place of KL"
        )
    mean = d.mean(axis=-1)
    deviation = d.std(axis=-1, ddof=1)
    # A constant vector leaves a spread of rounding size.
    deviation = np.where(np.ptp(d, axis=-1) == 0, 0.0, deviation)
    error = deviation / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where((error == 0) & (mean == 0), 0.0, mean / error)
    tails = {
        "greater": stats.t.sf(t, n - 1),
        "less": stats.t.cdf(t, n - 1),
        "two-sided": 2 * stats.t.sf(np.abs(t), n - 1),
    }
    pvalue = np.where((error == 0) & (mean == 0), 1.0, tails[checked_alternative(alternative)])
    half = stats.t.ppf((1 + confidence_level) / 2, n - 1) * error
    return paired_result(
        "paired t", alternative, mean, t, pvalue, mean - half, mean + half, confidence_level, d, 0
    )


def mcnemar_test(
    targeted_flips: ArrayLike, benign_flips: ArrayLike, *, alternative: str = "greater"
) -> PairedTest:
    """Exact McNemar test: items that only the targeted edit flips against only the benign.

    Parameters
    ----------
    targeted_flips, benign_flips : array_like of 0 and 1, shape (items,)
        One paraphrase per item; for more, use `exchange_test` on the flips.
    alternative : {"greater", "less", "two-sided"}

    Returns
    -------
    PairedTest
        p = 1 and a note when no item is discordant. No interval.

    Raises
    ------
    ValueError
        If the shapes differ or a value is neither 0 nor 1.
    """
    t, b = np.asarray(targeted_flips, float), np.asarray(benign_flips, float)
    if t.shape != b.shape or t.ndim != 1 or not len(t):
        raise ValueError(f"flips need one vector per condition, not {t.shape} and {b.shape}")
    if not np.isin(t, (0, 1)).all() or not np.isin(b, (0, 1)).all():
        raise ValueError(
            "McNemar's test needs flips of 0 or 1 from one paraphrase per item; use the "
            "permutation test for several"
        )
    only_targeted = int(((t == 1) & (b == 0)).sum())
    only_benign = int(((t == 0) & (b == 1)).sum())
    discordant = only_targeted + only_benign
    if checked_alternative(alternative) == "two-sided":
        pvalue = float(mcnemar([[0, only_targeted], [only_benign, 0]], exact=True).pvalue)
    elif discordant == 0:
        pvalue = 1.0
    else:
        side = {"greater": "larger", "less": "smaller"}[alternative]
        pvalue = float(binom_test(only_targeted, discordant, 0.5, alternative=side))
    return PairedTest(
        method="exact McNemar",
        alternative=alternative,
        estimate=float(t.mean() - b.mean()),
        statistic=float(only_targeted),
        pvalue=min(1.0, pvalue),
        ci_low=float("nan"),
        ci_high=float("nan"),
        confidence_level=float("nan"),
        n=len(t),
        n_resamples=0,
        note="no item flips under one edit only" if discordant == 0 else "",
    )


def adjust_pvalues(
    pvalues: ArrayLike | Sequence[float], *, method: str = "holm", alpha: float = 0.05
) -> Floats:
    """p-values adjusted for a family of tests (`statsmodels.stats.multitest.multipletests`).

    Parameters
    ----------
    pvalues : array_like, shape (tests,)
        NaN (a test that could not be made) stays NaN and does not count into the family.
    method : {"holm", "bonferroni", "fdr_bh"} or another name statsmodels knows
    alpha : float
        Only some of the other methods depend on it.

    Returns
    -------
    ndarray, shape (tests,)

    Raises
    ------
    ValueError
        If a p-value is outside [0, 1], or the method is unknown.
    """
    raw = np.asarray(pvalues, float)
    made = ~np.isnan(raw)
    if ((raw[made] < 0) | (raw[made] > 1)).any():
        raise ValueError("pvalues must lie between 0 and 1")
    adjusted = np.full(raw.shape, np.nan)
    if made.any():
        adjusted[made] = multipletests(raw[made], alpha=alpha, method=method)[1]
    return adjusted


def effect_size(differences: ArrayLike) -> float:
    """Standardised mean difference of pairs, mean / SD (Cohen's d_z, ddof = 1).

    0 when every difference is zero; inf or -inf when all are the same other value; NaN with
    fewer than two items or infinite differences.
    """
    d = np.asarray(differences, float)
    if d.size < 2 or not np.isfinite(d).all():
        return float("nan")
    mean = float(d.mean())
    if np.ptp(d) == 0:
        return float(np.copysign(np.inf, mean)) if mean else 0.0
    return mean / float(d.std(ddof=1))


def checked_differences(values: ArrayLike, name: str = "differences") -> Floats:
    d = np.asarray(values, float)
    if d.ndim == 0 or d.shape[-1] == 0:
        raise ValueError(f"{name} holds no item")
    if np.isnan(d).any():
        item = int(np.argwhere(np.isnan(d))[0][-1])
        raise ValueError(f"{name}: item {item} is NaN; leave missing items out")
    return d


def checked_alternative(alternative: str) -> str:
    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative must be one of {ALTERNATIVES}, not {alternative!r}")
    return alternative


def paired_result(
    method: str, alternative: str, estimate: Any, statistic: Any, pvalue: Any, low: Any,
    high: Any, level: float, d: Floats, n_resamples: int,
) -> PairedTest:  # fmt: skip
    note = ""
    if d.ndim == 1:
        estimate, statistic, pvalue, low, high = map(
            float, (estimate, statistic, pvalue, low, high)
        )
        if not d.any():
            note = "all differences are zero"
        elif np.isinf(d).any():
            note = f"{int(np.isinf(d).sum())} of {len(d)} differences are infinite"
        elif np.ptp(d) == 0:
            note = "all differences are the same"
    return PairedTest(
        method=method, alternative=alternative, estimate=estimate, statistic=statistic,
        pvalue=pvalue, ci_low=low, ci_high=high, confidence_level=level, n=d.shape[-1],
        n_resamples=n_resamples, note=note,
    )  # fmt: skip
