"""How much faster repeated sampling is than the harness's own repeats, on the demo's model.

    python benchmarks/sampling.py [--quick] [--model PATH] [--threads N]

Prints CPU seconds (all threads of this process; other programs on the machine do not count) and
their ratios. Measurements of the compared methods alternate, and the median of the repeats is
taken. The setting is a 5-shot arithmetic prompt of about 900 tokens, R = 16 runs, 64 new tokens,
float32.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

RUNS, NEW_TOKENS = 16, 64
SAMPLING = {"do_sample": True, "temperature": 0.7, "top_k": 30}

QUESTION = (
    "A bakery sells {a} loaves every morning and twice as many in the afternoon. Each loaf "
    "costs {b} coins, and on market days a tenth of the loaves is given away to the neighbours "
    "before the shop opens. How many coins does the bakery take on an ordinary day if it sells "
    "all of its loaves and gives none away?"
)
ANSWER = (
    "In the morning the bakery sells {a} loaves. In the afternoon it sells twice as many, which "
    "is 2 * {a} = {a2} loaves. Together these are {a} + {a2} = {a3} loaves. On an ordinary day "
    "nothing is given away, so all of them are paid for. Each loaf costs {b} coins, so the "
    "bakery takes {a3} * {b} = {c} coins.\n#### {c}"
)


def prompt() -> str:
    """A 5-shot prompt of word problems with worked answers, about 900 tokens."""
    parts = []
    for a, b in ((12, 3), (20, 4), (15, 2), (31, 5), (18, 6)):
        numbers = {"a": a, "b": b, "a2": 2 * a, "a3": 3 * a, "c": 3 * a * b}
        parts.append(f"Question: {QUESTION.format(**numbers)}\nAnswer: {ANSWER.format(**numbers)}")
    parts.append(f"Question: {QUESTION.format(a=27, b=3)}\nAnswer:")
    return "\n\n".join(parts)


def cpu_seconds(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def alternate(methods: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median CPU seconds of each method; the methods take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(repeats):
        for name, work in methods.items():
            seconds[name].append(cpu_seconds(work))
            print(f"  {name}: {seconds[name][-1]:.2f} s", flush=True)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repeat, fewer batch sizes")
    parser.add_argument("--model", type=Path, help="model folder, .gguf or wheel")
    parser.add_argument("--threads", type=int, help="threads for the model")
    options = parser.parse_args(arguments)

    import torch
    from lm_eval.models.huggingface import HFLM

    from lmrel_tasks.model_files import demo_model

    if options.threads:
        torch.set_num_threads(options.threads)
    lm = HFLM(
        pretrained=str(demo_model(options.model)), dtype="float32", device="cpu", batch_size=1
    )
    text = prompt()
    length = len(lm.tok_encode(text))
    print(
        f"prompt {length} tokens, R={RUNS}, {NEW_TOKENS} new tokens, "
        f"{torch.get_num_threads()} threads",
        flush=True,
    )
    repeats = 1 if options.quick else 3
    against_stock(lm, text, repeats, (1, 16) if options.quick else (1, 4, 8, 16, 32))
    decode_share(lm, text, repeats)
    capture_cost(lm, text)
    leaving(lm, repeats)


def runs(lm: Any, text: str, settings: dict[str, Any], count: int, top: int) -> list[Any]:
    from lmrel_tasks.sampling import Cell, sample_runs
    from lmrel_tasks.sampling import hf as _registers  # noqa: F401

    cell = Cell(text, settings, tuple(range(count)), tuple(range(count)), top_logprobs=top)
    return list(sample_runs(lm, [cell]))


def against_stock(lm: Any, text: str, repeats: int, sizes: Sequence[int]) -> None:
    from lm_eval.api.instance import Instance

    settings = {**SAMPLING, "max_gen_toks": NEW_TOKENS, "until": []}

    def stock(size: int) -> Callable[[], Any]:
        def work() -> None:
            lm.batch_size_per_gpu = size
            asked = [Instance("generate_until", {}, (text, dict(settings)), 0)] * RUNS
            lm.generate_until(asked, disable_tqdm=True)
            lm.batch_size_per_gpu = 1

        return work

    print("repeated sampling against the harness's repeats:")
    methods = {f"stock, batch size {size}": stock(size) for size in sizes}
    methods["lmrel, batch size 1"] = lambda: runs(lm, text, settings, RUNS, 30)
    seconds = alternate(methods, repeats)
    own = seconds.pop("lmrel, batch size 1")
    print(f"RATIO to batch size 1: {seconds['stock, batch size 1'] / own:.2f} (target 8)")
    best = min(seconds, key=lambda name: seconds[name])
    print(f"RATIO to the best ({best}): {seconds[best] / own:.2f} (target 3)", flush=True)


def decode_share(lm: Any, text: str, repeats: int) -> None:
    """Share of the speed that would be reached if prompts and everything else cost nothing."""
    from lmrel_tasks.sampling.shared_prefix import SharedPrefix

    settings = {**SAMPLING, "max_gen_toks": NEW_TOKENS, "until": []}

    def decode_only() -> None:
        cache = SharedPrefix(lm)
        cache.admit([1], RUNS)
        for _ in range(NEW_TOKENS - 1):
            cache.step([5] * RUNS)

    print("share of the decode-only limit (one-token prompt, no sampling, no stop strings):")
    seconds = alternate(
        {"decode only": decode_only, "lmrel": lambda: runs(lm, text, settings, RUNS, 30)}, repeats
    )
    short = cpu_seconds(lambda: runs(lm, "1", settings, RUNS, 30))
    print(
        f"SHARE with the 900-token prompt: {seconds['decode only'] / seconds['lmrel']:.2f}; "
        f"with a one-token prompt: {seconds['decode only'] / short:.2f}",
        flush=True,
    )


def capture_cost(lm: Any, text: str) -> None:
    """Capture's part of decoding, measured where it happens, and what it holds in memory."""
    import numpy as np
    import torch

    from lmrel_tasks.sampling import capture, decode, draws

    spent = [0.0]
    plain = decode._raw_capture

    def timed(*arguments: Any) -> Any:
        before = time.process_time()
        result = plain(*arguments)
        spent[0] += time.process_time() - before
        return result

    settings = {**SAMPLING, "max_gen_toks": NEW_TOKENS, "until": []}
    decode._raw_capture = timed
    total = cpu_seconds(lambda: runs(lm, text, settings, RUNS, 30))
    decode._raw_capture = plain
    print(f"CAPTURE costs {spent[0] / total:.2%} of the time (target 3 %)")

    count, tokens = 100, 256
    top = torch.randn(count, 49152, generator=torch.Generator().manual_seed(0))
    ranked = draws.rank(top, 64).scores[:, :30].astype(np.float64)
    tracemalloc.start()
    traces: list[list[Any]] = [[] for _ in range(count)]
    for _ in range(tokens):
        for trace, row in zip(traces, plain(top, ranked, np.zeros(count, int)), strict=True):
            trace.append(row)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    summaries = [capture.summarise(trace) for trace in traces]
    print(
        f"CAPTURE holds {held / 2**20:.1f} MB at R=100, T=256 (peak {peak / 2**20:.1f} MB, "
        f"target 50 MB); {len(summaries)} runs",
        flush=True,
    )


