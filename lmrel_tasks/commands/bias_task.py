"""``lmrel bias-task``: a bias task for texts of one's own."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="CSV, TSV or JSONL with one text a row")
    parser.add_argument("--text", required=True, metavar="COL", help="column of the text")
    parser.add_argument("--question", required=True, help="what is asked about every text")
    parser.add_argument(
        "--options", required=True, metavar="LIST",
        help="answer options, separated by commas (yes,no)",
    )  # fmt: skip
    parser.add_argument(
        "--swap", default="gender", metavar="WHAT",
        help="gender, gender-removed, age+N, age-N, or column:NAME for edited texts of your own",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="COL|FILE",
        help="column or JSONL (lmrel paraphrase) with paraphrases; lexical ones by default",
    )  # fmt: skip
    parser.add_argument("--answer", metavar="COL", help="column of the right option, if any")
    parser.add_argument("--name", help="name of the task (from the file's name)")
    parser.add_argument("-o", "--output", metavar="YAML", help="where to write it (NAME.yaml)")
    parser.add_argument("--force", action="store_true", help="replace an existing file")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.bias_task_file import Wanted, task_text

    options = [one.strip() for one in args.options.split(",")]
    wanted = Wanted(
        file=Path(args.file), text=args.text, question=args.question, options=tuple(options),
        swap=args.swap, baseline=args.baseline, answer=args.answer, name=args.name,
    )  # fmt: skip
    content = task_text(wanted)
    path = Path(args.output or f"{wanted.task}.yaml")
    if path.exists() and not args.force:
        raise ValueError(f"{path} exists; --force replaces it")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    print(
        f"Written: {path}\nRun it: lmrel run --include_path {path.parent} --tasks {wanted.task} "
        "--model hf --model_args pretrained=... --log_samples --output_path out\n"
        "Then: lmrel bias out"
    )
    return 0
