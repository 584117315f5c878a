"""The difference of two scores per item: the right paired test, and its clustered error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from lmrel_tasks.metrics.bounds import unseen_share
from lmrel_tasks.metrics.intervals import clustered_stderr
from lmrel_tasks.metrics.paired import PairedTest, mcnemar_test, paired_t
from lmrel_tasks.metrics.paired_proportions import tango_interval
from lmrel_tasks.metrics.resampling import paired_bootstrap, sign_flip_test

# Fewer items than this that differ, and neither a t nor a bootstrap distribution holds.
FEW = 30


def paired_difference(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[object] | None = None,
    *,
    kind: Literal["mean", "level"] = "mean",
    share: bool = True,
    bounded: bool = False,
    confidence_level: float = 0.95,
    n_resamples: int = 9999,
) -> tuple[PairedTest, float]:
    """Test of the mean difference of two values per item, two-sided.

    Exact McNemar with Tango's score interval for 0/1; for other values Student's t, or the
    sign-flip permutation test where fewer than 30 items differ, with a t interval.
    ``kind="level"`` takes the paired bootstrap, McNemar where fewer than 30 items differ, and
    scales by n/(n + 1), as the conformal level does. Clusters of several items get the t test on
    the cluster-robust standard error, with one degree of freedom less than there are clusters;
    where that error is 0, a sign flip of the clusters. Differences that are all alike have no
    spread to make a t interval of. If ``bounded``, theirs is exact: at confidence c no more than
    a share 1 - ((1 - c)/2)**(1/n) of all items can differ otherwise, by at most 1. Else it is NaN.

    Args:
        first, second: (n,) finite values, two items or more.
        clusters: (n,) labels of what is independent; every item by itself if None.
        kind: "mean" or "level".
        share: False if values of 0 and 1 only happen to be such.
        bounded: True if the values cannot leave [0, 1], so that no limit leaves [-1, 1].
        confidence_level: of the interval.
        n_resamples: of permutation and bootstrap.

    Returns:
        the test, and the standard error of the difference.

    Raises:
        ValueError: for other shapes, or values that are not finite.

    Source: Miller (2024), arXiv:2411.00640, sections 2.2 and 4.2, for the clustered paired error.
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or x.size < 2:
        raise ValueError(
            f"first and second need one value per item, two items or more, not shapes {x.shape} "
            f"and {y.shape}"
        )
    d = x - y
    n = len(d)
    labels = (
        np.arange(n)
        if clusters is None
        else np.unique(np.asarray(clusters), return_inverse=True)[1]
    )
    groups = len(np.unique(labels))
    error = clustered_stderr(d, labels)
    estimate = float(d.mean())
    half = float(stats.t.ppf((1 + confidence_level) / 2, max(groups - 1, 1))) * error
    # A constant vector leaves a spread of rounding size.
    alike = bool(np.ptp(d) < 1e-12)
    if alike or error == 0:
        error, half = 0.0, math.nan
    low, high = estimate - half, estimate + half
    if alike and bounded:
        others = unseen_share(groups, (1.0 + confidence_level) / 2)
        low, high = ((1.0 - others) * estimate + side * others for side in (-1.0, 1.0))
    options: dict[str, Any] = {"alternative": "two-sided", "confidence_level": confidence_level}
    binary = share and bool(np.isin(x, (0, 1)).all() and np.isin(y, (0, 1)).all())
    few = int(np.count_nonzero(d)) < FEW
    scale = n / (n + 1) if kind == "level" else 1.0
    if groups < n:
        p = 1.0 if estimate == 0 else min(1.0, 2.0 * 0.5**groups)
        if error > 0:
            p = float(2 * stats.t.sf(abs(estimate) / error, groups - 1))
        test = replace(paired_t(d, **options), method="clustered t", pvalue=p)
    elif kind == "level" and not few and not alike:
        test = paired_bootstrap(d, n_resamples=n_resamples, **options)
        low, high = test.ci_low, test.ci_high
    elif binary:
        test = mcnemar_test(x, y, alternative="two-sided")
        only = int(((x == 1) & (y == 0)).sum()), int(((x == 0) & (y == 1)).sum())
        low, high = tango_interval(*only, n, confidence_level)
    elif few:
        # Items that do not differ never change the permuted mean's sign or order.
        moved = d[d != 0]
        test = sign_flip_test(moved if len(moved) else d[:1], n_resamples=n_resamples, **options)
    else:
        test = paired_t(d, **options)
    if bounded or binary:
        low, high = np.clip((low, high), -1.0, 1.0)
    return (
        replace(
            test, estimate=estimate * scale, ci_low=float(low) * scale,
            ci_high=float(high) * scale, n=n, confidence_level=confidence_level,
        ),
        error * scale,
    )  # fmt: skip
