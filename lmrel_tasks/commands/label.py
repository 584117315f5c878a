"""``lmrel label``: acceptable answers given by people, on a page that works from disk."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from lmrel_tasks.limits import items_limit


def configure(parser: argparse.ArgumentParser) -> None:
    parts = parser.add_subparsers(dest="part", required=True, metavar="export|import")
    export = parts.add_parser(
        "export", help="write a page on which a person marks the acceptable answers"
    )
    export.add_argument("paths", nargs="+", metavar="RUNS", help="as for `lmrel certify`")
    export.add_argument(
        "-o", "--output", metavar="PATH",
        help="the page; a folder if there are several calibration sets (labels.html)",
    )  # fmt: skip
    export.add_argument("--shuffle-seed", type=int, default=0, help="order of the answers (0)")
    export.add_argument(
        "--limit", type=items_limit, metavar="N", help="first N items of each set only"
    )
    from lmrel_tasks.commands.certify import add_reading_arguments

    add_reading_arguments(export)
    back = parts.add_parser("import", help="turn what the page saved into labels")
    back.add_argument("saved", nargs="+", metavar="JSON", help="files that the page saved")
    back.add_argument("-o", "--output", metavar="FILE", help="labels, one a line (standard output)")


def run(args: argparse.Namespace) -> int:
    return _export(args) if args.part == "export" else _import(args)


def _export(args: argparse.Namespace) -> int:
    from lmrel_tasks.commands.certify import load_items
    from lmrel_tasks.labelling import label_page
    from lmrel_tasks.repeats import inputs_of

    inputs = inputs_of(args.paths)
    output = Path(args.output or ("labels.html" if len(inputs) == 1 else "labels"))
    several = len(inputs) > 1 or output.is_dir()
    for number, (name, path) in enumerate(inputs, start=1):
        items = load_items(path, args, texts=True, gold=False)[: args.limit]
        if not items:
            raise ValueError(f"{path}: no items to label")
        page = label_page(items, title=name, kind=args.kind, seed=args.shuffle_seed)
        stem = re.sub(r"[^\w.-]+", "_", path.name.removesuffix(".jsonl"))
        target = output / f"{number}_{stem}.html" if several else output
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
        print(f"{target}: {len(items)} items. Open it in a browser; it needs no network.")
    return 0


def _import(args: argparse.Namespace) -> int:
    from lmrel_tasks.labelling import imported

    rows = imported(map(Path, args.saved))
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if args.output:
        Path(args.output).write_text(lines, encoding="utf-8")
        none = sum(not row["gold"] for row in rows)
        print(f"{args.output}: {len(rows)} items labelled, {none} of them with none of the answers")
    else:
        sys.stdout.write(lines)
    return 0
