"""From the log-probabilities of a run's tokens to the few numbers that are kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmrel_tasks.sampling import capture

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

    Positions without a candidate are left out of the means; the summed log-probability is there
    only if every token has one.
    """
    fields: dict[str, Any] = {}
    width = max((len(position.candidates) for position in positions), default=0)
    if width:
        table = np.full((len(positions), width), -np.inf)
        for row, position in zip(table, positions, strict=True):
            row[: len(position.candidates)] = position.candidates
        table = np.minimum(np.where(table > IMPOSSIBLE, table, -np.inf), 0.0)
        table = table[np.isfinite(table).any(axis=1)]
        fields = capture.summarise(list(capture.reduce_tokens(table, np.zeros(len(table)))))
    fields.pop("logprob", None)
    chosen = [position.logprob for position in positions if position.logprob is not None]
    if positions and len(chosen) == len(positions):
        fields["logprob"] = float(sum(chosen))
    return {"tokens": len(positions), **fields}


def largest(values: Sequence[Any], k: int) -> tuple[float, ...]:
    """The k largest log-probabilities: servers append the chosen token when it is not among them.

    What is no number is no candidate.
    """
    try:
        return tuple(sorted(values, reverse=True)[:k])
    except TypeError:
        numbers = [value for value in values if isinstance(value, (int, float))]
        return tuple(sorted(numbers, reverse=True)[:k])


def number(value: Any) -> float | None:
    """A log-probability as a float; None for anything that is none."""
    if not isinstance(value, (int, float)) or not value > IMPOSSIBLE:
        return None
    return min(float(value), 0.0)
