"""The items behind a group's number, pooled from its member tasks as the harness weights them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.results import Evaluation

FloatArray = NDArray[np.float64]


def member_tasks(evaluation: Evaluation, group: str) -> list[str]:
    """Leaf tasks of a group, those of groups within it too; none for a task."""
    children = evaluation.content.get("group_subtasks") or {}
    found: list[str] = []
    pending, seen = [group], {group}
    while pending:
        for name in children.get(pending.pop(0)) or ():
            if name in seen:
                continue
            seen.add(name)
            if children.get(name):
                pending.append(name)
            else:
                found.append(name)
    return found


def pooled_items(
    evaluation: Evaluation, group: str, key: str, items_of: Callable[[str], FloatArray | None]
) -> FloatArray | None:
    """Values of a group's items, such that each weighs as much as in the group's number.

    Args:
        evaluation: the results.
        group: its name.
        key: ``metric,filter``.
        items_of: values of a member task's items; None if they were not logged.

    Returns:
        all items where tasks are weighted by their size, as the group's numbers show, or are of
        one size. Where the numbers do not tell and all items agree, as many of each task as the
        smallest one has. None where there is no such pool: other weights or unknown ones, a task
        without results or samples, or tasks that are not all that the group counted.
    """
    results = evaluation.content["results"]
    if not _is_whole(evaluation, group):
        return None
    members = [
        (name, float(results[name][key]), _size(results[name]))
        for name in member_tasks(evaluation, group)
        if _is_number(results[name].get(key))
    ]
    values: list[FloatArray] = []
    for name, _, size in members:
        items = items_of(name)
        if items is None or not size:
            return None
        values.append(items)
    if not values:
        return None
    sizes = [size for _, _, size in members]
    weighting = _weighting(evaluation, group, key, [name for name, _, _ in members])
    if weighting == "size" or (weighting != "other" and len(set(sizes)) == 1):
        return np.concatenate(values)
    if weighting is None and len(np.unique(np.concatenate(values))) == 1:
        # Both weightings give this number; the smallest tasks bound it under either.
        return np.concatenate([items[: min(map(len, values))] for items in values])
    return None


def without_results(evaluation: Evaluation, group: str) -> list[str]:
    """The member tasks that the results file has no row of."""
    results = evaluation.content["results"]
    return [name for name in member_tasks(evaluation, group) if name not in results]


def _is_whole(evaluation: Evaluation, group: str) -> bool:
    """Whether all member tasks have results, as many items together as the group says."""
    if without_results(evaluation, group):
        return False
    results = evaluation.content["results"]
    said = results[group].get("sample_len")
    sizes = [_size(results[name]) for name in member_tasks(evaluation, group)]
    return said is None or said == sum(sizes)


def _weighting(evaluation: Evaluation, group: str, judged: str, members: list[str]) -> str | None:
    """``size``, ``task`` or ``other`` as the group's numbers show; None if they do not tell.

    Results files do not hold the groups' settings. Those may differ by metric, so that the number
    of the one judged, a key ``metric,filter``, is asked first.
    """
    results = evaluation.content["results"]
    found: str | None = None
    for key in sorted(results[group], key=lambda key: key != judged):
        reported = results[group][key]
        if "," not in key or "_stderr," in key or not _is_number(reported):
            continue
        rows = [results[name] for name in members if _is_number(results[name].get(key))]
        numbers = [float(row[key]) for row in rows]
        sizes = [_size(row) for row in rows]
        if not numbers or not sum(sizes):
            continue
        by_size = math.fsum(v * s for v, s in zip(numbers, sizes, strict=True)) / sum(sizes)
        by_task = math.fsum(numbers) / len(numbers)
        fits = [
            math.isclose(mean, reported, rel_tol=1e-9, abs_tol=1e-9) for mean in (by_size, by_task)
        ]
        if fits == [True, False]:
            return "size"
        if fits == [False, True]:
            return "task"
        if not any(fits):
            found = "other"
            if key == judged:
                break
    return found


def _size(row: dict[str, Any]) -> int:
    size = row.get("sample_len")
    return size if isinstance(size, int) else 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
