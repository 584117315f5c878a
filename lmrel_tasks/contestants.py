"""Who is compared: every model of every path, with names that tell them apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmrel_tasks.results import Evaluation, find_evaluations


@dataclass(frozen=True)
class Contestant:
    """One of those compared: a model in a folder, with all its evaluations there.

    Attributes:
        name: unique among those compared.
        model: the model's name as recorded.
        given: the path that the user gave.
        evaluations: oldest first.
    """

    name: str
    model: str
    given: str
    evaluations: tuple[Evaluation, ...] = field(repr=False)

    @property
    def tasks(self) -> list[str]:
        """Leaf tasks of all its evaluations."""
        return list(dict.fromkeys(task for one in self.evaluations for task in one.tasks))

    def dates(self, task: str) -> list[str]:
        """Dates of the evaluations that hold the task, oldest first."""
        return [one.date for one in self.evaluations if task in one.tasks]

    def newest(self, task: str) -> Evaluation | None:
        """Its newest evaluation of a task, or None."""
        return next((one for one in reversed(self.evaluations) if task in one.tasks), None)


def find_contestants(paths: Sequence[str | Path], names: Sequence[str] = ()) -> list[Contestant]:
    """Who is compared: every model of every given path.

    Args:
        paths: folders, searched to the bottom, or results files.
        names: what to call them, in the order of the paths; by default the model's name where
            that tells them apart, else the path's.

    Raises:
        FileNotFoundError: if a path holds no readable results.
        ValueError: if there are fewer than two, results are given twice, or names do not fit.
    """
    found: list[Contestant] = []
    seen: dict[Path, str] = {}
    for given in map(str, paths):
        by_model: dict[str, list[Evaluation]] = {}
        for one in sorted(find_evaluations([given], latest=False), key=lambda one: one.age):
            place = one.path.resolve()
            if place in seen:
                raise ValueError(f"{place} is in {seen[place]} and in {given}; give it once")
            seen[place] = given
            by_model.setdefault(one.model, []).append(one)
        found += [
            Contestant("", model, given, tuple(evaluations))
            for model, evaluations in by_model.items()
        ]
    if len(found) < 2:
        raise ValueError(
            f"only one model, {found[0].model}, in {found[0].given}; give the results of two or "
            "more (several dates of one model: give the results_*.json files)"
        )
    return _named(found, names)


def named_evaluations(
    paths: Sequence[str | Path], names: Sequence[str] = (), *, latest: bool = True
) -> list[tuple[Evaluation, str]]:
    """Every evaluation below some paths once, and a name that tells it from others of its tasks.

    Args:
        paths: folders, searched to the bottom, or results files.
        names: as in `find_contestants`; a single model may have one too.
        latest: keep only the newest evaluation of each model, folder and task set of a path.

    Returns:
        in the order of the paths, the models and the dates. Where evaluations of one task would
        have one name, they get their date behind it, or their folder where that is not enough.

    Raises:
        FileNotFoundError: if a path holds no readable results.
        ValueError: if the names do not fit.
    """
    found: dict[tuple[str, str], list[Evaluation]] = {}
    seen: set[Path] = set()
    for given in map(str, paths):
        for one in find_evaluations([given], latest=latest):
            if (place := one.path.resolve()) not in seen:
                seen.add(place)
                found.setdefault((given, one.model), []).append(one)
    several = [
        Contestant("", model, given, tuple(sorted(theirs, key=lambda one: one.age)))
        for (given, model), theirs in found.items()
    ]
    return [
        (one, who.name + more)
        for who in _named(several, names)
        for one, more in _distinct(who.evaluations)
    ]


def _distinct(evaluations: Sequence[Evaluation]) -> list[tuple[Evaluation, str]]:
    """What tells the evaluations of one name apart, empty where no task is in two of them."""
    whole: list[Callable[[Evaluation], str]] = [
        lambda one: "",
        lambda one: f" ({_readable(one.date)})",
        lambda one: f" ({one.path.parent})",
    ]
    for told in whole:
        ends = [told(one) for one in evaluations]
        pairs = [
            (task, end) for one, end in zip(evaluations, ends, strict=True) for task in one.tasks
        ]
        if len(set(pairs)) == len(pairs):
            return list(zip(evaluations, ends, strict=True))
    return [(one, f" ({one.path})") for one in evaluations]


def _readable(date: str) -> str:
    """``2026-12-31 23:59:59`` of the harness's stamp, which has "-" for ":"; others as they are."""
    day, at, time = date.partition("T")
    return f"{day} {re.sub(r'[.].*', '', time).replace('-', ':')}" if at else date


def _named(found: Sequence[Contestant], names: Sequence[str]) -> list[Contestant]:
    # A line break would end the heading or the table that the name stands in.
    names = [" ".join(name.split()) for name in names]
    if not all(names):
        raise ValueError("--name must not be empty")
    if names and (len(names) != len(found) or len(set(names)) != len(names)):
        raise ValueError(
            f"--name must be given once for each of {', '.join(one.model for one in found)}, "
            "all different"
        )
    chosen = list(names) or _names(found)
    return [replace(one, name=name) for one, name in zip(found, chosen, strict=True)]


def _names(found: Sequence[Contestant]) -> list[str]:
    models = [_short(one.model) for one in found]
    places = [Path(one.given).resolve() for one in found]
    folders = [place.stem if place.is_file() else place.name for place in places]
    both = [f"{model} ({folder})" for model, folder in zip(models, folders, strict=True)]
    long = [f"{one.model} ({one.given})" for one in found]
    for names in (models, folders, both, long):
        if len(set(names)) == len(names):
            return names
    return [f"{name} #{number}" for number, name in enumerate(long, start=1)]


def _short(model: str) -> str:
    # A folder on this machine says little; a hub name's owner says something.
    return Path(model).name or model if Path(model).is_absolute() else model
