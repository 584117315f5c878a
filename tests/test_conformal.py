"""Scores, levels, sets and coverage, against published values, closed forms and simulation."""

import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lmrel_tasks.metrics import bounds, conformal
from lmrel_tasks.metrics.answer_classes import (
    count_classes,
    mode_accuracy,
    prediction_sets,
    scores,
    table_from_counts,
)

DATA = Path(__file__).parent / "data"
PUBLISHED = json.loads((DATA / "conformal_sets.json").read_text())
REPEATS = 5000


def published_set(name, part=None):
    chosen = PUBLISHED["sets"][name]
    ids = list(chosen["canonical"]) if part is None else chosen[part]
    table = count_classes([chosen["canonical"][i] for i in ids], keys=ids)
    return chosen, ids, table, [{chosen["labels"][i]} for i in ids]


# Published values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["A", "B"])
def test_published_scores(name):
    chosen, ids, table, labels = published_set(name)
    got = dict(zip(ids, scores(table, labels, ties="conservative"), strict=True))
    expected = {i: float(s) for i, s in chosen["scores"].items()}
    if name == "A":
        # the package ranks the empty answer as if it were a class; without it "B" leads
        assert expected["a4"] == 2.0
        expected["a4"] = 1.0
    assert got == expected


def test_published_ties_lie_between_their_worst_and_best_order():
    # the package breaks ties by the alphabet, worst for a3, a6, a7, b9
    for name, tied in (
        ("A", {"a3": {1, 2}, "a6": {1, 2, 3, 4, 5}, "a7": {1, 2}}),
        ("B", {"b9": {3, 4}}),
    ):
        _, ids, table, labels = published_set(name)
        fixed = scores(table, labels, ties="conservative")
        seen = {i: set() for i in tied}
        for seed in range(200):
            drawn = scores(table, labels, seed=seed)
            for position, i in enumerate(ids):
                if i in tied:
                    seen[i].add(drawn[position])
                else:
                    assert drawn[position] == fixed[position]
        assert seen == tied


@pytest.mark.parametrize("name", ["A", "B"])
def test_published_calibration(name):
    chosen, _, table, labels = published_set(name, "cal_ids")
    calibration = scores(table, labels, ties="conservative")
    _, _, test_table, test_labels = published_set(name, "test_ids")
    test = scores(test_table, test_labels, ties="conservative")
    level = conformal.reliability_level(calibration)
    # A holds a4, wrongly scored 2 by the package: its 1/7 is 2/7
    assert level.level == (2 / 7 if name == "A" else chosen["by_alpha"]["0.1"]["reliability_level"])
    for alpha_text, row in chosen["by_alpha"].items():
        alpha = float(alpha_text)
        size = conformal.m_star(calibration, alpha)
        rank = math.ceil(round((1 - alpha) * (level.n + 1), 9))
        if rank > level.n or row["q_hat"] == "inf":
            # the package clamps the rank or falls back on n_cal; there is no such set size
            assert (size.m_star, size.feasible) == (math.inf, False)
            assert size.reason
        else:
            assert size.feasible and size.m_star == float(row["q_hat"])
        got = conformal.split_coverage(calibration, test, alpha, test_table.classes)
        assert got.coverage == pytest.approx(row["coverage"])
        assert got.coverage_solvable == pytest.approx(row["conditional_coverage"])
        assert got.capability_gap.estimate == pytest.approx(row["capability_gap"])
        # a8 has five empty answers: the package counts a set of one, there is no class at all
        empty = 1 / 6 if name == "A" else 0.0
        assert got.mean_set_size == pytest.approx(row["mean_set_size_test"] - empty)


def test_all_wrong_is_infeasible_and_says_so():
    size = conformal.m_star(np.full(20, np.inf), 0.05)  # the package: M* = 20
    assert (size.m_star, size.feasible) == (math.inf, False)
    assert "20 of 20 items never sampled" in size.reason
    assert size.smallest_alpha == 1.0


def test_too_few_items_are_infeasible():
    size = conformal.m_star([1, 1, 1], 0.05)  # the package: 1
    assert (size.rank, size.m_star) == (4, math.inf)
    assert "at least 19 calibration items" in size.reason
    assert not conformal.m_star([1] * 18, 0.05).feasible
    assert conformal.m_star([1] * 19, 0.05).m_star == 1


