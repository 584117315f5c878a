"""Finding and reading what the harness wrote, under each of the names that it gives."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import numpy as np
import pytest

from lmrel_tasks.cli import main
from lmrel_tasks.measures import condition_of
from lmrel_tasks.repeats import inputs_of
from lmrel_tasks.results import (
    date_of,
    find_evaluations,
    item_of,
    read_samples,
    results_files,
    samples_of,
)
from lmrel_tasks.run import Capture, Run
from tests.result_folders import write_results
from tests.saved_results import ITEMS, evaluation, save, unsteady

METRICS = ("acc", "answer_agreement", "reliability_level", "reliability_lower")


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models in one folder, each with ``--output_path MODEL.json``."""
    root = tmp_path_factory.mktemp("named")
    for model, wrong in (("one", 0.3), ("results_two", 0.9)):
        found = evaluation(
            root / "tasks", model, "numbers", ITEMS, unsteady(wrong), repeats=4,
            metric_list=[{"metric": name} for name in METRICS],
            filter_list=[{"name": "none", "filter": [{"function": "answer", "kind": "numeric"}]}],
        )  # fmt: skip
        path = save(found, root / "out" / f"{model}.json", model)
        assert path.parent == root / "out" and path.name.startswith(f"{model}_20")
    (root / "out" / "settings.json").write_text("{}")
    return root / "out"


def test_results_named_by_output_path_are_found(named: Path) -> None:
    found = find_evaluations([named])
    assert [one.model for one in found] == ["one", "results_two"]
    for one in found:
        assert one.path.name == f"{one.model}_{one.date}.json"
        assert len(list(samples_of(one, "numbers"))) == len(ITEMS)
        (alone,) = find_evaluations([one.path])
        assert alone == one
        assert inputs_of([one.path]) == [(f"{one.model} numbers", one.samples_path("numbers"))]
    assert len(inputs_of([named])) == 2
    with pytest.raises(FileNotFoundError, match=f"the harness adds the date: {found[0].path.name}"):
        find_evaluations([named / "one.json"])


@pytest.mark.parametrize(
    "name, date",
    [
        ("results_2026-01-02T03-04-05.678901.json", "2026-01-02T03-04-05.678901"),
        ("results_2026-01-02T03-04-05.json", "2026-01-02T03-04-05"),
        ("x_2026-01-02T03-04-05.678901.json", "2026-01-02T03-04-05.678901"),
        ("results_x_2026-01-02T03-04-05.678901.json", "2026-01-02T03-04-05.678901"),
        ("my results.v2_2026-01-02T03-04-05.678901.json", "2026-01-02T03-04-05.678901"),
        ("results_2026.json", "2026"),
        ("samples_t_2026-01-02T03-04-05.678901.jsonl", None),
        ("x_2026-01-02.json", None),
        ("x.json", None),
        ("manifest.json", None),
    ],
)
def test_dates_in_names(name: str, date: str | None, tmp_path: Path) -> None:
    assert date_of(Path(name)) == date
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).touch()
    assert results_files(tmp_path) == ([tmp_path / "a" / name] if date else [])


