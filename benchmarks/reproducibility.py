"""Time and memory of a full clinical protocol: 518 items x 5 prompts x 100 runs.

    python benchmarks/reproducibility.py [--items 518] [--runs 100] [--dim 384]

1. The statistics alone, with 384-dimensional embeddings streamed by item: the embeddings of an item
   are made, summed and forgotten. Making them is not counted.
2. The shipped task ``lmrel_medqa_reproducibility`` through the harness's own evaluator, samples
   logged and written, on a model that costs nothing; made-up cases, answers of 20 characters and
   embeddings. The harness keeps every text until the end. So the same prompts, repeats and answers
   also go through five plain ``generate_until`` tasks of its own, and what counts is how much more
   the plugin takes than they do. Both are processes of their own; memory is the growth of the
   peak of the resident set since everything was imported, up to the end of each phase.

Prints processor seconds, which other programs on the machine disturb least, and megabytes beside
their limits, and exits with 1 if one is exceeded.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from lmrel_tasks.metrics import agreement, cosine, entropy, gauge, intervals, presets

MAX_SECONDS, MAX_MEGABYTES = 10.0, 100.0
MAX_MEGABYTES_BEYOND_HARNESS = 100.0
PROMPTS = 5  # of the shipped task
TASK = "lmrel_medqa_reproducibility"
KINDS = ("harness", "lmrel")


class Stopwatch:
    """Adds up the seconds spent inside its `with` blocks, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name = ""

    def __call__(self, name: str) -> Stopwatch:
        self._name = name
        return self

    def __enter__(self) -> None:
        self._start = time.process_time()

    def __exit__(self, *_: object) -> None:
        spent = time.process_time() - self._start
        self.seconds[self._name] = self.seconds.get(self._name, 0.0) + spent


def measure(items: int, prompts: int, runs: int, dim: int) -> dict[str, float]:
    """Run every statistic once; seconds by part."""
    rng, watch = np.random.default_rng(0), Stopwatch()
    cells, scores, agreements, reproducible = [], [], [], []
    bits = np.empty((items, prompts, runs))
    correct = np.empty((items, prompts, runs))
    style = rng.standard_normal((prompts, 1, dim), dtype=np.float32)
    for i in range(items):
        embeddings = rng.standard_normal((prompts, runs, dim), dtype=np.float32)
        embeddings += rng.standard_normal(dim, dtype=np.float32) + style
        drawn = rng.integers(0, 4, (prompts, runs))
        answers = [[f"answer {a}" for a in row] for row in drawn.tolist()]
        bits[i] = rng.gamma(2.0, 0.3, (prompts, runs))
        correct[i] = drawn == 0
        with watch("sums of embeddings"):
            cells.append(cosine.cell_sums(embeddings))
        with watch("cosines by item"):
            scores.append(cosine.item_cosines(cells[-1]))
        with watch("answers"):
            agreements.append([agreement.answer_agreement(row) for row in answers])
            reproducible.append(agreement.answer_reproducibility(answers))
    with watch("alpha and presets"):
        table = cosine.stack_cells(cells)
        baseline = cosine.item_baseline(table)
        cosine.chance_corrected([s.repeatability for s in scores], baseline)
        cosine.chance_corrected([s.between for s in scores], baseline)
        for name in presets.PRESETS:
            presets.preset_scores(name, table, bits)
    with watch("certainty"):
        certainty = 1 - bits / np.log2(30)
        entropy.internal_stability(certainty)
        entropy.certainty_reproducibility(entropy.internal_repeatability(certainty))
    with watch("gauge R&R, 2000 resamples"):
        gauge.gauge_rr(certainty, "certainty")
        gauge.gauge_rr(correct, "correctness")
        gauge.gauge_rr_meaning(table)
    with watch("interval of a mean"):
        intervals.item_bootstrap([s.repeatability for s in scores], method="bca")
    return watch.seconds


