"""The gauge repeatability and reproducibility table of a study."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lmrel_tasks.metrics.gauge import LIMIT_FACTOR, GaugeTable, gauge_rr, gauge_rr_meaning
from lmrel_tasks.metrics.intervals import Interval
from lmrel_tasks.study import Study
from lmrel_tasks.tables import Table


def gauge_table(study: Study, n_resamples: int = 2000) -> Table:
    """s_r, s_L, s_R and the limits r and R of each measure, with variance shares in percent.

    A measure that cannot be decomposed (nothing captured, one run per cell, one item) says so in
    a finding.
    """
    rows: list[tuple[Any, ...]] = []
    findings: list[str] = []
    for measure in ("correctness", "certainty", "meaning"):
        try:
            found = _measured(study, measure, n_resamples)
        except ValueError as error:
            findings.append(f"{study.task}: no table of {measure}: {error}.")
            continue
        if found is None:
            findings.append(f"{study.task}: no table of {measure}: {_ABSENT[measure]}.")
            continue
        rows += _rows(study, found)
        findings += _sentences(study, found)
    return Table(
        "gauge",
        f"{study.name}: gauge R&R over {len(study.items)} items x {len(study.conditions)} "
        "conditions, 95 % intervals over items",
        ("task", "model", "measure", "quantity", "estimate", "ci_low", "ci_high"),
        tuple(rows),
        tuple(findings),
    )


_ABSENT = {
    "correctness": "the items carry no label",
    "certainty": "no token log-probabilities were captured",
    "meaning": "nothing was embedded",
}


def _measured(study: Study, measure: str, n_resamples: int) -> GaugeTable | None:
    if measure == "meaning":
        cells = study.cells
        return None if cells is None else gauge_rr_meaning(cells, n_resamples=n_resamples)
    values = study.correctness if measure == "correctness" else study.certainty
    return None if np.isnan(values).all() else gauge_rr(values, measure, n_resamples=n_resamples)


def _rows(study: Study, found: GaugeTable) -> list[tuple[Any, ...]]:
    intervals: dict[str, Interval | None] = {
        "s_r (repeatability)": found.repeatability_sd,
        "s_L (between conditions)": found.between_sd,
        "s_R (reproducibility)": found.reproducibility_sd,
    }
    if found.measure != "correctness":
        intervals["r = 2.8 s_r"] = found.repeatability_limit
        intervals["R = 2.8 s_R"] = found.reproducibility_limit
    where = (study.task, study.model, found.measure)
    rows: list[tuple[Any, ...]] = [
        (*where, name, *(_without_noise(x) for x in (one.estimate, one.ci_low, one.ci_high)))
        for name, one in intervals.items()
        if one is not None and not math.isnan(one.estimate)
    ]
    rows += [
        (*where, f"var_{part} %", share, math.nan, math.nan)
        for part, share in _shares(found).items()
    ]
    return rows


def _without_noise(number: float) -> float:
    """0 for what rounding leaves of it: 1e-16 in a variance is 1e-8 in its square root."""
    return 0.0 if abs(number) < 1e-7 else number


def _shares(found: GaugeTable) -> dict[str, float]:
    """Percentages of the variance; none if a component is unknown or all are 0 but for rounding."""
    components = found.components
    known = {k: v for k, v in components.truncated().items() if not math.isnan(v)}
    expected = 2 if components.n_conditions == 1 else 4
    if len(known) < expected or sum(known.values()) < 1e-14:
        return {}
    return {k: v for k, v in components.percent().items() if k in known}


def _sentences(study: Study, found: GaugeTable) -> list[str]:
    shares = _shares(found)
    words = {
        "item": "between items", "condition": "between conditions",
        "item_condition": "between conditions in a way that differs by item",
        "run": "between runs of one item under one condition",
    }  # fmt: skip
    total = np.nansum(list(found.components.truncated().values()))
    told = [f"{study.task}: of the variance of {found.measure}, " + ", ".join(
        f"{share:.0f} % lies {words[part]}" if n == 0 else f"{share:.0f} % {words[part]}"
        for n, (part, share) in enumerate(shares.items())
    ) + "."] if shares else [
        f"{study.task}: {found.measure} does not vary at all." if total < 1e-14 else
        f"{study.task}: what share of the variance of {found.measure} lies where is n/a: too few "
        "runs of different items under different conditions are there."
    ]  # fmt: skip
    here, there = found.repeatability_sd.estimate**2, found.reproducibility_sd.estimate**2
    if found.measure == "meaning":
        one, other = f"have a mean cosine of {1 - here:.3f}", f"of {1 - there:.3f}"
    elif found.measure == "correctness":
        # Two draws of 0 or 1 differ with probability 2 s^2.
        one, other = (
            f"differ in correctness in {200 * here:.0f} % of cases",
            f"in {200 * there:.0f} %",
        )
        told.append(
            f"{study.task}: no limits r and R of correctness: two results that are 0 or 1 differ "
            "by 0 or 1, never by an amount in between."
        )
    else:
        r, limit = LIMIT_FACTOR * math.sqrt(here), LIMIT_FACTOR * math.sqrt(there)
        one = f"differ in {found.measure} by less than {r:.3f} in about 95 % of cases"
        other = f"by less than {limit:.3f}"
    across = "" if math.isnan(there) else f", two under different conditions {other}"
    told.append(f"{study.task}: two runs under one condition {one}{across}.")
    return told
