"""Agreement statistics against published examples, brute force and real repeated runs."""

import json
import math
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as library_kappa

from lmrel_tasks.metrics import agreement
from lmrel_tasks.metrics.icc import icc

DATA = json.loads((Path(__file__).parent / "data" / "llm_stability_which.json").read_text())

# Fleiss (1971), table 1: 30 patients, 6 psychiatrists, 5 diagnoses.
FLEISS = [
    *("444444", "222555", "233335", "555555", "222444", "113333", "333355", "113334", "114444"),
    *("555555", "144444", "124444", "222333", "144444", "224445", "333335", "111455", "111112"),
    *("224444", "133555", "555555", "244444", "224555", "114444", "144445", "222224", "111155"),
    *("224444", "133333", "555555"),
]

# Krippendorff (2011), section C: four observers, twelve units, "." is missing.
KRIPPENDORFF = ["123321412...", "1233224125.3", ".3332342251.", "12332441251."]

# Shrout & Fleiss (1979), table 2: six targets, four judges.
SHROUT_FLEISS = [
    [9, 2, 5, 8],
    [6, 1, 3, 2],
    [8, 4, 6, 8],
    [7, 1, 2, 6],
    [10, 5, 6, 9],
    [6, 2, 4, 7],
]


def krippendorff_units() -> list[list[object]]:
    return [
        [None if x == "." else int(x) for x in unit] for unit in zip(*KRIPPENDORFF, strict=True)
    ]


@pytest.mark.parametrize("task", DATA["share_identical"])
def test_share_of_identical_responses_of_real_runs(task: str) -> None:
    runs = DATA["which"][task].split()
    assert round(agreement.tar(runs), 3) == DATA["share_identical"][task]


@pytest.mark.parametrize("task", ["college_mathematics", "navigate"])
def test_agreement_of_real_runs_equals_brute_force(task: str) -> None:
    for runs in DATA["which"][task].split():
        pairs = [a == b for a, b in combinations(runs, 2)]
        assert agreement.answer_agreement(runs) == pytest.approx(np.mean(pairs))


def test_missing_answers_leave_the_pairs() -> None:
    assert agreement.answer_agreement(["a", "", "a", None, "b"]) == pytest.approx(1 / 3)
    assert math.isnan(agreement.answer_agreement(["a", ""]))
    assert agreement.cross_agreement(["a", "b", ""], ["a", "a", "c"]) == pytest.approx(2 / 6)
    assert math.isnan(agreement.cross_agreement(["a"], [""]))


def test_cross_agreement_equals_brute_force() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 3, 7).tolist(), rng.integers(0, 3, 5).tolist()
    expected = np.mean([a == b for a, b in product(first, second)])
    assert agreement.cross_agreement(first, second) == pytest.approx(expected)


def test_identical_runs() -> None:
    assert agreement.all_identical(["a", "a"]) == 1.0
    assert agreement.all_identical(["a", "b"]) == 0.0
    assert agreement.all_identical(["a", ""]) == 0.0
    assert math.isnan(agreement.all_identical(["", ""]))
    assert math.isnan(agreement.all_identical(["a"]))
    assert agreement.tar([["a", "a"], ["a", "b"], ["", ""]]) == 0.5
    assert math.isnan(agreement.tar([]))


def test_modal_answers_across_conditions() -> None:
    agree = agreement.answer_reproducibility
    assert agree(["aab", "aaa", "abb"]) == pytest.approx(1 / 3)
    # A tie between a and b agrees with a in half of the random choices.
    assert agree(["ab", "aa"]) == agree(["ba", "aa"]) == 0.5
    assert agree([["a", "b"], ["a", "b"]]) == 0.5
    assert agree([["a"], ["", ""], ["a"]]) == 1.0
    assert math.isnan(agree([["a"], [""]]))
    assert agreement.modal_answers(["b", "a", "", "", ""]) == ["b", "a"]


def test_fleiss_kappa_of_the_original_paper() -> None:
    assert agreement.fleiss_kappa(FLEISS) == pytest.approx(0.430, abs=5e-4)
    table = [[row.count(c) for c in "12345"] for row in FLEISS]
    assert agreement.fleiss_kappa(FLEISS) == pytest.approx(library_kappa(table), abs=1e-12)


def test_fleiss_kappa_of_a_textbook_example() -> None:
    counts = """0 0 0 0 14/0 2 6 4 2/0 0 3 5 6/0 3 9 2 0/2 2 8 1 1/7 7 0 0 0/3 2 6 3 0/2 5 3 2 2/
    6 5 2 1 0/0 2 2 3 7"""
    ratings = [
        [label for label, n in enumerate(map(int, row.split())) for _ in range(n)]
        for row in counts.split("/")
    ]
    assert agreement.fleiss_kappa(ratings) == pytest.approx(0.210, abs=5e-4)


