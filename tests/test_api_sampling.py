"""The API backend against a real HTTP server on loopback that misbehaves as told."""

from __future__ import annotations

import itertools
import json
import logging
import math
import socket
import threading
import time
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from aiohttp import web
from fakes import evaluate, write_task
from fault_server import CONTENT_FAULTS, FAULTS, STATUS_FAULTS, FaultServer, distribution, text_of
from lm_eval.models.api_models import JsonChatStr
from lm_eval.models.openai_completions import (
    LocalChatCompletion,
    LocalCompletionsAPI,
    OpenAIChatCompletion,
)
from lm_eval.models.sglang_generate_API import SGLANGGENERATEAPI

from lmrel_tasks.run import Run
from lmrel_tasks.sampling import Cell, http, run_seed, sample_runs
from lmrel_tasks.sampling.api import base_payload, speaks_openai
from lmrel_tasks.sampling.api_facts import SEED_BITS, server_facts
from lmrel_tasks.sampling.api_parse import BrokenAnswer, Reading, choices_of, run_of
from lmrel_tasks.sampling.http import ApiError, Backoff, refused_field, retry_after, server_words
from lmrel_tasks.sampling.identical import identical_texts_warning

TRANSIENT = sorted(set(FAULTS) - set(CONTENT_FAULTS))


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(http, "BACKOFF", Backoff(first=0.002, longest=0.02))


def model(server, chat=False, timeout=2.0, **options):
    options = dict(model="m", tokenizer_backend=None, num_concurrent=16, max_retries=100) | options
    if chat:
        lm = LocalChatCompletion(base_url=server.chat_url, **options)
    else:
        lm = LocalCompletionsAPI(base_url=server.url, **options)
    lm.timeout = timeout
    return lm


def cells_of(items=4, runs=5, chat=False, options=None, top_logprobs=0, **generation):
    generation = dict(until=["\n"], do_sample=True, temperature=0.7, max_gen_toks=32) | generation
    result = []
    for item in range(items):
        name = f"item {item}"
        prompt = JsonChatStr(json.dumps([{"role": "user", "content": name}])) if chat else name
        result.append(
            Cell(
                prompt=prompt,
                generation=generation,
                run_indices=tuple(range(runs)),
                seeds=tuple(run_seed(1, name, "plain", run) for run in range(runs)),
                top_logprobs=top_logprobs,
                options=options or {},
            )
        )
    return result


def draw(lm, cells):
    """All runs by cell and run; fails when one comes twice or not at all."""
    found: dict[tuple[int, int], Run] = {}
    for cell, run_index, run in sample_runs(lm, cells):
        assert (cell, run_index) not in found
        found[cell, run_index] = run
    wanted = {(at, run) for at, cell in enumerate(cells) for run in cell.run_indices}
    assert found.keys() == wanted
    for (at, run_index), run in found.items():
        assert run.capture.seed == cells[at].seeds[cells[at].run_indices.index(run_index)]
    return found


def expected(cells, most):
    """What an honest server gives when requests of at most `most` runs are sent."""
    texts = {}
    for at, cell in enumerate(cells):
        for place, run in enumerate(cell.run_indices):
            first = place - place % most
            name = f"item {at}"
            texts[at, run] = text_of(name, cell.seeds[first] & SEED_BITS, place - first)
    return texts


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
@pytest.mark.parametrize(
    ("n", "most"), [("honoured", 5), ("ignored", 1), (3, 3), ("refused", 1), ("alike", 1)]
)
def test_n_honoured_ignored_capped_refused_or_useless(n, most, chat):
    cells = cells_of(chat=chat)
    with FaultServer(n=n) as server:
        found = draw(model(server, chat), cells)
    assert {key: str(run) for key, run in found.items()} == expected(cells, most)
    if n == "honoured":
        assert len(server.requests) == len(cells)


def test_fewer_choices_are_remembered():
    with FaultServer(n="ignored") as server:
        lm = model(server, num_concurrent=1)
        draw(lm, cells_of(items=2))
        assert [request.get("n", 1) for request in server.requests[:2]] == [5, 1]
        assert all(request.get("n", 1) == 1 for request in server.requests[1:])
        before = len(server.requests)
        draw(lm, cells_of(items=3))  # a later round with the same model
        assert all(request.get("n", 1) == 1 for request in server.requests[before:])
        assert len(server.requests) == 10 + 15


