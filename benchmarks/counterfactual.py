"""Speed of the bias statistics, beside the published package `cfprompt` where it is installed.

    python benchmarks/counterfactual.py

Both sides do the same work: a flip-rate and a mutual-information bootstrap of 1,000 items with
10,000 resamples, the JSD of 100,000 rows of four options, the edit distance of two sequences of
1,000 token ids. The table gives the best processor time of several runs.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rapidfuzz.distance import Levenshtein

from lmrel_tasks.metrics.association import bootstrap_test
from lmrel_tasks.metrics.counterfactual import flips, js_divergence
from lmrel_tasks.metrics.resampling import paired_bootstrap

ITEMS, RESAMPLES, ROWS, TOKENS = 1_000, 10_000, 100_000, 1_000
WANTED = {"flip-rate bootstrap": 4.0, "MI bootstrap": 100.0, "JSD": 1.0, "edit distance": 20.0}


def best(call: Callable[[], Any], repeats: int = 5) -> float:
    """Shortest processor time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def inputs() -> dict[str, Any]:
    """The same random inputs for both sides."""
    rng = np.random.default_rng(0)
    original = rng.integers(0, 2, ITEMS)
    return {
        "labels": (
            original,
            np.where(rng.random(ITEMS) < 0.2, 1 - original, original),
            np.where(rng.random(ITEMS) < 0.1, 1 - original, original),
        ),
        "rows": (rng.dirichlet(np.ones(4), ROWS), rng.dirichlet(np.ones(4), ROWS)),
        "tokens": (
            rng.integers(0, 50_000, TOKENS).tolist(),
            rng.integers(0, 50_000, TOKENS).tolist(),
        ),
    }


def ours(data: dict[str, Any]) -> dict[str, float]:
    """Seconds of this project's functions."""
    original, targeted, benign = data["labels"]
    return {
        "flip-rate bootstrap": best(
            lambda: paired_bootstrap(
                flips(original, targeted) - flips(original, benign), n_resamples=RESAMPLES
            )
        ),
        "MI bootstrap": best(
            lambda: bootstrap_test(original, targeted, benign, 2, n_resamples=RESAMPLES)
        ),
        "JSD": best(lambda: js_divergence(*data["rows"]), 20),
        "edit distance": best(lambda: Levenshtein.distance(*data["tokens"]), 20),
    }


def published(data: dict[str, Any]) -> dict[str, float]:
    """Seconds of the published package's public functions."""
    from cfprompt.metrics import distributional, label
    from cfprompt.stats import bootstrap_diff
    from cfprompt.tokenization import token_edit_distance

    labels = data["labels"]
    return {
        "flip-rate bootstrap": best(
            lambda: bootstrap_diff(*labels, label.flip_rate, "flip_rate", RESAMPLES), 2
        ),
        "MI bootstrap": best(
            lambda: bootstrap_diff(*labels, label.mutual_information, "mi", RESAMPLES),
            1,
        ),
        "JSD": best(lambda: distributional.jsd(*data["rows"]), 20),
        "edit distance": best(lambda: token_edit_distance(*data["tokens"]), 2),
    }


def main() -> None:
    data = inputs()
    mine = ours(data)
    theirs = published(data) if importlib.util.find_spec("cfprompt") else {}
    print(f"{'':22}{'ours (s)':>12}{'cfprompt (s)':>14}{'ratio':>9}{'wanted':>9}")
    for name, seconds in mine.items():
        other = theirs.get(name)
        rest = f"{other:14.5f}{other / seconds:8.1f}x" if other else f"{'-':>14}{'-':>9}"
        print(f"{name:22}{seconds:12.5f}{rest}{WANTED[name]:8.0f}x")
    if not theirs:
        print("cfprompt is not installed: pip install cfprompt for the comparison")


if __name__ == "__main__":
    main()
