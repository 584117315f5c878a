"""Sampling from Hugging Face models: one prefill per prompt, all its runs decoded together."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence

from lm_eval.models.huggingface import HFLM

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell, capture, sample_runs
from lmrel_tasks.sampling.decode import Plan, Row, decode
from lmrel_tasks.sampling.generation import Decoding, counted, decoding, finished_text

log = logging.getLogger(__name__)

# Runs of one prompt are decoded together up to this many, whatever the harness's batch size.
ROWS_OF_ONE_PROMPT = 64


@sample_runs.register(HFLM)
def sample_hf(lm: HFLM, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    """Draw the runs of every cell from a Hugging Face causal language model.

    Each prompt goes through the model once; its runs then decode side by side with those of
    other prompts. A run's t-th draw depends on its seed and t alone, so the batch size, the
    order of the cells and the number of processes change a run only where floating-point
    rounding moves a draw across a boundary (in float32 well under 1 % of runs; in bfloat16 and
    float16 more, because there another batch size gives visibly other logits).

    Text and tokens: a run is the text that the harness would make of the same tokens, cut at
    the first stop string. Tokens that begin before the stop string count, in ``tokens`` and in
    everything captured; the end token and what follows do not.

    Raises:
        ValueError: the model is an encoder-decoder, or a generation setting is not supported.
    """
    if lm.backend != "causal":
        raise ValueError(
            "lmrel samples from decoder-only models (backend causal); "
            f"{type(lm.model).__name__} is loaded with backend {lm.backend}"
        )
    if type(lm)._model_generate is not HFLM._model_generate:
        # It steers or replaces the model's own decoding, which this module would bypass.
        from lmrel_tasks.sampling.fallback import sample_one_by_one

        yield from sample_one_by_one(lm, cells)
        return
    for positions in _alike(cells):
        first = cells[positions[0]]
        how = decoding(lm, first.generation)
        rows = [_rows(lm, cells[position], position, how) for position in positions]
        plan = Plan(how, first.top_logprobs, first.logprobs)
        for row in decode(lm, rows, plan, capacity(lm, max(map(len, rows)))):
            yield row.cell, row.index, _run(lm, row, how)


def capacity(lm: HFLM, most_runs: int) -> int:
    """How many rows decode together: the harness's batch size, but never fewer than one prompt's.

    Runs of one prompt share its prefill and its keys and values, so splitting them up would
    cost time and save little memory. ``auto`` means ``max_batch_size`` (64 unless set): the
    harness's own search runs the longest context at that size, which says nothing about decoding,
    and the decoder halves the number by itself when the device's memory is exhausted.
    """
    size = str(lm.batch_size_per_gpu)
    asked = int(size) if size.isdigit() else int(lm.max_batch_size or ROWS_OF_ONE_PROMPT)
    return max(asked, min(most_runs, ROWS_OF_ONE_PROMPT))


def _alike(cells: Sequence[Cell]) -> Iterator[list[int]]:
    """Positions of the cells that can decode together, group by group."""
    groups: dict[str, list[int]] = {}
    for position, cell in enumerate(cells):
        same = [dict(cell.generation), cell.top_logprobs, cell.logprobs]
        groups.setdefault(json.dumps(same, sort_keys=True, default=repr), []).append(position)
    yield from groups.values()


def _rows(lm: HFLM, cell: Cell, position: int, how: Decoding) -> list[Row]:
    room = lm.max_length - how.max_new
    if room < 1:
        raise ValueError(
            f"max_gen_toks ({how.max_new}) must be less than the model's maximum sequence "
            f"length ({lm.max_length})"
        )
    prompt: list[int] = []
    if cell.prompt:
        encoded, _ = lm.tok_batch_encode(
            [cell.prompt], left_truncate_len=room, truncation=bool(lm.truncation)
        )
        prompt = encoded[0].tolist()
    # A model needs something to continue: the token that starts every document.
    prompt = prompt or [lm.prefix_token_id]
    most = how.max_new if how.max_total is None else how.max_total - len(prompt)
    if most < 1:
        raise ValueError(
            f"max_length ({how.max_total}) leaves no room behind a prompt of {len(prompt)} "
            "tokens; set max_gen_toks instead"
        )
    return [
        Row(position, index, seed, prompt, most)
        for index, seed in zip(cell.run_indices, cell.seeds, strict=True)
    ]


def _run(lm: HFLM, row: Row, how: Decoding) -> Run:
    count = counted(lm, row.tokens, how)
    return Run(
        finished_text(lm, row.tokens, how),
        Capture(
            seed=row.seed,
            tokens=count,
            finish_reason=row.reason,
            **capture.summarise(row.trace[:count]),
        ),
    )
