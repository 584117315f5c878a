"""Metrics whose items count 0 or 1 by definition, whatever the values at hand happen to be."""

from __future__ import annotations

import re

SHARES = frozenset({
    "acc", "exact_match", "mode_acc", "tar_answer", "tar_raw", "capability_gap", "empty_rate",
    "missing_rate", "reliability_level", "flip_rate_targeted", "flip_rate_benign",
    "flip_rate_rerun", "flip_rate_fixed_phrase", "benign_missing_rate", "applicable_rate",
})  # fmt: skip

# Shares of the runs of an item: 0 or 1 only where an item has a single run.
_OF_RUNS = frozenset({
    "acc", "empty_rate", "missing_rate", "no_answer_rate", "flip_rate_targeted",
    "flip_rate_benign", "flip_rate_rerun", "flip_rate_fixed_phrase",
})  # fmt: skip
_STOCK = frozenset({"acc_norm", "acc_bytes", "acc_mutual_info", "acc_all", "em"})


def base_name(metric: str) -> str:
    """The metric without preset and condition: ``tar_answer`` of ``tar_answer@polite``."""
    return re.split("[@:]", metric)[0]


def is_share(metric: str, runs: int = 1) -> bool:
    """True if every item counts 0 or 1 by the metric's definition.

    Args:
        metric: its name, without the filter.
        runs: runs per item that the metric averages over.
    """
    base = base_name(metric)
    if base in _OF_RUNS:
        return runs == 1
    return base in SHARES or base in _STOCK
