"""Speed of the API backend and of the store.

    python benchmarks/backends.py [--runs 2000] [--stored 50000]

Needs the tests' server (``tests/fault_server.py``), which it starts as a process of its own on
loopback. Prints one line per figure and its target; exits 1 when a target is missed.

- throughput against a server that answers in 50 ms, 16 requests at once: at least 90 % of the
  ideal 320 requests per second
- the same with every run put into the store: at most 2 % longer (medians of alternating rounds)
- storing runs in bulk: at most 0.2 ms each, committed one by one
- finding 50,000 stored runs again, from opening the file to `Run` objects: at most 10 s
"""

from __future__ import annotations

import argparse
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval.models.openai_completions import LocalCompletionsAPI

import lmrel_tasks.sampling.api  # noqa: F401  registers the backend
from lmrel_tasks.identity import cell_key, model_identity, run_key
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell, run_seed, sample_runs
from lmrel_tasks.store import Store

SERVER = Path(__file__).parent.parent / "tests" / "fault_server.py"
DELAY, CONCURRENT = 0.05, 16
RUNS_PER_ITEM = 10
GENERATION = {"until": ["\n"], "do_sample": True, "temperature": 0.7, "max_gen_toks": 64}
CAPTURE = {"top_logprobs": 20, "logprobs": "raw"}


@contextmanager
def server() -> Iterator[str]:
    """A server that answers in 50 ms and gives one choice per request; yields its address."""
    command = [sys.executable, str(SERVER), "--delay", str(DELAY), "--n", "ignored"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def cells_of(runs: int) -> list[Cell]:
    cells = []
    for item in range(runs // RUNS_PER_ITEM):
        seeds = tuple(run_seed(1, str(item), "plain", run) for run in range(RUNS_PER_ITEM))
        indices = tuple(range(RUNS_PER_ITEM))
        cells.append(Cell(f"Question {item}", GENERATION, indices, seeds, top_logprobs=20))
    return cells


def keys_of(identity: dict[str, Any], cells: list[Cell]) -> list[list[bytes]]:
    keys = []
    for item, cell in enumerate(cells):
        shared = cell_key(identity, cell.prompt, cell.generation, str(item), "plain", CAPTURE)
        numbered = zip(cell.seeds, cell.run_indices, strict=True)
        keys.append([run_key(shared, seed, run) for seed, run in numbered])
    return keys


def sample(address: str, runs: int, store: Store | None) -> float:
    """Seconds for all runs, with every run put into the store if there is one."""
    lm = LocalCompletionsAPI(
        base_url=address, model="m", tokenizer_backend=None, num_concurrent=CONCURRENT
    )
    cells, identity = cells_of(runs), model_identity(lm)
    began = time.perf_counter()
    keys = keys_of(identity, cells) if store is not None else []
    for cell, index, run in sample_runs(lm, cells):
        if store is not None:
            meta = {"model": identity, "task": "t", "item": str(cell), "condition": "plain"}
            store.put(keys[cell][index], run, meta | {"run": index})
    return time.perf_counter() - began


def bulk(folder: Path, count: int) -> tuple[float, float]:
    """Milliseconds per stored run, and seconds to find all of them again."""
    identity = {"class": "x", "name": "m"}
    cells = cells_of(count)
    capture = Capture(
        seed=2**62, tokens=64, finish_reason="stop", entropy=1.2345678901234, certainty=0.7,
        tail_mass=0.01, logprob=-33.3333333333, top_k=20.0,
    )  # fmt: skip
    runs = [Run(f"word {number} " * 40, capture) for number in range(RUNS_PER_ITEM)]
    keys = keys_of(identity, cells)
    with Store.open(folder / "bulk.sqlite") as store:
        began = time.perf_counter()
        for item, own in enumerate(keys):
            meta = {"model": identity, "task": "t", "item": str(item), "condition": "plain"}
            for index, key in enumerate(own):
                store.put(key, runs[index], meta | {"run": index})
        each = (time.perf_counter() - began) / count * 1000
    began = time.perf_counter()
    again = keys_of(identity, cells_of(count))
    with Store.open(folder / "bulk.sqlite") as store:
        found = store.get_many(key for own in again for key in own)
    seconds = time.perf_counter() - began
    assert len(found) == count
    return each, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="runs asked of the server")
    parser.add_argument("--stored", type=int, default=50_000, help="runs in the store")
    parser.add_argument("--repeat", type=int, default=3, help="times each; the median counts")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    ideal = CONCURRENT / DELAY
    bare, stored = [], []
    with server() as address, tempfile.TemporaryDirectory() as folder:
        sample(address, 200, None)  # connections, imports
        for repeat in range(args.repeat):
            bare.append(sample(address, args.runs, None))
            with Store.open(Path(folder) / f"{repeat}.sqlite") as store:
                stored.append(sample(address, args.runs, store))
        each, seconds = bulk(Path(folder), args.stored)
    usual = statistics.median(bare)
    met = [
        line("throughput, share of the ideal", args.runs / usual / ideal, ">=", 0.90),
        line("store, added sampling time", statistics.median(stored) / usual - 1, "<=", 0.02),
        line("store in bulk, ms per run", each, "<=", 0.2),
        line(f"warm rerun of {args.stored} runs, s", seconds, "<=", 10.0),
    ]
    return 0 if all(met) else 1


def line(name: str, value: float, sign: str, target: float) -> bool:
    met = value >= target if sign == ">=" else value <= target
    print(f"{name:36} {value:8.4f}   target {sign} {target:g}   {'met' if met else 'MISSED'}")
    return met


if __name__ == "__main__":
    raise SystemExit(main())
