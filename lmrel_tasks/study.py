"""A task's stored runs as arrays over items, conditions and runs, for the analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.filters.embed import Encode, cell_vectors
from lmrel_tasks.metrics import agreement
from lmrel_tasks.metrics.cosine import CellSums, cell_sums, no_sums, stack_cells, within_cosine
from lmrel_tasks.metrics.entropy import internal_stability, nanmean
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.variance_metrics import runs_of
from lmrel_tasks.results import Evaluation, find_evaluations, item_of, samples_of
from lmrel_tasks.suggesting import did_you_mean

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """Runs of one model on one task.

    Attributes:
        model: the model's name, made unique among the studies read together.
        task: the task's name.
        pipeline: the filter pipeline that gave the answers, as in the results' metric names.
        conditions: names of the P conditions.
        items: keys of the I items.
        certainty: (I, P, R) certainty of each run, NaN where unknown.
        correctness: (I, P, R) 1 for a right answer, 0 for a wrong one, NaN where unknown.
        closeness: (I, P, R) mean cosine of a run to the other runs of its cell; NaN likewise.
        answers: canonical answers, per item and condition.
        cells: sums of embeddings, shape (I, P); None if nothing was embedded.
        scores: metric -> (I, P) value of each item under each condition, larger is better.
    """

    model: str
    task: str
    pipeline: str
    conditions: tuple[str, ...]
    items: tuple[str, ...]
    certainty: FloatArray
    correctness: FloatArray
    closeness: FloatArray
    answers: Sequence[Sequence[tuple[str, ...]]] = field(repr=False)
    cells: CellSums | None = field(repr=False)
    scores: Mapping[str, FloatArray] = field(repr=False)

    @property
    def name(self) -> str:
        """Task and model."""
        return f"{self.task} ({self.model})"


def read_studies(
    paths: Sequence[str],
    *,
    tasks: Sequence[str] = (),
    pipeline: str | None = None,
    encoder: Callable[[], Encode] | None = None,
) -> list[Study]:
    """All studies below some result folders, newest results of each model and task.

    Args:
        paths: folders or results files.
        tasks: tasks to read; all that logged samples if empty.
        pipeline: name of the filter pipeline; the first one in each file by default.
        encoder: gives the function from texts to embeddings, which the sample files do not hold;
            asked for only when something is to be embedded. None leaves meaning out.

    Raises:
        FileNotFoundError: if there are no results or no samples.
        ValueError: for samples that do not fit together, or a task or pipeline that is not there.
    """
    evaluations = find_evaluations(paths)
    found = [
        (one, task)
        for one in evaluations
        for task in one.tasks
        if (not tasks or task in tasks) and (tasks or one.samples_path(task) is not None)
    ]
    absent = sorted(set(tasks) - {task for _, task in found})
    if absent:
        known = sorted({task for one in evaluations for task in one.tasks})
        raise ValueError(
            f"no results of task {absent[0]}{did_you_mean(absent[0], known)}; there are "
            f"{', '.join(known)}"
        )
    if not found:
        raise FileNotFoundError(
            f"no samples beside {evaluations[0].path}; run the evaluation with --log_samples"
        )
    names = _unique_names(found)
    return [
        read_study(one, task, name, pipeline=pipeline, encoder=encoder)
        for (one, task), name in zip(found, names, strict=True)
    ]


def _unique_names(found: Sequence[tuple[Evaluation, str]]) -> list[str]:
    keys = [(task, one.model) for one, task in found]
    return [
        f"{one.model} [{one.path.parent.parent.name or one.path.parent.name}/{one.date}]"
        if keys.count((task, one.model)) > 1
        else one.model
        for one, task in found
    ]


def read_study(
    evaluation: Evaluation,
    task: str,
    model: str,
    *,
    pipeline: str | None = None,
    encoder: Callable[[], Encode] | None = None,
) -> Study:
    """The stored runs of one task. See `read_studies`."""
    where = f"{evaluation.path.parent}, task {task}"
    chosen, items = _items(samples_of(evaluation, task), where, pipeline)
    names = tuple(one.name for one in items[0].conditions)
    for item in items:
        if tuple(one.name for one in item.conditions) != names:
            raise ValueError(f"{where}: item {item.key} has other conditions than the first one")
    width = max(len(one.texts) for item in items for one in item.conditions)
    shape = (len(items), len(names), width)
    certainty, correctness = (
        _filled(shape, [runs_of(item, of) for item in items]) for of in ("certainty", "correctness")
    )
    cells, closeness = _meaning(items, shape, encoder)
    answers = [[one.answers for one in item.conditions] for item in items]
    scores: dict[str, FloatArray] = {
        "acc": nanmean(correctness),
        "answer_agreement": np.array(
            [[agreement.answer_agreement(cell) for cell in row] for row in answers]
        ),
        "internal_repeatability": nanmean(certainty),
        "internal_stability": internal_stability(certainty),
    }
    if cells is not None:
        scores["semantic_repeatability"] = within_cosine(cells)
    return Study(
        model, task, chosen, names, tuple(item.key for item in items), certainty, correctness,
        closeness, answers, cells, {k: v for k, v in scores.items() if not np.isnan(v).all()},
    )  # fmt: skip


def _items(
    samples: Iterator[dict[str, Any]], where: str, pipeline: str | None
) -> tuple[str, list[Item]]:
    items: list[Item] = []
    seen: set[str] = set()
    others: set[str] = set()
    for sample in samples:
        name = str(sample.get("filter", "none"))
        pipeline = name if pipeline is None else pipeline
        if name != pipeline:
            others.add(name)
            continue
        item = item_of(sample)
        first = (sample.get("lmrel") or {}).get("first_round")
        if first:
            # Means over runs that a stopping rule ended would be biased.
            item = item.first_runs(first)
        key = item.key if item.key not in seen else f"{item.key}#{sample.get('doc_id')}"
        seen.add(key)
        items.append(Item(key, item.conditions, item.labels, item.has_label))
    if not items:
        there = f"; there are {', '.join(sorted(others))}" if others else ""
        raise ValueError(f"{where}: no samples of filter {pipeline or 'none'}{there}")
    return str(pipeline), items


def _filled(shape: tuple[int, ...], rows: Sequence[list[FloatArray] | None]) -> FloatArray:
    table = np.full(shape, np.nan)
    for place, cells in zip(table, rows, strict=True):
        for cell, values in zip(place, cells or (), strict=False):
            cell[: len(values)] = values
    return table


def _meaning(
    items: Sequence[Item], shape: tuple[int, ...], encoder: Callable[[], Encode] | None
) -> tuple[CellSums | None, FloatArray]:
    closeness = np.full(shape, np.nan)
    texts = [one.texts for item in items for one in item.conditions]
    if encoder is None or not any(text.strip() for cell in texts for text in cell):
        return None, closeness
    sums: list[CellSums | None] = []
    for at, vectors in enumerate(cell_vectors(texts, encoder())):
        sums.append(None if vectors is None else cell_sums(vectors))
        if vectors is not None:
            close = _closeness(vectors)
            closeness[at // shape[1], at % shape[1], : len(close)] = close
    known = next(one for one in sums if one is not None)
    nothing = no_sums(known.total.shape[-1])
    whole = [nothing if one is None else one for one in sums]
    rows = [stack_cells(whole[at : at + shape[1]]) for at in range(0, len(whole), shape[1])]
    return stack_cells(rows), closeness


def _closeness(vectors: NDArray[Any]) -> FloatArray:
    """(R,) mean cosine of each run to the other runs; NaN for a missing run or a lone one."""
    x = np.asarray(vectors, dtype=np.float64)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    known = ~np.isnan(x[:, 0])
    others = known.sum() - 1
    close = np.full(len(x), np.nan)
    if others > 0:
        total = x[known].sum(axis=0)
        close[known] = (x[known] @ total - 1.0) / others
    return close