def test_max_n_bounds_every_request():
    cells = cells_of(items=2, runs=7, options={"max_n": 3})
    with FaultServer() as server:
        found = draw(model(server), cells)
    assert sorted(request.get("n", 1) for request in server.requests) == [1, 1, 3, 3, 3, 3]
    assert {key: str(run) for key, run in found.items()} == expected(cells, 3)


def test_runs_of_one_answer_come_together():
    with FaultServer() as server:
        lm = model(server)
        arrived = [(cell, run.pending) for cell, _, run in sample_runs(lm, cells_of())]
    for start in range(0, 20, 5):
        part = arrived[start : start + 5]
        assert len({cell for cell, _ in part}) == 1
        assert [left for _, left in part] == [4, 3, 2, 1, 0]


def test_a_sure_model_is_not_mistaken_for_one_seed_per_request():
    # The text depends on the prompt only, whatever the seed: the choices may well be alike.
    with FaultServer(seeds="ignored", n="alike") as server:
        lm = model(server, num_concurrent=1)
        draw(lm, cells_of(items=20))
        assert server_facts(lm).choices is None
        assert len(server.requests) == 20 + 3  # three requests checked, then trusted


@pytest.mark.parametrize("fault", TRANSIENT)
def test_each_transient_fault(fault):
    cells = cells_of(items=15, runs=4)
    with FaultServer(n="ignored", faults={fault: 0.2}, stall=0.6) as server:
        lm = model(server, timeout=0.3 if fault == "timeout" else 5.0)
        found = draw(lm, cells)
    assert server.met[fault] > 0
    assert {key: str(run) for key, run in found.items()} == expected(cells, 1)
    assert server_facts(lm).retries >= server.met[fault] > 0


@pytest.mark.parametrize("fault", CONTENT_FAULTS)
def test_each_content_fault_becomes_a_defined_run(fault):
    with FaultServer(n="ignored", faults={fault: 1.0}) as server:
        found = draw(model(server, chat=True), cells_of(items=2, runs=2, chat=True))
    finish, texts = {
        "null": ("stop", {""}),
        "refusal": ("refusal", {"I cannot help with that."}),
        "content_filter": ("content_filter", None),
        "length": ("length", None),
        "reasoning": ("length", {""}),
    }[fault]
    for run in found.values():
        assert run.capture.finish_reason == finish
        assert not run.missing
        assert run != "None"
        if texts is not None:
            assert str(run) in texts
        else:
            assert len(run.split()) == 6


@pytest.mark.parametrize(("n", "most"), [("honoured", 10), ("ignored", 1), (4, 4)])
def test_all_faults_mixed_over_500_runs(n, most):
    cells = cells_of(items=50, runs=10, top_logprobs=5)
    with FaultServer(n=n, faults=dict.fromkeys(FAULTS, 0.2), stall=1.2) as server:
        found = draw(model(server, timeout=0.8, num_concurrent=32), cells)
    assert len(found) == 500
    assert not any(run.missing for run in found.values())
    assert set(server.met) == set(FAULTS)
    texts = expected(cells, most)
    assert all(str(run) in (texts[key], "") for key, run in found.items())
    assert sum(str(run) == texts[key] for key, run in found.items()) > 250


def test_a_bad_item_is_missing_and_the_others_are_not_lost():
    cells = cells_of(items=6, runs=2)
    with FaultServer(bad_prompts=("item 3",)) as server:
        lm = model(server, max_retries=4)
        found = draw(lm, cells)
        missing = {key for key, run in found.items() if run.missing}
        assert missing == {(3, 0), (3, 1)}
        assert "breaks the server" in found[3, 0].capture.error
        assert sum("item 3" in request["prompt"] for request in server.requests) == 4
        # Asked again when the server has recovered.
        server.bad_prompts = ()
        assert not any(run.missing for run in draw(lm, cells[3:4]).values())


