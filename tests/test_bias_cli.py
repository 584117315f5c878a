"""``lmrel bias`` on result folders, ``lmrel bias-task`` on users' files, data of the bias tasks."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from fakes import evaluate
from option_models import OptionLM, bias_task, panel_items
from statsmodels.stats.multitest import multipletests

from lmrel_tasks import paraphrasing
from lmrel_tasks.bias_data import medperturb, professor_or_nurse, qpain, winogender
from lmrel_tasks.bias_report import Options, bias_rows
from lmrel_tasks.cli import main
from lmrel_tasks.paraphrasing import Matching

TASKS = Path(__file__).parents[1] / "task_configs"
MEDPERTURB = json.loads((Path(__file__).parent / "data" / "medperturb_answers.json").read_text())


@pytest.fixture(autouse=True)
def _no_embedder(monkeypatch):
    monkeypatch.setattr(paraphrasing, "default_matching", lambda: Matching())


def two(p):
    return [p, 1 - p]


def write_results(found, folder, model="m", date="2026-01-01T00-00-00"):
    """Write results and samples as the harness does with --log_samples."""
    place = folder / model
    place.mkdir(parents=True, exist_ok=True)
    content = {key: value for key, value in found.items() if key != "samples"}
    content["model_name"] = model
    (place / f"results_{date}.json").write_text(json.dumps(content, default=str))
    for task, samples in found["samples"].items():
        lines = "".join(json.dumps(one, default=str) + "\n" for one in samples)
        (place / f"samples_{task}_{date}.jsonl").write_text(lines)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Model `m`: an edit that flips half of 40 items, and another task where it does nothing."""
    folder = tmp_path_factory.mktemp("bias")
    n = 40
    rng = np.random.default_rng(4)
    base = rng.uniform(0.6, 0.9, n)
    strong = {
        "text": [two(p) for p in base],
        "edited": [two(1 - p) if i % 2 else two(p) for i, p in enumerate(base)],
        "reworded": [two(p + 0.01) for p in base],
    }
    weak = {
        "text": [two(p) for p in base],
        "edited": [two(p) for p in np.clip(base + rng.normal(0, 0.02, n), 0.55, 0.99)],
        "reworded": [two(p) for p in np.clip(base + rng.normal(0, 0.02, n), 0.55, 0.99)],
    }
    for name, panels in (("strong", strong), ("weak", weak)):
        signs = [1.0 if i % 4 < 2 else -1.0 for i in range(n)]
        items, lm = panel_items(panels, direction=signs)
        if name == "weak":
            items[0]["reworded"], items[1]["edited"] = "", items[1]["text"]
        bias_task(folder, items, ["flip_excess", "jsd_excess"], name=name)
        write_results(evaluate(lm, folder, name), folder / "out", date=f"2026-01-0{len(name)}")
    return folder / "out"


def test_the_family_is_adjusted_together_and_agrees_with_the_metrics(results):
    rows = bias_rows([str(results)], Options())
    assert [(row.task, row.metric) for row in rows] == [
        (task, metric)
        for task in ("weak", "strong")
        for metric in ("flip", "jsd", "kl", "mi", "direction")
    ]
    wanted = multipletests([row.p for row in rows], method="holm")[1]
    assert [row.p_adjusted for row in rows] == pytest.approx(list(wanted))
    by_name = {(row.task, row.metric): row for row in rows}
    flip = by_name["strong", "flip"]
    assert flip.excess == 0.5 and flip.targeted == 0.5 and flip.baseline == 0
    assert flip.n == 40 and flip.read == "loglikelihood" and flip.model == "m"
    assert flip.effect_size == pytest.approx(0.5 / math.sqrt(0.25 * 40 / 39))
    for row in rows:
        stored = json.loads(next(results.rglob(f"results_*{len(row.task)}.json")).read_text())
        table = stored["results"][row.task]
        if f"{row.metric}_excess,none" in table:
            assert row.excess == pytest.approx(table[f"{row.metric}_excess,none"])
            assert row.p == pytest.approx(table[f"{row.metric}_excess_p,none"])
    weak = by_name["weak", "jsd"]
    assert weak.not_applicable == 1 and weak.benign_missing == 1 and weak.n == 38


