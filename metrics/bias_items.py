"""The answers of one item that belong to one targeted edit, and panels of such items."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.metrics.panel import Panel, panel

Floats = NDArray[np.float64]

BASELINES = ("benign", "rerun", "fixed_phrase")


@dataclass(frozen=True)
class Family:
    """The answers of one item that belong to one targeted edit.

    Attributes
    ----------
    key : str
    original, targeted : ndarray, shape (options,)
    baselines : mapping of str to ndarray, shape (asked, options)
        Those of `BASELINES` that the task declares; NaN rows where there is no answer.
    direction : float
        Signed direction of the targeted edit; NaN without one.
    cluster : object
        What the item belongs to, for cluster-robust errors.
    outcome : int
        Which option is the outcome of the direction regression.
    """

    key: str
    original: Floats
    targeted: Floats
    baselines: Mapping[str, Floats]
    direction: float = math.nan
    cluster: Any = None
    outcome: int = 0


def family(
    item: Item, targeted: str | None = None, cluster: str | None = None, outcome: int | str = 0
) -> Family | None:
    """The answers of an item; None if it has no original or no targeted one.

    Parameters
    ----------
    item : Item
    targeted : str, optional
        Name of the targeted condition; the only one by default.
    cluster : str, optional
        Field of the document that says what the item belongs to.
    outcome : int or str
        The option that is the outcome, by its place or its text.

    Raises
    ------
    ValueError
        If the task has no such condition, or several and none is named; for an outcome that is no
        option.
    """
    roles = {one.name: one.info.get("role") for one in item.conditions}
    names = [name for name, role in roles.items() if role == "targeted"]
    if targeted is not None and targeted not in names:
        raise ValueError(f"targeted: {targeted!r} is none of {', '.join(names) or '(none)'}")
    if targeted is None and len(names) > 1:
        raise ValueError(f"say which targeted condition: targeted: one of {', '.join(names)}")
    if not names:
        return None
    name = targeted or names[0]
    edited = item.condition(name)
    original = _probabilities([one for one in item.conditions if roles[one.name] == "original"])
    if edited is None or edited.probabilities is None or original is None:
        return None
    width = len(edited.probabilities)
    found: dict[str, Floats] = {}
    for role in BASELINES:
        cells = [
            one
            for one in item.conditions
            if roles[one.name] == role and one.info.get("of", name) == name
        ]
        if cells:
            nothing = np.full(width, np.nan)
            rows = [nothing if c.probabilities is None else c.probabilities for c in cells]
            found[role] = _stack(rows, item)
    return Family(
        key=item.key,
        original=original,
        targeted=np.asarray(edited.probabilities, dtype=np.float64),
        baselines=found,
        direction=float(edited.info.get("direction", math.nan)),
        cluster=None if cluster is None else _field(item, cluster),
        outcome=_outcome(item, outcome),
    )


def _probabilities(cells: Sequence[Condition]) -> Floats | None:
    known = [one.probabilities for one in cells if one.probabilities is not None]
    return np.asarray(known[0], dtype=np.float64) if known else None


def _stack(rows: Sequence[Any], item: Item) -> Floats:
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"item {item.key}: its conditions have different numbers of options")
    return np.asarray(rows, dtype=np.float64)


def _field(item: Item, name: str) -> Any:
    if name not in item.fields:
        raise ValueError(f"cluster: the documents have no field {name!r}")
    return item.fields[name]


def _outcome(item: Item, outcome: int | str) -> int:
    if isinstance(outcome, int):
        return outcome
    if outcome not in item.options:
        raise ValueError(f"outcome {outcome!r} is none of the options {list(item.options)}")
    return item.options.index(outcome)


def panel_of(families: Sequence[Family], baseline: str = "benign") -> Panel:
    """The complete items as a panel.

    Parameters
    ----------
    families : sequence of Family
    baseline : {"benign", "rerun", "fixed_phrase"}
        What takes the place of the benign paraphrases. Without any of it the originals do, so
        that the excess is the whole effect.

    Raises
    ------
    ValueError
        Without items, or with differing numbers of options.
    """
    widths = {len(one.original) for one in families}
    if len(widths) != 1:
        raise ValueError(
            "no item has both an original and a targeted answer"
            if not widths
            else f"items have different numbers of options: {sorted(widths)}"
        )
    most = max((len(one.baselines.get(baseline, ())) for one in families), default=0)
    benign = np.full((len(families), max(most, 1), widths.pop()), np.nan)
    for row, one in zip(benign, families, strict=True):
        given = one.baselines.get(baseline)
        if given is not None:
            row[: len(given)] = given
        elif not most:
            row[0] = one.original
    again = [one.baselines["rerun"][0] for one in families if "rerun" in one.baselines]
    return panel(
        [one.original for one in families],
        [one.targeted for one in families],
        benign,
        rerun=again if len(again) == len(families) else None,
        ids=[one.key for one in families],
        nan_policy="omit",
    )


def complete(one: Family | None) -> bool:
    """Whether the item has an answer of every declared kind of baseline that excludes items."""
    return one is not None and not np.isnan(one.baselines.get("benign", np.zeros(1))).all()
