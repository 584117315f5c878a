"""``lmrel bundle``: results that anyone can recompute, in one file."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULTS", help="folders or results files")
    parser.add_argument("-o", "--output", default="bundle.zip", metavar="FILE")
    parser.add_argument("--all", action="store_true", help="older evaluations of a model too")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.bundling import build
    from lmrel_tasks.markdown import counted

    path = Path(args.output)
    manifest = build(args.results, path, latest=not args.all)
    size = path.stat().st_size / 1e6
    print(f"{path}: {counted(len(manifest['evaluations']), 'evaluation')}, {size:.2f} MB")
    for one in manifest["evaluations"]:
        print(f"  {one['model']} ({one['date']}): {', '.join(one['tasks'])}")
    print(f"Check it with: lmrel verify {path}")
    return 0
