"""Evaluations of a scripted model, written to disk by the harness's own tracker, for tests."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes import Answer, ScriptedLM, evaluate, write_task


def embed(texts: list[str]) -> np.ndarray:
    """Unit vectors that depend on the words of a text; no model."""
    rows = []
    for text in texts:
        row = np.full(16, 0.05)
        for word in text.split():
            digest = hashlib.sha256(word.encode("utf-8", "replace")).digest()
            row[digest[0] % 16] += 1.0
        rows.append(row / np.linalg.norm(row))
    return np.array(rows, dtype=np.float32)


@contextlib.contextmanager
def word_embedder() -> Iterator[None]:
    """Embed by `embed`, while sampling and while verifying."""
    from lmrel_tasks import embedder
    from lmrel_tasks.plugin import Embed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedder, "encoder", lambda model=None: embed)
        patch.setattr(Embed, "encoder", staticmethod(lambda model=None: embed))
        yield


def evaluation(
    folder: Path, model: str, name: str, items: list[dict[str, Any]], answer: Answer, **changes: Any
) -> dict[str, Any]:
    """What ``simple_evaluate`` returns for a task of scripted answers."""
    tasks = folder / "tasks"
    tasks.mkdir(parents=True, exist_ok=True)
    write_task(tasks, name, items, **changes)
    with word_embedder():
        return evaluate(ScriptedLM(answer), tasks, name)


def save(results: dict[str, Any], output: Path, model: str) -> Path:
    """Write results and samples as ``--output_path --log_samples`` does; the results file.

    `output` is a folder or, as the harness has it too, the name of a ``.json`` file.
    """
    from lm_eval.loggers import EvaluationTracker

    tracker = EvaluationTracker(output_path=str(output))
    tracker.general_config_tracker.log_experiment_args(
        model_source="scripted", model_args=f"pretrained={model}", system_instruction=None,
        chat_template=None, fewshot_as_multiturn=False,
    )  # fmt: skip
    results = dict(results)
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task, rows in samples.items():
        tracker.save_results_samples(task_name=task, samples=rows)
    folder = output.parent if output.suffix == ".json" else output
    (path,) = folder.rglob(f"*_{tracker.date_id}.json")
    return path


ITEMS = [{"question": f"Number {i}?", "answer": str(i)} for i in range(12)]


def unsteady(wrong: float) -> Callable[[str, int], str]:
    """Answers with the number asked for, or with another in a share of the runs of odd items."""

    def answer(prompt: str, index: int) -> str:
        number = int("".join(x for x in prompt.split("?")[0] if x.isdigit()) or 0)
        digest = hashlib.sha256(f"{prompt}{index}".encode()).digest()[0] / 255
        return f"It is {number + int(number % 2 == 1 and digest < wrong)}"

    return answer