def test_none_of_these_counts_against_the_level():
    answers = [["A", "A", "B"]] * 20
    got = scores(count_classes(answers), [{"A"}] * 10 + [set()] * 10)
    assert conformal.reliability_level(got).level == pytest.approx(10 / 21)  # the package: 10/11
    assert conformal.capability_gap(got).estimate == 0.5  # the package: 0


def test_coverage_without_test_items_is_not_zero():
    got = conformal.split_coverage([1, 1, 2], [], 0.5)
    assert math.isnan(got.coverage) and math.isnan(got.miscoverage) and got.n == 0


def test_several_acceptable_labels():
    got = scores(count_classes([["43"] * 5] * 9), [{"42", "43"}] * 9)
    assert conformal.reliability_level(got).level == 9 / 10  # the package: 0
    mixed = scores(count_classes([["x", "x", "y", "z", "z", "z"]]), [["y", "x"]])
    assert mixed.tolist() == [2.0]


def test_percent_for_a_probability_is_refused():
    for alpha in (95, 5, 0, 1, -0.1, math.nan):
        with pytest.raises(ValueError, match="alpha"):
            conformal.m_star([1, 2], alpha)
    with pytest.raises(ValueError, match=r"did you mean 0\.95"):
        conformal.m_star([1, 2], 95)


# Classes and ties ---------------------------------------------------------------------------------


def test_empty_answers_are_runs_without_a_class():
    table = count_classes([["", "", "5"], ["", ""], []])
    assert table.runs.tolist() == [3, 2, 0]
    assert table.classes.tolist() == [1, 0, 0]
    assert scores(table, [{"5"}, {"5"}, {"5"}]).tolist() == [1, math.inf, math.inf]
    with pytest.raises(ValueError, match="empty acceptable label"):
        scores(table, [{"5"}, {"5"}, {""}])


def test_refusal_is_a_class_of_its_own():
    table = count_classes([["refusal", "refusal", "7"]])
    assert scores(table, [{"7"}]).tolist() == [2]
    assert scores(table, [{"refusal"}]).tolist() == [1]


def test_counts_equal_a_counter_for_awkward_strings():
    rng = np.random.default_rng(3)
    pool = ["", "a", "b", "ab", "a ", " a", "12345678", "123456789", "1234567890123456", "Ünï"]
    pool += ["日本語の答え", "x" * 100, "x" * 99 + "y", "y" + "x" * 99, "a\0b", "a\\0b", "\ud83d"]
    answers = [
        [pool[k] for k in rng.integers(len(pool), size=rng.integers(0, 30))] for _ in range(400)
    ]
    table = count_classes(answers)
    sets = prediction_sets(table, math.inf)
    for item, runs in enumerate(answers):
        expected = Counter(answer for answer in runs if answer)
        rows = table.item == item
        assert sorted(table.count[rows].tolist()) == sorted(expected.values())
        assert set(sets[item]) == set(expected)
        assert [expected[label] for label in sets[item]] == sorted(expected.values(), reverse=True)


def test_ties_are_a_fair_coin_for_every_position():
    n = 20000
    three = scores(count_classes([["B", "A", "C"]] * n), ["B"] * n)
    assert stats.chisquare(np.bincount(three.astype(int))[1:]).pvalue > 1e-3
    two_of_three = scores(count_classes([["B", "A", "C"]] * n), [{"B", "C"}] * n)
    ahead = np.bincount(two_of_three.astype(int))[1:]
    assert stats.chisquare(ahead, [n * 2 / 3, n / 3]).pvalue > 1e-3
    numbered = scores(table_from_counts(np.full((n, 2), 5)), np.zeros(n, dtype=int))
    assert stats.binomtest(int((numbered == 1).sum()), n).pvalue > 1e-3
    seeds = [scores(count_classes([["B", "A"]]), ["B"], seed=s)[0] for s in range(400)]
    assert stats.binomtest(seeds.count(1.0), 400).pvalue > 1e-3


def test_ties_depend_on_key_and_seed_alone():
    rng = np.random.default_rng(0)
    keys = [f"item-{i}" for i in range(300)]
    answers = [list("abcd") for _ in keys]
    first = scores(count_classes(answers, keys), ["a"] * 300)
    order = rng.permutation(300)
    shuffled = [list(rng.permutation(answers[i])) for i in order]
    again = scores(count_classes(shuffled, [keys[i] for i in order]), ["a"] * 300)
    np.testing.assert_array_equal(again, first[order])
    assert not np.array_equal(scores(count_classes(answers, keys), ["a"] * 300, seed=1), first)


