"""Gates: reading conditions, bounds against scipy, exit status, JUnit XML."""

from __future__ import annotations

import csv
import json
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from result_folders import write_results
from scipy import stats

from lmrel_tasks.cli import main
from lmrel_tasks.gating import judge, read_condition, read_gate
from lmrel_tasks.junit import write_junit
from lmrel_tasks.results import find_evaluations

RIGHT = [1.0] * 95 + [0.0] * 5
SMOOTH = np.random.default_rng(4).beta(9, 1, 100).tolist()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_results(
        tmp_path / "out", "org/m",
        {"acc": RIGHT, "reliability_level": RIGHT, "semantic_repeatability": SMOOTH},
        reported={
            "reliability_level,none": 95 / 101,
            "reliability_lower,none": stats.beta.ppf(0.05, 95, 6),
        },
    )  # fmt: skip
    return tmp_path / "out"


def gate(tmp_path: Path, text: str) -> str:
    path = tmp_path / "gate.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def judged(results: Path, metric: str, condition: str, task: str = "t"):  # type: ignore[no-untyped-def]
    (one,) = judge([read_condition(task, metric, condition)], find_evaluations([results]))
    return one


@pytest.mark.parametrize(
    "text, operator, threshold, confidence",
    [
        (">= 0.90", ">=", 0.9, None),
        ("<5%", "<", 0.05, None),
        (" > -1e-3 ", ">", -0.001, None),
        (">= 0.8 with 95% confidence", ">=", 0.8, 0.95),
        ("<= .2 with 99.5 % confidence", "<=", 0.2, 0.995),
    ],
)
def test_conditions_are_read(
    text: str, operator: str, threshold: float, confidence: float | None
) -> None:
    one = read_condition("t", "acc", text)
    assert (one.operator, one.threshold) == (operator, pytest.approx(threshold))
    assert one.confidence == (None if confidence is None else pytest.approx(confidence))


