"""Time and memory of the reproducibility statistics on a full clinical protocol.

518 items x 5 prompts x 100 runs with 384-dimensional embeddings, streamed by item: the embeddings
of an item are made, summed and forgotten. Making them is not counted. Prints processor seconds,
which other programs on the machine disturb least, and megabytes beside their limits, and exits with
1 if one is exceeded.

    python benchmarks/reproducibility.py [--items 518] [--prompts 5] [--runs 100] [--dim 384]
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc

import numpy as np

from lmrel_tasks.metrics import agreement, cosine, entropy, gauge, intervals, presets

MAX_SECONDS, MAX_MEGABYTES = 10.0, 100.0


class Stopwatch:
    """Adds up the seconds spent inside its `with` blocks, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name = ""

    def __call__(self, name: str) -> Stopwatch:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        spent = time.process_time() - self._start
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + spent


def measure(items: int, prompts: int, runs: int, dim: int) -> dict[str, float]:
    """Run every statistic once; seconds by part."""
    rng, watch = np.random.default_rng(0), Stopwatch()
    cells, scores, agreements, reproducible = [], [], [], []
    bits = np.empty((items, prompts, runs))
    correct = np.empty((items, prompts, runs))
    style = rng.standard_normal((prompts, 1, dim), dtype=np.float32)
    for i in range(items):
        embeddings = rng.standard_normal((prompts, runs, dim), dtype=np.float32)
        embeddings += rng.standard_normal(dim, dtype=np.float32) + style
        drawn = rng.integers(0, 4, (prompts, runs))
        answers = [[f"answer {a}" for a in row] for row in drawn.tolist()]
        bits[i] = rng.gamma(2.0, 0.3, (prompts, runs))
        correct[i] = drawn == 0
        with watch("sums of embeddings"):
            cells.append(cosine.cell_sums(embeddings))
        with watch("cosines by item"):
            scores.append(cosine.item_cosines(cells[-1]))
        with watch("answers"):
            agreements.append([agreement.answer_agreement(row) for row in answers])
            reproducible.append(agreement.answer_reproducibility(answers))
    with watch("alpha and presets"):
        table = cosine.stack_cells(cells)
        baseline = cosine.item_baseline(table)
        cosine.chance_corrected([s.repeatability for s in scores], baseline)
        cosine.chance_corrected([s.between for s in scores], baseline)
        for name in presets.PRESETS:
            presets.preset_scores(name, table, bits)
    with watch("certainty"):
        certainty = 1 - bits / np.log2(30)
        entropy.internal_stability(certainty)
        entropy.certainty_reproducibility(entropy.internal_repeatability(certainty))
    with watch("gauge R&R, 2000 resamples"):
        gauge.gauge_rr(certainty, "certainty")
        gauge.gauge_rr(correct, "correctness")
        gauge.gauge_rr_meaning(table)
    with watch("interval of a mean"):
        intervals.item_bootstrap([s.repeatability for s in scores], method="bca")
    return watch.seconds


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("items", 518), ("prompts", 5), ("runs", 100), ("dim", 384)):
        parser.add_argument(f"--{name}", type=int, default=default)
    size = vars(parser.parse_args())
    seconds = measure(**size)
    tracemalloc.start()
    measure(**size)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    total = sum(seconds.values())
    print(
        f"{size['items']} items x {size['prompts']} prompts x {size['runs']} runs, {size['dim']}d"
    )
    for name, spent in seconds.items():
        print(f"  {name:<28}{spent:7.2f} s")
    print(f"  {'total':<28}{total:7.2f} s   (limit {MAX_SECONDS:.0f} s)")
    print(f"  {'peak memory':<28}{peak:7.1f} MB  (limit {MAX_MEGABYTES:.0f} MB)")
    return int(total > MAX_SECONDS or peak > MAX_MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
