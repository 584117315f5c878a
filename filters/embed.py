"""The ``embed`` filter: gives every run the embedding of its text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from lm_eval.api.filter import Filter
from numpy.typing import NDArray

from lmrel_tasks.filters.answer import as_run
from lmrel_tasks.run import Run

Encode = Callable[[list[str]], NDArray[np.float32]]


class EmbedFilter(Filter):
    """Attach sentence embeddings, one model call for the unique texts of a whole task.

    Args:
        model: sentence-transformers model name or folder; the default embedder if None.
    """

    # Filled in where models are known: model name -> (texts -> unit vectors (len(texts), d)).
    encoder: ClassVar[Callable[[str | None], Encode]]

    def __init__(self, model: str | None = None) -> None:
        self.model = model

    def apply(self, resps: Iterable[Any], docs: Sequence[Any]) -> list[list[Run]]:
        """Embeddings for a whole task. A text of white space only gets none."""
        cells = [[cell] if isinstance(cell, str) else list(cell) for cell in resps]
        texts = list(dict.fromkeys(str(run) for cell in cells for run in cell if run.strip()))
        vectors = dict(zip(texts, self.encoder(self.model)(texts), strict=True)) if texts else {}
        return [
            [as_run(run).derive(embedding=vectors.get(str(run))) for run in cell] for cell in cells
        ]
