"""Comparisons of conditions and of right and wrong answers against scipy and statsmodels."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.stats.multitest import multipletests

from lmrel_tasks.metrics import comparisons, correctness


def table(seed: int = 0, items: int = 40, conditions: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(items, 1)) + rng.normal(size=(items, conditions)) + [0, 0, 0.4, 0.8]


def test_pairs_equal_scipy_with_holm_over_pairs() -> None:
    x = table()
    x[3, 1] = np.nan
    found = comparisons.compare_conditions(x, ["a", "b", "c", "d"])
    assert [(f.first, f.second) for f in found] == list(combinations("abcd", 2))
    for pair in found:
        p, q = "abcd".index(pair.first), "abcd".index(pair.second)
        kept = ~np.isnan(x[:, p] - x[:, q])
        t = stats.ttest_rel(x[kept, p], x[kept, q])
        w = stats.wilcoxon(x[kept, p], x[kept, q])
        assert pair.n == kept.sum()
        assert (pair.t_statistic, pair.t_pvalue) == pytest.approx((t.statistic, t.pvalue))
        assert (pair.ci_low, pair.ci_high) == pytest.approx(tuple(t.confidence_interval()))
        assert (pair.wilcoxon_statistic, pair.wilcoxon_pvalue) == pytest.approx(
            (w.statistic, w.pvalue)
        )
    for name in ("t", "wilcoxon"):
        raw = [getattr(f, f"{name}_pvalue") for f in found]
        adjusted = [getattr(f, f"{name}_pvalue_adjusted") for f in found]
        assert adjusted == pytest.approx(multipletests(raw, method="holm")[1])


@pytest.mark.parametrize("n", [3, 6, 9])
def test_few_items_with_ties_equal_scipys_enumeration(n: int) -> None:
    rng = np.random.default_rng(n)
    values = rng.integers(0, 3, (n, 2)).astype(float)
    (pair,) = comparisons.compare_conditions(values)
    gap = values[:, 0] - values[:, 1]
    expected = stats.wilcoxon(gap, method=stats.PermutationMethod(n_resamples=2**n))
    assert pair.wilcoxon_statistic == expected.statistic
    assert pair.wilcoxon_pvalue == pytest.approx(expected.pvalue)


def test_holm_equals_library() -> None:
    p = np.random.default_rng(0).uniform(0, 0.2, 9)
    np.testing.assert_allclose(comparisons.holm(p), multipletests(p, method="holm")[1])


def test_plain_answers_of_degenerate_pairs() -> None:
    x = np.round(table() * 8) / 8
    x[:, 1], x[:, 2], x[:, 3] = x[:, 0], x[:, 0] + 0.5, np.nan
    same, shifted, missing, *_ = comparisons.compare_conditions(x)
    assert (same.t_pvalue, same.wilcoxon_pvalue, same.difference) == (1.0, 1.0, 0.0)
    assert (shifted.difference, shifted.t_pvalue) == (-0.5, 0.0)
    assert shifted.t_statistic == -math.inf and shifted.ci_low == shifted.ci_high == -0.5
    assert missing.n == 0 and math.isnan(missing.t_pvalue_adjusted)


def test_missing_tests_do_not_count_in_the_correction() -> None:
    raw = np.array([0.01, np.nan, 0.04])
    np.testing.assert_allclose(comparisons.holm(raw), [0.02, np.nan, 0.04])
    assert np.isnan(comparisons.holm([np.nan])).all()


def test_friedman_equals_scipy() -> None:
    x = table(1)
    expected = stats.friedmanchisquare(*x[1:].T)
    x[0, 2] = np.nan
    found = comparisons.friedman(x)
    assert (found.statistic, found.pvalue) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.n == 39 and found.effect == pytest.approx(expected.statistic / (39 * 3))


def test_friedman_extremes() -> None:
    ordered = comparisons.friedman(np.arange(3.0) + np.zeros((10, 1)))
    assert ordered.effect == pytest.approx(1.0)
    assert comparisons.friedman(np.ones((5, 3))).pvalue == 1.0
    nothing = comparisons.friedman(np.full((5, 3), np.nan))
    assert math.isnan(nothing.pvalue) and "two items" in nothing.note
    with pytest.raises(ValueError, match="three conditions"):
        comparisons.friedman(np.ones((5, 2)))


def test_noninferiority_bound_is_a_bootstrap_limit() -> None:
    rng = np.random.default_rng(2)
    reference = rng.normal(size=60)
    candidate = reference + 0.2 * rng.normal(size=60) - 0.02
    found = comparisons.noninferiority(candidate, reference, 0.1)
    gap = candidate - reference
    t_bound = gap.mean() - stats.t.ppf(0.975, 59) * stats.sem(gap)
    assert found.difference == pytest.approx(gap.mean())
    assert found.lower_bound == pytest.approx(t_bound, abs=0.006)
    assert found.noninferior == (found.lower_bound > -0.1)
    assert not comparisons.noninferiority(candidate, reference, 0.0).noninferior


def test_items_that_all_agree_are_judged_by_the_exact_bound() -> None:
    for n, shown in ((4, False), (71, False), (72, True)):
        found = comparisons.noninferiority(np.zeros(n), np.zeros(n), 0.05, largest_loss=1.0)
        exact = stats.binomtest(0, n).proportion_ci(0.95).high
        assert found.alike and found.lower_bound == pytest.approx(-exact)
        assert found.noninferior == shown
    shifted = comparisons.noninferiority(np.full(4, 0.5), np.full(4, 0.25), 0.3, largest_loss=1.0)
    share = stats.binomtest(0, 4).proportion_ci(0.95).high
    assert shifted.lower_bound == pytest.approx((1 - share) * 0.25 - share)
    unknown = comparisons.noninferiority(np.zeros(500), np.zeros(500), 0.05)
    assert np.isnan(unknown.lower_bound) and not unknown.noninferior


def test_noninferiority_keeps_its_level_at_the_margin() -> None:
    rng = np.random.default_rng(3)
    claimed = 0
    for seed in range(400):
        gap = rng.normal(-0.1, 0.5, 60)
        claimed += comparisons.noninferiority(
            gap, np.zeros(60), 0.1, alpha=0.05, n_resamples=400, seed=seed
        ).noninferior
    # Three standard errors above the nominal 5 %.
    assert claimed / 400 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_groups_equal_scipy() -> None:
    rng = np.random.default_rng(4)
    right = rng.integers(0, 2, 50).astype(float)
    x = rng.normal(size=50) + 0.8 * right
    expected = stats.mannwhitneyu(x[right == 1], x[right == 0], alternative="greater")
    x, right = np.append(x, [np.nan, 1.0]), np.append(right, [1.0, np.nan])
    found = correctness.compare_groups(x, right, alternative="greater")
    assert (found.statistic, found.pvalue) == pytest.approx((expected.statistic, expected.pvalue))
    assert found.n == 50
    greater = [np.sign(a - b) for a in x[right == 1][:-1] for b in x[right == 0]]
    assert found.effect == pytest.approx(np.mean(greater))


def test_groups_without_contrast_and_refusals() -> None:
    none = correctness.compare_groups([1.0, 2.0], [1, 1])
    assert math.isnan(none.pvalue) and "empty" in none.note
    with pytest.raises(ValueError, match="0 or 1"):
        correctness.compare_groups([1.0, 2.0], [0.5, 1.0])
    with pytest.raises(ValueError, match="one length"):
        correctness.compare_groups([1.0, 2.0], [1.0])


def runs(seed: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    items = np.repeat(np.arange(40), 6)
    correct = rng.integers(0, 2, 240).astype(float)
    values = 0.6 * (spread * rng.normal(size=40)[items] + 0.5 * correct + rng.normal(size=240))
    return values, correct, items


def test_mixed_model_equals_library() -> None:
    values, correct, items = runs(5)
    found = correctness.mixed_comparison(values, correct, [f"i{i}" for i in items])
    fit = smf.mixedlm("y ~ x", pd.DataFrame({"y": values, "x": correct}), groups=items).fit(
        method="bfgs"
    )
    assert found.coefficient == pytest.approx(fit.params["x"], rel=1e-5)
    assert found.standard_error == pytest.approx(fit.bse["x"], rel=1e-4)
    assert found.pvalue == pytest.approx(fit.pvalues["x"], rel=1e-3)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(fit.conf_int().loc["x"]), rel=1e-3)
    assert found.item_variance == pytest.approx(float(fit.cov_re.iloc[0, 0]), rel=1e-3)
    assert found.residual_variance == pytest.approx(fit.scale, rel=1e-3)
    assert (found.n, found.n_items) == (240, 40)


def test_mixed_model_sees_within_items_only_what_differs_within_them() -> None:
    # Easy items are right more often and score higher, yet being right adds nothing.
    rng = np.random.default_rng(6)
    level = rng.normal(size=60)
    items = np.repeat(np.arange(60), 20)
    correct = (rng.uniform(size=1200) < 1 / (1 + np.exp(-2 * level[items]))).astype(float)
    values = 3 * level[items] + rng.normal(size=1200)
    naive = stats.linregress(correct, values).slope
    found = correctness.mixed_comparison(values, correct, items)
    assert naive > 2 and abs(found.coefficient) < 0.25


@pytest.mark.filterwarnings("ignore:The MLE may be on the boundary")
def test_mixed_model_without_item_variance() -> None:
    values, correct, items = runs(1, spread=0.0)
    found = correctness.mixed_comparison(values, correct, items)
    ols = stats.linregress(correct, values)
    assert found.note == "" and found.item_variance == 0.0
    assert found.coefficient == pytest.approx(ols.slope)
    assert found.standard_error == pytest.approx(ols.stderr)
    # Powell's search in the library, which does not stop early there, agrees.
    frame = pd.DataFrame({"y": values, "x": correct})
    fit = smf.mixedlm("y ~ x", frame, groups=items).fit(method="powell")
    assert float(fit.cov_re.iloc[0, 0]) == pytest.approx(0.0, abs=1e-4)
    assert found.coefficient == pytest.approx(fit.params["x"], rel=1e-3)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda v, c, i: (v, c * 0, i), "equally correct"),
        (lambda v, c, i: (v[::6], c[::6], i[::6]), "several observations"),
        (lambda v, c, i: (v * 0, c, i), "does not vary"),
        (lambda v, c, i: (v * np.nan, c, i), "equally correct"),
    ],
)
def test_mixed_model_says_why_it_is_undefined(change, note: str) -> None:  # type: ignore[no-untyped-def]
    found = correctness.mixed_comparison(*change(*runs(7)))
    assert note in found.note and math.isnan(found.pvalue)


def test_bad_input_is_refused() -> None:
    for call, message in [
        (lambda: comparisons.compare_conditions(np.ones(3)), "shape"),
        (lambda: comparisons.compare_conditions(np.ones((3, 2)), ["a"]), "names"),
        (lambda: comparisons.noninferiority([1.0, 2.0], [1.0], 0.1), "one length"),
        (lambda: comparisons.noninferiority([1.0, 2.0], [1.0, 2.0], -0.1), "margin"),
        (lambda: comparisons.noninferiority([1.0, 2.0], [1.0, 2.0], 0.1, alpha=0.9), "alpha"),
        (lambda: comparisons.noninferiority([1.0, np.nan], [1.0, 2.0], 0.1), "two items"),
        (lambda: correctness.mixed_comparison([1.0], [1.0, 0.0], [0]), "one length"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
