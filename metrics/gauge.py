"""Gauge repeatability and reproducibility: the ISO 5725 table with intervals over items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.cosine import CellSums
from lmrel_tasks.metrics.intervals import Interval, weight_bootstrap
from lmrel_tasks.metrics.meaning import meaning_components, meaning_statistic
from lmrel_tasks.metrics.variance import VarianceComponents, scalar_statistic, variance_components

FloatArray = NDArray[np.float64]

# ISO 5725-6: two results differ by less than 1.96 * sqrt(2) = 2.8 standard deviations in 95 %.
LIMIT_FACTOR = 2.8


@dataclass(frozen=True)
class GaugeTable:
    """Repeatability and reproducibility of one measure.

    Attributes:
        measure: its name.
        components: the variance components behind the table.
        repeatability_sd: s_r, between runs under one condition.
        between_sd: s_L, between conditions.
        reproducibility_sd: s_R = sqrt(s_r^2 + s_L^2), between runs under different conditions.
        repeatability_limit: r = 2.8 s_r, None for meaning, which has no scale to differ on.
        reproducibility_limit: R = 2.8 s_R, None for meaning.
    """

    measure: str
    components: VarianceComponents
    repeatability_sd: Interval
    between_sd: Interval
    reproducibility_sd: Interval
    repeatability_limit: Interval | None
    reproducibility_limit: Interval | None


def _deviations(components: FloatArray) -> FloatArray:
    """(4, B) raw components -> (3, B): s_r, s_L and s_R, variances truncated at 0."""
    run = np.maximum(components[3], 0.0)
    between = np.maximum(components[1] + components[2], 0.0)
    return np.sqrt(np.stack([run, between, run + between]))


def _scaled(interval: Interval, factor: float) -> Interval:
    return replace(
        interval,
        estimate=interval.estimate * factor,
        standard_error=interval.standard_error * factor,
        ci_low=interval.ci_low * factor,
        ci_high=interval.ci_high * factor,
    )


def _table(
    measure: str,
    components: VarianceComponents,
    statistic: Callable[[FloatArray], FloatArray],
    n_items: int,
    limits: bool,
    n_resamples: int,
    confidence_level: float,
    seed: int,
) -> GaugeTable:
    s_r, s_l, s_rep = weight_bootstrap(
        lambda weights: _deviations(statistic(weights)),
        n_items,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        seed=seed,
    )
    return GaugeTable(
        measure,
        components,
        s_r,
        s_l,
        s_rep,
        _scaled(s_r, LIMIT_FACTOR) if limits else None,
        _scaled(s_rep, LIMIT_FACTOR) if limits else None,
    )


def gauge_rr(
    values: ArrayLike,
    measure: str,
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> GaugeTable:
    """Gauge R&R of a scalar measure, such as correctness or certainty.

    Args:
        values: (I, P, R), NaN for missing runs.
        measure: name of the measure, kept in the table.
        n_resamples, confidence_level, seed: of the percentile bootstrap over items. Conditions
            are not resampled: the intervals hold for the conditions asked.

    Raises:
        ValueError: as `variance.variance_components`.

    Source: ISO 5725-2:2019, section 7; ISO 5725-6:1994, section 4 for the limits.
    """
    statistic, n_items = scalar_statistic(values)
    components = variance_components(values)
    return _table(
        measure, components, statistic, n_items, True, n_resamples, confidence_level, seed
    )


def gauge_rr_meaning(
    cells: CellSums,
    measure: str = "meaning",
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> GaugeTable:
    """Gauge R&R of meaning: s_r^2 = 1 - w, s_L^2 = w - c, s_R^2 = 1 - c.

    Args:
        cells: `CellSums` of shape (I, P).
        measure, n_resamples, confidence_level, seed: as in `gauge_rr`.

    Raises:
        ValueError: as `meaning.meaning_components`.
    """
    statistic, n_items = meaning_statistic(cells)
    components = meaning_components(cells)
    return _table(
        measure, components, statistic, n_items, False, n_resamples, confidence_level, seed
    )
