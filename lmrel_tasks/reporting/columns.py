"""What a report needs of all items, collected one by one and computed at once.

Numbers are kept in flat arrays of 8 bytes each, since a task may have a hundred thousand items.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmrel_tasks.metrics import answer_classes
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.reliability import class_counts, conservative_rank
from lmrel_tasks.metrics.variance import CellMoments, cell_moments
from lmrel_tasks.metrics.variance_metrics import component_shares, runs_of

SCALARS = ("certainty", "correctness")
# Beyond this many items the jackknife takes seconds, and the errors are small.
_MAX_JACKKNIFE = 5000

Shares = dict[str, tuple[float, float | None]]


@dataclass
class Values:
    """Values of the items under every metric and filter."""

    rows: dict[str, int] = field(default_factory=dict)
    columns: dict[str, array[float]] = field(default_factory=dict)

    def add(self, key: str, sample: Mapping[str, Any]) -> None:
        """Take the metrics of a sample line; a later one of the same item replaces them."""
        row = self.rows.setdefault(key, len(self.rows))
        filter_name = sample.get("filter", "none")
        for metric in sample.get("metrics") or ():
            name = f"{metric},{filter_name}"
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = array("d")
            value = sample.get(metric)
            if not isinstance(value, (int, float)):
                continue
            if row >= len(column):
                column.extend([math.nan] * (row + 1 - len(column)))
            column[row] = value

    def found(self, keys: Sequence[str]) -> dict[str, np.ndarray]:
        """``metric,filter`` -> (keys,) values, NaN where an item has none."""
        rows = np.array([self.rows[key] for key in keys], dtype=np.intp)
        found = {}
        for name, column in self.columns.items():
            values = np.full(len(self.rows), math.nan)
            values[: len(column)] = column
            found[name] = values[rows]
        return found


@dataclass
class Ranks:
    """Scores of the items' most frequent answers, as `reliability.item_score` gives them.

    Where a right answer shares its count with a wrong one its rank is drawn; such items wait, as
    drawing for many at once is faster.
    """

    scores: array[float] = field(default_factory=lambda: array("d"))
    classes: array[int] = field(default_factory=lambda: array("q"))
    waiting: list[tuple[int, str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    def add(self, item: Item) -> None:
        """Take the first condition of an item; one without a label is left out."""
        if not item.has_label or not item.conditions:
            return
        answers = item.conditions[0].answers
        counts = class_counts(answers)
        rank, rivals = conservative_rank(counts, item.labels)
        if rivals:
            self.waiting.append((len(self.scores), item.key, answers, item.labels))
        self.scores.append(rank)
        self.classes.append(len(counts))

    def found(self) -> np.ndarray:
        """(labelled items,) scores, inf for never sampled."""
        scores = np.array(self.scores)
        if self.waiting:
            places, keys, answers, labels = map(list, zip(*self.waiting, strict=True))
            table = answer_classes.count_classes(answers, keys=keys)
            scores[places] = answer_classes.scores(table, labels, "random", 0)
        return scores


@dataclass
class _Runs:
    """A number of every run, and how many runs each condition of each item has."""

    values: array[float] = field(default_factory=lambda: array("d"))
    lengths: list[tuple[int, ...]] = field(default_factory=list)

    def moments(self) -> CellMoments:
        """(items, conditions) moments of the items that have any run."""
        conditions = max(map(len, self.lengths))
        lengths = np.zeros((len(self.lengths), conditions), dtype=np.intp)
        present = np.arange(conditions) < np.array([[len(row)] for row in self.lengths])
        lengths[present] = [length for row in self.lengths for length in row]
        table = np.full((*lengths.shape, max(1, int(lengths.max(initial=0)))), np.nan)
        table[np.arange(table.shape[-1]) < lengths[..., None]] = self.values
        cells = cell_moments(table)
        known = (cells.count > 0).any(axis=1)
        return CellMoments(cells.count[known], cells.mean[known], cells.within[known])


@dataclass
class Measures:
    """Certainty and correctness of every run, for their components of variance."""

    runs: dict[str, _Runs] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        for measure in SCALARS:
            rows = runs_of(item, measure)
            if rows is not None:
                kept = self.runs.setdefault(measure, _Runs())
                kept.lengths.append(tuple(map(len, rows)))
                for row in rows:
                    kept.values.extend(row.tolist())

    def shares(self) -> dict[str, Shares]:
        """Measure -> part of the variance -> (percentage, standard error or None)."""
        found = {}
        for measure, runs in self.runs.items():
            cells = runs.moments()
            shares = component_shares(cells, errors=len(cells.count) <= _MAX_JACKKNIFE)
            if shares:
                found[measure] = shares
        return found
