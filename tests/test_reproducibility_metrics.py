"""Metrics over conditions against brute force over all pairs, statsmodels and delete-one refits."""

from __future__ import annotations

import json
import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from lmrel_tasks.measures import METRICS, get_metric
from lmrel_tasks.metrics import agreement
from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.metrics.jackknife import block_jackknife, jackknife_error, weight_jackknife
from lmrel_tasks.metrics.preset_metrics import under_preset
from lmrel_tasks.metrics.registry import jackknife_stderr

N, P, R, D = 5, 3, 4, 6
NAMES = ("plain", "polite", "terse")


def items(seed: int = 0, conditions: int = P, n: int = N, interaction: float = 0.0) -> list[Item]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(n):
        topic = rng.normal(size=D)
        cells = []
        for p in range(conditions):
            vectors = topic + 0.4 * p + rng.normal(size=(R, D))
            vectors += interaction * np.cos(np.arange(D) + 7.0 * i + 3.0 * p)
            cells.append(
                Condition(
                    name=NAMES[p],
                    texts=tuple("abcd"),
                    answers=tuple("ABC"[k] for k in rng.integers(0, 3, R)),
                    embeddings=vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
                    entropy=rng.uniform(0.1, 2.0, R),
                    certainty=rng.uniform(0.2, 0.9, R) + 0.02 * i,
                )
            )
        made.append(Item(f"i{i}", tuple(cells), labels=("A",)))
    return made


def reported(name: str, made: list[Item], **arguments) -> tuple[float, float | None]:
    metric = get_metric(name).bind(arguments)
    values = [metric.per_item(item) for item in made]
    return metric.aggregate(values), metric.standard_error(values)


def between(one: Item) -> float:
    pairs = combinations(one.conditions, 2)
    return float(
        np.mean(
            [np.mean([a @ b for a, b in product(p.embeddings, q.embeddings)]) for p, q in pairs]
        )
    )


def within(one: Condition) -> float:
    return float(np.mean([a @ b for a, b in combinations(one.embeddings, 2)]))


def baseline(made: list[Item]) -> float:
    rows = [np.concatenate([c.embeddings for c in item.conditions]) for item in made]
    return float(
        np.mean([np.mean([a @ b for a, b in product(x, y)]) for x, y in combinations(rows, 2)])
    )


def test_meaning_across_conditions_equals_all_pairs() -> None:
    made = items()
    centroid, debiased = [], []
    for item in made:
        means = [c.embeddings.mean(axis=0) for c in item.conditions]
        centroid.append(
            np.mean([a @ b / math.hypot(*a) / math.hypot(*b) for a, b in combinations(means, 2)])
        )
        debiased.append(
            np.mean(
                [
                    np.mean([a @ b for a, b in product(p.embeddings, q.embeddings)])
                    / math.sqrt(within(p) * within(q))
                    for p, q in combinations(item.conditions, 2)
                ]
            )
        )
    for name, values in (
        ("semantic_reproducibility", centroid),
        ("semantic_reproducibility_debiased", debiased),
    ):
        value, error = reported(name, made)
        assert value == pytest.approx(np.mean(values))
        assert error == pytest.approx(np.std(values, ddof=1) / math.sqrt(N))


def test_alpha_equals_all_pairs_and_its_error_a_refit_without_each_item() -> None:
    made = items(1)

    def alpha(kept: list[Item], reproducibility: bool) -> float:
        b = baseline(kept)
        scores = [
            between(i) if reproducibility else np.mean([within(c) for c in i.conditions])
            for i in kept
        ]
        return (np.mean(scores) - b) / (1 - b)

    for name, flag in (
        ("semantic_alpha_repeatability", False),
        ("semantic_alpha_reproducibility", True),
    ):
        value, error = reported(name, made)
        assert value == pytest.approx(alpha(made, flag))
        left_out = [alpha(made[:i] + made[i + 1 :], flag) for i in range(N)]
        assert error == pytest.approx(
            math.sqrt((N - 1) / N * np.square(np.array(left_out) - np.mean(left_out)).sum())
        )


def test_certainty_and_modal_answers_across_conditions() -> None:
    made = items(2)
    certain, modal = [], []
    for item in made:
        means = [c.certainty.mean() for c in item.conditions]
        certain.append(1 - np.mean([abs(a - b) for a, b in combinations(means, 2)]))
        modes = []
        for cell in item.conditions:
            most = max(cell.answers.count(a) for a in cell.answers)
            modes.append({a for a in cell.answers if cell.answers.count(a) == most})
        modal.append(np.mean([len(a & b) / (len(a) * len(b)) for a, b in combinations(modes, 2)]))
    assert reported("internal_reproducibility", made)[0] == pytest.approx(np.mean(certain))
    assert reported("answer_reproducibility", made)[0] == pytest.approx(np.mean(modal))


