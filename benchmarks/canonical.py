"""Seconds for 100,000 canonical answers, beside theaios-trustgate when it is installed.

Run: ``python benchmarks/canonical.py [--answers N]``. All outputs are different strings, so
nothing is gained from repeats; the last column is the worst of five runs over the best.
"""

from __future__ import annotations

import argparse
import importlib
import random
import time
from collections.abc import Callable

from lmrel_tasks.filters.canonical import canonical, canonical_all

NUMERIC = (
    "{n}",
    "{n}.0",
    "-{n}",
    "{n:,}",
    "${n}.50",
    "#### {n}",
    "\\boxed{{{n}}}",
    "The answer is {n}.",
    "The final answer is {n}",
    "Answer: {n}",
    "So {n} + 1 = {n}.",
    "The answer is {n} apples.",
)
LETTERS = (
    "{c}",
    "({c})",
    "{c}.",
    "{c}) Paris {n}",
    "{c}. Paris {n}",
    "Answer: {c}",
    "The answer is {c}.",
    "The answer is ({c})",
    "The correct answer is {c}, number {n}.",
    "\\boxed{{{c}}}",
    "I think the answer is {c} because of {n}.",
)
TEXTS = ("Paris {n}", "The answer is Paris {n}.", "the river {n}")
CODES = ("```python\ndef f(x):\n    return x+{n}\n```", "def f(x): return x*{n}  # times")
LABELS = ("Yes, {n}", "No.", "The answer is yes because {n}", "I would say no, as {n}")


def outputs(templates: tuple[str, ...], count: int, seed: int = 0) -> list[str]:
    """Different short outputs in the shapes of the templates."""
    generator = random.Random(seed)
    return [
        templates[at % len(templates)].format(
            n=generator.randrange(10**6), c=generator.choice("ABCDE")
        )
        for at in range(count)
    ]


def seconds(work: Callable[[], object], repeats: int = 5) -> tuple[float, float]:
    """Best of several runs, and the worst over the best."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times), max(times) / min(times)


def published(kind: str) -> Callable[[list[str]], object] | None:
    """The published package's own canonicaliser for a kind; None if it is not installed."""
    try:
        package = importlib.import_module("theaios.trustgate.canonicalize")
        worker = package.get_canonicalizer(kind)
    except (ImportError, KeyError):
        return None
    return lambda raws: [worker.canonicalize("", raw) for raw in raws]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=100_000)
    count = parser.parse_args().answers
    print(f"{'kind':10}{'answers':>9}{'seconds':>9}{'published':>11}{'ratio':>7}{'spread':>8}")
    cases: list[tuple[str, tuple[str, ...], int, list[str] | None]] = [
        ("numeric", NUMERIC, count, None),
        ("mcq", LETTERS, count, None),
        ("text", TEXTS, count, None),
        ("label", LABELS, count, ["Yes", "No"]),
        ("code", CODES, count // 10, None),
    ]
    for kind, templates, size, choices in cases:
        raws = outputs(templates, size)

        def each(raws: list[str] = raws, kind: str = kind, choices: object = choices) -> object:
            return [canonical(raw, kind, choices) for raw in raws]  # type: ignore[arg-type]

        own, spread = seconds(each)
        other = published(kind)
        if other is None:
            print(f"{kind:10}{size:9}{own:9.3f}{'-':>11}{'-':>7}{spread:8.2f}")
        else:
            theirs, _ = seconds(lambda raws=raws, other=other: other(raws))  # type: ignore[misc]
            print(f"{kind:10}{size:9}{own:9.3f}{theirs:11.3f}{own / theirs:7.2f}{spread:8.2f}")
    repeated = outputs(NUMERIC, count // 20) * 20
    own, spread = seconds(lambda: canonical_all(repeated, "numeric"))
    print(f"{'numeric20':10}{len(repeated):9}{own:9.3f}  every output 20 times, canonical_all")
    nested = "\\boxed{" * (65536 // 7)
    own, _ = seconds(lambda: canonical(nested, "numeric"))
    print(f"64 kB of \\boxed{{ : {1000 * own:.1f} ms")


if __name__ == "__main__":
    main()
