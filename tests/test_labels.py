"""Acceptable answers: several, none, unknown; and answers made of brackets."""

from __future__ import annotations

import time

import pytest
from fakes import ScriptedLM, evaluate, write_task

from lmrel_tasks.filters.canonical import canonical
from lmrel_tasks.labels import acceptable


@pytest.mark.parametrize(
    ("target", "kind", "options", "expected"),
    [
        ("1,000", "numeric", None, ("1000",)),
        (["1,000", "1000.0", 12], "numeric", None, ("1000", "12")),
        (["Paris", "the city of Paris"], "text", None, ("paris", "city of paris")),
        ([], "text", None, ()),
        ("none of these", "text", None, ()),
        ("None of the above", "mcq", ["cat", "dog"], ()),
        ("None of the above", "mcq", ["cat", "None of the above"], ("B",)),
        ("none", "text", None, ("none",)),  # may be the answer to an open question
        (None, "text", None, None),
        (" yes ", None, None, ("yes",)),
    ],
)
def test_labels(target, kind, options, expected):
    assert acceptable(target, kind, options) == expected


@pytest.mark.parametrize(("target", "kind"), [("", "text"), ("unclear", "numeric"), ("", None)])
def test_a_label_that_holds_no_answer_is_an_error(target, kind):
    with pytest.raises(ValueError, match="holds no answer of kind"):
        acceptable(target, kind)


def test_labels_in_a_task(tmp_path):
    items = [
        {"question": "q0?", "answer": ["yes", "sure"]},
        {"question": "q1?", "answer": []},
        {"question": "q2?", "answer": None},
    ]
    write_task(
        tmp_path, "t", items, doc_to_target="answer", repeats=3,
        metric_list=[{"metric": name} for name in ("acc", "mode_acc", "capability_gap")],
    )  # fmt: skip
    results = evaluate(ScriptedLM(lambda p, r: "Sure."), tmp_path, "t")
    row = results["results"]["t"]
    samples = {one["doc"]["question"]: one for one in results["samples"]["t"]}
    assert samples["q0?"]["lmrel"]["labels"] == ["yes", "sure"]
    assert samples["q1?"]["lmrel"]["labels"] == []
    assert "labels" not in samples["q2?"]["lmrel"]
    assert row["acc,none"] == row["mode_acc,none"] == row["capability_gap,none"] == 0.5


def test_a_label_without_an_answer_is_found_before_sampling(tmp_path):
    write_task(
        tmp_path, "t", [{"question": "q?", "answer": "unclear"}],
        filter_list=[{"name": "none", "filter": [{"function": "answer", "kind": "numeric"}]}],
    )  # fmt: skip
    lm = ScriptedLM(lambda p, r: "3")
    with pytest.raises(ValueError, match=r"task t, item \w+: the target 'unclear' holds no answer"):
        evaluate(lm, tmp_path, "t")
    assert lm.asked == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("] ]", "]]"),
        ("> ) }", ">)}"),
        ("Open are ( and <.\nThe answer is > ) .", ">)"),
        ("The answer is >.", ">"),
        ("answer: `] }`</s>", "]}"),
        ("The answer is\n) )", "))"),
        ("First (.\n\\boxed{] )}", "])"),
        ("<think>( (</think>\n)", ")"),
        ("I can't help with that.", "refusal"),
        ("hello", ""),
        ("", ""),
    ],
)
def test_brackets(raw, expected):
    assert canonical(raw, "brackets") == expected


@pytest.mark.parametrize("part", ["\\boxed{", "answer is [ ", "<", "</a", "[\n"])
def test_brackets_take_linear_time(part):
    text = part * (64_000 // len(part))
    started = time.process_time()
    canonical(text, "brackets")
    assert time.process_time() - started < 0.5
