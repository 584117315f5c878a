"""Cosine statistics from sums against brute force over all pairs of runs."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from lmrel_tasks.metrics import cosine, meaning
from lmrel_tasks.metrics.cosine import CellSums


def cos(a: NDArray, b: NDArray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def ragged(seed: int, items: int, conditions: int, most: int, equal: bool) -> list[list[NDArray]]:
    rng = np.random.default_rng(seed)
    return [
        [
            rng.normal(size=(most if equal else rng.integers(0, most + 1), 4)) + rng.normal(size=4)
            for _ in range(conditions)
        ]
        for _ in range(items)
    ]


def sums(table: list[list[NDArray]]) -> CellSums:
    return cosine.stack_cells(
        [cosine.stack_cells([cosine.cell_sums(cell) for cell in item]) for item in table]
    )


SHAPES = [
    (seed, *shape, equal)
    for seed, (shape, equal) in enumerate(
        product(product([2, 3, 6], [1, 2, 3, 6], [2, 3, 6]), [True, False])
    )
]


@pytest.mark.parametrize(("seed", "items", "conditions", "most", "equal"), SHAPES)
def test_equals_brute_force_over_all_pairs(
    seed: int, items: int, conditions: int, most: int, equal: bool
) -> None:
    table = ragged(seed, items, conditions, most, equal)
    cells = sums(table)
    within, between = cosine.within_cosine(cells), cosine.between_cosine(cells)
    centroid = cosine.centroid_cosine(cells)
    for i, item in enumerate(table):
        for p, cell in enumerate(item):
            pairs = [cos(a, b) for a, b in combinations(cell, 2)]
            np.testing.assert_allclose(
                within[i, p], np.mean(pairs) if pairs else np.nan, atol=1e-12
            )
        for j, (first, second) in enumerate(combinations(item, 2)):
            pairs = [cos(a, b) for a, b in product(first, second)]
            np.testing.assert_allclose(
                between[i, j], np.mean(pairs) if pairs else np.nan, atol=1e-12
            )
            if pairs:
                unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (first, second)]
                means = [x.mean(axis=0) for x in unit]
                np.testing.assert_allclose(centroid[i, j], cos(*means), atol=1e-12)
    if equal:
        baseline = [
            cos(a, b)
            for first, second in combinations(table, 2)
            for a, b in product(np.concatenate(first), np.concatenate(second))
        ]
        assert cosine.item_baseline(cells) == pytest.approx(np.mean(baseline), abs=1e-12)


def test_equals_the_design_formulas_on_sums() -> None:
    rng = np.random.default_rng(0)
    e = rng.normal(size=(4, 3, 5, 8)) + 1
    e /= np.linalg.norm(e, axis=-1, keepdims=True)
    cells = cosine.cell_sums(e)
    s, total = e.sum(axis=2), e.sum(axis=(1, 2))
    items, conditions, runs = e.shape[:3]
    w = ((s**2).sum(-1) - runs) / (runs * (runs - 1))
    c = ((total**2).sum(-1) - (s**2).sum((1, 2))) / (runs**2 * conditions * (conditions - 1))
    grand = total.sum(axis=0)
    b = (grand @ grand - (total**2).sum()) / ((conditions * runs) ** 2 * items * (items - 1))
    np.testing.assert_allclose(cosine.within_cosine(cells), w, atol=1e-13)
    np.testing.assert_allclose(cosine.between_cosine(cells).mean(axis=1), c, atol=1e-13)
    assert cosine.item_baseline(cells) == pytest.approx(b, abs=1e-13)


def test_orthogonal_pair_under_two_conditions() -> None:
    x, y = np.eye(2)
    result = cosine.item_cosines(cosine.cell_sums([[x, y], [x, y]]))
    assert result.between == pytest.approx(0.5)
    assert result.reproducibility == pytest.approx(1.0)
    assert result.repeatability == pytest.approx(0.0)
    # w = 0: no common direction, so the debiased form is missing, not infinite.
    assert np.isnan(result.reproducibility_debiased) and result.debiased_missing == 1


def test_nearly_coincident_vectors_keep_their_distance() -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(size=64)
    base /= np.linalg.norm(base)
    step = rng.normal(size=(5, 64)) * 1e-9
    step -= np.outer(step @ base, base)
    distance = [((step[i] - step[j]) ** 2).sum() / 2 for i, j in combinations(range(5), 2)]
    cells = cosine.cell_sums(base + step)
    assert cells.scatter / 4 == pytest.approx(np.mean(distance), rel=1e-4)
    assert cosine.within_cosine(cosine.cell_sums(np.tile(base, (7, 1)))) == pytest.approx(1.0)


def test_single_precision_and_scale_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    e = rng.normal(size=(2, 30, 16)).astype(np.float32)
    scaled = e.astype(np.float64) * rng.choice([1e-200, 1.0, 1e200], size=(2, 30, 1))
    np.testing.assert_allclose(
        cosine.within_cosine(cosine.cell_sums(e)),
        cosine.within_cosine(cosine.cell_sums(scaled)),
        atol=1e-12,
    )


def test_missing_rows_equal_fewer_rows() -> None:
    rng = np.random.default_rng(3)
    e = rng.normal(size=(6, 8))
    holes = np.insert(e, [1, 4], [[np.nan], [0.0]], axis=0)
    holes[1, 3:] = 1.0
    full, less = cosine.cell_sums(holes), cosine.cell_sums(e)
    assert (full.count, full.missing) == (6, 2) and less.missing == 0
    np.testing.assert_allclose(full.total, less.total)
    assert cosine.within_cosine(full) == pytest.approx(float(cosine.within_cosine(less)))


def test_empty_and_single_run_cells_are_missing() -> None:
    cells = cosine.stack_cells(
        [cosine.cell_sums(np.empty((0, 3))), cosine.cell_sums(np.ones((1, 3)))]
    )
    assert np.isnan(cosine.within_cosine(cells)).all()
    assert np.isnan(cosine.between_cosine(cells)).all()
    result = cosine.item_cosines(cells)
    assert result.runs == 1 and np.isnan(result.repeatability) and np.isnan(result.between)
    assert np.isnan(cosine.item_baseline(cells))


def test_item_with_an_empty_condition_uses_the_others() -> None:
    rng = np.random.default_rng(4)
    full = [cosine.cell_sums(rng.normal(size=(3, 4)) + 1) for _ in range(3)]
    empty = cosine.cell_sums(np.full((3, 4), np.nan))
    some = cosine.item_cosines(cosine.stack_cells([*full, empty]))
    rest = cosine.item_cosines(cosine.stack_cells(full))
    assert some.repeatability == rest.repeatability and some.between == rest.between
    assert some.missing == 3 and some.runs == rest.runs == 9


def test_item_means_and_pairs_leave_empty_cells_out() -> None:
    rng = np.random.default_rng(6)
    e = rng.normal(size=(4, 3, 5, 6)) + 1
    e[0, 1], e[2] = np.nan, np.nan
    items = [[cosine.cell_sums(cell) for cell in item] for item in e]
    cells = cosine.stack_items(items)
    table = cosine.stack_cells([cosine.stack_cells(item) for item in items])
    for name in ("count", "total", "scatter", "missing"):
        np.testing.assert_array_equal(getattr(cells, name), getattr(table, name))
    unit = e / np.linalg.norm(e, axis=-1, keepdims=True)
    means = unit.mean(axis=2)
    expected = np.stack([means[0, [0, 2]].mean(axis=0), means[1].mean(axis=0),
                         np.full(6, np.nan), means[3].mean(axis=0)])  # fmt: skip
    np.testing.assert_allclose(cosine.item_means(cells), expected, rtol=1e-12)
    products = np.array([[[p @ q for q in item] for p in item] for item in means])
    np.testing.assert_allclose(cosine.mean_products(cells), products, rtol=1e-12)


def test_merged_parts_equal_the_whole() -> None:
    rng = np.random.default_rng(5)
    e = rng.normal(size=(2, 9, 5))
    whole = cosine.cell_sums(e)
    parts = cosine.merge_cells(cosine.cell_sums(e[:, :4]), cosine.cell_sums(e[:, 4:]))
    none = cosine.merge_cells(parts, cosine.cell_sums(np.empty((2, 0, 5))))
    for cells in (parts, none):
        np.testing.assert_allclose(cells.total, whole.total)
        np.testing.assert_allclose(cells.scatter, whole.scatter)
        np.testing.assert_array_equal(cells.count, whole.count)
    with pytest.raises(ValueError, match="cannot merge"):
        cosine.merge_cells(whole, cosine.cell_sums(np.ones((3, 5))))


def test_chance_corrected_scale() -> None:
    assert cosine.chance_corrected(1.0, 0.3) == pytest.approx(1.0)
    assert cosine.chance_corrected(0.3, 0.3) == pytest.approx(0.0)
    assert cosine.chance_corrected(0.65, 0.3) == pytest.approx(0.5)
    assert np.isnan(cosine.chance_corrected(1.0, 1.0))


def cloud(seed: int, items: int, runs: int, noise: float) -> NDArray:
    """Runs around two condition directions whose cosine is 0.8, (items, 2, runs, 64)."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(items, 64, 2)))[0]
    first = basis[..., 0]
    second = 0.8 * first + 0.6 * basis[..., 1]
    centre = np.stack([first, second], axis=1)[:, :, None]
    return centre + noise / np.sqrt(64) * rng.normal(size=(items, 2, runs, 64))