def _library_shares(table: np.ndarray) -> np.ndarray:
    i, p, _ = np.indices(table.shape)
    frame = pd.DataFrame({"y": table.ravel(), "i": i.ravel(), "p": p.ravel()})
    square = anova_lm(smf.ols("y ~ C(i)*C(p)", frame).fit())["mean_sq"]
    n, k, reps = table.shape
    run, cell = square["Residual"], square["C(i):C(p)"]
    parts = np.array(
        [
            (square["C(i)"] - cell) / (k * reps),
            (square["C(p)"] - cell) / (n * reps),
            (cell - run) / reps,
            run,
        ]
    ).clip(min=0)
    return 100 * parts / parts.sum()


@pytest.mark.parametrize("of", ["certainty", "correctness"])
def test_variance_shares_equal_library_anova(of: str) -> None:
    made = items(3)
    table = np.array(
        [
            [
                c.certainty if of == "certainty" else [a == "A" for a in c.answers]
                for c in i.conditions
            ]
            for i in made
        ],
        dtype=float,
    )  # fmt: skip
    expected = _library_shares(table)
    names = ("var_item", "var_condition", "var_item_condition", "var_run")
    for name, share in zip(names, expected, strict=True):
        value, error = reported(name, made, of=of)
        assert value == pytest.approx(share, abs=1e-8)
        left_out = [
            _library_shares(np.delete(table, k, axis=0))[names.index(name)] for k in range(N)
        ]
        expected_error = math.sqrt((N - 1) / N * np.square(left_out - np.mean(left_out)).sum())
        assert error == pytest.approx(expected_error, abs=1e-7)


def test_variance_shares_of_meaning_equal_all_pairs() -> None:
    made = items(4, interaction=1.0)
    w = np.mean([within(c) for i in made for c in i.conditions])
    c = np.mean([between(i) for i in made])
    b = baseline(made)
    total = 1 - b  # run (1 - w) + conditions (w - c) + item (c - b), none negative here
    assert w > c > b
    assert reported("var_run", made)[0] == pytest.approx(100 * (1 - w) / total)
    assert reported("var_item", made)[0] == pytest.approx(100 * (c - b) / total)
    parts = [reported(n, made)[0] for n in ("var_condition", "var_item_condition")]
    assert sum(parts) == pytest.approx(100 * (w - c) / total)


def test_shares_recover_known_components() -> None:
    rng = np.random.default_rng(5)
    sd = {"item": 0.10, "condition": 0.05, "item_condition": 0.04, "run": 0.06}
    shift = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    shift *= sd["condition"] / shift.std(ddof=1)
    item, cell = rng.normal(0, sd["item"], 400), rng.normal(0, sd["item_condition"], (400, 5))
    made = [
        Item(
            str(i),
            tuple(
                Condition(str(p), certainty=0.5 + item[i] + shift[p] + cell[i, p]
                          + rng.normal(0, sd["run"], 12))
                for p in range(5)
            ),
        )
        for i in range(400)
    ]  # fmt: skip
    total = sum(value**2 for value in sd.values())
    for part, value in sd.items():
        found, error = reported(f"var_{part}", made, of="certainty")
        assert found == pytest.approx(100 * value**2 / total, rel=0.1)
        assert abs(found - 100 * value**2 / total) < 3 * (error or 0)


def test_one_condition_has_no_condition_component() -> None:
    made = items(6, conditions=1)
    assert all(METRICS["var_condition"].per_item(item) is None for item in made)
    shares = [reported(name, made)[0] for name in ("var_item", "var_run")]
    assert sum(shares) == pytest.approx(100)
    assert reported("semantic_reproducibility", made)[0] != reported("acc", made)[0]
    assert math.isnan(reported("semantic_reproducibility", made)[0])


def test_too_little_data_is_undefined_and_no_error() -> None:
    assert math.isnan(reported("var_item", items(n=1))[0])
    assert reported("var_item", items(n=1))[1] is None
    assert math.isnan(reported("icc", items(n=1))[0])
    assert math.isnan(reported("krippendorff_alpha", [])[0])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fleiss_kappa", {}),
        ("fleiss_kappa", {"of": "correctness"}),
        ("krippendorff_alpha", {}),
        ("krippendorff_alpha", {"of": "certainty"}),
        ("icc", {"of": "certainty"}),
        ("icc", {"of": "correctness", "model": 3}),
    ],
)
def test_agreement_errors_equal_a_refit_without_each_item(name: str, arguments: dict) -> None:
    made = items(7, n=9)
    metric = get_metric(name).bind(arguments)
    values = [metric.per_item(item) for item in made]
    expected = jackknife_stderr(values, metric.aggregate)
    assert expected is not None
    assert metric.standard_error(values) == pytest.approx(expected)


def test_agreement_equals_the_functions_on_all_runs() -> None:
    made = items(8, n=7)
    answers = [[a for c in i.conditions for a in c.answers] for i in made]
    assert reported("fleiss_kappa", made)[0] == pytest.approx(agreement.fleiss_kappa(answers))
    assert reported("krippendorff_alpha", made)[0] == pytest.approx(
        agreement.krippendorff_alpha(answers)
    )
    right = [[a == "A" for a in row] for row in answers]
    assert reported("krippendorff_alpha", made, of="correctness")[0] == pytest.approx(
        agreement.krippendorff_alpha(right)
    )


