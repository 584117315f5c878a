"""`lmrel certify`: numbers, exit status, and what it says to bad input."""

import csv
import gzip
import json
import math
from pathlib import Path

import pytest
from result_folders import write_results
from scipy import stats

from lmrel_tasks.certification import certify, load
from lmrel_tasks.cli import main
from lmrel_tasks.repeats import Reading, Repeats, inputs_of, read_repeats

DATA = Path(__file__).parent / "data"


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows(n, right, k=4):
    """n items of which the mode is right in `right`; wrong ones never sample the label."""
    return [
        {"id": f"q{i}", "gold": "A", "responses": ["A" if i < right else "B"] * k} for i in range(n)
    ]


def result(folder):
    return json.loads((folder / "certificate.json").read_text(encoding="utf-8"))


def published(tmp_path, name):
    lines = (DATA / "certify_raw.jsonl").read_text(encoding="utf-8").splitlines()
    found = [row for line in lines if (row := json.loads(line))["set"] == name]
    return write(tmp_path / f"{name}.jsonl", found)


# Published values ------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "m_star"), [(0.3, 3), (0.2, 4), (0.1, None)])
def test_numeric_set_from_raw_responses(tmp_path, alpha, m_star):
    path, out = published(tmp_path, "B"), tmp_path / "out"
    main(["certify", str(path), "--kind", "numeric", "--alpha", str(alpha), "--output", str(out)])
    (one,) = result(out)
    # The package's own scores: 18 of 30 items at rank 1, five labels never sampled.
    assert one["level"]["level"] == pytest.approx(18 / 31)
    exact = stats.binomtest(18, 30, alternative="greater").proportion_ci(0.95, "exact").low
    assert one["level"]["lower"] == pytest.approx(exact)
    assert one["coverage"]["capability_gap"]["estimate"] == pytest.approx(5 / 30)
    # At alpha 0.1 the 28th of 30 scores is infinite; the package returns 15 there.
    assert one["sets"]["m_star"] == m_star
    assert one["sets"]["feasible"] is (m_star is not None)
    sizes = [len(row["prediction_set"]) for row in one["table"]]
    classes = [row["classes"] for row in one["table"]]
    assert sizes == [min(n, m_star or n) for n in classes]
    assert one["set_size"] == pytest.approx(sum(sizes) / 30)


def test_letter_set_with_ties_empty_and_unsolvable_items(tmp_path):
    items = list(read_repeats(published(tmp_path, "A"), Reading(kind="mcq")))
    found = {row.id: row for row in certify(items, ties="conservative").rows}
    # The package: a3 = a7 = 2 because of alphabetical ties, a4 = 2 because it counts empty answers
    # as a class, a10 = inf because it reads "definitely B" as D. Worst ranks of ties instead:
    expected = {"a1": 1, "a2": 2, "a3": 2, "a4": 1, "a5": 2, "a6": 5, "a7": 2, "a8": math.inf,
                "a9": 1, "a10": 1, "a11": 2, "a12": 1}  # fmt: skip
    assert {key: row.score for key, row in found.items()} == expected
    assert found["a8"].answer == "" and found["a8"].prediction_set == ()
    drawn = [
        {row.id: row.score for row in certify(items, seed=seed).rows}["a3"] for seed in range(400)
    ]
    # Two answers tie: rank 1 or 2 with probability a half each.
    assert set(drawn) == {1.0, 2.0}
    assert stats.binomtest(drawn.count(1.0), 400).pvalue > 1e-3


@pytest.mark.parametrize(
    ("gold", "response", "kind"),
    [("1,000", "It is 1000.", "numeric"), ("42.0", "42", "numeric"), ("(B)", "B", "mcq"),
     ("c ", "C", "mcq"), (["42", "43"], "43", "numeric"), (42, "42", "numeric")],
)  # fmt: skip
def test_labels_go_through_the_same_function_as_answers(tmp_path, gold, response, kind):
    path = write(tmp_path / "x.jsonl", [{"id": 1, "gold": gold, "responses": [response] * 3}])
    (item,) = read_repeats(path, Reading(kind=kind))
    assert set(item.answers) <= set(item.labels)


