"""Agreement of discrete answers: between runs, between conditions, and corrected for chance.

Answers are canonical strings (or any hashable labels). An empty string, None or NaN is a missing
answer: pairs with it are left out, and results without a pair left are NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from statsmodels.stats import inter_rater


def is_missing(answer: object) -> bool:
    """True for an empty string, None and NaN."""
    return answer is None or answer == "" or (isinstance(answer, float) and answer != answer)


def _tally(answers: Iterable[Hashable]) -> Counter[Hashable]:
    return Counter(answer for answer in answers if not is_missing(answer))


def answer_agreement(answers: Iterable[Hashable]) -> float:
    """Share of pairs of runs of one item that give the same answer.

    Args:
        answers: the R canonical answers of an item.

    Returns:
        sum_a n_a (n_a - 1) / (n (n - 1)) over the n answers that are not missing; NaN if n < 2.
        Unbiased for the chance that two independent runs agree, whatever R.
    """
    counts = _tally(answers)
    n = counts.total()
    if n < 2:
        return float("nan")
    return sum(c * (c - 1) for c in counts.values()) / (n * (n - 1))


def cross_agreement(first: Iterable[Hashable], second: Iterable[Hashable]) -> float:
    """Share of pairs, one run of each of two conditions, with the same answer; NaN if none."""
    a, b = _tally(first), _tally(second)
    pairs = a.total() * b.total()
    return sum(c * b[label] for label, c in a.items()) / pairs if pairs else float("nan")


def all_identical(runs: Sequence[Hashable]) -> float:
    """1.0 if all runs of one item are the same, 0.0 if not.

    A missing run beside one that is not missing makes them differ. NaN with fewer than two runs,
    or when every run is missing.
    """
    if len(runs) < 2 or all(is_missing(run) for run in runs):
        return float("nan")
    if any(is_missing(run) for run in runs):
        return 0.0
    return float(len(set(runs)) == 1)


def tar(items: Iterable[Sequence[Hashable]]) -> float:
    """Total agreement rate: the share of items whose runs are all identical.

    Args:
        items: the runs of each item: canonical answers for TARa@N, raw texts for TARr@N.

    Returns:
        the mean of `all_identical` over the items for which it is defined; NaN without any.

    Source: Atil et al., "Non-Determinism of 'Deterministic' LLM Settings" (2024), arXiv:2408.04667.
    """
    values = np.array([all_identical(runs) for runs in items], dtype=np.float64)
    values = values[~np.isnan(values)]
    return float(values.mean()) if values.size else float("nan")


def modal_answers(answers: Iterable[Hashable]) -> list[Hashable]:
    """The most frequent answers of a cell, several if tied, in order of appearance."""
    counts = _tally(answers)
    most = max(counts.values(), default=0)
    return [answer for answer, count in counts.items() if count == most]


def answer_reproducibility(conditions: Sequence[Iterable[Hashable]]) -> float:
    """Share of pairs of conditions of one item whose modal answers agree.

    Args:
        conditions: P cells of answers. Conditions without any answer are left out.

    Returns:
        the mean over pairs of conditions; NaN with fewer than two conditions left. A tie for the
        mode counts with the chance of agreement under a random choice among the tied answers, so
        the result does not depend on the order or the spelling of answers.
    """
    modes = [mode for cell in conditions if (mode := modal_answers(cell))]
    if len(modes) < 2:
        return float("nan")
    shares = [len(set(p) & set(q)) / (len(p) * len(q)) for p, q in combinations(modes, 2)]
    return sum(shares) / len(shares)


def fleiss_kappa(ratings: Sequence[Sequence[Hashable]]) -> float:
    """Fleiss' kappa of N items, each answered by the same number of runs.

    Args:
        ratings: (N, R) labels with one meaning over all items, as the letters of options or
            correct/incorrect; chance agreement comes from their overall frequencies.

    Returns:
        kappa from `statsmodels.stats.inter_rater`; NaN if only one label occurs at all.

    Raises:
        ValueError: without items, with fewer than two runs, with unequal numbers of runs, or with
            a missing label; `krippendorff_alpha` allows the last two.

    Source: Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin
    76 (1971) 378-382.
    """
    if not ratings:
        raise ValueError("ratings is empty: Fleiss' kappa needs at least one item")
    width = len(ratings[0])
    if width < 2:
        raise ValueError("ratings need at least two runs per item for Fleiss' kappa")
    for row, labels in enumerate(ratings):
        if len(labels) != width or any(is_missing(label) for label in labels):
            raise ValueError(
                f"ratings row {row} has missing labels or not {width} of them, which Fleiss' "
                "kappa does not allow; use krippendorff_alpha"
            )
    code = {label: i for i, label in enumerate(dict.fromkeys(x for row in ratings for x in row))}
    if len(code) == 1:
        return float("nan")
    coded = np.array([[code[label] for label in row] for row in ratings])
    table, _ = inter_rater.aggregate_raters(coded, n_cat=len(code))
    return float(inter_rater.fleiss_kappa(table, method="fleiss"))


def _nominal_disagreement(units: list[list[Hashable]]) -> tuple[float, float]:
    observed, overall = 0.0, Counter[Hashable]()
    for unit in units:
        counts = Counter(unit)
        overall.update(counts)
        differing = len(unit) ** 2 - sum(c * c for c in counts.values())
        observed += differing / (len(unit) - 1)
    n = overall.total()
    expected = (n**2 - sum(c * c for c in overall.values())) / (n - 1)
    return observed, expected


def _interval_disagreement(units: list[NDArray[np.float64]]) -> tuple[float, float]:
    # The squared differences over all ordered pairs of m values sum to 2 m times their scatter.
    observed = sum(2 * len(u) * np.square(u - u.mean()).sum() / (len(u) - 1) for u in units)
    values = np.concatenate(units)
    scatter = np.square(values - values.mean()).sum()
    return float(observed), float(2 * len(values) * scatter / (len(values) - 1))


def krippendorff_alpha(
    ratings: Iterable[Iterable[Hashable]], *, level: Literal["nominal", "interval"] = "nominal"
) -> float:
    """Krippendorff's alpha, 1 - observed / expected disagreement.

    Args:
        ratings: for each unit (item) its ratings (runs), any number of them; missing ones as "",
            None or NaN. Units with fewer than two ratings pair with nothing and are left out.
        level: "nominal" for labels, "interval" for numbers with squared distance.

    Returns:
        alpha; NaN when no unit has two ratings or all ratings are the same.

    Raises:
        ValueError: for another `level`, or ratings that are no numbers with "interval".

    Source: Krippendorff, "Computing Krippendorff's alpha-reliability" (2011).
    """
    if level not in ("nominal", "interval"):
        raise ValueError(f"level must be 'nominal' or 'interval', got {level!r}")
    kept = [[x for x in unit if not is_missing(x)] for unit in ratings]
    kept = [unit for unit in kept if len(unit) > 1]
    if not kept:
        return float("nan")
    if level == "nominal":
        observed, expected = _nominal_disagreement(kept)
    else:
        try:
            numbers = [np.array(unit, dtype=np.float64) for unit in kept]
        except (TypeError, ValueError):
            raise ValueError("ratings must be numbers for level='interval'") from None
        observed, expected = _interval_disagreement(numbers)
    return 1.0 - observed / expected if expected > 0 else float("nan")
