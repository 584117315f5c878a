"""Published definitions of repeatability and reproducibility, under the names of their versions.

The published work changed its definitions twice, so a number is comparable with a published one
only under the same preset:

* ``shyr-v1``: Shyr et al., "A statistical framework for evaluating the repeatability and
  reproducibility of large language models" (2025), medRxiv 2025.08.06.25333170, version 1. Raw
  cosines, entropies in nats, scores negated so that larger is better.
* ``rs-0.1``: the package llmReproScore, first version. Cosines rescaled to [0, 1], entropies
  divided by log2 k; reproducibility from the mean vectors of the conditions.
* ``rs-0.3``: the same package, later version. Reproducibility from all pairs of runs; the internal
  scores measure the spread of certainty, not its level.

The published scores divide by log k of the k asked for, not of each position's own k, and average
over one item; averages over items are left to the caller. Values are NaN where undefined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.cosine import CellSums, between_cosine, centroid_cosine, within_cosine
from lmrel_tasks.metrics.entropy import internal_stability, mean_pair_distance, nanmean

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class PresetScores:
    """Scores of one item, or of a batch of items in the leading axes.

    Attributes:
        preset: name of the definitions.
        semantic_repeatability: (..., P), one per condition.
        semantic_reproducibility: (...).
        internal_repeatability: (..., P), one per condition; None without entropies.
        internal_reproducibility: (...); None without entropies.
    """

    preset: str
    semantic_repeatability: FloatArray
    semantic_reproducibility: FloatArray
    internal_repeatability: FloatArray | None
    internal_reproducibility: FloatArray | None


def _spread_score(values: FloatArray) -> FloatArray:
    return np.clip(internal_stability(values, ddof=0), 0.0, 1.0)


def shyr_v1(cells: CellSums, entropy: ArrayLike | None = None, k: int = 30) -> PresetScores:
    """Raw cosines, centroid cosine, -H and -mean |H_p - H_q| in nats.

    Args:
        cells: `CellSums` of shape (..., P).
        entropy: (..., P, R) mean token entropy of each run in bits, NaN for missing runs.
        k: unused here, as these scores are not normalised.
    """
    internal = None if entropy is None else nanmean(entropy) * np.log(2.0)
    return PresetScores(
        "shyr-v1",
        within_cosine(cells),
        nanmean(centroid_cosine(cells)),
        None if internal is None else -internal,
        None if internal is None else -mean_pair_distance(internal),
    )


def rs_0_1(cells: CellSums, entropy: ArrayLike | None = None, k: int = 30) -> PresetScores:
    """(1 + w)/2, (1 + centroid cosine)/2, 1 - H/log2 k and 1 - mean |H_p - H_q| / log2 k.

    Args:
        cells: `CellSums` of shape (..., P).
        entropy: (..., P, R) mean token entropy of each run in bits, NaN for missing runs.
        k: number of candidates asked for per position.
    """
    internal = None if entropy is None else nanmean(entropy) / np.log2(k)
    return PresetScores(
        "rs-0.1",
        (1.0 + within_cosine(cells)) / 2.0,
        (1.0 + nanmean(centroid_cosine(cells))) / 2.0,
        None if internal is None else 1.0 - internal,
        None if internal is None else 1.0 - mean_pair_distance(internal),
    )


def rs_0_3(cells: CellSums, entropy: ArrayLike | None = None, k: int = 30) -> PresetScores:
    """(1 + w)/2, (1 + c)/2, and 1 - 2 SD (ddof 0) of certainty over runs and over conditions.

    Args:
        cells: `CellSums` of shape (..., P).
        entropy: (..., P, R) mean token entropy of each run in bits, NaN for missing runs.
        k: number of candidates asked for per position.
    """
    certainty = None
    if entropy is not None:
        certainty = np.clip(1.0 - np.asarray(entropy, dtype=np.float64) / np.log2(k), 0.0, 1.0)
    return PresetScores(
        "rs-0.3",
        (1.0 + within_cosine(cells)) / 2.0,
        (1.0 + nanmean(between_cosine(cells))) / 2.0,
        None if certainty is None else _spread_score(certainty),
        None if certainty is None else _spread_score(nanmean(certainty)),
    )


PRESETS: dict[str, Callable[..., PresetScores]] = {
    "shyr-v1": shyr_v1,
    "rs-0.1": rs_0_1,
    "rs-0.3": rs_0_3,
}


def preset_scores(
    name: str, cells: CellSums, entropy: ArrayLike | None = None, k: int = 30
) -> PresetScores:
    """Scores under the preset called `name`.

    Args:
        name: a key of `PRESETS`.
        cells: `CellSums` of shape (..., P), conditions last.
        entropy: (..., P, R) mean token entropy of each run in bits, NaN for missing runs; None if
            no log-probabilities were captured.
        k: number of candidates asked for per position, at least 2.

    Raises:
        ValueError: for an unknown name, k below 2, or entropies that do not fit the cells.
    """
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}")
    if k < 2:
        raise ValueError(f"k must be at least 2 for a normalised entropy, got {k}")
    if not cells.shape:
        raise ValueError("cells must have conditions on the last axis: shape (..., P)")
    if entropy is not None and np.shape(entropy)[:-1] != cells.shape:
        raise ValueError(
            f"entropy must have shape {(*cells.shape, 'R')} to fit the cells, got "
            f"{np.shape(entropy)}"
        )
    return PRESETS[name](cells, entropy, k)