def test_waits_grow_and_retry_after_is_kept(monkeypatch):
    monkeypatch.setattr(http, "BACKOFF", Backoff(first=0.04, longest=1.0))
    with FaultServer(bad_prompts=("item",)) as server:
        draw(model(server, max_retries=4), cells_of(items=1, runs=1))
    gaps = [later - sooner for sooner, later in zip(server.when, server.when[1:], strict=False)]
    assert len(gaps) == 3
    assert all(gap >= 0.5 * 0.04 * 2**try_ for try_, gap in enumerate(gaps))
    with FaultServer(status=429, retry_after="0.4", words="slow down") as server:
        server.status = None
        server.faults = {"429": 0.6}
        draw(model(server, num_concurrent=2), cells_of(items=6, runs=1))
    times = defaultdict(list)
    for moment, request in zip(server.when, server.requests, strict=True):
        times[request["prompt"]].append(moment)
    repeated = [moments for moments in times.values() if len(moments) > 1]
    assert repeated
    for moments in repeated:
        waits = [later - sooner for sooner, later in itertools.pairwise(moments)]
        assert min(waits) >= 0.39


@pytest.mark.parametrize(("asked", "said"), [("90", 1), ("59", 0), ("nan", 0)])
def test_a_long_wait_is_said_once(asked, said, monkeypatch, caplog):
    waits = []

    async def sleep(self, seconds):
        waits.append(seconds)
        self.open_at = 0.0

    monkeypatch.setattr(http.Gate, "sleep", sleep)

    def reply(body, count):
        return web.Response(status=429, headers={"Retry-After": asked}) if count <= 3 else None

    cells = cells_of(items=2)
    with FaultServer(reply=reply) as server, caplog.at_level(logging.WARNING):
        found = draw(model(server, num_concurrent=1), cells)
    assert {key: str(run) for key, run in found.items()} == expected(cells, 5)
    words = [record.message for record in caplog.records if "asks to wait" in record.message]
    assert len(words) == said
    assert all("asks to wait 90 s" in one for one in words)
    assert (max(waits) >= 59) == (asked != "nan")


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_stops_with_the_servers_words(status):
    key = "sk-a-secret-key"
    words = f"Incorrect API key provided: {key}, the server's own words"
    with FaultServer(status=status, words=words) as server:
        lm = model(server, header={"Authorization": f"Bearer {key}"})
        with pytest.raises(ApiError, match="own words") as caught:
            draw(lm, cells_of(items=40))
    assert str(status) in str(caught.value)
    assert key not in str(caught.value)
    assert server.headers[0]["Authorization"] == f"Bearer {key}"
    assert len(server.requests) <= 16  # nothing was asked again


def test_what_was_answered_before_a_refusal_is_handed_on():
    with FaultServer(n="ignored") as server:
        lm = model(server, num_concurrent=2)
        runs = []
        with pytest.raises(ApiError, match="own words"):
            for at, (_, _, run) in enumerate(sample_runs(lm, cells_of(items=100, runs=1))):
                runs.append(run)
                if at == 10:
                    server.status = 403
    assert len(runs) == len(server.answered) >= 11


def test_no_server_is_said_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lm = LocalCompletionsAPI(
        base_url=f"http://127.0.0.1:{port}/v1/completions", model="m", tokenizer_backend=None
    )
    with pytest.raises(ApiError, match="no server answers"):
        list(sample_runs(lm, cells_of(items=50)))


def _login_page(body, count):
    return web.Response(
        text="<html><title>Please\n log in</title></html>", content_type="text/html"
    )


@pytest.mark.parametrize(("concurrent", "tries"), [(1, 5), (2, 5), (12, 12)])
def test_a_server_that_never_gave_a_valid_answer_is_given_up(concurrent, tries):
    with FaultServer(reply=_login_page) as server:
        lm = model(server, max_retries=2, num_concurrent=concurrent)
        with pytest.raises(ApiError, match="no valid answer") as caught:
            draw(lm, cells_of(items=100))
    assert "text/html: <html><title>Please log in</title>" in str(caught.value)
    assert server.url in str(caught.value)
    assert 2 * tries <= len(server.requests) <= 2 * (tries + concurrent)


