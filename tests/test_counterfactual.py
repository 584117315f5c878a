"""Divergences, panels and degenerate excess tests, against scipy and scikit-learn."""

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from sklearn.metrics import matthews_corrcoef, mutual_info_score

from lmrel_tasks.metrics import counterfactual as formulas
from lmrel_tasks.metrics.association import bootstrap_test
from lmrel_tasks.metrics.excess import excess, item_values
from lmrel_tasks.metrics.panel import answer_shares, panel


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    return rng.dirichlet(np.ones(4), 50), rng.dirichlet(np.ones(4), 50)


def one_hot(labels, options=2):
    return np.eye(options)[np.asarray(labels)]


# --- formulas -------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [2, np.e, 10])
def test_divergences_agree_with_scipy(rows, base):
    p, q = rows
    kl = formulas.kl_divergence(p, q, base=base)
    jsd = formulas.js_divergence(p, q, base=base)
    assert kl == pytest.approx(entropy(p, q, base=base, axis=1), rel=1e-12)
    assert jsd == pytest.approx(jensenshannon(p, q, base=base, axis=1) ** 2, rel=1e-9)


def test_zero_probability_is_infinite_for_kl_and_finite_for_jsd():
    p, q = [[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    assert formulas.kl_divergence(p, q).tolist() == [np.inf, 1.0, 0.0]
    jsd = formulas.js_divergence(p, q)
    assert jsd[0] == pytest.approx(jsd[1]) and np.isfinite(jsd).all() and jsd[2] == 0
    assert formulas.js_divergence([1.0, 0.0], [0.0, 1.0]) == 1.0


def test_base_must_exceed_one(rows):
    with pytest.raises(ValueError, match="base"):
        formulas.js_divergence(*rows, base=1)


def test_log_odds_shift_follows_the_original_answer():
    p = np.array([[0.8, 0.2], [0.3, 0.7], [1.0, 0.0], [1.0, 0.0]])
    q = np.array([[0.5, 0.5], [0.4, 0.6], [1.0, 0.0], [0.9, 0.1]])
    expected = [np.log(4), abs(np.log(0.7 / 0.3) - np.log(0.6 / 0.4)), 0.0, np.inf]
    assert formulas.log_odds_shift(p, q) == pytest.approx(expected)


def test_information_and_phi_agree_with_scikit_learn():
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 4, 300), rng.integers(0, 4, 300)
    b = np.where(rng.random(300) < 0.5, a, b)
    found = formulas.association(a, b, 4, base=np.e)
    assert found.value == pytest.approx(mutual_info_score(a, b), rel=1e-10)
    assert found.n == 300
    binary = formulas.association(a % 2, b % 2, 2, measure="phi")
    assert binary.value == pytest.approx(matthews_corrcoef(a % 2, b % 2), rel=1e-12)


def test_missing_labels_are_left_out_of_the_table():
    found = formulas.association([0, 1, -1, 1], [0, 1, 1, -1], 2, base=2)
    assert (found.value, found.n) == (pytest.approx(1.0), 2)
    assert formulas.labels([[0.2, 0.8], [np.nan, np.nan], [0.5, 0.5]]).tolist() == [1, -1, 0]
    assert np.isnan(formulas.flips([0, -1], [1, 1])).tolist() == [False, True]


# --- the panel ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.6], "targeted, row 1 .*'b'.*sum to 1"),
        ([-0.1, 1.1], "targeted, row 1 .*'b'.*negative"),
        ([np.nan, 1.0], "targeted, row 1 .*'b'.*NaN"),
        ([np.nan, np.nan], "targeted, row 1 .*'b'.*NaN"),
        ([np.inf, 0.0], "targeted, row 1 .*'b'.*sum to 1"),
    ],
)
def test_bad_rows_are_named(row, message):
    good = np.full((3, 2), 0.5)
    bad = good.copy()
    bad[1] = row
    with pytest.raises(ValueError, match=message):
        panel(good, bad, good, ids=["a", "b", "c"])


def test_a_bad_paraphrase_is_named():
    good = np.full((3, 2), 0.5)
    benign = np.full((3, 2, 2), 0.5)
    benign[2, 1] = [0.2, 0.2]
    with pytest.raises(ValueError, match=r"benign, row 2 .*paraphrase 1"):
        panel(good, good, benign)


