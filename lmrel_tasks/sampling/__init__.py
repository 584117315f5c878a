"""Drawing runs from a model: what a backend is asked, and how a seed is made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal

from lmrel_tasks.run import Run

Distribution = Literal["raw", "sampling"]


@dataclass(frozen=True)
class Cell:
    """One prompt, to be asked several times: an item under a condition.

    Attributes:
        prompt: the text, or the harness's ``JsonChatStr`` for chat APIs.
        generation: the harness's generation settings (``until``, ``max_gen_toks``,
            ``temperature``, ...), already merged with the command line.
        run_indices: which runs of the cell are wanted, e.g. ``(0, 1, 2)``.
        seeds: one seed per wanted run, from `run_seed`.
        top_logprobs: how many log-probabilities per token to reduce; 0 captures none.
        logprobs: ``"raw"`` captures the model's own distribution (before temperature and
            warpers), ``"sampling"`` the one that was drawn from.
        options: backend options of the task (``metadata.lmrel``), e.g. ``max_n``.
    """

    prompt: str
    generation: Mapping[str, Any]
    run_indices: tuple[int, ...]
    seeds: tuple[int, ...]
    top_logprobs: int = 0
    logprobs: Distribution = "raw"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.run_indices) != len(self.seeds):
            raise ValueError(
                f"a cell needs one seed per run: {len(self.run_indices)} runs, "
                f"{len(self.seeds)} seeds"
            )


def run_seed(seed: int, item: str, condition: str, run: int) -> int:
    """The seed of one run: 63 bits that depend on these four and nothing else.

    Batch size, order, rank and restart therefore never change a run's draws.
    """
    text = f"{seed}\x1f{item}\x1f{condition}\x1f{run}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


@singledispatch
def sample_runs(lm: Any, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    """Draw every wanted run of every cell; yield each as soon as it exists.

    Args:
        lm: a harness model. Backends register themselves for their model class.
        cells: what to draw.

    Yields:
        ``(position of the cell in cells, run index, run)``, in any order, each exactly once.
        A run that could not be had is yielded with ``capture.error`` set.
    """
    from lmrel_tasks.sampling.fallback import sample_one_by_one

    return sample_one_by_one(lm, cells)
