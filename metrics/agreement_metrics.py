"""Agreement corrected for chance, over all items: Fleiss' kappa and Krippendorff's alpha.

All runs of an item count as its ratings, those of all conditions together; the rows of single
conditions (``fleiss_kappa@name``) tell agreement within a condition from agreement across them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lmrel_tasks.metrics import agreement
from lmrel_tasks.metrics.agreement import is_missing
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.jackknife import jackknife_error
from lmrel_tasks.metrics.registry import ItemValue, metric, present

Values = Sequence["ItemValue | None"]
OF = ("answer", "correctness", "certainty")


def _check_nominal(arguments: Mapping[str, Any]) -> None:
    _check(arguments, OF[:2])


def _check_any(arguments: Mapping[str, Any]) -> None:
    _check(arguments, OF)


def _check(arguments: Mapping[str, Any], known: Sequence[str]) -> None:
    if arguments.get("of", "answer") not in known:
        raise ValueError(f"of must be one of {', '.join(known)}, got {arguments['of']!r}")


def _ratings(item: Item, of: str) -> list[Any] | None:
    if of == "certainty":
        return [float(x) for one in item.conditions for x in one.certainty if not math.isnan(x)]
    if of == "correctness" and not item.has_label:
        return None
    answers = [answer for one in item.conditions for answer in one.answers]
    return [item.is_right(answer) for answer in answers] if of == "correctness" else answers


def _rated(item: Item, of: str) -> ItemValue | None:
    """Of one item: the share of pairs of ratings that agree (nominal), or the mean (certainty)."""
    ratings = _ratings(item, of)
    if not ratings:
        return None
    if of == "certainty":
        return ItemValue(float(np.mean(ratings)), np.array(ratings))
    kept = [rating for rating in ratings if not is_missing(rating)]
    value = agreement.answer_agreement(kept)
    return None if math.isnan(value) else ItemValue(value, (Counter(kept), len(ratings)))


# Fleiss ----------------------------------------------------------------------------------------


def _complete(values: Values) -> list[Counter[Any]]:
    """Ratings of the items without a missing one that have the most usual number of them."""
    found = [one.data for one in present(values)]
    whole = [counts for counts, asked in found if counts.total() == asked]
    if not whole:
        return []
    usual = Counter(counts.total() for counts in whole).most_common(1)[0][0]
    return [counts for counts in whole if counts.total() == usual]


def _kappa(values: Values) -> float:
    items = _complete(values)
    return agreement.fleiss_kappa([list(one.elements()) for one in items]) if items else math.nan


def _kappa_stderr(values: Values) -> float | None:
    """Delete-one-item jackknife."""
    items = _complete(values)
    if len(items) < 3:
        return None
    m = items[0].total()
    own, left_square = _squares(items)
    pairs = (own - m) / (m * (m - 1))
    observed = (pairs.sum() - pairs) / (len(items) - 1)
    chance = left_square / ((len(items) - 1) * m) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return jackknife_error((observed - chance) / (1.0 - chance))


def _squares(items: Sequence[Counter[Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Per item: sum of its squared counts, and that of everybody's counts without the item's."""
    total: Counter[Any] = Counter()
    for one in items:
        total.update(one)
    every = float(sum(count**2 for count in total.values()))
    own = np.array([sum(c * c for c in one.values()) for one in items], dtype=np.float64)
    shared = np.array(
        [sum(total[label] * c for label, c in one.items()) for one in items], dtype=np.float64
    )
    return own, every - 2.0 * shared + own


@metric(
    needs=["repeats"], per_condition=True, check=_check_nominal,
    aggregate=_kappa, standard_error=_kappa_stderr,
)  # fmt: skip
def fleiss_kappa(item: Item, of: str = "answer") -> float | None:
    """Fleiss' kappa of the runs' answers, which must mean the same in all items (letters, labels).

    Argument ``of``: ``answer`` or ``correctness`` (right or wrong). Items with a missing answer, or
    with another number of runs than most, do not enter; `krippendorff_alpha` allows both. Of one
    item: the share of pairs of runs that agree.
    """
    return _rated(item, of)


# Krippendorff ----------------------------------------------------------------------------------


def _alpha(values: Values) -> float:
    found = [one.data for one in present(values)]
    if found and isinstance(found[0], np.ndarray):
        return agreement.krippendorff_alpha(found, level="interval")
    return agreement.krippendorff_alpha(counts.elements() for counts, _ in found)


def _alpha_stderr(values: Values) -> float | None:
    """Delete-one-item jackknife."""
    found = [one.data for one in present(values)]
    if found and isinstance(found[0], np.ndarray):
        rows = [row for row in found if row.size > 1]
        if len(rows) < 3:
            return None
        size = np.array([row.size for row in rows], dtype=np.float64)
        grand = float(np.concatenate(rows).mean())
        first = np.array([(row - grand).sum() for row in rows])
        second = np.array([np.square(row - grand).sum() for row in rows])
        observed = 2.0 * size / (size - 1.0) * (second - first**2 / size)
        n = size.sum() - size
        expected = 2.0 * n / (n - 1.0) * (second.sum() - second - (first.sum() - first) ** 2 / n)
    else:
        items = [counts for counts, _ in found if counts.total() > 1]
        if len(items) < 3:
            return None
        size = np.array([one.total() for one in items], dtype=np.float64)
        own, left_square = _squares(items)
        observed = (size**2 - own) / (size - 1.0)
        n = size.sum() - size
        expected = (n**2 - left_square) / (n - 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return jackknife_error(1.0 - (observed.sum() - observed) / expected)


@metric(
    needs=["repeats"], per_condition=True, check=_check_any,
    aggregate=_alpha, standard_error=_alpha_stderr,
)  # fmt: skip
def krippendorff_alpha(item: Item, of: str = "answer") -> float | None:
    """Krippendorff's alpha of the runs, missing ones left out.

    Argument ``of``: ``answer`` or ``correctness`` (nominal), or ``certainty`` (interval). Of one
    item: the share of pairs of runs that agree, or the mean certainty.
    """
    return _rated(item, of)
