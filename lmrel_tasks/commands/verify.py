"""``lmrel verify``: does a bundle say what its runs say?"""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="what `lmrel bundle` wrote")
    parser.add_argument(
        "--embedder", metavar="MODEL",
        help="embedding model, where the results name another than the default; models that a "
        "bundle names are not loaded unasked",
    )  # fmt: skip
    parser.add_argument(
        "--max-gb", type=float, default=8.0, help="refuse bundles that unpack to more (8)"
    )
    parser.add_argument("--all", action="store_true", help="list what is equal too")
    parser.epilog = (
        "Exit status: 0 if everything is equal, 1 if anything differs, 2 if it cannot be judged."
    )


def run(args: argparse.Namespace) -> int:
    from collections import Counter

    from lmrel_tasks.recomputing import EMBEDDED, EXACT
    from lmrel_tasks.verification import status, verify

    found = verify(
        Path(args.bundle), embedding_model=args.embedder, max_bytes=int(args.max_gb * 1e9)
    )
    for one in found:
        if args.all or one.verdict in ("differs", "cannot judge"):
            numbers = f" reported {one.reported}" if one.reported else ""
            numbers += f", recomputed {one.recomputed}" if one.recomputed else ""
            note = f" ({one.note})" if one.note else ""
            # What a bundle says is printed without its control characters.
            line = f"{one.verdict:14} {one.task}: {one.what}{numbers}{note}"
            print("".join(x if x.isprintable() else "?" for x in line))
    counts = Counter(one.verdict for one in found)
    print(", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()))
    print(f"Tolerance: {EXACT:g}; where texts were embedded again {EMBEDDED:g}.")
    code = status(found)
    print(("VERIFIED", "DIFFERENT", "NOT JUDGED")[code])
    return code
