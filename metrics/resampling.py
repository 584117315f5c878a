"""Paired tests by resampling: bootstrap, sign flips, exchange with the benign paraphrases.

Results and batches as in `lmrel_tasks.metrics.paired`.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.paired import (
    PairedTest,
    checked_alternative,
    checked_differences,
    paired_result,
)

Floats = NDArray[np.float64]

# Cells of a resampling matrix held at once: 32 MB of float64.
_CELLS = 4_000_000


def paired_bootstrap(
    differences: ArrayLike,
    *,
    alternative: str = "greater",
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    plus_one: bool = True,
    rng: np.random.Generator | int | None = 0,
) -> PairedTest:
    """Percentile bootstrap of the mean difference, items resampled with replacement.

    p for "greater" is (1 + resamples whose mean is zero or less) / (1 + resamples); "two-sided"
    doubles the smaller tail, up to 1.

    Parameters
    ----------
    differences : array_like, shape (..., items)
    alternative : {"greater", "less", "two-sided"}
    n_resamples : int
    confidence_level : float
        Of the two-sided percentile interval.
    plus_one : bool
        False leaves out the ones, as some published code does; p can then be 0.
    rng : numpy.random.Generator or int

    Returns
    -------
    PairedTest

    Raises
    ------
    ValueError
        For no items, or NaN differences.

    References
    ----------
    Davison and Hinkley (1997), Bootstrap Methods and their Application, sections 4.4 and 5.3.
    """
    d = checked_differences(differences)
    checked_alternative(alternative)
    generator = np.random.default_rng(rng)
    flat, bound = _lift(d)
    batch, n = flat.shape
    means = np.empty((batch, n_resamples))
    values, codes = np.unique(flat, return_inverse=True)
    if len(values) <= 16:
        # Few distinct values (flips): a resample is a multinomial count over them.
        for row, code in enumerate(codes.reshape(flat.shape)):
            share = np.bincount(code, minlength=len(values)) / n
            means[row] = generator.multinomial(n, share, size=n_resamples) @ values / n
    else:
        for start, stop in blocks(n_resamples, n):
            index = generator.integers(0, n, size=(stop - start, n), dtype=np.int32)
            if batch == 1:
                means[0, start:stop] = flat[0][index].mean(axis=1)
            else:
                means[:, start:stop] = flat @ _counts(index).T / n
    means = _exact_zero(means, flat)
    at_most, at_least = (means <= 0).sum(axis=1), (means >= 0).sum(axis=1)
    one = int(plus_one)
    pvalue = tail_pvalues(at_most + one, at_least + one, n_resamples + one, alternative)
    tail = (1 - confidence_level) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=1)
    mean = flat.mean(axis=1)
    mean, low, high = (_lower(x, bound).reshape(d.shape[:-1]) for x in (mean, low, high))
    pvalue = pvalue.reshape(d.shape[:-1])
    return paired_result(
        "paired bootstrap", alternative, mean, mean, pvalue, low, high, confidence_level, d,
        n_resamples,
    )  # fmt: skip


def sign_flip_test(
    differences: ArrayLike,
    *,
    alternative: str = "greater",
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> PairedTest:
    """Sign-flip permutation test of paired differences: `exchange_test` with one benign edit.

    Parameters, result and errors as there; ``differences`` has shape ``(..., items)``.
    """
    d = checked_differences(differences)
    return exchange_test(
        d,
        np.zeros((*d.shape, 1)),
        alternative=alternative,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        rng=rng,
        method="sign-flip permutation",
    )


def exchange_test(
    targeted: ArrayLike,
    benign: ArrayLike,
    *,
    alternative: str = "greater",
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    method: str = "exchange permutation",
) -> PairedTest:
    """Permutation test that exchanges the targeted edit with one of its benign paraphrases.

    Under the null the targeted edit is one more rewording, so any of an item's K + 1 values
    could have been the targeted one. Flipping the sign of (targeted - mean of the benign) is
    right only for K = 1: for more, that difference is skewed although nothing happened.

    All rearrangements are listed when there are no more than ``n_resamples + 1`` of them;
    otherwise they are drawn, and p is (1 + as extreme) / (1 + drawn). Two-sided doubles the
    smaller tail, up to 1.

    The interval inverts the same test under a constant shift. With weight w = 1 + 1/K, a
    rearrangement is at least as extreme as the data exactly when the w-weighted mean of
    (targeted - exchanged benign) over the exchanged items is at most the shift, so the limits
    are order statistics of those means (the typical values of Hartigan).

    Parameters
    ----------
    targeted : array_like, shape (..., items)
        Value of the targeted edit. Infinite values are ordered before all finite ones: the test
        compares the count of infinite items first.
    benign : array_like, shape (..., items, paraphrases)
        NaN where an item has fewer paraphrases (not in a batch).
    alternative : {"greater", "less", "two-sided"}
    n_resamples : int
    confidence_level : float
    rng : numpy.random.Generator or int
    method : str
        Name that the result carries.

    Returns
    -------
    PairedTest
        ``estimate`` is the mean of targeted minus the mean of the benign.

    Raises
    ------
    ValueError
        For no items, an item without benign value, or NaN in ``targeted``.

    References
    ----------
    Hartigan (1969), Journal of the American Statistical Association 64(328), 1303-1317.
    Phipson and Smyth (2010), doi:10.2202/1544-6115.1585, for the ones in p.
    """
    t = checked_differences(targeted, "targeted")
    b = np.asarray(benign, float)
    if b.shape[:-1] != t.shape:
        raise ValueError(f"benign has shape {b.shape}; targeted {t.shape} plus one axis is needed")
    checked_alternative(alternative)
    lifted, bound = _lift(np.concatenate([t[..., None], b], axis=-1).reshape(-1, b.shape[-1] + 1))
    lifted = lifted.reshape(-1, t.shape[-1], b.shape[-1] + 1)
    gaps = lifted[..., :1] - lifted[..., 1:]
    present = ~np.isnan(gaps)
    choices = present.sum(axis=-1)
    if (choices == 0).any():
        raise ValueError(f"item {int(np.argwhere(choices == 0)[0][-1])} has no benign value")
    if (choices != choices[0]).any():
        raise ValueError("a batch needs the same paraphrases in every repetition")
    order = np.argsort(~present, axis=-1, kind="stable")
    gaps = np.where(present, gaps, 0.0)
    gaps = np.take_along_axis(gaps, order, axis=-1)
    per_item = choices[0]
    weight = 1 + 1 / per_item
    estimate = (gaps.sum(axis=-1) / per_item).mean(axis=-1)

    total = float(np.prod(per_item + 1.0))
    exact = total <= n_resamples + 1
    drawn = int(total) - 1 if exact else n_resamples
    means = np.empty((len(gaps), drawn))
    generator = np.random.default_rng(rng)
    listed = _listed(per_item) if exact else None
    for start, stop in blocks(drawn, gaps.shape[1]):
        if listed is not None:
            slots = listed[1 + start : 1 + stop]  # the first one leaves all as it is
        else:
            uniform = generator.random((stop - start, gaps.shape[1]), dtype=np.float32)
            slots = np.minimum((uniform * (per_item + 1)).astype(np.int16), per_item)
        summed = sum(
            (weight * gaps[..., k]) @ (slots == k + 1).astype(float).T
            for k in range(gaps.shape[-1])
        )
        changed = (slots > 0) @ weight
        with np.errstate(invalid="ignore", divide="ignore"):
            # Nothing exchanged: as extreme as the data at every shift, in both directions.
            means[:, start:stop] = np.where(changed > 0, summed / changed, np.nan)
    means = _exact_zero(means, gaps.reshape(len(gaps), -1))
    unchanged = np.isnan(means).sum(axis=1)
    at_most, at_least = (means <= 0).sum(axis=1), (means >= 0).sum(axis=1)
    pvalue = tail_pvalues(at_most + unchanged + 1, at_least + unchanged + 1, drawn + 1, alternative)
    low, high = _inverted(means, unchanged, (1 - confidence_level) / 2)
    shape = t.shape[:-1]
    estimate, low, high = (_lower(x, bound).reshape(shape) for x in (estimate, low, high))
    average = (gaps.sum(axis=-1) / per_item).reshape(t.shape)
    return paired_result(
        method, alternative, estimate, estimate, pvalue.reshape(shape), low, high,
        confidence_level, average, drawn,
    )  # fmt: skip


def tail_pvalues(at_most: Any, at_least: Any, total: Any, alternative: str) -> Floats:
    """p of counts of resamples at or below zero and at or above it, out of a total."""
    greater, less = np.asarray(at_most) / total, np.asarray(at_least) / total
    if alternative == "two-sided":
        return np.minimum(1.0, 2 * np.minimum(greater, less))
    return np.asarray(greater if alternative == "greater" else less)


def _inverted(means: Floats, unchanged: Any, tail: float) -> tuple[Floats, Floats]:
    # The shifts that are rejected on one side are those whose p is at most the tail.
    ordered = np.sort(means, axis=1)  # NaN last
    rows = np.arange(len(means))
    rank = np.floor(tail * (means.shape[1] + 1) + 1e-9).astype(int) - 1 - unchanged
    last = means.shape[1] - unchanged - 1
    found = (rank >= 0) & (rank <= last)
    first = np.where(found, rank, 0)
    low = np.where(found, ordered[rows, first], -np.inf)
    high = np.where(found, ordered[rows, last - first], np.inf)
    return low, high


def _listed(per_item: Any) -> NDArray[np.int16]:
    return np.array(list(itertools.product(*(range(k + 1) for k in per_item))), np.int16)


def blocks(total: int, width: int) -> list[tuple[int, int]]:
    """Ranges of resamples that keep a matrix of ``width`` columns within the memory bound."""
    size = max(1, _CELLS // max(1, width))
    return [(start, min(total, start + size)) for start in range(0, total, size)]


def _counts(index: NDArray[np.int32]) -> Floats:
    rows, n = index.shape
    places = (index + n * np.arange(rows, dtype=np.int64)[:, None]).ravel()
    return np.bincount(places, minlength=rows * n).reshape(rows, n).astype(float)


def _exact_zero(means: Floats, values: Floats) -> Floats:
    """Sums that cancel leave a rounding error, which must count as a tie with zero."""
    noise = 1e-12 * np.nanmax(np.abs(values), axis=1, initial=0.0)[:, None]
    return np.where(np.abs(means) <= noise, 0.0, means)


def _lift(values: Floats) -> tuple[Floats, float]:
    """Infinities as a number so large that their count decides before any finite sum.

    Returns the rows as a matrix, and the bound above which a mean contains an infinity.
    """
    flat = values.reshape(-1, values.shape[-1])
    finite = 1 + float(np.abs(flat[np.isfinite(flat)]).sum())
    if not np.isinf(flat).any():
        return flat, np.inf
    huge = 16 * flat.size * finite
    return np.where(np.isinf(flat), np.copysign(huge, flat), flat), 2 * finite


def _lower(means: Any, bound: float) -> Floats:
    means = np.asarray(means, float)
    return np.where(np.abs(means) > bound, np.copysign(np.inf, means), means)