# Through the harness ---------------------------------------------------------------------------


def answer(item: int, run: int) -> str:
    return f" Diagnosis: state {item % 10}{(7 * run + item) % 20:02d}"


class Peak:
    """The peak of the resident set since this was made, at the end of each phase."""

    def __init__(self) -> None:
        self.start, self.began = self._now(), time.process_time()
        self.megabytes: dict[str, float] = {}

    @staticmethod
    def _now() -> float:
        unit = 1e6 if sys.platform == "darwin" else 1e3
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

    def ends(self, phase: str) -> None:
        self.megabytes[phase] = self._now() - self.start

    def ends_with(self, owner: Any, name: str, phase: str, before: str | None = None) -> None:
        """A phase ends when this function returns, and ``before`` ended when it was called."""
        function = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            if before is not None:
                self.ends(before)
            result = function(*args, **kwargs)
            self.ends(phase)
            return result

        setattr(owner, name, timed)


def write_tasks(folder: Path, kind: str, items: int, runs: int) -> list[str]:
    """The shipped task on made-up cases, or a plain task of the harness for each of its prompts."""
    from lmrel_tasks import task_configs

    case = "A patient has had fever and a dry cough for three days; the lungs are clear. " * 8
    data = folder / "cases.jsonl"
    data.write_text(
        "".join(
            json.dumps({
                "question": f"Case {i}: {case}Which of the following is the most likely diagnosis?",
                "answer": answer(i, 0).removeprefix(" Diagnosis: "),
            }) + "\n"
            for i in range(items)
        )
    )  # fmt: skip
    shipped = Path(task_configs.__file__).with_name("medqa") / f"{TASK}.yaml"
    common = {
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "repeats": runs,
    }
    if kind == "lmrel":
        written = {TASK: {"include": str(shipped), **common}}
    else:
        config = yaml.safe_load(shipped.read_text(encoding="utf-8"))
        written = {
            f"plain_{one['name']}": {
                **common,
                "test_split": "test",
                "output_type": "generate_until",
                "doc_to_text": "Case: {{case.strip()}}\nReasoning:",
                "doc_to_target": "diagnosis",
                "description": one["description"],
                "num_fewshot": 2,
                "fewshot_config": {
                    **config["fewshot_config"], "doc_to_target": one["fewshot_target"]
                },
                "generation_kwargs": {"do_sample": True, "until": ["\nCase:"]},
                "metric_list": [{"metric": "exact_match"}],
            }
            for one in config["metadata"]["lmrel"]["conditions"]
        }  # fmt: skip
    for name, config in written.items():
        text = yaml.safe_dump({"task": name, **config}, sort_keys=False)
        function = "process_docs: !function lmrel_tasks.clinical.medqa_cases\n"
        (folder / f"{name}.yaml").write_text(text + function, encoding="utf-8")
    return list(written)


