"""Where the variance of meaning, certainty or correctness comes from, for a ``metric_list``.

``var_item``, ``var_condition``, ``var_item_condition`` and ``var_run`` are percentages of the total
over items x conditions x runs; with one condition only the first and the last are defined. ``of``
chooses the measure. Give each listed metric another ``name:`` to list it for several measures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.cosine import CellSums, stack_items, within_cosine
from lmrel_tasks.metrics.entropy import nanmean
from lmrel_tasks.metrics.icc import icc as intraclass_correlation
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.jackknife import (
    block_jackknife,
    jackknife_error,
    left_out,
    weight_jackknife,
)
from lmrel_tasks.metrics.meaning import meaning_statistic
from lmrel_tasks.metrics.registry import ItemValue, metric, present
from lmrel_tasks.metrics.variance import CellMoments, cell_moments, scalar_statistic

FloatArray = NDArray[np.float64]
Values = Sequence["ItemValue | None"]

MEASURES = ("meaning", "certainty", "correctness")
PARTS = ("item", "condition", "item_condition", "run")


def runs_of(item: Item, of: str) -> list[FloatArray] | None:
    """A scalar measure of every run, per condition: ``certainty``, or ``correctness`` as 0 and 1.

    None where it is unknown: nothing captured, no label.
    """
    if of == "correctness":
        if not item.has_label:
            return None
        return [
            np.array([item.is_right(answer) for answer in one.answers], dtype=np.float64)
            for one in item.conditions
        ]
    rows = [one.certainty for one in item.conditions]
    return rows if any(np.isfinite(row).any() for row in rows) else None


def moments_of(item: Item, of: str) -> CellMoments | None:
    """The moments of a scalar measure in every cell of an item, shape (P,)."""
    rows = runs_of(item, of)
    if rows is None:
        return None
    cells = [cell_moments(row if row.size else np.array([np.nan])) for row in rows]
    return CellMoments(*(np.array([getattr(c, x) for c in cells]) for x in _MOMENTS))


_MOMENTS = ("count", "mean", "within")


def _check(arguments: Mapping[str, Any]) -> None:
    if arguments.get("of", "meaning") not in MEASURES:
        raise ValueError(f"of must be one of {', '.join(MEASURES)}, got {arguments['of']!r}")


def _check_scalar(arguments: Mapping[str, Any]) -> None:
    if arguments.get("of", "correctness") not in MEASURES[1:]:
        raise ValueError(f"of must be one of {', '.join(MEASURES[1:])}, got {arguments['of']!r}")
    if str(arguments.get("model", "2")) not in ("1", "2", "3"):
        raise ValueError(f"model must be 1, 2 or 3, got {arguments['model']!r}")


def _cells_of(item: Item, of: str) -> ItemValue | None:
    if of == "meaning":
        if item.sums is None or not (item.sums.count > 0).any():
            return None
        shown = float(nanmean(within_cosine(item.sums)))
        return None if math.isnan(shown) else ItemValue(shown, item.cells)
    cells = moments_of(item, of)
    if cells is None or not (cells.count > 0).any():
        return None
    return ItemValue(float(nanmean(cells.mean)), cells)


# Components ------------------------------------------------------------------------------------


def _share(components: FloatArray, part: str) -> FloatArray:
    """(4, B) raw components -> (B,) percentage of one of them, negative estimates taken as 0."""
    parts = np.maximum(components, 0.0)
    total = np.nansum(parts, axis=0)
    one = parts[PARTS.index(part)]
    return np.divide(100.0 * one, total, out=np.full(total.shape, np.nan), where=total > 0)


def _statistic(values: Values) -> tuple[Any, int] | None:
    cells = [one.data for one in present(values)]
    if not cells:
        return None
    try:
        return _statistic_of(_stacked(cells))
    except ValueError:
        # Too few items or runs to tell the components apart: undefined, not an error here.
        return None


def _stacked(cells: Sequence[Any]) -> CellSums | CellMoments:
    if not isinstance(cells[0], CellMoments):
        return stack_items(cells)
    return CellMoments(*(np.stack([getattr(cell, x) for cell in cells]) for x in _MOMENTS))


def _statistic_of(cells: CellSums | CellMoments) -> tuple[Any, int]:
    return meaning_statistic(cells) if isinstance(cells, CellSums) else scalar_statistic(cells)


def component_shares(
    cells: CellSums | CellMoments, *, errors: bool = True
) -> dict[str, tuple[float, float | None]]:
    """All four metrics at once, of cells that are stacked already.

    Args:
        cells: (items, conditions).
        errors: whether the standard errors are wanted.

    Returns:
        part -> (percentage, jackknife standard error or None); parts that are undefined are left
        out.
    """
    try:
        statistic, n = _statistic_of(cells)
    except ValueError:
        return {}
    whole = statistic(np.ones((1, n)))
    without = left_out(statistic, n) if errors else None
    shares = {part: float(_share(whole, part)[0]) for part in PARTS}
    return {
        part: (share, None if without is None else jackknife_error(_share(without, part)))
        for part, share in shares.items()
        if math.isfinite(share)
    }


def _percent(values: Values, part: str) -> float:
    found = _statistic(values)
    if found is None:
        return math.nan
    statistic, n = found
    return float(_share(statistic(np.ones((1, n))), part)[0])


def _percent_stderr(values: Values, part: str) -> float | None:
    """Jackknife over items."""
    found = _statistic(values)
    if found is None:
        return None
    statistic, n = found
    return weight_jackknife(lambda weights: _share(statistic(weights), part), n)


def _register(part: str, explained: str) -> None:
    def per_item(item: Item, of: str = "meaning") -> float | None:
        if "condition" in part and len(item.conditions) < 2:
            return None
        return _cells_of(item, of)

    per_item.__name__ = f"var_{part}"
    per_item.__doc__ = (
        f"Percentage of the variance {explained}.\n\n"
        "Argument ``of``: ``meaning``, ``certainty`` or ``correctness``. Negative estimates count\n"
        "as 0. Of one item: its repeatability of meaning, or the mean of the measure.\n"
    )
    metric(
        higher_is_better=part == "item",
        needs=["repeats", *(["conditions"] if "condition" in part else [])],
        check=_check,
        aggregate=partial(_percent, part=part),
        standard_error=partial(_percent_stderr, part=part),
    )(per_item)


_register("item", "between items")
_register("condition", "between conditions, the same for all items")
_register("item_condition", "between conditions that differs from item to item")
_register("run", "between runs of one item under one condition")


# Intraclass correlation ------------------------------------------------------------------------


def _rows(values: Values) -> np.ndarray:
    rows = [one.data for one in present(values)]
    table = np.full((len(rows), max(map(len, rows), default=0)), np.nan)
    for place, row in zip(table, rows, strict=True):
        place[: len(row)] = row
    return table


def _icc_of(table: np.ndarray, model: str) -> float:
    try:
        return intraclass_correlation(table, str(model)).estimate  # type: ignore[arg-type]
    except ValueError:
        return math.nan


def _icc(values: Values, model: str = "2") -> float:
    return _icc_of(_rows(values), model)


def _icc_stderr(values: Values, model: str = "2") -> float | None:
    """Jackknife over the items that have every value."""
    table = _rows(values)
    whole = list(table[~np.isnan(table).any(axis=1)])
    return block_jackknife(whole, lambda rows: _icc_of(np.array(rows), model))


@metric(needs=["repeats"], check=_check_scalar, aggregate=_icc, standard_error=_icc_stderr)
def icc(item: Item, of: str = "correctness") -> float | None:
    """Intraclass correlation: of the conditions' means, or of the runs of a single condition.

    Arguments: ``of``: ``correctness`` or ``certainty``; ``model``: 1, 2 (default, absolute
    agreement) or 3 (consistency) of Shrout and Fleiss. Items with a missing value are left out. Of
    one item: the mean of the measure.
    """
    rows = runs_of(item, of)
    if rows is None:
        return None
    if len(rows) > 1:
        row = np.array([nanmean(one) if one.size else np.nan for one in rows])
    else:
        row = rows[0]
    shown = float(nanmean(row)) if row.size else math.nan
    return None if math.isnan(shown) else ItemValue(shown, row)
