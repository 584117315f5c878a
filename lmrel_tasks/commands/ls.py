"""``lmrel ls``: tasks and metrics."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from lmrel_tasks.commands.path import task_folder


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=["all", "tasks", "groups", "metrics"], default="all"
    )


def run(args: argparse.Namespace) -> int:
    if args.what in ("all", "groups"):
        _show("Groups", named_in(task_folder(), "group"))
    if args.what in ("all", "tasks"):
        _show("Tasks", named_in(task_folder(), "task"))
    if args.what in ("all", "metrics"):
        _show("Metrics", _metrics())
    return 0


def named_in(folder: str, key: str) -> list[str]:
    """Names that the YAML files below a folder declare as ``task:`` or ``group:``."""
    line = re.compile(rf"^{key}: *([\w.-]+) *$", re.MULTILINE)
    return sorted(
        name
        for path in Path(folder).rglob("*.yaml")
        for name in line.findall(path.read_text(encoding="utf-8"))
    )


def _metrics() -> list[str]:
    from lmrel_tasks.measures import METRICS

    width = max(map(len, METRICS))
    return [
        f"{name:<{width}}  {'↑' if metric.higher_is_better else '↓'}  "
        f"{(metric.per_item.__doc__ or '').strip().splitlines()[0]}"
        for name, metric in sorted(METRICS.items())
    ]


def _show(title: str, lines: list[str]) -> None:
    print(f"{title} ({len(lines)})")
    for line in lines:
        print(f"  {line}")
