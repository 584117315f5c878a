"""Excess of the targeted edit over the benign one: one number, its interval and its p.

This is where the pieces meet: a checked `panel`, a measure of how far an answer moved, and a
test. Named presets (`lmrel_tasks.metrics.conventions`) fix what published code does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.metrics import association as associations
from lmrel_tasks.metrics import counterfactual as formulas
from lmrel_tasks.metrics.conventions import PRESETS, Preset
from lmrel_tasks.metrics.paired import (
    PairedTest,
    effect_size,
    mcnemar_test,
    paired_t,
)
from lmrel_tasks.metrics.panel import Panel
from lmrel_tasks.metrics.power import minimum_detectable_effect
from lmrel_tasks.metrics.resampling import exchange_test, paired_bootstrap

Floats = NDArray[np.float64]

PER_ITEM = ("flip", "jsd", "kl", "log_odds")
AGGREGATE = ("mi", "phi")
TESTS = ("permutation", "bootstrap", "t", "mcnemar")


@dataclass(frozen=True)
class Excess:
    """How much more the targeted edit moves answers than the baseline does.

    Attributes
    ----------
    metric, baseline, test, alternative : str
    targeted, baseline_value : float
        Mean over items (flip, jsd, kl, log_odds), or the measure itself (mi, phi).
    excess : float
        targeted - baseline_value. NaN when both are infinite.
    ci_low, ci_high, confidence_level : float
        Two-sided interval: from the t-test or the bootstrap itself, from the inverted
        permutation test, or, for mi and phi under permutation, and for McNemar, from the
        bootstrap.
    pvalue : float
    effect_size : float
        Mean / SD of the paired differences; NaN for mi and phi.
    minimum_detectable_effect : float
        Mean difference that so many items find with power 0.8 at level 0.05; NaN likewise, and
        where the differences are all the same, which tells nothing of how they vary.
    n, n_excluded : int
        Items used; items excluded for a missing condition.
    infinite_targeted, infinite_baseline : float
        Share of items whose value is infinite (only kl and log_odds can be).
    n_resamples : int
    note : str
    """

    metric: str
    baseline: str
    test: str
    alternative: str
    targeted: float
    baseline_value: float
    excess: float
    ci_low: float
    ci_high: float
    confidence_level: float
    pvalue: float
    effect_size: float
    minimum_detectable_effect: float
    n: int
    n_excluded: int
    infinite_targeted: float
    infinite_baseline: float
    n_resamples: int
    note: str


def item_values(
    data: Panel, metric: str, *, base: float = 2.0, clip: float | None = None
) -> tuple[Floats, Floats, Floats | None]:
    """How far each item's answer moved under the targeted edit, the benign ones, and a rerun.

    Parameters
    ----------
    data : Panel
    metric : {"flip", "jsd", "kl", "log_odds"}
    base, clip
        See `lmrel_tasks.metrics.counterfactual`.

    Returns
    -------
    targeted : ndarray, shape (items,)
    benign : ndarray, shape (items, paraphrases)
        NaN where an item has fewer paraphrases.
    rerun : ndarray, shape (items,), or None
    """
    if metric not in PER_ITEM:
        raise ValueError(f"metric must be one of {PER_ITEM}, not {metric!r}")

    def moved(perturbed: Floats) -> Floats:
        before = data.original if perturbed.ndim == 2 else data.original[:, None, :]
        if metric == "flip":
            return formulas.flips(formulas.labels(before), formulas.labels(perturbed))
        if metric == "log_odds":
            return formulas.log_odds_shift(before, perturbed, clip=clip)
        measure = formulas.js_divergence if metric == "jsd" else formulas.kl_divergence
        return measure(before, perturbed, base=base, clip=clip)

    rerun = None if data.rerun is None else moved(data.rerun)
    return moved(data.targeted), moved(data.benign), rerun


def excess(
    data: Panel,
    metric: str,
    *,
    baseline: str = "benign",
    test: str | None = None,
    alternative: str | None = None,
    preset: str = "default",
    base: float | None = None,
    n_resamples: int | None = None,
    confidence_level: float = 0.95,
    rng: np.random.Generator | int | None = 0,
) -> Excess:
    """Test whether the targeted edit moves answers more than the baseline.

    Parameters
    ----------
    data : Panel
        From `lmrel_tasks.metrics.panel.panel`.
    metric : {"flip", "jsd", "kl", "log_odds", "mi", "phi"}
        "log_odds" is the absolute change of the log-odds of the original answer.
    baseline : {"benign", "rerun"}
        Against rewording, or against asking the original again.
    test : {"permutation", "bootstrap", "t", "mcnemar"}, optional
        "t" not for mi and phi, "mcnemar" only for flips with one paraphrase. The default comes
        from the preset.
    alternative : {"greater", "less", "two-sided"}, optional
        About targeted - baseline. Default "greater", but "less" for mi and phi, which fall when
        answers change; two-sided in the preset "cfprompt".
    preset : {"default", "cfprompt", "paper"}
    base : float, optional
        Overrides the preset's base of the logarithm.
    n_resamples : int, optional
    confidence_level : float
    rng : numpy.random.Generator or int

    Returns
    -------
    Excess

    Raises
    ------
    ValueError
        For an unknown name, a test that does not fit the metric, no items, or a rerun that the
        panel does not have.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {tuple(PRESETS)}, not {preset!r}")
    rules = PRESETS[preset]
    if metric not in PER_ITEM + AGGREGATE:
        raise ValueError(f"metric must be one of {PER_ITEM + AGGREGATE}, not {metric!r}")
    if test is None:
        whole = metric in AGGREGATE or metric == "flip"
        test = rules.aggregate_test if whole else rules.per_item_test
    if test not in TESTS or (metric in AGGREGATE and test in ("t", "mcnemar")):
        raise ValueError(f"test {test!r} does not exist for {metric}")
    if test == "mcnemar" and metric != "flip":
        raise ValueError("test 'mcnemar' is for metric 'flip'")
    if alternative is None:
        one_sided = "less" if metric in AGGREGATE else "greater"
        alternative = "two-sided" if rules.two_sided else one_sided
    used = _against(data, baseline)
    if used.n == 0:
        raise ValueError(f"no item has all of original, targeted and {baseline} answers")
    generator = np.random.default_rng(rng)
    resamples = rules.n_resamples if n_resamples is None else n_resamples
    logarithm = rules.base if base is None else base
    if metric in AGGREGATE:
        return _aggregate(
            used, metric, baseline, test, alternative, rules, logarithm, resamples,
            confidence_level, generator,
        )  # fmt: skip
    targeted, benign, _ = item_values(used, metric, base=logarithm, clip=rules.clip)
    average = np.nanmean(benign, axis=1)
    infinite = float(np.isinf(targeted).mean()), float(np.isinf(average).mean())
    # A difference of two infinite values says nothing about which is larger.
    both = np.isinf(targeted) & np.isinf(average)
    with np.errstate(invalid="ignore"):
        differences = np.where(both, 0.0, targeted - average)
    result: PairedTest | None = None
    note = ""
    if test == "t" and (len(differences) < 2 or any(infinite)):
        note = "t is undefined: " + ("infinite values" if any(infinite) else "fewer than two items")
    elif test == "t":
        result = paired_t(differences, alternative=alternative, confidence_level=confidence_level)
    elif test == "permutation":
        result = exchange_test(
            targeted, benign, alternative=alternative, n_resamples=resamples,
            confidence_level=confidence_level, rng=generator,
        )  # fmt: skip
    else:
        result = paired_bootstrap(
            differences, alternative=alternative, n_resamples=resamples,
            confidence_level=confidence_level, plus_one=rules.plus_one, rng=generator,
        )  # fmt: skip
    pvalue = result.pvalue if result else np.nan
    if test == "mcnemar":
        exact = mcnemar_test(targeted, average, alternative=alternative)
        pvalue, note = exact.pvalue, exact.note
    means = float(targeted.mean()), float(average.mean())
    value = means[0] - means[1] if np.isfinite(means).any() else np.nan
    low, high = (result.ci_low, result.ci_high) if result else (np.nan, np.nan)
    if np.isnan(value):
        low = high = np.nan
    if not note and any(infinite):
        note = (
            f"infinite for {infinite[0]:.1%} of the items when targeted and {infinite[1]:.1%} when "
            f"{baseline}: their counts are compared first"
        )
    finite = len(differences) > 1 and not any(infinite)
    deviation = float(differences.std(ddof=1)) if finite and np.ptp(differences) else 0.0
    return Excess(
        metric=metric,
        baseline=baseline,
        test=test,
        alternative=alternative,
        targeted=means[0],
        baseline_value=means[1],
        excess=float(value),
        ci_low=float(low),
        ci_high=float(high),
        confidence_level=confidence_level,
        pvalue=float(pvalue),
        effect_size=effect_size(differences) if finite else float("nan"),
        minimum_detectable_effect=(
            minimum_detectable_effect(deviation, used.n, alternative=alternative)
            if deviation > 0
            else float("nan")
        ),
        n=used.n,
        n_excluded=used.n_excluded,
        infinite_targeted=infinite[0],
        infinite_baseline=infinite[1],
        n_resamples=result.n_resamples if result and test != "mcnemar" else 0,
        note=note or (result.note if result else ""),
    )


