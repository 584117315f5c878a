"""How the commands end when something is wrong: closed pipes, and errors of ``lmrel run``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes import ScriptedLM, no_environment_report, write_task
from lm_eval.api.registry import register_model

from lmrel_tasks.cli import main

ITEMS = [{"question": f"What is {i} plus {i}?", "answer": str(2 * i)} for i in range(3)]


@register_model("scripted_failing")
class Failing(ScriptedLM):
    """Fails at the first run."""

    def __init__(self, **_: Any) -> None:
        super().__init__(self.fails)

    def fails(self, prompt: str, index: int) -> str:
        raise ValueError("the server went away")


@pytest.fixture
def own_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of tasks; the harness's own 10,000 task files are not read."""
    import lm_eval.tasks
    from lm_eval.tasks._index import TaskIndex

    stock, skipped = TaskIndex.build, Path(lm_eval.tasks.__file__).parent

    def build(paths: Any, **kwargs: Any) -> Any:
        return stock([path for path in paths if Path(path) != skipped], **kwargs)

    # It would log to the stream of one test for ever.
    monkeypatch.setattr("lm_eval.__main__.setup_logging", lambda: None)
    monkeypatch.setattr(TaskIndex, "build", staticmethod(build))
    monkeypatch.setenv("LMREL_STORE", str(tmp_path / "runs.sqlite"))
    monkeypatch.delenv("LMREL_TRACEBACK", raising=False)
    write_task(tmp_path, "cli_sums", ITEMS, repeats=2)
    with no_environment_report():
        yield tmp_path


@register_model("scripted_answering")
class Answering(ScriptedLM):
    def __init__(self, **_: Any) -> None:
        super().__init__(lambda prompt, index: "2")


def test_a_place_that_takes_no_results_is_refused_before_sampling(own_tasks, capsys):
    flags = ("--tasks", "cli_sums", "--output_path", "/proc/nope/x")
    assert run(own_tasks, *flags) == 2
    assert "--output_path /proc/nope/x cannot be written" in told(capsys)


def test_results_that_could_not_be_saved_are_a_failure(own_tasks, capsys, monkeypatch):
    from lm_eval.loggers import evaluation_tracker

    def full(text: str) -> str:
        raise OSError("No space left on device")

    flags = ("--include_path", str(own_tasks), "--model", "scripted_answering", "--tasks",
             "cli_sums", "--log_samples", "--output_path", str(own_tasks / "out"))  # fmt: skip
    assert main(["run", *flags]) == 0
    monkeypatch.setattr(evaluation_tracker, "hash_string", full)
    assert main(["run", *flags]) == 1
    assert "results could not be saved" in told(capsys)


def run(folder: Path, *flags: str) -> int:
    return main(["run", "--include_path", str(folder), "--model", "scripted_failing", *flags])


def told(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "Traceback (most" in line] == []
    (line,) = [line for line in lines if line.startswith("lmrel run: ")]
    return line


def test_a_misspelt_task_is_one_line_with_close_names(
    own_tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(own_tasks, "--tasks", "cli_sum") == 2
    assert "Tasks not found: cli_sum; did you mean cli_sums" in told(capsys)


def test_a_bad_task_file_is_one_line_with_the_task(
    own_tasks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (own_tasks / "cli_sums.yaml").read_text(encoding="utf-8")
    bad = text.replace("task: cli_sums", "task: cli_bad").replace("repeats: 2", "repeats: 0")
    (own_tasks / "bad.yaml").write_text(bad, encoding="utf-8")
    assert run(own_tasks, "--tasks", "cli_bad") == 2
    line = told(capsys)
    assert "cli_bad" in line and "LMREL_TRACEBACK=1" in line


@pytest.mark.parametrize("way", ["variable", "--verbosity", "--verbosity=DEBUG"])
def test_tracebacks_are_there_for_those_who_ask(
    own_tasks: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--verbosity", "DEBUG"] if way == "--verbosity" else [way]
    if way == "variable":
        monkeypatch.setenv("LMREL_TRACEBACK", "1")
        flags = []
    with pytest.raises(ValueError, match="Tasks not found"):
        run(own_tasks, "--tasks", "cli_sum", *flags)


def test_errors_while_sampling_keep_their_traceback(own_tasks: Path) -> None:
    with pytest.raises(ValueError, match="the server went away"):
        run(own_tasks, "--tasks", "cli_sums")


def test_errors_with_results_in_hand_keep_their_traceback(
    own_tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.loggers import EvaluationTracker

    def full(*_: Any, **__: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Failing, "fails", lambda self, prompt, index: "4")
    monkeypatch.setattr(EvaluationTracker, "save_results_aggregated", full)
    with pytest.raises(OSError, match="no space left"):
        run(own_tasks, "--tasks", "cli_sums")


@pytest.mark.parametrize("command", [["ls", "metrics"], ["--help"], ["--version"]])
def test_a_closed_pipe_is_no_error(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "lmrel_tasks.cli", *command],
        stdout=writing, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(writing)
    assert done.stderr == b""
