"""Direction regression against scipy's and textbook formulas, and where there is no slope."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from lmrel_tasks.metrics.direction import direction_regression, panel_direction
from lmrel_tasks.metrics.panel import panel


def probabilities(odds):
    return np.stack([expit(odds), expit(-np.asarray(odds))], axis=-1)


@pytest.fixture
def experiment():
    rng = np.random.default_rng(41)
    direction = np.repeat([1.0, -1.0], [40, 20])
    before = rng.normal(0, 1, 60)
    after = before + 0.5 + 0.3 * direction + rng.normal(0, 0.4 + 0.2 * (direction > 0), 60)
    return before, after, direction


def test_slope_and_hc3_by_hand(experiment):
    before, after, direction = experiment
    got = direction_regression(probabilities(after), probabilities(before), direction)
    line = stats.linregress(direction, after - before)
    assert (got.beta, got.intercept) == pytest.approx((line.slope, line.intercept))
    # With two groups HC3 is half the root of the sum of s^2 / (m - 1).
    y = after - before
    parts = [np.var(y[direction == s], ddof=1) / (sum(direction == s) - 1) for s in (1, -1)]
    assert got.std_error == pytest.approx(np.sqrt(sum(parts)) / 2)
    assert got.df == 58
    assert got.pvalue == pytest.approx(2 * stats.t.sf(abs(got.statistic), 58))
    one_sided = direction_regression(
        probabilities(after), probabilities(before), direction, alternative="greater"
    )
    assert one_sided.pvalue == pytest.approx(got.pvalue / 2)


def test_clusters_by_hand(experiment):
    before, after, direction = experiment
    groups = np.arange(60) // 4
    got = direction_regression(
        probabilities(after), probabilities(before), direction, clusters=groups
    )
    x = np.column_stack([direction, np.ones(60)])
    y = after - before
    bread = np.linalg.inv(x.T @ x)
    residual = y - x @ (bread @ x.T @ y)
    scores = np.array([x[groups == g].T @ residual[groups == g] for g in range(15)])
    meat = scores.T @ scores * 15 / 14 * 59 / 58
    assert got.std_error == pytest.approx(np.sqrt((bread @ meat @ bread)[0, 0]))
    assert (got.df, got.n_clusters, got.covariance) == (14, 15, "cluster")
    assert got.pvalue == pytest.approx(2 * stats.t.sf(abs(got.statistic), 14))


def test_paraphrases_are_averaged_and_missing_ones_left_out(experiment):
    before, after, direction = experiment
    several = probabilities(np.column_stack([before - 1, before + 1]))
    got = direction_regression(probabilities(after), several, direction)
    want = direction_regression(probabilities(after), probabilities(before), direction)
    assert got.beta == pytest.approx(want.beta)
    several[:, 1] = np.nan
    alone = direction_regression(probabilities(after), several, direction)
    assert alone.intercept == pytest.approx(want.intercept + 1)


def test_extreme_probabilities_are_left_out_and_counted(experiment):
    before, after, direction = experiment
    p = probabilities(after)
    p[[3, 50]] = [1.0, 0.0]
    got = direction_regression(p, probabilities(before), direction)
    assert (got.n, got.n_infinite) == (58, 2) and np.isfinite(got.beta)
    clipped = direction_regression(p, probabilities(before), direction, clip=1e-6)
    assert (clipped.n, clipped.n_infinite) == (60, 0)


def test_outcome_may_differ_by_item(experiment):
    before, after, direction = experiment
    outcome = np.arange(60) % 2
    got = direction_regression(probabilities(after), probabilities(before), direction, outcome)
    sign = np.where(outcome == 0, 1, -1)
    assert got.beta == pytest.approx(stats.linregress(direction, sign * (after - before)).slope)


def test_no_slope_is_said_so(experiment):
    before, after, direction = experiment
    p, q = probabilities(after), probabilities(before)
    same = direction_regression(p, q, np.ones(60))
    assert np.isnan(same.beta) and "same direction" in same.note
    few = direction_regression(p[:2], q[:2], direction[:2])
    assert np.isnan(few.pvalue) and "too few" in few.note
    alone = direction_regression(p, q, np.r_[-1.0, np.ones(59)])
    assert np.isnan(alone.beta) and "HC3" in alone.note
    one = direction_regression(p, q, direction, clusters=np.zeros(60))
    assert np.isnan(one.beta) and "clusters" in one.note


def test_bad_input_is_refused(experiment):
    before, after, direction = experiment
    p, q = probabilities(after), probabilities(before)
    with pytest.raises(ValueError, match="level form needs original"):
        direction_regression(p, q, direction, form="level")
    with pytest.raises(ValueError, match="one entry per item"):
        direction_regression(p, q[:5], direction)
    with pytest.raises(ValueError, match="item 0 is NaN"):
        direction_regression(p, q, np.r_[np.nan, direction[1:]])
    with pytest.raises(ValueError, match="preset"):
        panel_direction(panel(q, p, q), direction, preset="mine")
    for wrong in ({"form": "ratio"}, {"response": "logit"}, {"covariance": "HC9"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            direction_regression(p, q, direction, **wrong)
