"""Sequential stopping: published tables, exhaustive checks, false certainty, validity."""

import itertools
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate

from lmrel_tasks.metrics import bounds, conformal, stopping
from lmrel_tasks.metrics.answer_classes import scores, table_from_counts

PUBLISHED = json.loads((Path(__file__).parent / "data" / "conformal_sets.json").read_text())
SIMULATIONS = PUBLISHED["simulations"]
RULES = ("curtail", "hoeffding", "eprocess", "earliest")
REPEATS = 5000


def tolerance(p, n=REPEATS):
    return 3.3 * math.sqrt(p * (1 - p) / n)


def random_items(rng, n, runs, classes=4):
    """Answers with a mode of random strength, some of them empty."""
    strength = rng.dirichlet(np.full(classes + 1, 0.4), size=n)
    uniform = rng.random((n, runs, 1))
    return (uniform > strength.cumsum(axis=1)[:, None, :-1]).sum(axis=2) - 1


def as_answers(row):
    return ["" if code < 0 else f"answer {code}" for code in row]


# Published values ---------------------------------------------------------------------------------


def test_hoeffding_is_the_published_rule():
    for delta, runs in PUBLISHED["min_unanimous_stop"].items():
        answers = ["A"] * 20
        assert stopping.stop_index(answers, rule="hoeffding", delta=float(delta)) == runs
    for runs, count in PUBLISHED["min_mode_count_to_stop_delta0.05"].items():
        assert stopping.required_counts(20, "hoeffding", 0.05)[int(runs)] == count
    for chosen in PUBLISHED["sets"].values():
        for delta, runs in chosen["hoeffding_runs"].items():
            for item, expected in runs.items():
                answers = chosen["canonical"][item]
                got = stopping.stop_index(answers, rule="hoeffding", delta=float(delta))
                assert got == expected


def mean_runs(p, max_runs, rule):
    """Exact mean for two answers, by the distribution over counts of the runs not yet stopped."""
    alive, mean = {(0, 0): 1.0}, 0.0
    for used in range(1, max_runs + 1):
        grown = Counter()
        for (a, b), chance in alive.items():
            grown[a + 1, b] += chance * p
            grown[a, b + 1] += chance * (1 - p)
        alive = {}
        for (a, b), chance in grown.items():
            if stopping.should_stop(["A"] * a + ["B"] * b, max_runs, rule):
                mean += chance * used
            else:
                alive[a, b] = chance
    assert not alive
    return mean


def test_mean_runs_for_two_answers():
    published = SIMULATIONS["E_K_binary_delta0.05"]
    columns = (
        ("hoeffding_K10", 10, "hoeffding"),
        ("hoeffding_K20", 20, "hoeffding"),
        ("eprocess_K20", 20, "eprocess"),
        ("curtailed_lead_gt_remaining_K20", 20, "curtail"),
    )
    for name, max_runs, rule in columns:
        for p, expected in zip(published["p"], published[name], strict=True):
            assert mean_runs(p, max_runs, rule) == pytest.approx(expected, abs=0.035)
    for p, most in ((0.9, 12.3), (0.8, 13.8), (0.7, 15.8)):
        assert mean_runs(p, 20, "curtail") <= most
        assert mean_runs(p, 20, "earliest") < mean_runs(p, 20, "curtail")


def test_evidence_is_its_integral():
    for count, runs in ((0, 0), (3, 3), (8, 8), (5, 9), (2, 9), (60, 100)):
        value, _ = integrate.quad(
            lambda p, x=count, k=runs: 2 * (2 * p) ** x * (2 - 2 * p) ** (k - x), 0.5, 1
        )
        assert stopping.log_evidence(count, runs) == pytest.approx(math.log(value), abs=1e-9)
    for delta in (0.01, 0.05, 0.2):
        for runs, least in enumerate(stopping.required_counts(60, "eprocess", delta)):
            evidence = stopping.log_evidence(np.arange(runs + 1), runs)
            np.testing.assert_array_equal(
                evidence >= math.log(2 / delta), np.arange(runs + 1) >= least
            )
            # the lead that the bound over many classes rests on
            assert least > runs or 2 * least - runs >= 2


# Curtailing ---------------------------------------------------------------------------------------


def modes(answers):
    counts = Counter(answer for answer in answers if answer)
    top = max(counts.values(), default=0)
    return {answer for answer, count in counts.items() if count == top}


