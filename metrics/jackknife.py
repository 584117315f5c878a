"""Jackknife standard errors over items, for statistics that are not means over items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

# Beyond this many items whole blocks of them are left out, which keeps the work linear in items.
MAX_BLOCKS = 500
_MAX_WEIGHTS = 100_000


def jackknife_error(left_out: ArrayLike) -> float | None:
    """Standard error from the values of a statistic with one item (or one block) left out.

    Args:
        left_out: (n,) the values.

    Returns:
        sqrt((n - 1)/n sum (value - mean)^2); None with fewer than two values, or if one is NaN.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), formula 11.5.
    """
    x = np.asarray(left_out, dtype=np.float64)
    if x.size < 2 or not np.isfinite(x).all():
        return None
    return math.sqrt((x.size - 1) / x.size * float(np.square(x - x.mean()).sum()))


def weight_jackknife(
    statistic: Callable[[FloatArray], FloatArray], n_items: int, *, max_blocks: int = MAX_BLOCKS
) -> float | None:
    """Standard error of a statistic that is a function of item weights.

    Args:
        statistic: from weights (B, I) to (B,), as for `intervals.weight_bootstrap`.
        n_items: number of items I.
        max_blocks: with more items, item i belongs to block i modulo max_blocks.

    Returns:
        as `jackknife_error`.
    """
    if min(n_items, max_blocks) < 2:
        return None
    return jackknife_error(left_out(statistic, n_items, max_blocks=max_blocks))


def left_out(
    statistic: Callable[[FloatArray], FloatArray], n_items: int, *, max_blocks: int = MAX_BLOCKS
) -> FloatArray:
    """A statistic of item weights with one block left out at a time.

    Args:
        statistic: from weights (B, I) to (..., B).
        n_items, max_blocks: as in `weight_jackknife`.

    Returns:
        (..., blocks), what `jackknife_error` takes along its last axis.
    """
    blocks = min(n_items, max_blocks)
    member = np.arange(n_items) % blocks
    batch = max(_MAX_WEIGHTS // n_items, 1)
    parts = []
    for start in range(0, blocks, batch):
        chosen = np.arange(start, min(start + batch, blocks))
        weights = (member[None, :] != chosen[:, None]).astype(np.float64)
        parts.append(np.asarray(statistic(weights), dtype=np.float64))
    return np.concatenate(parts, axis=-1)


def block_jackknife(
    rows: Sequence[Any], statistic: Callable[[list[Any]], float], *, max_blocks: int = MAX_BLOCKS
) -> float | None:
    """Standard error of any statistic of a list of items; blocks as in `weight_jackknife`."""
    blocks = min(len(rows), max_blocks)
    if blocks < 2:
        return None
    return jackknife_error(
        [
            statistic([row for i, row in enumerate(rows) if i % blocks != block])
            for block in range(blocks)
        ]
    )
