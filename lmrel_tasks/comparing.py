"""Analyses of stored runs: conditions, right against wrong answers, non-inferiority, models.

Every function takes studies and returns a `Table` whose findings are plain sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics import agreement, cosine
from lmrel_tasks.metrics.comparisons import (
    Noninferiority,
    compare_conditions,
    friedman,
    holm,
    noninferiority,
)
from lmrel_tasks.metrics.correctness import compare_groups, mixed_comparison
from lmrel_tasks.metrics.cosine import CellSums
from lmrel_tasks.metrics.entropy import certainty_reproducibility, nanmean
from lmrel_tasks.metrics.intervals import item_bootstrap
from lmrel_tasks.study import Study
from lmrel_tasks.tables import Table, p_text

FloatArray = NDArray[np.float64]
LEVEL = 0.05


def summary(study: Study) -> Table:
    """Every metric under every condition and over all, with bootstrap intervals over items."""
    rows = []
    for metric, values in study.scores.items():
        columns = {name: values[:, p] for p, name in enumerate(study.conditions)}
        if len(study.conditions) > 1:
            columns["all"] = nanmean(values)
        rows += [_row(study, metric, name, column) for name, column in columns.items()]
    across = reproducibility_scores(
        study.cells, nanmean(study.certainty), study.answers, len(study.conditions)
    )
    rows += [_row(study, metric, "all", column) for metric, column in across.items()]
    return Table(
        "summary", f"{study.name}: means over {len(study.items)} items, 95 % intervals",
        ("task", "model", "metric", "condition", "mean", "ci_low", "ci_high", "items"),
        tuple(rows),
    )  # fmt: skip


def reproducibility_scores(
    cells: CellSums | None,
    certainty: FloatArray,
    answers: Sequence[Sequence[Sequence[str]]],
    conditions: int,
) -> dict[str, FloatArray]:
    """Metrics across conditions, one value per item; those without any are left out.

    Args:
        cells: sums of embeddings, shape (I, P), or None.
        certainty: (I, P) mean certainty.
        answers: per item and condition, the answers of its runs.
        conditions: P; nothing is defined for one.
    """
    if conditions < 2:
        return {}
    found = {
        "internal_reproducibility": certainty_reproducibility(certainty),
        "answer_reproducibility": np.array(
            [agreement.answer_reproducibility(row) for row in answers]
        ),
    }
    if cells is not None:
        found["semantic_reproducibility"] = nanmean(cosine.centroid_cosine(cells))
        found["semantic_reproducibility_debiased"] = nanmean(cosine.debiased_cosine(cells))
    return {name: values for name, values in found.items() if not np.isnan(values).all()}


def _row(study: Study, metric: str, condition: str, values: FloatArray) -> tuple[object, ...]:
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if known.size else float("nan")
    low = high = float("nan")
    if known.size > 1:
        interval = item_bootstrap(known)
        low, high = interval.ci_low, interval.ci_high
    return (study.task, study.model, metric, condition, mean, low, high, known.size)


def pairwise(
    where: tuple[str, str], names: Sequence[str], scores: Mapping[str, FloatArray], what: str
) -> Table:
    """All pairs of conditions on every metric, paired by item, Holm over the pairs of a metric.

    Args:
        where: task and model, for the first columns.
        names: of the columns compared.
        scores: metric -> (I, P).
        what: what the columns are, for the sentences: "prompts" or "models".
    """
    rows, findings = [], []
    for metric, values in scores.items():
        pairs = compare_conditions(values, names)
        for one in pairs:
            rows.append(
                (
                    *where, metric, one.first, one.second, one.n, one.difference, one.ci_low,
                    one.ci_high, one.t_pvalue, one.t_pvalue_adjusted, one.wilcoxon_pvalue,
                    one.wilcoxon_pvalue_adjusted,
                )
            )  # fmt: skip
            if one.wilcoxon_pvalue_adjusted < LEVEL:
                higher, lower = (
                    (one.first, one.second) if one.difference > 0 else (one.second, one.first)
                )
                findings.append(
                    f"{where[0]}: {metric} is higher with {higher} than with {lower}, by "
                    f"{abs(one.difference):.3f} on average over {one.n} items (Wilcoxon "
                    f"{p_text(one.wilcoxon_pvalue_adjusted)}, Holm)."
                )
        tested = [p for one in pairs if not np.isnan(p := one.wilcoxon_pvalue_adjusted)]
        if not tested:
            findings.append(
                f"{where[0]}: {metric} cannot be compared: no item has a value of it under two "
                f"{what}."
            )
        elif not min(tested) < LEVEL:
            findings.append(
                f"{where[0]}: no two {what} differ in {metric} (smallest {p_text(min(tested))}, "
                "Holm)."
            )
    return Table(
        "pairs", f"{where[0]} ({where[1]}): {what} compared in pairs, paired by item",
        (
            "task", "model", "metric", "first", "second", "items", "difference", "ci_low",
            "ci_high", "t_p", "t_p_holm", "wilcoxon_p", "wilcoxon_p_holm",
        ),
        tuple(rows), tuple(findings),
    )  # fmt: skip


def overall(
    where: tuple[str, str], names: Sequence[str], scores: Mapping[str, FloatArray], what: str
) -> Table | None:
    """Friedman's test of every metric over all conditions; None with fewer than three."""
    if len(names) < 3:
        return None
    rows, findings = [], []
    for metric, values in scores.items():
        test = friedman(values)
        rows.append((*where, metric, test.n, test.statistic, test.pvalue, test.effect, test.note))
        if np.isnan(test.pvalue):
            findings.append(f"{where[0]}: whether {metric} depends on {what} is open: {test.note}.")
        else:
            verb = "depends" if test.pvalue < LEVEL else "does not detectably depend"
            findings.append(
                f"{where[0]}: {metric} {verb} on {what} (Friedman {p_text(test.pvalue)}, "
                f"Kendall's W = {test.effect:.2f}, {test.n} items)."
            )
    return Table(
        "friedman", f"{where[0]} ({where[1]}): all {what} at once, Friedman's test",
        ("task", "model", "metric", "items", "chi2", "p", "kendall_w", "note"),
        tuple(rows), tuple(findings),
    )  # fmt: skip