def _against(data: Panel, baseline: str) -> Panel:
    if baseline == "benign":
        return data
    if baseline != "rerun":
        raise ValueError(f"baseline must be 'benign' or 'rerun', not {baseline!r}")
    if data.rerun is None:
        raise ValueError("the panel has no rerun: give rerun=... to panel()")
    kept = ~np.isnan(data.rerun[:, 0])
    return Panel(
        ids=tuple(name for name, keep in zip(data.ids, kept, strict=True) if keep),
        original=data.original[kept],
        targeted=data.targeted[kept],
        benign=data.rerun[kept][:, None, :],
        rerun=None,
        n_given=data.n_given,
        missing={**data.missing, "rerun": int((~kept).sum())},
    )


def _aggregate(
    data: Panel, metric: str, baseline: str, test: str, alternative: str, rules: Preset,
    base: float, n_resamples: int, confidence_level: float, rng: np.random.Generator,
) -> Excess:  # fmt: skip
    answers = [formulas.labels(p) for p in (data.original, data.targeted, data.benign)]
    shown = associations.bootstrap_test(
        *answers, data.options, measure=metric, base=base, alternative=alternative,
        n_resamples=n_resamples, confidence_level=confidence_level, plus_one=rules.plus_one,
        undefined=rules.undefined_phi, rng=rng,
    )  # fmt: skip
    pvalue, note = shown.pvalue, shown.note
    if test == "permutation":
        swapped = associations.swap_test(
            *answers, data.options, measure=metric, base=base, alternative=alternative,
            n_resamples=n_resamples, rng=rng,
        )  # fmt: skip
        pvalue = swapped.pvalue
    if not note and (answers[1][:, None] == answers[2]).all():
        note = "targeted and benign answers are all the same"
    nan = float("nan")
    return Excess(
        metric=metric, baseline=baseline, test=test, alternative=alternative,
        targeted=shown.targeted, baseline_value=shown.benign, excess=shown.excess,
        ci_low=shown.ci_low, ci_high=shown.ci_high, confidence_level=confidence_level,
        pvalue=pvalue, effect_size=nan, minimum_detectable_effect=nan, n=data.n,
        n_excluded=data.n_excluded, infinite_targeted=0.0, infinite_baseline=0.0,
        n_resamples=n_resamples, note=note,
    )  # fmt: skip
