"""Metrics of baseline-adjusted bias for ``metric_list``: names, arguments, registration.

What items contribute: `bias_values`; totals and tests over items: `bias_totals`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from lmrel_tasks.metrics.bias_items import BASELINES, family
from lmrel_tasks.metrics.bias_totals import (
    association,
    association_stderr,
    directed,
    direction_part,
    excess_part,
    excess_stderr,
    member,
    no_stderr,
)
from lmrel_tasks.metrics.bias_values import (
    divergence,
    edit_fraction,
    infinite,
    mean_of,
    mean_stderr_of,
)
from lmrel_tasks.metrics.conventions import PRESETS
from lmrel_tasks.metrics.excess import AGGREGATE, TESTS
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.paired import ALTERNATIVES
from lmrel_tasks.metrics.registry import metric

SIDES = ("targeted", *BASELINES)
NAMES = {"flip": "flip_rate", "jsd": "jsd", "kl": "kl", "log_odds": "log_odds_shift"}
EXCESSES = {"flip": "flip", "jsd": "jsd", "kl": "kl", "log_odds": "log_odds_shift",
            "mi": "mi", "phi": "phi"}  # fmt: skip


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
            partial(divergence, measure=_measure, side=_side), higher_is_better=False,
            aggregate=mean_of, standard_error=mean_stderr_of, check=check,
        )  # fmt: skip
for _side in SIDES:
    _register(
        f"kl_infinite_{_side}", f"Share of items whose KL to the {_side} answer is infinite.",
        partial(infinite, side=_side), higher_is_better=False,
    )  # fmt: skip
for _measure in AGGREGATE:
    for _side in SIDES:
        _register(
            f"{_measure}_{_side}", f"{_measure.upper()} of original and {_side} answers.",
            partial(member, baseline=None if _side == "targeted" else _side),
            higher_is_better=True,
            aggregate=partial(association, measure=_measure, side=_side),
            standard_error=partial(association_stderr, measure=_measure, side=_side),
            check=check,
        )  # fmt: skip
for _measure, _name in EXCESSES.items():
    for _suffix, _part in _PARTS.items():
        _register(
            f"{_name}_excess{_suffix}", f"{_WHAT[_suffix]}{_name}: targeted minus baseline.",
            partial(member, measure=_measure),
            higher_is_better=_suffix == "_p" or _measure in AGGREGATE,
            aggregate=partial(excess_part, measure=_measure, part=_part),
            standard_error=no_stderr if _suffix else partial(excess_stderr, measure=_measure),
            check=_checked(_measure),
        )  # fmt: skip
_DIRECTION = {"": "beta", "_p": "pvalue", "_ci_low": "ci_low", "_ci_high": "ci_high"}
for _suffix, _part in _DIRECTION.items():
    _register(
        f"direction_beta{_suffix}",
        f"{_WHAT[_suffix]}log-odds of the outcome per unit of the edit's signed direction.",
        partial(directed), higher_is_better=_suffix == "_p",
        aggregate=partial(direction_part, part=_part),
        standard_error=no_stderr if _suffix else partial(direction_part, part="std_error"),
        check=check,
    )  # fmt: skip


for _side in ("targeted", "benign"):
    _register(
        f"edit_fraction_{_side}", f"Share of tokens that the {_side} edit changes.",
        partial(edit_fraction, role=_side), higher_is_better=False,
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
