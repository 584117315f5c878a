"""Any harness model through ``generate_until``: seeds, batches, failures."""

from __future__ import annotations

import copy
import random
import time

import pytest
from fault_server import FaultServer, text_of
from lm_eval.api.model import LM
from lm_eval.models.dummy import DummyLM
from lm_eval.models.openai_completions import LocalCompletionsAPI

from lmrel_tasks.sampling import Cell, fallback, run_seed, sample_runs
from lmrel_tasks.sampling.fallback import SEED_BITS, sample_one_by_one, seed_argument

SETTINGS = {"until": ["\n"], "do_sample": True, "temperature": 0.9}


def cells_of(items=3, runs=4, options=None):
    return [
        Cell(
            prompt=f"item {item}",
            generation=SETTINGS,
            run_indices=tuple(range(10, 10 + runs)),
            seeds=tuple(run_seed(1, f"item {item}", "plain", run) for run in range(runs)),
            options=options or {},
        )
        for item in range(items)
    ]


class StrictLM(LM):
    """Takes the settings it knows and no other, as many models do; no ``disable_tqdm`` either."""

    known = frozenset({"until", "do_sample", "temperature"})
    batch_size = "auto"

    def __init__(self, bad=(), broken=False):
        super().__init__()
        self.bad, self.broken, self.batches, self.seen = bad, broken, [], []

    def loglikelihood(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood

    def generate_until(self, requests):
        self.batches.append(len(requests))
        texts = []
        for request in requests:
            prompt, settings = request.args
            unknown = set(settings) - self.known
            if unknown:
                raise ValueError(f"unknown settings {unknown}")
            if self.broken or prompt in self.bad:
                raise RuntimeError("the model cannot do this")
            self.seen.append((prompt, copy.deepcopy(settings)))
            settings["until"].append("mutated")  # some models change what they are given
            texts.append(f"{prompt}: {random.random()}")
        return texts


class SeededLM(StrictLM):
    known = StrictLM.known | {"random_seed"}
    seed_argument = "random_seed"


def keys(cells):
    return [(at, run) for at, cell in enumerate(cells) for run in cell.run_indices]


def test_every_run_once_with_settings_of_its_own():
    lm, cells = StrictLM(), cells_of()
    found = list(sample_runs(lm, cells))
    assert [(cell, run) for cell, run, _ in found] == keys(cells)
    assert all(str(text).startswith(f"item {cell}: ") for cell, _, text in found)
    assert all(settings == SETTINGS for _, settings in lm.seen)
    assert [text.capture.seed for _, _, text in found] == [s for cell in cells for s in cell.seeds]
    assert all(text.capture.entropy is None and text.capture.tokens is None for *_, text in found)
    assert len({str(text) for *_, text in found}) == 12


def test_a_model_that_draws_in_this_process_draws_the_same_again():
    first = [str(run) for *_, run in sample_runs(StrictLM(), cells_of())]
    random.random()
    assert [str(run) for *_, run in sample_runs(StrictLM(), cells_of())] == first


def test_seeds_go_where_the_model_or_the_task_says():
    lm, cells = SeededLM(), cells_of()
    list(sample_runs(lm, cells))
    seeds = [settings["random_seed"] for _, settings in lm.seen]
    assert seeds == [seed & SEED_BITS for cell in cells for seed in cell.seeds]
    asked = cells_of(options={"seed_argument": "random_seed"})
    lm = StrictLM()
    lm.known = SeededLM.known
    list(sample_runs(lm, asked))
    assert [settings["random_seed"] for _, settings in lm.seen] == seeds
    assert seed_argument(StrictLM(), cells[0]) is None
    assert seed_argument(DummyLM(), cells[0]) is None


def test_an_api_model_with_its_own_transport_gets_seeds():
    # As the harness's litellm model does: the OpenAI payload over another transport.
    class OtherTransport(LocalCompletionsAPI):
        def model_call(self, *args, **kwargs):
            return super().model_call(*args, **kwargs)

    cells = cells_of(items=2, runs=3)
    with FaultServer() as server:
        lm = OtherTransport(base_url=server.url, model="m", tokenizer_backend=None)
        found = {(cell, run): str(text) for cell, run, text in sample_runs(lm, cells)}
    assert found == {
        (at, run): text_of(f"item {at}", seed & SEED_BITS, 0)
        for at, cell in enumerate(cells)
        for run, seed in zip(cell.run_indices, cell.seeds, strict=True)
    }


def test_one_bad_item_does_not_lose_the_others():
    lm, cells = StrictLM(bad=("item 1",)), cells_of(items=8)
    found = {(cell, run): text for cell, run, text in sample_runs(lm, cells)}
    assert {cell for (cell, _), text in found.items() if text.missing} == {1}
    assert found[1, 10].capture.error == "RuntimeError: the model cannot do this"
    assert len(found) == 32


def test_a_model_that_never_works_says_why():
    with pytest.raises(RuntimeError, match="cannot do this"):
        list(sample_runs(StrictLM(broken=True), cells_of()))


def test_a_wrong_number_of_answers_is_an_error():
    lm = StrictLM()
    lm.generate_until = lambda requests: ["one too few"] * (len(requests) - 1)
    with pytest.raises(RuntimeError, match="returned 0 texts for 1"):
        list(sample_runs(lm, cells_of()))


def test_none_is_an_empty_text():
    lm = StrictLM()
    lm.generate_until = lambda requests: [None] * len(requests)
    assert {str(run) for *_, run in sample_runs(lm, cells_of())} == {""}


def test_batches_grow_while_they_are_quick_and_runs_arrive_between(monkeypatch):
    lm = StrictLM()
    runs = sample_one_by_one(lm, cells_of(items=20, runs=10))
    next(runs)
    assert lm.batches == [16]
    list(runs)
    assert lm.batches == [16, 32, 64, 88]
    lm = StrictLM()
    lm.batch_size = 24
    list(sample_one_by_one(lm, cells_of(items=20, runs=10)))
    assert lm.batches == [48, 96, 56]
    monkeypatch.setattr(fallback, "QUICK_SECONDS", 0.0)
    monkeypatch.setattr(fallback, "SLOW_SECONDS", 0.0)
    lm = StrictLM()
    original = lm.generate_until

    def slow(requests):
        time.sleep(0.001)
        return original(requests)

    lm.generate_until = slow
    list(sample_one_by_one(lm, cells_of(items=4, runs=10)))
    assert lm.batches == [16, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_no_cells_no_call():
    lm = StrictLM()
    assert list(sample_runs(lm, [])) == []
    assert lm.batches == []