def test_items_with_missing_answers_leave_kappa_and_stay_in_alpha() -> None:
    made = items(8, n=7)
    cell = made[0].conditions[0]
    hole = Condition("plain", answers=("", *cell.answers[1:]))
    holed = [Item("i0", (hole, *made[0].conditions[1:]), labels=("A",)), *made[1:]]
    assert reported("fleiss_kappa", holed)[0] == reported("fleiss_kappa", made[1:])[0]
    answers = [[a for c in i.conditions for a in c.answers] for i in holed]
    assert reported("krippendorff_alpha", holed)[0] == pytest.approx(
        agreement.krippendorff_alpha(answers)
    )


def test_semantic_entropy_counts_classes() -> None:
    one = Item(
        "a", (Condition("x", answers=("p", "p", "q", "q")), Condition("y", answers=("p",) * 4))
    )
    assert METRICS["semantic_entropy"].per_item(one) == pytest.approx(0.5)
    half = get_metric("semantic_entropy").bind({"normalise": True})
    assert half.per_item(one) == pytest.approx(0.25)


def test_arguments_are_checked_before_sampling() -> None:
    for name, arguments in (
        ("var_run", {"of": "colour"}),
        ("icc", {"of": "meaning"}),
        ("icc", {"model": 4}),
        ("fleiss_kappa", {"of": "certainty"}),
        ("krippendorff_alpha", {"of": "meaning"}),
    ):
        with pytest.raises(ValueError, match=f"metric {name}: {next(iter(arguments))} must be"):
            get_metric(name).bind(arguments)


def test_presets_of_an_item_average_its_conditions() -> None:
    made = items(9)
    bits = [[c.entropy.mean() for c in i.conditions] for i in made]
    nats = under_preset(METRICS["internal_repeatability"], "shyr-v1", 30)
    assert nats.name == "internal_repeatability:shyr-v1"
    values = [nats.per_item(item) for item in made]
    np.testing.assert_allclose(values, [-np.mean(row) * math.log(2) for row in bits])
    rescaled = under_preset(METRICS["semantic_repeatability"], "rs-0.3", 30)
    found = [rescaled.per_item(item) for item in made]
    np.testing.assert_allclose(
        found, [np.mean([(1 + within(c)) / 2 for c in i.conditions]) for i in made]
    )
    assert rescaled.standard_error(found) == pytest.approx(np.std(found, ddof=1) / math.sqrt(N))
    pairs = under_preset(METRICS["semantic_reproducibility"], "rs-0.3", 30)
    assert pairs.per_item(made[0]) == pytest.approx((1 + between(made[0])) / 2)
    assert under_preset(METRICS["acc"], "rs-0.3", 30) is METRICS["acc"]


def test_preset_without_embeddings_still_gives_internal_scores() -> None:
    bare = Item("a", tuple(Condition(n, entropy=np.array([1.0, 2.0])) for n in NAMES[:2]))
    internal = under_preset(METRICS["internal_reproducibility"], "rs-0.1", 30)
    assert internal.per_item(bare) == pytest.approx(1.0)
    assert under_preset(METRICS["semantic_repeatability"], "rs-0.1", 30).per_item(bare) is None


def test_real_runs_as_conditions_reproduce_the_published_shares() -> None:
    """GPT-4o's five runs at temperature 0: the seven tasks as conditions of their own."""
    data = json.loads((Path(__file__).parent / "data" / "llm_stability_which.json").read_text())
    assert len(data["which"]) == 7
    for task, row in data["which"].items():
        made = [
            Item(f"{task}{k}", (Condition(task, texts=tuple(which), answers=tuple(which)),))
            for k, which in enumerate(row.split())
        ]
        assert round(reported("tar_raw", made)[0], 3) == data["share_identical"][task]
        # Runs as conditions: every pair of single runs agrees exactly where the pair of runs does.
        split = [
            Item(i.key, tuple(Condition(str(r), answers=(t,)) for r, t in enumerate(c.texts)))
            for i in made for c in i.conditions
        ]  # fmt: skip
        assert reported("answer_reproducibility", split)[0] == pytest.approx(
            reported("answer_agreement", made)[0]
        )


def test_jackknife_of_a_mean_is_its_standard_error() -> None:
    x = np.random.default_rng(0).normal(size=40)
    expected = x.std(ddof=1) / math.sqrt(40)
    assert block_jackknife(list(x), lambda rows: float(np.mean(rows))) == pytest.approx(expected)
    assert weight_jackknife(lambda w: w @ x / w.sum(axis=1), 40) == pytest.approx(expected)
    blocks = weight_jackknife(lambda w: w @ x / w.sum(axis=1), 40, max_blocks=20)
    means = (x.sum() - x.reshape(2, 20).sum(axis=0)) / 38
    assert blocks == pytest.approx(jackknife_error(means))
    assert jackknife_error([1.0]) is None
