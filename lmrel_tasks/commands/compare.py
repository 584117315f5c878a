"""``lmrel compare``: results side by side, paired by item, with honest tests."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmrel_tasks.differences import Difference
    from lmrel_tasks.mismatches import Mismatch
    from lmrel_tasks.paired_results import PairedTask


# Beyond these, intervals say nothing or their limits are not found numerically.
_ALPHAS = (1e-6, 0.5)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="folders or results_*.json of evaluations that logged samples; every model counts",
    )  # fmt: skip
    parser.add_argument("--task", action="append", default=[], help="this task only; repeatable")
    parser.add_argument(
        "--metric", action="append", default=[],
        help="this metric only, as acc or exact_match,strict-match; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--name", action="append", default=[],
        help="what to call the results, once for each in their order",
    )  # fmt: skip
    parser.add_argument(
        "--cluster", metavar="FIELD",
        help="field of the documents that marks items that belong together, as a shared passage",
    )  # fmt: skip
    parser.add_argument(
        "--alpha", type=float, default=0.05, help="level of the tests over the table (0.05)"
    )
    parser.add_argument(
        "--power", type=float, default=0.8, help="power behind the detectable differences (0.8)"
    )
    parser.add_argument(
        "--strict", action="store_true",
        help="exit with 1 and show no number if something else than the model differs",
    )  # fmt: skip
    parser.add_argument("--csv", metavar="FILE", help="write the table of differences here")
    parser.add_argument("--json", metavar="FILE", help="write everything here")
    parser.add_argument("--plot", metavar="FILE", help="draw the intervals (.png, .svg or .pdf)")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.contestants import find_contestants
    from lmrel_tasks.differences import adjusted, task_differences
    from lmrel_tasks.metrics.bounds import check_probability
    from lmrel_tasks.mismatches import find_mismatches
    from lmrel_tasks.paired_results import pair_tasks
    from lmrel_tasks.ranking import ranks

    for name in ("alpha", "power"):
        check_probability(getattr(args, name), f"--{name}")
    low, high = _ALPHAS
    if not low <= args.alpha <= high:
        raise ValueError(f"--alpha must lie between {low:g} and {high:g}, got {args.alpha!r}")
    contestants = find_contestants(args.results, args.name)
    notes: list[str] = []
    mismatches: list[Mismatch] = []
    found: list[Difference] = []
    there: list[str] = []
    for paired in pair_tasks(contestants, tasks=args.task, cluster=args.cluster, notes=notes):
        there += _names_in(paired)
        notes += _not_everywhere(paired, args.metric)
        mismatches += [one for one in find_mismatches(paired) if one not in mismatches]
        for who in paired.contestants:
            dates = who.dates(paired.task)
            said = (
                f"{paired.task}: {who.name} has results of {len(dates)} dates; the newest, "
                f"{dates[-1]}, is used (give a results_*.json for another)."
            )
            if len(dates) > 1 and said not in notes:
                notes.append(said)
        found += task_differences(
            paired, metrics=args.metric, confidence_level=1 - args.alpha, notes=notes
        )
    _refuse_unknown(args.metric, there)
    print(head(contestants, mismatches, notes))
    if args.strict and any(one.serious for one in mismatches):
        print("\nNo numbers: --strict, and the results differ in more than the model.")
        return 1
    if not found:
        why = "the notes say why" if notes else "the samples hold no metric that all have"
        raise ValueError(f"nothing could be compared; {why}")
    table = adjusted(found, alpha=args.alpha, power=args.power)
    places = ranks(table, alpha=args.alpha)
    print()
    print(body(table, args.alpha, args.power))
    if len(contestants) > 2:
        print()
        print(rank_table(places))
    _write(args, contestants, mismatches, notes, table, places)
    return 0


def _names_in(paired: PairedTask) -> list[str]:
    """Metrics that anyone has, with the filter unless that is ``none``."""
    suffix = "" if paired.filter == "none" else f",{paired.filter}"
    names = [m for scores in paired.scores for m in (*scores.values, *scores.unusable)]
    return [f"{name}{suffix}" for name in dict.fromkeys(names)]


def _not_everywhere(paired: PairedTask, wanted: Sequence[str]) -> list[str]:
    """Sentences on metrics that were asked for and that only some have."""
    told = []
    for shown in _names_in(paired):
        metric = shown.removesuffix(f",{paired.filter}")
        have = [metric in one.values or metric in one.unusable for one in paired.scores]
        if {metric, shown} & set(wanted) and not all(have):
            lacking = [
                who.name for who, has in zip(paired.contestants, have, strict=True) if not has
            ]
            told.append(f"{paired.task}: no {shown} in the samples of {', '.join(lacking)}.")
    return told


def _refuse_unknown(wanted: Sequence[str], there: Sequence[str]) -> None:
    from lmrel_tasks.suggesting import did_you_mean

    known = {name for shown in there for name in (shown, shown.split(",")[0])}
    for metric in wanted:
        if metric not in known:
            raise ValueError(
                f"no metric is called {metric}{did_you_mean(metric, [*there, *sorted(known)])}; "
                f"there are {', '.join(dict.fromkeys(there)) or 'none'}"
            )


def head(contestants: Sequence, mismatches: Sequence[Mismatch], notes: Sequence[str]) -> str:
    """Who is compared, and what else than the model differs."""
    lines = ["# Comparison", ""]
    lines += [f"- **{one.name}**: {one.model}, from {one.given}" for one in contestants]
    serious = [one for one in mismatches if one.serious]
    mild = [one for one in mismatches if not one.serious]
    lines += ["", "## Not the same", ""]
    if serious:
        lines += [f"- **{one.kind}** {one.text}" for one in serious]
    else:
        lines.append("Items, prompts, targets, versions and generation settings are the same.")
    for kind in dict.fromkeys(one.kind for one in mild):
        lines.append(f"- {kind}: {_in_one([one for one in mild if one.kind == kind])}")
    if notes:
        lines += ["", "## Notes", "", *(f"- {one}" for one in notes)]
    return "\n".join(lines)


def _in_one(alike: Sequence[Mismatch]) -> str:
    """Mismatches of one kind in one sentence, whatever number of tasks they are in."""
    tasks = list(dict.fromkeys(one.task for one in alike))
    texts = list(dict.fromkeys(one.text.removeprefix(f"{one.task}: ") for one in alike))
    if len(texts) == 1:
        return f"{', '.join(tasks)}: {texts[0]}"
    names = list(dict.fromkeys(text.split(" differs")[0] for text in texts))
    verb = "differs" if len(names) == 1 else "differ"
    return f"{', '.join(names)} {verb} in {', '.join(tasks)} (--json lists the values)"


def body(table: Sequence[Difference], alpha: float, power: float) -> str:
    """The table of differences."""
    from lmrel_tasks.markdown import markdown_table

    level = f"{100 * (1 - alpha):g} %"
    rows = [
        (
            one.task, one.metric, f"{one.first} − {one.second}", one.first_value,
            one.second_value, f"{one.difference:+.4f}", one.stderr,
            _interval(one), one.method, one.pvalue,
            one.pvalue_adjusted, one.detectable, one.n, one.verdict(alpha),
        )
        for one in table
    ]  # fmt: skip
    columns = (
        "task", "metric", "pair", "first", "second", "difference", "std. error",
        f"{level} interval", "test", "p", "p (Holm)", "detectable", "items", "verdict",
    )  # fmt: skip
    separable = sum(one.winner(alpha) is not None for one in table)
    lost = [one for one in table if one.left_out]
    lines = [
        "## Differences", "", markdown_table(columns, rows), "",
        f"{separable} of {len(table)} differences are separable (two-sided, Holm over the whole "
        f"table, level {alpha:g}). Standard errors are clustered by item; intervals are not "
        f"adjusted. Detectable: the true difference that this table finds with {100 * power:g} % "
        "power at Holm's strictest step.",
    ]  # fmt: skip
    if any(one.method == "exact McNemar" for one in table):
        lines.append("Intervals beside McNemar's test are Tango's score intervals.")
    if any(one.stderr == 0 and one.method != "exact McNemar" for one in table):
        lines.append(
            "Where all items differ alike (standard error 0), the interval is the exact one of a "
            "metric within [0, 1], and n/a for other metrics: no spread bounds nothing."
        )
    if lost:
        most = max(lost, key=lambda one: one.left_out)
        lines.append(
            f"Items without a value on both sides are left out, at most {most.left_out} "
            f"({most.task}, {most.metric})."
        )
    return "\n".join(lines)


def _interval(one: Difference) -> str:
    if math.isnan(one.ci_low) or math.isnan(one.ci_high):
        return "n/a"
    return f"[{one.ci_low:+.4f}, {one.ci_high:+.4f}]"


def rank_table(places: Sequence) -> str:
    from lmrel_tasks.markdown import markdown_table

    rows = [
        (
            one.task, one.metric, one.rank, one.name, one.value,
            ", ".join(one.tied) if one.tied else "none",
        )
        for one in places
    ]  # fmt: skip
    columns = ("task", "metric", "rank", "model", "value", "not separable from")
    return "\n".join(["## Ranks", "", markdown_table(columns, rows)])


def _write(
    args: argparse.Namespace,
    contestants: Sequence,
    mismatches: Sequence[Mismatch],
    notes: Sequence[str],
    table: Sequence[Difference],
    places: Sequence,
) -> None:
    from dataclasses import asdict

    from lmrel_tasks.markdown import write_csv, write_json

    records = [
        {**asdict(one), "winner": one.winner(args.alpha), "verdict": one.verdict(args.alpha)}
        for one in table
    ]
    if args.csv:
        write_csv(args.csv, records)
    if args.json:
        write_json(
            args.json,
            {
                "alpha": args.alpha,
                "contestants": [
                    {
                        "name": one.name, "model": one.model, "path": one.given,
                        "dates": [evaluation.date for evaluation in one.evaluations],
                    }
                    for one in contestants
                ],
                "mismatches": [asdict(one) for one in mismatches],
                "notes": list(notes),
                "differences": records,
                "ranks": [asdict(one) for one in places],
            },
        )  # fmt: skip
    if args.plot:
        from lmrel_tasks.difference_plot import plot_differences

        plot_differences(table, args.plot, alpha=args.alpha)
    for path in (args.csv, args.json, args.plot):
        if path:
            print(f"\nWritten: {path}")
