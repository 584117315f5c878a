"""Calibration speed and runs saved by stopping, beside the published package when installed.

    python benchmarks/conformal.py [--items 10000] [--runs 20] [--rounds 9]

Times are the least processor seconds of several rounds in which both sides take turns. The
published package is `theaios-trustgate`; without it the columns of ours are printed alone.
Correctness is not compared here: the package's ranks break ties by the alphabet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from lmrel_tasks.metrics import conformal, stopping
from lmrel_tasks.metrics.answer_classes import ClassTable, count_classes, scores

try:
    from theaios.trustgate import calibration as published
except ImportError:
    published = None

ALPHAS = (0.01, 0.05, 0.1, 0.15, 0.2)
RULES: tuple[stopping.Rule, ...] = ("curtail", "hoeffding", "eprocess", "earliest")
# mean runs at K = 20 by the probability of the mode: the most that curtail may take, and what the
# published rule takes
CURTAIL_TARGETS = {0.9: 12.3, 0.8: 13.8, 0.7: 15.8}
PUBLISHED_RUNS = {0.9: 11.9, 0.8: 16.0, 0.7: 18.6}


def make_items(n: int, runs: int) -> tuple[list[list[str]], list[str]]:
    """Numeric answers of items of mixed difficulty, and their labels."""
    rng = np.random.default_rng(0)
    strength = rng.beta(4, 2, size=(n, 1))
    truth = rng.integers(10, 5000, size=(n, 1))
    wrong = truth + rng.integers(1, 5, size=(n, runs))
    drawn = np.where(rng.random((n, runs)) < strength, truth, wrong)
    return [[str(value) for value in row] for row in drawn.tolist()], [str(t) for t in truth[:, 0]]


def calibrate(table: ClassTable, labels: list[str], alphas: tuple[float, ...]) -> None:
    """Scores, level and bound, and for every alpha M*, coverage, gap and set size."""
    values = scores(table, labels)
    conformal.reliability_level(values)
    for alpha in alphas:
        conformal.split_coverage(values, values, alpha, table.classes)


def least_seconds(rounds: int, *calls: Callable[[], object]) -> list[float]:
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            start = time.process_time()
            call()
            best[at] = min(best[at], time.process_time() - start)
    return best


def report(name: str, ours: float, theirs: float | None = None) -> None:
    beside = "" if theirs is None else f"   published {theirs:.4f} s   ratio {theirs / ours:5.1f}"
    print(f"{name:<44} {ours:.4f} s{beside}")


def compare_speed(n: int, runs: int, rounds: int) -> None:
    answers, labels = make_items(n, runs)
    table = count_classes(answers)
    ids = [f"item {i}" for i in range(n)]
    named_labels = dict(zip(ids, labels, strict=True))

    def profiles() -> dict:
        return {i: published.compute_profile(runs) for i, runs in zip(ids, answers, strict=True)}

    print(f"{n} items x {runs} runs, calibration and test on all of them")
    for alphas in (ALPHAS[1:2], ALPHAS):
        calls: list[Callable[[], object]] = [
            partial(count_classes, answers),
            partial(calibrate, table, labels, alphas),
        ]
        if published is not None:
            calls += [
                profiles,
                partial(
                    published.calibrate,
                    profiles(),
                    named_labels,
                    ids,
                    ids,
                    list(alphas),
                    alphas[0],
                ),
            ]
        counting, calibration, *theirs = least_seconds(rounds, *calls)
        report("counting classes from strings", counting, *theirs[:1])
        report(f"calibration, {len(alphas)} alpha", calibration, *theirs[1:])
        total = [sum(theirs)] if theirs else []
        report(f"both, {len(alphas)} alpha", counting + calibration, *total)


def compare_stopping(items: int = 200_000, runs: int = 20) -> None:
    print(f"\nmean runs per item of {runs}, two answers, {items} simulated items")
    print(f"{'mode':>5}  {'target':>8}  {'published':>9}  " + "  ".join(f"{r:>9}" for r in RULES))
    rng = np.random.default_rng(1)
    for p, target in CURTAIL_TARGETS.items():
        codes = (rng.random((items, runs)) > p).astype(np.int8)
        means = [stopping.stop_indices(codes, rule).mean() for rule in RULES]
        columns = "  ".join(f"{mean:9.2f}" for mean in means)
        print(f"{p:5.1f}  {target:8.1f}  {PUBLISHED_RUNS[p]:9.1f}  {columns}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibration and stopping benchmarks.")
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if published is None:
        print("theaios-trustgate is not installed: our times alone\n")
    compare_speed(options.items, options.runs, options.rounds)
    compare_stopping()


if __name__ == "__main__":
    main()