@pytest.mark.parametrize(
    "text, message",
    [
        ("t: {acc: 0.9}", '0.9 is no condition; write ">= 0.9"'),
        ("t: {acc: '0.9'}", "is no condition"),
        ("t: {acc: '=> 0.9'}", "is no condition"),
        ("t: {acc: '>= 0.9 with confidence'}", "is no condition"),
        ("t: {acc: '>= 0.9 with 100% confidence'}", "strictly between 0 and 1"),
        ("t:\n  acc: >= 0.9", "put conditions in quotes"),
        ("t: '>= 0.9'", "needs conditions"),
        ("- t", "maps tasks to conditions"),
        ("", "maps tasks to conditions"),
    ],
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        read_gate(gate(tmp_path, text))


def test_a_share_of_items_gets_the_exact_bound(results: Path) -> None:
    one = judged(results, "acc", ">= 0.9 with 95% confidence")
    reference = stats.binomtest(95, 100, alternative="greater").proportion_ci(0.95, "exact").low
    assert one.tested == pytest.approx(reference)
    assert one.status == "fail" and one.value == 0.95
    assert one.reason == "exact 95 % lower bound (100 items) 0.8977 is not >= 0.9"
    upper = judged(results, "acc", "<= 0.99 with 90% confidence")
    reference = stats.binomtest(95, 100, alternative="less").proportion_ci(0.9, "exact").high
    assert upper.tested == pytest.approx(reference) and upper.status == "pass"


def test_other_metrics_get_a_bound_from_their_standard_error(results: Path) -> None:
    one = judged(results, "semantic_repeatability", ">= 0.85 with 95% confidence")
    # The value tested is the largest mean that a one-sided t-test still calls exceeded.
    test = stats.ttest_1samp(SMOOTH, one.tested, alternative="greater")
    assert test.pvalue == pytest.approx(0.05)
    assert one.status == ("pass" if one.tested >= 0.85 else "fail")


def test_levels_are_bounded_by_their_items_and_lower_bounds_stand(results: Path) -> None:
    level = judged(results, "reliability_level", ">= 0.85 with 95% confidence")
    bound = judged(results, "reliability_lower", ">= 0.85")
    assert level.tested == pytest.approx(bound.tested) == pytest.approx(bound.value)


def test_bounds_hold_with_the_stated_confidence(tmp_path: Path) -> None:
    """A model at the threshold passes a gate with 90 % confidence in at most 10 % of runs."""
    rng = np.random.default_rng(8)
    conditions = [
        read_condition("t", metric, ">= 0.8 with 90% confidence") for metric in ("acc", "x")
    ]
    passed = np.zeros(2)
    for number in range(200):
        right = (rng.random(60) < 0.8).astype(float).tolist()
        smooth = rng.beta(8, 2, 60).tolist()
        path = write_results(tmp_path / str(number), "m", {"acc": right, "x": smooth})
        passed += [one.status == "pass" for one in judge(conditions, find_evaluations([path]))]
    # three standard errors of 200 repetitions above 10 %; exact bounds are conservative
    assert (passed / 200 <= 0.1 + 3 * (0.09 / 200) ** 0.5).all()
    assert passed[1] >= 0.04 * 200


def test_no_rounding_makes_a_failure_look_like_a_pass(tmp_path: Path) -> None:
    write_results(tmp_path, "m", {"acc": [1.0, 0.0]}, reported={"acc,none": 0.899999})
    assert judged(tmp_path, "acc", ">= 0.9").reason == "value 0.899999 is not >= 0.9"


def test_patterns_groups_and_filters(tmp_path: Path) -> None:
    write_results(
        tmp_path, "m", {"exact_match": RIGHT}, task="mmlu_law", filter="strict-match",
        reported={"exact_match,flexible": 0.99},
    )  # fmt: skip
    assert judged(tmp_path, "exact_match,strict-match", ">= 0.9", "mmlu_*").status == "pass"
    both = judged(tmp_path, "exact_match", ">= 0.9", "mmlu_*")
    assert both.status == "error"
    assert "name one of exact_match,strict-match, exact_match,flexible" in both.reason


@pytest.mark.parametrize(
    "task, metric, condition, reason",
    [
        ("other", "acc", ">= 0.9", "no results of other; there are t"),
        ("t", "accc", ">= 0.9", "no metric accc; did you mean acc?; there are acc"),
        ("t", "coverage", ">= 0.9 with 95% confidence", "no standard error of coverage"),
        ("t", "icc", ">= 0.9", "its value is 'N/A', not a number"),
    ],
)
def test_what_cannot_be_judged_is_an_error_with_a_reason(
    task: str, metric: str, condition: str, reason: str, tmp_path: Path
) -> None:
    write_results(
        tmp_path, "m", {"acc": RIGHT},
        reported={"coverage,none": 0.9, "coverage_stderr,none": "N/A", "icc,none": "N/A"},
    )  # fmt: skip
    one = judged(tmp_path, metric, condition, task)
    assert one.status == "error" and reason in one.reason


def group_of(
    tmp_path: Path, members: dict[str, list[float]], metric: str = "tar_answer", *,
    by_size: bool = True, stderr: float = 0.0, samples: bool = True,
) -> Path:  # fmt: skip
    """A results file with a group of tasks, as the harness writes it."""
    contents = []
    for task, values in members.items():
        path = write_results(tmp_path, "m", {metric: values}, task=task, samples=samples)
        contents.append(json.loads(path.read_text(encoding="utf-8")))
    whole = contents[0]
    for key in ("results", "configs", "n-samples"):
        whole[key] = {name: one for content in contents for name, one in content[key].items()}
    sizes = [len(one) if by_size else 1 for one in members.values()]
    value = np.average([np.mean(one) for one in members.values()], weights=sizes)
    whole["results"]["g"] = {
        f"{metric},none": value, f"{metric}_stderr,none": stderr,
        "sample_len": sum(map(len, members.values())),
    }  # fmt: skip
    whole["group_subtasks"] = {"g": ["inner", *list(members)[1:]], "inner": [next(iter(members))]}
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def test_a_group_of_shares_gets_the_exact_bound_of_its_items(tmp_path: Path) -> None:
    # A standard error of 0, as the harness pools it from tasks that agree within themselves.
    group_of(tmp_path, {"a": [1.0] * 3, "b": [0.0] * 3})
    one = judged(tmp_path, "tar_answer", ">= 0.3 with 95% confidence", "g")
    assert one.status == "fail" and one.tested == pytest.approx(stats.beta.ppf(0.05, 3, 4))
    assert "exact 95 % lower bound" in one.reason and "6 items" in one.reason


def test_a_group_of_unequal_tasks_is_pooled_by_size_only_if_it_is_weighted_so(
    tmp_path: Path,
) -> None:
    members = {"a": [1.0] * 4, "b": [0.0] * 2}
    condition = "<= 0.9 with 95% confidence"
    group_of(tmp_path, members)
    by_size = judged(tmp_path, "tar_answer", condition, "g")
    assert by_size.tested == pytest.approx(stats.beta.ppf(0.95, 5, 2))
    group_of(tmp_path, members, by_size=False)
    one = judged(tmp_path, "tar_answer", condition, "g")
    assert one.status == "error" and "gate its member tasks (b, a)" in one.reason
    group_of(tmp_path, members, by_size=False, stderr=0.1)
    spread = judged(tmp_path, "tar_answer", condition, "g")
    assert spread.tested == pytest.approx(0.5 + stats.t.ppf(0.95, 4) * 0.1)
    group_of(tmp_path, {"a": [1.0] * 40, "b": [1.0] * 2}, by_size=False)
    alike = judged(tmp_path, "tar_answer", ">= 0.5 with 95% confidence", "g")
    assert alike.tested == pytest.approx(0.05 ** (1 / 4)), "the small task limits what is known"


def test_weights_that_the_numbers_do_not_tell_are_not_assumed(tmp_path: Path) -> None:
    members = {"a": [1.0, 0.0] * 20, "b": [1.0, 0.0] * 2}
    condition = ">= 0.35 with 95% confidence"
    group_of(tmp_path, members, stderr=0.2)
    one = judged(tmp_path, "tar_answer", condition, "g")
    assert one.tested == pytest.approx(0.5 - stats.t.ppf(0.95, 42) * 0.2) and one.status == "fail"
    group_of(tmp_path, members, stderr=0.0)
    one = judged(tmp_path, "tar_answer", condition, "g")
    assert one.status == "error" and "gate its member tasks (b, a)" in one.reason
    group_of(tmp_path, members, "reliability_level", stderr=0.2)
    one = judged(tmp_path, "reliability_level", condition, "g")
    assert one.status == "error" and "gate its tasks (b, a)" in one.reason


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_weights_are_told_by_the_metric_that_is_judged(tmp_path: Path) -> None:
    """The harness sets them by metric: a group's accuracy may go by size and the rest not."""
    path = group_of(tmp_path, {"a": [1.0] * 4, "b": [0.0] * 2}, "reliability_level", by_size=False)
    first = {"a": {"acc,none": 1.0}, "b": {"acc,none": 0.0}, "g": {"acc,none": 4 / 6}}
    change(
        path, lambda c: c["results"].update({k: first[k] | c["results"][k] for k in first})
    )  # fmt: skip
    one = judged(tmp_path, "reliability_level", ">= 0.1 with 95% confidence", "g")
    assert one.status == "error" and "cannot be pooled" in one.reason


def test_nested_weights_are_none_of_the_items(tmp_path: Path) -> None:
    members = {"a": [1.0] * 5, "b": [1.0] * 5, "c": [0.0] * 5}
    path = group_of(tmp_path, members, "reliability_level")
    change(path, lambda c: c["results"]["g"].update({"reliability_level,none": 0.5}))
    one = judged(tmp_path, "reliability_level", ">= 0.1 with 95% confidence", "g")
    assert one.status == "error" and "cannot be pooled" in one.reason


def test_a_group_that_counted_other_tasks_is_not_pooled(tmp_path: Path) -> None:
    members = {"a": [1.0] * 30, "b": [1.0] * 30}
    condition = ">= 0.5 with 95% confidence"
    path = group_of(tmp_path, members)
    assert judged(tmp_path, "tar_answer", condition, "g").status == "pass"
    change(path, lambda c: c["results"]["g"].update(sample_len=90))
    one = judged(tmp_path, "tar_answer", condition, "g")
    assert one.status == "error" and "gate its member tasks (b, a)" in one.reason
    path = group_of(tmp_path, members)
    change(path, lambda c: c["group_subtasks"]["g"].append("lost"))
    one = judged(tmp_path, "tar_answer", condition, "g")
    assert one.status == "error" and "gate its member tasks (b, a)" in one.reason
    path = group_of(tmp_path, members, "reliability_level")
    change(path, lambda c: c["group_subtasks"]["g"].append("lost"))
    one = judged(tmp_path, "reliability_level", condition, "g")
    assert one.status == "error" and "lost of g have no results" in one.reason


@pytest.mark.parametrize("samples", [True, False])
def test_no_spread_and_no_share_cannot_be_judged(tmp_path: Path, samples: bool) -> None:
    values = {"a": [0.5] * 3, "b": [0.5] * 3}
    group_of(tmp_path, values, "semantic_repeatability", samples=samples)
    condition = ">= 0.4 with 95% confidence"
    one = judged(tmp_path, "semantic_repeatability", condition, "g")
    assert one.status == "error" and "gate its member tasks" in one.reason
    alone = judged(tmp_path, "semantic_repeatability", condition, "a")
    assert alone.status == "error" and "bounds nothing" in alone.reason
    assert main(["gate", gate(tmp_path, f"g: {{semantic_repeatability: '{condition}'}}"),
                 str(tmp_path)]) == 2  # fmt: skip


def test_missing_and_half_written_samples_are_errors(tmp_path: Path) -> None:
    path = write_results(tmp_path, "m", {"reliability_level": RIGHT}, samples=False)
    condition = ">= 0.5 with 95% confidence"
    assert "--log_samples" in judged(tmp_path, "reliability_level", condition).reason
    write_results(tmp_path, "m", {"reliability_level": RIGHT})
    samples = next(path.parent.glob("samples_*"))
    lines = samples.read_text(encoding="utf-8").splitlines(keepends=True)
    samples.write_text("".join(lines[:50]), encoding="utf-8")
    one = judged(tmp_path, "reliability_level", condition)
    assert one.status == "error" and "holds 50 of 100 items" in one.reason


# The command -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "conditions, status, verdict",
    [
        ({"acc": ">= 0.9", "reliability_lower": ">= 0.85"}, 0, "PASS: 2 of 2"),
        ({"acc": ">= 0.9", "reliability_lower": ">= 0.95"}, 1, "FAIL: 1 of 2"),
        ({"acc": ">= 0.9", "nothing": ">= 0.95"}, 2, "ERROR: 1 of 2"),
        ({"acc": "> 0.99", "nothing": ">= 0.95"}, 1, "FAIL: 0 of 2"),
        ({"acc": [">= 0.9", "<= 0.96"]}, 0, "PASS: 2 of 2"),
    ],
)
def test_exit_status(
    conditions: dict, status: int, verdict: str,
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["gate", gate(tmp_path, json.dumps({"t": conditions})), str(results)]) == status
    assert verdict in capsys.readouterr().out