def evaluate(kind: str, items: int, runs: int, dim: int) -> dict[str, Any]:
    """One evaluation in this process: megabytes by phase, and processor seconds."""
    from lm_eval import evaluator
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    from lmrel_tasks import plugin
    from lmrel_tasks.run import Capture, Run
    from lmrel_tasks.sampling import Cell, sample_runs
    from lmrel_tasks.task import RepeatedTask

    class Free(LM):
        def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
            return [answer(at // runs, at % runs) for at in range(len(requests))]

        loglikelihood = loglikelihood_rolling = generate_until  # type: ignore[assignment]

    @sample_runs.register(Free)
    def _draw(lm: Free, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
        rng = random.Random(0)
        for at, cell in enumerate(cells):
            for index, seed in zip(cell.run_indices, cell.seeds, strict=True):
                entropy, certainty, tail, logprob = (rng.random() for _ in range(4))
                capture = Capture(seed, 5, "stop", entropy, certainty, tail, -logprob, 30.0)
                yield at, index, Run(answer(at // PROMPTS, index), capture)

    def encode(texts: list[str]) -> Any:
        vectors = np.empty((len(texts), dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:] = np.random.default_rng(zlib.crc32(text.encode())).standard_normal(dim)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    plugin.Embed.encoder = staticmethod(lambda model: encode)  # type: ignore[assignment]
    evaluator.add_env_info = lambda storage: None  # pip list: seconds that are not ours
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tasks = write_tasks(folder, kind, items, runs)
        manager = TaskManager(include_path=str(folder), include_defaults=False)
        peak = Peak()
        task = RepeatedTask if kind == "lmrel" else ConfigurableTask
        peak.ends_with(task, "build_all_requests", "building requests")
        peak.ends_with(task, "apply_filters", "filters", before="sampling")
        peak.ends_with(evaluator, "_process_results", "aggregation", before="values of items")
        results = evaluator.simple_evaluate(model=Free(), tasks=tasks, task_manager=manager)
        samples = results.pop("samples")
        tracker = EvaluationTracker(output_path=str(folder / "out"))
        tracker.save_results_aggregated(results=results, samples=samples)
        for one in tasks:
            tracker.save_results_samples(task_name=one, samples=samples[one])
        peak.ends("writing results")
        written = sum(path.stat().st_size for path in (folder / "out").rglob("samples_*.jsonl"))
    return {
        "megabytes": peak.megabytes,
        "seconds": time.process_time() - peak.began,
        "written": written / 1e6,
    }


def through_harness(size: dict[str, int]) -> bool:
    """Evaluate both kinds in processes of their own; whether the limit holds."""
    found = {}
    for kind in KINDS:
        options = [f"--{key}={value}" for key, value in size.items()]
        done = subprocess.run(
            [sys.executable, __file__, "--evaluate", kind, *options],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        found[kind] = json.loads(done.stdout.splitlines()[-1])
    harness, lmrel = (found[kind] for kind in KINDS)
    print(f"{'through the harness, peak so far':<34}{'harness':>10}{'lmrel':>10}{'beyond':>10}")
    for phase, whole in lmrel["megabytes"].items():
        plain = harness["megabytes"][phase]
        print(f"  {phase:<32}{plain:7.1f} MB{whole:7.1f} MB{whole - plain:7.1f} MB")
    print(f"  {'processor time':<32}{harness['seconds']:7.1f} s {lmrel['seconds']:7.1f} s")
    print(f"  {'samples files':<32}{harness['written']:7.1f} MB{lmrel['written']:7.1f} MB")
    beyond = max(lmrel["megabytes"].values()) - max(harness["megabytes"].values())
    return _verdict("beyond the harness", beyond, "MB", MAX_MEGABYTES_BEYOND_HARNESS)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("items", 518), ("runs", 100), ("dim", 384)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--evaluate", choices=KINDS, help=argparse.SUPPRESS)
    size = vars(parser.parse_args())
    kind = size.pop("evaluate")
    if kind is not None:
        print(json.dumps(evaluate(kind, **size)))
        return 0
    seconds = measure(**size, prompts=PROMPTS)
    tracemalloc.start()
    measure(**size, prompts=PROMPTS)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    total = sum(seconds.values())
    print(f"{size['items']} items x {PROMPTS} prompts x {size['runs']} runs, {size['dim']}d")
    print("the statistics alone")
    for name, spent in seconds.items():
        print(f"  {name:<28}{spent:7.2f} s")
    met = [
        _verdict("total", total, "s", MAX_SECONDS),
        _verdict("peak memory", peak, "MB", MAX_MEGABYTES),
        through_harness(size),
    ]
    return int(not all(met))


def _verdict(name: str, found: float, unit: str, limit: float) -> bool:
    met = found <= limit
    print(f"  {name:<28}{found:7.1f} {unit:<2} (limit {limit:.0f}: {'met' if met else 'missed'})")
    return met


if __name__ == "__main__":
    sys.exit(main())
