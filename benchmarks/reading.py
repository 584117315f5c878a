"""Time and memory of ``lmrel report`` and ``lmrel compare`` on 100,000 sample lines.

    python benchmarks/reading.py [--lines 100000] [--runs 10]

Writes folders with lines as the plugin's tasks log them (10 runs of a sentence each, everything
captured, ten metrics; about 5 kB), once as one task and once as ten, into a temporary folder that
takes 1.2 GB. The commands run as processes of their own, from the start of the interpreter to its
end. Prints processor seconds, which other programs on the machine disturb least, and peak memory
beside their targets; exits 1 when a target is missed.

- at most 30 s of processor time each
- at most 1,024 MB of memory each
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MAX_SECONDS, MAX_MEGABYTES = 30.0, 1024.0
DATE = "2026-01-01T00-00-00.000000"
METRICS = (
    "acc", "semantic_repeatability", "answer_agreement", "internal_repeatability",
    "internal_stability", "tar_answer", "mode_acc", "reliability_level", "reliability_lower",
    "coverage",
)  # fmt: skip
SHARES = ("tar_answer", "mode_acc", "reliability_level", "reliability_lower", "coverage")
EXAMPLE = "Question: A shelf holds {0} books and gets {1} more. How many are there?\nAnswer:"
LMREL = "import sys; from lmrel_tasks.cli import main; raise SystemExit(main(sys.argv[1:]))"


def write_folder(folder: Path, model: str, tasks: int, lines: int, runs: int) -> Path:
    """Results and samples of a model on some tasks of as many items each; the same for a name."""
    names = [f"task_{number}" for number in range(tasks)]
    folder.mkdir(parents=True)
    draw = random.Random(model)
    row = {f"{metric},none": 0.5 for metric in METRICS}
    row |= {f"{metric}_stderr,none": 0.01 for metric in METRICS}
    config = {"repeats": runs, "metric_list": [{"metric": metric} for metric in METRICS]}
    content = {
        "results": {name: {"alias": name, **row} for name in names},
        "configs": {name: {"task": name, **config} for name in names},
        "n-samples": {name: {"original": lines, "effective": lines} for name in names},
        "higher_is_better": {name: dict.fromkeys(METRICS, True) for name in names},
        "model_name": model,
    }
    (folder / f"results_{DATE}.json").write_text(json.dumps(content), encoding="utf-8")
    for name in names:
        with (folder / f"samples_{name}_{DATE}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(lines):
                file.write(json.dumps(sample(draw, name, number, runs)) + "\n")
    return folder


def sample(draw: random.Random, task: str, number: int, runs: int) -> dict[str, Any]:
    """A line: an item with its runs, some of which agree."""
    question = f"{EXAMPLE.format(number, len(task) + number % 90)} {task}"
    wrong = draw.random() * 0.6
    answers = [str(number + (draw.random() < wrong) * draw.randrange(1, 4)) for _ in range(runs)]
    openings = ("There are", "So we have", "Adding both, we get")
    texts = [
        f"{draw.choice(openings)} {answer} books in all, so the answer is {answer}."
        for answer in answers
    ]
    prompt = "\n\n".join([EXAMPLE.format(3, 4) + " 7", EXAMPLE.format(20, 5) + " 25", question])
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (question, prompt, task)]
    captured = [
        {
            "seed": draw.getrandbits(63), "tokens": 10 + draw.randrange(20),
            "finish_reason": "stop", "entropy": draw.random(), "certainty": draw.random(),
            "tail_mass": draw.random() / 100, "logprob": -9 * draw.random(), "top_k": 30.0,
            "answer": answer,
        }
        for answer in answers
    ]  # fmt: skip
    generation = {"do_sample": True, "temperature": 0.7, "max_gen_toks": 64, "until": ["\n"]}
    cell = {"item": digests[0][:16], "condition": "default", "seed": 1234}
    return {
        "doc_id": number, "doc": {"question": question, "answer": str(number)},
        "target": str(number),
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": generation, "arg_2": cell}},
        "resps": [texts], "filtered_resps": [texts], "filter": "none", "metrics": METRICS,
        "doc_hash": digests[0], "prompt_hash": digests[1], "target_hash": digests[2],
        **{metric: draw.random() for metric in METRICS},
        **{metric: float(draw.random() < 0.7) for metric in SHARES},
        "acc": answers.count(str(number)) / runs,
        "lmrel": {
            "item": digests[0][:16], "conditions": ["default"], "runs": [captured],
            "labels": [str(number)],
        },
    }  # fmt: skip


def measure(*arguments: str) -> tuple[float, float]:
    """Processor seconds and peak megabytes of a command, from start to end."""
    command = [sys.executable, "-c", LMREL, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    said = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"lmrel {arguments[0]} failed:\n{said}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def line(name: str, value: float, target: float) -> bool:
    met = value <= target
    print(f"{name:36} {value:8.1f}   target <= {target:g}   {'met' if met else 'MISSED'}")
    return met


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=100_000, help="sample lines of a folder")
    parser.add_argument("--runs", type=int, default=10, help="runs of an item")
    args = parser.parse_args()
    met = []
    for tasks in (1, 10):
        with tempfile.TemporaryDirectory() as place:
            first, second = (
                str(write_folder(Path(place) / name, name, tasks, args.lines // tasks, args.runs))
                for name in ("first", "second")
            )
            page = str(Path(place) / "report.html")
            for command in (["report", first, "-o", page], ["compare", first, second]):
                seconds, megabytes = measure(*command)
                what = f"{command[0]}, {tasks} task{'s'[: tasks - 1]}"
                met += [
                    line(f"{what}, s", seconds, MAX_SECONDS),
                    line(f"{what}, MB", megabytes, MAX_MEGABYTES),
                ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
