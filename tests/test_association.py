"""Swap permutation and bootstrap of mutual information and phi."""

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.metrics import mutual_info_score

from lmrel_tasks.metrics.association import bootstrap_test, swap_test


def information(a, b):
    """Mutual information of two binary labels in bits, by scipy's entropies."""
    joint = np.bincount(2 * a + b, minlength=4).reshape(2, 2) / len(a)
    margins = entropy(joint.sum(1), base=2) + entropy(joint.sum(0), base=2)
    return margins - entropy(joint.ravel(), base=2)


def test_swap_p_equals_full_enumeration():
    rng = np.random.default_rng(10)
    o = rng.integers(0, 2, 7)
    t, b = np.where(rng.random(7) < 0.5, o, 1 - o), np.where(rng.random(7) < 0.1, 1 - o, o)

    def statistic(t, b):
        return information(o, t) - information(o, b)

    seen = statistic(t, b)
    hits = 0
    for bits in range(2**7):
        swap = (bits >> np.arange(7)) & 1 == 1
        hits += statistic(np.where(swap, b, t), np.where(swap, t, b)) <= seen + 1e-12
    got = swap_test(o, t, b, 2, n_resamples=20_000)
    exact = hits / 2**7
    assert got.pvalue == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))


def test_several_paraphrases_pool_into_one_table():
    rng = np.random.default_rng(11)
    o, t = rng.integers(0, 3, 60), rng.integers(0, 3, 60)
    b = rng.integers(0, 3, (60, 2))
    got = swap_test(o, t, b, 3, n_resamples=99, base=np.e)
    pooled = mutual_info_score(np.repeat(o, 2), b.ravel())
    assert got.benign == pytest.approx(pooled)
    same = swap_test(o, t, np.column_stack([b[:, 0], np.full(60, -1)]), 3, n_resamples=99)
    alone = swap_test(o, t, b[:, 0], 3, n_resamples=99)
    assert same.excess == pytest.approx(alone.excess) and same.pvalue == alone.pvalue


def test_bootstrap_agrees_with_resampling_items():
    rng = np.random.default_rng(13)
    o = rng.integers(0, 2, 60)
    t, b = np.where(rng.random(60) < 0.3, 1 - o, o), np.where(rng.random(60) < 0.1, 1 - o, o)
    drawn = []
    for _ in range(400):
        i = rng.integers(0, 60, 60)
        drawn.append(information(o[i], t[i]) - information(o[i], b[i]))
    got = bootstrap_test(o, t, b, 2, n_resamples=4000)
    assert got.ci_low == pytest.approx(np.quantile(drawn, 0.025), abs=0.05)
    assert got.ci_high == pytest.approx(np.quantile(drawn, 0.975), abs=0.05)
    assert got.pvalue == pytest.approx(np.mean(np.array(drawn) >= 0), abs=0.02)


def test_a_batch_gives_what_each_row_gives():
    rng = np.random.default_rng(14)
    o, t, b = (rng.integers(0, 2, (5, 40)) for _ in range(3))
    together = swap_test(o, t, b, 2, n_resamples=4000)
    alone = [swap_test(*row, 2, n_resamples=4000) for row in zip(o, t, b, strict=True)]
    assert together.excess == pytest.approx([x.excess for x in alone])
    assert together.pvalue == pytest.approx([x.pvalue for x in alone], abs=0.04)


def test_bad_labels_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        swap_test([0, 2], [0, 1], [0, 1], 2)
    with pytest.raises(ValueError, match="exclude"):
        swap_test([0, 1], [0, -1], [0, 1], 2)
    with pytest.raises(ValueError, match="shape"):
        swap_test([0, 1], [0, 1, 1], [0, 1], 2)
    with pytest.raises(ValueError, match="two options"):
        bootstrap_test([0, 1, 2], [0, 1, 2], [0, 1, 2], 3, measure="phi")
