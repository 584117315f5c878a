"""Metrics of the reliability of the most frequent answer, for a task's ``metric_list``.

The runs of an item fall into classes of equal canonical answer; an item's score is the rank of its
best acceptable class (`answer_classes`). These metrics hand the scores of all items to `conformal`.

With several conditions a metric speaks of the first one: a level belongs to one way of asking, and
the votes of different prompts are not repeats of one another. Items without a label are left out.
An item none of whose runs arrived counts as one that was never solved, so that lost requests
cannot raise a level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lmrel_tasks.metrics import answer_classes, conformal
from lmrel_tasks.metrics.answer_classes import Ties
from lmrel_tasks.metrics.bounds import check_probability
from lmrel_tasks.metrics.conformal import Coverage
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.registry import ItemValue, mean_stderr, metric, present

Values = Sequence["ItemValue | None"]


def item_score(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """Rank of the best acceptable class of an item, from 1; inf if none was sampled.

    Args:
        item: the item; its first condition counts.
        ties: order of classes of equal count; see `answer_classes`.
        seed: of the random order, which depends on the item's key and on nothing else.

    Returns:
        what `answer_classes.scores` gives for the item; None without a label.
    """
    if not item.has_label:
        return None
    answers = item.conditions[0].answers
    rank, rivals = conservative_rank(class_counts(answers), item.labels)
    if rivals and ties == "random":
        # Only a contested rank needs the hashed order of the table.
        table = answer_classes.count_classes([answers], keys=[item.key])
        return float(answer_classes.scores(table, [item.labels], ties, seed)[0])
    return rank


def class_counts(answers: Iterable[str]) -> Counter[str]:
    """How many runs gave each answer, those without one left out."""
    return Counter(answer for answer in answers if answer)


def conservative_rank(counts: Mapping[str, int], labels: Collection[str]) -> tuple[float, int]:
    """Rank of the best acceptable class behind all that have as many runs.

    Returns:
        the rank, inf if no acceptable answer was sampled, and the number of classes that share its
        place and are not acceptable.
    """
    best = max((counts.get(label, 0) for label in labels), default=0)
    if not best:
        return math.inf, 0
    above = sum(count > best for count in counts.values())
    rivals = sum(count == best and answer not in labels for answer, count in counts.items())
    return 1.0 + above + rivals, rivals


def _check(arguments: Mapping[str, Any]) -> None:
    for name in ("alpha", "confidence"):
        if name in arguments:
            check_probability(arguments[name], name)
    if arguments.get("ties", "random") not in ("random", "conservative"):
        raise ValueError(f'ties must be "random" or "conservative", got {arguments["ties"]!r}')
    seed = arguments.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f"seed must be an integer, got {seed!r}")


def _scores(values: Values) -> np.ndarray:
    return np.array([one.data[0] for one in present(values)], dtype=np.float64)


def _level(values: Values) -> float:
    return conformal.reliability_level(_scores(values)).level


def _level_stderr(values: Values) -> float | None:
    """The level is n/(n + 1) times a mean over items, and so is its standard error."""
    error, n = mean_stderr(values), len(present(values))
    return None if error is None else error * n / (n + 1)


def _lower(values: Values, confidence: float = 0.95) -> float:
    return conformal.reliability_level(_scores(values), confidence=confidence).lower


def _no_stderr(values: Values) -> None:
    """A confidence bound already says how uncertain the level is."""
    return None


def _covered(values: Values, alpha: float) -> Coverage:
    classes = [one.data[1] for one in present(values)]
    return conformal.coverage(_scores(values), alpha, classes)


def _share_stderr(share: float, n: int) -> float | None:
    return math.sqrt(share * (1.0 - share) / (n - 1)) if n > 1 else None


def _coverage(values: Values, alpha: float = 0.1) -> float:
    return _covered(values, alpha).coverage


def _coverage_stderr(values: Values, alpha: float = 0.1) -> float | None:
    """Items taken as independent, as in the interval of `conformal.Coverage`."""
    found = _covered(values, alpha)
    return _share_stderr(found.coverage, found.n)


def _solvable(values: Values, alpha: float = 0.1) -> float:
    return _covered(values, alpha).coverage_solvable


def _solvable_stderr(values: Values, alpha: float = 0.1) -> float | None:
    n = int(np.isfinite(_scores(values)).sum())
    return _share_stderr(_solvable(values, alpha), n)


def _feasible(values: Values, alpha: float = 0.1) -> float:
    return 1.0 - _covered(values, alpha).infeasible


def _set_size(values: Values, alpha: float = 0.1) -> float:
    return _covered(values, alpha).mean_set_size


def _set_size_stderr(values: Values, alpha: float = 0.1) -> float | None:
    classes = np.array([one.data[1] for one in present(values)], dtype=np.float64)
    limits = conformal.leave_one_out_thresholds(_scores(values), alpha)
    return mean_stderr(np.minimum(classes, limits).tolist())


def _scored(item: Item, value: float, score: float) -> ItemValue:
    classes = len({answer for answer in item.conditions[0].answers if answer})
    return ItemValue(value, (score, classes))


@metric(
    needs=["labels"], per_condition=True, all_runs=True, check=_check,
    aggregate=_level, standard_error=_level_stderr,
)  # fmt: skip
def reliability_level(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """#{s <= 1}/(n + 1), the conformal guarantee of the most frequent answer.

    Of one item: 1 if its most frequent answer is acceptable. The level is chosen on the data;
    what a gate tests is `reliability_lower`.
    """
    score = item_score(item, ties, seed)
    return None if score is None else _scored(item, float(score <= 1), score)


@metric(
    needs=["labels"], per_condition=True, all_runs=True, check=_check,
    aggregate=_lower, standard_error=_no_stderr,
)  # fmt: skip
def reliability_lower(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """Exact one-sided lower bound (Clopper-Pearson) of the share of items whose mode is right.

    Argument ``confidence``, 0.95 by default. Of one item: as in `reliability_level`.
    """
    return reliability_level(item, ties, seed)


@metric(
    needs=["labels"], per_condition=True, all_runs=True, check=_check,
    aggregate=_coverage, standard_error=_coverage_stderr,
)  # fmt: skip
def coverage(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """Share of items whose set of the M*(alpha) most frequent answers holds an acceptable one.

    Leave-one-out: each item is judged by the M* of the others; where that is infeasible its set
    is all its answers (see `coverage_feasible`). Of one item: 1 if an acceptable answer was sampled
    at all, the most that any set can do.
    """
    score = item_score(item, ties, seed)
    return None if score is None else _scored(item, float(math.isfinite(score)), score)


@metric(
    needs=["labels"], per_condition=True, all_runs=True, check=_check,
    aggregate=_solvable, standard_error=_solvable_stderr,
)  # fmt: skip
def coverage_solvable(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """`coverage` among the items that sampled an acceptable answer; undefined if none did."""
    return coverage(item, ties, seed)


@metric(
    needs=["labels"], per_condition=True, all_runs=True, check=_check,
    aggregate=_feasible, standard_error=_no_stderr,
)  # fmt: skip
def coverage_feasible(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """Share of items for which the other items give a finite M*(alpha).

    0 says that no number of listed answers covers 1 - alpha (too few items, or too many that were
    never solved); `coverage` is then that of the sets of all answers.
    """
    return coverage(item, ties, seed)


@metric(
    higher_is_better=False, needs=["labels"], per_condition=True, all_runs=True, check=_check,
    aggregate=_set_size, standard_error=_set_size_stderr,
)  # fmt: skip
def prediction_set_size(item: Item, ties: Ties = "random", seed: int = 0) -> float | None:
    """Mean number of answers in the sets of `coverage`. Of one item: its distinct answers."""
    score = item_score(item, ties, seed)
    if score is None:
        return None
    scored = _scored(item, 0.0, score)
    return ItemValue(scored.data[1], scored.data)


@metric(higher_is_better=False, needs=["labels"], per_condition=True, all_runs=True)
def capability_gap(item: Item) -> float | None:
    """Share of items that never sampled an acceptable answer."""
    score = item_score(item, "conservative")
    return None if score is None else float(math.isinf(score))


@metric(needs=["labels"], per_condition=True, all_runs=True)
def mode_acc(item: Item) -> float | None:
    """Accuracy of the most frequent answer, the expected one where several tie for it.

    A tie of t classes of which a are acceptable counts a/t; an item without answers counts 0.
    """
    if not item.has_label:
        return None
    counts = class_counts(item.conditions[0].answers)
    top = max(counts.values(), default=0)
    leaders = [answer for answer, count in counts.items() if count == top]
    return sum(answer in item.labels for answer in leaders) / len(leaders) if leaders else 0.0


@metric(higher_is_better=False, per_condition=True, all_runs=True)
def samples_used(item: Item) -> float | None:
    """Runs drawn per item and condition, missing ones included, as far as the filters keep them."""
    asked = [one.asked for one in item.conditions]
    return sum(asked) / len(asked) if asked else None
