"""Sequential stopping inside the harness's evaluation, on a scripted model."""

from __future__ import annotations

import hashlib
import json
import random

import numpy as np
import pytest
from fakes import ScriptedLM, evaluate, write_task

from lmrel_tasks.metrics.stopping import next_round, stop_index
from lmrel_tasks.run import Capture, Run

K = 20
ITEMS = [{"question": f"question {i}?", "answer": "yes"} for i in range(60)]
METRICS = [
    {"metric": name}
    for name in ("acc", "mode_acc", "reliability_level", "reliability_lower", "samples_used",
                 "answer_agreement", "missing_rate")
]  # fmt: skip


def vote(prompt: str, run: int) -> str:
    """Each item has its own chance of yes; each run its own draw, whenever it is asked."""
    seed = hashlib.sha256(f"{prompt}:{run}".encode()).hexdigest()
    chance = 0.25 + 0.7 * random.Random(prompt).random()
    draw = random.Random(seed).random()
    return "Yes." if draw < chance else ("no" if draw < 0.97 else "")


def answer_of(text: str) -> str:
    return text.strip(".").lower()


def run_task(folder, name, rule, lm=None, items=ITEMS, **changes):
    settings = {"lmrel": {"stopping": rule}} if rule else {"lmrel": {}}
    write_task(folder, name, items, repeats=K, metric_list=METRICS, metadata=settings, **changes)
    lm = lm or ScriptedLM(vote)
    return evaluate(lm, folder, name), lm


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return run_task(tmp_path_factory.mktemp("full"), "t", None)


@pytest.mark.parametrize("rule", ["curtail", "hoeffding", "eprocess", "earliest"])
def test_items_stop_where_the_rule_says_and_runs_not_drawn_are_absent(tmp_path, rule):
    results, lm = run_task(tmp_path, "t", {"rule": rule})
    drawn = {}
    for prompt, run, _ in lm.asked:
        drawn.setdefault(prompt, []).append(run)
    used = []
    for sample in results["samples"]["t"]:
        question = sample["doc"]["question"]
        everything = [answer_of(vote(question, run)) for run in range(K)]
        stop = stop_index(everything, K, rule)
        used.append(stop)
        assert drawn[question] == list(range(stop))
        assert [answer_of(text) for text in sample["resps"][0]] == everything[:stop]
        assert len(sample["lmrel"]["runs"][0]) == stop
        assert [one["answer"] for one in sample["lmrel"]["runs"][0]] == everything[:stop]
        assert sample["samples_used"] == stop
        assert sample["lmrel"]["first_round"] == next_round([], K, rule)
    row = results["results"]["t"]
    assert min(used) < K
    assert row["samples_used,none"] == pytest.approx(np.mean(used))
    assert row["missing_rate,none"] == 0
    json.dumps(results["samples"], allow_nan=False, default=str)


def test_curtailing_changes_no_mode(tmp_path, full):
    stopped = run_task(tmp_path, "t", {"rule": "curtail"})[0]
    whole = full[0]
    for one, other in zip(stopped["samples"]["t"], whole["samples"]["t"], strict=True):
        assert one["doc"] == other["doc"]
        assert one["mode_acc"] == other["mode_acc"]
        assert one["reliability_level"] == other["reliability_level"]
    for name in ("mode_acc", "reliability_level", "reliability_lower"):
        assert stopped["results"]["t"][f"{name},none"] == whole["results"]["t"][f"{name},none"]
    assert whole["results"]["t"]["samples_used,none"] == K
    assert stopped["results"]["t"]["samples_used,none"] < 0.9 * K


def test_means_over_runs_come_from_the_first_round_only(tmp_path):
    results, _ = run_task(tmp_path, "t", {"rule": "curtail"})
    first = next_round([], K)
    assert first == 11  # until 11 of 20 runs agree nothing is decided
    expected = [
        np.mean([answer_of(vote(item["question"], run)) == "yes" for run in range(first)])
        for item in ITEMS
    ]
    assert results["results"]["t"]["acc,none"] == pytest.approx(np.mean(expected))