def test_one_valid_answer_shows_that_the_server_is_the_right_one():
    def reply(body, count):
        return None if count == 5 else _login_page(body, count)

    cells = cells_of(items=20, runs=1)
    with FaultServer(reply=reply) as server:
        found = draw(model(server, max_retries=1, num_concurrent=1), cells)
    assert [str(run) for run in found.values() if not run.missing] == [expected(cells, 1)[4, 0]]
    assert "log in" in found[19, 0].capture.error
    assert len(server.requests) == 20


def test_concurrency_is_bounded_and_used():
    with FaultServer(n="ignored", delay=0.03) as server:
        draw(model(server, num_concurrent=4), cells_of(items=3, runs=8))
    assert server.busiest == 4


def test_runs_arrive_while_others_are_under_way():
    with FaultServer(delay=0.05) as server:
        runs = sample_runs(model(server, num_concurrent=1), cells_of(items=10, runs=1))
        next(runs)
        assert len(server.requests) <= 3
        runs.close()
        deadline = time.monotonic() + 5
        while any(thread.name == "lmrel-requests" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(server.requests) < 10


def test_seeds_differ_fit_31_bits_and_may_be_refused(caplog):
    cells = cells_of(runs=3)
    with FaultServer(n="ignored") as server:
        draw(model(server), cells)
        seeds = [request["seed"] for request in server.requests]
    assert len(set(seeds)) == 12
    assert all(0 <= seed < 2**31 for seed in seeds)
    with FaultServer(seeds="refused") as server, caplog.at_level(logging.WARNING):
        draw(model(server), cells)
    assert sum("no seed" in record.getMessage() for record in caplog.records) == 1


def closed_form(k):
    p = [2.0**-i for i in range(1, k + 1)]
    total = sum(p)
    entropy = -sum(x / total * math.log2(x / total) for x in p)
    return entropy, 1 - entropy / math.log2(k), 1 - total


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_captured_numbers_against_the_closed_form(chat):
    with FaultServer() as server:
        found = draw(model(server, chat), cells_of(chat=chat, top_logprobs=8))
    entropy, certainty, tail = closed_form(8)
    for run in found.values():
        assert run.capture.entropy == pytest.approx(entropy, abs=1e-12)
        assert run.capture.certainty == pytest.approx(certainty, abs=1e-12)
        assert run.capture.tail_mass == pytest.approx(tail, abs=1e-12)
        assert run.capture.logprob == pytest.approx(6 * math.log(0.5), abs=1e-12)
        assert run.capture.tokens == 6
        assert run.capture.top_k == 8  # candidates that print alike are told apart by their bytes
        assert run.capture.finish_reason == "stop"


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_k_is_lowered_once_to_what_the_server_takes(chat, caplog):
    with FaultServer(max_top_logprobs=20) as server, caplog.at_level(logging.WARNING):
        lm = model(server, chat, num_concurrent=1)
        found = draw(lm, cells_of(chat=chat, top_logprobs=30))
    assert {run.capture.top_k for run in found.values()} == {20}
    name = "top_logprobs" if chat else "logprobs"
    assert [request[name] for request in server.requests] == [30, 20, 20, 20, 20]
    said = [record.getMessage() for record in caplog.records if "20 instead of 30" in record.msg]
    assert len(said) == 1


@pytest.mark.parametrize("concurrent", [1, 16])
def test_a_server_without_logprobs(concurrent, caplog):
    for options in ({"max_top_logprobs": 0}, {"logprobs": False}):
        caplog.clear()
        with FaultServer(**options) as server, caplog.at_level(logging.WARNING):
            lm = model(server, chat=True, num_concurrent=concurrent)
            found = draw(lm, cells_of(items=8, chat=True, top_logprobs=30))
        assert all(run.capture.entropy is None for run in found.values())
        assert all(run.capture.logprob is None for run in found.values())
        assert all(len(run.split()) == 6 for run in found.values())
        assert sum("left out" in record.getMessage() for record in caplog.records) == 1


def test_stop_strings_beyond_the_four_that_chat_takes():
    until = ["1", "2", "3", "4", " "]
    with FaultServer(n=1) as server:
        cells = cells_of(chat=True, runs=1, until=until, top_logprobs=4)
        found = draw(model(server, chat=True), cells)
    assert [len(request["stop"]) for request in server.requests] == [4] * 4
    for run in found.values():
        assert " " not in run
        assert run.capture.tokens == 1  # tokens after the stop string do not count
        assert run.capture.finish_reason == "stop"
        assert run.capture.logprob == pytest.approx(math.log(0.5))


def test_sampling_without_a_temperature_is_no_greedy_decoding():
    with FaultServer() as server:
        lm = model(server)
        sampled = Cell("p", {"do_sample": True, "until": []}, (0,), (1,))
        greedy = Cell("p", {"do_sample": False, "temperature": 0.7}, (0,), (1,))
        assert base_payload(lm, sampled)["temperature"] == 1.0
        assert base_payload(lm, greedy)["temperature"] == 0.0
        assert "stop" not in base_payload(lm, sampled)
        assert sampled.generation == {"do_sample": True, "until": []}


def test_prompts_as_token_ids_lose_their_head_when_too_long():
    class Letters:
        eos_token = "\n"
        name_or_path = "letters"

        def __call__(self, texts, **_):
            return type("Encoded", (), {"input_ids": [[ord(c) for c in text] for text in texts]})

    with FaultServer() as server:
        lm = model(server, max_length=12)
        lm.tokenizer, lm.tokenizer_backend, lm.tokenized_requests = Letters(), "huggingface", True
        draw(lm, [Cell("abcdefghij", {"max_gen_toks": 4, "temperature": 1.0}, (0,), (3,))])
    assert server.requests[0]["prompt"] == [[ord(c) for c in "defghij"]]  # 12 - 1 - 4 = 7 tokens


def test_a_chat_model_needs_a_chat():
    with FaultServer() as server, pytest.raises(AssertionError, match="apply_chat_template"):
        list(sample_runs(model(server, chat=True), cells_of()))


def test_openai_payload_keeps_the_harness_fields(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    lm = OpenAIChatCompletion(model="gpt-4o")
    payload = base_payload(lm, cells_of(chat=True)[0])
    assert payload["max_completion_tokens"] == 32
    assert payload["messages"] == [{"role": "user", "content": "item 0"}]
    assert "seed" not in payload


def test_other_protocols_are_left_to_the_fallback():
    lm = SGLANGGENERATEAPI(
        base_url="http://127.0.0.1:9/generate", model="m", tokenizer_backend=None
    )
    assert not speaks_openai(lm, cells_of()[0])


def test_reading_answers():
    reading = Reading(until=("STOP",), think_end_token="</think>", top_logprobs=2)
    choice = {"text": "why not</think>  yes STOP no", "finish_reason": "length"}
    run = run_of(choice, reading, seed=1, tokens=9)
    assert (str(run), run.capture.finish_reason, run.capture.tokens) == ("yes ", "stop", None)
    parts = {"message": {"content": [{"type": "text", "text": "a"}, {"type": "x"}]}}
    assert str(run_of(parts, reading, 1)) == "a"
    assert run_of({"text": "b", "finish_reason": "eos"}, reading, 1).capture.finish_reason == "stop"
    impossible = {
        "text": "b",
        "logprobs": {"tokens": ["b"], "token_logprobs": [-9999.0], "top_logprobs": [None]},
    }
    assert run_of(impossible, reading, 1).capture.to_dict() == {"seed": 1, "tokens": 1}
    for body in ([], {}, {"choices": []}, {"choices": [3]}, {"error": {"message": "overloaded"}}):
        with pytest.raises(BrokenAnswer):
            choices_of(body)
    shuffled = {"choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a"}]}
    assert [choice["text"] for choice in choices_of(shuffled)] == ["a", "b"]


