"""From what the harness hands over (documents and runs) to what metrics see (items)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# Importing these modules registers their metrics.
from lmrel_tasks.metrics import agreement_metrics as _agreement  # noqa: F401
from lmrel_tasks.metrics import bias as _bias  # noqa: F401
from lmrel_tasks.metrics import reliability as _reliability  # noqa: F401
from lmrel_tasks.metrics import repeatability as _repeatability  # noqa: F401
from lmrel_tasks.metrics import reproducibility as _reproducibility  # noqa: F401
from lmrel_tasks.metrics import variance_metrics as _variance  # noqa: F401
from lmrel_tasks.metrics.cosine import CellSums
from lmrel_tasks.metrics.item import Condition
from lmrel_tasks.metrics.registry import METRICS, Metric, get_metric
from lmrel_tasks.run import Run, captures_of

__all__ = ["METRICS", "Metric", "condition_of", "get_metric"]


def condition_of(
    name: str, runs: Sequence[Run], *, missing: int = 0, info: Mapping[str, Any] | None = None
) -> Condition:
    """The runs of one cell as arrays.

    Args:
        name: the condition's name.
        runs: the runs that arrived.
        missing: how many could not be had.
        info: what else is known of the condition.
    """
    numbers = captures_of(runs).numbers
    return Condition(
        name=name,
        texts=tuple(str(run) for run in runs),
        answers=tuple(run.answer if run.answer is not None else run.strip() for run in runs),
        embeddings=_embeddings(runs),
        entropy=numbers["entropy"].copy(),
        certainty=numbers["certainty"].copy(),
        top_k=numbers["top_k"].copy(),
        logprob=numbers["logprob"].copy(),
        tokens=np.where(numbers["tokens"] < 0, np.nan, numbers["tokens"]),
        missing=missing,
        asked=len(runs) + missing,
        info=info or {},
        embedded=_sums(runs),
    )


def _embeddings(runs: Sequence[Run]) -> np.ndarray | None:
    known = next((run.embedding for run in runs if run.embedding is not None), None)
    if known is None:
        return None
    nothing = np.full(known.shape, np.nan, dtype=np.float32)
    return np.stack([nothing if run.embedding is None else run.embedding for run in runs])


def _sums(runs: Sequence[Run]) -> CellSums | None:
    """Sums that the runs share, if they are those of exactly these runs."""
    sums = runs[0].sums if runs else None
    if sums is None or any(run.sums is not sums for run in runs):
        return None
    return sums if int(sums.count) + int(sums.missing) == len(runs) else None
