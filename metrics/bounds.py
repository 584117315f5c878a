"""Exact binomial bounds, and how many items a claim needs.

A reliability level is a share of items that succeeded. What a gate may rely on is the lower
confidence bound of that share; both the bound and the sample size that makes it high enough are
exact here (no normal approximation), because gates live near 1, where approximations fail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

MAX_ITEMS = 2_000_000


@dataclass(frozen=True)
class Proportion:
    """A share `successes / n` with its Clopper-Pearson interval; the share of no items is nan."""

    estimate: float
    ci_low: float
    ci_high: float
    successes: int
    n: int
    confidence: float


@dataclass(frozen=True)
class ItemsNeeded:
    """The smallest number of items that can show a reliability, and how many may fail in it."""

    n: int
    successes_required: int
    failures_allowed: int
    power: float


@dataclass(frozen=True)
class CoverageLaw:
    """How the coverage of one calibrated rule varies with the calibration items it happened to get.

    `quantiles` maps probability to coverage; `probability_below` is P(coverage < 1 - alpha).
    """

    mean: float
    std: float
    quantiles: dict[float, float]
    probability_below: float
    feasible: bool


def unseen_share(n: int, confidence: float) -> float:
    """Upper bound of the share of items that do what none of n did: Clopper-Pearson for 0 of n.

    1 - (1 - confidence)**(1/n), the root of (1 - q)**n = 1 - confidence.
    """
    return 1.0 - (1.0 - confidence) ** (1.0 / n)


def check_probability(value: float, name: str) -> float:
    """`value` as a float in the open interval (0, 1); ValueError names the argument otherwise."""
    number = float(value)
    if not 0.0 < number < 1.0:
        hint = f"; did you mean {number / 100:g}?" if 1 < number < 100 else ""
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}{hint}")
    return number


def clopper_pearson(
    successes: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    alternative: str = "two-sided",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Exact confidence limits of a binomial proportion, element by element.

    Parameters
    ----------
    successes, n : integer array_like, broadcast against each other
    confidence : coverage of the interval, in (0, 1)
    alternative : "two-sided", "greater" (a lower limit; the upper one is 1) or "less", as in
        `scipy.stats.binomtest`

    Returns
    -------
    (low, high) : arrays of the broadcast shape. No items (n = 0) give (0, 1).

    Raises
    ------
    ValueError : successes outside 0..n, or an unknown alternative.

    References
    ----------
    Clopper & Pearson (1934), Biometrika 26(4), doi:10.1093/biomet/26.4.404. The limits are
    quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k).
    """
    tail = 1.0 - check_probability(confidence, "confidence")
    k, size = np.broadcast_arrays(np.asarray(successes), np.asarray(n))
    if np.any(k < 0) or np.any(k > size):
        raise ValueError("successes must lie between 0 and n")
    if alternative == "two-sided":
        tail /= 2.0
    elif alternative not in ("greater", "less"):
        raise ValueError(
            f'alternative must be "two-sided", "greater" or "less", got {alternative!r}'
        )
    low, high = np.zeros(k.shape), np.ones(k.shape)
    if alternative != "less":
        some = k > 0  # with no success the limit is 0 and the Beta law does not exist
        low[some] = stats.beta.ppf(tail, k[some], size[some] - k[some] + 1)
    if alternative != "greater":
        some = k < size
        high[some] = stats.beta.isf(tail, k[some] + 1, size[some] - k[some])
    return low, high


def proportion(successes: int, n: int, confidence: float = 0.95) -> Proportion:
    """A share of `n` items with its exact two-sided interval."""
    low, high = clopper_pearson(successes, n, confidence)
    return Proportion(
        estimate=successes / n if n else float("nan"),
        ci_low=float(low),
        ci_high=float(high),
        successes=int(successes),
        n=int(n),
        confidence=float(confidence),
    )


