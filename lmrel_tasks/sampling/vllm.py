"""Runs from vLLM, through the harness's own model object. Imported once vLLM is.

One request per run, each with the run's own seed, instead of ``n=R``: vLLM serves ``n`` choices
as n requests of one choice with the seeds ``seed + i``, so it computes the same work either way
(prefix caching, on by default and left on, computes the prompt once), and it refuses ``n > 1`` at
temperature 0. With a request per run, a run's draws do not depend on which runs it is asked with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.models.utils import maybe_truncate, postprocess_generated_text
from lm_eval.models.vllm_causallms import VLLM

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell, sample_runs
from lmrel_tasks.sampling.summary import Position, largest, number, positions_before, summarise

# Runs per call of the engine: enough to keep it busy, few enough that runs arrive.
RUNS_PER_CALL = 2048
# vLLM refuses more log-probabilities than its engine argument max_logprobs, 20 by default.
DEFAULT_MAX_LOGPROBS = 20


@sample_runs.register(VLLM)
def sample_vllm(lm: Any, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    """Backend for ``--model vllm``, with data parallelism (Ray) as the harness does it.

    Which distribution the log-probabilities describe is an argument of the engine
    (``logprobs_mode``: ``raw_logprobs`` by default, ``processed_logprobs`` for the warped one).

    Raises:
        ValueError: when a task asks for the other distribution than the engine gives.
    """
    if cells:
        check_distribution(lm, cells)
    wanted = [(index, at) for index, cell in enumerate(cells) for at in range(len(cell.seeds))]
    # The harness starts new engines for every call with data parallelism: one call, then.
    size = RUNS_PER_CALL if lm.data_parallel_size <= 1 else max(len(wanted), 1)
    eos = end_of_text(lm)
    prompts: dict[int, list[int]] = {}
    for start in range(0, len(wanted), size):
        part = wanted[start : start + size]
        fresh = sorted({index for index, _ in part} - prompts.keys())
        encoded = lm.tok_encode([cells[index].prompt for index in fresh]) if fresh else []
        prompts.update(zip(fresh, encoded, strict=True))
        requests, params, cuts = [], [], []
        for index, at in part:
            tokens, sampling, cut = request(lm, cells[index], at, prompts[index], eos)
            requests.append(tokens)
            params.append(sampling)
            cuts.append(cut)
        outputs = lm._model_generate(requests=requests, generate=True, sampling_params=params)
        for (index, at), output, cut in zip(part, outputs, cuts, strict=True):
            cell = cells[index]
            yield index, cell.run_indices[at], run_of(lm, output.outputs[0], cell, at, cut)
        for index in prompts.keys() - {part[-1][0]}:
            del prompts[index]


def check_distribution(lm: Any, cells: Sequence[Cell]) -> None:
    """Refuse to record one distribution under the name of the other."""
    mode = str(lm.model_args.get("logprobs_mode", "raw_logprobs"))
    given = "sampling" if mode.startswith("processed") else "raw"
    asked = {cell.logprobs for cell in cells if cell.top_logprobs}
    if asked and (asked != {given} or not mode.endswith("logprobs")):
        needed = "processed_logprobs" if "sampling" in asked else "raw_logprobs"
        raise ValueError(
            f"metadata.lmrel.logprobs is {sorted(asked)}, but the engine's logprobs_mode is "
            f"{mode}; add logprobs_mode={needed} to --model_args"
        )


def end_of_text(lm: Any) -> str:
    """The end token's text, as the harness finds it."""
    eos = lm.tokenizer.decode(lm.eot_token_id)
    return eos or getattr(lm.tokenizer, "eos_token", None) or ""


def effective_k(lm: Any, asked: int) -> int:
    """Candidates per token that the engine gives."""
    most = lm.model_args.get("max_logprobs")
    most = DEFAULT_MAX_LOGPROBS if most is None else int(most)
    return asked if most < 0 else min(asked, most)


def request(
    lm: Any, cell: Cell, at: int, prompt: Sequence[int], eos: str
) -> tuple[list[int], Any, list[str]]:
    """Prompt tokens, SamplingParams and stop strings of one run."""
    from vllm import SamplingParams

    settings, until, most = lm.modify_gen_kwargs(
        dict(cell.generation), eos=eos, default_max_gen_toks=lm.max_gen_toks
    )
    for name in ("n", "seed", "logprobs"):
        settings.pop(name, None)
    tokens, most = maybe_truncate(
        list(prompt),
        max_gen_toks=most,
        max_model_len=lm.max_length,
        side=lm.truncation_side,
        verbose=True,
    )
    # With a reasoning model the task's stop strings would stop the reasoning; cut them off after.
    stop = [one for one in until if one == eos] if lm.think_end_token else until
    params = SamplingParams(
        n=1,
        seed=cell.seeds[at],
        logprobs=effective_k(lm, cell.top_logprobs) or None,
        max_tokens=most,
        stop=[one for one in stop if one],
        **settings,
    )
    return list(tokens), params, until


def run_of(lm: Any, output: Any, cell: Cell, at: int, until: Sequence[str]) -> Run:
    """One ``CompletionOutput`` as a run."""
    if output.finish_reason not in ("stop", "length"):
        words = f"vLLM ended the request: {output.finish_reason}"
        return Run("", Capture(seed=cell.seeds[at], finish_reason="error", error=words))
    raw = output.text
    text = postprocess_generated_text(raw, list(until), lm.think_end_token)
    rest = raw.split(lm.think_end_token)[-1].lstrip() if lm.think_end_token else raw
    kept = raw[: len(raw) - len(rest) + len(text)]
    finish = "length" if output.finish_reason == "length" and kept == raw else "stop"
    positions = positions_of(lm, output, effective_k(lm, cell.top_logprobs))
    fields = summarise(positions_before(positions, kept.encode("utf-8", "surrogatepass")))
    return Run(text, Capture(seed=cell.seeds[at], finish_reason=finish, **fields))


def positions_of(lm: Any, output: Any, k: int) -> list[Position]:
    """Token by token: its text, its log-probability, the k best by token id."""
    given: Sequence[Mapping[int, Any]] = output.logprobs if k and output.logprobs else ()
    ends = {lm.eot_token_id}
    positions = []
    for place, token in enumerate(output.token_ids):
        here = given[place] if place < len(given) else {}
        chosen = here.get(token)
        piece = getattr(chosen, "decoded_token", None)
        if piece is None:
            piece = lm.tokenizer.decode([token])
        if token in ends:
            piece = ""  # the end token is no part of the text
        positions.append(
            Position(
                piece.encode("utf-8", "surrogatepass"),
                number(getattr(chosen, "logprob", None)),
                largest([one.logprob for one in here.values()], k),
            )
        )
    return positions
