"""The vLLM adapter, through the harness's own model class, against a stand-in for vLLM.

The stand-in (`vllm_standin`) has vLLM's parameter names and refusals, not its engine: these tests
hold the adapter to vLLM's interface, they do not run vLLM.
"""

from __future__ import annotations

import importlib
import json
import math
import sys

import pytest
import vllm_standin
from lm_eval.api.registry import model_registry
from vllm_standin import CANDIDATES, EOS, WEIGHTS, draw

from lmrel_tasks.identity import model_identity
from lmrel_tasks.sampling import Cell, run_seed, sample_runs

LOADED = ("lm_eval.models.vllm_causallms", "lmrel_tasks.sampling.vllm")


@pytest.fixture(scope="module")
def harness():
    """The harness's vLLM module over the stand-in; the process is as before afterwards."""
    known = dict(model_registry._objs)
    with pytest.MonkeyPatch.context() as patch:
        vllm_standin.install(patch)
        yield importlib.import_module(LOADED[0])
    for name in LOADED:
        sys.modules.pop(name, None)
    model_registry._objs.clear()
    model_registry._objs.update(known)


@pytest.fixture
def make(harness, tmp_path):
    importlib.import_module(LOADED[1])
    config = {"model_type": "llama", "hidden_size": 8, "num_attention_heads": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return lambda **options: harness.VLLM(pretrained=str(tmp_path), **options)


def cells_of(items=3, runs=4, top_logprobs=5, logprobs="raw", **generation):
    generation = {"until": ["\n"], "do_sample": True, "temperature": 0.8} | generation
    return [
        Cell(
            prompt=f"item {item}",
            generation=generation,
            run_indices=tuple(range(runs)),
            seeds=tuple(run_seed(1, f"item {item}", "plain", run) for run in range(runs)),
            top_logprobs=top_logprobs,
            logprobs=logprobs,
        )
        for item in range(items)
    ]


def counting(tokens):
    text = "".join(chr(token) for token in tokens if token != EOS)
    return text.split("\n")[0]


def test_each_run_is_a_request_with_its_own_seed(make):
    lm, cells = make(), cells_of(max_gen_toks=12, top_k=20)
    found = {(cell, run): text for cell, run, text in sample_runs(lm, cells)}
    assert len(found) == 12
    for (at, index), run in found.items():
        prompt = [ord(letter) for letter in f"item {at}"]
        tokens = draw(prompt, cells[at].seeds[index], 12)
        assert str(run) == counting(tokens)
        assert run.capture.tokens == len(run)
        stopped = EOS in tokens or ord("\n") in tokens
        assert run.capture.finish_reason == ("stop" if stopped else "length")
    params = [one for call in lm.model.calls for one in call]
    assert {(one.n, one.temperature, one.top_k, one.logprobs) for one in params} == {
        (1, 0.8, 20, 5)
    }
    assert {one.seed for one in params} == {seed for cell in cells for seed in cell.seeds}
    assert all(one.stop == ["\n", "<eos>"] and one.max_tokens == 12 for one in params)


def test_captured_numbers_against_the_closed_form(make):
    # The five best of the stand-in's distribution are equally likely.
    for run in (text for *_, text in sample_runs(make(), cells_of(max_gen_toks=12))):
        if not len(run):
            assert run.capture.entropy is None
            continue
        assert run.capture.entropy == pytest.approx(math.log2(5))
        assert run.capture.certainty == pytest.approx(0.0, abs=1e-12)
        assert run.capture.tail_mass == pytest.approx(1 - 5 * WEIGHTS[1])
        assert run.capture.logprob == pytest.approx(len(run) * math.log(WEIGHTS[1]))
        assert run.capture.top_k == 5
    assert len(CANDIDATES) == 10


def test_k_stays_within_the_engines_limit(make):
    cells = cells_of(top_logprobs=30)
    lm = make(max_logprobs=7)
    runs = [text for *_, text in sample_runs(lm, cells)]
    assert {run.capture.top_k for run in runs if len(run)} == {7.0}
    lm = make()
    list(sample_runs(lm, cells))
    assert {one.logprobs for one in lm.model.calls[0]} == {20}
    lm = make()
    list(sample_runs(lm, cells_of(top_logprobs=0)))
    assert {one.logprobs for one in lm.model.calls[0]} == {None}


def test_greedy_decoding_is_not_refused(make):
    runs = list(sample_runs(make(), cells_of(do_sample=False)))
    assert len(runs) == 12


def test_the_distribution_that_is_recorded_is_the_one_that_was_asked_for(make):
    with pytest.raises(ValueError, match="logprobs_mode=processed_logprobs"):
        list(sample_runs(make(), cells_of(logprobs="sampling")))
    engine = make(logprobs_mode="processed_logprobs")
    assert len(list(sample_runs(engine, cells_of(logprobs="sampling")))) == 12
    assert len(list(sample_runs(make(), cells_of(logprobs="sampling", top_logprobs=0)))) == 12


def test_long_prompts_are_truncated_as_the_harness_does(make):
    lm = make(max_model_len=10)
    list(sample_runs(lm, [Cell("abcdefghij", {"max_gen_toks": 4}, (0,), (1,))]))
    assert lm.model.calls[0][0].max_tokens == 4
    run = next(sample_runs(lm, [Cell("abcdefghij", {"max_gen_toks": 4}, (0,), (1,))]))[2]
    tokens = draw([ord(letter) for letter in "efghij"], 1, 4)
    assert str(run) == "".join(chr(token) for token in tokens if token != EOS)


def test_reasoning_is_cut_off_and_task_stops_do_not_stop_it(make):
    lm = make(think_end_token="c")
    cells = cells_of(items=6, max_gen_toks=40)
    for cell, index, run in sample_runs(lm, cells):
        tokens = draw([ord(letter) for letter in f"item {cell}"], cells[cell].seeds[index], 40)
        text = "".join(chr(token) for token in tokens if token != EOS)
        assert str(run) == text.split("c")[-1].lstrip().split("\n")[0]
    assert all(one.stop == ["<eos>"] for one in lm.model.calls[0])


def test_an_aborted_request_is_a_missing_run(make):
    lm = make()
    lm.model.abort = True
    runs = [text for *_, text in sample_runs(lm, cells_of())]
    assert all(run.missing and "abort" in run.capture.error for run in runs)


def test_many_runs_arrive_in_parts_and_data_parallel_in_one(make, monkeypatch):
    adapter = sys.modules["lmrel_tasks.sampling.vllm"]
    monkeypatch.setattr(adapter, "RUNS_PER_CALL", 5)
    lm = make()
    expected = {(c, r): str(run) for c, r, run in sample_runs(lm, cells_of())}
    assert [len(call) for call in lm.model.calls] == [5, 5, 2]
    # The harness starts the engines anew for each call when data_parallel_size > 1.
    calls = []

    def generate(requests, generate=False, sampling_params=None):
        calls.append(len(requests))
        prompts = [{"prompt_token_ids": tokens} for tokens in requests]
        return lm.model.generate(prompts, sampling_params)

    lm.data_parallel_size = 2
    lm._model_generate = generate
    found = {(c, r): str(run) for c, r, run in sample_runs(lm, cells_of())}
    assert calls == [12]
    assert found == expected


def test_identity_names_what_changes_the_draws(make, tmp_path, monkeypatch):
    monkeypatch.setenv("LMREL_CACHE", str(tmp_path / "cache"))
    one, two = model_identity(make()), model_identity(make(batch_size=4))
    assert one == two
    assert one["model"] == str(tmp_path)
    assert "model_hash" in one
    assert model_identity(make(quantization="awq")) != one
    json.dumps(one)