def leaving(lm: Any, repeats: int) -> None:
    """What it gains that finished rows leave: 4 questions x 16 runs at once, natural stops."""
    from lmrel_tasks.sampling.decode import Plan, Row, decode
    from lmrel_tasks.sampling.generation import decoding

    how = decoding(lm, {**SAMPLING, "max_gen_toks": NEW_TOKENS, "until": ["\n\n", ". "]})
    questions = [
        "What is the capital of France?",
        "Name a fruit.",
        "What is 3 + 4?",
        "Why is the sky blue?",
    ]
    prompts = [
        lm.tok_encode(lm.apply_chat_template([{"role": "user", "content": question}]))
        for question in questions
    ]

    def work(leave: bool) -> list[Row]:
        rows = [
            [Row(i, r, r, ids, NEW_TOKENS) for r in range(RUNS)] for i, ids in enumerate(prompts)
        ]
        return list(decode(lm, rows, Plan(how, 30), 4 * RUNS, leave))

    lengths = sorted(len(row.tokens) for row in work(True))
    print(
        f"finished rows leave the batch (lengths {lengths[0]} to {lengths[-1]}, "
        f"median {lengths[len(lengths) // 2]}):"
    )
    seconds = alternate({"stay": lambda: work(False), "leave": lambda: work(True)}, repeats)
    print(f"RATIO by leaving: {seconds['stay'] / seconds['leave']:.2f} (target 1.3)", flush=True)


if __name__ == "__main__":
    main()