def test_commands_take_a_folder_of_named_results(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(named), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").read_text().count("<section") == 2
    assert main(["compare", str(named)]) == 0
    assert "results_two" in capsys.readouterr().out
    assert main(["plan", "--items", "12", "--pilot", str(named)]) == 0
    (tmp_path / "gate.yaml").write_text('numbers: {acc: ">= 0"}')
    assert main(["gate", str(tmp_path / "gate.yaml"), str(named)]) == 0
    assert main(["bundle", str(named), "-o", str(tmp_path / "b.zip")]) == 0
    assert main(["verify", str(tmp_path / "b.zip")]) == 0
    assert main(["leaderboard", str(tmp_path / "b.zip"), "-o", str(tmp_path / "l.md")]) == 0
    assert main(["reproducibility", str(named), "--no-meaning"]) == 0


def test_a_half_written_newer_file_stops_the_gate(
    named: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in named.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "one_2999-01-01T00-00-00.000000.json").write_text('{"results":')
    (tmp_path / "gate.yaml").write_text('numbers: {acc: ">= 0"}')
    assert main(["gate", str(tmp_path / "gate.yaml"), str(tmp_path)]) == 2
    assert "one_2999" in capsys.readouterr().err


def test_items_read_are_those_that_were_measured() -> None:
    """The cells of a line equal `condition_of` of the runs that wrote it."""
    lost = Run("", Capture(seed=3, error="timeout"))
    cells = [
        [
            Run("It is 2.", Capture(tokens=4, entropy=0.5, certainty=0.9, logprob=-1.5, top_k=30.0),
                answer="2"),
            lost,
            Run(" none ", Capture(tokens=0, finish_reason="stop"), answer=""),
        ],
        [lost],
        [Run(" unread ", Capture(seed=1))],
    ]  # fmt: skip
    notes = [
        [{**run.capture.to_dict(), **({} if run.answer is None else {"answer": run.answer})}
         for run in cell]
        for cell in cells
    ]  # fmt: skip
    sample = {
        "doc": {"q": 1}, "target": "2", "filtered_resps": [[*map(str, cell)] for cell in cells],
        "lmrel": {"item": "k", "conditions": ["a", "b", "c"], "runs": notes, "labels": ["2"]},
    }  # fmt: skip
    item = item_of(json.loads(json.dumps(sample)))
    assert (item.key, item.labels, item.has_label) == ("k", ("2",), True)
    for cell, found in zip(cells, item.conditions, strict=True):
        arrived = [run for run in cell if not run.missing]
        expected = condition_of(found.name, arrived, missing=len(cell) - len(arrived))
        for field in ("texts", "answers", "missing", "asked", "probabilities", "embeddings"):
            assert getattr(found, field) == getattr(expected, field)
        for field in ("entropy", "certainty", "top_k", "logprob", "tokens"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))


def test_lines_of_stock_tasks_are_read() -> None:
    item = item_of({"doc_id": 7, "doc": {}, "target": " x ", "filtered_resps": ["x", "y"]})
    (one,) = item.conditions
    assert (item.key, item.labels, one.texts, one.answers) == ("7", ("x",), ("x",), ("x",))
    assert np.isnan(one.certainty).all() and one.certainty.shape == (1,)
    with pytest.raises(ValueError, match="no responses"):
        item_of({"doc_id": 7})


def test_a_name_without_a_date_is_older_than_any_date(tmp_path: Path) -> None:
    paths = {
        word: write_results(tmp_path, "m", {"acc": [0.0, 1.0]}).rename(
            tmp_path / "m" / f"results_{word}.json"
        )
        for word in ("aside", "zzz", "old")
    }
    for at, word in enumerate(("old", "zzz", "aside")):
        os.utime(paths[word], (1e9 + at, 1e9 + at))
    assert [one.date for one in find_evaluations([tmp_path])] == ["aside"]
    for date in ("2024-05-06", "2024-05-06T07-08-09", "2024-05-06T07-08-09.5"):
        write_results(tmp_path, "m", {"acc": [0.0, 1.0]}, date=date)
        assert [one.date for one in find_evaluations([tmp_path])] == [date]
    found = sorted(find_evaluations([tmp_path], latest=False), key=lambda one: one.age)
    assert [one.date for one in found] == [
        "old", "zzz", "aside", "2024-05-06", "2024-05-06T07-08-09", "2024-05-06T07-08-09.5",
    ]  # fmt: skip


def test_a_line_in_another_encoding_is_named_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "samples_t_1.jsonl"
    text = '{"doc_id": 1, "x": "\u00fc"}'
    path.write_bytes(
        text.encode() + b"\r\n" + text.encode("latin-1") + b"\n\n" + text.encode("utf-16-le")
        + b"\n" + text.encode()
    )  # fmt: skip
    broken: list[int] = []
    with caplog.at_level(logging.WARNING):
        assert list(read_samples(path, broken)) == [{"doc_id": 1, "x": "\u00fc"}] * 2
    assert f"{path}, line 2: " in caplog.text and f"{path}, line 4: " in caplog.text
    # UTF-16 splits its line end in two; what is left of it does not open an object either.
    assert broken[:2] == [2, 4]


@pytest.mark.parametrize("groups", [["g"], {"g": "ab"}, {"g": {"a": 1}}, {"g": [["a"]]}, "g"])
def test_groups_that_are_no_lists_of_names_are_named(
    groups: object, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = write_results(tmp_path, "m", {"acc": [0.0, 1.0]})
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "group_subtasks": groups}), encoding="utf-8")
    gate = tmp_path / "gate.yaml"
    gate.write_text("t: {acc: '>= 0 with 90% confidence'}", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert main(["gate", str(gate), str(tmp_path)]) == 2
    assert f"{path}: not a readable results file" in caplog.text
    assert "`group_subtasks`" in caplog.text
    assert "no readable results" in capsys.readouterr().err
