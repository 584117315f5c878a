"""The ``behaviour`` filter: a generated program's answer is what it does on its tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lm_eval.api.filter import Filter
from tqdm import tqdm

from lmrel_tasks.code_execution import Limits, no_program, program_of, run_program
from lmrel_tasks.filters.answer import give_answer

log = logging.getLogger(__name__)

Job = tuple[str, str, str]


class BehaviourFilter(Filter):
    """Run every completion against its document's tests, and attach the class as its answer.

    The answer is ``pass`` or how the program failed; see `lmrel_tasks.code_execution.Outcome`.
    Equal programs of a document run once; different ones side by side, one per processor.

    Args:
        cpu_seconds: processor time of a program.
        memory_mb: its memory in MiB.
        workers: programs at a time; the number of processors by default.
        prompt, tests, entry_point: the document's fields with the function's head, the tests
            (source of ``check(candidate)``) and the function's name.

    Raises:
        ValueError: if a document lacks a field.
    """

    def __init__(
        self,
        cpu_seconds: int = 5,
        memory_mb: int = 1024,
        workers: int | None = None,
        prompt: str = "prompt",
        tests: str = "test",
        entry_point: str = "entry_point",
    ) -> None:
        if cpu_seconds < 1 or memory_mb < 64:
            raise ValueError("filter behaviour: needs cpu_seconds >= 1 and memory_mb >= 64")
        self.limits = Limits(cpu_seconds, 4.0 * cpu_seconds, memory_mb)
        self.workers = workers or os.cpu_count() or 1
        self.fields = (prompt, tests, entry_point)

    def apply(self, resps: Iterable[Any], docs: Sequence[Any]) -> list[Any]:
        """Answers for a whole task; ``resps`` and ``docs`` as in the filter ``answer``."""
        cells = [([cell], True) if isinstance(cell, str) else (list(cell), False) for cell in resps]
        jobs = [
            [self._job(str(run), doc) for run in runs]
            for (runs, _), doc in zip(cells, docs, strict=True)
        ]
        answers = self._run({job for row in jobs for job in row if job is not None})
        filtered: list[Any] = []
        for (runs, single), row in zip(cells, jobs, strict=True):
            answered = [
                give_answer(run, no_program(run) if job is None else answers[job])
                for run, job in zip(runs, row, strict=True)
            ]
            filtered.append(answered[0] if single else answered)
        return filtered

    def _job(self, completion: str, doc: Any) -> Job | None:
        for field in self.fields:
            if field not in doc:
                raise ValueError(
                    f"filter behaviour: the document has no field {field!r}; "
                    f"its fields: {', '.join(map(str, doc))}"
                )
        prompt, tests, entry_point = (doc[field] for field in self.fields)
        program = program_of(prompt, completion, entry_point)
        return None if program is None else (program, tests, entry_point)

    def _run(self, jobs: set[Job]) -> dict[Job, str]:
        ordered = sorted(jobs)
        with ThreadPoolExecutor(self.workers) as pool:
            outcomes = list(
                tqdm(
                    pool.map(lambda job: run_program(job[0], job[1], job[2], self.limits), ordered),
                    total=len(ordered), desc="Running programs", disable=len(ordered) < 100,
                )
            )  # fmt: skip
        if any(outcome.network == "patched" for outcome in outcomes):
            log.warning(
                "the kernel permits no user namespaces here: programs under test were kept from "
                "the network by a disabled socket module only"
            )
        return {job: outcome.answer for job, outcome in zip(ordered, outcomes, strict=True)}