def test_none_of_these_counts_as_never_solved(tmp_path):
    path = write(
        tmp_path / "x.jsonl",
        rows(10, 10) + [{"id": f"n{i}", "gold": [], "responses": ["A"] * 4} for i in range(10)],
    )
    one = certify(load(path, Reading(kind="mcq")))
    assert one.level.level == pytest.approx(10 / 21)
    assert one.coverage.capability_gap.estimate == 0.5


# Real samples ----------------------------------------------------------------------------------


def test_gpt4o_at_temperature_zero(tmp_path):
    """Seven tasks of github.com/breckbaldwin/llm-stability at c089c02 (Apache-2.0), five runs.

    Two items whose gold answer names no option have none here.
    """
    tasks: dict[str, list] = {}
    with gzip.open(DATA / "llm_stability_gpt4o.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            tasks.setdefault(row["task"], []).append(row)
    assert len(tasks) == 7
    found = []
    for kind, options in (("mcq", []), ("label", ["--choices", "Yes,No"])):
        paths = [
            str(write(tmp_path / f"{task}.jsonl", part))
            for task, part in tasks.items()
            if (task == "navigate") == (kind == "label")
        ]
        status = main(
            ["certify", *paths, "--kind", kind, *options, "--output", str(tmp_path / kind)]
        )
        assert status == 1  # college mathematics does not reach 0.9
        found += result(tmp_path / kind)
    assert len(found) == 7
    for one in found:
        assert 0.47 <= one["tar_answer"] <= 0.93, one["input"]
        assert 0.466 <= one["accuracy"] <= 0.925, one["input"]
    assert sum(one["unlabelled"] for one in found) == 2
    by_name = {Path(one["file"]).stem: one for one in found}
    # No item of this task has an agreement of answers other than that of raw texts.
    assert by_name["ruin_names"]["items"] == 248
    assert by_name["college_mathematics"]["tar_answer"] == pytest.approx(0.47)


# The gate --------------------------------------------------------------------------------------


def test_exit_status_is_the_gate(tmp_path, capsys):
    # 59 successes of 59: lower bound 0.05 ** (1 / 59) = 0.9505.
    good = str(write(tmp_path / "good.jsonl", rows(59, 59)))
    assert main(["certify", good, "--kind", "mcq", "--min-reliability", "0.95"]) == 0
    assert "QUALIFIES (lower bound 0.950" in capsys.readouterr().out
    short = str(write(tmp_path / "short.jsonl", rows(58, 58)))
    assert main(["certify", short, "--kind", "mcq", "--min-reliability", "0.95"]) == 1
    gate = ["--kind", "mcq", "--min-reliability", "0.95", "--gate", "level"]
    assert main(["certify", short, *gate]) == 0  # 58 / 59
    assert main(["certify", str(tmp_path / "absent.jsonl"), "--kind", "mcq"]) == 2
    assert "absent.jsonl" in capsys.readouterr().err


def test_threshold_is_one_minus_alpha_by_default(tmp_path):
    path = str(write(tmp_path / "x.jsonl", rows(30, 30)))  # lower bound 0.905
    assert main(["certify", path, "--kind", "mcq", "--alpha", "0.1"]) == 0
    assert main(["certify", path, "--kind", "mcq", "--alpha", "0.05"]) == 1


def test_several_inputs_make_a_table_of_which_qualify(tmp_path, capsys):
    paths = [
        write(tmp_path / "a.jsonl", rows(100, 99)),
        write(tmp_path / "b.jsonl", rows(100, 60)),
        write(tmp_path / "c.jsonl", [{"id": 1, "responses": ["A"]}]),
    ]
    out = tmp_path / "out"
    command = ["certify", *map(str, paths), "--kind", "mcq", "--output", str(out)]
    assert main(command) == 2
    table = capsys.readouterr().out.split("reached?\n")[1]
    assert [line.split()[-1] for line in table.splitlines()[:3]] == ["yes", "no", "judged"]
    with (out / "summary.csv").open(encoding="utf-8", newline="") as file:
        summary = list(csv.DictReader(file))
    assert [row["qualifies"] for row in summary] == ["True", "False", ""]
    assert "field gold is missing" in summary[2]["error"]
    assert float(summary[0]["level"]) == pytest.approx(99 / 101)
    with (out / "items.csv").open(encoding="utf-8", newline="") as file:
        items = list(csv.DictReader(file))
    assert len(items) == 200 and items[99]["score"] == "" and items[0]["score"] == "1.0"


def test_coverage_without_sets_is_not_shown_as_a_success(tmp_path, capsys):
    main(["certify", str(write(tmp_path / "x.jsonl", rows(4, 4))), "--kind", "mcq"])
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("  coverage"))
    assert "not defined without a finite M*" in line and "1.000" not in line
    main(["certify", str(write(tmp_path / "y.jsonl", rows(100, 99))), "--kind", "mcq"])
    assert "  coverage            0.990 [" in capsys.readouterr().out