@pytest.mark.parametrize("max_runs", [1, 2, 5, 6])
def test_curtail_never_changes_a_mode_and_stops_no_later_than_it_could(max_runs):
    finals = {}
    for full in itertools.product(("", "A", "B", "C"), repeat=max_runs):
        used = stopping.stop_index(full, rule="curtail")
        if used < max_runs:
            assert modes(full[:used]) == modes(full)
            assert len(modes(full)) == 1
        for k in range(max_runs):
            finals.setdefault(full[:k], []).append(modes(full))
    for prefix, reachable in finals.items():
        decided = len(reachable[0]) == 1 and all(m == reachable[0] for m in reachable)
        assert stopping.should_stop(prefix, max_runs, "curtail") == decided


def test_curtail_never_changes_a_mode_of_long_random_items():
    codes = random_items(np.random.default_rng(0), 4000, 25)
    used = stopping.stop_indices(codes, "curtail")
    assert 0 < (used < 25).sum() < 4000
    for row, stop in zip(codes, used, strict=True):
        if stop < 25:
            assert modes(as_answers(row[:stop])) == modes(as_answers(row))


# One interface ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("round_size", [1, 4])
def test_the_vectorised_replay_is_the_plain_one(rule, round_size):
    codes = random_items(np.random.default_rng(1), 300, 18)
    got = stopping.stop_indices(codes, rule, 0.1, round_size)
    expected = [
        stopping.stop_index(as_answers(row), rule=rule, delta=0.1, round_size=round_size)
        for row in codes
    ]
    assert got.tolist() == expected
    assert len(set(expected)) > 2


@pytest.mark.parametrize("rule", RULES)
def test_rounds_draw_no_run_more(rule):
    rounds = 0
    for row in random_items(np.random.default_rng(2), 200, 20):
        answers, used = as_answers(row), 0
        while more := stopping.next_round(answers[:used], 20, rule):
            used += more
            rounds += 1
        assert used == stopping.stop_index(answers, rule=rule)
    assert rounds < 200 * 12


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_answer_uses_a_run_and_gains_nothing(rule):
    assert stopping.stop_index([""] * 20, rule=rule) == 20
    plain = stopping.stop_index(["A"] * 20, rule=rule)
    assert stopping.stop_index(["", "", *["A"] * 18], rule=rule) > plain
    assert not stopping.should_stop([], 20, rule)
    assert stopping.should_stop([], 0, rule) and stopping.stop_index([], rule=rule) == 0
    assert stopping.stop_index(["A"], rule=rule) == 1


def test_earliest_is_the_first_of_the_two():
    codes = random_items(np.random.default_rng(3), 2000, 20)
    both = np.minimum(
        stopping.stop_indices(codes, "curtail"), stopping.stop_indices(codes, "eprocess")
    )
    np.testing.assert_array_equal(stopping.stop_indices(codes, "earliest"), both)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="rule 'never' is unknown"):
        stopping.should_stop(["A"], 5, "never")
    with pytest.raises(ValueError, match="delta"):
        stopping.should_stop(["A"], 5, "eprocess", delta=1.5)
    with pytest.raises(ValueError, match="max_runs"):
        stopping.should_stop(["A"], -1)
    with pytest.raises(ValueError, match="5 answers end before"):
        stopping.stop_index(["A"] * 5, max_runs=20)
    with pytest.raises(ValueError, match="round_size"):
        stopping.stop_index(["A"] * 5, round_size=0)
    with pytest.raises(ValueError, match="integer matrix"):
        stopping.stop_indices([[0.5, 1.0]])
    with pytest.raises(ValueError, match="count alone"):
        stopping.required_counts(5, "curtail")


# Validity by simulation ---------------------------------------------------------------------------


@pytest.mark.parametrize("p", [(0.5, 0.5), (0.4, 0.35, 0.25), (0.5, 0.2, 0.2, 0.1)])
def test_false_certainty_of_eprocess_up_to_2000_looks(p):
    """No class has more than half: whoever is declared certain, it is false."""
    rng = np.random.default_rng(4)
    edges = np.cumsum(p)[:-1]
    codes = np.searchsorted(edges, rng.random((REPEATS, 2000), dtype=np.float32)).astype(np.int8)
    stops = stopping.stop_indices(codes, "eprocess", 0.05, default=2001)
    assert (stops <= 2000).mean() <= 0.05 + tolerance(0.05)
    if p == (0.5, 0.5):
        for looks, share in SIMULATIONS[
            "eprocess_mixture_U(.5,1)_threshold_2/delta_false_stop"
        ].items():
            assert abs((stops <= int(looks)).mean() - share) < tolerance(share)
        naive = stopping.stop_indices(codes, "hoeffding", 0.05, default=2001)
        published = SIMULATIONS["hoeffding_repeated_looks_false_stop_p0.5_delta0.05"]
        for looks, share in published.items():
            assert abs((naive <= int(looks)).mean() - share) < tolerance(share)
        assert (naive <= 2000).mean() > 0.1  # why it is not the default


