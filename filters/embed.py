"""The ``embed`` filter: embeds the runs' texts and gives every cell the sums of its embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from lm_eval.api.filter import Filter
from numpy.typing import NDArray

from lmrel_tasks.filters.answer import as_run, texts_of
from lmrel_tasks.metrics.cosine import cell_sums
from lmrel_tasks.run import Run

Encode = Callable[[list[str]], NDArray[np.float32]]

# Texts embedded at once; bounds the vectors in memory (12 MB at 384 dimensions).
BLOCK = 8192


def cell_vectors(
    cells: Sequence[Sequence[str]], encode: Encode, *, block: int = BLOCK
) -> Iterator[NDArray[np.float32] | None]:
    """Embeddings of the runs of each cell, in order, every distinct text embedded once.

    Args:
        cells: per cell, its texts; one of white space only gets a row of NaN.
        encode: texts -> unit vectors (len(texts), d).
        block: how many new texts are collected before they are embedded.

    Yields:
        (R, d) per cell, None for a cell without a text. Vectors are forgotten once no later cell
        needs them.
    """
    last = {text: at for at, cell in enumerate(cells) for text in cell if text.strip()}
    known: dict[str, NDArray[np.float32]] = {}
    start = 0
    while start < len(cells):
        new: dict[str, None] = {}
        end = start
        while end < len(cells) and len(new) < block:
            new.update((t, None) for t in cells[end] if t in last and t not in known)
            end += 1
        if new:
            known.update(zip(new, encode([str(text) for text in new]), strict=True))
        for at in range(start, end):
            yield _rows(cells[at], known)
            for text in set(cells[at]):
                if last.get(text) == at:
                    del known[text]
        # A row is a view that would keep its whole block alive.
        known.update({text: known[text].copy() for text in new if text in known})
        start = end


def _rows(cell: Sequence[str], known: dict[str, NDArray[np.float32]]) -> NDArray[np.float32] | None:
    found = next((known[text] for text in cell if text in known), None)
    if found is None:
        return None
    nothing = np.full(found.shape, np.nan, dtype=np.float32)
    return np.stack([known.get(text, nothing) for text in cell])


class EmbedFilter(Filter):
    """Embed the texts of a whole task, each distinct one once, and keep sums per cell.

    Put it behind filters that change or drop runs: the sums are those of the runs it sees.

    Args:
        model: sentence-transformers model name or folder; the default embedder if None.
        keep: keep the vector of every run too (4 bytes times d for each).
    """

    def __init__(self, model: str | None = None, keep: bool = False) -> None:
        self.model = model
        self.keep = keep

    @staticmethod
    def encoder(model: str | None) -> Encode:
        """The embedder, texts -> unit vectors; the plugin puts sentence-transformers here."""
        raise NotImplementedError

    def apply(self, resps: Iterable[Any], docs: Sequence[Any]) -> list[list[Run]]:
        """Sums for a whole task. A text of white space only counts as missing."""
        cells = [texts_of(cell) for cell in resps]
        if not any(run.strip() for cell in cells for run in cell):
            return [[as_run(run) for run in cell] for cell in cells]
        found = cell_vectors(cells, self.encoder(self.model), block=BLOCK)
        return [self._embedded(cell, rows) for cell, rows in zip(cells, found, strict=True)]

    def _embedded(self, cell: Sequence[str], rows: NDArray[np.float32] | None) -> list[Run]:
        if rows is None:
            return [as_run(run) for run in cell]
        sums = cell_sums(rows)
        vectors = rows if self.keep else [None] * len(cell)
        runs = [as_run(run) for run in cell]
        # On the runs themselves: stock filters behind this one make plain texts, which get back
        # what their run has.
        for run, one in zip(runs, vectors, strict=True):
            run.sums = sums
            run.embedding = None if one is None or np.isnan(one[0]) else one
        return runs
