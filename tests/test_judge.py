"""Judges: reading their replies, asking them once, comparing them with gold."""

import json
import math
import time

import pytest
from chat_server import chat_server
from fakes import ScriptedLM
from sklearn.metrics import cohen_kappa_score

from lmrel_tasks.certification import certify
from lmrel_tasks.cli import main
from lmrel_tasks.judge import Judge, open_judge, prompt
from lmrel_tasks.judge_baseline import cohen_kappa, judge_baseline
from lmrel_tasks.repeats import Repeats
from lmrel_tasks.verdicts import parse_choice, parse_verdict

VERDICTS = [
    ("CORRECT or INCORRECT.", None),
    ("Is it right or wrong? It is wrong.", False),
    ("Correct/incorrect: correct", True),
    ("CORRECT", True),
    ("not correct", False),
    ("INCORRECT", False),
    ("**Correct**.", True),
    ("The answer is correct.", True),
    ("The answer is not correct.", False),
    ("Incorrect. The correct answer is Paris.", False),
    ("The correct answer is Paris, so the given answer is wrong.", False),
    ("This isn't correct", False),
    ("not incorrect", True),
    ("Verdict: CORRECT", True),
    ("The answer looks right at first, but it is wrong.", False),
    ("I am not sure whether the answer is correct.", None),
    ("", None),
    ("I cannot help with that.", None),
    ('{"correct": false}', False),
    ('{"verdict": "incorrect"}', False),
    ('```json\n{"is_correct": true}\n```', True),
    ("Yes", True),
    ("No, the capital is Paris.", False),
    ("partially correct", False),
    ("The answer is not entirely correct.", False),
    ("<think>it is wrong? no</think>CORRECT", True),
    ("The answer is not wrong.", True),
    ("It is not the correct answer.", False),
    ("This is the correct answer.", True),
    ("The capital of France is Paris.", None),
    ("Let me check: 2+2=4. The answer is right.\n\nFinal verdict: correct", True),
    ("It would be wrong to call this incorrect... CORRECT", True),
    ("correct - all steps hold", True),
    ("The answer can't be considered correct.", False),
    ("Correctness: unknown", None),
    ("Verdict: not correct", False),
    ("False", False),
    ("The answer given is neither complete nor correct.", False),
    ("That's right!", True),
    ("The right side of the equation is 4.", None),
    ("I don't think it's right", False),
]

CHOICES = [
    ("Candidate 2 matches; none of the others do", 3, 2),
    ("2", 3, 2),
    ("0", 3, 0),
    ("None", 3, 0),
    ("None of the candidates match.", 3, 0),
    ("**2**", 3, 2),
    ("(3)", 3, 3),
    ("Candidate 1", 3, 1),
    ("Candidates 1 and 2 do not match; candidate 3 does", 3, 3),
    ("Candidate 1 does not match, and neither does candidate 2.", 2, 0),
    ("Answer: 3", 3, 3),
    ('{"candidate": 2}', 3, 2),
    ("7", 3, None),
    ("Candidates 1 and 2 both match", 3, None),
    ("The new answer matches candidate 2.", 3, 2),
    (
        "Candidate 1 says Paris. Candidate 2 says London. The new answer equals candidate 2.",
        2,
        2,
    ),
    ("not candidate 1 but candidate 2", 2, 2),
    ("The second one", 2, 2),
    ("", 2, None),
    ("I cannot tell", 2, None),
    ("The new answer says 42, like candidate 1.", 3, 1),
    ("Candidate 1 differs from the new answer", 1, 0),
    ("No match", 4, 0),
    ("The same as #2", 3, 2),
    ("It does not match any candidate: 0", 3, 0),
    ("Candidate 2 is the only one which matches.", 3, 2),
    ("<think>1 or 2</think>\n1", 2, 1),
    ("-1", 3, None),
]


@pytest.mark.parametrize(("reply", "verdict"), VERDICTS)
def test_verdicts(reply, verdict):
    assert parse_verdict(reply) is verdict


@pytest.mark.parametrize(("reply", "n", "choice"), CHOICES)
def test_choices(reply, n, choice):
    assert parse_choice(reply, n) == choice


