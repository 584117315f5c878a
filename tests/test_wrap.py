"""`lmrel wrap`: tasks of the harness, from small local data, against what the harness scores."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import lm_eval.tasks
import pytest
from fakes import ScriptedLM, no_environment_report, write_task
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

from lmrel_tasks.cli import main
from lmrel_tasks.stock_scores import PerRun, RunAggregation

DATA = Path(__file__).parent / "data" / "upstream"
HARNESS = Path(lm_eval.tasks.__file__).parent

# task -> (the harness's folder of its YAML, what a model says that knows the answer)
CASES = {
    "triviaqa": ("triviaqa", lambda doc: " " + doc["answer"]["aliases"][-1]),
    "nq_open": ("nq_open", lambda doc: " the " + doc["answer"][0]),
    "drop": ("drop", lambda doc: " " + " ".join(doc["answers"][0])),
    "babi": ("babi", lambda doc: " " + doc["answer"]),
    "gsm8k": ("gsm8k", lambda doc: doc["answer"]),
    "bbh_cot_zeroshot_date_understanding": (
        "bbh/cot_zeroshot", lambda doc: f"A day later. The answer is {doc['target']}.",
    ),
    "mgsm_direct_en": ("mgsm/direct", lambda doc: f"{doc['answer_number']} "),
    "mmlu_anatomy_generative": ("mmlu/generative", lambda doc: f" {'ABCD'[doc['answer']]}\nSo"),
    "mmlu_pro_biology": ("mmlu_pro", lambda doc: f"Hence the answer is ({doc['answer']})."),
    "anagrams1": ("unscramble", lambda doc: doc["completion"]),
    "legalbench_abercrombie": ("legalbench", lambda doc: f" {doc['answer'].title()} "),
    "eq_bench": (
        "eq_bench",
        lambda doc: "\n".join(
            f"{scores[f'emotion{i}']}: {scores[f'emotion{i}_score']}"
            for scores in [eval(doc["reference_answer_fullscale"])]
            for i in range(1, 5)
        ),
    ),
    "aime24": ("aime", lambda doc: f"It is $\\boxed{{{doc['Answer']}}}$"),
    "boolq-seq2seq": ("super_glue/boolq", lambda doc: [" no", " yes"][doc["label"]]),
    "iwslt2017-en-ar": ("translation", lambda doc: " " + doc["translation"]["ar"]),
    "hendrycks_math500": ("hendrycks_math", lambda doc: f"It is ${doc['answer']}$"),
    "kormedmcqa_dentist": ("kormedmcqa", lambda doc: f" {'ABCDE'[doc['answer'] - 1]}"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _data(tmp_path, monkeypatch):
    for owner in DATA.iterdir():
        (tmp_path / owner.name).symlink_to(owner)
    monkeypatch.chdir(tmp_path)


def run(lm, folders, name, **options):
    manager = TaskManager(include_path=[str(one) for one in folders], include_defaults=False)
    with no_environment_report():
        return simple_evaluate(
            model=lm, tasks=[name], task_manager=manager, bootstrap_iters=options.pop("boot", 100),
            **options,
        )  # fmt: skip


def wrap(folder, name, *options, output="wrapped"):
    where = [str(HARNESS / one) for one in folder.split(",")]
    return main(["wrap", name, "-o", output, "--include_path", *where, "--no_defaults", *options])


def knowing(folder, name, right, wrong="no idea 0", knows=lambda number, run: number % 2 == 0):
    """A model that answers some documents as they should be answered, others wrongly."""
    manager = TaskManager(include_path=[str(HARNESS / folder)], include_defaults=False)
    task = manager.load([name])["tasks"][name]
    docs = [(task.doc_to_text(doc), right(doc)) for doc in task.eval_docs]

    def answer(prompt, run):
        for number, (text, told) in enumerate(docs):
            if prompt.rstrip().endswith(text.rstrip()):
                return told if knows(number, run) else wrong
        raise AssertionError(f"no document ends this prompt: {prompt[-200:]}")

    return answer


def stock_rows(results, name):
    row = results["results"][name]
    return {key: value for key, value in row.items() if "," in key}


@pytest.mark.parametrize("name", CASES)
def test_one_greedy_run_scores_as_the_harness_does(name, capsys):
    folder, right = CASES[name]
    answer = knowing(folder, name, right)
    boot = 0 if name == "iwslt2017-en-ar" else 100
    stock = run(ScriptedLM(answer), [HARNESS / folder], name, boot=boot)
    assert wrap(folder, name, "--repeats", "1") == 0
    asked = ScriptedLM(answer)
    ours = run(asked, ["wrapped"], f"repeated_{name}", boot=boot)
    expected = stock_rows(stock, name)
    found = stock_rows(ours, f"repeated_{name}")
    assert {key: found[key] for key in expected} == pytest.approx(expected, nan_ok=True)
    # The model is right on some items only, so a score that ignores it would be seen.
    values = [value for key, value in expected.items() if "_stderr" not in key]
    assert any(value > 0 and value not in (1, 100) for value in values)
    # Prompt, shots and the texts that were scored are the same.
    mine, theirs = ours["samples"][f"repeated_{name}"], stock["samples"][name]
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one["arguments"][0][0] == other["arguments"][0][0]
        settings = other["arguments"][0][1]
        assert {key: one["arguments"][0][1][key] for key in settings} == settings
    assert {one["filter"] for one in mine} == {one["filter"] for one in theirs}
    assert ours["versions"][f"repeated_{name}"] == stock["versions"][name]


@pytest.mark.parametrize("name", ["gsm8k", "drop", "iwslt2017-en-ar"])
def test_repeats_average_the_harness_score_of_each_run(name):
    folder, right = CASES[name]
    answer = knowing(folder, name, right, knows=lambda number, run: (number + run) % 3 > 0)
    singles = [
        stock_rows(run(ScriptedLM(lambda p, _, r=r: answer(p, r)), [HARNESS / folder], name), name)
        for r in range(3)
    ]
    wrap(folder, name, "--repeats", "3", "--metrics", "answer_agreement", "tar_answer")
    ours = run(ScriptedLM(answer), ["wrapped"], f"repeated_{name}")
    row = stock_rows(ours, f"repeated_{name}")
    compared = [key for key in singles[0] if "_stderr" not in key]
    assert compared
    for key in compared:
        assert row[key] == pytest.approx(sum(one[key] for one in singles) / 3), key
        error = row[key.replace(",", "_stderr,")]
        assert error == "N/A" or error >= 0
    # Two of three runs are right, or one is wrong: one pair in three agrees.
    some = next(key for key in row if key.startswith("answer_agreement,"))
    assert row[some] == pytest.approx(1 / 3)
    json.dumps(ours["samples"], default=str, allow_nan=False)


def test_whole_outputs_are_embedded_and_extracted_answers_compared(monkeypatch):
    import numpy as np

    from lmrel_tasks.plugin import Embed

    seen = []

    def encode(texts):
        seen.extend(texts)
        return np.array([[1.0, 0.0] if "pens" in text else [0.0, 1.0] for text in texts])

    monkeypatch.setattr(Embed, "encoder", staticmethod(lambda model: encode))
    folder, _ = CASES["gsm8k"]
    # Other words, the same number; every third run has another number.
    said = ["These are pens: #### 7", "Counting gives #### 7.", "So many pens #### 8"]
    wrap(folder, "gsm8k", "--repeats", "3", "--kind", "numeric")
    ours = run(ScriptedLM(lambda prompt, r: said[r]), ["wrapped"], "repeated_gsm8k", limit=2)
    row = ours["results"]["repeated_gsm8k"]
    assert set(seen) == set(said)
    for name in ("strict-match", "flexible-extract"):
        assert row[f"semantic_repeatability,{name}"] == pytest.approx(1 / 3)
        assert row[f"answer_agreement,{name}"] == pytest.approx(1 / 3)
        assert row[f"internal_repeatability,{name}"] == pytest.approx(0.9)
    sample = ours["samples"]["repeated_gsm8k"][0]
    assert [one["answer"] for one in sample["lmrel"]["runs"][0]] == ["7", "7", "8"]


def test_multiple_choice_as_letters():
    for name, folder in (("arc_easy", "arc"), ("mmlu_anatomy", "mmlu/default")):
        wrap(folder, name, "--repeats", "4", "--metrics", "answer_agreement")

        def answer(prompt, r):
            return {"pumps": "B", "thigh": "(A)" if r else "C"}.get(
                next((word for word in ("pumps", "thigh") if word in prompt.split("\n\n")[-1]), ""),
                "D.",
            )

        lm = ScriptedLM(answer)
        results = run(lm, ["wrapped"], f"repeated_{name}")
        prompt = lm.asked[0][0]
        assert prompt.endswith("pumps blood?\nA. Liver\nB. Heart\nC. Lung\nD. Skin\nAnswer:")
        row = results["results"][f"repeated_{name}"]
        # right: all, three of four, none, all
        assert row["acc,none"] == pytest.approx((1 + 0.75 + 0 + 1) / 4)
        assert row["answer_agreement,none"] == pytest.approx((1 + 0.5 + 1 + 1) / 4)
        assert [one["target"] for one in results["samples"][f"repeated_{name}"]] == list("BACD")


def test_letters_in_shots():
    wrap("arc", "arc_easy", "--repeats", "2", "--metrics", "answer_agreement")
    lm = ScriptedLM(lambda prompt, r: "A")
    run(lm, ["wrapped"], "repeated_arc_easy", num_fewshot=1, limit=3)
    assert "\nA. Liver\nB. Heart\nC. Lung\nD. Skin\nAnswer: B\n\n" in lm.asked[-1][0]


@pytest.mark.parametrize("name,folder", [("arc_easy", "arc"), ("hellaswag", "hellaswag")])
def test_multiple_choice_as_probabilities_scores_as_the_harness_does(name, folder):
    class Likes(ScriptedLM):
        def loglikelihood(self, requests, disable_tqdm=False):
            return [(-math.log(2 + len(r.args[1]) % 5), False) for r in requests]

    lm = Likes(lambda prompt, r: "")
    stock = stock_rows(run(lm, [HARNESS / folder], name), name)
    wrap(folder, name, "--options", "probabilities")
    results = run(lm, ["wrapped"], f"repeated_{name}")
    assert stock_rows(results, f"repeated_{name}") == pytest.approx(stock, nan_ok=True)
    sample = results["samples"][f"repeated_{name}"][0]
    assert sum(sample["lmrel"]["probabilities"][0]) == pytest.approx(1)


def test_groups_and_tags_are_wrapped_with_their_members(capsys):
    assert wrap("mmlu/generative", "mmlu_stem_generative", "--kind", "mcq") == 0
    text = Path("wrapped/repeated_mmlu_stem_generative.yaml").read_text(encoding="utf-8")
    assert "group: repeated_mmlu_stem_generative" in text
    assert "- repeated_mmlu_anatomy_generative" in text
    assert wrap("unscramble", "unscramble", output="tag") == 0
    members = sorted(path.stem for path in Path("tag").glob("repeated_*.yaml"))
    assert "repeated_unscramble" in members and "repeated_anagrams1" in members
    manager = TaskManager(include_path="tag", include_defaults=False)
    assert manager.all_tags == []  # the original's tag does not catch the new tasks
    assert "Run them: lm_eval run --include_path tag --tasks repeated_unscramble" in (
        capsys.readouterr().out
    )


def test_changes_that_a_group_makes_reach_its_members(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    items = [{"question": f"q{i}", "answer": "yes"} for i in range(3)]
    path = write_task(own, "mine", items, repeats=None, metadata=None, filter_list=None)
    lines = path.read_text(encoding="utf-8").splitlines()[1:]  # a stock task: no class
    plain = "\n".join(lines).replace("- metric: answer_agreement", "")
    plain = plain.replace("- metric: acc", "- metric: exact_match")
    path.write_text(plain, encoding="utf-8")
    (own / "g.yaml").write_text(
        "group: g\ntask:\n- task: mine\n  num_fewshot: 0\n  description: 'Think. '\n"
        "aggregate_metric_list:\n- {metric: exact_match, weight_by_size: false}\n",
        encoding="utf-8",
    )
    arguments = ["--include_path", str(own), "--no_defaults", "--metrics", "answer_agreement"]
    assert main(["wrap", "g", "-o", "out", *arguments]) == 0
    lm = ScriptedLM(lambda prompt, r: "yes" if r else "no")
    row = run(lm, ["out"], "repeated_g")["results"]["repeated_g"]
    assert lm.asked[0][0] == "Think. q0"
    assert row["exact_match,none"] == pytest.approx(0.9)
    assert row["answer_agreement,none"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    "name,folder,reason",
    [
        ("wikitext", "wikitext", "rolling"),
        ("lambada_openai", "lambada", "log-likelihood of a fixed text"),
        ("mmmu_val_accounting", "mmmu", "multimodal"),
        ("squadv2", "squadv2", "Python class"),
        ("masakhapos_bam_prompt_1", "afrobench/masakhapos/prompt_1", "regex_pos"),
    ],
)
def test_what_cannot_be_wrapped_is_refused_with_a_reason(name, folder, reason, capsys):
    assert wrap(folder, name) == 2
    error = capsys.readouterr().err
    assert name in error and reason in error
    assert not Path("wrapped").exists()


@pytest.mark.parametrize(
    "options,words",
    [
        (["--repeats", "0"], "--repeats"),
        (["--kind", "number"], "kind must be one of"),
        (["--kind", "label"], "--choices"),
        (["--metrics", "answer_agrement"], "answer_agreement"),
        (["--metrics", "semantic_reproducibility"], "conditions"),
        (["--metrics", "answer_agreement", "--repeats", "1"], "--repeats 2"),
        (["--temperature", "-1"], "--temperature"),
        (["--prefix", ""], "--prefix"),
    ],
)
def test_wishes_that_cannot_be_granted(options, words, capsys):
    assert wrap("gsm8k", "gsm8k", *options) == 2
    assert words in capsys.readouterr().err


def test_unknown_names_get_a_hint(capsys):
    assert wrap("gsm8k", "gsm8kk") == 2
    assert "did you mean gsm8k" in capsys.readouterr().err


def test_a_user_may_edit_the_written_file():
    wrap("unscramble", "anagrams1", "--metrics", "answer_agreement")
    path = Path("wrapped/repeated_anagrams1.yaml")
    path.write_text(
        path.read_text(encoding="utf-8").replace("repeats: 10", "repeats: 3"), encoding="utf-8"
    )
    lm = ScriptedLM(lambda prompt, r: "person")
    results = run(lm, ["wrapped"], "repeated_anagrams1")
    assert len(lm.asked) == 9
    assert results["results"]["repeated_anagrams1"]["answer_agreement,none"] == 1
    path.write_text(
        path.read_text(encoding="utf-8").replace("wrap:\n", "wrap:\n  metric: x\n"),
        encoding="utf-8",
    )
    with pytest.raises(ValueError, match=r"wrap\.metric"):
        run(lm, ["wrapped"], "repeated_anagrams1")


def test_an_aggregation_over_runs_takes_items_with_missing_runs():
    values = [PerRun([(1, 2), (3, 4)]), PerRun([(5, 6)])]
    total = RunAggregation(lambda pairs: sum(a * b for a, b in pairs))
    assert total(values) == pytest.approx((2 + 30 + 12) / 2)
    assert total.stderr(values[:1]) == "N/A"
    assert total.stderr(values) > 0


def test_wrapped_files_do_not_need_the_working_directory(tmp_path):
    wrap("unscramble", "anagrams1", output=str(tmp_path / "a"))
    shutil.move(tmp_path / "a", tmp_path / "b")
    manager = TaskManager(include_path=str(tmp_path / "b"), include_defaults=False)
    assert manager.all_subtasks == ["repeated_anagrams1"]
