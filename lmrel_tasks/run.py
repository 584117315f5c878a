"""One sampled generation: its text, and what was captured while it was drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.cosine import CellSums


@dataclass(frozen=True, slots=True)
class Capture:
    """What a backend recorded about one run. ``None`` means "not recorded", never zero.

    Means are taken over the tokens that count (those before the first stop string).

    Attributes:
        seed: the run's own seed (0 <= seed < 2**63).
        tokens: number of generated tokens that count.
        finish_reason: ``"stop"`` (stop string or end token), ``"length"``,
            ``"content_filter"``, ``"refusal"`` or ``"error"``.
        entropy: mean token entropy in bits of the renormalised top-k distribution.
        certainty: mean over tokens of ``1 - H / log2(k)``, each token with its own k.
        tail_mass: mean probability outside the top k.
        logprob: sum of the chosen tokens' natural log-probabilities.
        top_k: mean number of candidates the entropy was computed from.
        error: why the run is missing, for a run that could not be had.
        first_tokens: the most probable tokens at the first place as (text, natural
            log-probability), where they were asked for.
    """

    seed: int | None = None
    tokens: int | None = None
    finish_reason: str | None = None
    entropy: float | None = None
    certainty: float | None = None
    tail_mass: float | None = None
    logprob: float | None = None
    top_k: float | None = None
    error: str | None = None
    first_tokens: Sequence[tuple[str, float]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The recorded fields as plain JSON values; NaN and infinity, which JSON lacks, are not."""
        # Not `dataclasses.asdict`, whose deep copies would take most of the time of keeping a run.
        found = ((name, getattr(self, name)) for name in self.__slots__)
        return {
            name: value
            for name, value in found
            if value is not None and not (isinstance(value, float) and not isfinite(value))
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Capture:
        """Inverse of `to_dict`; unknown keys are ignored."""
        return cls(**{key: value for key, value in values.items() if key in _CAPTURED})


_CAPTURED = frozenset(field.name for field in fields(Capture))


class Run(str):
    """The text of one run. A ``str``, so that the harness and its filters take it as it is.

    Attributes:
        capture: what the backend recorded.
        answer: canonical answer once an answer filter has run: ``""`` is "no answer",
            ``None`` is "no filter has looked".
        kind: the kind of canonical answer, so that labels can go through the same function.
        embedding: unit vector, shape (d,), where the ``embed`` filter is told to keep vectors.
        sums: sums of the embeddings of all runs of the cell, one object that they share, once the
            ``embed`` filter has run. Does not travel between processes.
        pending: runs of the same answer of a server that a backend will yield right after this
            one; a store keeps all of an answer or none of it.
    """

    # A study holds hundreds of thousands of runs; a dictionary in each would be most of its memory.
    __slots__ = ("answer", "capture", "embedding", "kind", "pending", "sums")

    pending: int
    capture: Capture
    answer: str | None
    kind: str | None
    embedding: NDArray[np.float32] | None
    sums: CellSums | None

    def __new__(
        cls,
        text: str,
        capture: Capture | None = None,
        *,
        answer: str | None = None,
        kind: str | None = None,
        embedding: NDArray[np.float32] | None = None,
        sums: CellSums | None = None,
    ) -> Run:
        run = super().__new__(cls, text)
        run.capture = capture if capture is not None else Capture()
        run.answer = answer
        run.kind = kind
        run.embedding = embedding
        run.sums = sums
        run.pending = 0
        return run

    @property
    def missing(self) -> bool:
        """True when the backend could not deliver this run."""
        return self.capture.error is not None

    def derive(self, **changes: Any) -> Run:
        """A copy with other attributes; ``text`` and any field of `Capture` may be given too."""
        text = changes.pop("text", str(self))
        own = {name: changes.pop(name, getattr(self, name)) for name in (*_OWN, "sums")}
        capture = changes.pop("capture", self.capture)
        return Run(text, replace(capture, **changes) if changes else capture, **own)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: getattr(self, name) for name in _OWN}
        return _rebuild, (str(self), self.capture.to_dict(), state)


_OWN = ("answer", "kind", "embedding")


def _rebuild(text: str, capture: dict[str, Any], state: dict[str, Any]) -> Run:
    return Run(text, Capture.from_dict(capture), **state)
