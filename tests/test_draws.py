"""Warping, ranking and drawing of tokens, against transformers' processors and exact sums."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from lmrel_tasks.sampling import capture, draws
from lmrel_tasks.sampling.draws import Warp


def philox4x64_10(key: int, counter: int) -> list[int]:
    """Philox4x64-10 written from Salmon et al. 2011, table 2 and figure 3."""
    mask = (1 << 64) - 1
    x = [counter & mask, 0, 0, 0]
    k0, k1 = key & mask, key >> 64
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
        x = [(second >> 64) ^ x[1] ^ k0, second & mask, (first >> 64) ^ x[3] ^ k1, first & mask]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return x


@pytest.mark.parametrize("seed", [0, 1, 123456789, 2**63 - 1])
def test_uniforms_are_philox_of_seed_and_position(seed: int) -> None:
    words = [word for counter in (1, 2, 3) for word in philox4x64_10(seed, counter)]
    expected = [(word >> 11) / 2**53 for word in words]
    assert draws.uniforms(seed, 12).tolist() == expected


def test_a_draw_depends_on_seed_and_position_only() -> None:
    assert (draws.uniforms(7, 100)[:10] == draws.uniforms(7, 10)).all()
    assert (draws.uniforms(7, 10) != draws.uniforms(8, 10)).all()


def test_uniforms_are_uniform_across_seeds_and_within() -> None:
    across = np.array([draws.uniforms(seed, 1)[0] for seed in range(4000)])
    assert stats.kstest(across, "uniform").pvalue > 0.001
    assert stats.kstest(draws.uniforms(3, 4000), "uniform").pvalue > 0.001


def reference(logits: torch.Tensor, warp: Warp, ids: torch.Tensor | None = None) -> torch.Tensor:
    """The same warp by transformers' own processors, in the order model.generate uses."""
    chain = LogitsProcessorList()
    if warp.repetition_penalty != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(warp.repetition_penalty))
    if warp.temperature != 1:
        chain.append(TemperatureLogitsWarper(warp.temperature))
    if warp.top_k:
        chain.append(TopKLogitsWarper(warp.top_k))
    if warp.top_p < 1:
        chain.append(TopPLogitsWarper(warp.top_p))
    if warp.min_p > 0:
        chain.append(MinPLogitsWarper(warp.min_p))
    return chain(ids, logits.clone()).log_softmax(-1)


WARPS = [
    Warp(),
    Warp(temperature=0.7),
    Warp(temperature=1.8, top_k=50),
    Warp(top_k=1),
    Warp(top_k=5000),
    Warp(top_p=0.9),
    Warp(top_p=0.01),
    Warp(temperature=1.5, top_p=0.999),
    Warp(min_p=0.05),
    Warp(min_p=1.0),
    Warp(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02),
    Warp(temperature=2.0, top_k=300, top_p=0.5, min_p=1e-5),
    Warp(temperature=0.3, top_p=0.97, repetition_penalty=1.3),
    Warp(top_k=20, repetition_penalty=0.8),
]


@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_warps_equal_transformers(warp: Warp) -> None:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(6, 3000, generator=generator) * 3
    ids = torch.randint(0, 3000, (6, 40), generator=generator)
    scores = logits
    if warp.repetition_penalty != 1:
        seen = torch.zeros(6, 3000, dtype=torch.bool).scatter_(1, ids, True)
        scores = draws.penalise(logits, seen, warp.repetition_penalty)
    found = draws.warped_logprobs(scores, warp)
    expected = reference(logits, warp, ids).double().numpy()
    assert (np.isfinite(found) == np.isfinite(expected)).all()
    kept = np.isfinite(expected)
    np.testing.assert_allclose(found[kept], expected[kept], atol=2e-5)


def test_top_k_keeps_ties_with_the_kth() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]])
    kept = np.isfinite(draws.warped_logprobs(logits, Warp(top_k=2)))
    assert kept.tolist() == [[False, True, True, True, True, False]]
    assert (kept == np.isfinite(reference(logits, Warp(top_k=2)).numpy())).all()


@pytest.mark.parametrize("warp", [w for w in WARPS if w.repetition_penalty == 1], ids=str)
@pytest.mark.parametrize("width", [1, 7, 256, 3000])
def test_a_draw_inverts_the_cumulative_sum_whatever_is_ranked(warp: Warp, width: int) -> None:
    generator = torch.Generator().manual_seed(11)
    logits = torch.randn(1, 3000, generator=generator) * 2
    logp = reference(logits, warp)[0].double().numpy()
    order = np.lexsort((np.arange(3000), -logits[0].numpy()))
    cumulative = np.cumsum(np.exp(logp[order]))
    u = np.random.default_rng(2).random(200)
    # Not within rounding of a boundary: there either neighbour is right.
    clear = np.abs(cumulative[:, None] / cumulative[-1] - u).min(axis=0) > 1e-6
    expected = order[np.searchsorted(cumulative / cumulative[-1], u, side="right").clip(max=2999)]
    rows = logits.expand(len(u), -1)
    drawn = draws.draw(rows, draws.rank(rows, width), u, warp, keep=1)
    assert clear.sum() > 150
    assert (drawn.ids == expected)[clear].all()
    np.testing.assert_allclose(drawn.logprobs, logp[drawn.ids], atol=2e-5)
    np.testing.assert_allclose(drawn.top[:, 0], logp.max(), atol=2e-5)


