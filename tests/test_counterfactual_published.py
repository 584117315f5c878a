"""The presets reproduce what published code returns, and twelve real cells of MedPerturb."""

import json
from pathlib import Path

import numpy as np
import pytest

from lmrel_tasks.metrics import counterfactual as formulas
from lmrel_tasks.metrics.direction import panel_direction
from lmrel_tasks.metrics.excess import excess, item_values
from lmrel_tasks.metrics.panel import answer_shares, panel

DATA = Path(__file__).parent / "data"
PUBLISHED = json.loads((DATA / "counterfactual.json").read_text())["datasets"]
MEDPERTURB = json.loads((DATA / "medperturb_answers.json").read_text())

EXACT = dict(rel=1e-6, abs=1e-9)


def published_panel(name):
    given = PUBLISHED[name]["input"]
    return panel(given["p_orig"], given["p_target"], given["p_base"])


def monte_carlo(p, resamples):
    """Four standard errors of the difference of two two-sided bootstrap p."""
    half = min(max(p / 2, 1 / resamples), 0.5)
    return 4 * 2 * np.sqrt(2 * half * (1 - half) / resamples)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values_per_item(name):
    data, expected = published_panel(name), PUBLISHED[name]
    for metric in ("kl", "jsd"):
        for suffix, base in (("", np.e), ("_bits", 2)):
            targeted, benign, _ = item_values(data, metric, base=base, clip=1e-12)
            assert targeted == pytest.approx(expected[metric + suffix]["target"], **EXACT)
            assert benign[:, 0] == pytest.approx(expected[metric + suffix]["base"], **EXACT)
    unclipped = item_values(data, "kl")[0]
    assert (
        np.flatnonzero(np.isinf(unclipped)).tolist() == expected["kl_exact_is_inf_rows"]["target"]
    )
    classes = expected["input"]["classes"]
    for condition, key in (("original", "orig"), ("targeted", "target")):
        found = formulas.labels(getattr(data, condition))
        assert [classes[i] for i in found] == expected["labels"][key]


@pytest.mark.parametrize("name", PUBLISHED)
def test_cfprompt_preset(name):
    data, expected = published_panel(name), PUBLISHED[name]
    for metric, want in expected["paired_t"].items():
        got = excess(data, metric, preset="cfprompt")
        assert got.test == "t" and got.alternative == "two-sided"
        assert got.excess == pytest.approx(want["mean_diff"], **EXACT)
        assert got.pvalue == pytest.approx(want["p_value"], **EXACT)
        assert [got.ci_low, got.ci_high] == pytest.approx(
            [want["ci_low"], want["ci_high"]], **EXACT
        )
    for metric, key in (("flip", "flip_rate"), ("mi", "mi"), ("phi", "phi")):
        want = expected["aggregate"][key]
        if "error" in want:
            with pytest.raises(ValueError, match="two options"):
                excess(data, metric, preset="cfprompt")
            continue
        got = excess(data, metric, preset="cfprompt")
        assert got.targeted == pytest.approx(want["target"], **EXACT)
        assert got.baseline_value == pytest.approx(want["base"], **EXACT)
        p = want["bootstrap"]["p_value"]
        assert got.pvalue == pytest.approx(p, abs=monte_carlo(p, 10_000))
        ends = [want["bootstrap"]["ci_low"], want["bootstrap"]["ci_high"]]
        assert [got.ci_low, got.ci_high] == pytest.approx(ends, abs=0.05)


@pytest.mark.parametrize("name", PUBLISHED)
def test_paper_preset(name):
    data, paper = published_panel(name), PUBLISHED[name]["paper"]
    for metric in ("jsd", "kl"):
        got = excess(data, metric, preset="paper")
        assert got.targeted == pytest.approx(paper[metric]["mean_target_bits"], **EXACT)
        assert got.baseline_value == pytest.approx(paper[metric]["mean_base_bits"], **EXACT)
        assert got.pvalue == pytest.approx(paper[metric]["p_one_sided"], **EXACT)
        assert got.effect_size * np.sqrt(got.n) == pytest.approx(paper[metric]["t"], **EXACT)
    for metric, key in (("flip", "flip_rate"), ("mi", "mi_bits"), ("phi", "phi")):
        if key not in paper:
            continue
        want = paper[key]
        got = excess(data, metric, preset="paper")
        assert got.excess == pytest.approx(want["diff"], **EXACT)
        p = want["p_one_sided"]
        assert got.pvalue == pytest.approx(p, abs=monte_carlo(2 * p, 1000) / 2)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("form", ["difference", "level"])
def test_published_regressions(name, form):
    data, expected = published_panel(name), PUBLISHED[name]
    given = expected["input"]
    outcome = [given["classes"].index(c) for c in given["outcome_class"]]
    for side in ("less", "greater"):
        want = expected["regression"][form][side]
        got = panel_direction(
            data, given["direction"], outcome, preset="cfprompt", form=form, alternative=side
        )
        found = [
            got.beta, got.std_error, got.statistic, got.pvalue, got.pvalue_two_sided,
            got.ci_low, got.ci_high, got.df, got.r_squared,
        ]  # fmt: skip
        keys = [
            "beta", "se", "statistic", "p_value", "p_two_sided", "ci_low", "ci_high", "df_resid",
            "r_squared",
        ]  # fmt: skip
        assert found == pytest.approx([want[key] for key in keys], **EXACT)
    paper = expected["paper"].get("regression_log_odds_first_class")
    if paper:
        want = paper[form]
        got = panel_direction(
            data, given["direction"], preset="paper", form=form, alternative="less"
        )
        found = [got.beta, got.std_error, got.statistic, got.pvalue, got.pvalue_two_sided]
        keys = ["beta", "se", "t", "p_less", "p_two_sided"]
        assert found == pytest.approx([want[key] for key in keys], rel=1e-6, abs=1e-15)
        ours = panel_direction(data, given["direction"])
        want = expected["paper"]["recommended_log_odds_difference_with_intercept_HC3"]
        assert [ours.beta, ours.std_error, ours.intercept] == pytest.approx(
            [want["beta"], want["se"], want["intercept"]], **EXACT
        )


@pytest.mark.parametrize(
    "cell", MEDPERTURB["cells"], ids=lambda c: f"{c['model']}-{c['task']}-{c['pert']}"
)
def test_medperturb_cells(cell):
    answers = MEDPERTURB["answers"][f"{cell['model']}_{cell['task']}"]
    columns = {"gender_swap": ("1", "2", "6"), "uncertain": ("1", "4", "8")}[cell["pert"]]
    data = panel(*(answer_shares(list(answers[i]), ["0", "1"]) for i in columns))
    got = excess(data, "flip", preset="cfprompt")
    assert got.n == cell["n"]
    assert (got.targeted, got.baseline_value) == pytest.approx((cell["fr_t"], cell["fr_b"]))
    assert got.pvalue == pytest.approx(cell["p"], abs=0.02)
    information = excess(data, "mi", n_resamples=99)
    want = cell["MI_t_bits"], cell["MI_b_bits"]
    assert (information.targeted, information.baseline_value) == pytest.approx(want, abs=1e-9)
