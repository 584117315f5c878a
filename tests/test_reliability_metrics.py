"""The YAML metrics of reliability against hand values, scipy and the vectorised scores."""

from __future__ import annotations

import math
import pickle
import random

import numpy as np
import pytest
from scipy import stats

from lmrel_tasks.measures import get_metric
from lmrel_tasks.metrics import answer_classes, conformal
from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.metrics.registry import METRICS
from lmrel_tasks.metrics.reliability import item_score

NAMES = (
    "reliability_level", "reliability_lower", "prediction_set_size", "coverage",
    "coverage_solvable", "coverage_feasible", "capability_gap", "mode_acc", "samples_used",
)  # fmt: skip


def item(answers, labels=("a",), key="k", has_label=True, missing=0):
    condition = Condition(
        "default", tuple(answers), tuple(answers), missing=missing, asked=len(answers) + missing
    )
    return Item(key, (condition,), tuple(labels), has_label)


def result(name, items, **arguments):
    """Value and standard error of a metric over items."""
    bound = get_metric(name).bind(arguments)
    values = [bound.per_item(one) for one in items]
    return bound.aggregate(values), bound.standard_error(values)


# Ranks 1, 1, 2, never, 1, 3 of the answer "a"
SIX = [
    item("aaab", key="1"), item("aa", key="2"), item("bba", key="3"), item("bcd", key="4"),
    item("aabc", key="5"), item("bbbcca", key="6"),
]  # fmt: skip


def test_level_and_bound_of_six_items():
    level, error = result("reliability_level", SIX)
    assert level == pytest.approx(3 / 7)
    # SD of (1,1,0,0,1,0) is sqrt(0.3); the level is 6/7 of the mean
    assert error == pytest.approx(6 / 7 * math.sqrt(0.3 / 6))
    lower, none = result("reliability_lower", SIX)
    exact = stats.binomtest(3, 6, alternative="greater").proportion_ci(0.95, "exact").low
    assert lower == pytest.approx(exact)
    assert none is None
    lower99, _ = result("reliability_lower", SIX, confidence=0.99)
    exact = stats.binomtest(3, 6, alternative="greater").proportion_ci(0.99, "exact").low
    assert lower99 == pytest.approx(exact)


def test_sets_of_six_items():
    # alpha 0.4: five other items, rank ceil(0.6 * 6) = 4 of their sorted scores.
    # Scores sorted 1 1 1 2 3 inf: without a 1 the 4th is 3, without 2 it is 3, without 3 or inf 2.
    arguments = {"alpha": 0.4}
    assert result("coverage", SIX, **arguments)[0] == pytest.approx(4 / 6)  # 3 > 2 is missed
    assert result("coverage_solvable", SIX, **arguments)[0] == pytest.approx(4 / 5)
    assert result("coverage_feasible", SIX, **arguments)[0] == 1
    # Classes 2 1 2 3 3 3, limits 3 3 3 2 3 2
    size, error = result("prediction_set_size", SIX, **arguments)
    assert size == pytest.approx((2 + 1 + 2 + 2 + 3 + 2) / 6)
    assert error == pytest.approx(np.std([2, 1, 2, 2, 3, 2], ddof=1) / math.sqrt(6))
    _, error = result("coverage", SIX, **arguments)
    assert error == pytest.approx(np.std([1, 1, 1, 0, 1, 0], ddof=1) / math.sqrt(6))
    assert result("capability_gap", SIX)[0] == pytest.approx(1 / 6)


def test_alpha_below_what_the_items_can_show_is_infeasible_and_said_so():
    assert result("coverage_feasible", SIX, alpha=0.01)[0] == 0
    assert result("coverage", SIX, alpha=0.01)[0] == pytest.approx(5 / 6)
    assert result("prediction_set_size", SIX, alpha=0.01)[0] == pytest.approx(14 / 6)


def test_mode_accuracy_shares_ties():
    items = [item("ab", key="1"), item("aabb", key="2"), item("abc", key="3"), item("aab", key="4")]
    value, _ = result("mode_acc", items)
    assert value == pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1) / 4)
    assert result("mode_acc", [item("abc", labels=("a", "c"))])[0] == pytest.approx(2 / 3)
    assert result("mode_acc", [item(["", "", "a"])])[0] == 1
    assert result("mode_acc", [item(["", ""])])[0] == 0


def test_score_equals_the_vectorised_one_with_ties_and_several_labels():
    draw = random.Random(4)
    answers = [
        [draw.choice(["a", "b", "c", "d", "", "refusal"]) for _ in range(draw.randint(0, 7))]
        for _ in range(400)
    ]
    labels = [draw.choice([("a",), ("a", "c"), (), ("refusal",), ("zz",)]) for _ in range(400)]
    keys = [f"item {i}" for i in range(400)]
    table = answer_classes.count_classes(answers, keys=keys)
    for ties in ("random", "conservative"):
        for seed in (0, 7):
            expected = answer_classes.scores(table, labels, ties, seed)
            got = [
                item_score(item(a, wanted, key), ties, seed)
                for a, wanted, key in zip(answers, labels, keys, strict=True)
            ]
            assert got == expected.tolist()
    means = answer_classes.mode_accuracy(table, labels)
    metric = get_metric("mode_acc")
    assert [
        metric.per_item(item(a, w)) for a, w in zip(answers, labels, strict=True)
    ] == pytest.approx(means.tolist())


