"""How many items, and the smallest effect that so many items can show.

The sampling unit is the item. Between two conditions A and B asked K_A and K_B times, the mean
difference of n items has variance (omega^2 + sigma_A^2 / K_A + sigma_B^2 / K_B) / n: omega^2 is
the variance over items of the true difference, sigma^2 the variance over runs within an item.
"""

from __future__ import annotations

import math

from statsmodels.stats.power import TTestPower, normal_sample_size_one_tail


def difference_variance(
    item_variance: float,
    run_variance_a: float = 0.0,
    run_variance_b: float = 0.0,
    runs_a: int = 1,
    runs_b: int = 1,
) -> float:
    """Variance over items of an observed difference, omega^2 + sigma_A^2/K_A + sigma_B^2/K_B.

    Parameters
    ----------
    item_variance : float
        omega^2, of the true difference between items.
    run_variance_a, run_variance_b : float
        Variance of one run within an item under A and B.
    runs_a, runs_b : int
        Runs per item that are averaged.

    Raises
    ------
    ValueError
        For a negative variance or fewer than one run.
    """
    if min(item_variance, run_variance_a, run_variance_b) < 0:
        raise ValueError("variances must not be negative")
    if min(runs_a, runs_b) < 1:
        raise ValueError("runs_a and runs_b must be 1 or more")
    return item_variance + run_variance_a / runs_a + run_variance_b / runs_b


def sample_size(
    effect: float,
    item_variance: float,
    run_variance_a: float = 0.0,
    run_variance_b: float = 0.0,
    runs_a: int = 1,
    runs_b: int = 1,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: str = "two-sided",
) -> int:
    """Items needed to find a mean difference, rounded up.

    n = (z_{alpha/2} + z_beta)^2 (omega^2 + sigma_A^2/K_A + sigma_B^2/K_B) / effect^2, with
    z_alpha in place of z_{alpha/2} for a one-sided test.

    Parameters
    ----------
    effect : float
        Difference to find, in the units of the standard deviations; not zero.
    item_variance, run_variance_a, run_variance_b, runs_a, runs_b
        See `difference_variance`.
    alpha, power : float
    alternative : {"two-sided", "greater", "less"}

    Raises
    ------
    ValueError
        For a zero effect, or a value out of range.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 5.
    """
    tail = _tail(alpha, power, alternative)
    if effect == 0:
        raise ValueError("effect must not be zero: no number of items shows no difference")
    variance = difference_variance(item_variance, run_variance_a, run_variance_b, runs_a, runs_b)
    needed = normal_sample_size_one_tail(abs(effect), power, tail, std_null=math.sqrt(variance))
    # A whole number that comes out a rounding error too high must not ask for one item more.
    return max(1, math.ceil(float(needed) - 1e-9))


def minimum_detectable_effect(
    standard_deviation: float,
    n: int,
    *,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: str = "greater",
) -> float:
    """Smallest mean paired difference that a t-test on n items finds with the given power.

    Parameters
    ----------
    standard_deviation : float
        Of the paired differences, ddof = 1.
    n : int
        Items, two or more.
    alpha, power : float
    alternative : {"two-sided", "greater", "less"}
        "greater" and "less" give the same size.

    Returns
    -------
    float
        In the units of the standard deviation; 0 when that is 0. Noncentral t
        (`statsmodels.stats.power.TTestPower`).

    Raises
    ------
    ValueError
    """
    _tail(alpha, power, alternative)
    if n < 2:
        raise ValueError("n must be 2 or more")
    if not standard_deviation >= 0 or math.isinf(standard_deviation):
        raise ValueError("standard_deviation must be finite and not negative")
    if standard_deviation == 0:
        return 0.0
    side = "two-sided" if alternative == "two-sided" else "larger"
    size = TTestPower().solve_power(nobs=n, alpha=alpha, power=power, alternative=side)
    return float(size) * standard_deviation


def _tail(alpha: float, power: float, alternative: str) -> float:
    if not 0 < alpha < 1 or not 0 < power < 1:
        raise ValueError("alpha and power must lie between 0 and 1")
    if alternative not in ("two-sided", "greater", "less"):
        raise ValueError(f"alternative must be two-sided, greater or less, not {alternative!r}")
    return alpha / 2 if alternative == "two-sided" else alpha
