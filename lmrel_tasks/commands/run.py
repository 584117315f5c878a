"""``lmrel run``: the harness's ``lm_eval run`` with the plugin's tasks included."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from lmrel_tasks.commands.path import task_folder

if TYPE_CHECKING:
    from lm_eval.tasks import TaskManager

# Set to anything but 0 to see where in the harness an error came from.
TRACEBACK_VARIABLE = "LMREL_TRACEBACK"


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing: every argument is the harness's own."""


def run(args: Sequence[str]) -> int:
    """Run the harness's command line with these arguments.

    What goes wrong while tasks and model are being set up is told in one line; whatever happens
    once something was sampled keeps its traceback.

    Args:
        args: what follows ``lmrel run``.

    Returns:
        the exit status: 2 for an error in the setup, 1 where results could not be saved.
    """
    refused = _unwritable(args)
    if refused:
        print(f"lmrel run: {refused}", file=sys.stderr)
        return 2
    from lm_eval.__main__ import cli_evaluate

    import lmrel_tasks.plugin
    from lmrel_tasks.model_files import cache_folder
    from lmrel_tasks.settings import STORE_VARIABLE

    lmrel_tasks.plugin.install()
    words, store = sys.argv, os.environ.get(STORE_VARIABLE)
    sys.argv = ["lm_eval", "run", *args]
    os.environ[STORE_VARIABLE] = store or str(cache_folder() / "runs.sqlite")
    try:
        with tasks_included(task_folder()) as managers, _lost_results() as lost:
            try:
                cli_evaluate()
            except Exception as error:
                if _wants_traceback(args) or not is_setup_error(error):
                    raise
                print(f"lmrel run: {setup_message(error, managers)}", file=sys.stderr)
                return 2
    finally:
        sys.argv = words
        if store is None:
            del os.environ[STORE_VARIABLE]
    if lost:
        print(
            f"lmrel run: results could not be saved ({lost[-1]}); the runs are in the store: give "
            "the command again with an --output_path that can be written",
            file=sys.stderr,
        )
    return 1 if lost else 0


def _unwritable(args: Sequence[str]) -> str | None:
    """Why nothing could be written to ``--output_path``; None if something could, or it is absent.

    The harness finds out when everything is sampled.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--output_path", "-o")
    given = parser.parse_known_args(list(args))[0].output_path
    if not given:
        return None
    folder = results_folder(given)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"--output_path {given} cannot be written: {error.strerror or error}"


def results_folder(output_path: str) -> Path:
    """Where the harness puts results: the name of a ``.json`` file stands for its folder."""
    path = Path(output_path)
    return path.parent if path.suffix == ".json" else path


class _SaveFailures(logging.Handler):
    """Keeps what the harness says when it could not save; it goes on as if nothing had happened."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if self.failed:  # the reason follows
            self.said[-1] = message
        self.failed = message.startswith("Could not save")
        if self.failed:
            self.said.append(message)


@contextmanager
def _lost_results() -> Iterator[list[str]]:
    logger = logging.getLogger("lm_eval.loggers.evaluation_tracker")
    watch = _SaveFailures()
    logger.addHandler(watch)
    try:
        yield watch.said
    finally:
        logger.removeHandler(watch)


@contextmanager
def tasks_included(folder: str) -> Iterator[list[TaskManager]]:
    """Let every task manager made in a block include a folder besides those it is given.

    Yields:
        the managers made so far.
    """
    from lm_eval.tasks import TaskManager

    stock = TaskManager.__init__
    made: list[TaskManager] = []

    def with_folder(self: TaskManager, *args: object, **kwargs: object) -> None:
        given = kwargs.get("include_path") or []
        folders = list(given) if isinstance(given, (list, tuple)) else [given]
        # The user's own folders come last: later ones override earlier ones.
        kwargs["include_path"] = [folder, *folders]
        stock(self, *args, **kwargs)  # type: ignore[arg-type]
        made.append(self)

    TaskManager.__init__ = with_folder  # type: ignore[assignment, method-assign]
    try:
        yield made
    finally:
        TaskManager.__init__ = stock  # type: ignore[method-assign]


def _wants_traceback(args: Sequence[str]) -> bool:
    if os.environ.get(TRACEBACK_VARIABLE, "0") not in ("", "0"):
        return True
    if os.environ.get("LMEVAL_LOG_LEVEL", "").upper() == "DEBUG":
        return True
    words = [word for one in args for word in one.split("=", 1)]
    return any(
        name in ("--verbosity", "-v") and value.upper() == "DEBUG"
        for name, value in pairwise(words)
    )


def is_setup_error(error: Exception) -> bool:
    """Whether an error is one that wrong input causes, and came before anything was sampled."""
    import yaml

    expected = (ValueError, TypeError, KeyError, OSError, RuntimeError, yaml.YAMLError)
    if not isinstance(error, expected) or isinstance(error, (BrokenPipeError, RecursionError)):
        return False
    known = False
    step = error.__traceback__
    while step is not None:
        code, names = step.tb_frame.f_code, step.tb_frame.f_locals
        where = (step.tb_frame.f_globals.get("__name__"), code.co_name)
        step = step.tb_next
        if where in _SETTING_UP:
            known = True
            if names.get("results") is not None:
                return False
        elif where == _SAMPLING:
            # Its own checks of the tasks come before it makes copies of the requests.
            if step is None:
                return "cloned_reqs" not in names
            return step.tb_frame.f_code.co_name == "build_all_requests"
    return known


# Functions of the harness that set up tasks and model, and the one that then samples.
_SETTING_UP = (("lm_eval._cli.run", "_execute"), ("lm_eval.evaluator", "simple_evaluate"))
_SAMPLING = ("lm_eval.evaluator", "evaluate")


def setup_message(error: Exception, managers: Sequence[TaskManager]) -> str:
    """An error in one line, with names close to those of tasks that are not there."""
    from lmrel_tasks.suggesting import did_you_mean

    text = " ".join(str(error.args[0] if isinstance(error, KeyError) else error).split())
    absent = "Tasks not found: "
    if text.startswith(absent):
        known = managers[-1].all_tasks if managers else []
        names = [name.strip() for name in text.removeprefix(absent).split(",")]
        text = absent + ", ".join(name + did_you_mean(name, known) for name in names)
        return f"{text}; `lmrel ls tasks` lists ours, --include_path adds a folder of your own"
    if isinstance(error, (KeyError, TypeError)) or not text:
        text = f"{type(error).__name__}: {text}"
    task = _task_at(error)
    about = f"task {task}: " if task and task not in text else ""
    return f"{about}{text} ({TRACEBACK_VARIABLE}=1 shows where)"


def _task_at(error: Exception) -> str | None:
    """Name of the task that was being set up when an error was raised; None if there was none."""
    from lm_eval.api.task import Task

    found, step = None, error.__traceback__
    while step is not None:
        task = step.tb_frame.f_locals.get("self")
        if isinstance(task, Task):
            found = getattr(getattr(task, "_config", None), "task", None) or found
        step = step.tb_next
    return found if isinstance(found, str) else None