def test_models_that_are_folders_are_named_by_their_last_part(tmp_path):
    for name in ("one/model", "two/other"):
        write_results(tmp_path / name[:3], f"/far/away/{name}", {"acc": [1.0, 0.0]}, task="sums")
    assert [name for name, _ in inputs_of([tmp_path])] == ["model sums", "other sums"]
    write_results(tmp_path / "x", "/elsewhere/model", {"acc": [1.0, 0.0]}, task="sums")
    assert {name for name, _ in inputs_of([tmp_path])} == {
        "/far/away/one/model sums", "/elsewhere/model sums", "other sums",
    }  # fmt: skip
    assert [name for name, _ in inputs_of([tmp_path / "one", tmp_path / "x"])] == [
        f"model sums ({tmp_path / 'one'})", f"model sums ({tmp_path / 'x'})",
    ]  # fmt: skip
    write_results(tmp_path / "hub", "owner/name", {"acc": [1.0, 0.0]}, task="sums")
    assert [name for name, _ in inputs_of([tmp_path / "hub"])] == ["owner/name sums"]


def test_groups_are_calibrated_alone(tmp_path):
    path = tmp_path / "x.jsonl"
    write(path, [{**row, "subject": "xy"[i % 2]} for i, row in enumerate(rows(40, 20))])
    one = certify(load(path, Reading(kind="mcq", group="subject")))
    assert {key: level.n for key, (level, _) in one.groups.items()} == {"x": 20, "y": 20}
    assert one.groups["x"][0].level == pytest.approx(10 / 21)


# Edges -----------------------------------------------------------------------------------------


def item(key, answers, labels=("A",)):
    return Repeats(key, "here", tuple(answers), labels)


def test_one_item_is_a_result_that_shows_next_to_nothing():
    one = certify([item("a", ["A"] * 5)])
    assert (one.level.level, one.sets.feasible) == (0.5, False)
    assert one.level.lower == pytest.approx(0.05)
    assert "needs at least 9 calibration items" in one.sets.reason


@pytest.mark.parametrize("answer", ["B", "refusal", ""])
def test_all_wrong_all_refused_all_empty(answer):
    one = certify([item(str(i), [answer] * 20) for i in range(40)], alpha=0.05)
    assert one.level.level == one.level.lower == 0.0
    assert not one.sets.feasible and one.coverage.capability_gap.estimate == 1.0
    assert one.needed is None


def test_one_response_and_unequal_numbers_of_responses_are_said():
    assert any("one response" in note for note in certify([item("a", ["A"])]).notes)
    mixed = certify([item("a", ["A"]), item("b", ["A", "B"]), item("c", [])])
    assert (mixed.runs_min, mixed.runs_max) == (0, 2)
    assert any("0 to 2 responses" in note for note in mixed.notes)
    assert any("never solved" in note for note in mixed.notes)


def test_items_of_unknown_label_are_counted_and_left_out(tmp_path):
    path = write(tmp_path / "x.jsonl", [*rows(9, 9), {"id": "u", "gold": None, "responses": ["A"]}])
    one = certify(load(path, Reading(kind="mcq")))
    assert (one.items, one.unlabelled, one.level.n) == (9, 1, 9)
    assert next(row for row in one.rows if row.id == "u").covered is None


