"""The statistics of a plan: what so many items and repeats can show, and how many it takes.

Items are the sampling unit, runs are nested in them. A score averaged over K runs of
n items has variance (s_b^2 + s_w^2 / K) / n: s_b^2 over items, s_w^2 over runs within an item.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from lmrel_tasks.contestants import Contestant
from lmrel_tasks.differences import kind_of
from lmrel_tasks.metrics.bounds import check_probability
from lmrel_tasks.metrics.power import (
    difference_variance,
    minimum_detectable_effect,
    sample_size,
)
from lmrel_tasks.metrics.variance_metrics import runs_of
from lmrel_tasks.paired_results import PairedTask, Scores, read_scores
from lmrel_tasks.results import Evaluation, find_evaluations, item_of, samples_of

REPEATS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Spread:
    """How a metric varies; all that the formulas need.

    Attributes:
        metric: its name.
        mean: its value.
        item_variance: s_b^2, variance over items of the expected score.
        run_variance: s_w^2, variance of one run within an item.
        difference_item_variance: omega^2, variance over items of the true difference to another
            model.
        source: where the numbers are from, in words.
    """

    metric: str
    mean: float
    item_variance: float
    run_variance: float
    difference_item_variance: float
    source: str

    def of_mean(self, runs: int) -> float:
        """Variance over items of a score averaged over some runs."""
        return difference_variance(self.item_variance, self.run_variance, 0.0, runs, 1)

    def of_difference(self, runs: int) -> float:
        """The same of the difference between two models that both are asked so often."""
        return difference_variance(
            self.difference_item_variance, self.run_variance, self.run_variance, runs, runs
        )


def assumed_accuracy(mean: float = 0.5, icc: float = 0.5, correlation: float = 0.5) -> Spread:
    """The spread of 0/1 scores where nothing was measured: p(1 - p), split between items and runs.

    Args:
        mean: expected accuracy; 0.5 is the worst case.
        icc: share of the variance that lies between items: 1 if repeats always agree.
        correlation: of the items' expected scores between two models.

    Raises:
        ValueError: for a value out of range.
    """
    check_probability(mean, "mean")
    if not 0 <= icc <= 1 or not -1 <= correlation <= 1:
        raise ValueError("icc must lie between 0 and 1, correlation between -1 and 1")
    total = mean * (1 - mean)
    return Spread(
        "accuracy", mean, icc * total, (1 - icc) * total, 2 * icc * total * (1 - correlation),
        f"assumed: mean {mean:g}, {icc:g} of the variance between items, correlation "
        f"{correlation:g} between models",
    )  # fmt: skip


def half_width(spread: Spread, items: int, runs: int, alpha: float = 0.05) -> float:
    """Half of the two-sided interval of a mean: z_{alpha/2} sqrt((s_b^2 + s_w^2 / K) / n)."""
    if items < 1:
        raise ValueError(f"items must be 1 or more, got {items}")
    check_probability(alpha, "alpha")
    return float(stats.norm.isf(alpha / 2)) * math.sqrt(spread.of_mean(runs) / items)


def items_for_half_width(spread: Spread, width: float, runs: int, alpha: float = 0.05) -> int:
    """Items whose interval is no wider than plus or minus ``width``."""
    if not width > 0:
        raise ValueError(f"half-width must be above 0, got {width:g}")
    check_probability(alpha, "alpha")
    z = float(stats.norm.isf(alpha / 2))
    return max(1, math.ceil(z**2 * spread.of_mean(runs) / width**2 - 1e-9))


def items_for_difference(
    spread: Spread, difference: float, runs: int, *, alpha: float = 0.05, power: float = 0.8
) -> int:
    """Items that find a difference between two models; see `metrics.power.sample_size`."""
    return sample_size(
        difference, spread.difference_item_variance, spread.run_variance, spread.run_variance,
        runs, runs, alpha=alpha, power=power,
    )  # fmt: skip


def detectable_difference(
    spread: Spread, items: int, runs: int, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """Smallest difference between two models that a paired test on these items finds."""
    return minimum_detectable_effect(
        math.sqrt(spread.of_difference(runs)), items, alpha=alpha, power=power,
        alternative="two-sided",
    )  # fmt: skip


def pilot_tasks(paths: Sequence[str]) -> list[str]:
    """Tasks that earlier results have samples of."""
    found = find_evaluations(paths)
    tasks = [task for one in found for task in one.tasks if one.samples_path(task)]
    if not tasks:
        raise FileNotFoundError(
            f"no samples beside {found[0].path}; run the pilot with --log_samples"
        )
    return list(dict.fromkeys(tasks))


def measured_spreads(paths: Sequence[str], task: str, correlation: float = 0.5) -> list[Spread]:
    """Spreads of a task's metrics in earlier results.

    Two models give the variance of their difference; one gives its own variance, and the
    difference is assumed from the correlation. Runs within items are told apart for accuracy
    where the samples hold repeated runs; other metrics count as they are at that many repeats.

    Args:
        paths: folders or files of one or two models that ran the task.
        task: its name.
        correlation: see `assumed_accuracy`.

    Raises:
        FileNotFoundError: without results or samples.
        ValueError: if nobody ran the task.
    """
    found = [one for one in find_evaluations(paths) if task in one.tasks]
    if not found:
        raise ValueError(f"the pilot has no results of task {task}")
    tables = [read_scores(one, task) for one in found[:2]]
    name = next(iter(tables[0]))
    scores = [table[name] for table in tables if name in table]
    paired = _paired(found, task, name, scores)
    noise = [_run_variance(one, task, name) for one in found[: len(scores)]]
    spreads = []
    for metric in paired.metrics():
        if kind_of(paired, metric) not in ("mean", "level"):
            continue
        values = paired.values(metric)
        values = values[:, np.isfinite(values).all(axis=0)]
        if values.shape[1] < 2:
            continue
        # Only the mean over runs of 0/1 has a variance that is known to fall as 1/K.
        runs, within = noise[0] if metric == "acc" else (1, 0.0)
        other_runs, other = noise[-1] if metric == "acc" else (1, 0.0)
        item = max(0.0, float(values[0].var(ddof=1)) - within / runs)
        if len(scores) > 1:
            observed = float((values[0] - values[1]).var(ddof=1))
            between = max(0.0, observed - within / runs - other / other_runs)
            within = (within + other) / 2
            source = f"measured on {values.shape[1]} items of two models"
        else:
            between = 2 * item * (1 - correlation)
            source = f"measured on {values.shape[1]} items, correlation {correlation:g} assumed"
        spreads.append(Spread(metric, float(values[0].mean()), item, within, between, source))
    return spreads


def _paired(
    found: Sequence[Evaluation], task: str, name: str, scores: Sequence[Scores]
) -> PairedTask:
    who = tuple(
        Contestant(one.model, one.model, str(one.path), (one,)) for one in found[: len(scores)]
    )
    keys = [key for key in scores[0].rows if all(key in one.rows for one in scores)]
    return PairedTask(task, name, who, tuple(scores), tuple(keys))


def _run_variance(evaluation: Evaluation, task: str, name: str) -> tuple[float, float]:
    """Runs per item (harmonic mean, conditions together), and the variance of their correctness."""
    inverse, variances = [], []
    for sample in samples_of(evaluation, task):
        if str(sample.get("filter", "none")) != name or not sample.get("lmrel"):
            continue
        item = item_of(sample)
        first = sample["lmrel"].get("first_round")
        cells = runs_of(item.first_runs(first) if first else item, "correctness") or ()
        known = [cell[~np.isnan(cell)] for cell in cells]
        within = [float(cell.var(ddof=1)) for cell in known if cell.size > 1]
        if within:
            variances.append(float(np.mean(within)))
            inverse.append(1 / sum(cell.size for cell in known))
    if not variances:
        return 1.0, 0.0
    return 1 / float(np.mean(inverse)), float(np.mean(variances))
