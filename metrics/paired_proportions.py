"""The difference of two proportions of the same items."""

from __future__ import annotations

import math

from scipy import optimize, stats

from lmrel_tasks.metrics.bounds import check_probability


def tango_interval(
    only_first: int, only_second: int, n: int, confidence_level: float = 0.95
) -> tuple[float, float]:
    """Tango's score interval of p_first - p_second of n items that both answer with 0 or 1.

    The differences that a score test keeps, its variance taken under each of them. It never leaves
    [-1, 1] and has a width even if no item, or every item, is discordant.

    Args:
        only_first, only_second: items that count 1 for the first alone, for the second alone.
        n: items.
        confidence_level: of the two-sided interval.

    Raises:
        ValueError: for negative counts, more discordant items than items, no item, or a level
            outside (0, 1).

    Source: Tango (1998), "Equivalence test and confidence interval for the difference in
    proportions for the paired-sample design", Statistics in Medicine 17, 891-908; recommended in
    Fagerland, Lydersen and Laake (2014), Statistics in Medicine 33, 2850-2875.
    """
    check_probability(confidence_level, "confidence_level")
    if n < 1 or min(only_first, only_second) < 0 or only_first + only_second > n:
        raise ValueError(
            f"{only_first} and {only_second} discordant items do not fit into {n} items"
        )
    z = float(stats.norm.ppf((1 + confidence_level) / 2))
    estimate = (only_first - only_second) / n

    def limit(end: float) -> float:
        """Where the score leaves [-z, z] on the way from the estimate to -1 or 1."""
        if estimate == end:
            return end
        # The score is 0 at the estimate and unbounded at the end.
        inner = math.nextafter(end, 0.0)
        wanted = z if end < 0 else -z

        def gap(d: float) -> float:
            return _score(d, only_first, only_second, n) - wanted

        # Beyond what floating point tells apart from the end.
        if gap(inner) * wanted < 0:
            return end
        return float(optimize.brentq(gap, *sorted((estimate, inner)), xtol=1e-12))

    return limit(-1.0), limit(1.0)


def _score(d: float, only_first: int, only_second: int, n: int) -> float:
    distance = only_first - only_second - n * d
    if distance == 0:
        return 0.0
    # q: the share of items that only the second has, most likely under the difference d.
    linear = -only_first - only_second + (2 * n - only_first + only_second) * d
    constant = -only_second * d * (1 - d)
    q = (math.sqrt(max(linear**2 - 8 * n * constant, 0.0)) - linear) / (4 * n)
    variance = n * (2 * q + d * (1 - d))
    return math.copysign(math.inf, distance) if variance <= 0 else distance / math.sqrt(variance)
