"""``lmrel store ls|info|export|prune``."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from lmrel_tasks.model_files import cache_folder
from lmrel_tasks.settings import STORE_VARIABLE
from lmrel_tasks.store import Store
from lmrel_tasks.store_file import StoreError

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    file = argparse.ArgumentParser(add_help=False)
    file.add_argument(
        "--store", metavar="PATH", help=f"the store; default: ${STORE_VARIABLE}, then the cache"
    )
    actions.add_parser("ls", parents=[file], help="runs per model and task")
    actions.add_parser("info", parents=[file], help="the file and its models")
    export = actions.add_parser("export", parents=[file], help="all runs as JSON lines")
    export.add_argument("--task", help="only the runs of this task")
    export.add_argument("--output", metavar="FILE", help="where to write; default: standard output")
    prune = actions.add_parser("prune", parents=[file], help="delete runs")
    prune.add_argument("--task", help="the runs of this task")
    prune.add_argument(
        "--older-than", metavar="AGE", type=seconds, help="runs stored before that, e.g. 30d or 12h"
    )
    prune.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Run the chosen action; returns the exit status.

    Raises:
        StoreError: when there is no store, or it cannot be used.
    """
    path = args.store or os.environ.get(STORE_VARIABLE) or str(cache_folder() / "runs.sqlite")
    actions = {"ls": _ls, "info": _info, "export": _export, "prune": _prune}
    try:
        return actions[args.action](path, args)
    except BrokenPipeError:
        return 0


def seconds(age: str) -> float:
    """An age like ``30d``, ``12h``, ``90m`` or ``2w`` in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{age!r} is no age; write 30d, 12h, 90m or 2w")
    return float(match[1]) * _UNITS[match[2]]


def _model_name(identity: Any) -> str:
    if not isinstance(identity, dict):
        return "?"
    name = identity.get("name") or identity.get("model") or identity.get("class", "?")
    address = identity.get("base_url")
    return f"{name} at {address}" if address else str(name)


def _day(moment: float | None) -> str:
    if moment is None:
        return "?"
    if moment < 0:
        return "1970"
    return datetime.fromtimestamp(moment, timezone.utc).strftime("%Y-%m-%d %H:%M")


def _ls(path: str, args: argparse.Namespace) -> int:
    with Store.open(path, create=False) as store:
        rows = store.summary()
    if not rows:
        print("the store is empty")
        return 0
    head = ("model", "task", "items", "conditions", "runs", "last (UTC)")
    table = [head] + [
        (
            _model_name(row["model"]),
            row["task"] or "?",
            str(row["items"]),
            str(row["conditions"]),
            str(row["runs"]),
            _day(row["last"]),
        )
        for row in rows
    ]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def _info(path: str, args: argparse.Namespace) -> int:
    file = Path(path).expanduser()
    with Store.open(path, create=False) as store:
        rows = store.summary()
    print(f"file: {file}")
    print(f"size: {file.stat().st_size / 1e6:.1f} MB")
    print(f"runs: {sum(row['runs'] for row in rows)}")
    models = {json.dumps(row["model"], sort_keys=True) for row in rows}
    for identity in sorted(models):
        own = [row for row in rows if json.dumps(row["model"], sort_keys=True) == identity]
        print(f"model: {_model_name(own[0]['model'])}")
        for key, value in (own[0]["model"] or {}).items():
            print(f"  {key}: {value}")
        for row in own:
            print(f"  task {row['task']}: {row['runs']} runs, first {_day(row['first'])}")
    return 0


def _export(path: str, args: argparse.Namespace) -> int:
    with Store.open(path, create=False) as store:
        if args.output is None:
            for row in store.rows(args.task):
                sys.stdout.write(json.dumps(row) + "\n")
            return 0
        count = 0
        with open(args.output, "w", encoding="utf-8") as file:
            for row in store.rows(args.task):
                file.write(json.dumps(row) + "\n")
                count += 1
    print(f"{count} runs written to {args.output}")
    return 0


def _prune(path: str, args: argparse.Namespace) -> int:
    if args.task is None and args.older_than is None:
        print("say what to delete: --task NAME, --older-than AGE, or both", file=sys.stderr)
        return 2
    if not Path(path).expanduser().is_file():
        raise StoreError(f"there is no store at {path}")
    before = None if args.older_than is None else time.time() - args.older_than
    if not args.yes:
        what = f"of task {args.task}" if args.task else "of every task"
        when = f" stored before {_day(before)} UTC" if before is not None else ""
        try:
            reply = input(f"delete all runs {what}{when} from {path}? [y/N] ")
        except EOFError:
            print("nothing was deleted: nobody is there to ask; say --yes", file=sys.stderr)
            return 2
        if reply.strip().lower() not in ("y", "yes"):
            print("nothing was deleted")
            return 1
    with Store.open(path) as store:
        count = store.prune(args.task, before)
    print(f"{count} runs deleted")
    return 0
