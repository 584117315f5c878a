"""Variance components and gauge R&R against statsmodels, closed forms and simulated truth."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from numpy.typing import NDArray
from statsmodels.stats.anova import anova_lm

from lmrel_tasks.metrics import cosine, gauge, meaning, variance
from lmrel_tasks.metrics.variance import VarianceComponents, variance_components

NAMES = ("item", "condition", "item_condition", "run")
TRUE = {"item": 1.0, "condition": 0.5, "item_condition": 0.4, "run": 0.8}


def simulate(
    rng: np.random.Generator, items: int, conditions: int, runs: int, tail: tuple[int, ...] = ()
) -> NDArray:
    """(I, P, R, *tail) with the components TRUE."""
    size = (items, conditions, runs)
    shapes = ((items, 1, 1), (1, conditions, 1), (items, conditions, 1), size)
    return sum(
        np.sqrt(value) * rng.normal(size=(*shape, *tail))
        for value, shape in zip(TRUE.values(), shapes, strict=True)
    )  # type: ignore[return-value]


def as_array(components: VarianceComponents) -> NDArray:
    return np.array([getattr(components, name) for name in NAMES])


def library_anova(y: NDArray) -> NDArray:
    """The components solved from the mean squares of statsmodels' ANOVA."""
    items, conditions, runs = y.shape
    index = np.indices(y.shape)
    frame = pd.DataFrame({"y": y.ravel(), "i": index[0].ravel(), "p": index[1].ravel()})
    table = anova_lm(smf.ols("y ~ C(i) * C(p)", frame).fit())
    square = table["sum_sq"] / table["df"]
    cell = (square["C(i):C(p)"] - square["Residual"]) / runs
    item = (square["C(i)"] - square["C(i):C(p)"]) / (conditions * runs)
    condition = (square["C(p)"] - square["C(i):C(p)"]) / (items * runs)
    return np.array([item, condition, cell, square["Residual"]])


@pytest.mark.parametrize("shape", [(2, 2, 2), (6, 3, 5), (20, 4, 3)])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_balanced_equals_library_anova(shape: tuple[int, int, int], offset: float) -> None:
    y = simulate(np.random.default_rng(sum(shape)), *shape)
    found = as_array(variance_components(y + offset))
    np.testing.assert_allclose(found, library_anova(y), atol=1e-8)


def test_binary_balanced_equals_library_anova() -> None:
    y = (simulate(np.random.default_rng(3), 15, 4, 6) > 0.3).astype(float)
    np.testing.assert_allclose(as_array(variance_components(y)), library_anova(y), atol=1e-8)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_balanced_reml_equals_anova(seed: int) -> None:
    # On balanced data with positive estimates the two are the same.
    y = 3 + 2 * simulate(np.random.default_rng(seed), 12, 4, 3)
    anova, reml = variance_components(y), variance_components(y, method="reml")
    assert as_array(anova).min() > 0
    np.testing.assert_allclose(as_array(reml), as_array(anova), rtol=1e-4)


def test_single_condition_equals_one_way_anova() -> None:
    y = simulate(np.random.default_rng(4), 12, 1, 5)
    within = y[:, 0].var(axis=1, ddof=1).mean()
    between = y[:, 0].mean(axis=1).var(ddof=1) - within / 5
    found = variance_components(y)
    assert found.run == pytest.approx(within) and found.item == pytest.approx(between)
    assert np.isnan(found.condition) and np.isnan(found.between_conditions)
    assert np.isnan(found.percent()["condition"])
    assert found.percent()["item"] == pytest.approx(100 * between / (between + within))


def unbalance(rng: np.random.Generator, y: NDArray) -> NDArray:
    y = y.copy()
    y[rng.uniform(size=y.shape) < 0.2] = np.nan
    y[rng.uniform(size=y.shape[:2]) < 0.1] = np.nan
    return y