def test_means_over_all_drawn_runs_would_be_biased(tmp_path):
    # 250 items that say yes with probability 0.7: agreement of two runs is 0.58.
    items = [{"question": f"coin {i}?", "answer": "yes"} for i in range(250)]

    def coin(prompt: str, run: int) -> str:
        return "yes" if random.Random(f"{prompt} {run}").random() < 0.7 else "no"

    results, _ = run_task(tmp_path, "t", {"rule": "curtail"}, ScriptedLM(coin), items)
    row = results["results"]["t"]
    drawn = [
        np.mean([text == "yes" for text in sample["resps"][0]])
        for sample in results["samples"]["t"]
    ]
    # The standard error of the mean is about 0.009 for 11 runs of 250 items
    assert row["acc,none"] == pytest.approx(0.7, abs=0.027)
    assert row["answer_agreement,none"] == pytest.approx(0.58, abs=0.027)
    assert np.mean(drawn) > row["acc,none"] + 0.005


def test_stopping_looks_at_canonical_answers_not_at_texts(tmp_path):
    # Twenty different texts with one answer: decided after 11.
    lm = ScriptedLM(lambda prompt, run: f"{'so ' * run}the answer is yes.")
    results, _ = run_task(tmp_path, "t", {"rule": "curtail"}, lm)
    assert results["results"]["t"]["samples_used,none"] == 11


def test_stock_filters_still_work(tmp_path):
    steps = [
        {"name": "voted", "filter": [
            {"function": "answer", "kind": "text"}, {"function": "lowercase"},
            {"function": "majority_vote"}]},
        {"name": "first", "filter": [{"function": "take_first"}]},
        {"name": "three", "filter": [{"function": "take_first_k", "k": 3}]},
    ]  # fmt: skip
    results, _ = run_task(tmp_path, "t", {"rule": "curtail"}, filter_list=steps)
    row = results["results"]["t"]
    assert row["acc,first"] == pytest.approx(
        np.mean([vote(item["question"], 0).strip() == "yes" for item in ITEMS])
    )
    assert row["samples_used,first"] == 1
    assert row["samples_used,three"] == 3
    assert row["samples_used,voted"] == 1


def test_missing_runs_are_used_up_and_counted(tmp_path):
    lost = Run("", Capture(error="HTTP 500"))
    lm = ScriptedLM(lambda prompt, run: lost if run == 2 else "yes")
    write_task(
        tmp_path, "t", ITEMS[:5], repeats=K, metric_list=METRICS,
        metadata={"lmrel": {"stopping": {"rule": "curtail"}, "max_missing": 0.2}},
    )  # fmt: skip
    results = evaluate(lm, tmp_path, "t")
    row = results["results"]["t"]
    # After 11 runs 10 agree and 9 remain: 10 > 9
    assert row["samples_used,none"] == 11
    assert row["missing_rate,none"] == pytest.approx(1 / 11)
    assert row["acc,none"] == 1
    assert len(results["samples"]["t"][0]["resps"][0]) == 10


def test_one_repeat_never_stops(tmp_path):
    write_task(
        tmp_path, "t", ITEMS[:5], repeats=1,
        metric_list=[{"metric": "acc"}, {"metric": "reliability_level"}],
        metadata={"lmrel": {"stopping": {"rule": "curtail"}}},
    )  # fmt: skip
    row = evaluate(ScriptedLM(lambda p, r: "yes"), tmp_path, "t")["results"]["t"]
    assert row["reliability_level,none"] == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"filter_list": [{"name": "none", "filter": [{"function": "lowercase"}]}]},
         "task t: metadata.lmrel.stopping looks at canonical answers.*needs a filter `answer`"),
        ({"filter_list": [{"name": "none", "filter": [{"function": "behaviour"}]}],
          "unsafe_code": True}, "cannot go with `behaviour`"),
        ({"metadata": {"lmrel": {"stopping": {"rule": "guess"}}}}, "metadata.lmrel.stopping must"),
    ],
)  # fmt: skip
def test_rules_that_cannot_work_are_refused(tmp_path, changes, words):
    fields = {"metadata": {"lmrel": {"stopping": {"rule": "curtail"}}}, **changes}
    write_task(tmp_path, "t", ITEMS, repeats=K, **fields)
    with pytest.raises(ValueError, match=words):
        evaluate(ScriptedLM(vote), tmp_path, "t")
