"""Any harness model, through ``generate_until`` once per run. Nothing but the text is captured.

Which models take a seed per run: those that say so in an attribute ``seed_argument`` (the name of
a generation setting), API models whose payload holds one, and whatever the task's option
``seed_argument`` names. To others no unknown setting is sent, for many refuse it; instead the
global generators are seeded from the seeds of each batch, so that a model that samples in this
process draws the same again for the same batches.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell

log = logging.getLogger(__name__)

# Batches grow while they are answered quickly: large ones keep a backend's batching busy, small
# ones let the runs arrive.
FEWEST = 16
MOST = 4096
QUICK_SECONDS = 5.0
SLOW_SECONDS = 30.0
# Runs that fail alone, without one success ever, before the model itself is blamed.
HOPELESS_AFTER = 3
SEED_BITS = (1 << 31) - 1


@dataclass(frozen=True)
class _Ask:
    cell: int
    run_index: int
    seed: int
    instance: Instance


class _Model:
    """The model, and whether it has ever answered."""

    def __init__(self, lm: Any) -> None:
        self.lm = lm
        names = inspect.signature(lm.generate_until).parameters
        quiet = "disable_tqdm" in names
        self.options: dict[str, Any] = {"disable_tqdm": True} if quiet else {}
        self.answered = False
        self.failures = 0

    def answers(self, asks: Sequence[_Ask]) -> list[Run]:
        """The runs of a batch. A batch that fails is halved until the bad run stands alone."""
        _seed_generators([ask.seed for ask in asks])
        try:
            texts = self.lm.generate_until([ask.instance for ask in asks], **self.options)
            if len(texts) != len(asks):
                raise RuntimeError(
                    f"{type(self.lm).__name__}.generate_until returned {len(texts)} texts "
                    f"for {len(asks)} requests"
                )
        except Exception as error:
            if len(asks) > 1:
                half = len(asks) // 2
                return self.answers(asks[:half]) + self.answers(asks[half:])
            self.failures += 1
            if not self.answered and self.failures >= HOPELESS_AFTER:
                raise
            words = f"{type(error).__name__}: {error}"
            return [Run("", Capture(seed=asks[0].seed, finish_reason="error", error=words))]
        self.answered = True
        return [
            Run("" if text is None else str(text), Capture(seed=ask.seed))
            for ask, text in zip(asks, texts, strict=True)
        ]


def sample_one_by_one(lm: Any, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    """Draw every run with its own ``generate_until`` request, in batches.

    Args:
        lm: any harness model.
        cells: what to draw; an option ``seed_argument`` names the generation setting that the
            model takes a seed in.

    Yields:
        ``(position of the cell, run index, run)``, batch by batch, in order.

    Raises:
        Exception: what the model raises, when its first few runs all fail. Later failures make
            missing runs.
    """
    model = _Model(lm)
    asks = list(_asks(lm, cells))
    floor = _batch_size(lm)
    size, start = max(FEWEST, 2 * floor), 0
    while start < len(asks):
        batch = asks[start : start + size]
        began = time.monotonic()
        runs = model.answers(batch)
        seconds = time.monotonic() - began
        for ask, run in zip(batch, runs, strict=True):
            yield ask.cell, ask.run_index, run
        start += len(batch)
        if seconds < QUICK_SECONDS:
            size = min(2 * size, MOST)
        elif seconds > SLOW_SECONDS:
            size = max(size // 2, floor)


def seed_argument(lm: Any, cell: Cell) -> str | None:
    """Name of the generation setting in which the model takes a seed; None when it takes none."""
    named = cell.options.get("seed_argument", getattr(lm, "seed_argument", None))
    if named is not None:
        return str(named)
    create = getattr(lm, "_create_payload", None)
    message = getattr(lm, "create_message", None)
    if create is None or message is None:
        return None
    try:
        # The harness's API models merge the generation settings into their payload.
        payload = create(
            message([cell.prompt], generate=True),
            generate=True,
            gen_kwargs=copy.deepcopy(dict(cell.generation)),
            eos=None,
        )
    except Exception as error:
        log.debug("no payload to look for a seed in: %s", error)
        return None
    return "seed" if "seed" in payload else None


def _asks(lm: Any, cells: Sequence[Cell]) -> Iterator[_Ask]:
    name = seed_argument(lm, cells[0]) if cells else None
    for index, cell in enumerate(cells):
        for run_index, seed in zip(cell.run_indices, cell.seeds, strict=True):
            settings = copy.deepcopy(dict(cell.generation))
            if name is not None:
                settings[name] = seed & SEED_BITS
            instance = Instance(
                request_type="generate_until",
                doc={},
                arguments=(cell.prompt, settings),
                idx=0,
                metadata=(None, index, 1),
            )
            yield _Ask(index, run_index, seed, instance)


def _batch_size(lm: Any) -> int:
    sizes = []
    for name in ("batch_size", "_batch_size", "_concurrent"):
        try:
            sizes.append(int(getattr(lm, name, 1)))
        except (TypeError, ValueError, NotImplementedError, AttributeError):
            continue  # "auto", or a model without one
    return max([1, *sizes])


def _seed_generators(seeds: Sequence[int]) -> None:
    digest = hashlib.blake2b(repr(list(seeds)).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "big") >> 1
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    import torch

    torch.manual_seed(seed)
