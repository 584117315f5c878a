"""Paired differences between results: which test each metric needs, and the family of them.

Items are the sampling unit. A difference is a mean over the items that all of a task's
contestants share; its standard error is clustered by document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lmrel_tasks.measures import METRICS
from lmrel_tasks.metrics.paired import PairedTest, adjust_pvalues
from lmrel_tasks.metrics.paired_difference import paired_difference
from lmrel_tasks.metrics.power import minimum_detectable_effect
from lmrel_tasks.metrics.registry import mean
from lmrel_tasks.paired_results import PairedTask
from lmrel_tasks.shares import base_name, is_share

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """One metric of one task between two contestants.

    Attributes:
        task, metric: which; the metric with its filter, ``exact_match,strict-match``, unless that
            is ``none``.
        first, second: names of the two.
        first_value, second_value: theirs, over the shared items.
        difference: first minus second.
        stderr: clustered standard error of the difference.
        ci_low, ci_high: two-sided interval of it, not adjusted for the family; NaN where all
            items differ alike and the metric is without bounds, since no spread bounds nothing.
        method: name of the test.
        pvalue: two-sided.
        pvalue_adjusted: Holm over the whole table; NaN until `adjusted`.
        detectable: smallest difference that the table would find with 80 % power at Holm's
            strictest step; NaN until `adjusted`, and where it cannot be told.
        n: items used.
        left_out: shared items without a value for one of the contestants.
        higher_is_better: direction; None if unknown.
    """

    task: str
    metric: str
    first: str
    second: str
    first_value: float
    second_value: float
    difference: float
    stderr: float
    ci_low: float
    ci_high: float
    method: str
    pvalue: float
    pvalue_adjusted: float
    detectable: float
    n: int
    left_out: int
    higher_is_better: bool | None

    def winner(self, alpha: float = 0.05) -> str | None:
        """Name of the better one (the higher one where no direction is known), if separable."""
        if not self.pvalue_adjusted < alpha or self.difference == 0:
            return None
        first = (self.difference > 0) == (self.higher_is_better is not False)
        return self.first if first else self.second

    def verdict(self, alpha: float = 0.05) -> str:
        """In words."""
        winner = self.winner(alpha)
        if winner is None:
            return "not separable"
        return f"{winner} {'higher' if self.higher_is_better is None else 'better'}"


def kind_of(paired: PairedTask, metric: str) -> str:
    """How the items' values make the reported number: mean, level, bound, or reported (some other).

    By the metric's registered aggregation where it is ours; otherwise by whether the reported
    number is the mean of the items' values, for everyone whose sample file is complete.
    """
    base = _listed_as(paired, base_name(metric))
    if base in METRICS:
        if METRICS[base].aggregate is mean:
            return "mean"
        return {"reliability_level": "level", "reliability_lower": "bound"}.get(base, "reported")
    for who, scores in zip(paired.contestants, paired.scores, strict=True):
        reported = _reported(paired, who, metric)[0]
        if not scores.complete or math.isnan(reported):
            continue
        values = scores.values[metric]
        if not math.isclose(float(np.nanmean(values)), reported, rel_tol=1e-6, abs_tol=1e-9):
            return "reported"
    return "mean"


def _listed_as(paired: PairedTask, shown: str) -> str:
    """The metric behind a name that ``metric_list`` gave it."""
    for who in paired.contestants:
        evaluation = who.newest(paired.task)
        config = evaluation.content.get("configs", {}).get(paired.task) if evaluation else None
        for entry in (config or {}).get("metric_list") or ():
            if isinstance(entry, Mapping) and entry.get("name") == shown:
                return str(entry.get("metric"))
    return shown


def _reported(paired: PairedTask, who: Any, metric: str) -> tuple[float, float]:
    """The value and the standard error in the results file; NaN where there is none."""
    evaluation = who.newest(paired.task)
    row = evaluation.content.get("results", {}).get(paired.task, {}) if evaluation else {}
    pair = (row.get(f"{metric},{paired.filter}"), row.get(f"{metric}_stderr,{paired.filter}"))
    value, error = (float(x) if isinstance(x, (int, float)) else math.nan for x in pair)
    return value, error


def _is_share(paired: PairedTask, metric: str) -> bool:
    """Whether every item of everyone counts 0 or 1 by definition."""
    shown = _listed_as(paired, base_name(metric))
    alone = "@" in metric
    return all(is_share(shown, _runs(paired, who, alone)) for who in paired.contestants)


def _runs(paired: PairedTask, who: Any, one_condition: bool) -> int:
    """Runs per item that a metric of one of this package's tasks averages over."""
    evaluation = who.newest(paired.task)
    config = (evaluation.content.get("configs") or {}).get(paired.task) if evaluation else None
    own = ((config or {}).get("metadata") or {}).get("lmrel")
    if not config or not own:
        return 1
    prompts = own.get("conditions") or ()
    several = isinstance(prompts, (list, tuple, Mapping)) and not one_condition
    return int(config.get("repeats") or 1) * max(1, len(prompts) if several else 1)


def _is_bounded(values: FloatArray, metric: str) -> bool:
    """Whether a metric lies in [0, 1]: all items do, and it is no quantity without such bounds."""
    open_ended = any(part in metric for part in _OPEN_ENDED)
    return not open_ended and bool(values.size and values.min() >= 0 and values.max() <= 1)


# Entropies in bits, divergences, log-odds and counts, which may all be small.
_OPEN_ENDED = ("entropy", "kl_", "log_odds", "direction", "size", "samples_used", "_excess")