@pytest.mark.parametrize("noise", [0.62, 0.8])
def test_debiased_form_does_not_depend_on_the_number_of_runs(noise: float) -> None:
    e = cloud(0, 200, 400, noise)
    few, many = cosine.cell_sums(e[:, :, :5]), cosine.cell_sums(e)
    debiased = cosine.debiased_cosine(few).mean(), cosine.debiased_cosine(many).mean()
    centroid = cosine.centroid_cosine(few).mean(), cosine.centroid_cosine(many).mean()
    assert abs(debiased[0] - debiased[1]) < 0.01
    assert debiased[1] == pytest.approx(0.8, abs=0.005)
    assert centroid[1] - centroid[0] > 0.05


def test_meaning_components_equal_brute_force() -> None:
    rng = np.random.default_rng(6)
    e = (
        rng.normal(size=(5, 3, 4, 6))
        + rng.normal(size=(5, 1, 1, 6))
        + rng.normal(size=(1, 3, 1, 6))
    )
    unit = e / np.linalg.norm(e, axis=-1, keepdims=True)
    found = {key: [] for key in ("w", "c", "same", "other", "b")}
    index = list(product(range(5), range(3), range(4)))
    for (i, p, r), (j, q, s) in combinations(index, 2):
        value = unit[i, p, r] @ unit[j, q, s]
        if i == j:
            found["w" if p == q else "c"].append(value)
        else:
            found["b"].append(value)
            found["same" if p == q else "other"].append(value)
    mean = {key: np.mean(values) for key, values in found.items()}
    parts = meaning.meaning_components(cosine.cell_sums(e))
    assert parts.run == pytest.approx(1 - mean["w"], abs=1e-12)
    assert parts.item == pytest.approx(mean["c"] - mean["b"], abs=1e-12)
    assert parts.condition == pytest.approx(mean["same"] - mean["other"], abs=1e-12)
    assert parts.between_conditions == pytest.approx(mean["w"] - mean["c"], abs=1e-12)
    assert parts.reproducibility_sd**2 == pytest.approx(1 - mean["c"], abs=1e-12)


@pytest.mark.parametrize("bad", [np.ones(3), np.ones((2, 0))])
def test_bad_embeddings_are_refused(bad: NDArray) -> None:
    with pytest.raises(ValueError, match="embeddings"):
        cosine.cell_sums(bad)


def test_bad_cells_are_refused() -> None:
    one = cosine.cell_sums(np.ones((2, 3)))
    with pytest.raises(ValueError, match="conditions"):
        cosine.between_cosine(one)
    with pytest.raises(ValueError, match="no cells"):
        cosine.stack_cells([])
    with pytest.raises(ValueError, match="differ in shape"):
        cosine.stack_cells([one, cosine.cell_sums(np.ones((2, 4)))])
    with pytest.raises(ValueError, match="number of conditions"):
        cosine.stack_items([[one], [one, one]])
    with pytest.raises(ValueError, match=r"\(I,\) or \(I, P\)"):
        cosine.item_baseline(one)
    with pytest.raises(ValueError, match=r"\(P,\)"):
        cosine.item_cosines(one)
