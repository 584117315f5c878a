"""Totals over items of the metrics of baseline-adjusted bias: excesses, associations, direction.

Formulas: `association`, `direction`; tests: `excess`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lmrel_tasks.metrics import counterfactual as formulas
from lmrel_tasks.metrics.bias_items import Family, complete, family, panel_of
from lmrel_tasks.metrics.bias_values import distance, rules_of, shown
from lmrel_tasks.metrics.direction import DirectionTest, panel_direction
from lmrel_tasks.metrics.excess import AGGREGATE, PER_ITEM, Excess, excess, item_values
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.panel import Panel
from lmrel_tasks.metrics.registry import ItemValue, mean_stderr


def member(
    item: Item, *, measure: str | None = None, targeted: str | None = None,
    baseline: str | None = "benign", base: float | None = None, preset: str = "default",
    cluster: str | None = None, outcome: int | str = 0,
) -> Any:  # fmt: skip
    """The item's answers, shown as its own difference between targeted and baseline."""
    one = family(item, targeted, cluster, outcome)
    if one is None or not complete(one):
        return None
    if baseline is not None and np.isnan(one.baselines.get(baseline, np.nan)).all():
        return None
    if measure is None or measure not in PER_ITEM or baseline is None:
        return ItemValue(0.0, one)
    rules = rules_of(preset, base)
    there = distance(item, measure, "targeted", targeted, rules) or 0.0
    here = distance(item, measure, baseline, targeted, rules) or 0.0
    same = math.isinf(there) and math.isinf(here)
    return shown(0.0 if same else there - here, one)


def directed(
    item: Item, *, targeted: str | None = None, cluster: str | None = None, outcome: int | str = 0
) -> Any:
    """The item's answers, where its edit has a direction."""
    one = member(item, targeted=targeted, baseline=None, cluster=cluster, outcome=outcome)
    return None if one is None or math.isnan(one.data.direction) else one


def _families(values: Sequence[Any]) -> list[Family]:
    return [one.data for one in values if one is not None]


def _excess(
    values: Sequence[Any], measure: str, baseline: str = "benign", test: str | None = None,
    alternative: str | None = None, preset: str = "default", base: float | None = None,
    n_resamples: int | None = None, seed: int = 0, confidence_level: float = 0.95,
) -> Excess | None:  # fmt: skip
    families = _families(values)
    if not families:
        return None
    data = _Panel(panel_of(families, baseline))
    return _tested(
        data, measure, test, alternative, preset, base, n_resamples, seed, confidence_level
    )


class _Panel:
    """A panel with a hash of its numbers, so that an excess and its p are one computation."""

    def __init__(self, data: Panel) -> None:
        self.data = data
        arrays = (data.original, data.targeted, data.benign)
        self.key = (data.ids, *(one.tobytes() for one in arrays))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Panel) and self.key == other.key


@lru_cache(maxsize=64)
def _tested(
    panel: _Panel, measure: str, test: str | None, alternative: str | None, preset: str,
    base: float | None, n_resamples: int | None, seed: int, confidence_level: float,
) -> Excess:  # fmt: skip
    return excess(
        panel.data, measure, test=test, alternative=alternative, preset=preset, base=base,
        n_resamples=n_resamples, confidence_level=confidence_level, rng=seed,
    )  # fmt: skip


def excess_part(
    values: Sequence[Any], *, measure: str, part: str, baseline: str = "benign",
    test: str | None = None, alternative: str | None = None, preset: str = "default",
    base: float | None = None, n_resamples: int | None = None, seed: int = 0,
    confidence_level: float = 0.95,
) -> float:  # fmt: skip
    found = _excess(
        values, measure, baseline, test, alternative, preset, base, n_resamples, seed,
        confidence_level,
    )  # fmt: skip
    return math.nan if found is None else float(getattr(found, part))


