"""``sample_until``: what the plugin adds to every harness model.

Groups the harness's clones into cells, takes from the store what it has, draws the rest through
the model's backend, and puts every run into the store as soon as it exists.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from lmrel_tasks.filters.canonical import canonical
from lmrel_tasks.metrics.stopping import next_round
from lmrel_tasks.request import NOT_DRAWN, Plan, SampleRequest
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell, run_seed, sample_runs

log = logging.getLogger(__name__)

# Backends register themselves for their model class; a class nobody has imported needs none.
_BACKENDS = {
    "lm_eval.models.huggingface": "lmrel_tasks.sampling.hf",
    "lm_eval.models.api_models": "lmrel_tasks.sampling.api",
    "lm_eval.models.vllm_causallms": "lmrel_tasks.sampling.vllm",
}


@dataclass
class Progress:
    """The state of one cell while it is drawn."""

    request: SampleRequest
    plan: Plan
    wanted: int
    runs: dict[int, Run] = field(default_factory=dict)

    def cell(self, indices: Sequence[int]) -> Cell:
        settings = self.plan.settings
        return Cell(
            prompt=self.request.arguments[0],
            generation=self.request.arguments[1],
            run_indices=tuple(indices),
            seeds=tuple(self.seed(index) for index in indices),
            top_logprobs=settings.top_logprobs,
            logprobs=settings.logprobs,  # type: ignore[arg-type]
            options={"max_n": settings.max_n} if settings.max_n else {},
        )

    @property
    def rule(self) -> Mapping[str, Any] | None:
        """The stopping rule, if the task has one and asks more than once."""
        return self.plan.settings.stopping if self.wanted > 1 else None

    def next_indices(self) -> range:
        """The runs of the next round; empty when the cell is finished."""
        have = len(self.runs)
        if not self.rule:
            return range(have, self.wanted)
        answers = [self.answer(self.runs[index]) for index in range(have)]
        return range(have, have + next_round(answers, self.wanted, **self.rule))

    def answer(self, run: Run) -> str:
        """The run's canonical answer, all that a stopping rule may look at."""
        if run.missing:
            return ""
        return canonical(run, self.plan.kind or "text", self.plan.choices)

    def seed(self, index: int) -> int:
        return run_seed(self.plan.seed, self.plan.item, self.plan.condition, index)

    def row(self) -> list[Run]:
        """All runs in order; those that a stopping rule left out are marked as not drawn."""
        left_out = Run("", Capture(finish_reason=NOT_DRAWN))
        return [self.runs.get(index, left_out) for index in range(self.wanted)]


def sample_until(
    lm: Any, requests: Sequence[SampleRequest], disable_tqdm: bool = False
) -> list[Run]:
    """Draw the runs of every request; called by the harness like ``generate_until``.

    Args:
        lm: a harness model.
        requests: requests of `RepeatedTask`, each repeated as often as it is to be asked.
        disable_tqdm: show no progress bar.

    Returns:
        one `Run` per request, in their order.

    Raises:
        RuntimeError: if more runs are missing than ``metadata.lmrel.max_missing`` allows.
    """
    _load_backends()
    cells = _group(requests)
    total = sum(one.wanted for one in cells)
    with tqdm(total=total, desc="Sampling runs", unit="run", disable=disable_tqdm) as bar:
        for _, _ in _draw(lm, cells):
            bar.update()
    _warn_if_identical(cells)
    _check_missing(cells)
    return [run for one in cells for run in one.row()]


def _load_backends() -> None:
    for model_module, backend in _BACKENDS.items():
        if model_module in sys.modules:
            importlib.import_module(backend)


def _group(requests: Sequence[SampleRequest]) -> list[Progress]:
    cells: list[Progress] = []
    for request in requests:
        if cells and cells[-1].request is request:
            cells[-1].wanted += 1
        elif request.plan is None:
            raise ValueError(
                "sample_until takes requests of RepeatedTask; this one carries no plan "
                f"(task {request.task_name}): build the requests with build_all_requests()"
            )
        else:
            cells.append(Progress(request, request.plan, wanted=1))
    return cells


def _draw(lm: Any, cells: Sequence[Progress]) -> Iterator[tuple[Progress, int]]:
    """Draw the runs of all cells in rounds; yields each run that is there.

    Without a stopping rule there is one round. With one, each round asks every unfinished cell
    for the fewest runs after which its rule could stop.
    """
    waiting = {id(one): one for one in cells}
    while waiting:
        asked = [(one, indices) for one in waiting.values() if (indices := one.next_indices())]
        waiting = {id(one): one for one, _ in asked if one.rule}
        if not asked:
            return
        wanted = [one.cell(indices) for one, indices in asked]
        for position, index, run in sample_runs(lm, wanted):
            one = asked[position][0]
            one.runs[index] = run
            yield one, index


def _sampled(one: Progress) -> bool:
    settings = one.request.arguments[1]
    return settings.get("do_sample") is not False and float(settings.get("temperature") or 0) > 0


def _warn_if_identical(cells: Sequence[Progress], enough: int = 8) -> None:
    """Warn when every item's runs are the same text although they were sampled."""
    judged = [one for one in cells if _sampled(one) and len(one.runs) > 1]
    texts = [{str(run) for run in one.runs.values() if not run.missing} for one in judged]
    if len(judged) >= enough and all(len(group) <= 1 for group in texts):
        log.warning(
            "task %s: all runs of each of %d items are the same text at a temperature above 0. "
            "The likely cause is a server or proxy that ignores the seed and caches answers, or "
            "a temperature too low to matter; repeatability would be overstated.",
            judged[0].plan.task,
            len(judged),
        )


def _check_missing(cells: Sequence[Progress]) -> None:
    by_task: dict[str, list[Progress]] = defaultdict(list)
    for one in cells:
        by_task[one.plan.task].append(one)
    for task, group in by_task.items():
        runs = [run for one in group for run in one.runs.values()]
        missing = [run for run in runs if run.missing]
        allowed = group[0].plan.settings.max_missing
        if runs and len(missing) > allowed * len(runs):
            raise RuntimeError(
                f"task {task}: {len(missing)} of {len(runs)} runs are missing, more than "
                f"metadata.lmrel.max_missing = {allowed} allows. First cause: "
                f"{missing[0].capture.error}. With a store the other runs are kept: run the same "
                "command again to ask for the missing ones."
            )
