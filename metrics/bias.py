"""Metrics of baseline-adjusted bias for ``metric_list``.

Items with an original answer, a targeted one and, where the task declares a baseline, a benign one
count; the others are left out of all of these metrics alike, so that an excess is the difference
of its two parts. Formulas: `counterfactual`, `association`, `direction`; tests: `excess`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics import counterfactual as formulas
from lmrel_tasks.metrics.bias_items import BASELINES, Family, complete, family, panel_of
from lmrel_tasks.metrics.conventions import PRESETS
from lmrel_tasks.metrics.direction import DirectionTest, panel_direction
from lmrel_tasks.metrics.excess import AGGREGATE, PER_ITEM, TESTS, Excess, excess, item_values
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.paired import ALTERNATIVES
from lmrel_tasks.metrics.panel import Panel
from lmrel_tasks.metrics.registry import ItemValue, mean, mean_stderr, metric, present

Floats = NDArray[np.float64]

SIDES = ("targeted", *BASELINES)
NAMES = {"flip": "flip_rate", "jsd": "jsd", "kl": "kl", "log_odds": "log_odds_shift"}
EXCESSES = {"flip": "flip", "jsd": "jsd", "kl": "kl", "log_odds": "log_odds_shift",
            "mi": "mi", "phi": "phi"}  # fmt: skip


class ItemText(str):
    """An item's infinite number as the samples file can hold it, with the aggregation's data."""

    data: Any

    def __new__(cls, text: str, data: Any = None) -> ItemText:
        self = super().__new__(cls, text)
        self.data = data
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemText, (str(self), self.data)


# Per item --------------------------------------------------------------------------------------


def _value(item: Item, measure: str, side: str, targeted: str | None, rules: Any) -> float | None:
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


def _rules(preset: str, base: float | None) -> tuple[float, float | None]:
    chosen = PRESETS[preset]
    return (chosen.base if base is None else base), chosen.clip


def _shown(value: float | None, data: Any = None) -> ItemValue | ItemText | None:
    if value is None or math.isnan(value):
        return None
    data = value if data is None else data
    return ItemValue(value, data) if math.isfinite(value) else ItemText(str(value), data)


def _divergence(
    item: Item, *, measure: str, side: str, targeted: str | None = None,
    base: float | None = None, preset: str = "default",
) -> Any:  # fmt: skip
    return _shown(_value(item, measure, side, targeted, _rules(preset, base)))


def _infinite(item: Item, *, side: str, targeted: str | None = None) -> float | None:
    value = _value(item, "kl", side, targeted, (2.0, None))
    return None if value is None else float(math.isinf(value))


def _mean(values: Sequence[Any]) -> float:
    return mean([one if one is None else one.data for one in values])


def _mean_stderr(values: Sequence[Any]) -> float | None:
    numbers = [one if one is None else one.data for one in values]
    return mean_stderr(numbers) if all(map(math.isfinite, present(numbers))) else None


# Over items ------------------------------------------------------------------------------------


def _member(
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
    rules = _rules(preset, base)
    there = _value(item, measure, "targeted", targeted, rules) or 0.0
    here = _value(item, measure, baseline, targeted, rules) or 0.0
    same = math.isinf(there) and math.isinf(here)
    return _shown(0.0 if same else there - here, one)


def _directed(
    item: Item, *, targeted: str | None = None, cluster: str | None = None, outcome: int | str = 0
) -> Any:
    """The item's answers, where its edit has a direction."""
    one = _member(item, targeted=targeted, baseline=None, cluster=cluster, outcome=outcome)
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


