"""Sampling from Hugging Face models: one prefill per prompt, all its runs decoded together."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from lm_eval.models.huggingface import HFLM

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell, capture, draws, sample_runs
from lmrel_tasks.sampling.forward import ExpandedCache
from lmrel_tasks.sampling.generation import Decoding, counted, decoding, ended, finished_text
from lmrel_tasks.sampling.shared_prefix import SharedPrefix, works_with

# Runs of one prompt are decoded together up to this many, whatever the harness's batch size.
ROWS_OF_ONE_PROMPT = 64


@dataclass
class Row:
    """A run while it is decoded."""

    cell: int
    index: int
    seed: int
    uniforms: draws.FloatArray
    tokens: list[int] = field(default_factory=list)
    trace: list[draws.FloatArray] = field(default_factory=list)
    reason: str | None = None


@dataclass
class Job:
    """Some runs of one cell, and the prompt they share."""

    prompt: list[int]
    rows: list[Row]


@dataclass(frozen=True)
class Plan:
    """What the cells of a group have in common."""

    how: Decoding
    top: int
    distribution: str


@sample_runs.register(HFLM)
def sample_hf(lm: HFLM, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    """Draw the runs of every cell from a Hugging Face causal language model.

    Each prompt goes through the model once; its runs then decode side by side with those of
    other prompts. A run's t-th draw depends on its seed and t alone, so the batch size, the
    order of the cells and the number of processes change a run only where floating-point
    rounding moves a draw across a boundary (in float32 well under 1 % of runs; in bfloat16 and
    float16 more, because there another batch size gives visibly other logits).

    Raises:
        ValueError: the model is an encoder-decoder, or a generation setting is not supported.
    """
    if lm.backend != "causal":
        raise ValueError(
            "lmrel samples from decoder-only models (backend causal); "
            f"{type(lm.model).__name__} has backend {lm.backend}"
        )
    groups: dict[str, list[int]] = {}
    for position, cell in enumerate(cells):
        key = json.dumps(
            [cell.generation, cell.top_logprobs, cell.logprobs], sort_keys=True, default=repr
        )
        groups.setdefault(key, []).append(position)
    for positions in groups.values():
        first = cells[positions[0]]
        how = decoding(lm, first.generation)
        jobs = [_job(lm, cells[position], position, how) for position in positions]
        plan = Plan(how, first.top_logprobs, first.logprobs)
        capacity = _capacity(lm, max(len(job.rows) for job in jobs))
        for row in _decode(lm, jobs, plan, capacity):
            yield row.cell, row.index, _run(lm, row, how)


def _job(lm: HFLM, cell: Cell, position: int, how: Decoding) -> Job:
    room = lm.max_length - how.max_new
    if room < 1:
        raise ValueError(
            f"max_gen_toks ({how.max_new}) must be less than the model's maximum sequence "
            f"length ({lm.max_length})"
        )
    if cell.prompt:
        encoded, _ = lm.tok_batch_encode(
            [cell.prompt], left_truncate_len=room, truncation=lm.truncation
        )
        prompt = encoded[0].tolist()
    else:
        prompt = []
    # A model needs something to continue: the token that starts every document.
    prompt = prompt or [lm.prefix_token_id]
    rows = [
        Row(position, index, seed, draws.uniforms(seed, how.max_new))
        for index, seed in zip(cell.run_indices, cell.seeds, strict=True)
    ]
    return Job(prompt, rows)


def _capacity(lm: HFLM, most_runs: int) -> int:
    """How many rows decode together: the harness's batch size, but never fewer than one prompt's.

    Runs of one prompt share its prefill, so splitting them up would only cost time.
    """
    size = lm.batch_size_per_gpu
    asked = int(size) if str(size).isdigit() else int(lm.max_batch_size or ROWS_OF_ONE_PROMPT)
    return max(asked, min(most_runs, ROWS_OF_ONE_PROMPT))


def _decode(
    lm: HFLM, jobs: Sequence[Job], plan: Plan, capacity: int, leave: bool = True
) -> Iterator[Row]:
    """Decode all rows of all jobs, at most ``capacity`` at once; yield each when it is over.

    With ``leave`` false, finished rows go on costing time until their whole batch is over.
    """
    kv: SharedPrefix | ExpandedCache
    kv = SharedPrefix(lm) if works_with(lm) else ExpandedCache(lm)
    queue = deque(sorted(_split(jobs, capacity), key=lambda job: -len(job.prompt)))
    active: list[Row] = []
    while queue or active:
        while queue and (
            not active or (kv.many_prompts and len(active) + len(queue[0].rows) <= capacity)
        ):
            job = queue.popleft()
            logits = kv.admit(job.prompt, len(job.rows))
            _choose(lm, job.rows, logits.expand(len(job.rows), -1), plan)
            active += job.rows
        active = yield from _leave(kv, active, leave)
        if active:
            _choose(lm, active, kv.step([row.tokens[-1] for row in active]), plan)


def _split(jobs: Sequence[Job], capacity: int) -> Iterator[Job]:
    for job in jobs:
        for start in range(0, len(job.rows), capacity):
            yield Job(job.prompt, job.rows[start : start + capacity])


def _leave(kv: Any, active: list[Row], leave: bool) -> Iterator[Row]:
    over = [row for row in active if row.reason]
    if not over or (not leave and len(over) < len(active)):
        return active
    alive = [place for place, row in enumerate(active) if not row.reason]
    kv.keep(alive)
    yield from over
    return [active[place] for place in alive]


@torch.inference_mode()
def _choose(lm: HFLM, rows: Sequence[Row], logits: torch.Tensor, plan: Plan) -> None:
    warp = plan.how.warp
    u = np.array([row.uniforms[min(len(row.tokens), plan.how.max_new - 1)] for row in rows])
    ranked = draws.rank(logits, draws.width_for(warp, plan.top))
    drawn = draws.draw(logits, ranked, u, warp, plan.top)
    if plan.top:
        total = torch.logsumexp(logits, -1, keepdim=True).double().cpu().numpy()
        chosen = logits.gather(-1, torch.as_tensor(drawn.ids, device=logits.device)[:, None])
        trace = capture.reduce_tokens(
            ranked.scores[:, : plan.top] - total,
            (chosen.double().cpu().numpy() - total)[:, 0],
        )
    for place, row in enumerate(rows):
        if row.reason:
            continue
        row.tokens.append(int(drawn.ids[place]))
        if plan.top:
            row.trace.append(trace[place])
        row.reason = ended(lm, row.tokens, plan.how)


def _run(lm: HFLM, row: Row, how: Decoding) -> Run:
    count = counted(lm, row.tokens, how)
    captured = capture.summarise(row.trace[:count])
    return Run(
        finished_text(lm, row.tokens, how),
        Capture(seed=row.seed, tokens=count, finish_reason=row.reason, **captured),
    )
