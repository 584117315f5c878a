"""``sample_until``: what the plugin adds to every harness model.

Groups the harness's clones into cells, takes from the store what it has, draws the rest through
the model's backend, and puts every run into the store as soon as it exists.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

from lmrel_tasks.filters.canonical import canonical
from lmrel_tasks.identity import cell_key, model_identity, run_key
from lmrel_tasks.metrics.stopping import next_round
from lmrel_tasks.request import NOT_DRAWN, Plan, SampleRequest
from lmrel_tasks.run import Capture, Run, share_captures
from lmrel_tasks.sampling import Cell, run_seed, sample_runs
from lmrel_tasks.sampling.api_facts import server_facts
from lmrel_tasks.sampling.identical import identical_texts_warning
from lmrel_tasks.settings import sampling_temperature
from lmrel_tasks.store import Store

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
    key: bytes | None = None

    def cell(self, indices: Sequence[int]) -> Cell:
        settings = self.plan.settings
        return Cell(
            prompt=self.request.arguments[0],
            generation=self.request.arguments[1],
            run_indices=tuple(indices),
            seeds=tuple(self.seed(index) for index in indices),
            top_logprobs=settings.top_logprobs,
            logprobs=settings.logprobs,  # type: ignore[arg-type]
            options=self.options,
        )

    def add(self, runs: Mapping[int, Run]) -> None:
        """Put runs with the cell's others."""
        self.runs.update(runs)
        if len(self.runs) == self.wanted:
            self.finish()

    def finish(self) -> None:
        """Make a cell that gets no more runs smaller."""
        share_captures([self.runs[index] for index in sorted(self.runs)])

    @property
    def options(self) -> dict[str, Any]:
        """Options of the backend."""
        most = self.plan.settings.max_n
        return {
            **({"max_n": most} if most else {}),
            **({"first_tokens": True} if self.plan.first_tokens else {}),
        }

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
    load_backends()
    cells = _group(requests)
    total = sum(one.wanted for one in cells)
    quiet = disable_tqdm or getattr(lm, "rank", 0) != 0
    with (
        _shelf(lm, cells) as shelf,
        tqdm(total=total, desc="Sampling runs", unit="run", disable=quiet) as bar,
    ):
        tokens = 0
        for run in _draw(lm, cells, shelf):
            tokens += run.capture.tokens or 0
            retries = server_facts(lm).retries
            noted = f"{tokens} tokens" + (f", {retries} retries" if retries else "")
            bar.set_postfix_str(noted, refresh=False)
            bar.update()
        # What a stopping rule left out is done too.
        bar.update(total - bar.n)
    _warn_if_identical(cells)
    _check_missing(cells)
    return [run for one in cells for run in one.row()]


class Shelf:
    """The places of this study's runs in the store; without a store it keeps nothing."""

    def __init__(self, lm: Any, paths: Iterable[str]) -> None:
        self.stores = {path: Store.open(path) for path in paths}
        self.model = model_identity(lm) if self.stores else {}

    def kept(self, one: Progress, indices: Iterable[int]) -> dict[int, Run]:
        """Those of the runs that the store has."""
        store = self._store(one)
        if store is None:
            return {}
        keys = {self._key(one, index): index for index in indices}
        return {keys[key]: run for key, run in store.get_many(keys).items()}

    def keep(self, one: Progress, index: int, run: Run) -> None:
        """Put a run into the store."""
        store = self._store(one)
        if store is not None:
            about = {
                "model": self.model,
                "task": one.plan.task,
                "item": one.plan.item,
                "condition": one.plan.condition,
                "run": index,
            }
            store.put(self._key(one, index), run, about)

    def _store(self, one: Progress) -> Store | None:
        return self.stores.get(one.plan.settings.store or "")

    def _key(self, one: Progress, index: int) -> bytes:
        if one.key is None:
            settings = one.plan.settings
            one.key = cell_key(
                self.model,
                one.request.arguments[0],
                one.request.arguments[1],
                one.plan.item,
                one.plan.condition,
                {
                    "top_logprobs": settings.top_logprobs,
                    "logprobs": settings.logprobs,
                    **({"first_tokens": True} if one.plan.first_tokens else {}),
                },
            )
        return run_key(one.key, one.seed(index), index)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()


@contextmanager
def _shelf(lm: Any, cells: Sequence[Progress]) -> Iterator[Shelf]:
    shelf = Shelf(lm, {path for one in cells if (path := one.plan.settings.store)})
    try:
        yield shelf
    finally:
        shelf.close()


def load_backends() -> None:
    """Import the backends of the model classes that this process has imported."""
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


def _draw(lm: Any, cells: Sequence[Progress], shelf: Shelf) -> Iterator[Run]:
    """Draw the runs of all cells in rounds; yields each run that is there.

    Without a stopping rule there is one round. With one, each round asks every unfinished cell
    for the fewest runs after which its rule could stop.
    """
    waiting = list(cells)
    while asked := [(one, indices) for one in waiting if (indices := one.next_indices())]:
        waiting = [one for one, _ in asked if one.rule]
        for one, indices in asked:
            kept = shelf.kept(one, indices)
            one.add(kept)
            if any(not run.missing for run in kept.values()):
                server_facts(lm).answered_before = True
            yield from kept.values()
        short = [
            (one, left) for one, all_ in asked if (left := [i for i in all_ if i not in one.runs])
        ]
        if not short:
            continue
        for position, index, run in sample_runs(lm, [one.cell(left) for one, left in short]):
            one = short[position][0]
            shelf.keep(one, index, run)
            one.add({index: run})
            yield run
    for one in cells:
        if len(one.runs) < one.wanted:
            one.finish()


def _warn_if_identical(cells: Sequence[Progress]) -> None:
    groups: dict[tuple[str, str], list[Progress]] = defaultdict(list)
    for one in cells:
        groups[one.plan.task, one.plan.condition].append(one)
    for (task, condition), group in groups.items():
        temperature = sampling_temperature(group[0].request.arguments[1])
        texts = [[run for run in one.runs.values() if not run.missing] for one in group]
        if warning := identical_texts_warning(texts, temperature):
            log.warning("task %s, condition %s: %s", task, condition, warning)


def _check_missing(cells: Sequence[Progress]) -> None:
    for task, group in _by_task(cells).items():
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


def _by_task(cells: Sequence[Progress]) -> dict[str, list[Progress]]:
    groups: dict[str, list[Progress]] = defaultdict(list)
    for one in cells:
        groups[one.plan.task].append(one)
    return groups