def _direction(paired: PairedTask, metric: str) -> bool | None:
    for who in paired.contestants:
        evaluation = who.newest(paired.task)
        row = (evaluation.content.get("higher_is_better") or {}) if evaluation else {}
        known = (row.get(paired.task) or {}).get(metric)
        if isinstance(known, bool):
            return known
    registered = METRICS.get(_listed_as(paired, base_name(metric)))
    return None if registered is None else registered.higher_is_better


def task_differences(
    paired: PairedTask,
    *,
    metrics: Sequence[str] = (),
    confidence_level: float = 0.95,
    n_resamples: int = 9999,
    notes: list[str] | None = None,
) -> list[Difference]:
    """All metrics between all pairs of a task's contestants; p not adjusted yet.

    Metrics that are no mean over items (``coverage``, variance components, ...) are compared by
    their reported values and standard errors as if the items were different ones; that is wider
    than a paired test would be.

    Args:
        paired: the task.
        metrics: names to compare; all by default.
        confidence_level, n_resamples: see `paired_difference`.
        notes: takes sentences on what was left out.
    """
    told = [] if notes is None else notes
    found: list[Difference] = []
    suffix = "" if paired.filter == "none" else f",{paired.filter}"
    clusters = paired.clusters()
    whole = None if len(set(clusters)) == len(clusters) else np.asarray(clusters)
    for metric in paired.metrics():
        shown = f"{metric}{suffix}"
        if metrics and not {metric, shown} & set(metrics):
            continue
        kind = kind_of(paired, metric)
        if kind == "bound":
            told.append(
                f"{paired.task}: {shown} is a confidence bound, not an estimate; its items are "
                "compared as reliability_level."
            )
            continue
        better, share = _direction(paired, metric), _is_share(paired, metric)
        values = paired.values(metric)
        there = np.isfinite(values).all(axis=0)
        kept, lost = values[:, there], int((~there).sum())
        bounded = _is_bounded(kept, metric)
        for a, b in combinations(range(len(paired.contestants)), 2):
            first, second = paired.contestants[a], paired.contestants[b]
            if kind == "reported":
                one = _unpaired(paired, metric, a, b, confidence_level, bounded)
                if one is None:
                    told.append(
                        f"{paired.task}: {shown} is no mean over items and has no standard error "
                        f"for {first.name} or {second.name}; it is not compared."
                    )
                    continue
                number_a, number_b, test, error = one
            elif kept.shape[1] < 2:
                told.append(
                    f"{paired.task}: {shown} has a value for {kept.shape[1]} shared items; two "
                    "are needed."
                )
                break
            else:
                test, error = paired_difference(
                    kept[a], kept[b], None if whole is None else whole[there].tolist(), kind=kind,
                    share=share, bounded=bounded, confidence_level=confidence_level,
                    n_resamples=n_resamples,
                )  # fmt: skip
                shrink = kept.shape[1] / (kept.shape[1] + 1) if kind == "level" else 1.0
                number_a, number_b = (float(kept[x].mean()) * shrink for x in (a, b))
            found.append(
                Difference(
                    paired.task, shown, first.name, second.name, number_a, number_b,
                    test.estimate, error, test.ci_low, test.ci_high, test.method, test.pvalue,
                    math.nan, math.nan, test.n, lost, better,
                )
            )  # fmt: skip
    for metric in sorted({m for scores in paired.scores for m in scores.unusable}):
        if not metrics or metric in metrics:
            told.append(f"{paired.task}: {metric}{suffix} has no plain numbers per item; left out.")
    return found


def _unpaired(
    paired: PairedTask, metric: str, a: int, b: int, confidence_level: float, bounded: bool
) -> tuple[float, float, PairedTest, float] | None:
    pairs = [_reported(paired, paired.contestants[x], metric) for x in (a, b)]
    if any(math.isnan(number) for pair in pairs for number in pair):
        return None
    (number_a, error_a), (number_b, error_b) = pairs
    error = math.hypot(error_a, error_b)
    d = number_a - number_b
    n = min(len(paired.scores[x].rows) for x in (a, b))
    # No spread bounds nothing: equal numbers do not differ, others may or may not.
    z, p, half = math.nan, math.nan if d else 1.0, math.nan
    if error:
        z = d / error
        p = float(2 * stats.norm.sf(abs(z)))
        half = float(stats.norm.ppf((1 + confidence_level) / 2)) * error
    edge = 1.0 if bounded and max(number_a, number_b) <= 1 else math.inf
    low, high = (float(x) for x in np.clip((d - half, d + half), -edge, edge))
    test = PairedTest("unpaired z", "two-sided", d, z, p, low, high, confidence_level, n, 0, "")
    return number_a, number_b, test, error


def adjusted(
    differences: Sequence[Difference], *, alpha: float = 0.05, power: float = 0.8
) -> list[Difference]:
    """The family with Holm's p-values and what it could have found at Holm's strictest step."""
    if not differences:
        return []
    holm = adjust_pvalues([one.pvalue for one in differences], method="holm")
    tests = int(sum(not math.isnan(one.pvalue) for one in differences)) or 1
    return [
        replace(
            one, pvalue_adjusted=float(p), detectable=_detectable(one, alpha / tests, power)
        )
        for one, p in zip(differences, holm, strict=True)
    ]  # fmt: skip


def _detectable(one: Difference, alpha: float, power: float) -> float:
    if not one.stderr > 0 or one.n < 3:
        return math.nan
    return one.stderr * math.sqrt(one.n) * _standardised(one.n, alpha, power)


@lru_cache(maxsize=1024)
def _standardised(n: int, alpha: float, power: float) -> float:
    # Solved numerically, and the same for every metric of a task.
    return minimum_detectable_effect(1.0, n, alpha=alpha, power=power, alternative="two-sided")