def test_seeded_ties_are_a_fair_coin_and_conservative_ones_lose():
    tied = [item("ab", key=str(i)) for i in range(600)]
    wins = [item_score(one) for one in tied].count(1.0)
    assert stats.binomtest(wins, 600).pvalue > 0.001
    assert {item_score(one, "conservative") for one in tied} == {2.0}
    level, _ = result("reliability_level", tied[:50], ties="conservative")
    assert level == 0
    other = [item_score(one, seed=1) for one in tied]
    assert other != [item_score(one) for one in tied]
    # The order of the runs says nothing
    assert [item_score(item("ba", key=str(i)), seed=1) for i in range(600)] == other


def test_large_sample_equals_conformal_on_the_same_scores():
    draw = np.random.default_rng(2)
    answers = [
        draw.choice(list("abcde"), size=9, p=p)
        for p in draw.dirichlet([1.5, 0.6, 0.5, 0.4, 0.3], 300)
    ]
    items = [item(a.tolist(), key=str(i)) for i, a in enumerate(answers)]
    table = answer_classes.count_classes([one.tolist() for one in answers], keys=range(300))
    scores = answer_classes.scores(table, ["a"] * 300)
    found = conformal.coverage(scores, 0.1, table.classes)
    assert result("coverage", items)[0] == found.coverage
    assert result("prediction_set_size", items)[0] == found.mean_set_size
    assert result("capability_gap", items)[0] == found.capability_gap.estimate
    assert result("reliability_level", items)[0] == conformal.reliability_level(scores).level


def test_all_wrong_and_all_refused():
    wrong = [item("bbb", key=str(i)) for i in range(5)]
    refused = [item(["refusal"] * 3, key=str(i)) for i in range(5)]
    for items in (wrong, refused, [item([], key=str(i), missing=3) for i in range(5)]):
        assert result("reliability_level", items)[0] == 0
        assert result("reliability_lower", items)[0] == 0
        assert result("mode_acc", items)[0] == 0
        assert result("capability_gap", items)[0] == 1
        assert result("coverage", items, alpha=0.5)[0] == 0
        assert math.isnan(result("coverage_solvable", items, alpha=0.5)[0])
    unsafe = [item(["refusal"] * 3, labels=("refusal",), key=str(i)) for i in range(5)]
    assert result("reliability_level", unsafe)[0] == pytest.approx(5 / 6)


def test_no_acceptable_answer_at_all_is_never_solved():
    items = [item("aaa", labels=(), key="1"), item("aaa", key="2")]
    assert result("capability_gap", items)[0] == 0.5
    assert result("mode_acc", items)[0] == 0.5


def test_one_item_one_run_and_unequal_numbers_of_runs():
    one = [item("a")]
    assert result("reliability_level", one) == (0.5, None)
    assert result("reliability_lower", one)[0] == pytest.approx(0.05)  # 0.05 ** (1/1)
    assert result("coverage_feasible", one)[0] == 0
    assert result("coverage", one) == (1, None)
    assert result("samples_used", [item("aab"), item("a"), item("aa", missing=2)])[0] == 8 / 3


def test_items_without_label_say_nothing():
    unlabelled = item("aab", has_label=False)
    for name in NAMES:
        if name != "samples_used":
            assert get_metric(name).per_item(unlabelled) is None
    assert result("reliability_level", [*SIX, unlabelled])[0] == pytest.approx(3 / 7)
    assert result("reliability_level", [])[0] == 0


def test_first_condition_is_the_one_that_counts():
    two = Item(
        "k",
        (Condition("one", ("a", "a"), ("a", "a"), asked=2),
         Condition("two", ("b",) * 4, ("b",) * 4, asked=4)),
        ("a",),
    )  # fmt: skip
    assert get_metric("reliability_level").per_item(two) == 1
    assert get_metric("mode_acc").per_item(two) == 1
    assert get_metric("samples_used").per_item(two) == 3


def test_values_travel_between_processes():
    bound = get_metric("coverage").bind({"alpha": 0.4})
    values = pickle.loads(pickle.dumps([bound.per_item(one) for one in SIX]))
    assert bound.aggregate(values) == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("coverage", {"alpha": 10}, "metric coverage: alpha must lie strictly.*did you mean 0.1"),
        ("coverage", {"alpha": "high"}, "metric coverage"),
        ("reliability_lower", {"confidence": 1}, "confidence must lie strictly between"),
        ("reliability_level", {"ties": "alphabetical"}, 'ties must be "random"'),
        ("reliability_level", {"seed": "x"}, "seed must be an integer"),
        ("reliability_level", {"alpha": 0.1}, "unknown argument 'alpha'; it takes seed, ties"),
        ("capability_gap", {"alpha": 0.1}, "it takes no arguments"),
    ],
)
def test_bad_arguments_are_refused_before_sampling(name, arguments, words):
    with pytest.raises(ValueError, match=words):
        get_metric(name).bind(arguments)


def test_every_metric_of_the_issue_is_registered():
    assert set(NAMES) <= set(METRICS)
