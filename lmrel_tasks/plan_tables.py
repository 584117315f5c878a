"""A plan as text: its costs, and what it can show."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from lmrel_tasks.costs import Cost, Probe, money
from lmrel_tasks.markdown import markdown_table
from lmrel_tasks.metrics.bounds import check_probability, items_needed
from lmrel_tasks.planning import (
    REPEATS,
    Spread,
    assumed_accuracy,
    detectable_difference,
    half_width,
    items_for_difference,
    items_for_half_width,
    measured_spreads,
)


def cost_lines(
    args: Namespace, costs: Sequence[Cost], probes: Mapping[str, Probe], how: str
) -> str:
    """The table of costs with its total, and what it assumes."""
    rows = []
    for cost in costs:
        rows.append((cost.task, *_cost_cells(args, [cost], probes)))
    if len(costs) > 1:
        rows.append(("total", *_cost_cells(args, costs, probes)))
    columns = [
        "task", "items", "repeats", "calls", "input tokens", "prompts once", "output tokens",
        "disk",
    ]  # fmt: skip
    priced = args.price_in is not None or args.price_out is not None
    columns += ["money"] * priced + ["time"] * bool(probes)
    lines = ["# Plan", "", markdown_table(columns, rows), "", f"- Input tokens are {how}."]
    lines.append(
        "- Input tokens: every run sends its prompt. Prompts once: where a server gives several "
        "answers to one request (`n`), or a local model reads a prompt once for all its runs."
    )
    if probes:
        lines.append("- Output tokens are those of the probe's runs, on average.")
    elif args.output_tokens is not None:
        lines.append(f"- Output tokens: {args.output_tokens:g} per run, as given.")
    else:
        lines.append("- Output tokens are the most that the tasks allow; real runs end earlier.")
    for cost in costs:
        if not cost.exact_prompts:
            lines.append(f"- {cost.task}: prompts are measured on a sample of its documents.")
        if cost.stopping:
            lines.append(f"- {cost.task}: its stopping rule will save some of these calls.")
    for task, one in probes.items():
        lines.append(
            f"- Time of {task}: {one.runs} runs took {one.seconds:.2f} s "
            f"({one.seconds / one.runs:.3f} s each), and all are taken to be as fast; larger "
            "batches are faster."
        )
    if priced:
        lines.append(
            "- Money: with prompts sent once, to prompts sent with every run, in the unit of the "
            "prices."
        )
    return "\n".join(lines)


def _cost_cells(
    args: Namespace, costs: Sequence[Cost], probes: Mapping[str, Probe]
) -> tuple[Any, ...]:
    once = sum(cost.prompt_tokens for cost in costs)
    every = sum(cost.input_tokens for cost in costs)
    out = sum(cost.output_tokens for cost in costs)
    repeats = {cost.repeats for cost in costs}
    cells: list[Any] = [
        sum(cost.items for cost in costs),
        repeats.pop() if len(repeats) == 1 else "",
        sum(cost.calls for cost in costs),
        round(every), round(once), round(out),
        _bytes(sum(cost.disk for cost in costs)),
    ]  # fmt: skip
    if args.price_in is not None or args.price_out is not None:
        prices = (args.price_in or 0.0, args.price_out or 0.0)
        ends = (_amount(money(tokens, out, *prices)) for tokens in (once, every))
        cells.append(" to ".join(ends))
    if probes:
        each = [cost.calls * probes[cost.task].seconds / probes[cost.task].runs for cost in costs]
        cells.append(_duration(sum(each)))
    return tuple(cells)


def statistics_of(
    args: Namespace, sizes: Sequence[tuple[str, int, int]]
) -> tuple[str, list[dict[str, Any]]]:
    """What the planned items and repeats show, and what a wish takes.

    Args:
        args: the command's arguments.
        sizes: task, items and runs per item of what is planned.

    Returns:
        Markdown, and the same as records.
    """
    for name in ("alpha", "power"):
        check_probability(getattr(args, name), f"--{name}")
    alpha = args.alpha / args.comparisons
    rows, needs, records = [], [], []
    sources: list[str] = []
    for task, items, runs in sizes:
        for spread in _spreads(args, task):
            width = half_width(spread, items, runs, args.alpha)
            found = math.nan
            if items > 1:
                found = detectable_difference(spread, items, runs, alpha=alpha, power=args.power)
            rows.append((task, spread.metric, spread.mean, items, runs, f"± {width:.4f}", found))
            record: dict[str, Any] = {
                "task": task, "metric": spread.metric, "items": items, "runs": runs,
                "half_width": width, "detectable": found, "needed": [],
            }  # fmt: skip
            for k in sorted({*REPEATS, runs}):
                if args.half_width is None and args.difference is None:
                    break
                one = _needed(args, spread, k, alpha)
                record["needed"].append(one)
                needs.append((task, spread.metric, k, *_need_cells(one, items)))
            records.append(record)
            if f"{spread.metric}: {spread.source}" not in sources:
                sources.append(f"{spread.metric}: {spread.source}")
    level = f"{100 * (1 - args.alpha):g} %"
    columns = ("task", "metric", "mean", "items", "runs", f"{level} interval", "detectable")
    family = f", one of {args.comparisons} comparisons" if args.comparisons > 1 else ""
    lines = [
        "## What it can show", "", markdown_table(columns, rows), "",
        f"Detectable: the difference between two models on the same items that a two-sided test "
        f"finds with {100 * args.power:g} % power at level {args.alpha:g}{family}.",
        *(f"- {source}" for source in sources),
    ]  # fmt: skip
    if needs:
        columns = ("task", "metric", "runs", "items for ± W", "calls", "items for D", "calls")
        wishes = []
        if args.half_width is not None:
            wishes.append(f"W = {args.half_width:g}")
        if args.difference is not None:
            wishes.append(f"D = {args.difference:g}")
        lines += [
            "", f"## What it takes ({', '.join(wishes)})", "", markdown_table(columns, needs), "",
            "Calls are those of one model. Numbers marked * are more than the items planned.",
        ]  # fmt: skip
    if args.reliability is not None:
        lines += ["", *_reliability(args)]
    return "\n".join(lines), records


def _spreads(args: Namespace, task: str) -> list[Spread]:
    if args.pilot:
        return measured_spreads(args.pilot, task, args.correlation)
    return [assumed_accuracy(args.mean, args.icc, args.correlation)]


def _needed(args: Namespace, spread: Spread, runs: int, alpha: float) -> dict[str, Any]:
    one: dict[str, Any] = {"runs": runs, "for_half_width": None, "for_difference": None}
    if args.half_width is not None:
        one["for_half_width"] = items_for_half_width(spread, args.half_width, runs, args.alpha)
    if args.difference is not None:
        one["for_difference"] = items_for_difference(
            spread, args.difference, runs, alpha=alpha, power=args.power
        )
    return one


def _need_cells(one: Mapping[str, Any], planned: int) -> tuple[Any, ...]:
    cells: list[Any] = []
    for key in ("for_half_width", "for_difference"):
        needed = one[key]
        if needed is None:
            cells += ["", ""]
        else:
            cells += [f"{needed}{'*' if needed > planned else ''}", needed * one["runs"]]
    return tuple(cells)


def _reliability(args: Namespace) -> list[str]:
    lines = [f"## To show a reliability of {args.reliability:g}", ""]
    confidence = 1 - args.alpha
    options = [1.0, *([args.mean] if args.reliability < args.mean < 1 else [])]
    for accuracy in options:
        needed = items_needed(args.reliability, confidence, accuracy, args.power)
        lines.append(
            f"- if {100 * accuracy:g} % of the items' most frequent answers are right: "
            f"{needed.n} items, of which {needed.failures_allowed} may fail "
            f"({100 * confidence:g} % lower bound, reached with {100 * needed.power:.0f} % power)"
        )
    if len(options) == 1:
        lines.append("- say --mean (above the reliability) for a model that errs sometimes")
    return lines


def _amount(number: float) -> str:
    """Money with two decimals, or with as many as two significant digits take."""
    decimals = 2 if number == 0 or number >= 0.1 else 1 - math.floor(math.log10(number))
    return f"{number:.{decimals}f}"


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