def test_ties_are_the_same_in_another_process():
    code = (
        "from lmrel_tasks.metrics.answer_classes import count_classes, scores;"
        "t = count_classes([['longer than eight', 'x', 'y']] * 40, keys=range(40));"
        "print(scores(t, ['longer than eight'] * 40).astype(int).tolist())"
    )
    texts = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1] and len(set(json.loads(texts[0]))) == 3


def test_conservative_is_the_worst_random_rank():
    rng = np.random.default_rng(1)
    table = table_from_counts(rng.integers(0, 3, size=(300, 5)))
    right = rng.integers(-1, 5, size=(300, 2))
    worst = scores(table, right, ties="conservative")
    drawn = np.array([scores(table, right, seed=s) for s in range(300)])
    np.testing.assert_array_equal(drawn.max(axis=0), worst)
    # the mode, on average over tie-breaks, is what mode_accuracy says it is
    np.testing.assert_allclose((drawn == 1).mean(axis=0), mode_accuracy(table, right), atol=0.13)
    assert abs((drawn == 1).mean() - mode_accuracy(table, right).mean()) < 0.01


def test_mode_accuracy_of_small_cases():
    table = count_classes([list("aab"), list("ab"), list("abc"), ["", ""], list("bba")])
    got = mode_accuracy(table, [{"a"}, {"a"}, {"a", "c"}, {"a"}, {"a"}])
    np.testing.assert_allclose(got, [1, 1 / 2, 2 / 3, 0, 0])


def test_a_set_holds_an_acceptable_label_when_the_score_says_so():
    rng = np.random.default_rng(2)
    answers = [[str(x) for x in rng.integers(0, 6, size=rng.integers(1, 12))] for _ in range(500)]
    labels = [{str(x) for x in rng.integers(0, 6, size=rng.integers(0, 3))} for _ in range(500)]
    table = count_classes(answers)
    drawn, worst = scores(table, labels, seed=7), scores(table, labels, ties="conservative")
    for m in (0, 1, 2, 3, math.inf):
        for item, chosen in enumerate(prediction_sets(table, m, seed=7)):
            assert len(chosen) == min(m, len(set(answers[item])))
            holds = bool(labels[item] & set(chosen))
            assert holds == (np.isfinite(drawn[item]) and drawn[item] <= m)
            assert holds or not (np.isfinite(worst[item]) and worst[item] <= m)


@pytest.mark.parametrize(
    ("answers", "labels", "keys", "error", "words"),
    [
        (["AB"], ["A"], None, TypeError, "item 0 are one string"),
        ([["A"], ["B", 3]], ["A", "B"], None, TypeError, "item 1 has 3"),
        ([["A"], None], ["A", "B"], None, TypeError, "item 1 are None"),
        ([["A"], ["B"]], ["A", None], None, TypeError, "labels of item 1 are None"),
        ([["A"], ["B"]], ["A", {1.5}], None, TypeError, "item 1 has 1.5"),
        ([["A"], ["B"]], ["A"], None, ValueError, "2 items have answers but 1"),
        ([["A"], ["B"]], ["A", "B"], ["q", "q"], ValueError, "'q' occurs twice"),
        ([["A"], ["B"]], ["A", "B"], ["q"], ValueError, "1 keys"),
    ],
)
def test_bad_input_is_named(answers, labels, keys, error, words):
    with pytest.raises(error, match=words):
        scores(count_classes(answers, keys), labels)


# Degenerate inputs --------------------------------------------------------------------------------


def test_no_items():
    table = count_classes([])
    empty = scores(table, [])
    assert empty.shape == mode_accuracy(table, []).shape == (0,)
    assert prediction_sets(table, 1) == []
    level = conformal.reliability_level(empty)
    assert (level.level, level.lower, level.n) == (0.0, 0.0, 0)
    assert not conformal.m_star(empty, 0.1).feasible
    for method in ("leave-one-out", "k-fold"):
        got = conformal.coverage(empty, 0.1, table.classes, method=method)
        assert got.n == 0 and math.isnan(got.coverage)


def test_one_item_and_one_run():
    table = count_classes([["A"]])
    one = scores(table, ["A"])
    level = conformal.reliability_level(one)
    assert level.level == 0.5 and level.lower == pytest.approx(0.05)
    assert not conformal.m_star(one, 0.49).feasible
    assert conformal.m_star(one, 0.5).m_star == 1
    got = conformal.coverage(one, 0.1, table.classes)
    assert (got.coverage, got.miscoverage, got.infeasible) == (1.0, 0.0, 1.0)


