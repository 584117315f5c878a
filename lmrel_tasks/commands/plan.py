"""``lmrel plan``: what a run will cost and what it can show, before it starts."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmrel_tasks.limits import harness_limit


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "tasks", nargs="*", metavar="TASK", help="tasks or groups; none for the statistics alone"
    )
    what = parser.add_argument_group("what is run")
    what.add_argument("--include_path", metavar="DIR", help="folder of your own tasks")
    what.add_argument(
        "--no_defaults", action="store_true",
        help="do not look among the harness's own tasks, which is faster",
    )  # fmt: skip
    what.add_argument("--limit", type=harness_limit, metavar="N", help="as in lm_eval")
    what.add_argument("--items", type=int, metavar="N", help="items, where no task is given")
    what.add_argument("--repeats", type=int, metavar="R", help="runs per item, not the task's")
    what.add_argument("--apply_chat_template", action="store_true", help="as in lm_eval")
    what.add_argument("--tokenizer", metavar="NAME", help="counts the tokens (folder or hub name)")
    what.add_argument(
        "--output-tokens", type=float, metavar="T",
        help="tokens per run, where no probe measures them (the most that the task allows)",
    )  # fmt: skip
    what.add_argument("--price-in", type=float, metavar="X", help="money per million input tokens")
    what.add_argument("--price-out", type=float, metavar="X", help="per million output tokens")
    time = parser.add_argument_group("a probe of the time")
    time.add_argument(
        "--probe", metavar="ARGS", help="model_args of the model; 20 runs of each task are timed"
    )
    time.add_argument("--model", default="hf", help="its kind, as in lm_eval (hf)")
    time.add_argument("--batch_size", default="1", help="as in lm_eval (1)")
    time.add_argument("--device", help="as in lm_eval")
    time.add_argument("--probe-runs", type=int, default=20, metavar="N", help="runs to time (20)")
    wish = parser.add_argument_group("what it should show")
    wish.add_argument("--half-width", type=float, metavar="W", help="interval of a score, ± W")
    wish.add_argument("--difference", type=float, metavar="D", help="difference of two models")
    wish.add_argument("--reliability", type=float, metavar="P", help="lower bound to be shown")
    wish.add_argument("--alpha", type=float, default=0.05, help="level (0.05)")
    wish.add_argument("--power", type=float, default=0.8, help="power (0.8)")
    wish.add_argument(
        "--comparisons", type=int, default=1, metavar="M",
        help="differences in the table that Holm will span (1)",
    )  # fmt: skip
    known = parser.add_argument_group("what is known")
    known.add_argument(
        "--pilot", action="append", default=[], metavar="RESULTS",
        help="earlier results with samples, of one or two models, that the variances come from",
    )  # fmt: skip
    known.add_argument("--mean", type=float, default=0.5, help="expected accuracy (0.5)")
    known.add_argument(
        "--icc", type=float, default=0.5, help="share of variance between items (0.5)"
    )
    known.add_argument(
        "--correlation", type=float, default=0.5, help="of items between two models (0.5)"
    )
    parser.add_argument("--csv", metavar="FILE", help="write the table of costs here")
    parser.add_argument("--json", metavar="FILE", help="write everything here")


def run(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from lmrel_tasks.markdown import write_csv, write_json
    from lmrel_tasks.plan_tables import cost_lines, statistics_of
    from lmrel_tasks.planning import pilot_tasks

    _check(args)
    costs, probes, how = _costs(args) if args.tasks else ([], {}, "")
    if costs:
        print(cost_lines(args, costs, probes, how))
        print()
    sizes = [(cost.task, cost.items, _runs(cost)) for cost in costs]
    if not sizes:
        names = pilot_tasks(args.pilot) if args.pilot else ["(no task)"]
        sizes = [(name, args.items, args.repeats or 1) for name in names]
    text, statistics = statistics_of(args, sizes)
    print(text)
    records: list[dict[str, Any]] = [
        {**asdict(cost), "input_tokens": cost.input_tokens} for cost in costs
    ]
    if args.csv:
        write_csv(args.csv, records)
    if args.json:
        shown = {task: asdict(one) for task, one in probes.items()}
        write_json(args.json, {"costs": records, "probes": shown, "statistics": statistics})
    return 0


def _runs(cost: Any) -> int:
    """Runs per item under all conditions together; answer options are no runs."""
    return cost.repeats * max(1, round(cost.prompts / cost.items)) if cost.output_tokens else 1


def _check(args: argparse.Namespace) -> None:
    if not args.tasks and not args.items:
        raise ValueError("give tasks, or --items N for the statistics alone")
    for name in ("items", "repeats", "comparisons", "probe_runs"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be 1 or more, got {value}")
    for name in ("price_in", "price_out", "output_tokens"):
        value = getattr(args, name)
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"--{name.replace('_', '-')} must not be negative, got {value}")


def _costs(args: argparse.Namespace) -> tuple[list, dict, str]:
    from lmrel_tasks.costs import build_requests, cost_of, load_tokenizer, probe, token_counter

    count, how = token_counter(args.tokenizer)
    lm = _model(args) if args.probe is not None else None
    if lm is not None and args.tokenizer is None and hasattr(lm, "tok_encode"):
        count, how = (lambda text: len(lm.tok_encode(text))), "counted by the model's tokenizer"
    options: dict[str, Any] = {}
    if args.apply_chat_template:
        template = getattr(lm, "apply_chat_template", None)
        if template is None:
            if args.tokenizer is None:
                raise ValueError("--apply_chat_template needs --tokenizer or --probe")
            template = _template(load_tokenizer(args.tokenizer))
        options = {"apply_chat_template": True, "chat_template": template}
    costs, probes = [], {}
    for task in _tasks(args):
        items, built = build_requests(task, args.limit, **options)
        tokens = args.output_tokens
        if lm is not None:
            found = probe(task, lm, count, args.probe_runs)
            probes[str(task.config.task)] = found
            if not math.isnan(found.output_tokens):
                tokens = found.output_tokens
        stored = bool(getattr(getattr(task, "settings", None), "store", None))
        costs.append(cost_of(task, items, built, count, output_tokens=tokens, store=stored))
    return costs, probes, how


def _tasks(args: argparse.Namespace) -> list:
    from lm_eval.tasks import TaskManager

    import lmrel_tasks.plugin
    from lmrel_tasks.commands.path import task_folder

    lmrel_tasks.plugin.install()
    folders = [task_folder(), *([args.include_path] if args.include_path else [])]
    manager = TaskManager(include_path=folders, include_defaults=not args.no_defaults)
    try:
        tasks = list(manager.load(args.tasks)["tasks"].values())
    except KeyError as error:
        raise ValueError(_not_loaded(args, manager.all_tasks, error)) from None
    for task in tasks:
        if args.repeats is not None:
            task.set_config("repeats", args.repeats)
    # The harness announces every task and shows a bar for each; the table is enough.
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    return tasks


def _not_loaded(args: argparse.Namespace, known: Sequence[str], error: KeyError) -> str:
    from lmrel_tasks.suggesting import did_you_mean

    absent = [name for name in args.tasks if name not in known and not Path(name).exists()]
    if not absent:
        return f"{', '.join(args.tasks)}: not to be set up, key {error} is missing"
    stock = "; without --no_defaults the harness's own tasks count too" * bool(args.no_defaults)
    return (
        f"no task, group or tag is called {absent[0]!r}{did_you_mean(absent[0], known)}; see "
        f"`lmrel ls`, and name the folder of your own tasks with --include_path{stock}"
    )


def _model(args: argparse.Namespace) -> Any:
    from lm_eval.api.registry import get_model

    import lmrel_tasks.plugin

    lmrel_tasks.plugin.install()
    return get_model(args.model).create_from_arg_string(
        args.probe, {"batch_size": args.batch_size, "device": args.device}
    )


def _template(tokenizer: Any) -> Any:
    def apply(history: list, add_generation_prompt: bool = True) -> str:
        return str(
            tokenizer.apply_chat_template(
                history,
                tokenize=False,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=not add_generation_prompt,
            )
        )

    return apply