GOOD = {"id": "a", "gold": "A", "responses": ["A", "B"]}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([GOOD, GOOD], "line 2: field id: 'a' was line 1"),
        ([{"id": "a", "responses": ["A"]}], "line 1: field gold is missing"),
        ([{**GOOD, "responses": ["A", 3]}], "line 1: field responses[1]: expected a text, got int"),
        ([{**GOOD, "responses": "A"}], "field responses: expected a list of texts, got str"),
        ([{**GOOD, "responses": [["-1.2", "True"]]}], "log-likelihoods"),
        ([{**GOOD, "gold": {"x": 1}}], "line 1: field gold"),
        ([{**GOOD, "gold": True}], "line 1: field gold"),
        ([{**GOOD, "gold": "the blue one"}], "line 1: field gold: the target 'the blue one' holds"),
        ([{**GOOD, "gold": ""}], "line 1: field gold"),
        ([{**GOOD, "id": None}], "line 1: field id"),
        ([{"question": "?"}], "neither `responses` nor `resps`"),
        ([GOOD, ["a"]], "line 2: list instead of an object"),
        ([], "no items"),
        ([{**GOOD, "gold": None}], "none of the 1 items has a label"),
    ],
)
def test_bad_input_is_named_by_file_line_and_field(tmp_path, capsys, lines, words):
    path = write(tmp_path / "x.jsonl", lines)
    assert main(["certify", str(path), "--kind", "mcq"]) == 2
    said = "".join(capsys.readouterr())
    assert words in said and "x.jsonl" in said


def test_half_a_line_is_an_error_not_a_shorter_file(tmp_path, capsys):
    path = write(tmp_path / "x.jsonl", rows(50, 50))
    path.write_text(path.read_text()[:-9], encoding="utf-8")
    assert main(["certify", str(path), "--kind", "mcq"]) == 2
    assert "line 50: not valid JSON" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "words"),
    [(["--alpha", "95"], "alpha must lie strictly between 0 and 1, got 95.0"),
     (["--alpha", "0"], "alpha"), (["--min-reliability", "90"], "min-reliability"),
     (["--confidence", "1"], "confidence")],
)  # fmt: skip
def test_probabilities_out_of_range(tmp_path, capsys, option, words):
    path = write(tmp_path / "x.jsonl", rows(50, 50))
    assert main(["certify", str(path), "--kind", "mcq", *option]) == 2
    assert words in capsys.readouterr().err


def test_null_content_and_infinite_numbers_are_no_answers(tmp_path):
    path = write(
        tmp_path / "x.jsonl",
        [{"id": 1, "gold": 5, "responses": [None, "The answer is infinity", "5"]}],
    )
    (one,) = read_repeats(path, Reading(kind="numeric"))
    assert one.answers == ("", "", "5")


# Labels of people ------------------------------------------------------------------------------


def test_labels_replace_gold(tmp_path, capsys):
    path = write(tmp_path / "x.jsonl", [{"id": i, "responses": ["A", "A", "B"]} for i in range(20)])
    labels = write(
        tmp_path / "labels.jsonl",
        [{"id": str(i), "gold": ["A"] if i < 10 else [], "kind": "mcq"} for i in range(20)],
    )
    out = tmp_path / "out"
    command = ["certify", str(path), "--labels", str(labels), "--output", str(out), "--kind"]
    assert main([*command, "mcq"]) == 1
    (one,) = result(out)
    assert one["level"]["level"] == pytest.approx(10 / 21)
    assert main([*command, "text"]) == 2
    assert "line 1: field kind" in capsys.readouterr().out
    write(labels, [{"id": "0", "gold": "(a)"}, {"id": "0", "gold": "B"}])
    assert main([*command, "mcq"]) == 2
    assert "line 2: field id: '0' is labelled twice" in capsys.readouterr().out


# Files of the harness --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """One of our tasks and a stock task with repeats and two filters, with files as lm_eval's."""
    import yaml
    from fakes import ScriptedLM, write_task
    from lm_eval import simple_evaluate
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    folder, out = tmp_path_factory.mktemp("tasks"), tmp_path_factory.mktemp("out")
    items = [{"question": f"What is {i} plus 1?", "answer": str(i + 1)} for i in range(12)]
    items.append(dict(items[0]))  # the same question twice
    numeric = [{"name": "none", "filter": [{"function": "answer", "kind": "numeric"}]}]
    own = write_task(
        folder, "own", items, filter_list=numeric,
        metric_list=[{"metric": name} for name in
                     ("acc", "reliability_level", "reliability_lower", "coverage")],
    )  # fmt: skip
    stock = yaml.safe_load(own.read_text(encoding="utf-8").split("\n", 1)[1])
    first = [{"function": "take_first"}]
    stock.update(
        task="stock", metric_list=[{"metric": "exact_match"}], metadata={"version": 1},
        filter_list=[{"name": "a", "filter": first}, {"name": "b", "filter": first}],
    )  # fmt: skip
    (folder / "stock.yaml").write_text(yaml.safe_dump(stock), encoding="utf-8")
    drawn: dict[str, int] = {}

    def answer(prompt, index):
        number = int(prompt.split()[2])
        if index == 0:  # a stock task asks every repeat as if it were the first
            index = drawn[prompt] = drawn.get(prompt, -1) + 1
        return f"The answer is {number + 1 + (index % 4 == 3) + (number % 3 == 2)}."

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    for name in ("own", "stock"):
        drawn.clear()
        tracker = EvaluationTracker(output_path=str(out / name))
        tracker.general_config_tracker.log_experiment_args(
            model_source="scripted", model_args="", system_instruction=None,
            chat_template=None, fewshot_as_multiturn=False,
        )  # fmt: skip
        found = simple_evaluate(model=ScriptedLM(answer), tasks=[name], task_manager=manager)
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        tracker.save_results_samples(task_name=name, samples=samples[name])
    return out


