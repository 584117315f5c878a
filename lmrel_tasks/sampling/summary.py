"""From the log-probabilities of a run's tokens to the few numbers that are kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmrel_tasks.metrics import entropy as token_entropy

# Servers write -9999 for a token that is not among the candidates.
IMPOSSIBLE = -9990.0


@dataclass(frozen=True)
class Position:
    """One generated token: what was chosen, and the candidates at its place.

    Attributes:
        piece: the token's bytes, as they stand in the text.
        logprob: natural log-probability of the chosen token, None where it was not given.
        candidates: log-probabilities of the most probable tokens, largest first; one entry per
            token **identity** (id or bytes), never per stripped string.
    """

    piece: bytes
    logprob: float | None
    candidates: tuple[float, ...]


def positions_before(positions: Sequence[Position], kept: bytes) -> Sequence[Position]:
    """The tokens that begin inside the first ``len(kept)`` bytes of the generated text.

    Those are the tokens before the first stop string. An end token, which adds nothing to the
    text, begins at its end and does not count either.
    """
    start = 0
    for index, position in enumerate(positions):
        if start >= len(kept):
            return positions[:index]
        start += len(position.piece)
    return positions


def summarise(positions: Sequence[Position]) -> dict[str, Any]:
    """The captured fields of `lmrel_tasks.run.Capture` for the tokens that count.

    Positions without a candidate are left out of the means; without any, only the token count
    (and the summed log-probability, if every token has one) is returned. Entropies are in bits of
    the renormalised top-k distribution, each position with its own k.
    """
    fields: dict[str, Any] = {"tokens": len(positions)}
    chosen = [position.logprob for position in positions]
    if chosen and all(value is not None and value > IMPOSSIBLE for value in chosen):
        fields["logprob"] = float(sum(value for value in chosen if value is not None))
    width = max((len(position.candidates) for position in positions), default=0)
    if width == 0:
        return fields
    table = np.full((len(positions), width), -np.inf)
    for row, position in zip(table, positions, strict=True):
        row[: len(position.candidates)] = position.candidates
    table[table < IMPOSSIBLE] = -np.inf
    table[np.isnan(table)] = -np.inf
    k = token_entropy.effective_k(table)
    if not np.any(k > 0):
        return fields
    bits = token_entropy.topk_entropy(table)
    fields["entropy"] = float(token_entropy.run_entropy(bits))
    fields["certainty"] = float(token_entropy.run_certainty(bits, k))
    fields["tail_mass"] = float(token_entropy.nanmean(token_entropy.tail_mass(table)))
    fields["top_k"] = float(k[k > 0].mean())
    return fields
