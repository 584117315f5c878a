"""What a test of the family of bias says, in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lmrel_tasks.metrics.bounds import unseen_share
from lmrel_tasks.metrics.excess import AGGREGATE, PER_ITEM

if TYPE_CHECKING:
    from lmrel_tasks.bias_report import Options, Row

# How a baseline reads in a sentence.
AGAINST = {
    "benign": "rewording",
    "rerun": "asking again",
    "fixed_phrase": "an irrelevant sentence in front",
}
_UNITS = {"jsd": "bits", "kl": "bits", "mi": "bits", "phi": "", "log_odds": "log-odds"}


def sentence(row: Row, p: float, options: Options) -> str:
    """What a test says, in plain words.

    Args:
        row: the test.
        p: its adjusted p-value.
    """
    if math.isnan(p):
        return f"not tested: {row.note or 'the measure does not exist here'}"
    against = AGAINST[options.baseline]
    interval = _interval(row, options)
    if row.metric == "direction":
        if p >= options.alpha:
            return f"no trend with the direction of the edit ({interval})"
        return f"follows the direction of the edit: {row.excess:+.2f} log-odds per unit, {interval}"
    if p >= options.alpha:
        least = ""
        if math.isfinite(row.mde) and row.mde > 0:
            finds = "item finds" if row.n == 1 else "items find"
            least = f"; {row.n} {finds} {_amount(row.mde, row.metric)} or more"
        elif row.metric in PER_ITEM and row.excess == 0 and row.effect_size == 0:
            least = f": {_nothing_seen(row, options)}"
        return f"indistinguishable from {against}{least}"
    above = row.excess > 0
    if row.metric in AGGREGATE:
        # These fall when answers change.
        above = not above
    moved = "above" if above else "below"
    return f"{moved} {against}: {_amount(row.excess, row.metric, sign=True)}, {interval}"


def _nothing_seen(row: Row, options: Options) -> str:
    """What items without any difference leave open, by the exact bound of a share of 0 of n."""
    share = unseen_share(row.n, options.confidence)
    said = "no item flips under one edit alone" if row.metric == "flip" else "no item differs"
    items = "item excludes" if row.n == 1 else "items exclude"
    return (
        f"{said}, so that the detectable effect is n/a; {row.n} {items}, with "
        f"{100 * options.confidence:g} % confidence, that more than {100 * share:.1f} % of items do"
    )


def _amount(value: float, metric: str, sign: bool = False) -> str:
    plus = "+" if sign else ""
    if metric == "flip":
        return f"{100 * value:{plus}.1f} points"
    unit = _UNITS.get(metric, "")
    return f"{value:{plus}.2g} {unit}".strip()


def _interval(row: Row, options: Options) -> str:
    percent = f"{100 * options.confidence:g} % CI"
    if math.isnan(row.ci_low) or math.isnan(row.ci_high):
        return f"no {percent}"
    scale = 100 if row.metric == "flip" else 1
    places = ".1f" if row.metric == "flip" else ".2g"
    return f"{percent} {scale * row.ci_low:{places}} to {scale * row.ci_high:{places}}"
