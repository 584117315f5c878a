"""``lmrel reproducibility``: prompts, right and wrong answers, and models compared."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    configure_reading(parser)
    parser.add_argument(
        "--reference", metavar="CONDITION",
        help="prompt that the others are tested against for noninferiority (the first one)",
    )  # fmt: skip
    parser.add_argument(
        "--margin", type=float, default=0.05, metavar="DELTA",
        help="largest loss of a metric that still counts as noninferior (0.05)",
    )  # fmt: skip


def configure_reading(parser: argparse.ArgumentParser) -> None:
    """Arguments that this command shares with ``lmrel rr``."""
    parser.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="folders or results_*.json of evaluations that logged samples",
    )  # fmt: skip
    parser.add_argument("--task", action="append", default=[], help="this task only; repeatable")
    parser.add_argument("--filter", metavar="NAME", help="filter pipeline to read (the first)")
    parser.add_argument(
        "--embedder", metavar="MODEL", help="sentence-transformers model, as in the evaluation"
    )
    parser.add_argument("--no-meaning", action="store_true", help="embed nothing")
    parser.add_argument("--output", metavar="DIR", help="write tables as CSV and JSON here")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.comparing import (
        equivalence,
        mixed_models,
        overall,
        pairwise,
        right_and_wrong,
        summary,
    )
    from lmrel_tasks.models import compare_models
    from lmrel_tasks.study import Study
    from lmrel_tasks.tables import Table

    if args.margin < 0:
        raise ValueError(f"--margin must not be negative, got {args.margin:g}")
    studies = read(args)
    tables: list[Table | None] = []
    by_task: dict[str, list[Study]] = {}
    for one in studies:
        by_task.setdefault(one.task, []).append(one)
        where, names = (one.task, one.model), one.conditions
        tables.append(summary(one))
        if len(names) > 1:
            reference = args.reference or names[0]
            tables += [
                pairwise(where, names, one.scores, "prompts"),
                overall(where, names, one.scores, "prompts"),
                equivalence(where, names, one.scores, reference, args.margin),
            ]
        tables += [right_and_wrong(one), mixed_models(one)]
    for group in by_task.values():
        tables += compare_models(group)
    show([table for table in tables if table is not None], args.output, "reproducibility")
    return 0


def read(args: argparse.Namespace) -> list:
    """The studies that the arguments name."""
    import os

    from lmrel_tasks.settings import EMBEDDER_VARIABLE
    from lmrel_tasks.study import read_studies

    def encoder():  # type: ignore[no-untyped-def]
        from lmrel_tasks.embedder import encoder as load

        return load(args.embedder or os.environ.get(EMBEDDER_VARIABLE) or None)

    return read_studies(
        args.results,
        tasks=args.task,
        pipeline=args.filter,
        encoder=None if args.no_meaning else encoder,
    )


def show(tables: list, output: str | None, name: str) -> None:
    """Print tables with their findings; write them if a folder is given."""
    from lmrel_tasks.tables import write_tables

    print("\n\n".join(table.text() for table in tables))
    if output:
        files = write_tables(tables, output, name)
        print(f"\nWritten: {', '.join(str(file) for file in files)}")
