"""Several models on the same items: the models take the place of conditions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.comparing import overall, pairwise, reproducibility_scores
from lmrel_tasks.metrics.cosine import stack_cells
from lmrel_tasks.metrics.entropy import nanmean
from lmrel_tasks.metrics.intervals import item_bootstrap
from lmrel_tasks.study import Study
from lmrel_tasks.tables import Table

FloatArray = NDArray[np.float64]


def compare_models(studies: Sequence[Study]) -> list[Table]:
    """Tables that compare models on one task; empty for a single study.

    Items and conditions are those that all studies share. Metrics are compared on their means
    over the shared conditions, paired by item; across models, runs are compared under each
    condition.

    Raises:
        ValueError: if the studies share no item or no condition.
    """
    if len(studies) < 2:
        return []
    task = studies[0].task
    items = [key for key in studies[0].items if all(key in one.items for one in studies)]
    shared = [
        name for name in studies[0].conditions if all(name in one.conditions for one in studies)
    ]
    if not items or not shared:
        missing = "item" if not items else "condition"
        raise ValueError(
            f"task {task}: the results share no {missing}, so models cannot be compared; give "
            "results of the same data"
        )
    places = [_places(one, items) for one in studies]
    columns = [[one.conditions.index(name) for name in shared] for one in studies]
    models = [one.model for one in studies]
    scores = {
        metric: np.stack(
            [
                nanmean(one.scores[metric][np.ix_(rows, picked)])
                for one, rows, picked in zip(studies, places, columns, strict=True)
            ],
            axis=1,
        )
        for metric in studies[0].scores
        if all(metric in one.scores for one in studies)
    }
    where = (task, "all models")
    tables = [pairwise(where, models, scores, "models"), overall(where, models, scores, "models")]
    return [
        *(_renamed(one) for one in tables if one is not None),
        _across(studies, shared, places, task),
    ]


def _places(study: Study, items: Sequence[str]) -> list[int]:
    at = {key: row for row, key in enumerate(study.items)}
    return [at[key] for key in items]


def _renamed(table: Table) -> Table:
    return Table(f"models_{table.name}", table.title, table.columns, table.rows, table.findings)


def _across(
    studies: Sequence[Study], shared: Sequence[str], places: Sequence[list[int]], task: str
) -> Table:
    """Reproducibility across models under each shared condition, and its mean over them."""
    found: dict[str, list[FloatArray]] = {}
    for name in shared:
        columns = [one.conditions.index(name) for one in studies]
        embedded = [one.cells for one in studies if one.cells is not None]
        cells = None
        if len(embedded) == len(studies):
            parts = [cell[rows, p] for cell, rows, p in zip(embedded, places, columns, strict=True)]
            cells = stack_cells(
                [stack_cells([part[i] for part in parts]) for i in range(len(places[0]))]
            )
        certainty = np.stack(
            [
                nanmean(one.certainty[rows, p])
                for one, rows, p in zip(studies, places, columns, strict=True)
            ],
            axis=1,
        )
        answers = [
            [one.answers[rows[i]][p] for one, rows, p in zip(studies, places, columns, strict=True)]
            for i in range(len(places[0]))
        ]
        for metric, values in reproducibility_scores(
            cells, certainty, answers, len(studies)
        ).items():
            found.setdefault(metric, []).append(values)
    rows_out, findings = [], []
    for metric, by_condition in found.items():
        names = list(shared)
        if len(names) > 1 and len(by_condition) == len(names):
            names.append("all")
            by_condition = [*by_condition, nanmean(np.stack(by_condition, axis=1))]
        for name, values in zip(names, by_condition, strict=False):
            known = values[~np.isnan(values)]
            low = high = float("nan")
            if known.size > 1:
                interval = item_bootstrap(known)
                low, high = interval.ci_low, interval.ci_high
            mean = float(known.mean()) if known.size else float("nan")
            rows_out.append((task, len(studies), metric, name, mean, low, high, known.size))
        findings.append(
            f"{task}: across {len(studies)} models {metric} is {rows_out[-1][4]:.3f} "
            f"[{rows_out[-1][5]:.3f}, {rows_out[-1][6]:.3f}]."
        )
    return Table(
        "models_reproducibility", f"{task}: reproducibility across {len(studies)} models",
        ("task", "models", "metric", "condition", "mean", "ci_low", "ci_high", "items"),
        tuple(rows_out), tuple(findings),
    )  # fmt: skip