def test_every_model_has_to_pass_and_the_newest_date_counts(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path / "out", "org/m", {"acc": [0.0] * 10}, date="2025-01-01T00-00-00.0")
    command = ["gate", gate(tmp_path, "t: {acc: '>= 0.9'}"), str(results)]
    assert main(command) == 0
    write_results(tmp_path / "out", "org/worse", {"acc": [1.0, 0.0]})
    assert main(command) == 1
    out = capsys.readouterr().out
    assert "org/worse" in out and "value 0.5000 is not >= 0.9" in out


def test_one_model_in_two_folders_is_judged_twice(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_results(tmp_path / "second", "org/m", {"acc": [0.0] * 10}, date="2025-01-01T00-00-00.0")
    command = ["gate", gate(tmp_path, "t: {acc: '>= 0.9'}"), str(results), str(tmp_path / "second")]
    assert main(command) == 1
    assert "1 of 2 conditions hold" in capsys.readouterr().out


def test_an_old_pass_does_not_hide_a_new_half_written_result(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["gate", gate(tmp_path, "t: {acc: '>= 0.9'}"), str(results)]
    place = next(results.rglob("results_*")).parent
    (place / "results_2025-01-01T00-00-00.0.json").write_text("{", encoding="utf-8")
    assert main(command) == 0
    (place / "results_2027-01-01T00-00-00.0.json").write_text("{", encoding="utf-8")
    assert main(command) == 2
    assert "is newer than the results beside it" in capsys.readouterr().err


def test_a_renamed_older_result_does_not_pass_for_the_newest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"acc": [1.0, 0.0, 0.0, 0.0, 0.0]}
    folder = write_results(tmp_path, "m", bad, date="2026-06-01T00-00-00.000000").parent
    old = write_results(tmp_path, "m", {"acc": [1.0] * 5}, date="2025-01-01T00-00-00.000000")
    # With one more metric it is another set of results; the task is still judged once.
    change(old, lambda c: c["configs"].update(other={}))
    old.rename(folder / "results_old.json")
    command = ["gate", gate(tmp_path, "t: {acc: '>= 0.9'}"), str(tmp_path)]
    assert main(command) == 1
    assert "value 0.2000 is not >= 0.9" in capsys.readouterr().out
    for place in (folder, tmp_path):
        (place / "results_notes.json").write_text('{"text":', encoding="utf-8")
    assert main(command) == 1, "what the harness did not name is not its newest result"
    (folder / "results_2026-07-01T00-00-00.000000.json").write_text('{"res', encoding="utf-8")
    assert main(command) == 2
    assert "results_2026-07" in capsys.readouterr().err


def test_names_without_dates_are_told_apart_by_their_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "m"
    for at, (word, right) in enumerate({"z": 1.0, "a": 0.0}.items()):
        path = write_results(tmp_path, "m", {"acc": [right] * 5})
        change(path, lambda c, word=word: c["configs"].update({word: {}}))
        os.utime(path.rename(folder / f"results_{word}.json"), (1e9 + at, 1e9 + at))
    command = ["gate", gate(tmp_path, "t: {acc: '>= 0.9'}"), str(tmp_path)]
    assert main(command) == 1
    assert "value 0.0000" in capsys.readouterr().out
    notes = folder / "results_notes.json"
    for text, status in (('["x"]', 1), ("read me", 1), ('{"results": {"t"', 2)):
        notes.write_text(text, encoding="utf-8")
        assert main(command) == status
    os.utime(notes, (1e8, 1e8))
    assert main(command) == 1


def test_tables_and_junit_are_written(results: Path, tmp_path: Path) -> None:
    text = "t: {acc: '>= 0.9', reliability_lower: '>= 0.95', nothing: '>= 0'}"
    files = [str(tmp_path / "ci" / f"gate.{end}") for end in ("csv", "json", "xml")]
    options = [
        part for pair in zip(("--csv", "--json", "--junit"), files, strict=True) for part in pair
    ]
    assert main(["gate", gate(tmp_path, text), str(results), *options]) == 1
    with open(files[0], encoding="utf-8") as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["pass", "fail", "error"]
    content = json.loads(Path(files[1]).read_text(encoding="utf-8"))
    assert content["status"] == 1 and content["judgements"][2]["value"] is None
    root = ElementTree.parse(files[2]).getroot()
    (suite,) = root.findall("testsuite")
    for element in (root, suite):
        counts = [element.get(name) for name in ("tests", "failures", "errors")]
        assert counts == ["3", "1", "1"]
    cases = suite.findall("testcase")
    assert [case.get("classname") for case in cases] == ["t"] * 3
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["error"]]
    assert "is not >= 0.95" in str(cases[1][0].get("message"))


def test_junit_holds_any_text(results: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    one = judged(results, "acc", ">= 0.99")
    hostile = 'x" <b>&amp;\x00\x1b ü \U0001f600'
    write_junit([replace(one, model=hostile, reason=hostile)], tmp_path / "x.xml")
    (suite,) = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert suite.get("name") == hostile.replace("\x00", "\ufffd").replace("\x1b", "\ufffd")


def test_a_missing_gate_file_is_wrong_use(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(tmp_path / "none.yaml"), str(results)]) == 2
    assert "none.yaml" in capsys.readouterr().err
