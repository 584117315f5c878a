"""Metrics as modules of `evaluate`, against closed forms and against the functions themselves."""

from __future__ import annotations

import math
from pathlib import Path

import evaluate
import numpy as np
import pytest

import lmrel_tasks.metrics
from lmrel_tasks.measures import METRICS
from lmrel_tasks.metrics import counterfactual, evaluate_module
from lmrel_tasks.plugin import Embed

SCRIPT = Path(lmrel_tasks.metrics.__file__).with_name("hf_evaluate.py")
RUNS = [["yes", "Yes.", "no"], ["no", "no", "no"], ["maybe", "yes", "no"]]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_every_metric_is_a_module_with_description_citation_and_features(name):
    module = evaluate_module(name)
    assert module.description and "@software" in module.citation
    assert "predictions" in module.inputs_description
    for features in module.features:
        assert set(features) == {"predictions", "references"}


def test_agreement_of_texts_and_of_canonical_answers():
    result = evaluate_module("answer_agreement").compute(predictions=RUNS)
    assert result["answer_agreement"] == pytest.approx((0 + 1 + 0) / 3)
    assert result["answer_agreement_stderr"] == pytest.approx(np.std([0, 1, 0], ddof=1) / 3**0.5)
    result = evaluate_module("answer_agreement").compute(predictions=RUNS, kind="text")
    assert result["answer_agreement"] == pytest.approx((1 / 3 + 1 + 0) / 3)


def test_references_are_read_as_the_answers_are():
    for references in (["YES", "no", "no"], [["YES"], ["no"], ["no", "maybe"]]):
        result = evaluate_module("acc").compute(
            predictions=RUNS, references=references, kind="text"
        )
        last = 1 / 3 if references[2] == "no" else 2 / 3
        assert result["acc"] == pytest.approx((2 / 3 + 1 + last) / 3)
    level = evaluate_module("reliability_level").compute(
        predictions=RUNS, references=["yes", "no", "never"], kind="text"
    )
    assert level["reliability_level"] == pytest.approx(2 / 4)


def test_meaning_within_and_across_conditions(monkeypatch):
    places = {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    monkeypatch.setattr(
        Embed, "encoder",
        staticmethod(lambda model: lambda texts: np.array([places[t] for t in texts])),
    )  # fmt: skip
    within = evaluate_module("semantic_repeatability")
    assert within.compute(predictions=[["a", "b", "a"]], references=["a"])[
        "semantic_repeatability"
    ] == pytest.approx(1 / 3)
    # A = {a, b}, B = {a, b}, orthogonal: the conditions' mean vectors are the same.
    across = evaluate_module("semantic_reproducibility")
    value = across.compute(predictions=[[["a", "b"], ["a", "b"]]])
    assert value["semantic_reproducibility"] == pytest.approx(1)


def test_certainties():
    runs = [[0.9, 0.7], [0.5, 0.5]]
    value = evaluate_module("internal_repeatability").compute(predictions=runs)
    assert value["internal_repeatability"] == pytest.approx(0.65)
    value = evaluate_module("internal_stability").compute(predictions=runs)
    assert value["internal_stability"] == pytest.approx(
        (1 - 2 * np.std([0.9, 0.7], ddof=1) + 1) / 2
    )
    nested = [[[0.9, 0.7], [0.6]]]
    value = evaluate_module("internal_reproducibility").compute(predictions=nested)
    assert value["internal_reproducibility"] == pytest.approx(0.8)


def test_bias_from_option_probabilities():
    rows = [
        [[0.8, 0.2], [0.3, 0.7], [0.7, 0.3]],
        [[0.6, 0.4], [0.9, 0.1], [0.4, 0.6]],
        [[0.1, 0.9], [0.2, 0.8], [0.1, 0.9]],
    ]
    roles = ["original", "targeted", "benign"]
    flips = evaluate_module("flip_rate_targeted").compute(predictions=rows, roles=roles)
    assert flips["flip_rate_targeted"] == pytest.approx(1 / 3)
    excess = evaluate_module("flip_excess").compute(predictions=rows, roles=roles)
    assert excess["flip_excess"] == pytest.approx(0)
    table = np.array(rows)
    expected = np.mean(counterfactual.js_divergence(table[:, 0], table[:, 1]))
    found = evaluate_module("jsd_targeted").compute(predictions=rows, roles=roles)
    assert found["jsd_targeted"] == pytest.approx(expected)


def test_batches_give_what_one_call_gives():
    module = evaluate_module("tar_raw")
    for runs in RUNS:
        module.add_batch(predictions=[runs], references=[[]])
    whole = evaluate_module("tar_raw").compute(predictions=RUNS)
    assert module.compute()["tar_raw"] == whole["tar_raw"] == pytest.approx(1 / 3)


def test_loading_by_path():
    module = evaluate.load(str(SCRIPT), "tar_answer")
    assert module.compute(predictions=[["a", "a"], ["a", "b"]])["tar_answer"] == 0.5
    assert not math.isnan(module.compute(predictions=[["1", "1.0"]], kind="numeric")["tar_answer"])


def test_the_statistics_need_no_harness():
    import subprocess
    import sys

    code = (
        "import sys, lmrel_tasks.metrics, lmrel_tasks.metrics.conformal\n"
        "assert not {'lm_eval', 'torch', 'evaluate', 'datasets'} & set(sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_is_missing_is_said():
    with pytest.raises(KeyError, match="did you mean answer_agreement"):
        evaluate_module("answer_agrement")
    with pytest.raises(ValueError, match="needs references"):
        evaluate_module("acc").compute(predictions=RUNS)
    with pytest.raises(ValueError, match="2 references"):
        evaluate_module("acc").compute(predictions=RUNS, references=["a", "b"])
    with pytest.raises(ValueError, match="roles"):
        evaluate_module("jsd_excess").compute(predictions=[[[0.5, 0.5], [0.5, 0.5]]])
    with pytest.raises(ValueError, match="unknown argument"):
        evaluate_module("tar_raw").compute(predictions=RUNS, alpha=0.1)
