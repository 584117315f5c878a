"""``lmrel paraphrase``: acceptable paraphrases, retries, sittings, and the filter token_match."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import ScriptedLM, evaluate, write_task
from option_models import OptionLM, bias_task

from lmrel_tasks import paraphrasing
from lmrel_tasks.cli import main
from lmrel_tasks.commands import paraphrase as command
from lmrel_tasks.filters.paraphrase import accept, edit_distance
from lmrel_tasks.paraphrase_files import BaselineFile, Job, Work, make_by_model
from lmrel_tasks.paraphrasing import Matching, ModelSearch, lexical, tidy_reply
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.store import Store
from lmrel_tasks.token_ids import tokens_of

WORDS = tokens_of({})
TASKS = Path(__file__).parents[1] / "task_configs"
TEXT = (
    "A 54-year-old man comes to the clinic because of a headache. It began about 2 weeks ago and "
    "is usually worse at night. He works as a cook."
)
EDITED = TEXT.replace("man", "woman").replace("He", "She")
GOOD = TEXT.replace("usually", "normally").replace("about", "around")
CONDITIONS = [
    {"name": "original", "role": "original"},
    {"name": "gender", "role": "targeted", "perturbation": "gender_swap"},
    {"name": "reworded", "role": "benign", "frozen": "made.jsonl"},
]


@pytest.fixture(autouse=True)
def _no_embedder(monkeypatch):
    monkeypatch.setattr(paraphrasing, "default_matching", lambda: Matching())
    monkeypatch.setattr(paraphrasing, "embedding_cosine", lambda model=None: None)


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def own_task(folder, texts):
    items = [{"text": text} for text in texts]
    return bias_task(folder, items, ["jsd_benign", "benign_missing_rate"], conditions=CONDITIONS)


def paraphrase(folder, *arguments):
    return main([
        "paraphrase", "--task", "t", "--include_path", str(folder), "--tokenizer", "words",
        "-o", str(folder / "made.jsonl"), *arguments,
    ])  # fmt: skip


# Lexical ---------------------------------------------------------------------------------------


def test_lexical_file_feeds_the_task(tmp_path, capsys):
    short = "The man slept."
    own_task(tmp_path, [TEXT, short, "It hurts."])
    assert paraphrase(tmp_path) == 0
    assert "1 of 2 items have a paraphrase" in capsys.readouterr().out
    heading, first, second = lines_of(tmp_path / "made.jsonl")
    assert heading["method"] == "lexical" and heading["tokenizer"] == "words"
    assert first["targeted"] == "gender" and first["target_edits"] == 2
    check = accept(TEXT, first["text"], EDITED, WORDS.ids)
    assert check.ok and check.edits == first["edits"]
    assert first["edit_fraction"] == pytest.approx(check.fraction)
    assert second["text"] is None and second["reasons"]
    lm = OptionLM(lambda prompt: {"yes": 0.6, "no": 0.4})
    found = evaluate(lm, tmp_path, "t")
    assert first["text"] in lm.asked[4][0]
    assert found["results"]["t"]["benign_missing_rate,none"] == 0.5


def test_meaning_is_checked_where_an_embedder_is_there():
    found = lexical(TEXT, EDITED, WORDS.ids, matching=Matching(cosine=lambda a, b: 0.5))
    assert not found.texts
    assert any("meaning drifted" in reason for reason in found.reasons)
    other = lexical(TEXT, EDITED, WORDS.ids, matching=Matching(cosine=lambda a, b: 0.95))
    assert other.texts and other.checks[0].cosine == 0.95


def test_several_paraphrases_differ():
    found = lexical(TEXT, EDITED, WORDS.ids, count=3, matching=Matching())
    assert len(set(found.texts)) == 3 and not found.reasons
    assert all(accept(TEXT, text, EDITED, WORDS.ids).ok for text in found.texts)


def test_a_second_sitting_does_what_is_left(tmp_path, monkeypatch):
    own_task(tmp_path, [TEXT, TEXT.replace("54", "61")])
    assert paraphrase(tmp_path, "--limit", "1") == 0
    path = tmp_path / "made.jsonl"
    whole = path.read_text()
    path.write_text(whole + '{"item": "cut sho')  # killed while writing
    made = []
    stock = paraphrasing.lexical

    def counted(text, *rest, **options):
        made.append(text)
        return stock(text, *rest, **options)

    monkeypatch.setattr("lmrel_tasks.paraphrase_files.lexical", counted)
    assert paraphrase(tmp_path) == 0
    assert len(made) == 1 and "61-year-old" in made[0]
    assert path.read_text().startswith(whole)
    assert len(lines_of(path)) == 3


def test_a_file_made_otherwise_is_not_continued(tmp_path, capsys):
    own_task(tmp_path, [TEXT])
    assert paraphrase(tmp_path) == 0
    assert paraphrase(tmp_path, "--tolerance", "0.1") == 2
    assert "made with another tolerance" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--count", "0"], "--count must be 1 or more"),
        (["--method", "model"], "needs --model"),
        (["--targeted", "x"], "--targeted 'x' is none of gender"),
        (["--model", "no-such-model", "--model_args", "a=b"], "no-such-model"),
        (["--metadata", "x"], "KEY=VALUE"),
    ],
)
def test_wrong_use_is_said(tmp_path, capsys, arguments, words):
    own_task(tmp_path, [TEXT])
    assert paraphrase(tmp_path, *arguments) == 2
    assert words in capsys.readouterr().err


def test_a_tokenizer_must_be_named(tmp_path, capsys):
    own_task(tmp_path, [TEXT])
    out = str(tmp_path / "made.jsonl")
    assert main(["paraphrase", "--task", "t", "--include_path", str(tmp_path), "-o", out]) == 2
    assert "--tokenizer NAME" in capsys.readouterr().err


# By a model ------------------------------------------------------------------------------------


def test_retries_hold_the_whole_text_the_last_attempt_and_its_fault():
    replies = [
        "I'm sorry, but I can't help with that.",
        TEXT.replace("2 weeks", "3 weeks").replace("usually", "normally"),
        EDITED,
        TEXT,
        f'"{GOOD}"',
    ]
    search = ModelSearch(TEXT, EDITED, WORDS.ids, Matching(), 1, 6)
    prompts = []
    for reply in replies:
        prompts.append(search.prompt)
        done = search.take_reply(reply)
    assert done and search.result().texts == (GOOD,) and search.result().attempts == 5
    assert all(TEXT in prompt for prompt in prompts)
    assert "man" in prompts[0] and "Do not change these words" in prompts[0]
    faults = ["it is a refusal", "numbers changed", "words of the targeted edit changed",
              "changes no token"]  # fmt: skip
    for prompt, reply, fault in zip(prompts[1:], replies, faults, strict=False):
        assert reply in prompt and fault in prompt


def test_attempts_end_and_the_reasons_are_kept():
    search = ModelSearch(TEXT, EDITED, WORDS.ids, Matching(), 1, 2)
    assert not search.take_reply(TEXT)
    assert search.take_reply(TEXT)
    found = search.result()
    assert not found.texts and found.attempts == 2
    assert "it changes no token" in found.reasons
    assert "the reply repeats an earlier attempt" in found.reasons


def jobs():
    texts = [TEXT, TEXT.replace("54", "61"), TEXT.replace("54", "70")]
    return [
        Job(f"k{i}", "gender", text, text.replace("man", "woman").replace("He", "She"))
        for i, text in enumerate(texts)
    ]


def rewording(prompt, run):
    """Right at the second attempt for 61, at the first for the others, never for 70."""
    text = prompt.split("Text:\n", 1)[1].split("\n\n", 1)[0]
    if "70" in text or ("61" in text and run == 0):
        return "no idea"
    return text.replace("usually", "normally").replace("about", "around")


def test_items_are_asked_in_rounds_and_replies_are_kept(tmp_path):
    heading = {"method": "model"}
    file = BaselineFile(tmp_path / "a.jsonl", heading)
    work = Work(WORDS, Matching(), attempts=3)
    lm = ScriptedLM(rewording)
    with Store.open(tmp_path / "store.sqlite") as store:
        make_by_model(file, jobs(), work, lm, store)
        assert [run for _, run, _ in lm.asked] == [0, 0, 0, 1, 1, 2]
        assert len({seed for _, _, seed in lm.asked}) == 6
        rows = {row["item"]: row for row in lines_of(file.path)[1:]}
        assert rows["k0"]["attempts"] == 1 and rows["k1"]["attempts"] == 2
        assert rows["k2"]["text"] is None and rows["k2"]["attempts"] == 3
        assert "normally" in rows["k1"]["text"]
        # A second sitting with a new file pays for nothing again.
        again = ScriptedLM(rewording)
        make_by_model(BaselineFile(tmp_path / "b.jsonl", heading), jobs(), work, again, store)
        assert not again.asked
    assert sorted((tmp_path / "b.jsonl").read_text().splitlines()) == sorted(
        file.path.read_text().splitlines()
    )
    assert file.left(jobs()) == []
    assert [job.item for job in file.left(jobs(), again=True)] == ["k2"]
    assert "2 of 3 items" in file.summary(jobs()) and "1 x too many token edits" in (
        file.summary(jobs())
    )


def test_replies_that_never_come_are_failures(tmp_path):
    lost = Run("", Capture(finish_reason="error", error="timeout"))
    file = BaselineFile(tmp_path / "a.jsonl", {})
    make_by_model(file, jobs()[:1], Work(WORDS, Matching(), attempts=2), ScriptedLM(
        lambda prompt, run: lost))  # fmt: skip
    row = lines_of(file.path)[1]
    assert row["text"] is None and row["reasons"] == ["no reply (timeout)"]


def test_the_command_asks_the_model(tmp_path, monkeypatch):
    own_task(tmp_path, [job.text for job in jobs()])
    lm = ScriptedLM(rewording)
    monkeypatch.setattr(command, "_model", lambda kind, arguments: lm)
    store = str(tmp_path / "s.sqlite")
    assert paraphrase(tmp_path, "--model", "x", "--attempts", "2", "--store", store) == 0
    rows = lines_of(tmp_path / "made.jsonl")
    assert rows[0]["method"] == "model"
    assert sorted(row["text"] is None for row in rows[1:]) == [False, False, True]


@pytest.mark.parametrize(
    "reply", ['"a b"', "```\na b\n```", '"""a b"""', "  a b\n", "“a b”", "a b"]
)
def test_wrappings_of_a_reply_are_taken_off(reply):
    assert tidy_reply(reply, "x y") == "a b"


def test_a_text_keeps_its_own_edges():
    assert tidy_reply("a b", "x y\n") == "a b\n"
    assert tidy_reply('"a" b', '"x" y') == '"a" b'


# As a task -------------------------------------------------------------------------------------


def test_token_match_keeps_the_nearest_acceptable_candidate(tmp_path):
    near = TEXT.replace("usually", "normally")
    candidates = [EDITED, TEXT, near, GOOD]
    assert [edit_distance(WORDS.ids(TEXT), WORDS.ids(c)) for c in candidates] == [2, 0, 1, 2]
    step = {"function": "token_match", "text": "question", "perturbation": "gender_swap",
            "meaning": False}  # fmt: skip
    write_task(
        tmp_path, "t", [{"question": TEXT, "answer": ""}], doc_to_target="",
        filter_list=[{"name": "none", "filter": [step]}],
        metric_list=[{"metric": "empty_rate", "name": "missing"}],
    )  # fmt: skip
    found = evaluate(ScriptedLM(lambda prompt, run: candidates[run]), tmp_path, "t")
    assert found["samples"]["t"][0]["filtered_resps"][0] == GOOD
    assert found["results"]["t"]["missing,none"] == 0
    found = evaluate(ScriptedLM(lambda prompt, run: candidates[run % 2]), tmp_path, "t")
    assert found["samples"]["t"][0]["filtered_resps"][0] == ""
    assert found["results"]["t"]["missing,none"] == 1


@pytest.mark.parametrize(
    "arguments", [{}, {"targeted": "a", "perturbation": "gender_swap"}, {"perturbation": "x"}]
)
def test_token_match_refuses_bad_arguments(tmp_path, arguments):
    step = {"function": "token_match", "text": "question", **arguments}
    write_task(
        tmp_path, "t", [{"question": TEXT, "answer": ""}],
        filter_list=[{"name": "none", "filter": [step]}],
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"token_match|unknown perturbation"):
        evaluate(ScriptedLM(lambda prompt, run: ""), tmp_path, "t")


def test_paraphrasing_is_a_task_whose_results_become_baselines(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("lmrel_tasks.plugin.TokenMatch.cosine", staticmethod(lambda: None))

    def reply(prompt, run):
        text = prompt.split("Text:\n", 1)[1].split("\n\n", 1)[0]
        changed = text.replace("usually", "normally").replace("about", "around", 1 if run else 0)
        return text if "headache" in text else changed

    found = evaluate(ScriptedLM(reply), TASKS, "lmrel_paraphrase_vignettes", limit=8)
    rate = found["results"]["lmrel_paraphrase_vignettes"]["benign_missing_rate,none"]
    samples = found["samples"]["lmrel_paraphrase_vignettes"]
    assert 0 < rate < 1
    for sample in samples:
        text = sample["filtered_resps"][0]
        assert not text or text != sample["doc"]["vignette"]
    place = tmp_path / "m"
    place.mkdir()
    content = {key: one for key, one in found.items() if key != "samples"}
    (place / "results_2026-01-01.json").write_text(json.dumps(content, default=str))
    (place / "samples_lmrel_paraphrase_vignettes_2026-01-01.jsonl").write_text(
        "".join(json.dumps(one, default=str) + "\n" for one in samples)
    )
    out = tmp_path / "baselines.jsonl"
    assert main(["paraphrase", "--from", str(tmp_path), "-o", str(out)]) == 0
    assert f"{round(8 * (1 - rate))} of 8 items" in capsys.readouterr().out
    monkeypatch.setenv("LMREL_BASELINES", str(out))
    lm = OptionLM(lambda prompt: {"yes": 0.6, "no": 0.4})
    bias = evaluate(lm, TASKS, "lmrel_demo_bias", limit=8)
    assert bias["results"]["lmrel_demo_bias"]["benign_missing_rate,none"] == rate
    asked = {prompt.split("\n")[0] for prompt, _ in lm.asked}
    assert {sample["filtered_resps"][0] for sample in samples} - {""} <= asked
