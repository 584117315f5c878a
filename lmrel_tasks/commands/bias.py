"""``lmrel bias``: is it the edited attribute, or any edit at all?"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="folders or results_*.json of evaluations that logged samples",
    )  # fmt: skip
    parser.add_argument("--task", action="append", default=[], help="this task only; repeatable")
    parser.add_argument(
        "--metrics", metavar="LIST",
        help="any of flip, jsd, kl, log_odds, mi, phi, direction (flip,jsd,kl,mi, and direction "
        "for edits that go in two directions)",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", choices=["benign", "rerun", "fixed_phrase"], default="benign",
        help="what the targeted edit is measured against (benign)",
    )  # fmt: skip
    parser.add_argument("--test", choices=["permutation", "bootstrap", "t", "mcnemar"])
    parser.add_argument("--alternative", choices=["greater", "less", "two-sided"])
    parser.add_argument("--preset", choices=["default", "cfprompt", "paper"], default="default")
    parser.add_argument(
        "--adjust", default="holm", metavar="METHOD",
        help="holm, bonferroni, fdr_bh or another method of statsmodels (holm)",
    )  # fmt: skip
    parser.add_argument("--alpha", type=float, default=0.05, help="level of the sentences (0.05)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the intervals (0.95)")
    parser.add_argument("--resamples", type=int, metavar="N", help="of bootstrap and permutation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--outcome", metavar="OPTION",
        help="for direction: the option whose log-odds are regressed, by place or text (that of "
        "the task's direction_beta, else 0)",
    )  # fmt: skip
    parser.add_argument(
        "--cluster", metavar="FIELD", help="for direction: field that says which items belong "
        "together (that of the task's direction_beta)",
    )  # fmt: skip
    parser.add_argument("--output", metavar="DIR", help="write bias.json and bias_family.csv here")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.bias_report import KNOWN, Options, bias_rows, family_table, short_table
    from lmrel_tasks.tables import write_tables

    metrics = None
    if args.metrics is not None:
        metrics = [one.strip() for one in args.metrics.split(",") if one.strip()]
    if metrics is not None and (not metrics or set(metrics) - set(KNOWN)):
        raise ValueError(f"--metrics takes {', '.join(KNOWN)}, got {args.metrics!r}")
    for name in ("alpha", "confidence"):
        if not 0 < getattr(args, name) < 1:
            raise ValueError(f"--{name} must lie between 0 and 1, got {getattr(args, name)}")
    options = Options(
        metrics=metrics, baseline=args.baseline, test=args.test, alternative=args.alternative,
        preset=args.preset, n_resamples=args.resamples, seed=args.seed,
        confidence=args.confidence, alpha=args.alpha, adjust=args.adjust,
        outcome=int(args.outcome) if (args.outcome or "").isdigit() else args.outcome,
        cluster=args.cluster,
    )  # fmt: skip
    table = family_table(bias_rows(args.results, options, args.task), options)
    print(short_table(table).text())
    if args.output:
        files = write_tables([table], args.output, "bias")
        print(f"\nWritten: {', '.join(str(file) for file in files)}")
    return 0
