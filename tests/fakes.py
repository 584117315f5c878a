"""A scripted harness model: real task, filters, metrics and result files without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from lm_eval.api.model import LM

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell, sample_runs

Answer = Callable[[str, int], "str | Run"]


class ScriptedLM(LM):
    """Answers every run by a function of the prompt and the run's index."""

    def __init__(self, answer: Answer, capture: bool = True) -> None:
        super().__init__()
        self.answer = answer
        self.capture = capture
        self.asked: list[tuple[str, int, int]] = []

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> list[str]:
        return [str(self.answer(request.args[0], 0)) for request in requests]

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError


@sample_runs.register(ScriptedLM)
def _sample(lm: ScriptedLM, cells: Sequence[Cell]) -> Iterator[tuple[int, int, Run]]:
    for position, cell in enumerate(cells):
        for index, seed in zip(cell.run_indices, cell.seeds, strict=True):
            lm.asked.append((cell.prompt, index, seed))
            answer = lm.answer(cell.prompt, index)
            if isinstance(answer, Run):
                yield position, index, answer
                continue
            captured = (
                Capture(
                    seed=seed, tokens=len(answer.split()), finish_reason="stop", entropy=0.5,
                    certainty=0.9, tail_mass=0.01, logprob=-1.0, top_k=30.0,
                )
                if lm.capture
                else Capture(seed=seed)
            )  # fmt: skip
            yield position, index, Run(answer, captured)


def write_task(folder: Path, name: str, items: Sequence[dict[str, Any]], **changes: Any) -> Path:
    """A YAML task of RepeatedTask over these items; ``changes`` replace its fields."""
    import json

    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    config: dict[str, Any] = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "repeats": 4,
        "generation_kwargs": {"do_sample": True, "temperature": 1.0, "until": ["\n"]},
        "filter_list": [{"name": "none", "filter": [{"function": "answer", "kind": "text"}]}],
        "metric_list": [{"metric": "acc"}, {"metric": "answer_agreement"}],
        "metadata": {"version": 1, "lmrel": {}},
        **changes,
    }
    config = {key: value for key, value in config.items() if value is not None}
    text = yaml.safe_dump(config, sort_keys=False)
    path = folder / f"{name}.yaml"
    path.write_text(f"class: !function lmrel_tasks.task.RepeatedTask\n{text}", encoding="utf-8")
    return path


def evaluate(lm: LM, folder: Path, name: str, **options: Any) -> Any:
    """``lm_eval``'s own evaluation of a task below a folder."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    with no_environment_report():
        return simple_evaluate(model=lm, tasks=[name], task_manager=manager, **options)


@contextmanager
def no_environment_report() -> Iterator[None]:
    """Spare the harness's list of installed packages, which takes seconds per evaluation."""
    from lm_eval import evaluator

    stock = evaluator.add_env_info
    evaluator.add_env_info = lambda storage: None
    try:
        yield
    finally:
        evaluator.add_env_info = stock
