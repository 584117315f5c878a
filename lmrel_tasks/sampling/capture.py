"""What is kept of each token's distribution: five numbers per token, never the distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.entropy import (
    effective_k,
    nanmean,
    normalised_entropy,
    run_entropy,
    tail_mass,
    topk_entropy,
)

FloatArray = NDArray[np.float64]


def reduce_tokens(top: FloatArray, chosen: FloatArray) -> FloatArray:
    """Reduce the candidates of one token per row.

    Args:
        top: (rows, k) largest log-probabilities, normalised over the vocabulary; -inf where
            there are fewer than k candidates.
        chosen: (rows,) log-probability of the chosen token under the same distribution.

    Returns:
        (rows, 5): entropy in bits of the renormalised candidates, that entropy relative to
        log2 of their number, mass outside them, the chosen log-probability, their number.
    """
    k = effective_k(top)
    bits = topk_entropy(top)
    return np.stack([bits, normalised_entropy(bits, k), tail_mass(top), chosen, k], axis=-1)


def summarise(tokens: Sequence[FloatArray]) -> dict[str, Any]:
    """The fields of `lmrel_tasks.run.Capture` from `reduce_tokens` rows of the tokens that count.

    Empty for a run without tokens: missing, not zero.
    """
    if not tokens:
        return {}
    bits, relative, tail, chosen, k = np.asarray(tokens).T
    return {
        "entropy": float(run_entropy(bits)),
        "certainty": float(1.0 - nanmean(relative)),
        "tail_mass": float(nanmean(tail)),
        "logprob": float(chosen.sum()),
        "top_k": float(k.mean()),
    }