def right_and_wrong(study: Study) -> Table | None:
    """Items answered right against items answered wrong, under each condition; Mann-Whitney.

    An item counts as right under a condition if more than half of its runs are, as wrong if fewer
    are; ties are left out. Holm over the whole table. None without labels.
    """
    shares = nanmean(study.correctness)
    if np.isnan(shares).all():
        return None
    right = np.where(shares == 0.5, np.nan, shares > 0.5)
    right[np.isnan(shares)] = np.nan
    tests = [
        (metric, name, compare_groups(values[:, p], right[:, p]), right[:, p], values[:, p])
        for metric, values in study.scores.items()
        if metric != "acc"
        for p, name in enumerate(study.conditions)
    ]
    adjusted = holm([test.pvalue for _, _, test, _, _ in tests])
    rows, findings = [], []
    for (metric, name, test, sides, values), p in zip(tests, adjusted, strict=True):
        means = [
            float(nanmean(values[sides == side])) if (sides == side).any() else float("nan")
            for side in (1, 0)
        ]
        rows.append(
            (
                study.task, study.model, metric, name, int((sides == 1).sum()),
                int((sides == 0).sum()), *means, test.statistic, test.pvalue, p, test.effect,
            )
        )  # fmt: skip
        if p < LEVEL:
            than = "higher" if test.effect > 0 else "lower"
            findings.append(
                f"{study.task}: with {name}, {metric} is {than} on items answered right than on "
                f"items answered wrong ({means[0]:.3f} against {means[1]:.3f}; Mann-Whitney "
                f"{p_text(p)}, Holm)."
            )
    if not findings:
        findings.append(
            f"{study.task}: no metric tells items answered right from items answered wrong "
            "(Mann-Whitney, Holm)."
        )
    return Table(
        "right_wrong", f"{study.name}: items answered right and wrong",
        (
            "task", "model", "metric", "condition", "right", "wrong", "mean_right", "mean_wrong",
            "u", "p", "p_holm", "rank_biserial",
        ),
        tuple(rows), tuple(findings),
    )  # fmt: skip


