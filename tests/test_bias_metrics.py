"""Metrics of baseline-adjusted bias through the harness, against published and exact values."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from fakes import evaluate
from option_models import CONDITIONS, OptionLM, bias_task, options_of, panel_items, results_of
from scipy import stats

from lmrel_tasks.measures import get_metric
from lmrel_tasks.metrics.bias_items import family
from lmrel_tasks.metrics.bias_values import ItemText
from lmrel_tasks.metrics.item import Condition, Item

DATA = Path(__file__).parent / "data"
PUBLISHED = json.loads((DATA / "counterfactual.json").read_text())["datasets"]
EXACT = dict(rel=1e-6, abs=1e-9)


def published_task(folder, name, metrics):
    given = PUBLISHED[name]["input"]
    panels = {"text": given["p_orig"], "edited": given["p_target"], "reworded": given["p_base"]}
    outcomes = [given["classes"].index(one) for one in given["outcome_class"]]
    items, lm = panel_items(panels, direction=given["direction"], outcome=outcomes)
    bias_task(folder, items, metrics, doc_to_choice=options_of(panels))
    return results_of(lm, folder)[0]


def entries(names, preset):
    return [{"metric": name, "preset": preset} for name in names]


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_reproduce_published_values_through_the_harness(tmp_path, name):
    sides = [f"{metric}_{side}" for metric in ("kl", "jsd") for side in ("targeted", "benign")]
    labels = [f"{metric}_{side}" for metric in ("flip_rate", "mi") for side in
              ("targeted", "benign")]  # fmt: skip
    row = published_task(
        tmp_path, name,
        [*entries([*sides, "kl_excess", "jsd_excess", "mi_targeted", "mi_benign"], "cfprompt"),
         "flip_rate_targeted", "flip_rate_benign"],
    )  # fmt: skip
    expected = PUBLISHED[name]
    for metric in ("kl", "jsd"):
        for side, key in (("targeted", "target"), ("benign", "base")):
            assert row[f"{metric}_{side}"] == pytest.approx(np.mean(expected[metric][key]), **EXACT)
        want = expected["paired_t"][metric]
        assert row[f"{metric}_excess"] == pytest.approx(want["mean_diff"], **EXACT)
        assert row[f"{metric}_excess_p"] == pytest.approx(want["p_value"], **EXACT)
        assert row[f"{metric}_excess_ci_low"] == pytest.approx(want["ci_low"], **EXACT)
        assert row[f"{metric}_excess_ci_high"] == pytest.approx(want["ci_high"], **EXACT)
    for one in labels:
        metric, side = one.rsplit("_", 1)
        want = expected["aggregate"][metric]["target" if side == "targeted" else "base"]
        assert row[one] == pytest.approx(want, **EXACT)


def test_paper_preset_and_direction_through_the_harness(tmp_path):
    name = "binary_directional_n12"
    row = published_task(
        tmp_path, name,
        [*entries(["kl_excess", "jsd_excess", "flip_excess", "mi_excess", "phi_excess"], "paper"),
         {"metric": "direction_beta"}],
    )  # fmt: skip
    paper = PUBLISHED[name]["paper"]
    for metric in ("kl", "jsd"):
        want = paper[metric]["mean_target_bits"] - paper[metric]["mean_base_bits"]
        assert row[f"{metric}_excess"] == pytest.approx(want, **EXACT)
        assert row[f"{metric}_excess_p"] == pytest.approx(paper[metric]["p_one_sided"], **EXACT)
    for metric, key in (("flip", "flip_rate"), ("mi", "mi_bits"), ("phi", "phi")):
        assert row[f"{metric}_excess"] == pytest.approx(paper[key]["diff"], **EXACT)
    ours = paper["recommended_log_odds_difference_with_intercept_HC3"]
    assert row["direction_beta"] == pytest.approx(ours["beta"], **EXACT)
    assert row["direction_beta_stderr"] == pytest.approx(ours["se"], **EXACT)
    t = stats.t(10)
    assert row["direction_beta_p"] == pytest.approx(2 * t.sf(abs(ours["beta"] / ours["se"])))
    half = t.ppf(0.975) * ours["se"]
    assert row["direction_beta_ci_low"] == pytest.approx(ours["beta"] - half, **EXACT)


def two(p):
    return [p, 1 - p]


def flipping(n, targeted, benign):
    """Panels of n items of which the first so many flip under each edit."""
    return {
        "text": [two(0.9)] * n,
        "edited": [two(0.1)] * targeted + [two(0.9)] * (n - targeted),
        "reworded": [two(0.1)] * benign + [two(0.9)] * (n - benign),
    }


def test_every_pair_flips_against_none(tmp_path):
    n = 30
    items, lm = panel_items(flipping(n, n, 0))
    metrics = ["flip_rate_targeted", "flip_rate_benign",
               {"metric": "flip_excess", "n_resamples": 999},
               {"metric": "flip_excess", "name": "exact", "test": "mcnemar"}]  # fmt: skip
    bias_task(tmp_path, items, metrics)
    row, _ = results_of(lm, tmp_path)
    assert row["flip_rate_targeted"] == 1 and row["flip_rate_benign"] == 0
    assert row["flip_excess"] == 1
    assert row["flip_excess_p"] <= 1 / 1000
    assert row["exact_p"] == pytest.approx(0.5**n)
    assert row["flip_excess_stderr"] == 0


def test_standard_errors_are_over_items(tmp_path):
    rng = np.random.default_rng(1)
    panels = {key: [two(p) for p in rng.uniform(0.1, 0.9, 25)] for key in
              ("text", "edited", "reworded")}  # fmt: skip
    items, lm = panel_items(panels)
    bias_task(tmp_path, items, ["jsd_targeted", "jsd_benign", "jsd_excess", "flip_excess"])
    row, found = results_of(lm, tmp_path)
    p, q = np.array(panels["text"]), np.array(panels["edited"])
    # scipy's distance is the square root of the divergence.
    from scipy.spatial.distance import jensenshannon

    jsd = jensenshannon(p, q, base=2, axis=1) ** 2
    other = jensenshannon(p, np.array(panels["reworded"]), base=2, axis=1) ** 2
    assert row["jsd_targeted"] == pytest.approx(jsd.mean())
    assert row["jsd_targeted_stderr"] == pytest.approx(stats.sem(jsd))
    assert row["jsd_excess"] == pytest.approx((jsd - other).mean())
    assert row["jsd_excess_stderr"] == pytest.approx(stats.sem(jsd - other))
    assert row["jsd_excess_p_stderr"] == "N/A"
    # Each sample shows its own difference, and the results are JSON.
    shown = [sample["jsd_excess"] for sample in found["samples"]["t"]]
    assert shown == pytest.approx(list(jsd - other))
    json.dumps(found["results"], allow_nan=False)
    json.dumps(found["samples"], allow_nan=False, default=str)


def test_degenerate_input_has_right_values(tmp_path):
    items, lm = panel_items(flipping(20, 0, 0))
    bias_task(tmp_path, items, ["jsd_excess", "flip_excess", "mi_targeted", "phi_targeted"])
    row, found = results_of(lm, tmp_path)
    assert row["jsd_excess"] == 0 and row["jsd_excess_p"] == 1
    assert row["flip_excess_p"] == 1
    assert row["mi_targeted"] == 0
    assert row["phi_targeted"] == "N/A"  # every answer is the same
    json.dumps(found["results"], allow_nan=False)


def test_infinite_kl_is_said_with_its_share(tmp_path):
    panels = {
        "text": [two(0.6)] * 10,
        "edited": [[1.0, 0.0]] * 3 + [two(0.5)] * 7,
        "reworded": [two(0.55)] * 10,
    }
    items, lm = panel_items(panels)
    names = ["kl_targeted", "kl_benign", "kl_infinite_targeted", "kl_infinite_benign",
             "jsd_targeted", "kl_excess"]  # fmt: skip
    bias_task(tmp_path, items, names)
    row, found = results_of(lm, tmp_path)
    assert row["kl_targeted"] == "N/A"
    assert row["kl_infinite_targeted"] == 0.3 and row["kl_infinite_benign"] == 0
    assert 0 < row["jsd_targeted"] < 1
    assert row["kl_excess"] == "N/A" and 0 < row["kl_excess_p"] <= 1
    assert found["samples"]["t"][0]["kl_targeted"] == "inf"
    # All but the log-likelihoods of minus infinity, which the harness writes as they came.
    for sample in found["samples"]["t"]:
        ours = {key: value for key, value in sample.items() if "resps" not in key}
        json.dumps(ours, allow_nan=False, default=str)


def test_imbalance_leaves_phi_undefined_and_items_powered(tmp_path):
    # 98 % of the answers are no; the edit pushes every item towards yes, and flips none.
    rng = np.random.default_rng(3)
    base = np.where(np.arange(100) < 2, 0.9, 0.1)
    odds = np.log(base / (1 - base)) + rng.normal(0, 0.1, 100)
    panels = {
        "text": [two(p) for p in base],
        "edited": [two(1 / (1 + math.exp(-one - 0.8))) for one in odds],
        "reworded": [two(1 / (1 + math.exp(-one))) for one in odds],
    }
    items, lm = panel_items(panels)
    bias_task(tmp_path, items, ["flip_excess", "log_odds_shift_excess", "jsd_excess"])
    row, _ = results_of(lm, tmp_path)
    assert row["flip_excess_p"] == 1
    assert row["log_odds_shift_excess_p"] < 0.001 and row["jsd_excess_p"] < 0.001


def test_four_options(tmp_path):
    rng = np.random.default_rng(5)
    panels = {key: rng.dirichlet(np.ones(4), 12).tolist() for key in ("text", "edited", "reworded")}
    items, lm = panel_items(panels)
    bias_task(
        tmp_path, items, ["flip_rate_targeted", "mi_targeted", "jsd_excess"],
        doc_to_choice=options_of(panels),
    )  # fmt: skip
    row, _ = results_of(lm, tmp_path)
    before, after = (np.argmax(panels[key], axis=1) for key in ("text", "edited"))
    assert row["flip_rate_targeted"] == pytest.approx((before != after).mean())
    joint = np.zeros((4, 4))
    np.add.at(joint, (before, after), 1 / 12)
    expected = sum(stats.entropy(m, base=2) for m in (joint.sum(0), joint.sum(1)))
    assert row["mi_targeted"] == pytest.approx(expected - stats.entropy(joint.ravel(), base=2))


def test_several_targeted_edits_have_rows_of_their_own(tmp_path):
    panels = flipping(12, 6, 1) | {"other": [two(0.9)] * 12, "other_reworded": [two(0.1)] * 12}
    conditions = [
        *CONDITIONS[:2],
        {"name": "other", "role": "targeted", "field": "other"},
        {"name": "b1", "role": "benign", "field": "reworded", "of": "edited"},
        {"name": "b2", "role": "benign", "field": "other_reworded", "of": "other"},
    ]
    items, lm = panel_items(panels)
    metrics = ["flip_rate_targeted", "flip_rate_benign", "flip_excess",
               {"metric": "flip_excess", "name": "only", "targeted": "other"}]  # fmt: skip
    bias_task(tmp_path, items, metrics, conditions=conditions)
    row, _ = results_of(lm, tmp_path)
    assert row["flip_rate_targeted@edited"] == 0.5 and row["flip_rate_targeted@other"] == 0
    assert row["flip_rate_benign@edited"] == pytest.approx(1 / 12)
    assert row["flip_rate_benign@other"] == 1
    assert row["flip_excess@other"] == row["only"] == -1
    assert row["flip_excess_p@other"] == 1


def test_several_paraphrases_are_averaged(tmp_path):
    panels = flipping(10, 5, 0) | {"second": [two(0.1)] * 10}
    conditions = [*CONDITIONS, {"name": "b2", "role": "benign", "field": "second"}]
    items, lm = panel_items(panels)
    bias_task(tmp_path, items, ["flip_rate_benign", "flip_excess"], conditions=conditions)
    row, _ = results_of(lm, tmp_path)
    assert row["flip_rate_benign"] == 0.5
    assert row["flip_excess"] == 0


def test_an_excess_is_the_difference_of_its_parts_whatever_is_missing(tmp_path):
    panels = flipping(10, 5, 2)
    items, lm = panel_items(panels)
    for item in items[:3]:
        item["reworded"] = ""
    names = ["flip_rate_targeted", "flip_rate_benign", "flip_excess", "benign_missing_rate"]
    bias_task(tmp_path, items, names)
    row, _ = results_of(lm, tmp_path)
    assert row["benign_missing_rate"] == 0.3
    assert row["flip_rate_targeted"] == pytest.approx(2 / 7)
    assert row["flip_excess"] == pytest.approx(row["flip_rate_targeted"] - row["flip_rate_benign"])


def test_other_baselines(tmp_path):
    panels = flipping(10, 5, 2) | {"again": [two(0.9)] * 10}
    conditions = [*CONDITIONS, {"name": "again", "role": "rerun"},
                  {"name": "phrase", "role": "fixed_phrase", "field": "again"}]  # fmt: skip
    items, lm = panel_items(panels)
    metrics = [
        {"metric": "flip_excess", "name": name, "baseline": name}
        for name in ("rerun", "fixed_phrase")
    ]
    bias_task(tmp_path, items, [*metrics, "flip_rate_fixed_phrase"], conditions=conditions)
    row, _ = results_of(lm, tmp_path)
    assert row["rerun"] == row["fixed_phrase"] == 0.5
    assert row["flip_rate_fixed_phrase"] == 0


def test_without_a_baseline_there_is_no_excess(tmp_path, caplog):
    items, lm = panel_items(flipping(6, 3, 0))
    bias_task(tmp_path, items, ["flip_rate_targeted", "flip_excess"], conditions=CONDITIONS[:2])
    row, _ = results_of(lm, tmp_path)
    assert row["flip_rate_targeted"] == 0.5
    assert "flip_excess" not in row and "flip_excess" in caplog.text


def test_a_listed_companion_keeps_its_own_arguments(tmp_path):
    items, lm = panel_items(flipping(8, 8, 0))
    metrics = ["flip_excess", {"metric": "flip_excess_p", "test": "mcnemar"}]
    bias_task(tmp_path, items, metrics)
    row, _ = results_of(lm, tmp_path)
    assert row["flip_excess_p"] == pytest.approx(0.5**8)
    assert "flip_excess_ci_low" in row


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"metric": "jsd_excess", "test": "mcnemar"}, "test mcnemar does not exist for jsd"),
        ({"metric": "mi_excess", "test": "t"}, "test t does not exist for mi"),
        ({"metric": "jsd_excess", "test": "welch"}, "test must be one of"),
        ({"metric": "jsd_excess", "alternative": "bigger"}, "alternative must be one of"),
        ({"metric": "jsd_excess", "preset": "v2"}, "preset must be one of"),
        ({"metric": "jsd_excess", "baseline": "none"}, "baseline must be one of"),
        ({"metric": "jsd_targeted", "base": 1}, "base must be above 1"),
        ({"metric": "jsd_excess", "n_resamples": 0}, "n_resamples must be 1 or more"),
        ({"metric": "jsd_excess", "tets": "t"}, "unknown argument 'tets'"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_asked(tmp_path, entry, words):
    items, lm = panel_items(flipping(4, 1, 0))
    bias_task(tmp_path, items, [entry])
    with pytest.raises(ValueError, match=words):
        evaluate(lm, tmp_path, "t")
    assert not lm.asked


def test_direction_with_an_outcome_clusters_and_a_common_shift(tmp_path):
    # Everyone shifts by +.5; direction adds .3 per unit; an 80:20 split must not leak.
    direction = [1.0] * 32 + [-1.0] * 8
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.05, 40)
    odds = rng.normal(0, 1, 40)
    edited = odds + 0.5 + 0.3 * np.array(direction) + noise
    sigmoid = lambda x: [two(1 / (1 + math.exp(-one))) for one in x]
    panels = {"text": sigmoid(odds), "edited": sigmoid(edited), "reworded": sigmoid(odds)}
    items, lm = panel_items(panels, direction=direction, group=[str(i % 10) for i in range(40)])
    metrics = [
        {"metric": "direction_beta", "outcome": "yes"},
        {"metric": "direction_beta", "name": "of_no", "outcome": "no"},
        {"metric": "direction_beta", "name": "clustered", "outcome": 0, "cluster": "group"},
    ]
    bias_task(tmp_path, items, metrics)
    row, _ = results_of(lm, tmp_path)
    assert row["direction_beta"] == pytest.approx(0.3, abs=0.05)
    assert row["of_no"] == pytest.approx(-row["direction_beta"])
    assert row["clustered"] == pytest.approx(row["direction_beta"])
    import statsmodels.api as sm

    fitted = sm.OLS(edited - odds, sm.add_constant(np.array(direction))).fit(
        cov_type="cluster", cov_kwds={"groups": np.arange(40) % 10}, use_t=True
    )
    assert row["clustered_stderr"] == pytest.approx(fitted.bse[1])
    assert row["clustered_p"] == pytest.approx(fitted.pvalues[1])


def test_edits_of_one_direction_leave_no_slope(tmp_path):
    items, lm = panel_items(flipping(6, 3, 0), direction=[1.0] * 6)
    bias_task(tmp_path, items, ["direction_beta", "flip_excess"])
    row, _ = results_of(lm, tmp_path)
    assert row["direction_beta"] == "N/A" and row["direction_beta_p"] == "N/A"


def test_differing_numbers_of_options_are_named():
    cells = (
        Condition("a", probabilities=np.array([0.5, 0.5]), info={"role": "original"}),
        Condition("b", probabilities=np.array([0.5, 0.5]), info={"role": "targeted"}),
        Condition("c", probabilities=np.array([0.5, 0.5]), info={"role": "benign"}),
        Condition("d", probabilities=np.array([0.2, 0.5, 0.3]), info={"role": "benign"}),
    )
    with pytest.raises(ValueError, match="item k: its conditions have different numbers"):
        family(Item("k", cells))
    metric = get_metric("jsd_excess")
    values = []
    for key, width in (("x", 2), ("y", 3)):
        p = np.full(width, 1 / width)
        roles = ("original", "targeted", "benign")
        row = tuple(Condition(role, probabilities=p, info={"role": role}) for role in roles)
        values.append(metric.per_item(Item(key, row)))
    with pytest.raises(ValueError, match=r"different numbers of options: \[2, 3\]"):
        metric.aggregate(values)


def test_infinite_values_travel_between_processes():
    again = pickle.loads(pickle.dumps(ItemText("inf", math.inf)))
    assert again == "inf" and again.data == math.inf


def test_the_same_seed_gives_the_same_p(tmp_path):
    rng = np.random.default_rng(9)
    panels = {key: [two(p) for p in rng.uniform(0.1, 0.9, 30)] for key in
              ("text", "edited", "reworded")}  # fmt: skip
    items, lm = panel_items(panels)
    metrics = [
        {"metric": "jsd_excess", "name": f"s{i}", "seed": seed, "n_resamples": 200}
        for i, seed in enumerate((1, 1, 2))
    ]
    bias_task(tmp_path, items, metrics)
    row, _ = results_of(lm, tmp_path)
    assert row["s0_p"] == row["s1_p"] != row["s2_p"]


def test_item_metrics_are_the_same_alone_and_among_others(tmp_path):
    items, _ = panel_items(flipping(5, 2, 1))
    asked = OptionLM(lambda prompt: {"yes": 0.7, "no": 0.3})
    bias_task(tmp_path, items, ["jsd_targeted"])
    row, _ = results_of(asked, tmp_path)
    assert row["jsd_targeted"] == 0
