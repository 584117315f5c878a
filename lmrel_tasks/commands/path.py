"""``lmrel path``: the folder of the YAML tasks."""

from __future__ import annotations

import argparse
from importlib.util import find_spec


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = 'lm_eval run --model hf --include_path "$(lmrel path)" --tasks lmrel_demo ...'


def task_folder() -> str:
    """The folder for ``--include_path``, found without importing the harness."""
    spec = find_spec("lmrel_tasks.task_configs")
    assert spec is not None and spec.submodule_search_locations
    return str(next(iter(spec.submodule_search_locations)))


def run(args: argparse.Namespace) -> int:
    print(task_folder())
    return 0
