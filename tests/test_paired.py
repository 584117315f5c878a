"""Paired tests against scipy and statsmodels, by enumeration, and in degenerate cases."""

import itertools

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from lmrel_tasks.metrics.paired import adjust_pvalues, effect_size, mcnemar_test, paired_t
from lmrel_tasks.metrics.resampling import exchange_test, paired_bootstrap, sign_flip_test

SIDES = ["greater", "less", "two-sided"]


@pytest.fixture
def differences():
    return np.random.default_rng(21).normal(0.4, 1.0, 11)


@pytest.mark.parametrize("alternative", SIDES)
def test_t_agrees_with_scipy(differences, alternative):
    got = paired_t(differences, alternative=alternative)
    want = stats.ttest_1samp(differences, 0, alternative=alternative)
    both = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    assert (got.statistic, got.pvalue) == pytest.approx((want.statistic, want.pvalue))
    assert (got.ci_low, got.ci_high) == pytest.approx((both.low, both.high))


@pytest.mark.parametrize("alternative", SIDES)
def test_listed_sign_flips_agree_with_scipy(differences, alternative):
    want = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", alternative=alternative,
        n_resamples=np.inf, vectorized=False,
    )  # fmt: skip
    got = sign_flip_test(differences, alternative=alternative)
    assert got.pvalue == pytest.approx(want.pvalue, rel=1e-12)
    assert got.n_resamples == 2**11 - 1


def test_drawn_sign_flips_approach_the_listed_ones(differences):
    exact = sign_flip_test(differences).pvalue
    drawn = sign_flip_test(differences, n_resamples=2000)
    assert drawn.n_resamples == 2000
    assert drawn.pvalue == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2000))


def test_interval_holds_the_shifts_that_the_test_keeps(differences):
    got = sign_flip_test(differences, confidence_level=0.9)
    step = 1e-6
    for end, side in ((got.ci_low, "greater"), (got.ci_high, "less")):
        inward = step if side == "greater" else -step
        kept = sign_flip_test(differences - (end + inward), alternative=side).pvalue
        rejected = sign_flip_test(differences - (end - inward), alternative=side).pvalue
        assert rejected <= 0.05 < kept


def test_exchange_lists_every_choice_of_the_targeted_edit():
    rng = np.random.default_rng(22)
    t, b = rng.gamma(1, 2, 5), rng.gamma(1, 1, (5, 3))
    b[1, 2] = np.nan
    b[4, :2] = np.nan
    values = [np.r_[t[i], b[i][~np.isnan(b[i])]] for i in range(5)]

    def statistic(picks):
        return np.mean([v[j] - np.delete(v, j).mean() for v, j in zip(values, picks, strict=True)])

    choices = list(itertools.product(*(range(len(v)) for v in values)))
    seen = statistic((0,) * 5)
    want = np.mean([statistic(c) >= seen - 1e-12 for c in choices])
    got = exchange_test(t, b)
    assert got.n_resamples == len(choices) - 1 == 4 * 3 * 4 * 4 * 2 - 1
    assert got.pvalue == pytest.approx(want, rel=1e-12)
    assert got.estimate == pytest.approx(seen)
    shift = got.ci_low - 1e-6
    assert exchange_test(t - shift, b).pvalue <= 0.025 or got.ci_low == -np.inf


