"""What a report needs of all items, collected one by one and computed at once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from lmrel_tasks.metrics import answer_classes
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.registry import METRICS, ItemValue
from lmrel_tasks.metrics.reliability import item_score
from lmrel_tasks.metrics.variance import CellMoments, cell_moments
from lmrel_tasks.metrics.variance_metrics import PARTS, runs_of

SCALARS = ("certainty", "correctness")
# The jackknife of larger tables takes minutes, and their errors are small.
_MAX_JACKKNIFE = 5000

Shares = dict[str, tuple[float, float | None]]


@dataclass
class Ranks:
    """Scores of the items' most frequent answers, as `reliability.item_score` gives them.

    Where a right answer shares its count with a wrong one its rank is drawn; such items wait, as
    drawing for many at once is faster.
    """

    scores: list[float] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    waiting: list[tuple[int, str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    def add(self, item: Item) -> None:
        """Take the first condition of an item; one without a label is left out."""
        score = item_score(item, "conservative")
        if score is None or not item.conditions:
            return
        answers = item.conditions[0].answers
        counts = Counter(answer for answer in answers if answer)
        if math.isfinite(score):
            best = max(counts[label] for label in item.labels)
            if any(n == best and answer not in item.labels for answer, n in counts.items()):
                self.waiting.append((len(self.scores), item.key, answers, item.labels))
        self.scores.append(score)
        self.classes.append(len(counts))

    def found(self) -> np.ndarray:
        """(labelled items,) scores, inf for never sampled."""
        scores = np.array(self.scores, dtype=np.float64)
        if self.waiting:
            places, keys, answers, labels = map(list, zip(*self.waiting, strict=True))
            table = answer_classes.count_classes(answers, keys=keys)
            scores[places] = answer_classes.scores(table, labels, "random", 0)
        return scores


@dataclass
class Measures:
    """Certainty and correctness of every run, for their components of variance."""

    rows: dict[str, list[list[np.ndarray]]] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        for measure in SCALARS:
            runs = runs_of(item, measure)
            if runs is not None:
                self.rows.setdefault(measure, []).append(runs)

    def shares(self) -> dict[str, Shares]:
        """Measure -> part of the variance -> (percentage, standard error or None)."""
        found = {}
        for measure, rows in self.rows.items():
            values = _values(rows)
            row: Shares = {}
            for part in PARTS if any(len(one) > 1 for one in rows) else ("item", "run"):
                metric = METRICS[f"var_{part}"]
                share = metric.aggregate(values)
                if math.isfinite(share):
                    small = len(values) <= _MAX_JACKKNIFE
                    row[part] = (share, metric.standard_error(values) if small else None)
            if row:
                found[measure] = row
        return found


def _values(rows: list[list[np.ndarray]]) -> list[ItemValue]:
    """Moments of every cell, from arrays of differing numbers of conditions and runs."""
    conditions = max(map(len, rows))
    width = max(1, max((len(cell) for row in rows for cell in row), default=1))
    table = np.full((len(rows), conditions, width), np.nan)
    for place, row in zip(table, rows, strict=True):
        for line, cell in zip(place, row, strict=False):
            line[: len(cell)] = cell
    cells = cell_moments(table)
    return [
        ItemValue(0.0, CellMoments(count, mean, within))
        for count, mean, within in zip(cells.count, cells.mean, cells.within, strict=True)
        if count.any()
    ]
