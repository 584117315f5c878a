"""What a metric sees of one item: its conditions, their runs, and the acceptable answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.cosine import CellSums, cell_sums, no_sums, stack_cells

FloatArray = NDArray[np.float64]

_PER_RUN = ("texts", "answers", "entropy", "certainty", "top_k", "logprob", "tokens")


@dataclass(frozen=True)
class Condition:
    """The runs of one item under one condition.

    Attributes:
        name: the condition's name.
        texts: (R,) raw texts of the runs that arrived.
        answers: (R,) canonical answers, ``""`` for none.
        embeddings: (R, d) unit vectors; a row of NaN is a run without one (an empty text).
            ``None`` if the task computes no embeddings, or keeps only their sums.
        entropy: (R,) mean token entropy in bits, NaN where not captured.
        certainty: (R,) certainty in [0, 1], NaN where not captured.
        top_k: (R,) mean number of candidates behind `entropy`, NaN where not captured.
        logprob: (R,) sum of the natural log-probabilities of the chosen tokens, NaN likewise.
        tokens: (R,) numbers of generated tokens, NaN likewise.
        missing: number of runs that were asked for and could not be had.
        asked: number of runs asked for, those left out by early stopping not counted.
        probabilities: (options,) option probabilities, for tasks that read answers from them.
        applicable: False if the condition changes nothing in this item.
        info: what else is known of the condition for this item (direction, edit fractions).
        embedded: sums of the embeddings of all runs, where those were taken while streaming.
    """

    name: str
    texts: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    embeddings: NDArray[Any] | None = None
    entropy: FloatArray = field(default_factory=lambda: np.empty(0))
    certainty: FloatArray = field(default_factory=lambda: np.empty(0))
    top_k: FloatArray = field(default_factory=lambda: np.empty(0))
    logprob: FloatArray = field(default_factory=lambda: np.empty(0))
    tokens: FloatArray = field(default_factory=lambda: np.empty(0))
    missing: int = 0
    asked: int = 0
    probabilities: FloatArray | None = None
    applicable: bool = True
    info: Mapping[str, Any] = field(default_factory=dict)
    embedded: CellSums | None = None

    @cached_property
    def sums(self) -> CellSums | None:
        """Sums of the embeddings, all that the cosine statistics need."""
        if self.embedded is not None:
            return self.embedded
        return None if self.embeddings is None else cell_sums(self.embeddings)

    def first(self, n: int) -> Condition:
        """The same condition with its first n runs only; ``missing`` and ``asked`` stay."""
        rows = {name: getattr(self, name)[:n] for name in _PER_RUN}
        if n < len(self.texts):
            rows["embedded"] = None
        if self.embeddings is not None:
            rows["embeddings"] = self.embeddings[:n]
        return replace(self, **rows)


@dataclass(frozen=True)
class Item:
    """One item: a harness document with its runs.

    Attributes:
        key: stable identity of the document.
        conditions: the conditions in the order in which the task declares them.
        labels: acceptable canonical answers; empty if none of the answers is right.
        has_label: False if the document carries no label at all.
        options: the answer options, if the task has any.
        fields: the document itself.
    """

    key: str
    conditions: tuple[Condition, ...]
    labels: tuple[str, ...] = ()
    has_label: bool = True
    options: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    def condition(self, name: str) -> Condition | None:
        """The condition of that name, or None."""
        return next((one for one in self.conditions if one.name == name), None)

    @cached_property
    def cells(self) -> tuple[CellSums, ...] | None:
        """Sums of the embeddings of every condition; those without any are empty."""
        cells = [one.sums for one in self.conditions]
        known = next((cell for cell in cells if cell is not None), None)
        if known is None:
            return None
        nothing = no_sums(known.total.shape[-1])
        return tuple(nothing if cell is None else cell for cell in cells)

    @cached_property
    def sums(self) -> CellSums | None:
        """The same in one array, shape (P,). A value to be kept keeps `cells`, without a copy."""
        return None if self.cells is None else stack_cells(self.cells)

    def first_runs(self, n: int) -> Item:
        """The item with the first n runs of every condition only."""
        return replace(self, conditions=tuple(one.first(n) for one in self.conditions))

    def is_right(self, answer: str) -> bool:
        """True if the canonical answer is one of the acceptable ones."""
        return bool(answer) and answer in self.labels
