"""Metrics of repeated runs under one condition: accuracy, meaning, certainty, agreement."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lmrel_tasks.metrics import agreement, entropy
from lmrel_tasks.metrics.cosine import within_cosine
from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.metrics.registry import metric


def over_conditions(item: Item, value: Callable[[Condition], float]) -> float | None:
    """Mean of a cell statistic over the item's conditions that have one, or None."""
    values = [number for one in item.conditions if not math.isnan(number := value(one))]
    return math.fsum(values) / len(values) if values else None


@metric(needs=["labels"], per_condition=True)
def acc(item: Item) -> float | None:
    """Share of runs whose canonical answer is acceptable; a run without an answer is wrong.

    Runs that could not be had are left out (they are counted by ``missing_rate``).
    """
    if not item.has_label:
        return None
    return over_conditions(item, lambda one: _mean([item.is_right(a) for a in one.answers]))


@metric(needs=["embeddings", "repeats"], per_condition=True)
def semantic_repeatability(item: Item) -> float | None:
    """Mean pairwise cosine of the runs' embeddings, over cells."""
    return over_conditions(
        item, lambda one: math.nan if one.sums is None else float(within_cosine(one.sums))
    )


@metric(needs=["logprobs"], per_condition=True)
def internal_repeatability(item: Item) -> float | None:
    """Certainty 1 - H/log2 k of the token distributions, over runs and cells."""
    return over_conditions(
        item, lambda one: float(entropy.internal_repeatability(_row(one.certainty)))
    )


@metric(needs=["logprobs", "repeats"], per_condition=True)
def internal_stability(item: Item) -> float | None:
    """1 - 2 SD over runs of a run's certainty, over cells."""
    return over_conditions(item, lambda one: float(entropy.internal_stability(_row(one.certainty))))


@metric(needs=["repeats"], per_condition=True)
def answer_agreement(item: Item) -> float | None:
    """Mean pairwise agreement of canonical answers, over cells; missing answers left out."""
    return over_conditions(item, lambda one: agreement.answer_agreement(one.answers))


@metric(needs=["repeats"], per_condition=True)
def tar_answer(item: Item) -> float | None:
    """1 if the canonical answers of all runs are the same (TARa@N), over cells."""
    return over_conditions(item, lambda one: agreement.all_identical(one.answers))


@metric(needs=["repeats"], per_condition=True)
def tar_raw(item: Item) -> float | None:
    """1 if the texts of all runs are the same (TARr@N), over cells."""
    return over_conditions(item, lambda one: agreement.all_identical(one.texts))


@metric(higher_is_better=False)
def empty_rate(item: Item) -> float | None:
    """Share of runs whose text is empty or white space."""
    return over_conditions(item, lambda one: _mean([not text.strip() for text in one.texts]))


@metric(higher_is_better=False)
def no_answer_rate(item: Item) -> float | None:
    """Share of runs in which no canonical answer was found; ``acc`` counts them as wrong."""
    return over_conditions(item, lambda one: _mean([not answer for answer in one.answers]))


@metric(higher_is_better=False)
def missing_rate(item: Item) -> float | None:
    """Share of the runs asked for that could not be had from the model."""
    asked = sum(one.asked for one in item.conditions)
    return sum(one.missing for one in item.conditions) / asked if asked else None


def _mean(flags: list[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _row(values: np.ndarray) -> np.ndarray:
    return values if values.size else np.array([np.nan])
