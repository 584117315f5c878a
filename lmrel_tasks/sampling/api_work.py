"""Many requests at once in a thread of their own, their runs handed on as they arrive."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sampling import Cell
from lmrel_tasks.sampling.api_facts import ServerFacts, adapt, most_choices, request_payload
from lmrel_tasks.sampling.api_parse import (
    Reading,
    all_alike,
    choices_of,
    completion_tokens,
    has_logprobs,
    run_of,
)
from lmrel_tasks.sampling.http import (
    ApiError,
    Endpoint,
    FieldRefused,
    Filtered,
    Gate,
    Temporary,
    TooLong,
    post,
)

# Answers that wait for the consumer before the workers pause.
MOST_WAITING = 1000
# Requests with identical choices that are checked before the server is trusted.
ENOUGH_PROBES = 3
# Requests given up in a row, without one valid answer ever, before the address is called dead.
DEAD_AFTER = 5
# The same where earlier runs are in the store: what is left may be just the prompts that always
# fail, and they are missing runs, no reason to end without results.
DEAD_AFTER_ANSWERS = 200


@dataclass(frozen=True)
class Study:
    """What is to be drawn, where, and what is known about the server.

    Attributes:
        cells: the cells.
        endpoint: where to post.
        facts: what is known about the server.
        request: the harness's payload of a cell.
        reading: how a cell's answers are read.
    """

    cells: Sequence[Cell]
    endpoint: Endpoint
    facts: ServerFacts
    request: Callable[[Cell], Mapping[str, Any]]
    reading: Callable[[Cell], Reading]


Answer = list[tuple[int, Run]]


@dataclass
class _Job:
    cell: int
    positions: list[int]


def stream(study: Study) -> Iterator[tuple[int, int, Run]]:
    """Draw every run of the study; yield the runs of one answer one after the other.

    ``run.pending`` is the number of runs of the same answer that are still to come.

    Raises:
        ApiError: when the server refuses the requests; what had been answered is yielded first.
    """
    arrived: queue.SimpleQueue[tuple[int, Answer] | BaseException | None] = queue.SimpleQueue()
    pool = _Pool(study, arrived)
    thread = threading.Thread(target=pool.run, name="lmrel-requests", daemon=True)
    thread.start()
    try:
        while (got := arrived.get()) is not None:
            if isinstance(got, BaseException):
                raise got
            cell, answer = got
            for left, (position, run) in zip(range(len(answer) - 1, -1, -1), answer, strict=True):
                run.pending = left
                yield cell, study.cells[cell].run_indices[position], run
    finally:
        pool.cancel()
        thread.join()


class _Pool:
    """Workers over one list of jobs. The list grows when a server gives fewer runs than asked."""

    def __init__(self, study: Study, arrived: queue.SimpleQueue[Any]) -> None:
        self.study = study
        self.arrived = arrived
        self.jobs = deque(
            _Job(index, list(range(len(cell.seeds))))
            for index, cell in enumerate(study.cells)
            if cell.seeds
        )
        self.prepared: dict[int, tuple[Mapping[str, Any], Reading]] = {}
        self.left = [len(cell.seeds) for cell in study.cells]
        self.busy = 0
        self.given_up = 0
        self.fatal: BaseException | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.main: asyncio.Task[None] | None = None
        self.started = threading.Event()

    def run(self) -> None:
        """The thread's work: ends with None, or the exception that ended it, in the queue."""
        try:
            asyncio.run(self._drive())
        except asyncio.CancelledError:
            self.fatal = None
        except BaseException as error:
            self.fatal = error
        finally:
            self.started.set()
        self.arrived.put(self.fatal)

    def cancel(self) -> None:
        """Drop what is under way. Harmless after the end."""
        self.started.wait()
        if self.loop is not None and self.main is not None and not self.loop.is_closed():
            try:
                self.loop.call_soon_threadsafe(self.main.cancel)
            except RuntimeError:
                return

    async def _drive(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.main = asyncio.current_task()
        self.started.set()
        self.gate = Gate()
        self.wake = asyncio.Event()
        total = sum(self.left)
        async with self.study.endpoint.session() as session:
            workers = [
                asyncio.create_task(self._work(session))
                for _ in range(min(self.study.endpoint.concurrent, total))
            ]
            await asyncio.gather(*workers)

    async def _work(self, session: aiohttp.ClientSession) -> None:
        while self.fatal is None:
            if not self.jobs:
                if not self.busy:
                    break
                self.wake.clear()
                await self.wake.wait()
                continue
            while self.arrived.qsize() >= MOST_WAITING:
                await asyncio.sleep(0.01)
            if not self.jobs:
                continue
            job = self._take()
            self.busy += 1
            try:
                await self._ask(session, job)
            except Exception as error:
                # The others finish what they have sent: it is paid for.
                self.fatal = self.fatal or error
                self.gate.stopping.set()
            finally:
                self.busy -= 1
                self.wake.set()
        self.wake.set()

    def _take(self) -> _Job:
        job = self.jobs.popleft()
        size = most_choices(self.study.cells[job.cell], self.study.facts)
        if len(job.positions) > size:
            self._put_back(job.cell, job.positions[size:])
        return _Job(job.cell, job.positions[:size])

    def _put_back(self, cell: int, positions: list[int]) -> None:
        if positions:
            self.jobs.appendleft(_Job(cell, positions))
            self.wake.set()

    def _prepare(self, index: int) -> tuple[Mapping[str, Any], Reading]:
        if index not in self.prepared:
            cell = self.study.cells[index]
            self.prepared[index] = (self.study.request(cell), self.study.reading(cell))
        return self.prepared[index]

    def _deliver(self, cell: int, answer: Answer) -> None:
        self.arrived.put((cell, answer))
        self.left[cell] -= len(answer)
        if not self.left[cell]:
            self.prepared.pop(cell, None)

    async def _ask(self, session: aiohttp.ClientSession, job: _Job) -> None:
        try:
            answer, rest = await self._answer(session, job)
        except Filtered:
            self.given_up = 0
            answer, rest = self._each(job, finish_reason="content_filter"), []
        except TooLong as error:
            self.given_up = 0
            answer, rest = self._each(job, finish_reason="error", error=str(error)), []
        except Temporary as error:
            if self.fatal is not None:
                return
            self._check_alive(error)
            tries = self.study.endpoint.attempts
            words = f"{error} (asked {tries} times)" if tries > 1 else str(error)
            answer, rest = self._each(job, finish_reason="error", error=words), []
        self._put_back(job.cell, rest)
        self._deliver(job.cell, answer)

    def _each(self, job: _Job, **fields: Any) -> Answer:
        seeds = self.study.cells[job.cell].seeds
        return [(at, Run("", Capture(seed=seeds[at], **fields))) for at in job.positions]

    def _check_alive(self, error: Temporary) -> None:
        if self.study.facts.requests:
            return
        self.given_up += 1
        url = self.study.endpoint.url.split("?")[0]
        if error.unreachable and self.given_up >= DEAD_AFTER:
            raise ApiError(f"no server answers at {url}: {error}")
        # Requests under way at once may all have met the same short trouble.
        patience = DEAD_AFTER_ANSWERS if self.study.facts.answered_before else DEAD_AFTER
        if self.given_up >= max(patience, self.study.endpoint.concurrent):
            raise ApiError(
                f"{url} gave no valid answer to the first {self.given_up} requests, the last "
                f"time: {error}"
            )

    async def _answer(self, session: aiohttp.ClientSession, job: _Job) -> tuple[Answer, list[int]]:
        """The runs of one answer, and the positions that it leaves to be asked for."""
        cell, facts = self.study.cells[job.cell], self.study.facts
        choices = await self._choices(session, job.cell, job.positions)
        if len(choices) < len(job.positions) and (
            facts.choices is None or len(choices) < facts.choices
        ):
            facts.choices = len(choices)
        runs = choices[: len(job.positions)]
        answer = [
            (at, run.derive(seed=cell.seeds[at]))
            for at, run in zip(job.positions, runs, strict=False)
        ]
        rest = job.positions[len(answer) :]
        texts = [str(run) for run in runs]
        if len(set(texts)) > 1:
            facts.choices_differ = True
        if self._suspicious(job, texts):
            return await self._probe(session, job, answer, rest)
        return answer, rest

    def _suspicious(self, job: _Job, texts: list[str]) -> bool:
        base, _ = self._prepare(job.cell)
        hot = (base.get("temperature") or 0) > 0
        return hot and not self.study.facts.choices_differ and all_alike(texts)

    async def _probe(
        self, session: aiohttp.ClientSession, job: _Job, answer: Answer, rest: list[int]
    ) -> tuple[Answer, list[int]]:
        # Identical choices: is the model sure, or does the server seed every choice alike?
        cell, facts = self.study.cells[job.cell], self.study.facts
        second = answer[1][0]
        try:
            alone = (await self._choices(session, job.cell, [second]))[0]
        except Temporary:
            return answer[:1], [at for at, _ in answer[1:]] + rest
        if str(alone) == str(answer[0][1]):
            facts.probes += 1
            facts.choices_differ = facts.probes >= ENOUGH_PROBES
            return answer, rest
        facts.choices = 1
        facts.say_once(
            "alike",
            "the server gives every choice of a request the same text (one seed for all of "
            "them); runs are asked for one by one",
        )
        found = [answer[0], (second, alone.derive(seed=cell.seeds[second]))]
        return found, [at for at, _ in answer[2:]] + rest

    async def _choices(
        self, session: aiohttp.ClientSession, index: int, positions: list[int]
    ) -> list[Run]:
        """Ask once, with less of what the server refuses, and read all choices."""
        cell, facts = self.study.cells[index], self.study.facts
        base, reading = self._prepare(index)
        asked = list(positions)
        while True:
            asked = asked[: most_choices(cell, facts)]
            payload = request_payload(base, cell, asked, facts)
            try:
                body = await post(session, self.study.endpoint, self.gate, payload)
                break
            except FieldRefused as refused:
                if not adapt(facts, refused.name, refused.words, payload, cell.top_logprobs):
                    url = self.study.endpoint.url.split("?")[0]
                    raise ApiError(f"{url} answered {refused.words}") from None
        facts.requests += 1
        choices = choices_of(body)[: len(asked)]
        if facts.effective_k(cell.top_logprobs) and not has_logprobs(choices[0]):
            facts.say_once(
                "no logprobs",
                "the server sends no log-probabilities; internal metrics are left out",
            )
        tokens = completion_tokens(body)
        facts.runs += len(choices)
        facts.tokens += tokens or 0
        alone = tokens if len(choices) == 1 else None
        return [run_of(choice, reading, None, alone, facts.say_once) for choice in choices]
