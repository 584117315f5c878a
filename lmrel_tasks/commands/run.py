"""``lmrel run``: the harness's ``lm_eval run`` with the plugin's tasks included."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

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
    include_tasks(task_folder())
    os.environ.setdefault(STORE_VARIABLE, str(cache_folder() / "runs.sqlite"))
    before = sys.argv
    sys.argv = ["lm_eval", "run", *args]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
    return 0


def include_tasks(folder: str) -> None:
    """Let every task manager of this process include a folder besides those it is given."""
    from lm_eval.tasks import TaskManager

    stock = TaskManager.__init__

    def with_folder(self: TaskManager, *args: object, **kwargs: object) -> None:
        given = kwargs.get("include_path") or []
        folders = list(given) if isinstance(given, (list, tuple)) else [given]
        # The user's own folders come last: later ones override earlier ones.
        kwargs["include_path"] = [folder, *folders]
        stock(self, *args, **kwargs)  # type: ignore[arg-type]

    TaskManager.__init__ = with_folder  # type: ignore[assignment, method-assign]