@pytest.mark.parametrize(
    "choice",
    [
        {"index": 0, "foo": 1},
        {"message": "hello"},
        {"message": None},
        {"message": {"content": {"a": 1}}},
        {"message": {"content": 5}},
        {"message": {"content": ["a"]}},
        {"text": {"a": 1}},
    ],
    ids=str,
)
def test_a_choice_without_a_text_is_a_broken_answer(choice):
    with pytest.raises(BrokenAnswer, match="choice"):
        choices_of({"choices": [{"text": "fine"}, choice]})

    def reply(body, count):
        # Every other request, and everything about item 2.
        if count % 2 or any("item 2" in str(request) for request in server.requests[-1:]):
            body["choices"][-1] = choice

    cells = cells_of(items=3, runs=2)
    with FaultServer(reply=reply) as server:
        found = draw(model(server, max_retries=4, num_concurrent=1), cells)
    texts = expected(cells, 2)
    for key, run in found.items():
        assert run.missing if key[0] == 2 else str(run) == texts[key]
    assert "choice" in found[2, 0].capture.error


@pytest.mark.parametrize("status", [200, 500])
def test_json_nested_too_deep_is_a_broken_answer(status):
    def reply(body, count):
        return web.Response(status=status, text="[" * 200_000) if count % 2 else None

    cells = cells_of(items=3)
    with FaultServer(reply=reply) as server:
        found = draw(model(server, num_concurrent=1), cells)
    assert {key: str(run) for key, run in found.items()} == expected(cells, 5)
    assert len(server.requests) == 6


