"""Making the JSONL file of an items' paraphrases, in as many sittings as it takes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmrel_tasks.identity import cell_key, model_identity, run_key
from lmrel_tasks.paraphrasing import Matching, ModelSearch, Paraphrases, lexical
from lmrel_tasks.run import Run
from lmrel_tasks.sampling import Cell, run_seed, sample_runs
from lmrel_tasks.store import Store
from lmrel_tasks.token_ids import Tokens

KIND = "lmrel paraphrases"


@dataclass(frozen=True)
class Job:
    """One item's paraphrases to make.

    Attributes:
        item: the item's hash.
        targeted: name of the targeted condition.
        text, edited: the original and its targeted edit.
    """

    item: str
    targeted: str
    text: str
    edited: str


@dataclass(frozen=True)
class Work:
    """How paraphrases are made.

    Attributes:
        tokens: tokenizer of the model under test.
        matching: when one counts.
        count: how many per item.
        attempts: replies of a model per wanted paraphrase.
        seed: same seed, same paraphrases.
    """

    tokens: Tokens
    matching: Matching
    count: int = 1
    attempts: int = 6
    seed: int = 0


class BaselineFile:
    """A file of paraphrases that is continued where it ended.

    Args:
        path: the file.
        heading: how its paraphrases are made; kept in its first line.

    Raises:
        ValueError: if the file exists and its paraphrases were made otherwise.
    """

    def __init__(self, path: Path, heading: Mapping[str, Any]) -> None:
        self.path = path
        self.heading = {"kind": KIND, **heading}
        self.done: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        if path.exists() and path.stat().st_size:
            self._continue()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.heading, ensure_ascii=False) + "\n", encoding="utf-8")

    def _continue(self) -> None:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):  # a line that a kill cut short
            os.truncate(self.path, len(whole))
        try:
            rows = [json.loads(line) for line in whole.decode("utf-8").split("\n") if line.strip()]
        except ValueError as error:
            raise ValueError(
                f"{self.path} exists and is no file of paraphrases ({error}); name another one"
            ) from None
        first = rows[0] if rows else {}
        other = [key for key, value in self.heading.items() if first.get(key) != value]
        if other:
            raise ValueError(
                f"{self.path} was made with another {other[0]} ({first.get(other[0])!r}, now "
                f"{self.heading[other[0]]!r}); write to another file, or remove it"
            )
        for row in rows[1:]:
            self.done.setdefault((row["item"], row["targeted"]), []).append(row)

    def left(self, jobs: Sequence[Job], *, again: bool = False) -> list[Job]:
        """The jobs that the file does not have; with ``again`` also those that failed."""

        def finished(job: Job) -> bool:
            rows = self.done.get((job.item, job.targeted), [])
            return bool(rows) and not (again and any(row["text"] is None for row in rows))

        return [job for job in jobs if not finished(job)]

    def add(self, job: Job, found: Paraphrases) -> None:
        """Write the outcome of a job: a line per paraphrase, and one for a failure."""
        lines: list[dict[str, Any]] = []
        about = {"item": job.item, "targeted": job.targeted}
        for number, (text, check) in enumerate(zip(found.texts, found.checks, strict=False)):
            lines.append({**about, "number": number, "text": text, **_measured(check)})
        if found.reasons:
            near = _measured(found.checks[0]) if found.checks and not found.texts else {}
            lines.append(
                {**about, "number": len(found.texts), "text": None, **near,
                 "reasons": list(found.reasons)}
            )  # fmt: skip
        for line in lines:
            line["attempts"] = found.attempts
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        self.done[job.item, job.targeted] = list(lines)

    def summary(self, jobs: Sequence[Job]) -> str:
        """How many items have their paraphrases, and why the others have none."""
        rows = [self.done.get((job.item, job.targeted), []) for job in jobs]
        good = sum(any(row["text"] is not None for row in one) for one in rows)
        failed = Counter(
            _kind(reason)
            for one in rows
            if not any(row["text"] is not None for row in one)
            for row in one
            for reason in row.get("reasons", ())
        )
        lines = [f"{good} of {len(jobs)} items have a paraphrase ({self.path})"]
        lines += [f"  {count} x {reason}" for reason, count in failed.most_common()]
        return "\n".join(lines)


def _measured(check: Any) -> dict[str, Any]:
    return {
        "edit_fraction": check.fraction, "target_fraction": check.target_fraction,
        "edits": check.edits, "target_edits": check.target_edits, "cosine": check.cosine,
    }  # fmt: skip


def _kind(reason: str) -> str:
    return reason.split(" (")[0]


def make_lexical(file: BaselineFile, jobs: Sequence[Job], work: Work) -> None:
    """Paraphrases without a language model."""
    for job in tqdm(jobs, desc="Paraphrasing", unit="item"):
        file.add(
            job,
            lexical(
                job.text, job.edited, work.tokens.ids, count=work.count, matching=work.matching,
                seed=work.seed,
            ),
        )  # fmt: skip


def make_by_model(
    file: BaselineFile, jobs: Sequence[Job], work: Work, lm: Any, store: Store | None = None
) -> None:
    """Paraphrases of a language model, all items in rounds, failures asked again.

    Args:
        lm: a harness model.
        store: keeps its replies, so that a second sitting pays for none again.
    """
    from lmrel_tasks.judge import as_chat

    pending = {
        place: ModelSearch(
            job.text, job.edited, work.tokens.ids, work.matching, work.count, work.attempts
        )
        for place, job in enumerate(jobs)
    }
    with tqdm(total=len(jobs), desc="Paraphrasing", unit="item") as bar:

        def finish(place: int) -> None:
            file.add(jobs[place], pending.pop(place).result())
            bar.update()

        for place in [place for place, one in pending.items() if one.done]:
            finish(place)
        while pending:
            asked = list(pending)
            cells = [_cell(jobs[at], pending[at], work, as_chat(lm, pending[at].prompt))
                     for at in asked]  # fmt: skip
            for position, reply in _replies(lm, cells, [jobs[at] for at in asked], store):
                place = asked[position]
                search = pending[place]
                if reply.missing:
                    search.attempts += 1
                    search.reasons[f"no reply ({reply.capture.error})"] = None
                    done = search.attempts >= search.most
                else:
                    done = search.take_reply(str(reply))
                if done:
                    finish(place)


def _cell(job: Job, search: ModelSearch, work: Work, prompt: Any) -> Cell:
    tokens = 2 * len(work.tokens.ids(job.text)) + 64
    generation = {
        "do_sample": True, "temperature": 0.7, "until": [],
        # Few different limits, so that many items decode together.
        "max_gen_toks": -(-tokens // 128) * 128,
    }  # fmt: skip
    turn = search.attempts
    seed = run_seed(work.seed, job.item, f"paraphrase:{job.targeted}", turn)
    return Cell(prompt, generation, (turn,), (seed,))


def _replies(
    lm: Any, cells: Sequence[Cell], jobs: Sequence[Job], store: Store | None
) -> Iterator[tuple[int, Run]]:
    if store is None:
        yield from ((at, run) for at, _, run in sample_runs(lm, cells))
        return
    identity = model_identity(lm)
    keys = [
        run_key(
            cell_key(identity, cell.prompt, dict(cell.generation), job.item, job.targeted, {}),
            cell.seeds[0], cell.run_indices[0],
        )
        for cell, job in zip(cells, jobs, strict=True)
    ]  # fmt: skip
    kept = store.get_many(keys)
    left = [at for at, key in enumerate(keys) if key not in kept]
    yield from ((at, kept[key]) for at, key in enumerate(keys) if key in kept)
    for position, index, run in sample_runs(lm, [cells[at] for at in left]) if left else ():
        at = left[position]
        about = {"model": identity, "task": "(paraphrase)", "item": jobs[at].item,
                 "condition": jobs[at].targeted, "run": index}  # fmt: skip
        store.put(keys[at], run, about)
        yield at, run


def from_results(results: str, output: Path) -> str:
    """Write what a ``lmrel_paraphrase_*`` task selected as a file of paraphrases.

    Returns:
        a sentence that says how many there are.

    Raises:
        FileNotFoundError: without results or samples.
        ValueError: if no such task is in the results, or the file exists.
    """
    from lmrel_tasks.results import find_evaluations, samples_of

    if output.exists():
        raise ValueError(f"{output} exists; write to another file, or remove it")
    rows: list[dict[str, Any]] = []
    for evaluation in find_evaluations([results]):
        for task in evaluation.tasks:
            if not task.startswith("lmrel_paraphrase_"):
                continue
            for sample in samples_of(evaluation, task):
                text = _selected(sample)
                reasons = {} if text else {"reasons": ["no candidate was acceptable"]}
                row = {"item": sample["lmrel"]["item"], "number": 0, "text": text or None}
                rows.append({**row, **reasons})
    if not rows:
        raise ValueError(f"{results}: no task lmrel_paraphrase_* in these results")
    heading = {"kind": KIND, "from": Path(results).name}
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in (heading, *rows)]
    output.write_text("".join(lines), encoding="utf-8")
    return f"{sum(row['text'] is not None for row in rows)} of {len(rows)} items have a paraphrase"


def _selected(sample: Mapping[str, Any]) -> str:
    cell = (sample.get("filtered_resps") or [""])[0]
    return str(cell if isinstance(cell, str) else (cell or [""])[0])