@pytest.mark.parametrize("missing", [False, True])
def test_known_components_are_recovered(missing: bool) -> None:
    # The mean over data sets: one data set has too few conditions to fix their variance.
    rng = np.random.default_rng(5)
    found = []
    for _ in range(500):
        y = simulate(rng, 400, 12, 2)
        found.append(as_array(variance_components(unbalance(rng, y) if missing else y)))
    np.testing.assert_allclose(np.mean(found, axis=0), list(TRUE.values()), rtol=0.05)


def test_one_data_set_recovers_its_own_effects() -> None:
    rng = np.random.default_rng(6)
    item, condition = rng.normal(size=400), rng.normal(size=6)
    cell = 0.6 * rng.normal(size=(400, 6))
    y = (item[:, None] + condition + cell)[..., None] + 0.9 * rng.normal(size=(400, 6, 20))
    found = variance_components(y)
    assert found.item == pytest.approx(item.var(ddof=1), rel=0.05)
    assert found.condition == pytest.approx(condition.var(ddof=1), rel=0.05)
    assert found.item_condition == pytest.approx(0.36, rel=0.05)
    assert found.run == pytest.approx(0.81, rel=0.05)


def test_unbalanced_agrees_with_reml() -> None:
    rng = np.random.default_rng(7)
    y = unbalance(rng, simulate(rng, 20, 5, 4))
    anova, reml = variance_components(y), variance_components(y, method="reml")
    assert anova.n_runs == reml.n_runs == np.isfinite(y).sum()
    # Two unbiased estimators on the same data: alike, not equal.
    np.testing.assert_allclose(as_array(anova), as_array(reml), rtol=0.15, atol=0.02)


def test_empty_items_and_padding_change_nothing() -> None:
    y = simulate(np.random.default_rng(8), 6, 3, 4)
    padded = np.full((8, 4, 6), np.nan)
    padded[1:7, :3, 2:] = y
    np.testing.assert_allclose(
        as_array(variance_components(padded)), as_array(variance_components(y)), rtol=1e-12
    )