def test_partly_nan_is_an_error_even_when_missing_is_allowed():
    good = np.full((2, 2), 0.5)
    with pytest.raises(ValueError, match="row 0"):
        panel(good, [[np.nan, 1.0], [0.5, 0.5]], good, nan_policy="omit")


def test_options_items_and_ids_must_match():
    two, three = np.full((3, 2), 0.5), np.full((3, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"targeted has 3 options and original has 2 \(row 0"):
        panel(two, three, two)
    with pytest.raises(ValueError, match="benign has shape"):
        panel(two, two, two[:2])
    with pytest.raises(ValueError, match="'x' appears again in row 2"):
        panel(two, two, two, ids=["x", "y", "x"])


def test_missing_items_are_excluded_and_counted():
    rng = np.random.default_rng(5)
    original, targeted = rng.dirichlet([1, 1], 10), rng.dirichlet([1, 1], 10)
    benign = rng.dirichlet([1, 1], (10, 2))
    targeted[0] = np.nan
    benign[1] = np.nan
    benign[2, 0] = np.nan
    data = panel(original, targeted, benign, ids=list("abcdefghij"), nan_policy="omit")
    assert data.ids == tuple("cdefghij") and data.n_excluded == 2
    assert dict(data.missing) == {"original": 0, "targeted": 1, "benign": 1}
    result = excess(data, "jsd", n_resamples=199)
    assert (result.n, result.n_excluded) == (8, 2)
    _, reworded, _ = item_values(data, "jsd")
    assert np.isnan(reworded).sum() == 1
    whole = formulas.js_divergence(original[2:, None], benign[2:])
    assert result.baseline_value == pytest.approx(np.nanmean(whole, axis=1).mean())


def test_refusals_are_missing_and_never_create_significance():
    options = ["yes", "no"]
    shares = answer_shares(["Yes ", "yes", "ye\u0301s", None, "I cannot answer"], options)
    assert shares[:2].tolist() == [[1, 0], [1, 0]] and np.isnan(shares[2:]).all()
    composed = answer_shares(["caf\u00e9", "cafe\u0301"], ["café", "tea"])
    assert composed.tolist() == [[1, 0], [1, 0]]
    assert answer_shares([["no", "refused", "No", "yes"]], options)[0] == pytest.approx(
        [1 / 3, 2 / 3]
    )
    yes = answer_shares(["yes"] * 40, options)
    refused = answer_shares(["As a model I cannot say."] * 30 + ["yes"] * 10, options)
    data = panel(yes, refused, yes, nan_policy="omit")
    for metric in ("flip", "jsd", "kl", "mi"):
        result = excess(data, metric, n_resamples=199)
        assert result.pvalue == 1 and result.n == 10 and result.n_excluded == 30


# --- degenerate cases -----------------------------------------------------------------------


@pytest.mark.parametrize("test", ["permutation", "bootstrap", "mcnemar"])
def test_every_pair_flips_against_none(test):
    before, after = one_hot([0] * 30 + [1] * 30), one_hot([1] * 30 + [0] * 30)
    got = excess(panel(before, after, before), "flip", test=test, n_resamples=999)
    assert got.excess == 1 and got.pvalue <= 1 / 1000


@pytest.mark.parametrize("test", ["permutation", "bootstrap", "t"])
@pytest.mark.parametrize("metric", ["jsd", "kl", "log_odds"])
def test_a_constant_shift_is_found_with_a_finite_interval(test, metric):
    before = np.tile([0.9, 0.1], (40, 1))
    after = np.tile([0.6, 0.4], (40, 1))
    got = excess(panel(before, after, before), metric, test=test, n_resamples=999)
    assert got.pvalue <= 1 / 1000
    assert got.ci_low == pytest.approx(got.excess) and got.ci_high == pytest.approx(got.excess)
    assert got.note == "all differences are the same"


@pytest.mark.parametrize("metric", ["flip", "jsd", "kl", "log_odds", "mi"])
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_no_difference_at_all_is_p_one_and_said_so(metric, alternative):
    rng = np.random.default_rng(6)
    before, after = rng.dirichlet([1, 1], 30), rng.dirichlet([1, 1], 30)
    got = excess(panel(before, after, after), metric, alternative=alternative, n_resamples=199)
    assert got.pvalue == 1 and got.excess == 0
    assert "all differences are zero" in got.note or "all the same" in got.note


def test_infinite_kl_is_reported_and_counts_first():
    before = np.tile([0.6, 0.4], (60, 1))
    after, reworded = np.tile([0.6, 0.4], (60, 1)), np.tile([0.55, 0.45], (60, 1))
    after[:12] = [1.0, 0.0]
    got = excess(panel(before, after, reworded), "kl", n_resamples=999)
    assert got.targeted == got.excess == np.inf
    assert (got.infinite_targeted, got.infinite_baseline) == (0.2, 0.0)
    # Twelve infinite items all on one side: 2^-12 under exchange.
    assert got.pvalue <= 0.003 and "20.0%" in got.note
    assert np.isnan(excess(panel(before, after, reworded), "kl", test="t").pvalue)
    both = excess(panel(before, after, after), "kl", n_resamples=199)
    assert both.pvalue == 1 and np.isnan(both.excess) and both.infinite_baseline == 0.2
    finite = excess(panel(before, after, reworded), "jsd", n_resamples=999)
    assert np.isfinite([finite.excess, finite.ci_low, finite.ci_high]).all()


def test_imbalance_leaves_phi_undefined_and_items_powered():
    rng = np.random.default_rng(7)
    odds = np.full(100, 4.0)
    odds[:2] = -4.0
    moved = odds.copy()
    moved[:2] = 0.5

    def probabilities(x):
        return np.column_stack([1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))])

    data = panel(
        probabilities(odds),
        probabilities(np.abs(moved) - 1.5 + rng.normal(0, 0.1, 100)),
        probabilities(odds + rng.normal(0, 0.1, 100)),
    )
    per_item = excess(data, "jsd", n_resamples=999)
    assert per_item.pvalue <= 0.001
    constant = panel(data.original, np.tile([0.9, 0.1], (100, 1)), data.benign)
    phi = excess(constant, "phi", n_resamples=199)
    assert np.isnan(phi.pvalue) and np.isnan(phi.excess) and "undefined for targeted" in phi.note
    answers = formulas.labels(constant.original), formulas.labels(constant.targeted)
    assert "every perturbed answer" in formulas.association(*answers, 2, measure="phi").reason
    # Two rare answers miss 0.98^100 = 13 % of all resamples.
    labels = formulas.labels(data.original)
    lost = bootstrap_test(labels, labels, labels, 2, measure="phi", n_resamples=4000)
    assert lost.n_undefined / 4000 == pytest.approx(0.98**100, abs=0.02)
    assert "undefined in" in lost.note


