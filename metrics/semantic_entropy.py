"""Semantic entropy: the entropy of the meanings of an item's runs, given as cluster labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from lmrel_tasks.metrics.agreement import is_missing


def _coded(labels: Iterable[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    kept = [(i, label) for i, label in enumerate(labels) if not is_missing(label)]
    code: dict[Hashable, int] = {}
    ids = [code.setdefault(label, len(code)) for _, label in kept]
    return np.array(ids, dtype=np.intp), np.array([i for i, _ in kept], dtype=np.intp)


def semantic_entropy(labels: Sequence[Hashable], logprobs: ArrayLike | None = None) -> float:
    """Entropy in bits of the distribution of an item's runs over meanings.

    Args:
        labels: (R,) the cluster of each run, any labels; "", None or NaN for a missing run.
        logprobs: (R,) log-probability (natural) of each run's text, best divided by its number of
            tokens. A cluster then has the sum of its distinct texts' probabilities, renormalised.
            Without it a cluster has the share of its runs (the discrete form). Give every text
            once: runs are samples, so a text repeated would count its probability twice.

    Returns:
        bits in [0, log2 of the number of clusters]; NaN without any run.

    Raises:
        ValueError: if lengths differ, or a run with a label has a log-probability that is NaN
            or +inf.

    Source: Farquhar, Kossen, Kuhn & Gal, "Detecting hallucinations in large language models using
    semantic entropy", Nature 630 (2024) 625-630, doi:10.1038/s41586-024-07421-0.
    """
    ids, rows = _coded(labels)
    if logprobs is None:
        if not ids.size:
            return float("nan")
        p = np.bincount(ids) / ids.size
    else:
        lp = np.asarray(logprobs, dtype=np.float64)
        if lp.shape != (len(labels),):
            raise ValueError(
                f"logprobs must hold one number per run, shape ({len(labels)},), got {lp.shape}"
            )
        if not ids.size:
            return float("nan")
        lp = lp[rows]
        if np.isnan(lp).any() or np.any(lp == np.inf):
            row = int(rows[np.flatnonzero(np.isnan(lp) | (lp == np.inf))[0]])
            raise ValueError(f"logprobs row {row} is not a log-probability")
        mass = np.array([logsumexp(lp[ids == c]) for c in range(ids.max() + 1)])
        total = logsumexp(mass)
        if not np.isfinite(total):
            return float("nan")
        p = np.exp(mass - total)
    p = p[p > 0]
    return float(max(-(p * np.log2(p)).sum(), 0.0))


def normalised_semantic_entropy(labels: Sequence[Hashable]) -> float:
    """Discrete semantic entropy over log2 R: 0 if all runs mean the same, 1 if no two do.

    NaN with fewer than two runs that are not missing.
    """
    runs = sum(not is_missing(label) for label in labels)
    return semantic_entropy(labels) / float(np.log2(runs)) if runs > 1 else float("nan")
