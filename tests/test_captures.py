"""Captures in columns, and the record of an item's runs that is made when it is read."""

from __future__ import annotations

import copy
import json
import math
import pickle
import tracemalloc

import pytest
from fakes import ScriptedLM, evaluate, write_task

from lmrel_tasks.captures import Capture, Captures
from lmrel_tasks.run import Run, captures_of, share_captures
from lmrel_tasks.sample_row import RunsRecord

FULL = Capture(
    seed=2**63 - 1, tokens=7, finish_reason="stop", entropy=0.1, certainty=0.9, tail_mass=1e-300,
    logprob=-123.25, top_k=29.5,
)  # fmt: skip
EVERY = [
    FULL,
    Capture(),
    Capture(seed=0, tokens=0, finish_reason="length"),
    Capture(seed=5, finish_reason="error", error="HTTP 500"),
    Capture(tokens=1, first_tokens=[("yes", -0.25), ("no", -1.5)]),
    Capture(logprob=-math.inf, entropy=0.0),
]


def test_columns_give_back_what_went_in():
    columns = Captures(EVERY)
    assert [columns[row] for row in range(len(columns))] == EVERY
    assert columns.to_dicts() == [one.to_dict() for one in EVERY]
    assert Captures([Capture(entropy=math.nan)])[0] == Capture()
    with pytest.raises(IndexError):
        columns[len(EVERY)]


def test_a_record_reads_as_the_plain_dictionary_in_every_way():
    runs = [Run(f"text {row}", one, answer=str(row)) for row, one in enumerate(EVERY)]
    share_captures(runs)
    record = RunsRecord({"item": "a", "conditions": ["x"]}, [runs])
    rows = [{**run.capture.to_dict(), "answer": run.answer} for run in runs]
    plain = {"item": "a", "conditions": ["x"], "runs": [rows]}
    unequal = record != plain
    assert record == plain and plain == record and not unequal
    assert dict(record) == {**record} == record.copy() == (record | {}) == ({} | record) == plain
    assert list(record) == list(record.keys()) == list(plain) and len(record) == 3
    assert "runs" in record and "other" not in record
    assert record.get("runs") == [rows] and record.get("other", 5) == 5
    assert list(record.values()) == list(plain.values())
    assert dict(record.items()) == plain and repr(record) == repr(plain)
    assert pickle.loads(pickle.dumps(record)) == copy.deepcopy(record) == copy.copy(record) == plain
    for indent in (None, 2):
        assert json.loads(json.dumps(record, indent=indent)) == json.loads(json.dumps(plain))


def test_runs_in_columns_are_as_before():
    runs = [Run(f"text {row}", one) for row, one in enumerate(EVERY)]
    before = [(run.capture, run.missing, run.finish_reason) for run in runs]
    share_captures(runs)
    assert [(run.capture, run.missing, run.finish_reason) for run in runs] == before
    assert [run.missing for run in runs] == [False, False, False, True, False, False]
    again = pickle.loads(pickle.dumps(runs[:5]))  # JSON's inverse, which knows no infinity
    assert [one.capture for one in again] == EVERY[:5]
    derived = runs[3].derive(text="late", error=None, tokens=4)
    assert (derived, derived.capture.tokens, derived.missing) == ("late", 4, False)
    assert runs[3].capture == EVERY[3]


def test_columns_are_shared_by_exactly_their_runs():
    runs = [Run("x", one) for one in EVERY]
    share_captures(runs)
    columns = captures_of(runs)
    assert captures_of([run.derive(answer="a") for run in runs]) is columns
    for others in (runs[1:], runs[::-1], [*runs[:-1], Run("y")], []):
        found = captures_of(others)
        assert found is not columns
        assert [found[row] for row in range(len(found))] == [run.capture for run in others]


def test_a_run_takes_a_few_hundred_bytes():
    count = 20_000

    def bytes_each(shared: bool) -> float:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        cells = []
        for start in range(0, count, 100):
            numbers = [(start + at) / 3.0 for at in range(100)]
            captures = [Capture(2**62 + int(x), 5, "stop", x, -x, 2 * x, 3 * x) for x in numbers]
            cells.append([Run(f"an answer of words {one.seed}", one) for one in captures])
            if shared:
                share_captures(cells[-1])
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return taken / count

    shared = bytes_each(True)
    assert shared < 300  # of which a plain string would take 90
    assert shared < 0.65 * bytes_each(False)


def test_record_reads_as_plain_json():
    runs = [Run("x", FULL, answer="a"), Run("y", EVERY[2])]
    record = RunsRecord({"item": "i"}, [runs, []])
    rows = [[{**FULL.to_dict(), "answer": "a"}, EVERY[2].to_dict()], []]
    assert record["item"] == "i" and record["runs"] == rows
    assert json.loads(json.dumps(record, allow_nan=False)) == {"item": "i", "runs": rows}
    assert json.loads(json.dumps(record, indent=1)) == {"item": "i", "runs": rows}
    for same in (pickle.loads(pickle.dumps(record)), copy.deepcopy(record)):
        assert type(same) is dict and same == {"item": "i", "runs": rows} == record
    assert record != RunsRecord({"item": "i"}, [runs[:1], []])
    with pytest.raises(KeyError):
        record["other"]


def test_each_filter_list_has_runs_of_its_own(tmp_path):
    """Filters write on runs; what one list of filters writes, another must not see."""
    write_task(
        tmp_path, "t", [{"question": "q?", "answer": "4"}], repeats=2,
        filter_list=[
            {"name": "first", "filter": [{"function": "answer", "kind": "numeric"}]},
            {"name": "raw", "filter": [{"function": "take_first_k", "k": 2}]},
            {"name": "text", "filter": [{"function": "answer", "kind": "text"}]},
        ],
        metric_list=[{"metric": "acc"}, {"metric": "tar_answer"}],
    )  # fmt: skip
    lm = ScriptedLM(lambda prompt, run: ["It is 4.", "4"][run])
    results = evaluate(lm, tmp_path, "t")
    found = {
        sample["filter"]: [run.get("answer") for run in sample["lmrel"]["runs"][0]]
        for sample in results["samples"]["t"]
    }
    assert found == {"first": ["4", "4"], "raw": [None, None], "text": ["it is 4", "4"]}
    row = results["results"]["t"]
    assert [row[f"acc,{name}"] for name in found] == [1.0, 0.5, 0.5]
    assert [row[f"tar_answer,{name}"] for name in found] == [1.0, 0.0, 0.0]