def conditional_coverage_law(
    n: int, alpha: float, probabilities: tuple[float, ...] = (0.05, 0.5, 0.95)
) -> CoverageLaw:
    """Law of the true coverage given the calibration items: Beta(n + 1 - l, l).

    l = floor((n + 1) alpha). The guarantee of conformal prediction averages over calibration sets;
    a single set of n items gives a coverage drawn from this law. Exact for scores without ties
    (ranks have many, which only moves coverage up). With l = 0 no rule is feasible, only the
    set of everything covers, and the law is a point mass at 1.

    References
    ----------
    Vovk (2012), "Conditional validity of inductive conformal predictors", section 3.
    """
    check_probability(alpha, "alpha")
    if n < 0:
        raise ValueError(f"n must not be negative, got {n}")
    misses = misses_allowed(n, alpha)
    if misses == 0:
        return CoverageLaw(1.0, 0.0, {p: 1.0 for p in probabilities}, 0.0, False)
    law = stats.beta(n + 1 - misses, misses)
    return CoverageLaw(
        mean=float(law.mean()),
        std=float(law.std()),
        quantiles={p: float(law.ppf(p)) for p in probabilities},
        probability_below=float(law.cdf(1.0 - alpha)),
        feasible=True,
    )


def misses_allowed(n: int, alpha: float) -> int:
    """floor((n + 1) alpha) for the number that `alpha` stands for, not for its rounding.

    0.1 * 30 and (1 - 0.1) * 10 are not integers in binary; the slack, far below any alpha of
    practical use, keeps ranks where the decimal arithmetic puts them.
    """
    return int(np.floor((n + 1) * alpha + 1e-9))


def items_needed(
    reliability: float,
    confidence: float = 0.95,
    accuracy: float = 1.0,
    power: float | None = None,
) -> ItemsNeeded:
    """The smallest n whose Clopper-Pearson lower bound can show `reliability`.

    Parameters
    ----------
    reliability : what is to be shown, in (0, 1)
    confidence : of the one-sided lower bound
    accuracy : assumed true share of items whose mode is right, in (reliability, 1]. The default, 1,
        is the zero-failure design: n = ceil(log(1 - confidence) / log(reliability)).
    power : None plans for the expected outcome, floor(accuracy n) successes (about an even chance);
        a probability plans for a bound that reaches `reliability` at least that often.

    Returns
    -------
    ItemsNeeded, with the power of that n. Power is a saw-tooth in n: a slightly larger n can
    have less.

    Raises
    ------
    ValueError : accuracy is not above `reliability`, or more than 2,000,000 items would be needed.
    """
    check_probability(reliability, "reliability")
    check_probability(confidence, "confidence")
    if power is not None:
        check_probability(power, "power")
    if not reliability < accuracy <= 1.0:
        raise ValueError(
            f"accuracy must lie above the reliability to be shown ({reliability:g}) and at most "
            f"at 1, got {accuracy!r}: no number of items shows more than is true"
        )
    start, step = _scan_from(reliability, confidence, accuracy, power), 1024
    while start <= MAX_ITEMS:
        n = np.arange(start, start + step)
        # The bound reaches x with k successes exactly when P(Binomial(n, x) >= k) <= 1 - confidence
        required = stats.binom.isf(1.0 - confidence, n, reliability).astype(np.int64) + 1
        chance = stats.binom.sf(required - 1, n, accuracy)
        expected = np.floor(accuracy * n + 1e-9)
        enough = (expected >= required) if power is None else (chance >= power)
        enough &= required <= n
        if enough.any():
            at = int(np.argmax(enough))
            return ItemsNeeded(
                n=int(n[at]),
                successes_required=int(required[at]),
                failures_allowed=int(n[at] - required[at]),
                power=float(chance[at]),
            )
        start, step = start + step, min(step * 2, 16_384)
    raise ValueError(
        f"more than {MAX_ITEMS:,} items are needed to show {reliability:g} at a true accuracy of "
        f"{accuracy:g}; ask for less or improve the model"
    )


def _scan_from(reliability: float, confidence: float, accuracy: float, power: float | None) -> int:
    """An n safely below the answer, from the normal approximation where that is close."""
    z_bound, z_power = stats.norm.ppf(confidence), stats.norm.ppf(0.5 if power is None else power)
    spread, spread_true = (float(np.sqrt(p * (1 - p))) for p in (reliability, accuracy))
    n = ((z_bound * spread + z_power * spread_true) / (accuracy - reliability)) ** 2
    # 20 % fewer items lower the distance to the bound by a tenth of z_bound + z_power standard
    # errors, one item moves it by 1 / sqrt(n x (1 - x)): once that is smaller, 0.8 n is too few
    return int(0.8 * n) if n * spread**2 > 400 and z_bound + z_power > 1 else 1
