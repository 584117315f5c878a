"""``lmrel run``: the harness's ``lm_eval run`` with the plugin's tasks included."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lmrel_tasks.commands.path import task_folder


def configure(parser: argparse.ArgumentParser) -> None:
    """Nothing: every argument is the harness's own."""


def run(args: Sequence[str]) -> int:
    """Run the harness's command line with these arguments.

    Args:
        args: what follows ``lmrel run``.
    """
    from lm_eval.__main__ import cli_evaluate

    import lmrel_tasks.plugin
    from lmrel_tasks.model_files import cache_folder
    from lmrel_tasks.settings import STORE_VARIABLE

    lmrel_tasks.plugin.install()
    words, store = sys.argv, os.environ.get(STORE_VARIABLE)
    sys.argv = ["lm_eval", "run", *args]
    os.environ[STORE_VARIABLE] = store or str(cache_folder() / "runs.sqlite")
    try:
        with tasks_included(task_folder()):
            cli_evaluate()
    finally:
        sys.argv = words
        if store is None:
            del os.environ[STORE_VARIABLE]
    return 0


@contextmanager
def tasks_included(folder: str) -> Iterator[None]:
    """Let every task manager made in a block include a folder besides those it is given."""
    from lm_eval.tasks import TaskManager

    stock = TaskManager.__init__

    def with_folder(self: TaskManager, *args: object, **kwargs: object) -> None:
        given = kwargs.get("include_path") or []
        folders = list(given) if isinstance(given, (list, tuple)) else [given]
        # The user's own folders come last: later ones override earlier ones.
        kwargs["include_path"] = [folder, *folders]
        stock(self, *args, **kwargs)  # type: ignore[arg-type]

    TaskManager.__init__ = with_folder  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        TaskManager.__init__ = stock  # type: ignore[method-assign]