@pytest.mark.parametrize("alternative", SIDES)
def test_bootstrap_agrees_with_scipy(alternative):
    d = np.random.default_rng(23).normal(0.25, 1, 60)
    got = paired_bootstrap(d, alternative=alternative)
    want = stats.bootstrap(
        (d,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    )
    assert (got.ci_low, got.ci_high) == pytest.approx(want.confidence_interval, abs=0.02)
    below = (want.bootstrap_distribution <= 0).mean()
    tails = {"greater": below, "less": 1 - below, "two-sided": 2 * min(below, 1 - below)}
    assert got.pvalue == pytest.approx(tails[alternative], abs=0.012)


def test_bootstrap_of_flips_follows_the_trinomial():
    d = np.repeat([1, 0, -1], [14, 80, 6])
    got = paired_bootstrap(d, n_resamples=40_000)
    # P(X1 <= X-1) for a trinomial, summed over the discordant count.
    want = sum(stats.binom.pmf(m, 100, 0.2) * stats.binom.cdf(m // 2, m, 0.7) for m in range(101))
    assert got.pvalue == pytest.approx(want, abs=4 * np.sqrt(want / 40_000))


@pytest.mark.parametrize("alternative", SIDES)
def test_mcnemar_agrees_with_statsmodels_and_with_sign_flips(alternative):
    t = np.repeat([1, 0, 0, 1], [7, 2, 1, 1])
    b = np.repeat([0, 1, 0, 1], [7, 2, 1, 1])
    got = mcnemar_test(t, b, alternative=alternative)
    two_sided = mcnemar([[1, 7], [2, 1]], exact=True).pvalue
    want = {"greater": two_sided / 2, "less": stats.binom.cdf(7, 9, 0.5), "two-sided": two_sided}
    assert got.pvalue == pytest.approx(want[alternative])
    assert sign_flip_test(t - b, alternative=alternative).pvalue == pytest.approx(got.pvalue)


@pytest.mark.parametrize("test", [paired_t, paired_bootstrap, sign_flip_test])
def test_degenerate_differences(test):
    options = {} if test is paired_t else {"n_resamples": 999}
    for value in (1.0, 0.1, -0.1):
        got = test(np.full(40, value), alternative="two-sided", **options)
        assert got.pvalue <= 2 / 1000 and got.note == "all differences are the same"
        assert got.ci_low == pytest.approx(value) and got.ci_high == pytest.approx(value)
    assert test(np.full(40, 0.1), **options).pvalue <= 1 / 1000
    assert test(np.full(40, 0.1), alternative="less", **options).pvalue == 1
    for alternative in SIDES:
        got = test(np.zeros(40), alternative=alternative, **options)
        assert (got.pvalue, got.ci_low, got.ci_high) == (1, 0, 0)
        assert got.note == "all differences are zero"


def test_mcnemar_without_discordant_items():
    got = mcnemar_test([1, 0, 1], [1, 0, 1])
    assert got.pvalue == 1 and "no item" in got.note
    with pytest.raises(ValueError, match="0 or 1"):
        mcnemar_test([1, 0], [0.5, 0])


def test_plus_one_can_be_left_out():
    assert paired_bootstrap(np.ones(10), n_resamples=99, plus_one=False).pvalue == 0
    assert paired_bootstrap(np.ones(10), n_resamples=99).pvalue == 0.01


def test_infinite_differences_are_ordered_before_finite_ones():
    d = np.r_[np.full(8, np.inf), np.full(32, -5.0)]
    got = sign_flip_test(d, n_resamples=4999)
    # All eight infinities must stay positive: 2^-8, whatever the finite ones do.
    assert got.pvalue == pytest.approx(2**-8, abs=0.004) and got.estimate == np.inf
    assert paired_bootstrap(d, n_resamples=999).pvalue < 0.01
    with pytest.raises(ValueError, match="finite"):
        paired_t(d)


def test_bad_input_is_refused():
    for call in (paired_t, paired_bootstrap, sign_flip_test):
        with pytest.raises(ValueError, match="item 1 is NaN"):
            call([0.1, np.nan])
        with pytest.raises(ValueError, match="no item"):
            call([])
        with pytest.raises(ValueError, match="alternative"):
            call([0.1, 0.2], alternative="larger")
    with pytest.raises(ValueError, match="item 1 has no benign"):
        exchange_test([1.0, 2.0], [[1.0], [np.nan]])


def test_a_batch_gives_what_each_row_gives():
    d = np.random.default_rng(24).normal(0, 1, (6, 15))
    for call in (paired_t, lambda x: sign_flip_test(x, n_resamples=999)):
        together, alone = call(d), [call(row) for row in d]
        assert together.pvalue == pytest.approx([x.pvalue for x in alone])
        assert together.ci_low == pytest.approx([x.ci_low for x in alone])
    flips = np.sign(np.round(d))
    together = paired_bootstrap(flips, n_resamples=4000)
    alone = [paired_bootstrap(row, n_resamples=4000).pvalue for row in flips]
    assert together.pvalue == pytest.approx(alone, abs=0.04)


def test_adjusted_p_by_hand():
    raw = [0.01, 0.04, np.nan, 0.03]
    assert adjust_pvalues(raw) == pytest.approx([0.03, 0.06, np.nan, 0.06], nan_ok=True)
    bonferroni = adjust_pvalues(raw, method="bonferroni")
    assert bonferroni == pytest.approx([0.03, 0.12, np.nan, 0.09], nan_ok=True)
    hochberg = adjust_pvalues(raw, method="fdr_bh")
    assert hochberg == pytest.approx([0.03, 0.04, np.nan, 0.04], nan_ok=True)
    with pytest.raises(ValueError, match="between 0 and 1"):
        adjust_pvalues([1.2])


def test_effect_size():
    assert effect_size([1, 2, 3]) == pytest.approx(2.0)
    assert effect_size([0, 0]) == 0 and effect_size([2, 2]) == np.inf
    assert np.isnan(effect_size([1])) and np.isnan(effect_size([1, np.inf]))
