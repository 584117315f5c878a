"""``lmrel wrap``: YAML that makes repeated tasks of the harness's own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

DEFAULT_REPEATS = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tasks", nargs="+", metavar="TASK", help="a task, group or tag of the harness"
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="YAML goes here")
    parser.add_argument(
        "--repeats", type=int, metavar="R",
        help=f"runs per item (the original's, or {DEFAULT_REPEATS} where it asks once)",
    )  # fmt: skip
    parser.add_argument(
        "--kind", help="kind of canonical answer: numeric, mcq, text, code, label, brackets"
    )
    parser.add_argument("--choices", nargs="+", metavar="LABEL", help="labels of --kind label")
    parser.add_argument(
        "--metrics", nargs="+", metavar="METRIC", help="metrics to add (`lmrel ls metrics`)"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T",
        help="sampling temperature (0.7 where the original is greedy); 0 decodes greedily",
    )  # fmt: skip
    parser.add_argument(
        "--options", choices=["letters", "probabilities"], default="letters",
        help="how multiple_choice tasks are asked: for the letter of an option, repeatedly "
        "(default), or for the probability of every option",
    )  # fmt: skip
    parser.add_argument("--prefix", default="repeated_", help="of the new names (repeated_)")
    parser.add_argument(
        "--include_path", nargs="+", default=[], metavar="DIR", help="folders of your own tasks"
    )
    parser.add_argument(
        "--no_defaults", action="store_true", help="look in --include_path only, which is faster"
    )
    parser.epilog = (
        "lmrel wrap gsm8k -o wrapped --kind numeric; lm_eval run --include_path wrapped --tasks "
        "repeated_gsm8k ..."
    )


def run(args: argparse.Namespace) -> int:
    from lm_eval.tasks import TaskManager

    from lmrel_tasks.wrapped_files import Wish, Wrapper, checked

    wish = checked(
        Wish(
            repeats=args.repeats,
            metrics=None if args.metrics is None else tuple(args.metrics),
            answer=_answer(args),
            temperature=args.temperature,
            options=args.options,
            prefix=args.prefix,
        )
    )
    manager = TaskManager(
        include_path=list(args.include_path), include_defaults=not args.no_defaults
    )
    wrapper = Wrapper(manager.task_index, wish)
    for name in args.tasks:
        wrapper.add(name)
    for path in wrapper.write(args.output):
        print(path)
    for name, reason in wrapper.refused.items():
        print(f"lmrel wrap: {name} cannot be wrapped: {reason}", file=sys.stderr)
    names = [wrapper.names[name] for name in args.tasks if name in wrapper.names]
    if names:
        print(f"Run them: lm_eval run --include_path {args.output} --tasks {','.join(names)} ...")
    return 2 if len(names) < len(args.tasks) else 0


def _answer(args: argparse.Namespace) -> Mapping[str, Any] | None:
    if args.kind is None:
        if args.choices:
            raise ValueError("--choices needs --kind label (or mcq)")
        return None
    return {"kind": args.kind, **({"choices": args.choices} if args.choices else {})}
