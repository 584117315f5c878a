"""Entropy and certainty against closed forms and scipy."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_softmax

from lmrel_tasks.metrics import entropy
from lmrel_tasks.metrics.semantic_entropy import normalised_semantic_entropy, semantic_entropy


def test_published_values() -> None:
    assert entropy.topk_entropy([0.0, 0.0]) == pytest.approx(1.0, abs=1e-15)
    assert entropy.topk_entropy([0.0, -10.0]) == pytest.approx(0.000720450, abs=5e-10)
    assert entropy.topk_entropy([0.0, -100.0]) < 1e-6


@pytest.mark.parametrize("k", [1, 2, 7, 30])
def test_uniform_is_log_k_in_any_base_and_offset(k: int) -> None:
    lp = np.full((3, k), -4.2)
    np.testing.assert_allclose(entropy.topk_entropy(lp), np.log2(k), atol=1e-14)
    np.testing.assert_allclose(entropy.topk_entropy(lp, base=math.e), np.log(k), atol=1e-14)


@pytest.mark.parametrize("base", [2.0, math.e, 10.0])
def test_equals_scipy_over_leading_axes(base: float) -> None:
    rng = np.random.default_rng(0)
    lp = log_softmax(rng.normal(0, 4, (5, 4, 50)), axis=-1)
    top = -np.sort(-lp, axis=-1)[..., :30]
    expected = stats.entropy(np.exp(top), base=base, axis=-1)
    np.testing.assert_allclose(entropy.topk_entropy(top, base=base), expected, rtol=1e-12)
    np.testing.assert_allclose(entropy.tail_mass(top), 1 - np.exp(top).sum(-1), atol=1e-15)


@pytest.mark.parametrize("gap", [20.0, 40.0, 300.0])
def test_nearly_certain_keeps_its_digits(gap: float) -> None:
    # To first order in q = exp(-gap): H = q (1 + gap) nats; q + 1 == 1 in floating point at 40.
    assert float(entropy.topk_entropy([0.0, -gap], base=math.e)) == pytest.approx(
        math.exp(-gap) * (1 + gap), rel=1e-8
    )


def test_impossible_candidates_are_dropped() -> None:
    lp = np.log([0.5, 0.25, 0.25])
    padded = np.concatenate([lp, [-np.inf, np.nan]])
    assert entropy.topk_entropy(padded) == pytest.approx(1.5)
    assert entropy.effective_k(padded) == 3
    assert entropy.tail_mass(padded) == pytest.approx(0.0, abs=1e-15)


def test_position_without_candidates_is_missing() -> None:
    lp = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    assert np.isnan(entropy.topk_entropy(lp)[0]) and entropy.topk_entropy(lp)[1] == 0.0
    assert np.isnan(entropy.tail_mass(lp)[0])
    assert np.isnan(entropy.topk_entropy(np.empty((2, 0)))).all()
    np.testing.assert_array_equal(entropy.effective_k(lp), [0, 1])


@pytest.mark.parametrize("bad", [0.0, [0.0, np.inf]])
def test_bad_logprobs_are_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="logprobs"):
        entropy.topk_entropy(bad)  # type: ignore[arg-type]


def test_bad_base_is_refused() -> None:
    with pytest.raises(ValueError, match="base"):
        entropy.topk_entropy([0.0, 0.0], base=1.0)


def test_certainty_uses_each_positions_own_k() -> None:
    # Uniform over 2, uniform over 8, forced, uniform over 4 of a distribution with k = 16.
    h = np.array([1.0, 3.0, 0.0, 2.0, np.nan])
    k = np.array([2, 8, 1, 16, 30])
    assert entropy.run_certainty(h, k) == pytest.approx(1 - (1 + 1 + 0 + 0.5) / 4)
    np.testing.assert_array_equal(
        np.isnan(entropy.normalised_entropy(h, [2, 0, 1, np.nan, 30])), [0, 1, 0, 1, 1]
    )


def test_certainty_with_one_k_is_one_minus_mean_entropy() -> None:
    rng = np.random.default_rng(1)
    h = rng.uniform(0, np.log2(30), (4, 6, 12))
    h[0, 0, 5:] = np.nan
    np.testing.assert_allclose(
        entropy.run_certainty(h, 30), 1 - np.nanmean(h, axis=-1) / np.log2(30), rtol=1e-14
    )
    nats = entropy.run_certainty(h * np.log(2), 30, base=math.e)
    np.testing.assert_allclose(nats, entropy.run_certainty(h, 30), rtol=1e-13)
    np.testing.assert_allclose(entropy.run_entropy(h), np.nanmean(h, axis=-1), rtol=1e-14)


def test_run_without_tokens_is_missing_and_leaves_averages() -> None:
    h = np.array([[1.0, 1.0], [np.nan, np.nan]])
    certainty = entropy.run_certainty(h, 4)
    assert certainty[0] == 0.5 and np.isnan(certainty[1])
    assert entropy.internal_repeatability(certainty) == 0.5
    assert np.isnan(entropy.internal_stability(certainty))
    assert np.isnan(entropy.internal_repeatability([np.nan]))


@pytest.mark.parametrize("ddof", [0, 1])
def test_stability_equals_numpy_deviation(ddof: int) -> None:
    rng = np.random.default_rng(2)
    c = rng.uniform(0, 1, (5, 3, 8))
    c[0, 0, 2] = np.nan
    expected = 1 - 2 * np.nanstd(c, axis=-1, ddof=ddof)
    np.testing.assert_allclose(entropy.internal_stability(c, ddof=ddof), expected, rtol=1e-12)


def test_equally_unsure_is_stable_and_uncertain() -> None:
    c = np.full(6, 0.1)
    assert entropy.internal_stability(c) == 1.0
    assert entropy.internal_repeatability(c) == pytest.approx(0.1)


def test_reproducibility_equals_brute_force_over_pairs() -> None:
    rng = np.random.default_rng(3)
    h = rng.uniform(0, 4, (6, 5))
    h[2, 1] = np.nan
    score = entropy.internal_reproducibility(h, 30)
    for row, value in zip(h, score, strict=True):
        gaps = [abs(a - b) for a, b in combinations(row[~np.isnan(row)], 2)]
        assert value == pytest.approx(1 - np.mean(gaps) / math.log2(30), rel=1e-12)
    certainty = 1 - h / math.log2(30)
    np.testing.assert_allclose(entropy.certainty_reproducibility(certainty), score, rtol=1e-12)
    assert np.isnan(entropy.internal_reproducibility([1.0, np.nan], 30))
    with pytest.raises(ValueError, match="k must be"):
        entropy.internal_reproducibility([1.0, 2.0], 1)


def test_discrete_semantic_entropy() -> None:
    assert semantic_entropy("aabb") == pytest.approx(1.0)
    assert semantic_entropy([7, 7, 7]) == 0.0
    labels = ["x", "y", "x", "z", "", "x"]
    assert semantic_entropy(labels) == pytest.approx(stats.entropy([3, 1, 1], base=2))
    assert normalised_semantic_entropy("abcd") == pytest.approx(1.0)
    assert math.isnan(semantic_entropy(["", None])) and math.isnan(normalised_semantic_entropy("a"))


def test_weighted_semantic_entropy_adds_probabilities_within_clusters() -> None:
    p = np.array([0.2, 0.1, 0.05, 0.15])
    labels = ["a", "b", "a", "c"]
    expected = stats.entropy([0.25, 0.1, 0.15], base=2)
    assert semantic_entropy(labels, np.log(p)) == pytest.approx(expected)
    # Tiny probabilities of long texts, and an impossible one, neither underflow nor count.
    far = np.append(np.log(p) - 2000.0, -np.inf)
    assert semantic_entropy([*labels, "d"], far) == pytest.approx(expected)
    assert semantic_entropy(labels, np.zeros(4)) == pytest.approx(semantic_entropy(labels))


def test_bad_semantic_logprobs_are_refused() -> None:
    with pytest.raises(ValueError, match="one number per run"):
        semantic_entropy("ab", [0.0])
    with pytest.raises(ValueError, match="row 1"):
        semantic_entropy("ab", [0.0, np.nan])
    assert semantic_entropy(["a", ""], [0.0, np.nan]) == 0.0