def mixed_models(study: Study) -> Table | None:
    """``metric ~ correct + (1 | item)`` over the runs of each condition; None without labels.

    The metric of a run is its certainty, or its closeness: the mean cosine to its cell's others.
    """
    if np.isnan(study.correctness).all():
        return None
    keys = np.repeat(np.arange(len(study.items)), study.correctness.shape[2])
    rows, findings = [], []
    for metric, table in (("certainty", study.certainty), ("closeness", study.closeness)):
        if np.isnan(table).all():
            continue
        for p, name in enumerate(study.conditions):
            fit = mixed_comparison(table[:, p].ravel(), study.correctness[:, p].ravel(), keys)
            rows.append(
                (
                    study.task, study.model, metric, name, fit.n, fit.n_items, fit.coefficient,
                    fit.standard_error, fit.ci_low, fit.ci_high, fit.pvalue, fit.note,
                )
            )  # fmt: skip
            if fit.note:
                findings.append(f"{study.task}: {metric} with {name}: no model, {fit.note}.")
                continue
            detected = "a detectable" if fit.pvalue < LEVEL else "no detectable"
            findings.append(
                f"{study.task}: with {name}, right runs have {detected} difference in {metric} "
                f"from wrong runs of the same item ({fit.coefficient:+.4f}, "
                f"{p_text(fit.pvalue)})."
            )
    return Table(
        "mixed", f"{study.name}: metric ~ correct + (1 | item), over runs",
        (
            "task", "model", "metric", "condition", "runs", "items", "coefficient", "stderr",
            "ci_low", "ci_high", "p", "note",
        ),
        tuple(rows), tuple(findings),
    )  # fmt: skip


def equivalence(
    where: tuple[str, str],
    names: Sequence[str],
    scores: Mapping[str, FloatArray],
    reference: str,
    margin: float,
) -> Table:
    """Whether each condition is worse than the reference by less than a margin, on every metric.

    Raises:
        ValueError: if the reference is none of the conditions, or the margin is negative.
    """
    if reference not in names:
        raise ValueError(f"--reference {reference!r} is none of {', '.join(names)}")
    at = list(names).index(reference)
    rows, findings = [], []
    for metric, values in scores.items():
        for p, name in enumerate(names):
            both = ~np.isnan(values[:, p] - values[:, at])
            if p == at or both.sum() < 2:
                continue
            loss = _LARGEST_LOSS.get(metric, 1.0)
            test = noninferiority(values[:, p], values[:, at], margin, largest_loss=loss)
            unjudged = test.alike and not test.noninferior and test.difference > -margin
            rows.append(
                (
                    *where, metric, name, reference, test.n, test.difference, test.lower_bound,
                    margin, "cannot be judged" if unjudged else test.noninferior,
                )
            )  # fmt: skip
            if unjudged:
                findings.append(_unjudged(where[0], name, reference, metric, test, loss))
                continue
            verdict = "is" if test.noninferior else "is not shown to be"
            findings.append(
                f"{where[0]}: {name} {verdict} noninferior to {reference} in {metric} by the "
                f"margin {margin:g} (difference {test.difference:+.3f}, lower 97.5 % bound "
                f"{test.lower_bound:+.3f})."
            )
    return Table(
        "noninferiority", f"{where[0]} ({where[1]}): noninferior to {reference} by {margin:g}?",
        (
            "task", "model", "metric", "condition", "reference", "items", "difference",
            "lower_bound", "margin", "noninferior",
        ),
        tuple(rows), tuple(findings),
    )  # fmt: skip


# A cosine may fall from 1 to -1; the other metrics lie between 0 and 1.
_LARGEST_LOSS = {"semantic_repeatability": 2.0}


def _unjudged(
    task: str, name: str, reference: str, metric: str, test: Noninferiority, loss: float
) -> str:
    """What items that all differ alike leave open, and how many of them would not."""
    exact = "agree exactly" if test.difference == 0 else f"differ by {test.difference:+.3f}"
    # (1 - q) d - q loss > -margin for q = 1 - alpha**(1/n)
    share = (test.difference + test.margin) / (test.difference + loss)
    needed = ""
    if 0 < share < 1:
        items = math.floor(math.log(test.alpha) / math.log1p(-share)) + 1
        needed = f"; {items} such items would rule it out"
    return (
        f"{task}: whether {name} is noninferior to {reference} in {metric} cannot be judged: all "
        f"{test.n} items {exact}, which leaves a loss of {-test.lower_bound:.3f} possible, more "
        f"than the margin {test.margin:g}{needed}."
    )
