"""A ranking of submitted bundles that says who is not separable from whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmrel_tasks.contestants import Contestant
from lmrel_tasks.differences import Difference, adjusted, task_differences
from lmrel_tasks.mismatches import find_mismatches
from lmrel_tasks.paired_results import pair_tasks, read_scores
from lmrel_tasks.ranking import ranks
from lmrel_tasks.reporting.headline import Headline, headlines
from lmrel_tasks.results import Evaluation

DEFAULT_METRICS = ("reliability_level", "acc", "exact_match", "semantic_repeatability",
                   "answer_agreement")  # fmt: skip


@dataclass(frozen=True)
class Standing:
    """One line of a board.

    Attributes:
        rank: one more than the number of models that are separably better.
        group: letters; two models that share one are not separable.
        name, bundle: who.
        value, ci_low, ci_high: as reported, over all its items; None where undefined.
        n: items.
        verified: what `lmrel verify` said: ``yes``, ``not judged``, ``not asked``.
    """

    rank: int
    group: str
    name: str
    bundle: str
    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int | None
    verified: str


@dataclass(frozen=True)
class Board:
    """A task and metric with its standings, best first."""

    task: str
    metric: str
    higher_is_better: bool | None
    standings: tuple[Standing, ...]


def contestants_of(bundles: Mapping[str, Sequence[Evaluation]]) -> list[Contestant]:
    """The models of some bundles, with names that tell them apart.

    Args:
        bundles: name of the bundle -> its evaluations.
    """
    found: list[tuple[str, str, tuple[Evaluation, ...]]] = []
    for bundle, evaluations in bundles.items():
        by_model: dict[str, list[Evaluation]] = {}
        for one in sorted(evaluations, key=lambda one: one.age):
            by_model.setdefault(one.model, []).append(one)
        found += [(bundle, model, tuple(several)) for model, several in by_model.items()]
    short = [Path(model).name if Path(model).is_absolute() else model for _, model, _ in found]
    names = [
        name if short.count(name) == 1 else f"{name} ({bundle})"
        for name, (bundle, _, _) in zip(short, found, strict=True)
    ]
    return [
        Contestant(name if names.count(name) == 1 else f"{name} #{at}", model, bundle, evaluations)
        for at, (name, (bundle, model, evaluations)) in enumerate(
            zip(names, found, strict=True), start=1
        )
    ]


def boards(
    contestants: Sequence[Contestant],
    verified: Mapping[str, str],
    *,
    metrics: Sequence[str] = (),
    tasks: Sequence[str] = (),
    alpha: float = 0.05,
    notes: list[str] | None = None,
) -> list[Board]:
    """Rank on every task and metric.

    Args:
        contestants: who takes part.
        verified: bundle -> what the verification said.
        metrics: metrics to rank by; by default those of `DEFAULT_METRICS` that are there.
        tasks: tasks to rank on; all by default.
        alpha: level of the paired tests, Holm over everything that is shown.
        notes: takes sentences on what differs besides the model, and what was left out.

    Raises:
        ValueError: if no task has such a metric.
    """
    told = [] if notes is None else notes
    wanted = list(metrics) or list(DEFAULT_METRICS)
    differences: list[Difference] = []
    if len(contestants) > 1:
        for paired in pair_tasks(contestants, tasks=tasks, notes=told):
            differences += task_differences(
                paired, metrics=wanted, confidence_level=1 - alpha, notes=told
            )
            told += [f"{one.kind} {one.text}" for one in find_mismatches(paired) if one.serious]
    table = adjusted(differences, alpha=alpha)
    places = {(one.task, one.metric, one.name): one.rank for one in ranks(table, alpha=alpha)}
    found = []
    for task in dict.fromkeys(task for who in contestants for task in who.tasks):
        if tasks and task not in tasks:
            continue
        rows = {who.name: _headlines(who, task) for who in contestants}
        for metric in dict.fromkeys(key for mine in rows.values() for key in mine):
            if not {metric, metric.partition(",")[0]} & set(wanted):
                continue
            found.append(_board(task, metric, contestants, rows, places, table, alpha, verified))
    if not found:
        raise ValueError(f"none of the metrics {', '.join(wanted)} is in the bundles")
    order = {name: at for at, name in enumerate(wanted)}
    found.sort(key=lambda one: (one.task, order.get(one.metric.partition(",")[0], len(order))))
    return found


def _headlines(who: Contestant, task: str) -> dict[str, Headline]:
    newest = who.newest(task)
    if newest is None:
        return {}
    values = {
        f"{metric},{name}": column
        for name, scores in read_scores(newest, task).items()
        for metric, column in scores.values.items()
    }
    return {
        one.metric if one.filter == "none" else f"{one.metric},{one.filter}": one
        for one in headlines(newest, task, values)
    }


def _board(
    task: str,
    metric: str,
    contestants: Sequence[Contestant],
    rows: Mapping[str, Mapping[str, Headline]],
    places: Mapping[tuple[str, str, str], int],
    table: Sequence[Difference],
    alpha: float,
    verified: Mapping[str, str],
) -> Board:
    present = [who for who in contestants if metric in rows[who.name]]
    direction = rows[present[0].name][metric].higher_is_better
    sign = 1 if direction is False else -1

    def order(who: Contestant) -> tuple[int, float]:
        value = rows[who.name][metric].value
        return places.get((task, metric, who.name), 1), float("inf") if value is None else (
            sign * value
        )

    ordered = sorted(present, key=order)
    apart = {
        frozenset((one.first, one.second))
        for one in table
        if one.task == task and one.metric == metric and one.winner(alpha) is not None
    }
    letters = group_letters([who.name for who in ordered], apart)
    standings = []
    for who in ordered:
        row = rows[who.name][metric]
        standings.append(
            Standing(
                rank=places.get((task, metric, who.name), 1), group=letters[who.name],
                name=who.name, bundle=who.given, value=row.value, ci_low=row.ci_low,
                ci_high=row.ci_high, n=row.n, verified=verified.get(who.given, "not asked"),
            )
        )  # fmt: skip
    return Board(task, metric, direction, tuple(standings))


def group_letters(names: Sequence[str], apart: Collection[frozenset[str]]) -> dict[str, str]:
    """Letters such that two names share one exactly if they are not separable.

    Insert and absorb, Piepho (2004), J. Comput. Graph. Stat. 13(2), doi:10.1198/1061860043515.

    Args:
        names: best first; earlier ones get earlier letters.
        apart: the separable pairs.
    """
    groups = [frozenset(names)]
    for pair in apart:
        split = [
            piece
            for group in groups
            for piece in ([group - {one} for one in pair] if pair <= group else [group])
        ]
        groups = [
            group
            for at, group in enumerate(split)
            if not any(
                group < other or (group == other and at > b) for b, other in enumerate(split)
            )
        ]
    place = {name: at for at, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(place[name] for name in group))
    return {
        name: "".join(_letter(at) for at, group in enumerate(groups) if name in group)
        for name in names
    }


def _letter(at: int) -> str:
    return chr(ord("a") + at % 26) + ("" if at < 26 else str(at // 26))