def test_four_options():
    rng = np.random.default_rng(8)
    original = rng.dirichlet(np.ones(4), 80)
    logit = np.log(original)

    def shaken(scale):
        x = np.exp(logit + rng.normal(0, scale, (80, 4)))
        return x / x.sum(1, keepdims=True)

    data = panel(original, shaken(1.5), shaken(0.3))
    for metric in ("flip", "jsd", "kl", "log_odds", "mi"):
        assert excess(data, metric, n_resamples=999).pvalue < 0.01
    answers = [formulas.labels(x) for x in (data.original, data.targeted)]
    got = excess(data, "mi", n_resamples=9, base=np.e)
    assert got.targeted == pytest.approx(mutual_info_score(*answers))


def test_rerun_is_a_baseline_of_its_own():
    rng = np.random.default_rng(9)
    p, q = rng.dirichlet([2, 2], 30), rng.dirichlet([2, 2], 30)
    again = p.copy()
    again[0] = np.nan
    data = panel(p, q, q, rerun=again, nan_policy="omit")
    assert data.n == 30
    got = excess(data, "jsd", baseline="rerun", n_resamples=999)
    assert got.n == 29 and got.baseline_value == 0 and got.pvalue <= 0.001
    with pytest.raises(ValueError, match="rerun"):
        excess(panel(p, q, q), "jsd", baseline="rerun")


def test_tests_that_do_not_fit_are_refused():
    rng = np.random.default_rng(12)
    data = panel(*(rng.dirichlet([1, 1], 12) for _ in range(3)))
    for metric, test in (("mi", "t"), ("phi", "mcnemar"), ("jsd", "mcnemar"), ("jsd", "sign")):
        with pytest.raises(ValueError, match="test"):
            excess(data, metric, test=test)
    for wrong in ({"preset": "mine"}, {"baseline": "none"}, {"alternative": "bigger"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            excess(data, "jsd", **wrong)
