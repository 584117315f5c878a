"""``lmrel rr``: the ISO 5725 table of correctness, certainty and meaning."""

from __future__ import annotations

import argparse

from lmrel_tasks.commands.reproducibility import configure_reading, read, show


def configure(parser: argparse.ArgumentParser) -> None:
    configure_reading(parser)
    parser.add_argument(
        "--resamples", type=int, default=2000, metavar="N",
        help="resamples of items behind the intervals (2000)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.gauge_tables import gauge_table

    if args.resamples < 100:
        raise ValueError(f"--resamples must be at least 100, got {args.resamples}")
    studies = read(args)
    show([gauge_table(one, args.resamples) for one in studies], args.output, "rr")
    return 0
