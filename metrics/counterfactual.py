"""Divergence, flip and association of two answers to the same item.

Everything here is a formula on arrays: probabilities have shape ``(..., options)`` and are
assumed to be checked (`lmrel_tasks.metrics.panel.check_probabilities`); labels are integers,
the index of the most probable option, with -1 for a missing answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr, xlogy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MISSING = -1
_TINY = np.finfo(float).tiny


def kl_divergence(
    original: ArrayLike, perturbed: ArrayLike, *, base: float = 2.0, clip: float | None = None
) -> Floats:
    """Kullback-Leibler divergence KL(original || perturbed) of each row.

    Parameters
    ----------
    original, perturbed : array_like, shape (..., options)
        Probabilities that broadcast against each other.
    base : float
        Base of the logarithm: 2 gives bits, ``numpy.e`` gives nats.
    clip : float, optional
        Floor put under both distributions, without renormalising. The default None keeps
        zeros: a row whose original has mass where the perturbed has none is ``inf``.

    Returns
    -------
    ndarray, shape (...)
        Sum of p log(p / q), in units of the base.

    References
    ----------
    Cover and Thomas, Elements of Information Theory, 2nd ed., eq. 2.26.
    """
    p, q = np.asarray(original, float), np.asarray(perturbed, float)
    if clip is not None:
        p, q = np.maximum(p, clip), np.maximum(q, clip)
    divergence: Floats = rel_entr(p, q).sum(axis=-1) / _log(base)
    # Rows that differ by rounding alone can come out a few ulp below zero.
    return divergence if clip is not None else np.maximum(divergence, 0.0)


def js_divergence(
    original: ArrayLike, perturbed: ArrayLike, *, base: float = 2.0, clip: float | None = None
) -> Floats:
    """Jensen-Shannon divergence of each row (the divergence, not its square root).

    Finite for every pair of distributions, between 0 and log(2) in units of the base.

    Parameters
    ----------
    original, perturbed : array_like, shape (..., options)
    base : float
        2 gives bits (maximum 1), ``numpy.e`` gives nats (maximum 0.693).
    clip : float, optional
        Floor put under both distributions, without renormalising.

    Returns
    -------
    ndarray, shape (...)

    References
    ----------
    Lin (1991), IEEE Transactions on Information Theory 37(1), eq. 4.1, equal weights.
    """
    p, q = np.asarray(original, float), np.asarray(perturbed, float)
    if clip is not None:
        p, q = np.maximum(p, clip), np.maximum(q, clip)
    # The floor only ever meets a weight of 0; plain logarithms are faster than rel_entr.
    middle = np.maximum((p + q) / 2, _TINY)
    summed = _weighted(p, np.log(np.maximum(p / middle, _TINY)))
    summed += _weighted(q, np.log(np.maximum(q / middle, _TINY)))
    return np.maximum(summed, 0.0) / (2 * _log(base))


def log_odds(probabilities: ArrayLike, option: ArrayLike, *, clip: float | None = None) -> Floats:
    """Natural log-odds of one option, log p - log(1 - p), for each row.

    Parameters
    ----------
    probabilities : array_like, shape (..., items, options)
    option : int or array_like of int, shape (items,)
        Which option, for all items or for each.
    clip : float, optional
        p is held within [clip, 1 - clip]. The default None gives -inf and inf at 0 and 1.

    Returns
    -------
    ndarray, shape (..., items)
    """
    chosen = pick(probabilities, option)
    if clip is not None:
        chosen = np.clip(chosen, clip, 1 - clip)
    with np.errstate(divide="ignore"):
        odds: Floats = np.log(chosen) - np.log1p(-chosen)
    return odds


def log_odds_shift(
    original: ArrayLike, perturbed: ArrayLike, *, clip: float | None = None
) -> Floats:
    """Absolute change of the log-odds of the option that the original answer chose.

    Infinite where exactly one of the two probabilities is 0 or 1; 0 where both are the same
    extreme.

    Parameters
    ----------
    original, perturbed : array_like, shape (..., options)
    clip : float, optional
        See `log_odds`.

    Returns
    -------
    ndarray, shape (...)
        Natural log units.
    """
    original, perturbed = np.broadcast_arrays(
        np.asarray(original, float), np.asarray(perturbed, float)
    )
    option = original.argmax(axis=-1)
    before = log_odds(original, option, clip=clip)
    after = log_odds(perturbed, option, clip=clip)
    same = before == after
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.abs(after - before))


def pick(probabilities: ArrayLike, option: ArrayLike) -> Floats:
    """Probability of one option per row; ``option`` broadcasts over the rows."""
    values = np.asarray(probabilities, float)
    index = np.broadcast_to(np.asarray(option), values.shape[:-1])
    chosen: Floats = np.take_along_axis(values, index[..., None], axis=-1)[..., 0]
    return chosen


def labels(probabilities: ArrayLike) -> Ints:
    """Index of the most probable option; the first of several equal ones; -1 for a NaN row.

    Parameters
    ----------
    probabilities : array_like, shape (..., options)

    Returns
    -------
    ndarray of int, shape (...)
    """
    values = np.asarray(probabilities, float)
    missing = np.isnan(values).any(axis=-1)
    return np.where(missing, MISSING, np.where(np.isnan(values), 0, values).argmax(axis=-1))


def flips(original: ArrayLike, perturbed: ArrayLike) -> Floats:
    """1.0 where two labels differ, 0.0 where they agree, NaN where one is missing.

    Parameters
    ----------
    original, perturbed : array_like of int
        Labels that broadcast against each other.
    """
    a, b = np.asarray(original), np.asarray(perturbed)
    return np.where((a == MISSING) | (b == MISSING), np.nan, (a != b).astype(float))


def label_table(original: ArrayLike, perturbed: ArrayLike, options: int) -> Floats:
    """Counts of (original label, perturbed label), pairs with a missing label left out.

    Parameters
    ----------
    original, perturbed : array_like of int, shape (items,)
    options : int

    Returns
    -------
    ndarray, shape (options, options)
    """
    a, b = np.asarray(original), np.asarray(perturbed)
    kept = (a != MISSING) & (b != MISSING)
    cells = np.bincount(a[kept] * options + b[kept], minlength=options * options)
    return cells.reshape(options, options).astype(float)


def mutual_information(table: ArrayLike, *, base: float = 2.0) -> Floats:
    """Mutual information of the two labels of a table of counts (plug-in estimate).

    Parameters
    ----------
    table : array_like, shape (..., options, options)
        Counts or probabilities; each table is divided by its own sum.
    base : float

    Returns
    -------
    ndarray, shape (...)
        H(row) + H(column) - H(joint); NaN for an empty table.

    References
    ----------
    Cover and Thomas, Elements of Information Theory, 2nd ed., eq. 2.45.
    """
    counts = np.asarray(table, float)
    total = counts.sum(axis=(-2, -1))
    # Σ n log n on counts: one pass, and exactly 0 for a table with one cell.
    joint = xlogy(counts, counts).sum(axis=(-2, -1))
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    margins = xlogy(rows, rows).sum(axis=-1) + xlogy(columns, columns).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        nats = (joint - margins + xlogy(total, total)) / total
    information: Floats = np.maximum(nats, 0.0) / _log(base)
    return information


def phi_coefficient(table: ArrayLike) -> Floats:
    """Phi coefficient of 2 x 2 tables: the Pearson correlation of two binary labels.

    Parameters
    ----------
    table : array_like, shape (..., 2, 2)
        Counts.

    Returns
    -------
    ndarray, shape (...)
        NaN where a margin is empty, because phi is not defined there (see `association`).

    Raises
    ------
    ValueError
        If the tables are not 2 x 2.
    """
    counts = np.asarray(table, float)
    if counts.shape[-2:] != (2, 2):
        raise ValueError(
            f"phi is defined for two options, and the table has {counts.shape[-2]}: "
            "use mutual information for more"
        )
    rows, columns = counts.sum(axis=-1), counts.sum(axis=-2)
    product = rows.prod(axis=-1) * columns.prod(axis=-1)
    determinant = counts[..., 0, 0] * counts[..., 1, 1] - counts[..., 0, 1] * counts[..., 1, 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        phi: Floats = np.where(product > 0, determinant / np.sqrt(product), np.nan)
    return phi


@dataclass(frozen=True)
class Association:
    """A measure of association of two labels, and why it is missing when it is.

    Attributes
    ----------
    value : float
        NaN when undefined.
    reason : str
        Empty when the value is defined.
    n : int
        Pairs counted.
    """

    value: float
    reason: str
    n: int


def association(
    original: ArrayLike,
    perturbed: ArrayLike,
    options: int,
    *,
    measure: str = "mi",
    base: float = 2.0,
) -> Association:
    """Mutual information or phi of two label vectors.

    Parameters
    ----------
    original, perturbed : array_like of int, shape (items,)
        -1 is missing.
    options : int
    measure : {"mi", "phi"}
    base : float
        Base of the logarithm of the mutual information.

    Returns
    -------
    Association

    Raises
    ------
    ValueError
        For an unknown measure, or phi with other than two options.
    """
    table = label_table(original, perturbed, options)
    n = int(table.sum())
    if measure == "mi":
        value = float(mutual_information(table, base=base))
    elif measure == "phi":
        value = float(phi_coefficient(table))
    else:
        raise ValueError(f"measure must be 'mi' or 'phi', not {measure!r}")
    reason = "no pair of answers" if n == 0 else ""
    if not reason and np.isnan(value):
        side = "original" if (table.sum(axis=1) == 0).any() else "perturbed"
        reason = f"phi is undefined: every {side} answer is the same option"
    return Association(value=value, reason=reason, n=n)


def _weighted(weights: Floats, values: Floats) -> Floats:
    return np.asarray(np.einsum("...k,...k->...", weights, values))


def _log(base: float) -> float:
    if not base > 1:
        raise ValueError(f"base must be above 1, not {base}")
    return float(np.log(base))