@pytest.mark.parametrize("width", [1, 64, 2000])
def test_ties_go_by_token_id_also_across_the_ranked_edge(width: int) -> None:
    u = (np.arange(50) + 0.37) / 50
    rows = torch.zeros(1, 2000).expand(50, -1)
    drawn = draws.draw(rows, draws.rank(rows, width), u, Warp())
    assert drawn.ids.tolist() == (u * 2000).astype(int).tolist()
    coarse = torch.randn(1, 2000, generator=torch.Generator().manual_seed(0)).bfloat16().float()
    rows = coarse.expand(50, -1)
    for warp in (Warp(top_k=100), Warp(temperature=2.0)):
        whole = draws.draw(rows, draws.rank(rows, 2000), u, warp).ids
        assert (draws.draw(rows, draws.rank(rows, width), u, warp).ids == whole).all()


def test_draws_follow_the_distribution() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    u = np.concatenate([draws.uniforms(seed, 1) for seed in range(6000)])
    rows = logits.expand(len(u), -1)
    ids = draws.draw(rows, draws.rank(rows, 4), u, Warp()).ids
    counts = np.bincount(ids, minlength=4)
    assert stats.chisquare(counts, 6000 * np.array([0.5, 0.3, 0.15, 0.05])).pvalue > 0.001


def test_greedy_is_argmax_and_certain() -> None:
    logits = torch.randn(5, 300, generator=torch.Generator().manual_seed(1))
    drawn = draws.draw(logits, draws.rank(logits, 3), np.zeros(5), Warp(do_sample=False), keep=3)
    assert drawn.ids.tolist() == logits.argmax(-1).tolist()
    assert drawn.logprobs.tolist() == [0.0] * 5
    assert drawn.top.tolist() == [[0.0, -np.inf, -np.inf]] * 5


def test_impossible_tokens_are_never_drawn() -> None:
    logits = torch.full((1, 500), -torch.inf)
    logits[0, [3, 400]] = torch.tensor([0.0, 1.0])
    u = np.array([0.0, 0.2, 0.5, 0.9, 1 - 2**-53])
    rows = logits.expand(5, -1)
    for width in (1, 2, 100, 500):
        ids = draws.draw(rows, draws.rank(rows, width), u, Warp(temperature=1.3)).ids
        assert ids.tolist() == [400, 400, 400, 3, 3]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_logits_are_named(bad: float) -> None:
    logits = torch.zeros(2, 50)
    logits[1, 7] = bad
    with pytest.raises(FloatingPointError, match="dtype"):
        draws.rank(logits, 5)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("min_p", 1.5),
        ("repetition_penalty", 0.0),
    ],
)
def test_a_setting_out_of_range_is_named(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        Warp(**{name: value})


def test_reduced_tokens_have_their_closed_forms() -> None:
    top = np.log([[0.5, 0.5, 1e-300], [0.25, 0.25, 0.25]])
    top[0, 2] = -np.inf
    bits, relative, tail, chosen, k = capture.reduce_tokens(top, np.array([-1.0, -2.0])).T
    np.testing.assert_allclose(bits, [1.0, np.log2(3)], atol=1e-12)
    np.testing.assert_allclose(relative, [1.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(tail, [0.0, 0.25], atol=1e-12)
    assert chosen.tolist() == [-1.0, -2.0]
    assert k.tolist() == [2, 3]
    nearly_certain = capture.reduce_tokens(np.array([[0.0, -10.0]]), np.zeros(1))[0, 0]
    assert nearly_certain == pytest.approx(0.000720450, abs=5e-10)


def test_a_run_without_tokens_has_no_entropy() -> None:
    assert capture.summarise([]) == {}


def test_a_run_is_the_mean_of_its_tokens() -> None:
    top = np.log([[0.5, 0.5], [0.9, 0.1]])
    rows = capture.reduce_tokens(top, np.array([-0.5, -0.25]))
    run = capture.summarise(list(rows))
    second = stats.entropy([0.9, 0.1], base=2)
    assert run["entropy"] == pytest.approx((1 + second) / 2)
    assert run["certainty"] == pytest.approx(1 - (1 + second) / 2)
    assert run["logprob"] == pytest.approx(-0.75)
    assert run["top_k"] == 2