def test_own_task_gives_the_numbers_of_its_results_table(evaluated, tmp_path):
    results = json.loads(next((evaluated / "own").rglob("results_*.json")).read_text())
    table = results["results"]["own"]
    main(["certify", str(evaluated / "own"), "--output", str(tmp_path)])
    (one,) = result(tmp_path)
    assert one["items"] == 13 and one["runs_min"] == 4
    assert one["level"]["level"] == pytest.approx(table["reliability_level,none"])
    assert one["level"]["lower"] == pytest.approx(table["reliability_lower,none"])
    assert one["coverage"]["coverage"] == pytest.approx(table["coverage,none"])
    assert one["accuracy"] == pytest.approx(table["acc,none"])
    assert one["level"]["successes"] == 9  # the mode is wrong for 2, 5, 8, 11


def test_items_of_own_tasks_without_labels_ask_for_labels(tmp_path, capsys):
    """The harness writes the target "" where a task has none."""
    line = {
        "doc_id": 0, "doc": {"question": "?"}, "target": "", "resps": [["It is 2.", "2"]],
        "filtered_resps": [["It is 2.", "2"]], "filter": "none",
        "lmrel": {"item": "k", "conditions": ["default"], "runs": [[{}, {}]]},
    }  # fmt: skip
    path = write(tmp_path / "samples_t_1.jsonl", [line])
    (one,) = read_repeats(path, Reading(kind="numeric"))
    assert one.labels is None and one.answers == ("2", "2")
    assert main(["certify", str(path), "--kind", "numeric"]) == 2
    assert "people's labels with --labels" in capsys.readouterr().out
    write(path, [{**line, "lmrel": {**line["lmrel"], "labels": []}, "target": "2"}])
    assert next(read_repeats(path, Reading(kind="numeric"))).labels == ()
    write(path, [{key: value for key, value in line.items() if key != "lmrel"} | {"target": "2"}])
    assert next(read_repeats(path, Reading(kind="numeric"))).labels == ("2",)


def test_a_line_in_another_encoding_is_named(tmp_path, capsys):
    path = write(tmp_path / "x.jsonl", rows(2, 2))
    good = path.read_bytes()
    path.write_bytes(b"\xef\xbb\xbf" + good)
    assert len(list(read_repeats(path, Reading(kind="mcq")))) == 2, "a byte order mark is no text"
    path.write_bytes(good + b'{"id": "\xfc"}\n')
    assert main(["certify", str(path), "--kind", "mcq"]) == 2
    assert "x.jsonl, line 3: not UTF-8 text" in capsys.readouterr().out


def test_stock_task_with_repeats_and_several_filters(evaluated, tmp_path, capsys):
    path = str(evaluated / "stock")
    assert main(["certify", path]) == 2
    assert "--kind" in capsys.readouterr().out
    main(["certify", path, "--kind", "numeric", "--output", str(tmp_path)])
    (one,) = result(tmp_path)
    assert (one["items"], one["runs_min"]) == (13, 4)
    # The twin of the first question drew four more runs of the same kind.
    assert one["level"]["successes"] == 9
    assert one["input"].endswith("stock")


def test_folder_of_several_tasks(evaluated, capsys):
    assert main(["certify", str(evaluated), "--kind", "numeric"]) == 1
    assert "reached?" in capsys.readouterr().out
