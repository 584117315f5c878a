"""What each item contributes to the metrics of baseline-adjusted bias.

Items with an original answer, a targeted one and, where the task declares a baseline, a benign one
count; the others are left out of all of these metrics alike, so that an excess is the difference
of its two parts. Formulas: `counterfactual`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.bias_items import Family, complete, family
from lmrel_tasks.metrics.conventions import PRESETS
from lmrel_tasks.metrics.excess import item_values
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.panel import Panel
from lmrel_tasks.metrics.registry import ItemValue, mean, mean_stderr, present

Floats = NDArray[np.float64]


class ItemText(str):
    """An item's infinite number as the samples file can hold it, with the aggregation's data."""

    data: Any

    def __new__(cls, text: str, data: Any = None) -> ItemText:
        self = super().__new__(cls, text)
        self.data = data
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemText, (str(self), self.data)


def distance(item: Item, measure: str, side: str, targeted: str | None, rules: Any) -> float | None:
    """How far one side's answer lies from the original's; the mean over paraphrases."""
    one = family(item, targeted)
    if one is None or not complete(one):
        return None
    base, clip = rules
    if side == "targeted":
        return float(
            item_values(_alone(one, one.original[None]), measure, base=base, clip=clip)[0][0]
        )
    if side not in one.baselines or np.isnan(one.baselines[side]).all():
        return None
    asked = _alone(one, one.baselines[side])
    values = item_values(asked, measure, base=base, clip=clip)[1]
    return float(np.nanmean(values))


def _alone(one: Family, baseline: Floats) -> Panel:
    return Panel((one.key,), one.original[None], one.targeted[None], baseline[None], None, 1, {})


def rules_of(preset: str, base: float | None) -> tuple[float, float | None]:
    chosen = PRESETS[preset]
    return (chosen.base if base is None else base), chosen.clip


def shown(value: float | None, data: Any = None) -> ItemValue | ItemText | None:
    if value is None or math.isnan(value):
        return None
    data = value if data is None else data
    return ItemValue(value, data) if math.isfinite(value) else ItemText(str(value), data)


def divergence(
    item: Item, *, measure: str, side: str, targeted: str | None = None,
    base: float | None = None, preset: str = "default",
) -> Any:  # fmt: skip
    return shown(distance(item, measure, side, targeted, rules_of(preset, base)))


def infinite(item: Item, *, side: str, targeted: str | None = None) -> float | None:
    value = distance(item, "kl", side, targeted, (2.0, None))
    return None if value is None else float(math.isinf(value))


def mean_of(values: Sequence[Any]) -> float:
    return mean([one if one is None else one.data for one in values])


def mean_stderr_of(values: Sequence[Any]) -> float | None:
    numbers = [one if one is None else one.data for one in values]
    return mean_stderr(numbers) if all(map(math.isfinite, present(numbers))) else None


def edit_fraction(item: Item, *, role: str, targeted: str | None = None) -> float | None:
    cells = [
        one for one in item.conditions
        if one.info.get("role") == role
        and (targeted is None or one.info.get("of", one.name) == targeted)
    ]  # fmt: skip
    found = [one.info["edit_fraction"] for one in cells if "edit_fraction" in one.info]
    return float(np.mean(found)) if found else None
