"""Token entropy of top-k log-probabilities, and the certainty measures built on it.

Every function works on the last axis (or the two last, where said) and batches over the leading
ones. NaN means missing: a position without candidates, padding after the end of a run, a run
without tokens. Missing values are left out of averages, never counted as zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def _as_logprobs(logprobs: ArrayLike) -> FloatArray:
    lp = np.asarray(logprobs, dtype=np.float64)
    if lp.ndim == 0:
        raise ValueError("logprobs needs at least one axis: the candidates of a token position")
    if np.any(lp == np.inf):
        raise ValueError("logprobs holds +inf: give natural log-probabilities, -inf for impossible")
    return lp


def _log_base(base: float) -> float:
    if not base > 1:
        raise ValueError(f"base must be greater than 1, got {base}")
    return float(np.log(base))


def nanmean(values: ArrayLike, axis: int | tuple[int, ...] | None = -1) -> FloatArray:
    """Mean over `axis` without the NaN entries; NaN, without a warning, where nothing is left."""
    x = np.asarray(values, dtype=np.float64)
    present = ~np.isnan(x)
    count = present.sum(axis=axis)
    total = np.where(present, x, 0.0).sum(axis=axis)
    return np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)


def effective_k(logprobs: ArrayLike) -> NDArray[np.int64]:
    """Number of candidates with non-zero probability at each position; (..., k) -> (...)."""
    return np.isfinite(_as_logprobs(logprobs)).sum(axis=-1)


def topk_entropy(logprobs: ArrayLike, *, base: float = 2.0) -> FloatArray:
    """Entropy of the top-k distribution, renormalised to sum to one.

    Args:
        logprobs: (..., k) natural log-probabilities (or logits) of the candidates of a position;
            -inf and NaN entries are no candidates.
        base: 2 for bits, ``math.e`` for nats.

    Returns:
        (...) entropies in [0, log_base k]; NaN where a position has no candidate.

    Raises:
        ValueError: for a scalar, +inf, or a base of 1 or less.

    Computed as logsumexp(lp) - sum p*lp, shifted by the maximum, which loses no digits for a
    distribution that is nearly certain. H([0, 0]) = 1 bit; H([0, -10]) = 0.000720450 bit.
    """
    lp = _as_logprobs(logprobs)
    scale = _log_base(base)
    candidate = np.isfinite(lp)
    if lp.shape[-1] == 0:
        return np.full(lp.shape[:-1], np.nan)
    finite = np.where(candidate, lp, -np.inf)
    heaviest = finite.argmax(axis=-1, keepdims=True)
    top = np.take_along_axis(finite, heaviest, axis=-1)
    shifted = np.where(candidate, lp - np.where(np.isfinite(top), top, 0.0), 0.0)
    weight = np.where(candidate, np.exp(shifted), 0.0)
    # The heaviest candidate has weight 1: log1p of the rest keeps what log(1 + tiny) rounds away.
    np.put_along_axis(weight, heaviest, 0.0, axis=-1)
    rest = weight.sum(axis=-1)
    entropy = np.log1p(rest) - (weight * shifted).sum(axis=-1) / (1.0 + rest)
    return np.where(candidate.any(axis=-1), np.maximum(entropy, 0.0) / scale, np.nan)


def tail_mass(logprobs: ArrayLike) -> FloatArray:
    """Probability outside the candidates, 1 - sum p, clipped to [0, 1]; (..., k) -> (...).

    Needs log-probabilities normalised over the whole vocabulary (not logits, not renormalised).
    NaN where a position has no candidate. A large tail means that the top-k entropy understates
    the entropy of the full distribution.
    """
    lp = _as_logprobs(logprobs)
    candidate = np.isfinite(lp)
    mass = np.where(candidate, np.exp(np.where(candidate, lp, 0.0)), 0.0).sum(axis=-1)
    return np.where(candidate.any(axis=-1), np.clip(1.0 - mass, 0.0, 1.0), np.nan)


def normalised_entropy(entropy: ArrayLike, k: ArrayLike, *, base: float = 2.0) -> FloatArray:
    """H / log k with each position's own k; shapes broadcast.

    Where k is 1 the token was forced: entropy and its maximum are both 0, and the ratio is 0.
    Where k is 0 (no candidate) or NaN the result is NaN. `base` is the base `entropy` is in.
    """
    h, width = np.broadcast_arrays(
        np.asarray(entropy, dtype=np.float64), np.asarray(k, dtype=np.float64)
    )
    scale = _log_base(base)
    most = np.log(np.maximum(width, 1.0)) / scale
    ratio = np.divide(h, most, out=np.zeros(h.shape), where=most > 0)
    return np.where(np.isnan(h) | np.isnan(width) | (width < 1), np.nan, ratio)


def run_certainty(entropy: ArrayLike, k: ArrayLike, *, base: float = 2.0) -> FloatArray:
    """Certainty of a run, 1 - mean over tokens of H_t / log k_t.

    Args:
        entropy: (..., T) entropies of the tokens of a run, padded with NaN.
        k: effective number of candidates, scalar or (..., T). Ask the model for at least two:
            with one candidate per position every run is certain by construction.
        base: base of `entropy`.

    Returns:
        (...) certainties in [0, 1]; NaN for a run without tokens. With one k for all positions
        this is 1 - H̄/log2 k.
    """
    return 1.0 - nanmean(normalised_entropy(entropy, k, base=base))


def run_entropy(entropy: ArrayLike) -> FloatArray:
    """Mean entropy over the tokens of a run; (..., T) padded with NaN -> (...)."""
    return nanmean(entropy)


def internal_repeatability(certainty: ArrayLike) -> FloatArray:
    """Mean over the runs of a cell of the runs' certainty; (..., R) -> (...), NaN runs left out."""
    return nanmean(certainty)