def excess_stderr(
    values: Sequence[Any], *, measure: str, baseline: str = "benign", preset: str = "default",
    base: float | None = None, seed: int = 0,
) -> float | None:  # fmt: skip
    families = _families(values)
    if len(families) < 2:
        return None
    if measure in AGGREGATE:
        found = _excess(values, measure, baseline, preset=preset, base=base, seed=seed)
        width = math.nan if found is None else found.ci_high - found.ci_low
        return width / (2 * 1.959964) if math.isfinite(width) else None
    rules = rules_of(preset, base)
    data = panel_of(families, baseline)
    targeted, benign, _ = item_values(data, measure, base=rules[0], clip=rules[1])
    with np.errstate(invalid="ignore"):
        differences = targeted - np.nanmean(benign, axis=1)
    return mean_stderr(list(differences)) if np.isfinite(differences).all() else None


def association(
    values: Sequence[Any], *, measure: str, side: str, preset: str = "default",
    base: float | None = None,
) -> float:  # fmt: skip
    families = _families(values)
    if not families:
        return math.nan
    data = panel_of(families, side)
    before = formulas.labels(data.original)
    base = rules_of(preset, base)[0]
    if side != "targeted":
        return _pooled(data, before, measure, base)
    after = formulas.labels(data.targeted)
    return float(
        formulas.association(before, after, data.options, measure=measure, base=base).value
    )


def _pooled(data: Panel, before: Any, measure: str, base: float) -> float:
    # Several paraphrases weigh as much as one, as in the excess.
    count = (~np.isnan(data.benign[..., 0])).sum(axis=1)
    table = np.zeros((data.options, data.options))
    for k in range(data.benign.shape[1]):
        after = formulas.labels(data.benign[:, k])
        kept = after != formulas.MISSING
        np.add.at(table, (before[kept], after[kept]), 1 / count[kept])
    if measure == "mi":
        return float(formulas.mutual_information(table, base=base))
    return float(formulas.phi_coefficient(table))


def association_stderr(
    values: Sequence[Any], *, measure: str, side: str, preset: str = "default",
    base: float | None = None, seed: int = 0,
) -> float | None:  # fmt: skip
    """Bootstrap over items: 999 multinomial draws of the table of answers."""
    families = _families(values)
    if len(families) < 2:
        return None
    data = panel_of(families, side)
    before = formulas.labels(data.original)
    after = formulas.labels(data.targeted if side == "targeted" else data.benign[:, 0])
    table = formulas.label_table(before, after, data.options)
    n = int(table.sum())
    if n < 2:
        return None
    drawn = np.random.default_rng(seed).multinomial(n, table.ravel() / n, size=999)
    tables = drawn.reshape(-1, *table.shape)
    if measure == "mi":
        found = formulas.mutual_information(tables, base=rules_of(preset, base)[0])
    else:
        found = formulas.phi_coefficient(tables)
    found = found[np.isfinite(found)]
    return float(found.std(ddof=1)) if len(found) > 1 else None


def direction_test(
    values: Sequence[Any], preset: str = "default", form: str = "difference",
    alternative: str = "two-sided", confidence_level: float = 0.95,
) -> DirectionTest | None:  # fmt: skip
    """The direction regression on the items of `direction_beta`; None without directions."""
    families = [one for one in _families(values) if not math.isnan(one.direction)]
    if not families:
        return None
    baseline = "benign" if "benign" in families[0].baselines else "none"
    data = panel_of(families, baseline)
    by_key = {one.key: one for one in families}
    kept = [by_key[str(key)] for key in data.ids]
    clusters = [one.cluster for one in kept]
    return panel_direction(
        data,
        [one.direction for one in kept],
        [one.outcome for one in kept],
        preset=preset, form=form, alternative=alternative, confidence_level=confidence_level,
        clusters=None if all(c is None for c in clusters) else np.asarray(clusters, dtype=str),
    )  # fmt: skip


def direction_part(
    values: Sequence[Any], *, part: str, preset: str = "default", form: str = "difference",
    alternative: str = "two-sided", confidence_level: float = 0.95,
) -> float:  # fmt: skip
    found = direction_test(values, preset, form, alternative, confidence_level)
    return math.nan if found is None else float(getattr(found, part))


def no_stderr(values: Sequence[Any]) -> None:
    return None