@pytest.mark.parametrize("answers", [["A", "A"], ["refusal"] * 3, ["", ""], []])
def test_nothing_right(answers):
    table = count_classes([answers] * 30)
    none = scores(table, ["B"] * 30)
    assert np.isinf(none).all()
    level = conformal.reliability_level(none)
    assert (level.level, level.lower) == (0.0, 0.0)
    got = conformal.coverage(none, 0.1, table.classes)
    assert got.coverage == 0 and got.infeasible == 1 and got.miscoverage == 0
    assert got.capability_gap.estimate == 1 and math.isnan(got.coverage_solvable)
    assert got.mean_set_size == len(set(answers) - {""})


def test_unequal_runs_per_item():
    table = count_classes([["A"], ["B", "A", "A"], [], ["B"] * 20])
    assert table.runs.tolist() == [1, 3, 0, 20]
    assert scores(table, ["A"] * 4).tolist() == [1, 1, math.inf, math.inf]


@pytest.mark.parametrize("wrong", [[0.5], [1, math.nan], [[1, 2]]])
def test_scores_are_checked(wrong):
    with pytest.raises(ValueError, match=r"scores|score \d is"):
        conformal.reliability_level(wrong)


# Quantiles, coverage, groups ----------------------------------------------------------------------


def test_rank_is_decimal_arithmetic():
    from fractions import Fraction

    for thousandths in range(1, 1000, 7):
        alpha = Fraction(thousandths, 1000)
        for n in (*range(0, 60), 99, 199, 999, 12345):
            expected = math.ceil((1 - alpha) * (n + 1))
            assert conformal.conformal_rank(n, thousandths / 1000) == expected
    assert conformal.conformal_rank(9, 0.1) == 9
    assert conformal.conformal_rank(2, 1 / 3) == 2


def test_leave_one_out_is_the_plain_loop():
    rng = np.random.default_rng(5)
    for n in (1, 2, 7, 30):
        values = rng.choice([1, 2, 3, np.inf], p=[0.6, 0.2, 0.1, 0.1], size=(20, n))
        for alpha in (0.05, 0.2, 0.5):
            got = conformal.leave_one_out_thresholds(values, alpha)
            for row in range(20):
                for i in range(n):
                    others = np.delete(values[row], i)
                    assert got[row, i] == conformal.conformal_quantile(others, alpha)


def test_leave_one_out_of_distinct_scores_covers_a_fixed_share():
    values = np.random.default_rng(6).random((40, 25))
    covered = values <= conformal.leave_one_out_thresholds(values, 0.2)
    np.testing.assert_allclose(covered.mean(axis=1), math.ceil(0.8 * 25) / 25)


def test_k_fold_leaves_the_whole_fold_out():
    values = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    got = conformal.k_fold_thresholds(values, 0.3, folds=5, seed=1)
    for threshold in np.unique(got):
        assert threshold in values[got != threshold]
    np.testing.assert_array_equal(
        conformal.k_fold_thresholds(values, 0.3, folds=99),
        conformal.leave_one_out_thresholds(values, 0.3),
    )
    same = conformal.coverage(values, 0.3, method="k-fold", folds=99)
    assert same.coverage == conformal.coverage(values, 0.3).coverage
    with pytest.raises(ValueError, match="method"):
        conformal.coverage(values, 0.3, method="jackknife")


def test_groups_are_calibrated_apart():
    values = np.array([1, 1, 1, np.inf, 1, 2, 2, 2])
    groups = ["law"] * 4 + ["physics"] * 4
    got = conformal.by_group(groups, lambda s: conformal.m_star(s, 0.4), values)
    assert list(got) == ["law", "physics"]
    assert (got["law"].m_star, got["physics"].m_star) == (1.0, 2.0)
    assert got["law"].n == 4
    with pytest.raises(ValueError, match="group labels"):
        conformal.by_group(["law"], np.mean, values)


# Exact bounds -------------------------------------------------------------------------------------


