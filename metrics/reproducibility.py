"""Metrics of the same question asked under several conditions, for a task's ``metric_list``.

Items carry their sums of embeddings (`CellSums`) to the aggregation, one vector per cell; no
metric here keeps, or sees, the embeddings of single runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics import agreement, cosine, entropy
from lmrel_tasks.metrics import semantic_entropy as entropy_of_meaning
from lmrel_tasks.metrics.cosine import CellSums, stack_items
from lmrel_tasks.metrics.entropy import nanmean
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.jackknife import jackknife_error
from lmrel_tasks.metrics.registry import ItemValue, metric, of_item, present
from lmrel_tasks.metrics.repeatability import over_conditions

FloatArray = NDArray[np.float64]
Values = Sequence["ItemValue | None"]


@metric(needs=["embeddings", "conditions"])
def semantic_reproducibility(item: Item) -> float | None:
    """Mean over pairs of conditions of the cosine between their mean vectors.

    Depends on the number of runs: noise in the means lowers it. See the debiased form.
    """
    return _over_pairs(item, cosine.centroid_cosine)


@metric(needs=["embeddings", "repeats", "conditions"])
def semantic_reproducibility_debiased(item: Item) -> float | None:
    """Mean over pairs of conditions of c_pq / sqrt(w_p w_q), free of the number of runs."""
    return _over_pairs(item, cosine.debiased_cosine)


@metric(needs=["logprobs", "conditions"])
def internal_reproducibility(item: Item) -> float | None:
    """1 - mean over pairs of conditions of the difference of their certainties."""
    return of_item(_internal_reproducibility)(item)


def _internal_reproducibility(item: Item) -> float:
    certainty = [
        nanmean(one.certainty) if one.certainty.size else np.nan for one in item.conditions
    ]
    return float(entropy.certainty_reproducibility(certainty))


@metric(needs=["conditions"])
def answer_reproducibility(item: Item) -> float | None:
    """Share of pairs of conditions whose most frequent answers agree; ties by their chance."""
    return of_item(lambda i: agreement.answer_reproducibility([c.answers for c in i.conditions]))(
        item
    )


@metric(needs=["repeats"], higher_is_better=False, per_condition=True)
def semantic_entropy(item: Item, normalise: bool = False) -> float | None:
    """Entropy in bits of the runs' distribution over answers, or over the classes of a filter.

    Put the filter ``cluster`` behind ``answer`` to let classes of meaning stand for answers.
    Argument ``normalise``: divide by log2 of the number of runs.
    """
    if normalise:
        value = entropy_of_meaning.normalised_semantic_entropy
    else:
        value = entropy_of_meaning.semantic_entropy
    return over_conditions(item, lambda one: value(one.answers))


def _over_pairs(item: Item, statistic: object) -> float | None:
    if item.sums is None or len(item.conditions) < 2:
        return None
    return of_item(lambda i: float(nanmean(statistic(i.sums))))(item)  # type: ignore[operator]


# Chance-corrected meaning ----------------------------------------------------------------------


def _alpha(values: Values) -> float:
    """(s - b)/(1 - b), s the mean over items and b the cosine between items."""
    found = present(values)
    if not found:
        return math.nan
    score = float(np.mean([float(one) for one in found]))
    return float(cosine.chance_corrected(score, cosine.item_baseline(_stacked(found))))


def _alpha_stderr(values: Values) -> float | None:
    """Delete-one-item jackknife, from the sum of the item means and each item's own."""
    found = present(values)
    n = len(found)
    if n < 3:
        return None
    means = cosine.item_means(_stacked(found))
    scores = np.array([float(one) for one in found])
    square = np.einsum("id,id->i", means, means)
    grand = means.sum(axis=0)
    left = grand @ grand - 2.0 * (means @ grand) + square
    baseline = (left - (square.sum() - square)) / ((n - 1) * (n - 2))
    rest = (scores.sum() - scores) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return jackknife_error((rest - baseline) / (1.0 - baseline))


def _stacked(found: Sequence[ItemValue]) -> CellSums:
    return stack_items([one.data for one in found])


@metric(
    needs=["embeddings", "repeats"], per_condition=True,
    aggregate=_alpha, standard_error=_alpha_stderr,
)  # fmt: skip
def semantic_alpha_repeatability(item: Item) -> float | None:
    """(w - b)/(1 - b): repeatability of meaning above what unrelated items score.

    Krippendorff's alpha with cosine distance. Of one item: w.
    """
    return _with_sums(item, cosine.within_cosine)


@metric(
    needs=["embeddings", "conditions"], aggregate=_alpha, standard_error=_alpha_stderr,
)  # fmt: skip
def semantic_alpha_reproducibility(item: Item) -> float | None:
    """(c - b)/(1 - b): agreement of meaning across conditions above chance. Of one item: c."""
    return _with_sums(item, cosine.between_cosine) if len(item.conditions) > 1 else None


def _with_sums(item: Item, statistic: object) -> ItemValue | None:
    sums = item.sums
    if sums is None:
        return None
    value = float(nanmean(statistic(sums)))  # type: ignore[operator]
    return None if math.isnan(value) else ItemValue(value, item.cells)
