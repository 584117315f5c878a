"""The shipped reliability tasks, unchanged, on a few rows of each benchmark."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from fakes import ScriptedLM
from scipy import stats

from lmrel_tasks.benchmarks import bbh_lettered, truthfulqa_letters
from lmrel_tasks.data import task_folder
from lmrel_tasks.filters.canonical import canonical

HUB = Path(__file__).parent / "data" / "hub"
REPEATS = 20


def rows(path: str) -> list[dict]:
    lines = (HUB / path).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def script(folder: str, name: str):
    """A script that stands among the task files, as a module."""
    place = task_folder() / folder
    sys.path.insert(0, str(place))
    try:
        spec = importlib.util.spec_from_file_location(f"{folder}_{name}", place / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(place))
        sys.modules.pop("shots", None)
    return module


@pytest.fixture(scope="module")
def manager():
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=str(task_folder()), include_defaults=False)


@pytest.fixture(autouse=True)
def in_hub(monkeypatch):
    monkeypatch.chdir(HUB)


def run(manager, task, answer, **options):
    from lm_eval import simple_evaluate

    lm = ScriptedLM(answer)
    return simple_evaluate(model=lm, tasks=[task], task_manager=manager, **options), lm


def asked(prompt: str, last: str) -> str:
    """The last question of a prompt, the one that is not an example."""
    return prompt.rsplit(last, 1)[1]


# The files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["mmlu", "bbh"])
def test_generated_files_are_what_the_generators_write(folder):
    place = task_folder() / folder
    files = script(folder, "generate").files()
    assert {name: (place / name).read_text(encoding="utf-8") for name in files} == files
    known = {path.name for path in place.glob("*.yaml")}
    assert known == {*files, "_template.yaml"}


def test_every_task_is_listed_and_every_group_holds_what_it_should(manager):
    names = set(manager.all_tasks)
    assert len([one for one in names if one.startswith("lmrel_bbh_")]) == 27
    groups = set(manager.all_groups)
    subjects = [one for one in names - groups if one.startswith("lmrel_mmlu_")]
    assert len(subjects) == 57
    assert {"lmrel_gsm8k", "lmrel_truthfulqa", "lmrel_humaneval"} <= names
    assert {"lmrel_reliability", "lmrel_mmlu", "lmrel_bbh"} <= groups


def test_every_mmlu_subject_is_asked_alike(manager):
    from lm_eval.tasks._yaml_loader import load_yaml

    configs = [load_yaml(path) for path in sorted((task_folder() / "mmlu").glob("lmrel_*.yaml"))]
    own = [
        {key: one.pop(key) for key in ("task", "dataset_name", "description")} for one in configs
    ]
    assert len(configs) == 57
    assert all(str(one) == str(configs[0]) for one in configs)
    assert all(one["task"] == f"lmrel_mmlu_{one['dataset_name']}" for one in own)
    assert len({one["description"] for one in own}) == 57


def test_the_harness_validates_and_lists_the_tasks(capsys, monkeypatch):
    from lm_eval._cli.harness import HarnessCLI

    tasks = "lmrel_reliability,lmrel_gsm8k,lmrel_mmlu,lmrel_truthfulqa,lmrel_bbh,lmrel_humaneval"
    folder = str(task_folder())
    for arguments in (["validate", "--tasks", tasks, "--include_path", folder],):
        monkeypatch.setattr(sys, "argv", ["lm_eval", *arguments])
        cli = HarnessCLI()
        cli.execute(cli.parse_args())
    assert "all tasks found and valid" in capsys.readouterr().out.lower()


# GSM8K ----------------------------------------------------------------------------------------


def test_gsm8k_accuracy_level_and_sets_by_hand(manager):
    gold = {one["question"]: one["answer"].split("####")[1].strip()
            for one in rows("openai/gsm8k/main/test.jsonl")}  # fmt: skip
    questions = list(gold)

    def answer(prompt: str, number: int) -> str:
        question = next(one for one in questions if one in asked(prompt, "Question: "))
        right = f"So it is clear. The answer is {gold[question]}."
        return [
            right,  # always right
            right if number % 3 else "The answer is 123456.",  # mostly right
            right if number % 3 == 0 else "It must be $123,456.",  # mostly wrong
            "I cannot help with that.",  # refuses
        ][questions.index(question)]

    results, lm = run(manager, "lmrel_gsm8k", answer)
    row = results["results"]["lmrel_gsm8k"]
    # Curtailed at 20: unanimous after 11. Two of three: answers x r r x r r ...; the leader needs
    # more than the rest, 11 of 16 (r is number 1, 2, 4, 5, ... so the 11th comes as run 17).
    assert row["samples_used,none"] == pytest.approx((11 + 17 + 17 + 11) / 4)
    # Of the first 11 runs numbers 0, 3, 6, 9 are multiples of 3
    assert row["acc,none"] == pytest.approx((1 + 7 / 11 + 4 / 11 + 0) / 4)
    assert row["mode_acc,none"] == 0.5
    assert row["reliability_level,none"] == pytest.approx(2 / 5)
    assert row["reliability_lower,none"] == pytest.approx(
        stats.binomtest(2, 4, alternative="greater").proportion_ci(0.95, "exact").low
    )
    assert row["capability_gap,none"] == 0.25
    assert row["coverage_feasible,none"] == 0  # alpha = 0.1 needs nine other items
    assert row["prediction_set_size,none"] == pytest.approx((1 + 2 + 2 + 1) / 4)
    assert row["internal_repeatability,none"] == pytest.approx(0.9)
    assert all(
        sample["lmrel"]["labels"] == [gold[sample["doc"]["question"]].replace(",", "")]
        for sample in results["samples"]["lmrel_gsm8k"]
    )
    prompt = lm.asked[0][0]
    assert prompt.count("Question: ") == 6 and prompt.count("The answer is") == 6
    assert "{{" not in prompt and prompt.endswith("\nAnswer:")


def test_gsm8k_examples_are_right(manager):
    """Every ``a op b = c`` in the examples holds, and the last one is the answer."""
    from lm_eval.tasks._yaml_loader import load_yaml

    shots = load_yaml(task_folder() / "gsm8k/lmrel_gsm8k.yaml")["fewshot_config"]["samples"]
    assert len(shots) == 5
    for shot in shots:
        sums = re.findall(r"(\d+) ([-+*/]) (\d+) = (\d+)", shot["target"])
        assert sums
        for a, operator, b, c in sums:
            assert eval(f"{a} {operator} {b}") == int(c)
        assert shot["target"].endswith(f"The answer is {sums[-1][3]}.")
        assert canonical(shot["target"], "numeric") == sums[-1][3]


def test_results_and_samples_are_valid_json_even_when_nothing_was_solved(manager):
    from lm_eval.utils import handle_non_serializable, make_table

    for answer in (lambda p, r: "I cannot help with that.", lambda p, r: ""):
        results, _ = run(manager, "lmrel_gsm8k", answer, limit=2)
        row = results["results"]["lmrel_gsm8k"]
        assert row["reliability_level,none"] == row["mode_acc,none"] == 0
        assert row["capability_gap,none"] == 1
        assert row["coverage_solvable,none"] == "N/A"
        json.dumps(results, allow_nan=False, default=handle_non_serializable)
        assert "coverage_solvable" in make_table(results)


# MMLU -----------------------------------------------------------------------------------------

SUBJECTS = sorted(path.name for path in (HUB / "cais/mmlu").iterdir() if path.is_dir())


@pytest.mark.parametrize("subject", SUBJECTS)
def test_mmlu_subject(manager, subject):
    items = rows(f"cais/mmlu/{subject}/test.jsonl")

    def answer(prompt: str, number: int) -> str:
        item = next(one for one in items if one["question"].strip() in prompt)
        letter = "ABCD"[item["answer"]]
        if item is items[0]:
            return [letter, f"{letter}.", f"The answer is ({letter})"][number % 3]
        return "ABCD"[item["answer"] - 1]

    name = f"lmrel_mmlu_{subject}"
    results, lm = run(manager, name, answer)
    row = results["results"][name]
    assert len(items) == 2
    assert row["acc,none"] == row["mode_acc,none"] == 0.5
    assert row["reliability_level,none"] == pytest.approx(1 / 3)
    prompt = lm.asked[0][0]
    assert prompt.startswith(f"Multiple-choice questions on {subject.replace('_', ' ')}.")
    shots = rows(f"cais/mmlu/{subject}/dev.jsonl")
    letters = re.findall(r"^Answer: ([A-D])$", prompt, re.M)
    assert letters == ["ABCD"[shot["answer"]] for shot in shots]


def test_mmlu_answer_in_words_counts(manager):
    item = rows("cais/mmlu/anatomy/test.jsonl")[0]
    words = item["choices"][item["answer"]]
    results, _ = run(manager, "lmrel_mmlu_anatomy", lambda p, r: f"The answer is {words}", limit=1)
    assert results["results"]["lmrel_mmlu_anatomy"]["acc,none"] == 1


# TruthfulQA -----------------------------------------------------------------------------------


def truthful_rows():
    return rows("truthfulqa/truthful_qa/multiple_choice/validation.jsonl")


def test_truthfulqa_options_are_shuffled_uniformly_and_nothing_is_lost():
    # Many questions with the options of few: the order depends on the question alone.
    base = truthful_rows()
    many = [
        {**one, "question": f"{one['question']} ({copy})"} for one in base for copy in range(25)
    ]
    docs = truthfulqa_letters(Dataset.from_list(many))
    letters: Counter[tuple[int, str]] = Counter()
    for before, after in zip(many, docs, strict=True):
        choices = before["mc1_targets"]["choices"]
        assert sorted(after["choices"]) == sorted(choices)
        assert after["choices"]["ABCDEFGHIJKLM".index(after["answer"])] == choices[0]
        letters[len(choices), after["answer"]] += 1
    for size in {key[0] for key in letters}:
        counts = [letters[size, letter] for letter in "ABCDEFGHIJKLM"[:size]]
        if sum(counts) >= 100:
            assert stats.chisquare(counts).pvalue > 0.001
    share = sum(count for (_, letter), count in letters.items() if letter == "A") / len(many)
    assert 0.1 < share < 0.5


def test_truthfulqa_order_depends_on_the_item_alone():
    base = truthful_rows()
    forwards = truthfulqa_letters(Dataset.from_list(base)).to_list()
    backwards = truthfulqa_letters(Dataset.from_list(base[::-1])).to_list()
    assert forwards == backwards[::-1]


def test_truthfulqa_accuracy_by_hand(manager):
    truth = {one["question"]: one["mc1_targets"]["choices"][0] for one in truthful_rows()}

    def answer(prompt: str, number: int) -> str:
        question = re.search(r"Question: (.*)", prompt).group(1)
        options = re.findall(r"^([A-M])\. (.*)$", prompt, re.M)
        return next(letter for letter, text in options if text == truth[question])

    results, lm = run(manager, "lmrel_truthfulqa", answer, limit=20)
    row = results["results"]["lmrel_truthfulqa"]
    assert row["acc,none"] == 1
    assert row["reliability_level,none"] == pytest.approx(20 / 21)
    assert row["coverage_feasible,none"] == 1 and row["prediction_set_size,none"] == 1
    always_a, _ = run(manager, "lmrel_truthfulqa", lambda p, r: "A", limit=20)
    share = np.mean([s["doc"]["answer"] == "A" for s in results["samples"]["lmrel_truthfulqa"]])
    assert always_a["results"]["lmrel_truthfulqa"]["acc,none"] == share < 0.6
    assert lm.asked[0][0].endswith("\nAnswer:")


# BIG-Bench Hard -------------------------------------------------------------------------------

BBH = sorted(path.name for path in (HUB / "SaylorTwift/bbh").iterdir() if path.is_dir())
BROKEN = {"movie_recommendation", "ruin_names"}


def test_bbh_group_is_right_for_an_oracle_and_averages_only_means(manager):
    items = {
        (name, one["input"]): one["target"]
        for name in BBH
        for one in rows(f"SaylorTwift/bbh/{name}/test.jsonl")
    }
    targets = {key[1]: target for key, target in items.items()}

    def answer(prompt: str, number: int) -> str:
        question = asked(prompt, "\n\nQ: ").removesuffix("\nA:")
        if number == 10:
            return "The answer is that it depends."
        return f"Let us see. The answer is {targets[question]}."

    results, lm = run(manager, "lmrel_bbh", answer)
    kept = len(items) - len(BROKEN)
    for name in BBH:
        row = results["results"][f"lmrel_bbh_{name}"]
        assert row["mode_acc,none"] == 1, name
        assert row["acc,none"] == pytest.approx(10 / 11), name
        n = row["sample_len"]
        assert n == (2 if name in BROKEN else 3)
        assert row["reliability_level,none"] == pytest.approx(n / (n + 1)), name
    group = results["results"]["lmrel_bbh"]
    assert group["sample_len"] == kept
    assert group["acc,none"] == pytest.approx(10 / 11)
    assert not [key for key in group if key.startswith(("reliability", "coverage"))]
    assert all("{{" not in prompt for prompt, _, _ in lm.asked)
    assert all(prompt.count("The answer is") == 4 for prompt, _, _ in lm.asked)


def test_bbh_items_without_a_lettered_target_are_dropped(caplog):
    docs = Dataset.from_list(rows("SaylorTwift/bbh/ruin_names/test.jsonl"))
    kept = bbh_lettered(docs)
    assert len(docs) == 3 and len(kept) == 2
    assert "1 of 3 items" in caplog.text
    assert kept[0]["choices"] == re.findall(r"\(.\) (.*)", kept[0]["input"])


@pytest.fixture(scope="module")
def shots():
    return script("bbh", "shots").SHOTS


def test_bbh_examples_are_three_each_and_readable(shots):
    assert sorted(shots) == BBH
    kinds = script("bbh", "generate").KINDS
    for name, examples in shots.items():
        assert len(examples) == 3
        assert len({answer for _, _, answer in examples}) > 1  # no constant answer
        kind, labels, _ = kinds.get(name, ("mcq", None, ""))
        for question, reasoning, answer in examples:
            options = labels or re.findall(r"^\(.\) (.*)$", question, re.M) or None
            read = canonical(f"{reasoning} The answer is {answer}.", kind, options)
            assert read and read == canonical(answer, kind, options)


def test_bbh_computable_examples_are_right(shots):
    for question, _, answer in shots["boolean_expressions"]:
        assert str(eval(question.removesuffix(" is"))) == answer
    for question, _, answer in shots["multistep_arithmetic_two"]:
        assert str(eval(question.removesuffix(" ="))) == answer
    for question, _, answer in shots["word_sorting"]:
        assert sorted(question.split("List: ")[1].split()) == answer.split()
    for question, _, answer in shots["dyck_languages"]:
        pairs, stack = {"(": ")", "[": "]", "{": "}", "<": ">"}, []
        for mark in question.split("Input: ")[1].split():
            if mark in pairs:
                stack.append(pairs[mark])
            else:
                assert stack.pop() == mark
        assert " ".join(reversed(stack)) == answer
    for question, _, answer in shots["web_of_lies"]:
        honest: dict[str, bool] = {}
        for name, said in re.findall(r"(\w+) (tells the truth|lies)(?=\.)", question):
            honest.setdefault(name, said != "lies")
        for speaker, name, said in re.findall(r"(\w+) says (\w+) (tells|lies)", question):
            honest[speaker] = honest[name] == (said == "tells")
        last = re.search(r"Does (\w+) tell", question).group(1)
        assert ("Yes" if honest[last] else "No") == answer


def test_bbh_shuffled_objects_are_right(shots):
    for name in (one for one in BBH if one.startswith("tracking")):
        for question, _, answer in shots[name]:
            holds = dict(re.findall(r"(\w+) has a (\w+ ball)", question))
            for one, other in re.findall(r"(\w+) and (\w+) swap", question):
                holds[one], holds[other] = holds[other], holds[one]
            person = re.search(r"game, (\w+) has the", question).group(1)
            options = dict(re.findall(r"^(\(.\)) (.*)$", question, re.M))
            assert options[answer] == holds[person]


PLACES = {"leftmost": 0, "first": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4,
          "last": -1, "rightmost": -1, "second-to-last": -2, "most expensive": -1,
          "second-cheapest": 1, "cheapest": 0}  # fmt: skip


def place(words: str, size: int) -> int:
    if "in the middle" in words:
        return size // 2
    if found := re.search(r"(\w+) from the (left|right)", words):
        at = PLACES[found.group(1)]
        return at if found.group(2) == "left" else size - 1 - at
    key = next(one for one in sorted(PLACES, key=len, reverse=True) if one in words)
    return PLACES[key] % size


def test_bbh_deductions_have_one_solution(shots):
    pattern = r"(\w+)(?: house| book)? (?:%s) (?:the )?(\w+)"
    before = re.compile(pattern % "is to the left of|finished above|costs? less than")
    after = re.compile(pattern % "is to the right of|finished below|costs? more than")
    for name in (one for one in BBH if one.startswith("logical")):
        for question, _, answer in shots[name]:
            story, listed = question.split("\nOptions:\n")
            told = story.split(": ", 1)[1].split(". ", 1)[1].rstrip(".").split(". ")
            options = re.findall(r"^(\(.\)) (?:The )?(\w+) ?(.*)$", listed, re.M)
            things = [thing for _, thing, _ in options]
            solutions = set()
            for order in itertools.permutations(things):
                at = {thing: position for position, thing in enumerate(order)}
                if all(holds(one, at, before, after) for one in told):
                    words = options[0][2]
                    solutions.add(order[place(words, len(order))])
            chosen = next(thing for letter, thing, _ in options if letter == answer)
            assert solutions == {chosen}, (name, question, solutions)


def holds(statement: str, at: dict[str, int], before: re.Pattern, after: re.Pattern) -> bool:
    if found := before.search(statement):
        return at[found.group(1)] < at[found.group(2)]
    if found := after.search(statement):
        return at[found.group(1)] > at[found.group(2)]
    thing = next(one for one in re.findall(r"\w+", statement) if one in at)
    return at[thing] == place(statement, len(at))


# A real model ---------------------------------------------------------------------------------


def test_gsm8k_on_a_real_model(manager, smollm):
    pytest.importorskip("lmrel_tasks.sampling.hf")
    from lm_eval import simple_evaluate

    results = simple_evaluate(
        model=smollm, tasks=["lmrel_gsm8k"], task_manager=manager, limit=1, num_fewshot=1,
        gen_kwargs="max_gen_toks=16",
    )  # fmt: skip
    row = results["results"]["lmrel_gsm8k"]
    assert 11 <= row["samples_used,none"] <= REPEATS
    assert 0 <= row["acc,none"] <= 1
    assert 0 < row["internal_repeatability,none"] < 1
    texts = results["samples"]["lmrel_gsm8k"][0]["resps"][0]
    assert len(set(texts)) > 1
    assert len(texts) == row["samples_used,none"]