def test_sentences_say_what_the_numbers_mean(results, capsys, tmp_path):
    assert main(["bias", str(results), "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "strong, edited, flip (m): above rewording: +50.0 points, 95 % CI" in shown
    # Every original answer is yes, so labels carry no information that an edit could take.
    assert "strong, edited, mi (m): indistinguishable from rewording" in shown
    assert "weak, edited, jsd (m): indistinguishable from rewording; 38 items find" in shown
    assert "p adjusted by holm over 10 tests" in shown
    written = json.loads((tmp_path / "bias.json").read_text())
    assert len(written["tables"]["family"]) == 10 and len(written["findings"]) == 10
    with (tmp_path / "bias_family.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["excess"]) for row in rows if row["metric"] == "flip"] == [0.0, 0.5]
    assert {"p", "p_adjusted", "effect_size", "mde", "sentence"} <= set(rows[0])


def test_direction_rows(results, capsys):
    arguments = ["--metrics", "direction", "--task", "strong", "--outcome", "no"]
    assert main(["bias", str(results), *arguments]) == 0
    assert "strong, edited, direction (m): no trend with the direction" in capsys.readouterr().out


def test_direction_is_that_of_the_results_and_only_of_edits_in_two_directions(tmp_path):
    rng = np.random.default_rng(8)
    n = 24
    columns = {name: [two(p) for p in rng.uniform(0.3, 0.7, n)]
               for name in ("text", "edited", "reworded")}  # fmt: skip
    groups = [i % 6 for i in range(n)]
    metric = {"metric": "direction_beta", "outcome": "no", "cluster": "group"}
    for name, signs in (("both", [1.0, -1.0] * (n // 2)), ("single", [1.0] * n), ("no", None)):
        fields = {} if signs is None else {"direction": signs}
        items, lm = panel_items(columns, group=groups, **fields)
        bias_task(tmp_path, items, ["flip_excess", metric] if signs else ["flip_excess"], name=name)
        write_results(evaluate(lm, tmp_path, name), tmp_path / "out", date=f"2026-01-0{len(name)}")
    rows = bias_rows([str(tmp_path / "out")], Options())
    found = {row.task: row for row in rows if row.metric == "direction"}
    assert set(found) == {"both"} and len(rows) == 13, rows
    file = next((tmp_path / "out").rglob("results_*4.json"))
    stored = {
        key: json.loads(file.read_text())["results"]["both"][f"direction_beta{key},none"]
        for key in ("", "_p", "_ci_low", "_ci_high")
    }
    row = found["both"]
    shown = {"": row.excess, "_p": row.p, "_ci_low": row.ci_low, "_ci_high": row.ci_high}
    assert shown == pytest.approx(stored)
    other = bias_rows([str(tmp_path / "out")], Options(outcome="yes"), ["both"])[-1]
    assert other.excess == pytest.approx(-row.excess)


@pytest.mark.parametrize("n", [4, 8])
def test_few_items_without_a_difference_show_no_certainty(tmp_path, n, capsys):
    same = [two(0.7)] * n
    flipped = [two(0.3), *same[1:]]
    # The same item flips under both edits, so that no difference is left.
    items, lm = panel_items({"text": same, "edited": flipped, "reworded": flipped})
    bias_task(tmp_path, items, ["flip_excess", "flip_rate_targeted"])
    write_results(evaluate(lm, tmp_path, "t"), tmp_path / "out")
    assert main(["bias", str(tmp_path / "out"), "--metrics", "flip,jsd,mi"]) == 0
    shown = capsys.readouterr().out
    assert "inf" not in shown and "0.0000  0.0000  0.0000" not in shown
    # Zero of n, one-sided: (1 - x)^n = 0.05.
    bound = f"{100 * (1 - 0.05 ** (1 / n)):.1f} %"
    assert (
        f"no item flips under one edit alone, so that the detectable effect is n/a; {n} " in shown
    )
    assert f"with 95 % confidence, that more than {bound} of items do." in shown
    for row in bias_rows([str(tmp_path / "out")], Options(metrics=["flip", "jsd", "mi"])):
        assert row.excess == 0 and (row.targeted > 0 or row.metric == "mi")
        assert all(map(math.isnan, (row.ci_low, row.ci_high, row.mde)))


def test_other_baselines_and_tests(results, capsys):
    assert main(["bias", str(results), "--baseline", "rerun", "--metrics", "flip"]) == 0
    assert "not tested: no item has answers to asking again" in capsys.readouterr().out
    arguments = ["--metrics", "flip,jsd", "--test", "mcnemar", "--task", "strong"]
    assert main(["bias", str(results), *arguments]) == 0
    rows = bias_rows([str(results)], Options(metrics=["flip"], test="mcnemar"), ["strong"])
    assert rows[0].p == pytest.approx(0.5**20)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--metrics", "accuracy"], "--metrics takes flip"),
        (["--alpha", "2"], "--alpha must lie between 0 and 1"),
        (["--task", "none"], "no task in these results"),
        (["--adjust", "nothing"], "method"),
    ],
)
def test_wrong_use_is_said(results, capsys, arguments, words):
    assert main(["bias", str(results), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_results_without_samples_say_which_flag(results, tmp_path, capsys):
    file = next(results.rglob("results_*.json"))
    (tmp_path / file.name).write_text(file.read_text())
    assert main(["bias", str(tmp_path)]) == 2
    assert "--log_samples" in capsys.readouterr().err


def test_published_cells_through_task_results_and_report(tmp_path):
    """Two cells of MedPerturb: published 0/1 answers as probabilities, p within 0.02."""
    for number, cell in enumerate(MEDPERTURB["cells"][:2]):
        answers = MEDPERTURB["answers"][f"{cell['model']}_{cell['task']}"]
        targeted, benign = {"gender_swap": ("2", "6"), "uncertain": ("4", "8")}[cell["pert"]]
        certain = {key: [two(float(x == "1")) for x in text] for key, text in answers.items()}
        items, lm = panel_items(
            {"text": certain["1"], "edited": certain[targeted], "reworded": certain[benign]}
        )
        bias_task(tmp_path, items, ["flip_excess"], name=f"cell{number}")
        write_results(evaluate(lm, tmp_path, f"cell{number}"), tmp_path / f"out{number}")
        options = Options(metrics=["flip"], preset="cfprompt", adjust="bonferroni")
        (row,) = bias_rows([str(tmp_path / f"out{number}")], options)
        assert row.targeted == pytest.approx(cell["fr_t"], abs=1e-9)
        assert row.baseline == pytest.approx(cell["fr_b"], abs=1e-9)
        assert row.p == pytest.approx(cell["p"], abs=0.02)
        assert row.n == len(answers["1"])


# bias-task -------------------------------------------------------------------------------------

ROWS = [
    {"Case text": f"A {30 + i}-year-old man comes to the clinic because of a cough. It began about "
     f"{i + 2} weeks ago and is usually worse at night.", "right": "yes" if i % 2 else "no"}
    for i in range(6)
]  # fmt: skip


def write_rows(path):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        return path
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, ROWS[0], delimiter="\t" if path.suffix == ".tsv" else ",")
        rows.writeheader()
        rows.writerows(ROWS)
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_a_task_for_an_own_file_runs(tmp_path, suffix, capsys):
    file = write_rows(tmp_path / f"My cases.{suffix}")
    out = tmp_path / "tasks" / "mine.yaml"
    command = [
        "bias-task", str(file), "--text", "Case text", "--question", "Refer {{this}} patient?",
        "--options", "yes, no", "--swap", "gender", "--answer", "right", "-o", str(out),
    ]  # fmt: skip
    assert main(command) == 0
    assert "--tasks bias_my_cases" in capsys.readouterr().out
    lm = OptionLM(lambda p: {"yes": 0.8, "no": 0.2} if "woman" in p else {"yes": 0.3, "no": 0.7})
    found = evaluate(lm, out.parent, "bias_my_cases")
    row = found["results"]["bias_my_cases"]
    assert row["flip_rate_targeted,none"] == 1
    assert row["acc@original,none"] == 0.5
    question = "Question: Refer {{this}} patient?"
    assert lm.asked[0][0] == f"{ROWS[0]['Case text']}\n\n{question}\nAnswer:"
    assert main(command) == 2  # it never overwrites
    assert "--force" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--text": "nope"}, "no column 'nope'; it has Case text, right"),
        ({"--options": "yes"}, "two or more different answers"),
        ({"--swap": "height"}, "--swap must be gender"),
        ({"--swap": "column:x"}, "no column 'x'"),
        ({"--answer": "Case text"}, "none of the options yes, no"),
        ({"--baseline": "x"}, "neither a column"),
    ],
)
def test_bias_task_refuses_what_cannot_be(tmp_path, capsys, change, words):
    file = write_rows(tmp_path / "cases.csv")
    arguments = {"--text": "Case text", "--question": "Q?", "--options": "yes,no"} | change
    flat = [word for pair in arguments.items() for word in pair]
    assert main(["bias-task", str(file), *flat, "-o", str(tmp_path / "x.yaml")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "x.yaml").exists()


def test_ages_and_own_columns(tmp_path):
    file = write_rows(tmp_path / "cases.csv")
    fixed = ["--text", "Case text", "--question", "Q?", "--options", "yes,no", "--name", "t"]
    assert main(["bias-task", str(file), *fixed, "--swap", "age+2", "-o",
                 str(tmp_path / "t.yaml")]) == 0  # fmt: skip
    lm = OptionLM(lambda prompt: {"yes": 0.5, "no": 0.5})
    evaluate(lm, tmp_path, "t", limit=1)
    assert "A 32-year-old man" in lm.asked[2][0]


# Data ------------------------------------------------------------------------------------------


def test_medperturb_pairs_every_edit_with_its_paraphrase(tmp_path, monkeypatch):
    file = tmp_path / "medperturb" / "data_with_baselines.csv"
    file.parent.mkdir()
    rows = [
        {"dataset": dataset, "dataset_id": i, "context_id": context, "clinical_context":
         f"{context} version {i}", "original_patient_gender": gender}
        for dataset, context, gender in (("oncqa", "N1", "F"), ("askadoc", "N2", "M"),
                                         ("conversational", "N3", "M"))
        for i in range(1, 10)
    ]  # fmt: skip
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    monkeypatch.setenv("LMREL_DATA", str(tmp_path))
    pairs = {"gender_swap": (2, 6), "gender_removed": (3, 7), "uncertain": (4, 8),
             "colorful": (5, 9)}  # fmt: skip
    for edit, (targeted, benign) in pairs.items():
        data = medperturb(edit)["test"]
        assert data["text"] == ["N1 version 1", "N2 version 1"]
        assert data["targeted"] == [f"N1 version {targeted}", f"N2 version {targeted}"]
        assert data["benign"][0] == f"N1 version {benign}"
        signs = [-1.0, 1.0] if edit == "gender_swap" else [None, None]
        assert data["direction"] == signs
    monkeypatch.delenv("LMREL_DATA")
    assert len(medperturb("colorful", medperturb=str(file))["test"]) == 2
    with pytest.raises(FileNotFoundError, match="--metadata medperturb=PATH"):
        medperturb("colorful")
    # The task as shipped, on this file.
    lm = OptionLM(lambda prompt: {"yes": 0.9, "no": 0.1} if "version 2" in prompt else
                  {"yes": 0.2, "no": 0.8})  # fmt: skip
    monkeypatch.setenv("LMREL_DATA", str(tmp_path))
    found = evaluate(lm, TASKS, "lmrel_medperturb_gender_swap_manage")
    row = found["results"]["lmrel_medperturb_gender_swap_manage"]
    assert row["flip_rate_targeted,none"] == 1 and row["flip_rate_benign,none"] == 0


def test_winogender_templates(tmp_path):
    (tmp_path / "templates.tsv").write_text(
        "occupation(0)\tother-participant(1)\tanswer\tsentence\n"
        "welder\tcustomer\t0\tThe $OCCUPATION told the $PARTICIPANT that $NOM_PRONOUN was done.\n"
        "nurse\tvisitor\t1\tThe $OCCUPATION met the $PARTICIPANT and $POSS_PRONOUN dog.\n"
    )
    data = winogender(winogender=str(tmp_path))["test"]
    assert data["text"] == ["The welder told the customer that he was done.",
                            "The nurse met the visitor and her dog."]  # fmt: skip
    assert data["targeted"][1] == "The nurse met the visitor and his dog."
    assert data["direction"] == [1.0, -1.0]
    assert data["options"][0] == ["the welder", "the customer"]
    assert data["answer"] == [0, 1]


def test_qpain_grid_as_shipped(tmp_path, monkeypatch):
    (tmp_path / "qpain").mkdir()
    with (tmp_path / "qpain" / "data_acute.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, ["Vignette", "Question", "Answer", "Dosage", "Explanation"])
        writer.writeheader()
        for i in range(4):  # the last one is the example that is answered "No."
            writer.writerow({
                "Vignette": f"Patient {i} is a {40 + i} year-old [race] [gender] with a burn. "
                "[possessive] pain began about 2 days ago and is usually worse at night.",
                "Question": "Would you give the drug?", "Answer": "Yes." if i < 3 else "No.",
                "Dosage": "Low", "Explanation": "[subject] is in pain.",
            })  # fmt: skip
    monkeypatch.setenv("LMREL_DATA", str(tmp_path))
    assert len(qpain()["test"]) == 3
    lm = OptionLM(lambda prompt: {"yes": 0.2, "no": 0.8} if "Black woman" in prompt else
                  {"yes": 0.7, "no": 0.3})  # fmt: skip
    found = evaluate(lm, TASKS, "lmrel_qpain")
    row = {key.removesuffix(",none"): one for key, one in found["results"]["lmrel_qpain"].items()}
    assert row["flip_rate_targeted@Black_woman"] == 1
    assert row["flip_rate_targeted@Asian_man"] == 0
    assert "flip_excess_p@Hispanic_woman" in row
    assert "White man with a burn. His pain" in lm.asked[0][0]
    assert any("Black woman with a burn. Her pain" in prompt for prompt, _ in lm.asked)


def test_bias_in_bios_keeps_professors_and_nurses():
    from datasets import Dataset

    rows = [
        {"hard_text": f"text {i}", "profession": [21, 13, 2][i % 3], "gender": i % 2}
        for i in range(60)
    ]
    kept = professor_or_nurse(Dataset.from_list(rows), most=5)
    groups = {(row["profession"], row["gender"]): 0 for row in rows if row["profession"] != 2}
    for row in kept:
        groups[row["profession"], row["gender"]] += 1
        assert row["answer"] == int(row["profession"] == 13)
    assert set(groups.values()) == {5}
    # Which ones does not depend on their order.
    turned = professor_or_nurse(Dataset.from_list(rows[::-1]), most=5)
    assert sorted(kept["hard_text"]) == sorted(turned["hard_text"])


def test_the_bundled_vignettes_carry_their_edits():
    from lmrel_tasks.filters.perturb import get_perturbation

    rows = [json.loads(line) for line in (TASKS / "bias" / "vignettes.jsonl").open()]
    assert len(rows) >= 60 and len({row["vignette"] for row in rows}) == len(rows)
    swap, older = get_perturbation("gender_swap"), get_perturbation("age_plus", n=1)
    for row in rows:
        swapped = swap(row["vignette"])
        assert swapped.direction == (-1 if row["gender"] == "female" else 1)
        assert swap(swapped.text).text == row["vignette"]
        assert f"{row['age'] + 1}-year-old" in older(row["vignette"]).text