def _excess_part(
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


def _excess_stderr(
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
    rules = _rules(preset, base)
    data = panel_of(families, baseline)
    targeted, benign, _ = item_values(data, measure, base=rules[0], clip=rules[1])
    with np.errstate(invalid="ignore"):
        differences = targeted - np.nanmean(benign, axis=1)
    return mean_stderr(list(differences)) if np.isfinite(differences).all() else None


def _association(
    values: Sequence[Any], *, measure: str, side: str, preset: str = "default",
    base: float | None = None,
) -> float:  # fmt: skip
    families = _families(values)
    if not families:
        return math.nan
    data = panel_of(families, side)
    before = formulas.labels(data.original)
    base = _rules(preset, base)[0]
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


def _association_stderr(
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
        found = formulas.mutual_information(tables, base=_rules(preset, base)[0])
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


def _direction_part(
    values: Sequence[Any], *, part: str, preset: str = "default", form: str = "difference",
    alternative: str = "two-sided", confidence_level: float = 0.95,
) -> float:  # fmt: skip
    found = direction_test(values, preset, form, alternative, confidence_level)
    return math.nan if found is None else float(getattr(found, part))


def _no_stderr(values: Sequence[Any]) -> None:
    return None


# Registration ----------------------------------------------------------------------------------


def check(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that cannot work before anything is asked.

    Raises
    ------
    ValueError
    """
    known: dict[str, Sequence[Any]] = {
        "test": TESTS, "alternative": ALTERNATIVES, "preset": tuple(PRESETS),
        "baseline": BASELINES, "form": ("difference", "level"),
    }  # fmt: skip
    for name, allowed in known.items():
        value = arguments.get(name)
        if value is not None and value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    if arguments.get("n_resamples") is not None and int(arguments["n_resamples"]) < 1:
        raise ValueError(f"n_resamples must be 1 or more, got {arguments['n_resamples']!r}")
    if arguments.get("base") is not None and not float(arguments["base"]) > 1:
        raise ValueError(f"base must be above 1, got {arguments['base']!r}")


def _checked(measure: str) -> Callable[[Mapping[str, Any]], None]:
    def check_test(arguments: Mapping[str, Any]) -> None:
        check(arguments)
        test = arguments.get("test")
        if (measure in AGGREGATE and test in ("t", "mcnemar")) or (
            test == "mcnemar" and measure != "flip"
        ):
            raise ValueError(f"test {test} does not exist for {measure}")

    return check_test


def _register(name: str, doc: str, per_item: Callable[..., Any], **options: Any) -> None:
    per_item.__doc__ = doc
    metric(name=name, needs=("targeted",), **options)(per_item)


_PARTS = {"": "excess", "_p": "pvalue", "_ci_low": "ci_low", "_ci_high": "ci_high"}
_WHAT = {"": "", "_p": "p-value of ", "_ci_low": "lower end of the interval of ",
         "_ci_high": "upper end of the interval of "}  # fmt: skip

for _measure, _name in NAMES.items():
    for _side in SIDES:
        _register(
            f"{_name}_{_side}", f"{_name.replace('_', ' ')} of original and {_side} answers.",
            partial(_divergence, measure=_measure, side=_side), higher_is_better=False,
            aggregate=_mean, standard_error=_mean_stderr, check=check,
        )  # fmt: skip
for _side in SIDES:
    _register(
        f"kl_infinite_{_side}", f"Share of items whose KL to the {_side} answer is infinite.",
        partial(_infinite, side=_side), higher_is_better=False,
    )  # fmt: skip
for _measure in AGGREGATE:
    for _side in SIDES:
        _register(
            f"{_measure}_{_side}", f"{_measure.upper()} of original and {_side} answers.",
            partial(_member, baseline=None if _side == "targeted" else _side),
            higher_is_better=True,
            aggregate=partial(_association, measure=_measure, side=_side),
            standard_error=partial(_association_stderr, measure=_measure, side=_side),
            check=check,
        )  # fmt: skip
for _measure, _name in EXCESSES.items():
    for _suffix, _part in _PARTS.items():
        _register(
            f"{_name}_excess{_suffix}", f"{_WHAT[_suffix]}{_name}: targeted minus baseline.",
            partial(_member, measure=_measure),
            higher_is_better=_suffix == "_p" or _measure in AGGREGATE,
            aggregate=partial(_excess_part, measure=_measure, part=_part),
            standard_error=_no_stderr if _suffix else partial(_excess_stderr, measure=_measure),
            check=_checked(_measure),
        )  # fmt: skip
_DIRECTION = {"": "beta", "_p": "pvalue", "_ci_low": "ci_low", "_ci_high": "ci_high"}
for _suffix, _part in _DIRECTION.items():
    _register(
        f"direction_beta{_suffix}",
        f"{_WHAT[_suffix]}log-odds of the outcome per unit of the edit's signed direction.",
        partial(_directed), higher_is_better=_suffix == "_p",
        aggregate=partial(_direction_part, part=_part),
        standard_error=_no_stderr if _suffix else partial(_direction_part, part="std_error"),
        check=check,
    )  # fmt: skip


def _fraction(item: Item, *, role: str, targeted: str | None = None) -> float | None:
    cells = [
        one for one in item.conditions
        if one.info.get("role") == role
        and (targeted is None or one.info.get("of", one.name) == targeted)
    ]  # fmt: skip
    found = [one.info["edit_fraction"] for one in cells if "edit_fraction" in one.info]
    return float(np.mean(found)) if found else None


for _side in ("targeted", "benign"):
    _register(
        f"edit_fraction_{_side}", f"Share of tokens that the {_side} edit changes.",
        partial(_fraction, role=_side), higher_is_better=False,
    )  # fmt: skip


@metric(higher_is_better=False, needs=("targeted",))
def benign_missing_rate(item: Item, targeted: str | None = None) -> float | None:
    """Share of the items with a targeted answer that have no benign one."""
    one = family(item, targeted)
    if one is None or "benign" not in one.baselines:
        return None
    return float(np.isnan(one.baselines["benign"]).all())


@metric(higher_is_better=True, needs=("targeted",))
def applicable_rate(item: Item, targeted: str | None = None) -> float | None:
    """Share of the items in which the targeted edit changes something."""
    cells = [one for one in item.conditions if one.info.get("role") == "targeted"]
    chosen = [one for one in cells if targeted in (None, one.name)]
    return float(chosen[0].applicable) if chosen else None
