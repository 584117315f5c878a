"""The decoding loop: rows of many prompts advance together, one token at a time."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from lm_eval.models.huggingface import HFLM

from lmrel_tasks.sampling import Distribution, capture, draws
from lmrel_tasks.sampling.forward import ExpandedCache
from lmrel_tasks.sampling.generation import Decoding, ended
from lmrel_tasks.sampling.shared_prefix import SharedPrefix, works_with

log = logging.getLogger(__name__)


@dataclass
class Row:
    """A run while it is decoded.

    Attributes:
        cell: position of its cell.
        index: its run index.
        seed: its seed.
        prompt: token ids of the prompt, the same list for all runs of a cell.
        most: how many tokens it may generate.
        tokens: what it has generated.
        trace: one `capture.reduce_tokens` row per token, if anything is captured.
        seen: (V,) bool, tokens of prompt and text, if the repetition penalty needs them.
        reason: why it is over; None while it is not.
    """

    cell: int
    index: int
    seed: int
    prompt: list[int]
    most: int
    tokens: list[int] = field(default_factory=list)
    trace: list[draws.FloatArray] = field(default_factory=list)
    seen: torch.Tensor | None = None
    reason: str | None = None
    _uniforms: draws.FloatArray = field(default_factory=lambda: np.empty(0), repr=False)

    def uniform(self) -> float:
        """The draw for the next token."""
        place = len(self.tokens)
        if place >= len(self._uniforms):
            self._uniforms = draws.uniforms(self.seed, max(64, 2 * place))
        return float(self._uniforms[place])

    def restart(self) -> None:
        """Forget what was generated; the same draws follow again."""
        self.tokens, self.trace, self.seen, self.reason = [], [], None, None


@dataclass(frozen=True)
class Plan:
    """What the rows that decode together have in common.

    Attributes:
        how: generation settings.
        top: how many log-probabilities per token are reduced; 0 captures nothing.
        distribution: of which distribution, see `lmrel_tasks.sampling.Cell`.
    """

    how: Decoding
    top: int = 0
    distribution: Distribution = "raw"


def decode(
    lm: HFLM, cells: Sequence[Sequence[Row]], plan: Plan, capacity: int, leave: bool = True
) -> Iterator[Row]:
    """Decode the rows of every cell, at most ``capacity`` at once; yield each when it is over.

    Long prompts go first, as in the harness. A finished row leaves the batch at once, and the
    next prompt joins as soon as there is room for all its rows. When the device runs out of
    memory, the rows under way start again with half the capacity; their draws stay the same.

    Args:
        lm: the harness's model.
        cells: per prompt, the rows that share it.
        plan: how to decode.
        capacity: most rows at once.
        leave: False keeps finished rows in the batch until all of it is over (for comparison).

    Raises:
        torch.cuda.OutOfMemoryError: one row alone does not fit.
    """
    kv: SharedPrefix | ExpandedCache
    new_cache = SharedPrefix if works_with(lm) else ExpandedCache
    kv = new_cache(lm)
    if not kv.many_prompts:
        log.info("%s decodes one prompt at a time, with its own cache", type(lm.model).__name__)
    longest_first = sorted((rows for rows in cells if rows), key=lambda rows: -len(rows[0].prompt))
    queue = deque(part for rows in longest_first for part in _parts(rows, capacity))
    active: list[Row] = []
    while queue or active:
        exhausted = False
        try:
            if active:
                advance(lm, active, kv.step([row.tokens[-1] for row in active]), plan)
            while queue and _fits(kv, active, queue[0], capacity):
                rows = queue.popleft()
                active = [*active, *rows]
                logits = kv.admit(rows[0].prompt, len(rows))
                advance(lm, rows, logits[None], plan)
        except torch.cuda.OutOfMemoryError:
            if capacity == 1:
                raise
            exhausted = True
        if exhausted:
            capacity = max(1, capacity // 2)
            log.warning("out of memory: decoding on with %d rows at once", capacity)
            kv = new_cache(lm)
            torch.cuda.empty_cache()
            queue.extendleft(reversed(list(_again(active, capacity))))
            queue = deque(part for rows in queue for part in _parts(rows, capacity))
            active = []
            continue
        over = [row for row in active if row.reason]
        if over and (leave or len(over) == len(active)):
            kv.keep([place for place, row in enumerate(active) if not row.reason])
            active = [row for row in active if not row.reason]
            yield from over


def _parts(rows: Sequence[Row], capacity: int) -> Iterator[Sequence[Row]]:
    for start in range(0, len(rows), capacity):
        yield rows[start : start + capacity]


def _fits(
    kv: SharedPrefix | ExpandedCache, active: Sequence[Row], rows: Sequence[Row], capacity: int
) -> bool:
    return not active or (kv.many_prompts and len(active) + len(rows) <= capacity)


def _again(rows: Sequence[Row], capacity: int) -> Iterator[Sequence[Row]]:
    cells: dict[int, list[Row]] = {}
    for row in rows:
        row.restart()
        cells.setdefault(row.cell, []).append(row)
    yield from cells.values()


@torch.inference_mode()
def advance(lm: HFLM, rows: Sequence[Row], logits: torch.Tensor, plan: Plan) -> None:
    """Draw each row's next token and capture what is asked.

    ``logits`` is (rows, V), or (1, V) for rows that all stand behind the same prompt.
    """
    warp = plan.how.warp
    scores = logits
    if warp.repetition_penalty != 1:
        seen = _seen(rows[: len(logits)], logits)
        scores = draws.penalise(logits, seen, warp.repetition_penalty)
    # Rows that are over may still be here; whatever they draw is dropped.
    u = np.array([row.uniform() for row in rows])
    ranked = draws.rank(scores, draws.width_for(warp, plan.top))
    drawn = draws.draw(scores, ranked, u, warp, plan.top)
    trace = None
    if plan.top and plan.distribution == "sampling":
        trace = capture.reduce_tokens(drawn.top, drawn.logprobs)
    elif plan.top:
        own = ranked if scores is logits else draws.rank(logits, plan.top)
        trace = _raw_capture(logits, own.scores[:, : plan.top].astype(np.float64), drawn.ids)
    for place, row in enumerate(rows):
        if row.reason:
            continue
        row.tokens.append(int(drawn.ids[place]))
        if row.seen is not None:
            row.seen[row.tokens[-1]] = True
        if trace is not None:
            row.trace.append(trace[place])
        row.reason = ended(lm, row.tokens, row.most, plan.how)


def _raw_capture(
    logits: torch.Tensor, top: draws.FloatArray, ids: draws.IntArray
) -> draws.FloatArray:
    total = torch.logsumexp(logits, dim=-1).cpu().numpy().astype(np.float64)
    columns = torch.as_tensor(ids, device=logits.device)
    chosen = logits.expand(len(ids), -1).gather(-1, columns[:, None])[:, 0].cpu().numpy() - total
    return capture.reduce_tokens(
        np.broadcast_to(top - total[:, None], (len(ids), top.shape[1])), chosen
    )


def _seen(rows: Sequence[Row], logits: torch.Tensor) -> torch.Tensor:
    vocabulary = logits.shape[-1]
    for row in rows:
        if row.seen is None:
            row.seen = torch.zeros(vocabulary, dtype=torch.bool, device=logits.device)
            # Some models embed more ids than they can generate.
            ids = [i for i in (*row.prompt, *row.tokens) if i < vocabulary]
            row.seen[torch.tensor(ids, device=logits.device)] = True
    return torch.stack([row.seen for row in rows if row.seen is not None])
