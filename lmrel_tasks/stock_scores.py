"""The harness's own scores of several runs: a mean where they are numbers, else one per run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from lmrel_tasks.harness_metrics import Aggregation

RESAMPLES = 100


class PerRun(list[Any]):
    """An item's scores, one per run, for a metric whose scores cannot be averaged.

    Corpus metrics such as BLEU score a run with a pair of texts, and only their aggregation makes
    a number of it.
    """


def over_runs(scores: Sequence[Mapping[str, Any]], single: bool) -> dict[str, Any]:
    """One value per metric from the scores of an item's runs.

    Args:
        scores: per run, ``metric -> score`` as the harness computed it.
        single: True if the task asks once only; the score is then left as it is.
    """
    if single:
        return dict(scores[0]) if scores else {}
    values: dict[str, Any] = {}
    for key in scores[0] if scores else ():
        given = [score[key] for score in scores if key in score]
        if all(isinstance(one, (Real, np.bool_)) for one in given):
            values[key] = sum(float(one) for one in given) / len(given)
        else:
            values[key] = PerRun(given)
    return values


class RunAggregation(Aggregation):
    """The mean over runs of what an aggregation makes of all items' scores of one run.

    Args:
        stock: the harness's aggregation, scores of the items -> number.
    """

    def __init__(self, stock: Callable[[Sequence[Any]], Any]) -> None:
        self.stock = stock
        self.__name__ = getattr(stock, "__name__", type(stock).__name__)

    def __call__(self, values: Sequence[Any]) -> float | str:
        runs = max((len(scores) for scores in values), default=0)
        found = [
            float(self.stock([scores[run] for scores in values if len(scores) > run]))
            for run in range(runs)
        ]
        mean = math.fsum(found) / runs if runs else math.nan
        return mean if math.isfinite(mean) else "N/A"

    def stderr(self, values: Sequence[Any]) -> float | str:
        """Bootstrap over items, each with one of its runs drawn at random.

        It is that of a single run's score, hence an upper bound for the mean over runs.
        """
        scored = [scores for scores in values if len(scores)]
        if len(scored) < 2:
            return "N/A"
        rng = np.random.default_rng(1234)
        drawn = []
        for _ in range(RESAMPLES):
            items = [scored[at] for at in rng.integers(len(scored), size=len(scored))]
            drawn.append(float(self.stock([one[rng.integers(len(one))] for one in items])))
        error = float(np.std(drawn, ddof=1))
        return error if math.isfinite(error) else "N/A"