def test_any_success_status_with_choices_is_an_answer():
    cells = cells_of(items=3)
    with FaultServer(reply=lambda body, count: web.json_response(body, status=201)) as server:
        found = draw(model(server), cells)
    assert {key: str(run) for key, run in found.items()} == expected(cells, 5)
    assert len(server.requests) == 3


def test_answers_without_a_choice_text_that_are_complete():
    empty = {"content": None, "reasoning_content": "so"}
    for choice in ({"text": None}, {"message": empty}, {"message": {}}, {"text": "a"}):
        assert choices_of({"choices": [choice]}) == [choice]


def _chat_logprobs(**fields):
    return {"content": [{"token": "y", "logprob": -1.0} | fields]}


def _completion_logprobs(**fields):
    given = {"tokens": ["y"], "token_logprobs": [-1.0], "top_logprobs": [{"y": -1.0, "z": -2.0}]}
    return given | fields


BROKEN_LOGPROBS = {
    "null": {"content": [None]},
    "text": {"content": ["x"]},
    "byte 300": _chat_logprobs(bytes=[300]),
    "text bytes": _chat_logprobs(bytes=["a"]),
    "token list": _chat_logprobs(top_logprobs=[{"token": ["y"], "logprob": -1.0}]),
    "top 5": _chat_logprobs(top_logprobs=5),
    "text logprob": _chat_logprobs(
        top_logprobs=[{"token": "y", "logprob": "a"}, {"token": "z", "logprob": "b"}]
    ),
    "huge": _chat_logprobs(logprob=10**400),
    "huge candidate": _chat_logprobs(top_logprobs=[{"token": "y", "logprob": 10**400}]),
    "top object": _completion_logprobs(top_logprobs={"a": -1}),
    "one logprob": _completion_logprobs(token_logprobs=-1),
}


@pytest.mark.parametrize("first_tokens", [False, True])
@pytest.mark.parametrize("logprobs", BROKEN_LOGPROBS.values(), ids=BROKEN_LOGPROBS)
def test_broken_logprobs_cost_the_numbers_and_not_the_text(logprobs, first_tokens):
    said = []
    reading = Reading(top_logprobs=2, first_tokens=first_tokens)
    choice = {"text": "yes", "finish_reason": "stop", "logprobs": logprobs}
    run = run_of(choice, reading, 1, 4, lambda *words: said.append(words))
    assert str(run) == "yes"
    assert run.capture.to_dict() == {"seed": 1, "finish_reason": "stop", "tokens": 4}
    assert len(said) == 1


