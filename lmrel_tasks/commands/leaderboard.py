"""``lmrel leaderboard``: bundles ranked, with groups that are not separable."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help="what `lmrel bundle` wrote")
    parser.add_argument(
        "-o", "--output", default="index.html", metavar="FILE", help=".html or .md (index.html)"
    )
    parser.add_argument("--title", default="Leaderboard")
    parser.add_argument("--task", action="append", default=[], help="this task only; repeatable")
    parser.add_argument("--metric", action="append", default=[], help="rank by it; repeatable")
    parser.add_argument("--alpha", type=float, default=0.05, help="level of the tests (0.05)")
    parser.add_argument(
        "--no-verify", action="store_true",
        help="check the hashes only, instead of recomputing every metric",
    )  # fmt: skip
    parser.add_argument("--embedder", metavar="MODEL", help="as for `lmrel verify`")


def run(args: argparse.Namespace) -> int:
    from tempfile import TemporaryDirectory

    from lmrel_tasks.leaderboard import boards, contestants_of
    from lmrel_tasks.leaderboard_page import as_html, as_markdown
    from lmrel_tasks.markdown import counted
    from lmrel_tasks.metrics.bounds import check_probability
    from lmrel_tasks.unbundling import unpack
    from lmrel_tasks.verification import checks, status

    check_probability(args.alpha, "--alpha")
    path = Path(args.output)
    if path.suffix not in (".html", ".htm", ".md"):
        raise ValueError(f"--output must end in .html or .md, got {args.output!r}")
    verified: dict[str, str] = {}
    found, notes, refused = {}, [], False
    with TemporaryDirectory(prefix="lmrel-") as folder:
        for at, given in enumerate(map(Path, args.bundles)):
            name = given.stem if given.stem not in verified else f"{given.stem} #{at + 1}"
            unpacked = unpack(given, Path(folder, str(at)))
            code = 1 if unpacked.problems else 0
            if not args.no_verify:
                code = status(list(checks(unpacked, args.embedder)))
            if code == 1:
                refused = True
                notes.append(f"{given.name} is left out: it does not say what its runs say.")
                print(f"{given}: refused; see `lmrel verify {given}`", file=sys.stderr)
                continue
            verified[name] = "not asked" if args.no_verify else ("yes", "", "not judged")[code]
            found[name] = unpacked.evaluations()
        if not found:
            raise ValueError("no bundle is left to be ranked")
        table = boards(
            contestants_of(found), verified, metrics=args.metric, tasks=args.task,
            alpha=args.alpha, notes=notes,
        )  # fmt: skip
    write = as_markdown if path.suffix == ".md" else as_html
    text = write(table, list(dict.fromkeys(notes)), args.title, args.alpha)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")
    size = f"{counted(len(table), 'ranking')} of {counted(len(found), 'bundle')}"
    print(f"{path}: {size}", file=sys.stderr)
    return 1 if refused else 0
