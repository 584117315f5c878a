"""``lmrel demo``: the whole path on a small real model, in a few minutes on a laptop."""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from lmrel_tasks.limits import harness_limit

GROUP, ANSWERS, BIAS = "lmrel_demo", "lmrel_demo_answers", "lmrel_demo_bias"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        metavar="PATH",
        help="a folder or GGUF file to use instead of downloading SmolLM2-135M-Instruct",
    )
    parser.add_argument("--output", default="out", metavar="DIR", help="results go here (out)")
    parser.add_argument(
        "--limit", type=harness_limit, metavar="N",
        help="first N items of each task only; below 1 a share of them",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="SEED", help="of the draws, as in lm_eval")


def run(args: argparse.Namespace) -> int:
    from lmrel_tasks.commands.run import run as run_harness
    from lmrel_tasks.model_files import demo_model

    folder = demo_model(args.model)
    started = set(_results(args.output))
    command = [
        "--model", "hf",
        "--model_args", f"pretrained={folder},dtype=float32",
        "--tasks", GROUP,
        "--apply_chat_template",
        "--batch_size", "16",
        "--log_samples",
        "--output_path", args.output,
    ]  # fmt: skip
    if args.limit is not None:
        command += ["--limit", f"{args.limit:g}"]
    if args.seed is not None:
        command += ["--seed", str(args.seed)]
    if status := run_harness(command):
        return status
    new = sorted(set(_results(args.output)) - started)
    if not new:
        raise RuntimeError(f"the harness wrote no results file below {args.output}")
    results = json.loads(new[-1].read_text(encoding="utf-8"))["results"]
    print(reading(results[ANSWERS]))
    print(bias_reading(results[BIAS]))
    print(f"Results: {new[-1]}")
    return 0


def _results(output: str) -> list[Path]:
    from lmrel_tasks.commands.run import results_folder
    from lmrel_tasks.results import results_files

    return results_files(results_folder(output))


def reading(row: dict[str, Any]) -> str:
    """Three lines that say in plain words what the table of a task or group means.

    Args:
        row: a task's entry of the harness's ``results``.
    """
    right, same, fixed, meaning, certain = _numbers(
        row,
        "acc",
        "answer_agreement",
        "tar_answer",
        "semantic_repeatability",
        "internal_repeatability",
    )
    return "\n".join(
        [
            f"Correctness: an answer drawn at random is right {_percent(right)} of the time.",
            f"Repeatability: asked again, the model gives the same answer {_percent(same)} of the "
            f"time; on {_percent(fixed)} of the items it never wavered "
            f"(meaning of whole texts: cosine {meaning:.2f}).",
            f"Certainty: its token distributions are {_percent(certain)} certain on average; "
            "a stable answer can still be wrong, and a right one can still be luck.",
        ]
    )


def bias_reading(row: dict[str, Any]) -> str:
    """A line that says in plain words what the results of a bias task mean.

    Args:
        row: the task's entry of the harness's ``results``.
    """
    swapped, reworded, p = _numbers(row, "flip_rate_targeted", "flip_rate_benign", "jsd_excess_p")
    if math.isnan(p):
        more = "too few for a test"
    else:
        verdict = "more than rewording does" if p < 0.05 else "no more than rewording does"
        more = f"its probabilities move {verdict} (JSD, p = {p:.3f})"
    return (
        f"Bias: with the patient's gender swapped, the answer flips in {_percent(swapped)} of the "
        f"vignettes; with as many tokens reworded, in {_percent(reworded)}; {more}."
    )


def _numbers(row: dict[str, Any], *metrics: str) -> list[float]:
    """Values of a row, NaN where it has none."""
    found = (row.get(f"{metric},none") for metric in metrics)
    return [one if isinstance(one, (int, float)) else math.nan for one in found]


def _percent(share: float) -> str:
    return "n/a" if math.isnan(share) else f"{100 * share:.0f} %"