def internal_stability(certainty: ArrayLike, *, ddof: int = 1) -> FloatArray:
    """1 - 2 SD over the runs of a cell of the runs' certainty.

    Args:
        certainty: (..., R), NaN for missing runs.
        ddof: 1 for the unbiased variance; the 0 of an early definition serves presets only.

    Returns:
        (...) values at most 1; NaN with fewer than two runs. A model that is always equally unsure
        is stable and uncertain, so this never stands in for `internal_repeatability`.
    """
    x = np.asarray(certainty, dtype=np.float64)
    present = ~np.isnan(x)
    count = present.sum(axis=-1)
    mean = nanmean(x)
    square = np.where(present, (x - mean[..., None]) ** 2, 0.0).sum(axis=-1)
    variance = np.divide(
        square, count - ddof, out=np.full(square.shape, np.nan), where=(count > 1) & (count > ddof)
    )
    return 1.0 - 2.0 * np.sqrt(variance)


def mean_pair_distance(values: ArrayLike) -> FloatArray:
    """Mean of |x_p - x_q| over pairs of conditions; (..., P) -> (...), NaN entries left out."""
    x = np.asarray(values, dtype=np.float64)
    first, second = np.triu_indices(x.shape[-1], 1)
    return nanmean(np.abs(x[..., first] - x[..., second]))


def internal_reproducibility(mean_entropy: ArrayLike, k: float, *, base: float = 2.0) -> FloatArray:
    """1 - mean over condition pairs of |H̄_p - H̄_q| / log k.

    Args:
        mean_entropy: (..., P) mean entropy of each condition, NaN where a condition is missing.
        k: the number of candidates asked for, at least 2.
        base: base of `mean_entropy`.

    Returns:
        (...) values in [0, 1]; NaN with fewer than two conditions present.

    Raises:
        ValueError: if k is below 2.
    """
    if not k >= 2:
        raise ValueError(f"k must be at least 2 for a normalised entropy, got {k}")
    return 1.0 - mean_pair_distance(mean_entropy) * _log_base(base) / np.log(k)


def certainty_reproducibility(certainty: ArrayLike) -> FloatArray:
    """1 - mean over condition pairs of |C_p - C_q|; (..., P) -> (...).

    Equals `internal_reproducibility` when all positions have the same k, and stays right when
    positions have their own.
    """
    return 1.0 - mean_pair_distance(certainty)
