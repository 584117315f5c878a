"""The family table of baseline-adjusted bias: a test per perturbation, metric and model."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lmrel_tasks.bias_sentences import AGAINST, sentence
from lmrel_tasks.markdown import counted
from lmrel_tasks.metrics.bias_items import Family, complete, family, panel_of
from lmrel_tasks.metrics.bias_totals import direction_test
from lmrel_tasks.metrics.direction import DirectionTest
from lmrel_tasks.metrics.excess import AGGREGATE, PER_ITEM, Excess, excess
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.paired import adjust_pvalues
from lmrel_tasks.metrics.registry import ItemValue
from lmrel_tasks.results import Evaluation, find_evaluations, item_of, samples_of
from lmrel_tasks.tables import Table

log = logging.getLogger(__name__)

METRICS = ("flip", "jsd", "kl", "mi")
KNOWN = (*PER_ITEM, *AGGREGATE, "direction")


@dataclass(frozen=True)
class Row:
    """One test of the family.

    Attributes:
        model, task, perturbation, metric, test, alternative: what was tested, and how.
        read: how option probabilities were read.
        n: items in the test.
        not_applicable: items in which the perturbation changes nothing.
        benign_missing: items left out because they have no benign paraphrase.
        targeted, baseline: mean effect of the targeted edit and of the baseline.
        excess: their difference; the slope for ``direction``.
        ci_low, ci_high: its interval; NaN where the items are too few or too much alike for one.
        p, p_adjusted: raw p-value, and adjusted for the family.
        effect_size: mean of the item differences over their standard deviation.
        mde: smallest mean difference that so many items find with power 0.8 at 5 %; NaN where the
            item differences are all the same.
        sentence: what it means.
        note: what is degenerate.
    """

    model: str
    task: str
    perturbation: str
    metric: str
    test: str
    alternative: str
    read: str
    n: int
    not_applicable: int
    benign_missing: int
    targeted: float
    baseline: float
    excess: float
    ci_low: float
    ci_high: float
    p: float
    p_adjusted: float
    effect_size: float
    mde: float
    sentence: str
    note: str


@dataclass(frozen=True)
class Options:
    """How the family is tested; arguments of `lmrel_tasks.metrics.excess.excess`.

    Attributes:
        metrics: of `KNOWN`; by default `METRICS`, and ``direction`` for edits in two directions.
        adjust: method of `lmrel_tasks.metrics.paired.adjust_pvalues`.
        outcome: option that the direction regression looks at.
        cluster: field of the documents that says what an item belongs to, for the regression. Both
            are by default those of the task's metric ``direction_beta``.
    """

    metrics: Sequence[str] | None = None
    baseline: str = "benign"
    test: str | None = None
    alternative: str | None = None
    preset: str = "default"
    n_resamples: int | None = None
    seed: int = 0
    confidence: float = 0.95
    alpha: float = 0.05
    adjust: str = "holm"
    outcome: int | str | None = None
    cluster: str | None = None


@dataclass
class _Group:
    """Answers of one model on one task to one perturbation."""

    model: str
    task: str
    perturbation: str
    read: str
    outcome: int | str = 0
    cluster: str | None = None
    families: list[Family] = field(default_factory=list)
    not_applicable: int = 0
    benign_missing: int = 0


def bias_rows(paths: Sequence[str], options: Options, tasks: Sequence[str] = ()) -> list[Row]:
    """The family of tests in some results.

    Args:
        paths: result folders or files.
        tasks: these tasks only.

    Raises:
        FileNotFoundError: if there is no results file or no samples.
        ValueError: if no task has conditions with roles.
    """
    groups = [
        group
        for evaluation in find_evaluations(paths)
        for task in evaluation.tasks
        if not tasks or task in tasks
        for group in _groups(evaluation, task, options)
    ]
    if not groups:
        raise ValueError(
            "no task in these results has an original and a targeted condition; see `lmrel ls` for "
            "the bias tasks, and log samples with --log_samples"
        )
    rows = [row for group in groups for row in _tests(group, options)]
    adjusted = adjust_pvalues([row.p for row in rows], method=options.adjust, alpha=options.alpha)
    return [
        replace(row, p_adjusted=float(p), sentence=sentence(row, float(p), options))
        for row, p in zip(rows, adjusted, strict=True)
    ]


def _groups(evaluation: Evaluation, task: str, options: Options) -> Iterator[_Group]:
    found: dict[str, _Group] = {}
    regression = _regression(evaluation, task, options)
    try:
        for sample in samples_of(evaluation, task):
            item = item_of(sample)
            for name, role in _roles(item).items():
                if role != "targeted":
                    continue
                read = (sample.get("lmrel") or {}).get("read", "samples")
                group = found.setdefault(
                    name, _Group(evaluation.model, task, name, read, *regression)
                )
                _add(group, item, name, options)
    except FileNotFoundError as error:
        configured = evaluation.content["configs"].get(task, {}).get("metadata") or {}
        if (configured.get("lmrel_used") or {}).get("read"):
            raise
        log.debug("task %s left out: %s", task, error)
    yield from found.values()


def _regression(
    evaluation: Evaluation, task: str, options: Options
) -> tuple[int | str, str | None]:
    """Outcome and clusters of the direction regression: the user's, else the task's own."""
    listed = evaluation.content["configs"].get(task, {}).get("metric_list") or ()
    own: Mapping[str, Any] = next(
        (one for one in listed if one.get("metric") == "direction_beta"), {}
    )
    outcome = own.get("outcome", 0) if options.outcome is None else options.outcome
    return outcome, options.cluster or own.get("cluster")


def _roles(item: Item) -> dict[str, Any]:
    return {one.name: one.info.get("role") for one in item.conditions}


def _add(group: _Group, item: Item, name: str, options: Options) -> None:
    condition = item.condition(name)
    if condition is not None and not condition.applicable:
        group.not_applicable += 1
        return
    if options.metrics is None:
        directed = condition is not None and "direction" in condition.info
    else:
        directed = "direction" in options.metrics
    one = family(item, name, group.cluster if directed else None, group.outcome if directed else 0)
    if one is None:
        return
    if not complete(one):
        group.benign_missing += 1
        return
    group.families.append(one)


def _tests(group: _Group, options: Options) -> Iterator[Row]:
    metrics = options.metrics
    if metrics is None:
        signs = {one.direction for one in group.families if not math.isnan(one.direction)}
        metrics = (*METRICS, "direction") if len(signs) > 1 else METRICS
    for metric in metrics:
        if metric == "direction":
            yield _direction_row(group, options)
            continue
        baseline = options.baseline
        usable = [one for one in group.families if baseline in one.baselines]
        if not usable:
            kind = AGAINST[baseline]
            yield _row(group, metric, options, note=f"no item has answers to {kind}")
            continue
        try:
            found = excess(
                panel_of(usable, baseline), metric, test=options.test if _fits(metric, options)
                else None, alternative=options.alternative, preset=options.preset,
                n_resamples=options.n_resamples, confidence_level=options.confidence,
                rng=options.seed,
            )  # fmt: skip
        except ValueError as error:
            yield _row(group, metric, options, note=str(error))
            continue
        yield _row(group, metric, options, found)


def _fits(metric: str, options: Options) -> bool:
    """Whether the named test exists for the metric; others keep their default."""
    if metric in AGGREGATE and options.test in ("t", "mcnemar"):
        return False
    return options.test != "mcnemar" or metric == "flip"


def _row(
    group: _Group, metric: str, options: Options, found: Excess | None = None, note: str = ""
) -> Row:
    nan = math.nan
    low, high = _ends(found.ci_low, found.ci_high) if found else (nan, nan)
    return Row(
        model=group.model, task=group.task, perturbation=group.perturbation, metric=metric,
        test=found.test if found else "", alternative=found.alternative if found else "",
        read=group.read, n=found.n if found else 0, not_applicable=group.not_applicable,
        benign_missing=group.benign_missing,
        targeted=found.targeted if found else nan,
        baseline=found.baseline_value if found else nan, excess=found.excess if found else nan,
        ci_low=low, ci_high=high,
        p=found.pvalue if found else nan, p_adjusted=nan,
        effect_size=found.effect_size if found else nan,
        mde=found.minimum_detectable_effect if found else nan, sentence="",
        note=found.note if found else note,
    )  # fmt: skip


def _ends(low: float, high: float) -> tuple[float, float]:
    """An interval as it stands; NaN where it is the whole line or a point, which tells nothing."""
    told = (math.isfinite(low) or math.isfinite(high)) and high - low > 1e-12
    return (low, high) if told else (math.nan, math.nan)


def _direction_row(group: _Group, options: Options) -> Row:
    values = [ItemValue(0.0, one) for one in group.families]
    form = direction_test(values, preset=options.preset, confidence_level=options.confidence)
    if form is None:
        return _row(group, "direction", options, note="the edits have no direction")
    return replace(_row(group, "direction", options), **_direction_fields(form))


def _direction_fields(found: DirectionTest) -> dict[str, Any]:
    return {
        "test": f"regression, {found.covariance}", "alternative": found.alternative,
        "n": found.n, "excess": found.beta, "ci_low": found.ci_low, "ci_high": found.ci_high,
        "p": found.pvalue, "note": found.note,
    }  # fmt: skip


def family_table(rows: Sequence[Row], options: Options) -> Table:
    """The rows as a table, with one finding each."""
    columns = tuple(asdict(rows[0]))
    findings = tuple(
        f"{row.task}, {row.perturbation}, {row.metric} ({row.model}): {row.sentence}."
        for row in rows
    )
    title = (
        f"Baseline-adjusted bias: targeted edit against {AGAINST[options.baseline]}, "
        f"p adjusted by {options.adjust} over {counted(len(rows), 'test')}"
    )
    return Table("family", title, columns, tuple(tuple(asdict(r).values()) for r in rows), findings)


_SHOWN = (
    "model", "task", "perturbation", "metric", "n", "benign_missing", "targeted", "baseline",
    "excess", "ci_low", "ci_high", "p", "p_adjusted", "effect_size", "mde",
)  # fmt: skip


def short_table(table: Table) -> Table:
    """The columns that fit a terminal."""
    places = [table.columns.index(name) for name in _SHOWN]
    rows = tuple(tuple(row[at] for at in places) for row in table.rows)
    return replace(table, columns=_SHOWN, rows=rows)