@pytest.mark.parametrize(
    "part", ["not ", "candidate 1 ", "is correct if ", "{", "a word ", "correct ", "verdict is is "]
)
def test_reading_takes_time_linear_in_the_reply(part):
    reply = part * (40_000 // len(part))
    start = time.process_time()
    parse_verdict(reply)
    parse_choice(reply, 3)
    assert time.process_time() - start < 2.0


@pytest.fixture
def server():
    with chat_server() as found:
        yield found


def test_endpoint_is_asked_greedily_and_once(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-key")
    server.reply = lambda text: "INCORRECT" if "<answer>\n5" in text else "CORRECT"
    pairs = [("2+2?", "4"), ("2+2?", "5"), ("2+2?", "4")]
    store = tmp_path / "s.sqlite"
    assert open_judge(server.url, "m", store=store).verdicts(pairs) == [True, False, True]
    assert len(server.requests) == 2
    path, payload, key = server.requests[0]
    assert path == "/v1/chat/completions" and payload["model"] == "m"
    assert payload["temperature"] == 0 and key == "Bearer sk-secret-key"
    # From the store: a second judge asks nothing; another model is another judge.
    assert open_judge(server.url, "m", store=store).verdicts(pairs) == [True, False, True]
    assert len(server.requests) == 2
    open_judge(server.url, "other", store=store).verdicts(pairs)
    open_judge(server.url, "m", store=None).verdicts(pairs)
    assert len(server.requests) == 6
    assert b"sk-secret-key" not in store.read_bytes()


def test_null_content_is_no_verdict(server):
    server.reply = lambda text: None
    assert open_judge(server.url, "m").verdicts([("q", "a")]) == [None]


def test_any_harness_model_can_judge():
    lm = ScriptedLM(lambda asked, index: "2" if "<new_answer>\nvienna" in asked else "neither")
    judge = Judge(lm, "scripted")
    known = ("paris", "the city of vienna")
    assert judge.matches([("q", known, "vienna"), (None, known, "rome")]) == [1, None]
    assert "<candidate_2>\nthe city of vienna" in lm.asked[0][0]
    with pytest.raises(ValueError, match="neither an address"):
        open_judge("no_such_model")
    with pytest.raises(ValueError, match="--judge-model"):
        open_judge("http://127.0.0.1:1/v1")


def test_prompts_take_braces_and_fields_in_answers_as_text():
    asked = prompt("judge_correct", question="{answer}", answer="\\frac{1}{2} {question}")
    assert "<question>\n{answer}\n</question>" in asked
    assert "\\frac{1}{2} {question}" in asked


def test_kappa_is_that_of_scikit_learn():
    pairs = [(True, True)] * 7 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)] * 5
    assert cohen_kappa(pairs) == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))
    assert math.isnan(cohen_kappa([(True, True)] * 4))
    assert cohen_kappa([(True, True), (True, False)]) == 0.0


def items_file(path, n=60, wrong=20):
    rows = [
        {
            "id": i,
            "question": f"item {i}",
            "gold": "A",
            "responses": [f"It is {'B' if i < wrong else 'A'}."] * 3,
        }
        for i in range(n)
    ]
    rows.append({"id": "silent", "question": "?", "gold": "A", "responses": ["", ""]})
    rows.append({"id": "unknown", "question": "?", "gold": None, "responses": ["A"]})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_judge_beside_the_certificate(server, tmp_path, capsys):
    """A judge that believes everything would let a model pass that gold does not."""
    path = items_file(tmp_path / "x.jsonl")
    server.reply = lambda text: "I cannot tell." if "item 59\n" in text else "The answer is right."
    command = [
        "certify", path, "--kind", "mcq", "--min-reliability", "0.8", "--judge", server.url,
        "--judge-model", "m", "--store", str(tmp_path / "s.sqlite"), "--output",
        str(tmp_path / "out"),
    ]  # fmt: skip
    assert main(command) == 1
    (found,) = json.loads((tmp_path / "out" / "certificate.json").read_text())
    judge = found["judge"]
    assert judge["qualifies"] and not found["qualifies"]
    assert (judge["accepted"]["successes"], judge["accepted"]["n"]) == (59, 61)
    # 39 right of 59 clear ones, and the silent item, rejected by both.
    assert (judge["accuracy"]["successes"], judge["accuracy"]["n"]) == (40, 60)
    assert (judge["false_accepts"], judge["false_rejects"]) == (20, 0)
    assert (judge["unclear"], judge["not_asked"]) == (1, 1)
    asked = [payload["messages"][-1]["content"] for _, payload, _ in server.requests]
    assert len(asked) == 60 and any("It is B." in text for text in asked)
    said = capsys.readouterr().out
    assert "would say QUALIFIES" in said and "DOES NOT QUALIFY" in said
    assert main(command) == 1 and len(server.requests) == 60


def test_judge_kind_puts_answers_into_classes(server, tmp_path):
    same = {"2 o'clock", "two in the afternoon", "14:00"}

    def reply(text):
        if "<new_answer>" not in text:
            return "CORRECT"
        new = text.split("<new_answer>\n")[1].split("\n")[0]
        first = text.split("<candidate_1>\n")[1].split("\n")[0]
        return "Candidate 1 matches" if {new, first} <= same else "None of them"

    server.reply = reply
    responses = ["2 o'clock", "Two in the afternoon", "noon"]
    rows = [{"id": i, "question": "When?", "gold": "14:00", "responses": responses}
            for i in range(5)]  # fmt: skip
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    main(["certify", str(path), "--kind", "judge", "--judge", server.url, "--judge-model", "m",
          "--no-store", "--output", str(tmp_path / "out")])  # fmt: skip
    (found,) = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert found["level"]["successes"] == 5 and found["accuracy"] == pytest.approx(2 / 3)
    assert {one["answer"] for one in found["table"]} == {"14:00"}
    assert found["judge"]["accuracy"]["estimate"] == 1.0


def test_judge_needs_questions():
    items = [Repeats("a", "file, line 1", ("A",), ("A",))]
    judge = Judge(ScriptedLM(lambda asked, index: "CORRECT"), "scripted")
    with pytest.raises(ValueError, match="line 1: a judge needs the question"):
        judge_baseline(judge, items, certify(items).rows)
