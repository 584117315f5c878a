"""One sampled generation: its text, and what was captured while it was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.captures import Capture, Captures
from lmrel_tasks.metrics.cosine import CellSums

__all__ = ["Capture", "Run", "captures_of", "share_captures"]

_NOTHING = Capture()


class Run(str):
    """The text of one run. A ``str``, so that the harness and its filters take it as it is.

    Attributes:
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
    __slots__ = ("_captures", "_row", "answer", "embedding", "kind", "pending", "sums")

    # The run's own capture, or a cell's and the run's row there; see `share_captures`.
    _captures: Capture | Captures
    _row: int
    pending: int
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
        run._captures = capture if capture is not None else _NOTHING
        run._row = 0
        run.answer = answer
        run.kind = kind
        run.embedding = embedding
        run.sums = sums
        run.pending = 0
        return run

    @property
    def capture(self) -> Capture:
        """What the backend recorded."""
        kept = self._captures
        return kept[self._row] if isinstance(kept, Captures) else kept

    @property
    def finish_reason(self) -> str | None:
        """As in the capture."""
        kept = self._captures
        return kept.finish_reasons[self._row] if isinstance(kept, Captures) else kept.finish_reason

    @property
    def missing(self) -> bool:
        """True when the backend could not deliver this run."""
        kept = self._captures
        if isinstance(kept, Captures):
            return kept.rare.get(self._row, (None,))[0] is not None
        return kept.error is not None

    def derive(self, **changes: Any) -> Run:
        """A copy with other attributes; ``text`` and any field of `Capture` may be given too."""
        run = Run(changes.pop("text", self))
        run._captures, run._row = self._captures, self._row
        for name in (*_OWN, "sums"):
            setattr(run, name, changes.pop(name, getattr(self, name)))
        if changes:
            run._captures = replace(changes.pop("capture", self.capture), **changes)
        return run

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: getattr(self, name) for name in _OWN}
        return _rebuild, (str(self), self.capture.to_dict(), state)


_OWN = ("answer", "kind", "embedding")


def _rebuild(text: str, capture: dict[str, Any], state: dict[str, Any]) -> Run:
    return Run(text, Capture.from_dict(capture), **state)


def share_captures(runs: Sequence[Run]) -> None:
    """Keep what was recorded about the runs in columns that they share, to save memory."""
    columns = Captures(run.capture for run in runs)
    for row, run in enumerate(runs):
        run._captures, run._row = columns, row


def captures_of(runs: Sequence[Run]) -> Captures:
    """What was recorded about the runs; columns that exactly they share are not copied."""
    kept = runs[0]._captures if runs else None
    if (
        isinstance(kept, Captures)
        and len(kept) == len(runs)
        and all(run._captures is kept and run._row == row for row, run in enumerate(runs))
    ):
        return kept
    return Captures(run.capture for run in runs)
