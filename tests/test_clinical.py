"""The clinical protocol: diagnoses read from texts, the shipped tasks, and the whole on a model."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from chat_server import chat_server
from fakes import ScriptedLM, evaluate

from lmrel_tasks.clinical import asks_diagnosis, clinical_cases, opened, with_correctness
from lmrel_tasks.commands.path import task_folder
from lmrel_tasks.filters.canonical import canonical

HUB = Path(__file__).parent / "data" / "hub"
STYLES = ("traditional", "differential", "intuitive", "analytical", "bayesian")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The nodes are tender.\nDiagnosis: Lymphogranuloma venereum (LGV).",
         "lymphogranuloma venereum"),
        ("The most likely diagnosis is **acute pyelonephritis**, given the fever.",
         "acute pyelonephritis"),
        ("Differential diagnosis: gout, sepsis.\nFinal diagnosis: Graves' disease",
         "graves' disease"),
        ("Diagnosis: gout\nNo, crystals are missing.\nDiagnosis: septic arthritis",
         "septic arthritis"),
        ("Diagnosis:\nHerpes zoster\n", "herpes zoster"),
        ("Diagnosis: most likely gout (80%)", "gout"),
        ("Diagnosis: E. histolytica colitis.", "e. histolytica colitis"),
        ("Infection with C. difficile", "infection with c. difficile"),
        ("Diagnosis: Hepatitis B. The liver is large.", "hepatitis b"),
        ("Diagnosis: diabetes type 1 vs. 2", "diabetes type 1 vs. 2"),
        ("Diagnosis: St. Louis encephalitis", "st. louis encephalitis"),
        ("This supports a diagnosis of iron deficiency anemia due to menorrhagia, which is common.",
         "iron deficiency anemia due to menorrhagia"),
        ("The diagnosis is not gout.", "not gout"),
        ("Differential diagnosis: gout, sepsis.\nThere is no telling them apart.", ""),
        ("The patient has a fever.\nThe joint is swollen.", ""),
        ("Diagnosis:", ""),
        ("", ""),
        ("Chancroid", "chancroid"),
        ("I cannot provide a diagnosis.", "refusal"),
    ],
)  # fmt: skip
def test_stated_diagnosis(text: str, answer: str) -> None:
    assert canonical(text, "diagnosis") == answer
    assert canonical(answer, "diagnosis") == answer


def test_gold_diagnoses_equal_their_statement() -> None:
    path = HUB / "lmrel" / "clinical_cases" / "default" / "test.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        gold = json.loads(line)["diagnosis"]
        said = canonical(f"It started a week ago.\nDiagnosis: {gold}.", "diagnosis")
        assert said == canonical(gold, "diagnosis") != ""


def test_medqa_keeps_questions_for_a_diagnosis_and_opens_them() -> None:
    assert asks_diagnosis("He is ill. Which of the following is the most likely diagnosis?")
    assert asks_diagnosis("Na+: 3\nWhat is the most likely diagnosis in this patient?")
    assert not asks_diagnosis("What is the best treatment for the most likely diagnosis?")
    assert not asks_diagnosis("Which of the following is most likely to confirm the diagnosis?")
    assert not asks_diagnosis("The diagnosis is gout. Which drug is the most likely cause?")
    assert opened("Ill. Which of the following is the most likely diagnosis?") == (
        "Ill. What is the most likely diagnosis?"
    )
    assert opened("Ill. Which of the following diagnoses is most likely?").endswith(
        "What diagnosis is most likely?"
    )


def run(name: str, lm: ScriptedLM, monkeypatch, **options):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    monkeypatch.chdir(HUB)
    manager = TaskManager(
        include_path=task_folder(), include_defaults=False, metadata=options.pop("metadata", None)
    )
    return simple_evaluate(model=lm, tasks=[name], task_manager=manager, **options)


def gold_of(prompt: str, cases: list[dict]) -> str:
    asked = prompt.rsplit("Case: ", 1)[1]
    return next(row["diagnosis"] for row in cases if asked.startswith(row["case"]))


def fake_encoder(model: str | None = None):
    def encode(texts: list[str]) -> np.ndarray:
        rows = [np.random.default_rng(len(text)).normal(size=8) + 1 for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)

    return encode


@pytest.fixture
def quick_embedder(monkeypatch):
    from lmrel_tasks import plugin

    for filter_class in (plugin.Embed, plugin.Cluster):
        monkeypatch.setattr(filter_class, "encoder", staticmethod(fake_encoder))


def test_medqa_asks_five_ways_and_scores_the_stated_diagnosis(monkeypatch, quick_embedder) -> None:
    rows = [
        json.loads(line)
        for line in (HUB / "GBaker/MedQA-USMLE-4-options/default/test.jsonl").open(encoding="utf-8")
    ]
    asked = {
        opened(row["question"]): row["answer"] for row in rows if asks_diagnosis(row["question"])
    }
    assert len(asked) == 3 < len(rows)

    def answer(prompt: str, index: int) -> str:
        case = prompt.rsplit("Case: ", 1)[1].removesuffix("\nReasoning:")
        # Right in half of the runs, and always when asked to name mechanisms.
        right = index % 2 == 0 or "pathophysiology" in prompt
        return f" Because.\nDiagnosis: {asked[case] if right else 'Scurvy'}"

    results = run("lmrel_medqa_reproducibility", ScriptedLM(answer), monkeypatch)
    row = results["results"]["lmrel_medqa_reproducibility"]
    assert row["acc,canonical"] == pytest.approx((4 * 0.5 + 1) / 5)
    assert row["acc@analytical,canonical"] == 1
    assert row["acc@bayesian,canonical"] == 0.5
    assert row["semantic_repeatability@analytical,canonical"] == pytest.approx(1)
    config = results["configs"]["lmrel_medqa_reproducibility"]
    assert config["repeats"] == 100
    assert config["generation_kwargs"]["temperature"] == 0.5
    assert config["generation_kwargs"]["top_k"] == 30
    assert config["generation_kwargs"]["max_gen_toks"] == 256
    sample = results["samples"]["lmrel_medqa_reproducibility"][0]
    assert sample["lmrel"]["conditions"] == list(STYLES)
    prompts = [arguments[0] for arguments in sample["arguments"]]
    assert len(set(prompts)) == 5
    assert all(prompt.count("Case:") == 3 for prompt in prompts)
    assert "posterior is about 97%" in prompts[4] and "posterior is" not in prompts[0]
    assert "Which of the following" not in prompts[0].rsplit("Case:", 1)[1]


def test_own_cases_and_correctness_by_embedding(monkeypatch, tmp_path, quick_embedder) -> None:
    own = tmp_path / "own.jsonl"
    cases = [
        {"id": 1, "case": "Red toe, crystals.", "diagnosis": ["Gout", "Gouty arthritis"]},
        {"id": 2, "case": "Bleeding gums.", "diagnosis": "Scurvy"},
    ]
    own.write_text("".join(json.dumps(row) + "\n" for row in cases), encoding="utf-8")

    def answer(prompt: str, index: int) -> str:
        asked = prompt.rsplit("Case:", 1)[1]
        return "Diagnosis: gout" if "Red toe" in asked else "Diagnosis: zzurvy"

    name = "lmrel_clinical_cases_bayesian"
    config = {"cases": str(own), "correctness": "canonical"}
    row = run(name, ScriptedLM(answer), monkeypatch, metadata=config)["results"][name]
    assert row["acc,canonical"] == 0.5
    # The stand-in embedder places texts by their length: "zzurvy" is as good as "scurvy".
    config = {"cases": str(own), "correctness": "embedding", "threshold": 0.99}
    row = run(name, ScriptedLM(answer), monkeypatch, metadata=config)["results"][name]
    assert row["acc,embedding"] == 1
    assert not [key for key in row if key.endswith(",canonical")]


def test_correctness_by_a_judge(monkeypatch, tmp_path, quick_embedder) -> None:
    own = tmp_path / "own.jsonl"
    cases = [
        {"id": 1, "case": "Red toe, crystals.", "diagnosis": "Gout"},
        {"id": 2, "case": "Bleeding gums.", "diagnosis": "Scurvy"},
    ]
    own.write_text("".join(json.dumps(row) + "\n" for row in cases), encoding="utf-8")
    said = {0: "Diagnosis: gouty arthritis", 1: "Diagnosis: vitamin c deficiency"}

    def answer(prompt: str, index: int) -> str:
        return said[index % 2]

    def reply(text: str) -> str:
        # The one candidate is the right diagnosis; the judge knows both pairs of names.
        pairs = [("gout\n", "gouty arthritis"), ("scurvy\n", "vitamin c deficiency")]
        return "1" if any(a in text.lower() and b in text.lower() for a, b in pairs) else "0"

    name = "lmrel_clinical_cases_bayesian"
    monkeypatch.setenv("LMREL_STORE", str(tmp_path / "store.sqlite"))
    with chat_server() as server:
        server.reply = reply
        config = {"cases": str(own), "correctness": "judge", "judge": server.url}
        config["judge_model"] = "m"
        row = run(name, ScriptedLM(answer), monkeypatch, metadata=config)["results"][name]
        asked = len(server.requests)
        again = run(name, ScriptedLM(answer), monkeypatch, metadata=config)["results"][name]
        assert len(server.requests) == asked > 0
    # Each case gets one of the two answers right, in half of its runs.
    assert row["acc,judge"] == again["acc,judge"] == 0.5


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{"id": 1, "case": "a"}], "item 1: field diagnosis is missing"),
        ([{"id": 1, "case": "a", "diagnosis": "b"}] * 2, "item 2: field id: 1 is there twice"),
        ([{"id": 1, "case": 3, "diagnosis": "b"}], "field case must be a text"),
        ([{"id": 1, "case": "a", "diagnosis": [1]}], "field diagnosis must be a text"),
    ],
)
def test_bad_cases_are_named(tmp_path, lines, words) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        clinical_cases(cases=str(path))
    with pytest.raises(FileNotFoundError, match="cases=nowhere"):
        clinical_cases(cases="nowhere")


def test_correctness_says_what_it_needs() -> None:
    filters = [{"name": "canonical", "filter": [{"function": "answer"}, {"function": "embed"}]}]
    with pytest.raises(ValueError, match=r"task t: metadata\.correctness must be one of"):
        with_correctness("t", {"correctness": "exact"}, filters)
    with pytest.raises(ValueError, match=r"judge needs metadata\.judge"):
        with_correctness("t", {"correctness": "judge"}, filters)
    (judged,) = with_correctness("t", {"correctness": "judge", "judge": "http://x/v1"}, filters)
    assert judged["name"] == "judge"
    assert [step["function"] for step in judged["filter"]] == ["answer", "cluster", "embed"]
    assert judged["filter"][1]["judge"] == "http://x/v1"
    assert with_correctness("t", None, filters) == filters


@pytest.mark.parametrize("data", ["medqa", "clinical_cases"])
def test_groups_name_six_tasks_and_files_are_as_generated(data: str) -> None:
    folder = Path(task_folder()) / data
    group = yaml.safe_load((folder / "_group.yaml").read_text(encoding="utf-8"))
    assert group["task"] == [f"lmrel_{data}_{one}" for one in (*STYLES, "reproducibility")]
    import importlib.util

    path = Path(task_folder()) / "clinical" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_clinical", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    prompts = yaml.safe_load((path.parent / "prompts.yaml").read_text(encoding="utf-8"))
    for style in STYLES:
        written = (folder / f"lmrel_{data}_{style}.yaml").read_text(encoding="utf-8")
        assert written == module.single(data, style, prompts)
    written = (folder / f"lmrel_{data}_reproducibility.yaml").read_text(encoding="utf-8")
    assert written == module.reproducibility(data, prompts)


def test_whole_protocol_on_a_real_model(smollm, monkeypatch, tmp_path) -> None:
    """Six cases x five prompts with their worked cases x four runs, embeddings included."""
    monkeypatch.delenv("LMREL_STORE", raising=False)
    shipped = Path(task_folder()) / "clinical_cases" / "lmrel_clinical_cases_reproducibility.yaml"
    task = {"include": str(shipped), "task": "protocol", "repeats": 4}
    (tmp_path / "protocol.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    monkeypatch.chdir(HUB)
    results = evaluate(smollm, tmp_path, "protocol", gen_kwargs="max_gen_toks=8")
    row, samples = results["results"]["protocol"], results["samples"]["protocol"]
    assert len(samples) == 6
    for sample in samples:
        assert [len(cell) for cell in sample["resps"]] == [4] * 5
        assert all(arguments[0].count("Case:") == 3 for arguments in sample["arguments"])
        assert all(0 < run["certainty"] <= 1 for cell in sample["lmrel"]["runs"] for run in cell)
    for style in STYLES:
        assert 0 < row[f"semantic_repeatability@{style},canonical"] <= 1
        assert row[f"internal_stability@{style}_stderr,canonical"] > 0
    assert 0 < row["semantic_reproducibility,canonical"] < 1
    assert 0 < row["semantic_repeatability,canonical"] < 1
    for of in ("meaning", "certainty"):
        parts = ("item", "condition", "item_condition", "run")
        shares = [row[f"var_{part}_{of},canonical"] for part in parts]
        assert math.isclose(sum(shares), 100, abs_tol=1e-6)
    certainty = np.array(
        [[np.mean([r["certainty"] for r in cell]) for cell in s["lmrel"]["runs"]] for s in samples]
    )
    assert row["internal_repeatability,canonical"] == pytest.approx(certainty.mean())
    assert row["internal_repeatability@bayesian,canonical"] == pytest.approx(certainty[:, 4].mean())
    gaps = np.abs(certainty[:, :, None] - certainty[:, None, :]).sum(axis=(1, 2)) / 20
    assert row["internal_reproducibility,canonical"] == pytest.approx(1 - gaps.mean())
