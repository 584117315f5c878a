"""``lmrel report``: result folders as one page for people who look rather than read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULTS", help="folders or results files")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE")
    parser.add_argument("--title", default="Reliability report")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="only these tasks")
    parser.add_argument(
        "--name", action="append", default=[],
        help="what to call the models of the results, once for each in their order; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--items", type=int, default=500, metavar="N",
        help="list the N least stable items of each task with their runs (500)",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="older evaluations of a model too")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.contestants import named_evaluations
    from lmrel_tasks.markdown import counted
    from lmrel_tasks.reporting.gather import gather
    from lmrel_tasks.reporting.page import render

    if args.items < 0:
        raise ValueError(f"--items must not be negative, got {args.items}")
    named = named_evaluations(args.results, args.name, latest=not args.all)
    found = [one for one, _ in named]
    pairs = [
        (one, task, name)
        for one, name in named
        for task in one.tasks
        if not args.tasks or task in args.tasks
    ]
    if not pairs:
        known = sorted({task for one in found for task in one.tasks})
        raise ValueError(f"none of the tasks is in the results; there are {', '.join(known)}")
    reports = [gather(one, task, args.items, name) for one, task, name in pairs]
    names = {one.path: name for one, name in named}
    text = render(found, reports, args.title, names=names)
    path = Path(args.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = text.encode("utf-8", "replace")
    path.write_bytes(raw)
    tasks, runs = ({pair[at] for pair in pairs} for at in (1, 2))
    size = counted(len(tasks), "task")
    if len(runs) > 1:
        size += f", {counted(len(runs), 'run')}"
    print(f"{path}: {size}, {len(raw) / 1e6:.2f} MB", file=sys.stderr)
    return 0
