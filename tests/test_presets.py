"""Presets against the published definitions, computed here from all pairs."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from lmrel_tasks.metrics import cosine, presets

RNG = np.random.default_rng(0)
EMBEDDINGS = RNG.normal(size=(3, 6, 5)) + 0.5
UNIT = EMBEDDINGS / np.linalg.norm(EMBEDDINGS, axis=-1, keepdims=True)
BITS = RNG.uniform(0.2, 3.0, (3, 6))
K = 30


def score(name: str) -> presets.PresetScores:
    return presets.preset_scores(name, cosine.cell_sums(EMBEDDINGS), BITS, K)


def within() -> list[float]:
    return [float(np.mean([a @ b for a, b in combinations(cell, 2)])) for cell in UNIT]


def centroid() -> float:
    means = [cell.mean(axis=0) for cell in UNIT]
    return float(
        np.mean([a @ b / math.hypot(*a) / math.hypot(*b) for a, b in combinations(means, 2)])
    )


def cross() -> float:
    pairs = combinations(UNIT, 2)
    return float(np.mean([np.mean([a @ b for a, b in product(p, q)]) for p, q in pairs]))


def test_shyr_v1() -> None:
    found, nats = score("shyr-v1"), BITS.mean(axis=1) * math.log(2)
    np.testing.assert_allclose(found.semantic_repeatability, within(), rtol=1e-12)
    assert found.semantic_reproducibility == pytest.approx(centroid())
    np.testing.assert_allclose(found.internal_repeatability, -nats, rtol=1e-12)
    gaps = [abs(a - b) for a, b in combinations(nats, 2)]
    assert found.internal_reproducibility == pytest.approx(-np.mean(gaps))


def test_rs_0_1() -> None:
    found, mean = score("rs-0.1"), BITS.mean(axis=1)
    np.testing.assert_allclose(found.semantic_repeatability, [(1 + w) / 2 for w in within()])
    assert found.semantic_reproducibility == pytest.approx((1 + centroid()) / 2)
    np.testing.assert_allclose(found.internal_repeatability, 1 - mean / math.log2(K), rtol=1e-12)
    gaps = [abs(a - b) for a, b in combinations(mean, 2)]
    assert found.internal_reproducibility == pytest.approx(1 - np.mean(gaps) / math.log2(K))


def test_rs_0_3() -> None:
    found, certainty = score("rs-0.3"), 1 - BITS / math.log2(K)
    np.testing.assert_allclose(found.semantic_repeatability, [(1 + w) / 2 for w in within()])
    assert found.semantic_reproducibility == pytest.approx((1 + cross()) / 2)
    np.testing.assert_allclose(
        found.internal_repeatability, 1 - 2 * certainty.std(axis=1, ddof=0), rtol=1e-12
    )
    spread = certainty.mean(axis=1).std(ddof=0)
    assert found.internal_reproducibility == pytest.approx(1 - 2 * spread)


def test_published_example_of_two_orthogonal_answers() -> None:
    x, y = np.eye(2)
    cells = cosine.cell_sums([[x, y], [x, y]])
    assert cosine.between_cosine(cells) == pytest.approx([0.5])
    later = presets.preset_scores("rs-0.3", cells)
    assert later.semantic_reproducibility == pytest.approx(0.75)
    assert later.internal_repeatability is None and later.internal_reproducibility is None
    assert presets.preset_scores("rs-0.1", cells).semantic_reproducibility == pytest.approx(1.0)
    assert presets.preset_scores("shyr-v1", cells).semantic_reproducibility == pytest.approx(1.0)


def test_published_examples_of_certainty() -> None:
    # Four runs with k = 2: two certain, H([0, -10]) = 0.000720450 bit, two unsure, 1 bit.
    cells = cosine.cell_sums(np.ones((1, 4, 2)))
    equal = presets.preset_scores("rs-0.3", cells, np.full((1, 4), 0.000720450), 2)
    assert equal.internal_repeatability == pytest.approx([1.0])
    mixed = presets.preset_scores("rs-0.3", cells, [[0.000720450] * 2 + [1.0] * 2], 2)
    assert mixed.internal_repeatability is not None
    assert mixed.internal_repeatability == pytest.approx([0.000720450])
    single = presets.preset_scores("rs-0.3", cells, [[0.5, np.nan, np.nan, np.nan]], 2)
    assert single.internal_repeatability is not None
    assert np.isnan(single.internal_repeatability).all()


def test_batch_equals_items_one_by_one() -> None:
    cells = cosine.cell_sums(np.stack([EMBEDDINGS, EMBEDDINGS[::-1] + 1]))
    bits = np.stack([BITS, BITS + 0.1])
    for name in presets.PRESETS:
        both = presets.preset_scores(name, cells, bits, K)
        assert both.preset == name
        for i in range(2):
            one = presets.preset_scores(name, cells[i], bits[i], K)
            np.testing.assert_allclose(both.semantic_repeatability[i], one.semantic_repeatability)
            assert both.internal_reproducibility is not None
            np.testing.assert_allclose(
                both.internal_reproducibility[i], one.internal_reproducibility
            )


def test_refusals() -> None:
    cells = cosine.cell_sums(EMBEDDINGS)
    with pytest.raises(ValueError, match=r"shyr-v1, rs-0\.1, rs-0\.3"):
        presets.preset_scores("rs-0.2", cells)
    with pytest.raises(ValueError, match="k must be"):
        presets.preset_scores("rs-0.1", cells, BITS, 1)
    with pytest.raises(ValueError, match="fit the cells"):
        presets.preset_scores("rs-0.1", cells, BITS[:2], K)
    with pytest.raises(ValueError, match="conditions"):
        presets.preset_scores("rs-0.1", cosine.cell_sums(EMBEDDINGS[0]))