@pytest.mark.parametrize("chat", [False, True], ids=["completions", "chat"])
def test_broken_logprobs_do_not_end_a_study(chat, caplog):
    kinds = [one for one in BROKEN_LOGPROBS.values() if ("content" in one) == chat]

    def reply(body, count):
        for choice in body["choices"]:
            choice["logprobs"] = kinds[count % len(kinds)]

    cells = cells_of(items=10, chat=chat, top_logprobs=5)
    with FaultServer(reply=reply) as server, caplog.at_level(logging.WARNING):
        found = draw(model(server, chat), cells)
    assert {key: str(run) for key, run in found.items()} == expected(cells, 5)
    assert all(run.capture.entropy is None for run in found.values())
    assert sum("cannot be read" in record.message for record in caplog.records) == 1


def test_a_token_across_the_stop_string_counts():
    tokens = ["one", " tw", "oST", "OP", " three"]
    choice = {
        "text": "".join(tokens),
        "logprobs": {
            "tokens": tokens,
            "token_logprobs": [-1.0, -2.0, -4.0, -8.0, -16.0],
            "top_logprobs": [{"x": -1.0, "y": -1.5}] * 5,
        },
    }
    run = run_of(choice, Reading(until=("STOP",), top_logprobs=2), seed=1)
    assert str(run) == "one two"
    assert run.capture.tokens == 3
    assert run.capture.logprob == -7.0


def test_error_bodies_and_refused_fields():
    payload = {"logprobs": True, "top_logprobs": 30, "n": 4, "seed": 1}
    openai = b'{"error": {"message": "bad", "param": "top_logprobs", "code": "x"}}'
    assert server_words(openai) == ("bad", "x", "top_logprobs")
    fastapi = b'{"detail": [{"loc": ["body", "n"], "msg": "must be 1"}]}'
    assert refused_field(server_words(fastapi)[0], None, payload) == "n"
    assert server_words(b"<html>busy</html>")[0] == "<html>busy</html>"
    assert refused_field("Requested sample logprobs of 30", None, payload) == "logprobs"
    assert refused_field("the prompt is not nice", None, payload) is None
    assert refused_field("n must be 1", None, {"n": 1}) is None
    later = datetime.now(timezone.utc) + timedelta(seconds=30)
    assert 25 < retry_after(format_datetime(later, usegmt=True)) <= 30
    assert (retry_after("1.5"), retry_after(None), retry_after("soon")) == (1.5, 0.0, 0.0)
    assert set(STATUS_FAULTS.values()) <= {408, 409, 429, 500, 502, 503}
    assert distribution(2) == [math.log(0.5), math.log(0.25)]


def test_identical_texts_are_warned_about():
    same = [["The capital is certainly Paris."] * 3] * 6
    assert "seed" in identical_texts_warning(same, 0.7)
    assert identical_texts_warning(same, 0.0) is None
    assert identical_texts_warning(same[:3], 0.7) is None
    assert identical_texts_warning([["Paris"] * 3] * 6, 0.7) is None
    assert identical_texts_warning([*same, ["a", "b"]], 0.7) is None
    with FaultServer(seeds="ignored", n="ignored") as server:
        cells = cells_of(items=6)
        found = draw(model(server), cells)
    texts = [[str(found[at, run]) for run in range(5)] for at in range(6)]
    assert identical_texts_warning(texts, 0.7) is not None


def test_a_rerun_of_which_only_prompts_that_always_fail_are_left_ends_with_results(tmp_path):
    calls = {"max_retries": 2, "num_concurrent": 4}
    poisoned = {f"item {item}" for item in range(20, 30)}
    items = [{"question": f"item {item}", "answer": "x"} for item in range(30)]
    lmrel = {"store": str(tmp_path / "runs.sqlite"), "max_missing": 0.5}
    write_task(tmp_path, "poisoned", items, repeats=4, metadata={"version": 1, "lmrel": lmrel})
    with FaultServer(bad_prompts=tuple(poisoned)) as server:
        first = evaluate(model(server, **calls), tmp_path, "poisoned")
        asked = len(server.requests)
        again = evaluate(model(server, **calls), tmp_path, "poisoned")
        prompts = {request["prompt"] for request in server.requests[asked:]}
    assert prompts == poisoned
    assert again["results"] == first["results"]