def test_lower_bound_is_that_of_scipy_and_of_the_reference():
    for n in (1, 2, 17, 50, 400):
        for k in {0, 1, n // 2, n - 1, n}:
            expected = stats.binomtest(k, n, alternative="greater").proportion_ci(0.95)
            low, high = bounds.clopper_pearson(k, n, alternative="greater")
            assert (float(low), float(high)) == (pytest.approx(expected.low, abs=1e-12), 1.0)
            both = stats.binomtest(k, n).proportion_ci(0.9)
            share = bounds.proportion(k, n, 0.9)
            assert share.ci_low == pytest.approx(both.low, abs=1e-12)
            assert share.ci_high == pytest.approx(both.high, abs=1e-12)
    for k, n, level, lower in PUBLISHED["simulations"]["clopper_pearson_lower95"]:
        got = conformal.reliability_level([1] * k + [2] * (n - k))
        assert (round(got.level, 4), round(got.lower, 4)) == (level, lower)
        assert conformal.reliability_level([1] * k + [2] * (n - k), m=2).successes == n


def test_the_level_alone_overstates_and_the_bound_does_not():
    table = PUBLISHED["simulations"]["P_reported_level_gt_true_p"]
    for n, row in zip(table["n"], table["rows"], strict=True):
        k = np.arange(n + 1)
        lower, _ = bounds.clopper_pearson(k, n, alternative="greater")
        for p, share in zip(table["p"], row, strict=True):
            chance = stats.binom.pmf(k, n, p)
            level = k / (n + 1)
            assert chance[level > p].sum() == pytest.approx(share, abs=0.011)
            assert chance[lower > p].sum() <= 0.05


def test_beta_law_of_coverage():
    for key, expected in PUBLISHED["simulations"]["beta_P(cond_cov<1-alpha)"].items():
        n, alpha = key[1:].split("a")
        law = bounds.conditional_coverage_law(int(n), float(alpha))
        assert round(law.probability_below, 3) == expected
    # and a simulation: the true coverage of a uniform score is its own quantile
    drawn = np.random.default_rng(8).random((REPEATS, 50))
    quantile = conformal.conformal_quantile(drawn, 0.1)
    law = bounds.conditional_coverage_law(50, 0.1)
    assert stats.kstest(quantile, stats.beta(46, 5).cdf).pvalue > 1e-3
    assert law.mean == pytest.approx(46 / 51) and abs(quantile.std() - law.std) < 0.002
    assert law.quantiles[0.5] == pytest.approx(np.median(quantile), abs=0.003)
    assert not bounds.conditional_coverage_law(8, 0.1).feasible


def test_items_needed_is_the_smallest_n():
    for x in (0.8, 0.9, 0.95, 0.99):
        need = bounds.items_needed(x)
        assert need.n == math.ceil(math.log(0.05) / math.log(x)) and need.failures_allowed == 0
        assert bounds.clopper_pearson(need.n, need.n, alternative="greater")[0] >= x
        assert bounds.clopper_pearson(need.n - 1, need.n - 1, alternative="greater")[0] < x

    def power(n):
        k = np.arange(n + 1)
        lower, _ = bounds.clopper_pearson(k, n, alternative="greater")
        return stats.binom.pmf(k, n, 0.95)[lower >= 0.9].sum()

    need = bounds.items_needed(0.9, accuracy=0.95, power=0.8)
    assert need.power == pytest.approx(power(need.n)) and need.power >= 0.8
    assert max(power(n) for n in range(1, need.n)) < 0.8
    even = bounds.items_needed(0.9, accuracy=0.95)
    k = math.floor(0.95 * even.n)
    assert bounds.clopper_pearson(k, even.n, alternative="greater")[0] >= 0.9
    # many items: the neighbours below do not do
    many = bounds.items_needed(0.9, accuracy=0.905, power=0.8)
    assert many.power >= 0.8 and many.n > 20000
    n = np.arange(many.n // 2, many.n)
    required = stats.binom.isf(0.05, n, 0.9) + 1
    assert stats.binom.sf(required - 1, n, 0.905).max() < 0.8
    with pytest.raises(ValueError, match="accuracy"):
        bounds.items_needed(0.9, accuracy=0.9)
    with pytest.raises(ValueError, match="more than"):
        bounds.items_needed(0.9, accuracy=0.9001)


# Validity by simulation ---------------------------------------------------------------------------

KINDS = np.array(  # right class first; easy, tied, hard, never right
    [[0.85, 0.10, 0.05, 0.0], [0.45, 0.45, 0.05, 0.05], [0.2, 0.5, 0.2, 0.1], [0.0, 0.6, 0.3, 0.1]]
)


@pytest.fixture(scope="module")
def simulated():
    """Scores of REPEATS x 201 items of ten runs; "unsolvable" has items never answered right."""
    rng = np.random.default_rng(11)
    drawn = {}
    for name, share in (("solvable", [0.65, 0.2, 0.15, 0]), ("unsolvable", [0.6, 0.15, 0.15, 0.1])):
        kind = rng.choice(4, size=REPEATS * 201, p=share)
        counts = np.empty((REPEATS * 201, 4), dtype=np.int64)
        for k in range(4):
            counts[kind == k] = rng.multinomial(10, KINDS[k], size=int((kind == k).sum()))
        right = np.zeros(len(counts), dtype=np.int64)
        drawn[name] = scores(table_from_counts(counts), right).reshape(REPEATS, 201)
    return drawn


@pytest.mark.parametrize("name", ["solvable", "unsolvable"])
def test_coverage_holds_in_repeated_experiments(simulated, name):
    values = simulated[name]
    assert np.isinf(values).any() and len(np.unique(values)) == 5
    for n in (20, 50, 200):
        for alpha in (0.05, 0.1, 0.2):
            tolerance = 3.3 * math.sqrt(alpha * (1 - alpha) / REPEATS)
            split = values[:, 200] <= conformal.conformal_quantile(values[:, :n], alpha)
            assert split.mean() >= 1 - alpha - tolerance
            inside = values[:, :n] <= conformal.leave_one_out_thresholds(values[:, :n], alpha)
            assert inside.mean() >= 1 - alpha - tolerance


def test_coverage_is_tight_for_distinct_scores():
    values = np.random.default_rng(12).random((REPEATS, 201))
    for n in (20, 50, 200):
        for alpha in (0.05, 0.1, 0.2):
            exact = conformal.conformal_rank(n, alpha) / (n + 1)
            split = values[:, 200] <= conformal.conformal_quantile(values[:, :n], alpha)
            assert abs(split.mean() - exact) <= 3.3 * math.sqrt(exact * (1 - exact) / REPEATS)


def test_bound_holds_in_repeated_experiments(simulated):
    for values in simulated.values():
        truth = (values <= 1).mean()
        for n in (20, 50, 200):
            right = (values[:, :n] <= 1).sum(axis=1)
            lower, _ = bounds.clopper_pearson(right, n, alternative="greater")
            level = right / (n + 1)
            assert (lower <= truth).mean() >= 0.95 - 3.3 * math.sqrt(0.05 * 0.95 / REPEATS)
            assert (level <= truth).mean() < 0.8


@pytest.mark.parametrize("behaviour", [False, True])
def test_game_of_24(behaviour):
    """Real samples: the bound holds in 95 % of draws of 50 items and 20 samples, the level fails.

    What a class is: one answer line (white space collapsed), because a user who has no checker can
    merge no more than equal text; every line verified to reach 24 is an acceptable class. As a
    second reading, all verified lines are one class, as if expressions were compared by behaviour.
    """
    items = json.loads((DATA / "game24_correct.json").read_text())["items"]
    classes = np.array([item["classes"] for item in items])
    if behaviour:
        for row, item in zip(classes, items, strict=True):
            row[np.isin(row, item["right"])] = (item["right"] or [0])[0]
    width = max(len(item["right"]) for item in items)
    right = np.array([item["right"] + [-1] * (width - len(item["right"])) for item in items])
    assert classes.shape == (100, 100)
    verified = [
        np.isin(row, item["right"]).mean() for row, item in zip(classes, items, strict=True)
    ]
    assert np.mean(verified) == pytest.approx(0.0403)  # as published
    rng = np.random.default_rng(24)

    def sampled(chosen):
        subset = rng.random((len(chosen), 100)).argpartition(20, axis=1)[:, :20]
        picked = np.take_along_axis(classes[chosen], subset, axis=1)
        counts = np.zeros((len(chosen), classes.max() + 1), dtype=np.int64)
        np.add.at(counts, (np.arange(len(chosen))[:, None], picked), 1)
        return table_from_counts(counts)

    everyone = np.repeat(np.arange(100), 800)
    truth = mode_accuracy(sampled(everyone), right[everyone]).mean()
    drawn = rng.integers(100, size=1000 * 50)
    values = scores(sampled(drawn), right[drawn]).reshape(1000, 50)
    results = [conformal.reliability_level(row) for row in values]
    lower = np.mean([result.lower <= truth for result in results])
    level = np.mean([result.level <= truth for result in results])
    assert lower >= 0.95 - 3.3 * math.sqrt(0.05 * 0.95 / 1000)
    assert level < 0.8