def test_shares_truncate_negative_estimates() -> None:
    parts = VarianceComponents(3.0, -0.5, 0.2, 1.0, 5, 3, 30, "anova")
    assert parts.percent() == pytest.approx(
        {"item": 300 / 4.2, "condition": 0.0, "item_condition": 20 / 4.2, "run": 100 / 4.2}
    )
    assert parts.between_conditions == pytest.approx(-0.3) and parts.between_sd == 0.0
    assert parts.reproducibility_sd == parts.repeatability_sd == 1.0
    constant = variance_components(np.ones((3, 2, 2)))
    assert as_array(constant).tolist() == [0, 0, 0, 0]
    assert all(np.isnan(v) for v in constant.percent().values())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones((3, 2)), "shape"),
        (np.full((3, 2, 2), np.nan), "two items"),
        (np.ones((1, 2, 2)), "two items"),
        (np.ones((3, 2, 1)), "two runs"),
        (np.full((3, 2, 2), np.inf), "infinite"),
        # Every item under one condition of its own: nothing to compare.
        ([[[1, 2], [np.nan] * 2], [[np.nan] * 2, [3, 4]]], "too sparse"),
    ],
)
def test_values_that_cannot_be_decomposed_are_refused(values: NDArray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        variance_components(values)


def test_reml_refusals() -> None:
    with pytest.raises(ValueError, match="limited to 400"):
        variance_components(np.zeros((101, 4, 2)), method="reml")
    with pytest.raises(ValueError, match="method must be"):
        variance_components(np.zeros((3, 2, 2)), method="ml")  # type: ignore[arg-type]


def test_meaning_recovers_known_components() -> None:
    # In many dimensions the squared length of a sum of independent vectors is nearly constant.
    e = simulate(np.random.default_rng(9), 400, 8, 3, (256,))
    parts = meaning.meaning_components(cosine.cell_sums(e))
    total = sum(TRUE.values())
    assert parts.run == pytest.approx(TRUE["run"] / total, rel=0.05)
    assert parts.item_condition == pytest.approx(TRUE["item_condition"] / total, rel=0.05)
    assert parts.condition == pytest.approx(TRUE["condition"] / total, rel=0.05)
    # The baseline holds pairs under one condition too, one in eight.
    expected = (TRUE["item"] - TRUE["condition"] / 8) / total
    assert parts.item == pytest.approx(expected, rel=0.05)


def test_meaning_identities_and_missing_cells() -> None:
    rng = np.random.default_rng(10)
    e = simulate(rng, 9, 3, 4, (5,))
    e[rng.uniform(size=e.shape[:3]) < 0.3] = np.nan
    e[2, 1] = np.nan
    e[4] = np.nan
    cells = cosine.cell_sums(e)
    parts = meaning.meaning_components(cells)
    kept = cells[np.arange(9) != 4]
    within = np.nanmean([np.nanmean(row) for row in cosine.within_cosine(kept)])
    between = np.nanmean([np.nanmean(row) for row in cosine.between_cosine(kept)])
    assert parts.n_items == 8
    assert parts.run == pytest.approx(1 - within)
    assert parts.between_conditions == pytest.approx(within - between)
    assert parts.item == pytest.approx(between - cosine.item_baseline(cells))


def test_meaning_of_one_condition_and_refusals() -> None:
    e = np.random.default_rng(11).normal(size=(4, 1, 3, 6))
    cells = cosine.cell_sums(e)
    parts = meaning.meaning_components(cells)
    within = cosine.within_cosine(cells).mean()
    assert parts.run == pytest.approx(1 - within) and np.isnan(parts.condition)
    assert parts.item == pytest.approx(within - cosine.item_baseline(cells))
    for bad, message in [(cells[0], "shape"), (cells[:1], "two items")]:
        with pytest.raises(ValueError, match=message):
            meaning.meaning_components(bad)
    with pytest.raises(ValueError, match="two runs"):
        meaning.meaning_components(cosine.cell_sums(e[:, :, :1]))


def test_gauge_table_of_a_scalar() -> None:
    y = simulate(np.random.default_rng(12), 80, 5, 6)
    table = gauge.gauge_rr(y, "certainty", n_resamples=400)
    parts = variance_components(y)
    assert table.measure == "certainty" and table.components == parts
    assert table.repeatability_sd.estimate == pytest.approx(np.sqrt(parts.run))
    assert table.between_sd.estimate == pytest.approx(np.sqrt(parts.between_conditions))
    assert table.reproducibility_sd.estimate == pytest.approx(parts.reproducibility_sd)
    assert table.repeatability_limit is not None and table.reproducibility_limit is not None
    assert table.repeatability_limit.estimate == pytest.approx(2.8 * parts.repeatability_sd)
    assert table.reproducibility_limit.ci_high == pytest.approx(
        2.8 * table.reproducibility_sd.ci_high
    )
    for row in (table.repeatability_sd, table.between_sd, table.reproducibility_sd):
        assert row.ci_low < row.estimate < row.ci_high and row.n == 80


def test_bootstrap_weights_equal_repeated_items() -> None:
    rng = np.random.default_rng(13)
    y = unbalance(rng, simulate(rng, 10, 3, 4))
    drawn = rng.integers(0, 10, 10)
    statistic, items = variance.scalar_statistic(y)
    weights = np.bincount(drawn, minlength=items).astype(float)[None]
    # Centred on all items, the weighted statistic must still equal one computed afresh.
    np.testing.assert_allclose(
        statistic(weights)[:, 0], as_array(variance_components(y[drawn])), rtol=1e-9
    )


def test_gauge_table_of_meaning() -> None:
    e = simulate(np.random.default_rng(14), 40, 3, 5, (24,))
    cells = cosine.cell_sums(e)
    table = gauge.gauge_rr_meaning(cells, n_resamples=300)
    within = cosine.within_cosine(cells).mean()
    between = cosine.between_cosine(cells).mean()
    assert table.repeatability_sd.estimate == pytest.approx(np.sqrt(1 - within))
    assert table.between_sd.estimate == pytest.approx(np.sqrt(within - between))
    assert table.reproducibility_sd.estimate == pytest.approx(np.sqrt(1 - between))
    assert table.repeatability_limit is None and table.reproducibility_limit is None
    row = table.reproducibility_sd
    assert row.ci_low < row.estimate < row.ci_high
