"""Intervals against scipy and statsmodels, and their coverage in simulation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats

from lmrel_tasks.metrics import intervals
from lmrel_tasks.metrics.variance import scalar_statistic


def test_mean_and_error_equal_scipy() -> None:
    x = np.random.default_rng(0).normal(size=40)
    holes = np.insert(x, [3, 9], np.nan)
    assert intervals.mean_stderr(holes) == pytest.approx(stats.sem(x))
    found = intervals.mean_interval(holes, confidence_level=0.9)
    low, high = stats.t.interval(0.9, 39, x.mean(), stats.sem(x))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high))
    assert (found.n, found.missing, found.method) == (40, 2, "t")


def test_too_few_items_give_no_error() -> None:
    assert math.isnan(intervals.mean_stderr([1.0, np.nan]))
    one = intervals.mean_interval([0.5])
    assert one.estimate == 0.5 and math.isnan(one.ci_low) and math.isnan(one.ci_high)
    assert math.isnan(intervals.mean_interval([]).estimate)


def test_clustered_error_equals_library() -> None:
    rng = np.random.default_rng(1)
    items = rng.integers(0, 15, 200)
    x = rng.normal(size=200) + rng.normal(size=15)[items]
    fit = sm.OLS(x, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": items})
    assert intervals.clustered_stderr(x, items) == pytest.approx(fit.bse[0])
    names = [f"item {i}" for i in items]
    holes, more = np.append(x, np.nan), [*names, "other"]
    assert intervals.clustered_stderr(holes, more) == pytest.approx(fit.bse[0])


def test_clustered_error_of_equal_clusters_is_that_of_their_means() -> None:
    x = np.random.default_rng(2).normal(size=(12, 7)) + np.arange(12)[:, None] % 3
    error = intervals.clustered_stderr(x.ravel(), np.repeat(np.arange(12), 7))
    assert error == pytest.approx(intervals.mean_stderr(x.mean(axis=1)))


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_bootstrap_equals_scipy(method: str) -> None:
    x = np.random.default_rng(3).exponential(size=50)
    found = intervals.item_bootstrap(x, method=method, widen=False, n_resamples=999, seed=4)  # type: ignore[arg-type]
    expected = stats.bootstrap(
        (x,),
        np.mean,
        n_resamples=999,
        method="BCa" if method == "bca" else "percentile",
        random_state=np.random.default_rng(4),
        batch=999,
    )
    limits = expected.confidence_interval
    assert (found.ci_low, found.ci_high) == pytest.approx((limits.low, limits.high))
    assert found.standard_error == pytest.approx(expected.standard_error)
    assert found.method == method


def test_any_statistic_of_several_arrays() -> None:
    rng = np.random.default_rng(5)
    runs = rng.normal(size=(30, 4)) + rng.normal(size=(30, 1))
    weight = rng.uniform(1, 2, 30)

    def ratio(a: NDArray, b: NDArray) -> float:
        return float((a.mean(axis=1) * b).sum() / b.sum())

    found = intervals.item_bootstrap((runs, weight), ratio, n_resamples=500)
    assert found.estimate == pytest.approx(ratio(runs, weight)) and found.n == 30
    assert found.ci_low < found.estimate < found.ci_high
    mean = intervals.item_bootstrap(runs[:, 0], lambda a: float(a.mean()), n_resamples=500)
    direct = intervals.item_bootstrap(runs[:, 0], n_resamples=500)
    assert (mean.ci_low, mean.ci_high) == pytest.approx((direct.ci_low, direct.ci_high))


def test_widening_matches_student_for_a_normal_mean() -> None:
    x = np.random.default_rng(6).normal(size=20)
    found = intervals.item_bootstrap(x, n_resamples=20000)
    t = intervals.mean_interval(x)
    assert found.ci_high - found.ci_low == pytest.approx(t.ci_high - t.ci_low, rel=0.03)


def test_missing_items_are_counted_and_left_out() -> None:
    x = np.random.default_rng(7).normal(size=25)
    found = intervals.item_bootstrap(np.append(x, [np.nan, np.nan]))
    same = intervals.item_bootstrap(x)
    assert (found.n, found.missing) == (25, 2)
    assert (found.ci_low, found.ci_high) == (same.ci_low, same.ci_high)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_constant_values_give_a_point(method: str) -> None:
    found = intervals.item_bootstrap(np.ones(10), method=method)  # type: ignore[arg-type]
    assert (found.ci_low, found.estimate, found.ci_high) == (1.0, 1.0, 1.0)
    assert found.method == "percentile"


def test_undefined_resamples_are_left_out() -> None:
    x = np.array([np.nan] * 8 + [1.0, 3.0])

    def mean(values: NDArray) -> float:
        kept = values[~np.isnan(values)]
        return float(kept.mean()) if kept.size else float("nan")

    found = intervals.item_bootstrap(x, mean)
    assert found.estimate == 2.0 and (found.ci_low, found.ci_high) == (1.0, 3.0)
    nothing = intervals.item_bootstrap(x[:8], mean)
    assert math.isnan(nothing.ci_low) and math.isnan(nothing.standard_error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: intervals.item_bootstrap([1.0]), "two items"),
        (lambda: intervals.item_bootstrap(([1.0, 2.0], [1.0])), "differ"),
        (lambda: intervals.item_bootstrap(([1.0, 2.0], [1.0, 2.0])), "give a statistic"),
        (lambda: intervals.item_bootstrap([[1.0], [2.0]]), "one number per item"),
        (lambda: intervals.mean_interval([1.0, 2.0], confidence_level=95), "confidence_level"),
        (lambda: intervals.clustered_stderr([1.0, 2.0], [0]), "one length"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def accuracy(rng: np.random.Generator) -> NDArray:
    """Share of five runs correct on items of very different difficulty; true mean 0.8."""
    return rng.binomial(5, rng.beta(1.6, 0.4, (500, 60))) / 5


def certainty(rng: np.random.Generator) -> NDArray:
    """Skewed values near 1; true mean 1 - 0.1 * 2."""
    return 1 - 0.1 * rng.gamma(2.0, size=(500, 60))


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("draw", [accuracy, certainty])
def test_coverage_of_means_with_sixty_items(
    method: str, draw: Callable[[np.random.Generator], NDArray]
) -> None:
    rng = np.random.default_rng(8)
    covered = 0
    for seed in range(8):
        # Five hundred data sets at once, as so many statistics of the same resamples.
        x = draw(rng).T
        found = intervals.weight_bootstrap(
            lambda weights, x=x: (weights @ x / 60).T,  # type: ignore[misc]
            60,
            method=method,  # type: ignore[arg-type]
            n_resamples=1500,
            seed=seed,
        )
        assert found[7].estimate == pytest.approx(x[:, 7].mean())
        covered += sum(f.ci_low <= 0.8 <= f.ci_high for f in found)
    assert covered / 4000 >= 0.93


def test_coverage_of_variance_components_with_sixty_items() -> None:
    rng = np.random.default_rng(9)
    condition = np.array([0.3, -0.3, 0.0])
    # Over items, with these conditions: s_r^2, and s_L^2 with the interaction's 0.25.
    truth = np.array([0.49, condition.var(ddof=1) + 0.25])
    covered = np.zeros(2)
    for seed in range(8):
        cell = rng.normal(size=(500, 60, 1)) + condition + 0.5 * rng.normal(size=(500, 60, 3))
        data = cell[..., None] + 0.7 * rng.normal(size=(500, 60, 3, 4))
        each = [scalar_statistic(y)[0] for y in data]

        def both(weights: NDArray, each: list[Callable] = each) -> NDArray:
            _, condition_part, cell_part, run = np.stack([one(weights) for one in each], axis=1)
            return np.concatenate([run, condition_part + cell_part])

        found = intervals.weight_bootstrap(both, 60, n_resamples=1000, seed=seed)
        limits = np.array([(f.ci_low, f.ci_high) for f in found]).reshape(2, 500, 2)
        inside = (limits[..., 0] <= truth[:, None]) & (truth[:, None] <= limits[..., 1])
        covered += inside.sum(axis=1)
    assert (covered / 4000 >= 0.93).all()


def test_several_statistics_equal_one_by_one() -> None:
    x = np.random.default_rng(11).exponential(size=(30, 3))
    for method in ("percentile", "bca"):
        together = intervals.weight_bootstrap(
            lambda w: (w @ x / 30).T,
            30,
            method=method,  # type: ignore[arg-type]
            n_resamples=300,
        )
        for column, found in zip(x.T, together, strict=True):
            alone = intervals.item_bootstrap(column, method=method, n_resamples=300)  # type: ignore[arg-type]
            assert (found.ci_low, found.ci_high) == pytest.approx((alone.ci_low, alone.ci_high))


def test_coverage_of_clustered_errors_with_sixty_items() -> None:
    rng = np.random.default_rng(10)
    sizes = rng.integers(2, 12, 60)
    items = np.repeat(np.arange(60), sizes)
    quantile = stats.t.ppf(0.975, 59)
    covered = 0
    for _ in range(1000):
        x = rng.normal(size=60)[items] + rng.normal(size=items.size)
        covered += abs(x.mean()) <= quantile * intervals.clustered_stderr(x, items)
    assert covered / 1000 >= 0.93
