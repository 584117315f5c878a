"""Tests of mutual information and phi: does the targeted edit loosen the answers more?

MI(original, targeted) - MI(original, benign), and the same with phi. Both measures *fall* when
an edit changes answers, so the alternative that finds an effect is "less". Several paraphrases
are pooled into one table per item (each with weight 1/K), which keeps the permutation exact:
the benign table does not depend on their order.

Everything is drawn on counts of answer patterns, of which there are few, never on items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.counterfactual import MISSING, mutual_information, phi_coefficient
from lmrel_tasks.metrics.paired import checked_alternative
from lmrel_tasks.metrics.resampling import blocks, tail_pvalues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AssociationTest:
    """Result of a test on a measure of association (fields are arrays for batches).

    Attributes
    ----------
    measure, method, alternative : str
    targeted, benign : float
        The measure with the original, under each edit; NaN where undefined.
    excess : float
        targeted - benign.
    pvalue : float
        NaN where the excess is undefined.
    ci_low, ci_high : float
        Two-sided percentile-bootstrap interval of the excess; NaN from the permutation test.
    n : int
    n_resamples : int
    n_undefined : int
        Resamples in which the measure does not exist: left out of the bootstrap, counted as
        extreme in the permutation.
    note : str
    """

    measure: str
    method: str
    alternative: str
    targeted: float
    benign: float
    excess: float
    pvalue: float
    ci_low: float
    ci_high: float
    n: int
    n_resamples: int
    n_undefined: int
    note: str


@dataclass(frozen=True)
class _Patterns:
    original: Ints  # (patterns,)
    targeted: Floats  # (patterns, options), one-hot
    benign: Floats  # (patterns, options), counts of paraphrases
    counts: Ints  # (batch, patterns)
    shape: tuple[int, ...]
    n: int


def swap_test(
    original: ArrayLike,
    targeted: ArrayLike,
    benign: ArrayLike,
    options: int,
    *,
    measure: str = "mi",
    base: float = 2.0,
    alternative: str = "less",
    n_resamples: int = 9999,
    rng: np.random.Generator | int | None = 0,
) -> AssociationTest:
    """Permutation test: the targeted answer trades places with a benign one, item by item.

    p counts the observed arrangement, (1 + as extreme) / (1 + resamples); two-sided doubles the
    smaller tail, up to 1.

    Parameters
    ----------
    original, targeted : array_like of int, shape (..., items)
        Labels; a leading axis is a batch.
    benign : array_like of int, shape (..., items) or (..., items, paraphrases)
        -1 where an item has fewer paraphrases. An array of the shape of ``original`` is one
        paraphrase per item.
    options : int
    measure : {"mi", "phi"}
    base : float
        Base of the logarithm of the mutual information.
    alternative : {"less", "greater", "two-sided"}
    n_resamples : int
    rng : numpy.random.Generator or int

    Returns
    -------
    AssociationTest

    Raises
    ------
    ValueError
        For mismatched shapes, labels out of range, an item without answer, or phi with other
        than two options.
    """
    checked_alternative(alternative)
    found = _patterns(original, targeted, benign, options)
    value = _measure(measure, base, options)
    generator = np.random.default_rng(rng)
    before, after, observed = _observed(found, value)

    answers = found.targeted + found.benign
    key = np.column_stack([found.original, answers])
    groups, member = np.unique(key, axis=0, return_inverse=True)
    belongs = np.eye(len(groups), dtype=np.int64)[np.ravel(member)]
    counts = found.counts @ belongs
    place = np.eye(options)[groups[:, 0].astype(int)]
    answers = groups[:, 1:]
    asked = answers.sum(axis=1)

    batch = len(counts)
    extreme = np.zeros((3, batch), dtype=np.int64)
    slack = 1e-12
    for start, stop in blocks(n_resamples, batch * len(groups) * options):
        drawn = generator.multinomial(
            counts[:, None, :], answers / asked[:, None], size=(batch, stop - start, len(groups))
        )
        rest = (counts[:, None, :, None] * answers - drawn) / (asked - 1)[:, None]
        excess = value(_tables(drawn, place)) - value(_tables(rest, place))
        extreme[0] += (excess <= observed[:, None] + slack).sum(axis=1)
        extreme[1] += (excess >= observed[:, None] - slack).sum(axis=1)
        extreme[2] += np.isnan(excess).sum(axis=1)
    at_least, at_most = (extreme[side] + extreme[2] + 1 for side in (1, 0))
    # tail_pvalues wants the resamples on the far side of the null: here, beyond the observed.
    pvalue = tail_pvalues(at_least, at_most, n_resamples + 1, alternative)
    pvalue = np.where(np.isnan(observed), np.nan, pvalue)
    nothing = np.full(batch, np.nan)
    return _association(
        found, measure, "swap permutation", alternative, before, after, pvalue, nothing, nothing,
        n_resamples, extreme[2],
    )  # fmt: skip


def bootstrap_test(
    original: ArrayLike,
    targeted: ArrayLike,
    benign: ArrayLike,
    options: int,
    *,
    measure: str = "mi",
    base: float = 2.0,
    alternative: str = "less",
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    plus_one: bool = True,
    undefined: float = np.nan,
    rng: np.random.Generator | int | None = 0,
) -> AssociationTest:
    """Percentile bootstrap of the excess association, items resampled with replacement.

    Parameters
    ----------
    original, targeted, benign, options, measure, base, alternative, n_resamples, rng
        See `swap_test`.
    confidence_level : float
    plus_one : bool
        False leaves out the ones in p, as some published code does.
    undefined : float
        What phi is where it does not exist. NaN leaves such resamples out and counts them;
        0.0 is a published convention.

    Returns
    -------
    AssociationTest

    Raises
    ------
    ValueError
        See `swap_test`.
    """
    checked_alternative(alternative)
    found = _patterns(original, targeted, benign, options)
    value = _measure(measure, base, options, undefined)
    generator = np.random.default_rng(rng)
    before, after, observed = _observed(found, value)
    place = np.eye(options)[found.original]
    shared = found.benign / found.benign.sum(axis=1, keepdims=True)

    batch, size = found.counts.shape
    excess = np.empty((batch, n_resamples))
    for start, stop in blocks(n_resamples, batch * (size + options * options)):
        drawn = generator.multinomial(
            found.n, found.counts[:, None, :] / found.n, size=(batch, stop - start)
        )[..., None]
        excess[:, start:stop] = value(_tables(drawn * found.targeted, place)) - value(
            _tables(drawn * shared, place)
        )
    excess = np.where(np.abs(excess) < 1e-12, 0.0, excess)
    lost = np.isnan(excess).sum(axis=1)
    used = n_resamples - lost
    one = int(plus_one)
    at_most, at_least = ((side.sum(axis=1) + one) for side in (excess <= 0, excess >= 0))
    pvalue = tail_pvalues(at_most, at_least, np.maximum(used + one, 1), alternative)
    pvalue = np.where(np.isnan(observed) | (used == 0), np.nan, pvalue)
    tail = (1 - confidence_level) / 2
    low, high = np.full(batch, np.nan), np.full(batch, np.nan)
    some = used > 0
    if some.any():
        low[some], high[some] = np.nanquantile(excess[some], [tail, 1 - tail], axis=1)
    return _association(
        found, measure, "paired bootstrap", alternative, before, after, pvalue, low, high,
        n_resamples, lost,
    )  # fmt: skip


def _patterns(
    original: ArrayLike, targeted: ArrayLike, benign: ArrayLike, options: int
) -> _Patterns:
    first, second = np.asarray(original, np.int64), np.asarray(targeted, np.int64)
    third = np.asarray(benign, np.int64)
    if third.shape == first.shape:
        third = third[..., None]
    if second.shape != first.shape or third.shape[:-1] != first.shape or first.ndim == 0:
        raise ValueError(
            f"labels differ in shape: original {first.shape}, targeted {second.shape}, benign "
            f"{third.shape}"
        )
    n = first.shape[-1]
    if n == 0:
        raise ValueError("labels hold no item")
    rows = np.concatenate([first[..., None], second[..., None], third], axis=-1)
    if rows.max() >= options or rows.min() < MISSING:
        raise ValueError(f"labels must lie between 0 and {options - 1}, or be -1 for missing")
    if (rows[..., :2] == MISSING).any() or (third == MISSING).all(axis=-1).any():
        raise ValueError("an item lacks its original, targeted or every benign label: exclude it")
    code = ((rows + 1) * (options + 1) ** np.arange(rows.shape[-1])).sum(axis=-1).reshape(-1, n)
    unique, at, inverse = np.unique(code, return_index=True, return_inverse=True)
    inverse = inverse.reshape(code.shape)
    kinds = rows.reshape(-1, rows.shape[-1])[at]
    batch = len(code)
    place = inverse + len(unique) * np.arange(batch)[:, None]
    counts = np.bincount(place.ravel(), minlength=batch * len(unique)).reshape(batch, -1)
    one_hot = np.eye(options + 1)[:, 1:]
    return _Patterns(
        original=kinds[:, 0],
        targeted=one_hot[kinds[:, 1] + 1],
        benign=one_hot[kinds[:, 2:] + 1].sum(axis=1),
        counts=counts,
        shape=first.shape[:-1],
        n=n,
    )


def _measure(
    measure: str, base: float, options: int, undefined: float = np.nan
) -> Callable[[Floats], Floats]:
    if measure == "mi":
        return lambda tables: mutual_information(tables, base=base)
    if measure != "phi":
        raise ValueError(f"measure must be 'mi' or 'phi', not {measure!r}")
    phi_coefficient(np.zeros((options, options)))  # refuses other than two options
    if np.isnan(undefined):
        return phi_coefficient
    return lambda tables: np.nan_to_num(phi_coefficient(tables), nan=undefined)


def _tables(answers: Any, place: Floats) -> Floats:
    """Sum (..., patterns, options) into (..., original label, answer)."""
    tables: Floats = np.swapaxes(np.swapaxes(answers, -1, -2) @ place, -1, -2)
    return tables


def _observed(found: _Patterns, value: Callable[[Floats], Floats]) -> tuple[Floats, Floats, Floats]:
    place = np.eye(found.targeted.shape[1])[found.original]
    counts = found.counts[..., None]
    shared = found.benign / found.benign.sum(axis=1, keepdims=True)
    before = value(_tables(counts * found.targeted, place))
    after = value(_tables(counts * shared, place))
    return before, after, before - after


def _association(
    found: _Patterns, measure: str, method: str, alternative: str, targeted: Any, benign: Any,
    pvalue: Any, low: Any, high: Any, n_resamples: int, lost: Any,
) -> AssociationTest:  # fmt: skip
    shaped: list[Any] = [
        np.asarray(x).reshape(found.shape)
        for x in (targeted, benign, targeted - benign, pvalue, low, high, lost)
    ]
    note = ""
    if found.shape == ():
        shaped = [x.item() for x in shaped]
        if np.isnan(shaped[2]):
            sides = ("targeted", shaped[0]), ("benign", shaped[1])
            note = f"{measure} is undefined for " + " and ".join(
                name for name, value in sides if np.isnan(value)
            )
            note += ": the original's or these answers are all the same option"
        elif shaped[6]:
            note = f"{measure} is undefined in {shaped[6]} of {n_resamples} resamples"
    return AssociationTest(
        measure=measure,
        method=method,
        alternative=alternative,
        targeted=shaped[0],
        benign=shaped[1],
        excess=shaped[2],
        pvalue=shaped[3],
        ci_low=shaped[4],
        ci_high=shaped[5],
        n=found.n,
        n_resamples=n_resamples,
        n_undefined=shaped[6],
        note=note,
    )