def stopped_counts(codes, rule):
    used = stopping.stop_indices(codes, rule) if rule else np.full(len(codes), codes.shape[1])
    counts = np.zeros((len(codes), 4), dtype=np.int64)
    for run in range(codes.shape[1]):
        drawn = np.flatnonzero(used > run)
        counts[drawn, codes[drawn, run]] += 1
    return counts


def stopped_scores(codes, rule):
    counts = stopped_counts(codes, rule)
    return scores(table_from_counts(counts), np.zeros(len(codes), dtype=np.int64))


@pytest.fixture(scope="module")
def sequences():
    """REPEATS x 201 items of 10 runs: easy, tied, hard, and never right (class 0 is right)."""
    kinds = np.array([[0.9, 0.95, 1], [0.45, 0.9, 0.95], [0.2, 0.7, 0.9], [0, 0.6, 0.9]])
    rng = np.random.default_rng(5)
    kind = rng.choice(4, size=REPEATS * 201, p=[0.6, 0.2, 0.14, 0.06])
    codes = np.empty((len(kind), 10), dtype=np.int8)
    for run in range(10):
        codes[:, run] = (rng.random(len(kind))[:, None] > kinds[kind]).sum(axis=1)
    return codes


@pytest.mark.parametrize("rule", RULES)
def test_guarantees_hold_when_every_item_stops_by_one_rule(sequences, rule):
    values = stopped_scores(sequences, rule).reshape(REPEATS, 201)
    truth = (values <= 1).mean()
    for n in (20, 50, 200):
        for alpha in (0.05, 0.1, 0.2):
            split = values[:, 200] <= conformal.conformal_quantile(values[:, :n], alpha)
            assert split.mean() >= 1 - alpha - tolerance(alpha)
            inside = values[:, :n] <= conformal.leave_one_out_thresholds(values[:, :n], alpha)
            assert inside.mean() >= 1 - alpha - tolerance(alpha)
        right = (values[:, :n] <= 1).sum(axis=1)
        lower, _ = bounds.clopper_pearson(right, n, alternative="greater")
        assert (lower <= truth).mean() >= 0.95 - tolerance(0.05)


def favourable_ranks(counts):
    ahead = (counts[:, 1:] > counts[:, :1]).sum(axis=1)
    return np.where(counts[:, 0] > 0, 1.0 + ahead, np.inf)


def test_one_rule_for_calibration_and_another_for_test_breaks_coverage():
    published = SIMULATIONS["stop_mismatch"]
    rng = np.random.default_rng(6)
    n = 200_000
    easy = rng.random((n, 1)) < 0.7
    uniform = rng.random((n, 20))
    codes = np.where(
        easy, uniform > 0.95, (uniform > 0.12).astype(int) + (uniform > 0.97).astype(int)
    ).astype(int)
    # the published figures order ties by the alphabet, where the right class happens to come first
    fixed, stopped = (favourable_ranks(stopped_counts(codes, rule)) for rule in (None, "hoeffding"))
    for values, key in ((fixed, "fixed20"), (stopped, "seq20")):
        assert (values == 1).mean() == pytest.approx(published[key]["P1"], abs=0.005)
        assert (values <= 2).mean() == pytest.approx(published[key]["P2"], abs=0.005)
        assert np.isinf(values).mean() == pytest.approx(published[key]["inf"], abs=0.005)
    # 400 calibration items at alpha = 0.05, as published
    m = conformal.conformal_quantile(fixed[: 400 * 250].reshape(250, 400), 0.05)
    share = [(fixed[100_000:] <= threshold).mean() for threshold in m]
    assert np.mean(share) == pytest.approx(
        published["coverage_alpha.05_n400"]["fixed->fixed"], abs=0.01
    )
    share = [(stopped[100_000:] <= threshold).mean() for threshold in m]
    assert np.mean(share) == pytest.approx(
        published["coverage_alpha.05_n400"]["fixed->seq"], abs=0.01
    )
    assert np.mean(share) < 0.95
    same = conformal.m_star(stopped[:400], 0.05)
    assert not same.feasible and "never sampled" in same.reason