def test_fleiss_kappa_limits_and_refusals() -> None:
    assert agreement.fleiss_kappa(["aa", "bb"]) == pytest.approx(1.0)
    assert math.isnan(agreement.fleiss_kappa(["aa", "aa"]))
    for bad, message in [([], "empty"), (["a"], "two runs"), (["ab", "abc"], "row 1")]:
        with pytest.raises(ValueError, match=message):
            agreement.fleiss_kappa(bad)
    with pytest.raises(ValueError, match="krippendorff_alpha"):
        agreement.fleiss_kappa([["a", "b"], ["a", ""]])


def test_krippendorff_alpha_of_the_original_paper() -> None:
    units = krippendorff_units()
    assert agreement.krippendorff_alpha(units) == pytest.approx(0.743, abs=5e-4)
    interval = agreement.krippendorff_alpha(units, level="interval")
    assert interval == pytest.approx(0.849, abs=5e-4)


def test_krippendorff_alpha_equals_its_definition_over_pairs() -> None:
    rng = np.random.default_rng(1)
    units = [rng.normal(size=m).round(1).tolist() for m in (2, 3, 5, 1, 4)]
    for level, distance in [
        ("interval", lambda a, b: (a - b) ** 2),
        ("nominal", lambda a, b: float(a != b)),
    ]:
        kept = [unit for unit in units if len(unit) > 1]
        pool = [x for unit in kept for x in unit]
        observed = sum(
            2 * sum(distance(a, b) for a, b in combinations(u, 2)) / (len(u) - 1) for u in kept
        ) / len(pool)
        expected = np.mean([distance(a, b) for a, b in combinations(pool, 2)])
        assert agreement.krippendorff_alpha(units, level=level) == pytest.approx(  # type: ignore[arg-type]
            1 - observed / expected
        )


def test_krippendorff_alpha_limits_and_refusals() -> None:
    assert agreement.krippendorff_alpha(["aa", "bb"]) == 1.0
    assert math.isnan(agreement.krippendorff_alpha(["aa", "aa"]))
    assert math.isnan(agreement.krippendorff_alpha(["a", ["b", ""]]))
    with pytest.raises(ValueError, match="level"):
        agreement.krippendorff_alpha(["aa"], level="ratio")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="numbers"):
        agreement.krippendorff_alpha(["ab"], level="interval")


# Estimates from the paper, table 4; limits as printed for these data by the R package psych.
@pytest.mark.parametrize(
    ("model", "average", "estimate", "low", "high"),
    [
        ("1", False, 0.17, -0.133, 0.72),
        ("2", False, 0.29, 0.019, 0.76),
        ("3", False, 0.71, 0.342, 0.95),
        ("1", True, 0.44, -0.884, 0.91),
        ("2", True, 0.62, 0.071, 0.93),
        ("3", True, 0.91, 0.676, 0.99),
    ],
)
def test_intraclass_correlations_of_the_original_paper(
    model: str, average: bool, estimate: float, low: float, high: float
) -> None:
    result = icc(SHROUT_FLEISS, model, average=average)  # type: ignore[arg-type]
    assert result.kind == f"ICC({model},{4 if average else 1})"
    assert result.estimate == pytest.approx(estimate, abs=5e-3)
    assert result.ci_low == pytest.approx(low, abs=6e-4)
    assert result.ci_high == pytest.approx(high, abs=5e-3)
    assert result.statistic == pytest.approx(1.79 if model == "1" else 11.03, abs=6e-3)


def test_intraclass_correlation_edges() -> None:
    rows = [*SHROUT_FLEISS, [1, np.nan, 2, 3]]
    assert icc(rows).estimate == icc(SHROUT_FLEISS).estimate and icc(rows).n == 6
    assert icc([[1, 1], [2, 2]], "1").estimate == 1.0
    assert math.isnan(icc([[1, 1], [1, 1]]).estimate)
    shifted = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0]])
    assert icc(shifted, "3").estimate == pytest.approx(1.0)
    assert icc(shifted, "2").estimate < 1.0
    with pytest.raises(ValueError, match="model"):
        icc(SHROUT_FLEISS, "4")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        icc([1.0, 2.0])
    with pytest.raises(ValueError, match="complete items"):
        icc([[1.0, np.nan], [1.0, 2.0]])
