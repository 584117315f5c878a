"""Reliability levels and prediction sets from the scores of calibration items.

An item's score is the rank of its best acceptable answer class (`answer_classes.scores`), infinite
if no acceptable answer was ever sampled. From n exchangeable items follow, without assumptions
about the model:

- M*(alpha): sets of the M* most frequent answers hold an acceptable one with probability at least
  1 - alpha; infeasible, and said so, where no finite M* does;
- the reliability level #{s <= 1}/(n + 1): the largest 1 - alpha at which M* = 1. It is chosen on
  the data and exceeds the true accuracy of the mode in 36-48 % of experiments, so it comes with the
  exact lower confidence bound, which is what a gate tests.

References
----------
Vovk, Gammerman & Shafer (2005), Algorithmic Learning in a Random World, chapter 2 (smoothed scores,
Mondrian groups in 4.5); Angelopoulos & Bates (2023), doi:10.1561/2200000101, sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.bounds import (
    Proportion,
    check_probability,
    clopper_pearson,
    misses_allowed,
    proportion,
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class SetSize:
    """M*(alpha). If not `feasible`, `m_star` is inf and `reason` says what is missing.

    rank : which smallest score M* is, ceil((1 - alpha)(n + 1)); infeasible beyond n.
    smallest_alpha : the least alpha at which these scores have a finite M*.
    """

    m_star: float
    feasible: bool
    reason: str
    alpha: float
    rank: int
    n: int
    smallest_alpha: float


@dataclass(frozen=True)
class ReliabilityLevel:
    """How often the first `m` answers hold an acceptable one.

    level : #{s <= m}/(n + 1), the conformal guarantee on average over calibration sets.
    lower : exact one-sided Clopper-Pearson bound of the true share at `confidence`.
    """

    level: float
    lower: float
    successes: int
    n: int
    m: int
    confidence: float


@dataclass(frozen=True)
class Coverage:
    """What the sets of size M* did on items that had no part in choosing M*.

    coverage : share of items whose set holds an acceptable answer. An item whose M* is infeasible
        gets all its sampled classes as its set.
    ci_low, ci_high : Clopper-Pearson interval of it, items taken as independent.
    coverage_solvable : the same among items that sampled an acceptable answer; nan without any.
    miscoverage : share of items with a feasible M* whose set missed; this is what conformal
        prediction holds at or below alpha in expectation.
    infeasible : share of items whose M* was infeasible.
    capability_gap : share of items that never sampled an acceptable answer, with exact interval.
    mean_set_size : nan if the numbers of classes were not given.
    """

    coverage: float
    ci_low: float
    ci_high: float
    coverage_solvable: float
    miscoverage: float
    infeasible: float
    capability_gap: Proportion
    mean_set_size: float
    n: int
    alpha: float
    method: str


def conformal_rank(n: int, alpha: float) -> int:
    """ceil((1 - alpha)(n + 1)), computed so that alpha = 0.1 and n = 9 give 9 and not 10."""
    return n + 1 - misses_allowed(n, check_probability(alpha, "alpha"))


def conformal_quantile(
    scores: ArrayLike, alpha: float, axis: int = -1
) -> NDArray[np.float64] | float:
    """The ceil((1 - alpha)(n + 1))-th smallest score along `axis`, inf where there is none.

    Any real scores will do. The result has the shape of `scores` without `axis`.
    """
    values = np.moveaxis(np.asarray(scores, dtype=np.float64), axis, -1)
    if np.isnan(values).any():
        raise ValueError("scores hold nan; an item without an acceptable answer scores inf")
    rank = conformal_rank(values.shape[-1], alpha)
    if rank > values.shape[-1]:
        return np.full(values.shape[:-1], np.inf)[()]
    return np.partition(values, rank - 1, axis=-1)[..., rank - 1][()]


def m_star(scores: ArrayLike, alpha: float) -> SetSize:
    """The set size that covers with probability 1 - alpha, or why there is none.

    scores : (n,) ranks from 1, inf if never sampled. n = 0 is infeasible at every alpha.
    """
    values = _ranks(scores)
    n = len(values)
    rank = conformal_rank(n, alpha)
    value = float(conformal_quantile(values, alpha))
    sampled = int(np.isfinite(values).sum())
    reason = ""
    if rank > n:
        # the least n with rank <= n has floor((n + 1) alpha) >= 1
        needed = int(np.ceil(1.0 / alpha - 1e-9)) - 1
        reason = (
            f"alpha={alpha:g} needs at least {needed} calibration items, there are {n}; "
            "collect more or ask for a larger alpha"
        )
    elif not np.isfinite(value):
        reason = (
            f"{n - sampled} of {n} items never sampled an acceptable answer, "
            f"more than alpha={alpha:g} allows; no number of listed answers covers 1 - alpha"
        )
    return SetSize(
        m_star=value,
        feasible=bool(np.isfinite(value)),
        reason=reason,
        alpha=float(alpha),
        rank=rank,
        n=n,
        smallest_alpha=1.0 - sampled / (n + 1),
    )


def reliability_level(scores: ArrayLike, m: int = 1, confidence: float = 0.95) -> ReliabilityLevel:
    """Level and exact lower bound of "an acceptable answer is among the first `m`".

    scores : (n,) ranks from 1. No items give level 0 and bound 0: nothing was shown.
    """
    values = _ranks(scores)
    if m < 1:
        raise ValueError(f"m must be at least 1, got {m}")
    successes = int((values <= m).sum())
    low, _ = clopper_pearson(successes, len(values), confidence, alternative="greater")
    return ReliabilityLevel(
        level=successes / (len(values) + 1),
        lower=float(low),
        successes=successes,
        n=len(values),
        m=int(m),
        confidence=float(confidence),
    )


def leave_one_out_thresholds(scores: ArrayLike, alpha: float) -> NDArray[np.float64]:
    """M* of every item from the other items along the last axis; same shape as `scores`."""
    values = np.asarray(scores, dtype=np.float64)
    n = values.shape[-1]
    rank = conformal_rank(n - 1, alpha) if n else 1
    if rank > n - 1:
        return np.full(values.shape, np.inf)
    ordered = np.sort(values, axis=-1)
    at, after = ordered[..., rank - 1, None], ordered[..., rank, None]
    # taking out a score at or below the rank-th moves the next one into its place
    return np.where(values <= at, after, at)


def k_fold_thresholds(
    scores: ArrayLike, alpha: float, folds: int = 10, seed: int = 0
) -> NDArray[np.float64]:
    """M* of every item from the items outside its fold; folds are a seeded random partition.

    scores : (n,). Returns (n,). More folds than items is leave-one-out.
    """
    values = _ranks(scores)
    if folds < 2:
        raise ValueError(f"folds must be at least 2, got {folds}")
    fold = np.random.default_rng(seed).permutation(len(values)) % folds
    thresholds = np.empty(len(values))
    for k in np.unique(fold):
        thresholds[fold == k] = conformal_quantile(values[fold != k], alpha)
    return thresholds


def coverage(
    scores: ArrayLike,
    alpha: float,
    classes: ArrayLike | None = None,
    method: Literal["leave-one-out", "k-fold"] = "leave-one-out",
    folds: int = 10,
    seed: int = 0,
) -> Coverage:
    """Coverage on the calibration items themselves, each judged by an M* from the others.

    Parameters
    ----------
    scores : (n,) ranks from 1, inf if never sampled
    alpha : miscoverage, in (0, 1)
    classes : (n,) numbers of sampled classes, for the set sizes
    method : "leave-one-out", or "k-fold" with `folds` and `seed`

    No items give nan; one item is judged by none, which is infeasible.
    """
    values = _ranks(scores)
    if method == "leave-one-out":
        thresholds = leave_one_out_thresholds(values, alpha)
    elif method == "k-fold":
        thresholds = k_fold_thresholds(values, alpha, folds, seed)
    else:
        raise ValueError(f'method must be "leave-one-out" or "k-fold", got {method!r}')
    return _coverage(values, thresholds, alpha, classes, method)


def split_coverage(
    calibration_scores: ArrayLike,
    test_scores: ArrayLike,
    alpha: float,
    classes: ArrayLike | None = None,
) -> Coverage:
    """Coverage on test items of the M* of the calibration items; `classes` of the test items."""
    values = _ranks(test_scores)
    thresholds = np.full(len(values), m_star(calibration_scores, alpha).m_star)
    return _coverage(values, thresholds, alpha, classes, "split")


def capability_gap(scores: ArrayLike, confidence: float = 0.95) -> Proportion:
    """Share of items that never sampled an acceptable answer, with its exact interval."""
    values = _ranks(scores)
    return proportion(int(np.isinf(values).sum()), len(values), confidence)


def by_group(
    groups: Sequence[Hashable], function: Callable[..., Result], *columns: ArrayLike
) -> dict[Hashable, Result]:
    """`function` of the rows of each group: Mondrian calibration, valid within every group.

    groups : (n,) labels; columns : arrays of length n, handed over in order. Groups come in the
    order of their first item. Example: `by_group(subjects, lambda s: m_star(s, 0.1), scores)`.
    """
    arrays = [np.asarray(column) for column in columns]
    for position, array in enumerate(arrays):
        if len(array) != len(groups):
            raise ValueError(
                f"column {position} has {len(array)} rows but there are {len(groups)} group labels"
            )
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    return {group: function(*(array[rows] for array in arrays)) for group, rows in members.items()}


def _ranks(scores: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"scores must be one-dimensional, got shape {values.shape}")
    wrong = ~(values >= 1)  # true for nan too
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"score {row} is {values[row]}; scores are ranks from 1, or inf")
    return values


def _coverage(
    values: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    alpha: float,
    classes: ArrayLike | None,
    method: str,
) -> Coverage:
    n = len(values)
    sampled = np.isfinite(values)
    covered = sampled & (values <= thresholds)
    share = proportion(int(covered.sum()), n)
    size = float("nan")
    if classes is not None and n:
        limits = np.asarray(classes)
        if limits.shape != values.shape:
            raise ValueError(f"classes has shape {limits.shape}, scores have {values.shape}")
        size = float(np.minimum(limits, thresholds).mean())
    return Coverage(
        coverage=share.estimate,
        ci_low=share.ci_low,
        ci_high=share.ci_high,
        coverage_solvable=float(covered[sampled].mean()) if sampled.any() else float("nan"),
        miscoverage=float((values > thresholds).mean()) if n else float("nan"),
        infeasible=float(np.isinf(thresholds).mean()) if n else float("nan"),
        capability_gap=capability_gap(values),
        mean_set_size=size,
        n=n,
        alpha=float(alpha),
        method=method,
    )
