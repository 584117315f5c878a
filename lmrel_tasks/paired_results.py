"""Scores of two or more results on the same items, paired by document.

Works on whatever the harness logged, stock tasks included: of a sample line only the hashes of
document, prompt and target and the per-item metric values are kept.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmrel_tasks.contestants import Contestant
from lmrel_tasks.results import Evaluation, samples_of
from lmrel_tasks.suggesting import did_you_mean

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """What one sample file says of a task under one filter, one row per item.

    Attributes:
        rows: key of an item (its document hash, numbered where a document occurs again) -> row.
        documents: per row, what marks items that are not independent: the document hash, or the
            value of the cluster field.
        prompts, targets: per row, leading 64 bits of the hashes.
        values: metric -> value per row; NaN where there is none.
        unusable: metrics whose per-item values are no numbers.
        expected: items the evaluation says it measured; None if it does not say.
    """

    rows: Mapping[str, int] = field(repr=False)
    documents: Sequence[str] = field(repr=False)
    prompts: NDArray[np.uint64] = field(repr=False)
    targets: NDArray[np.uint64] = field(repr=False)
    values: Mapping[str, FloatArray] = field(repr=False)
    unusable: frozenset[str]
    expected: int | None

    @property
    def complete(self) -> bool:
        """True if the file holds as many items as were measured, as far as is known."""
        return self.expected is None or len(self.rows) >= self.expected

    def at(self, keys: Sequence[str]) -> NDArray[np.intp]:
        """Rows of these items."""
        return np.fromiter((self.rows[key] for key in keys), dtype=np.intp, count=len(keys))


def read_scores(
    evaluation: Evaluation, task: str, *, cluster: str | None = None
) -> dict[str, Scores]:
    """Per-item scores of a task, ``filter -> Scores``; the file is read once, line by line.

    Args:
        evaluation, task: which.
        cluster: field of the documents whose value marks items that belong together.

    Raises:
        FileNotFoundError: if the run logged no samples.
        ValueError: if the file holds no usable line, or a document lacks the cluster field.
    """
    tables: dict[str, _Table] = {}
    for sample in samples_of(evaluation, task):
        name = str(sample.get("filter", "none"))
        if name not in tables:
            tables[name] = _Table()
        tables[name].add(sample, cluster, task)
    if not tables:
        raise ValueError(
            f"{evaluation.samples_path(task)}: no readable sample; run the evaluation again with "
            "--log_samples"
        )
    counts = evaluation.content.get("n-samples", {}).get(task) or {}
    return {name: table.done(counts.get("effective")) for name, table in tables.items()}


class _Table:
    """Columns that grow by sample; 8 bytes per number."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.documents: list[str] = []
        self.occurrences: Counter[str] = Counter()
        self.prompts, self.targets = array("Q"), array("Q")
        self.values: dict[str, array[float]] = {}
        self.unusable: set[str] = set()

    def add(self, sample: Mapping[str, Any], cluster: str | None, task: str) -> None:
        document = str(sample.get("doc_hash") or _hash(sample.get("doc")))
        self.occurrences[document] += 1
        times = self.occurrences[document]
        row = len(self.rows)
        self.rows[document if times == 1 else f"{document}#{times}"] = row
        if cluster is not None:
            fields = sample.get("doc")
            if not isinstance(fields, Mapping) or cluster not in fields:
                raise ValueError(
                    f"task {task}, document {sample.get('doc_id')}: no field {cluster!r} to "
                    "cluster by"
                )
            document = json.dumps(fields[cluster], sort_keys=True, ensure_ascii=False)
        self.documents.append(document)
        self.prompts.append(_leading(sample.get("prompt_hash")))
        self.targets.append(_leading(sample.get("target_hash")))
        for metric in sample.get("metrics") or ():
            value = sample.get(metric)
            if value is not None and not isinstance(value, (int, float)):
                self.unusable.add(metric)
                continue
            column = self.values.setdefault(metric, array("d"))
            column.extend([np.nan] * (row - len(column)))
            column.append(np.nan if value is None else float(value))

    def done(self, expected: int | None) -> Scores:
        n = len(self.rows)
        values = {}
        for metric, column in self.values.items():
            column.extend([np.nan] * (n - len(column)))
            if metric not in self.unusable:
                values[metric] = np.frombuffer(column, dtype=np.float64)
        return Scores(
            self.rows, self.documents, np.frombuffer(self.prompts, dtype=np.uint64),
            np.frombuffer(self.targets, dtype=np.uint64), values, frozenset(self.unusable),
            expected,
        )  # fmt: skip


def _hash(document: Any) -> str:
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _leading(digest: Any) -> int:
    try:
        return int(str(digest)[:16], 16)
    except ValueError:
        return 0


@dataclass(frozen=True)
class PairedTask:
    """A task under one filter, with the scores of all who ran it.

    Attributes:
        task, filter: which.
        contestants: who has it, in the order given.
        scores: theirs.
        keys: items that all of them share, in the order of the first.
    """

    task: str
    filter: str
    contestants: tuple[Contestant, ...]
    scores: tuple[Scores, ...] = field(repr=False)
    keys: tuple[str, ...] = field(repr=False)

    def metrics(self) -> list[str]:
        """Metrics that all have, with numbers per item."""
        return [m for m in self.scores[0].values if all(m in one.values for one in self.scores)]

    def values(self, metric: str) -> FloatArray:
        """(contestants, shared items) values of a metric."""
        return np.stack([one.values[metric][one.at(self.keys)] for one in self.scores])

    def clusters(self) -> list[str]:
        """Per shared item, what marks items that are not independent of each other."""
        first = self.scores[0]
        return [first.documents[row] for row in first.at(self.keys)]


def pair_tasks(
    contestants: Sequence[Contestant],
    *,
    tasks: Iterable[str] = (),
    cluster: str | None = None,
    notes: list[str] | None = None,
) -> Iterator[PairedTask]:
    """Every task and filter that two contestants or more have samples of.

    Args:
        contestants: who is compared.
        tasks: tasks to read; all by default.
        cluster: see `read_scores`.
        notes: takes sentences on what had to be left out.

    Raises:
        FileNotFoundError: if nobody logged samples of anything that two have.
        ValueError: if a task asked for is not there, or files hold nothing usable.
    """
    told = [] if notes is None else notes
    known = list(dict.fromkeys(task for one in contestants for task in one.tasks))
    wanted = list(tasks) or known
    for task in wanted:
        if task not in known:
            raise ValueError(
                f"no results of task {task}{did_you_mean(task, known)}; there are "
                f"{', '.join(known)}"
            )
    read, last = False, ""
    for task in wanted:
        by_filter: dict[str, list[tuple[Contestant, Scores]]] = {}
        for one in contestants:
            evaluation = one.newest(task)
            if evaluation is None:
                told.append(f"{one.name} has no results of task {task}.")
                continue
            try:
                scores = read_scores(evaluation, task, cluster=cluster)
            except FileNotFoundError as error:
                last = str(error)
                told.append(f"{one.name}: {error}.")
                continue
            for name, table in scores.items():
                by_filter.setdefault(name, []).append((one, table))
        for name, pairs in by_filter.items():
            if len(pairs) < 2:
                continue
            read = True
            others = [set(table.rows) for _, table in pairs[1:]]
            keys = [key for key in pairs[0][1].rows if all(key in one for one in others)]
            yield PairedTask(
                task, name, tuple(one for one, _ in pairs), tuple(s for _, s in pairs), tuple(keys)
            )
    if not read:
        raise FileNotFoundError(
            "no task of which two results have samples; write them with "
            "`lm_eval run ... --output_path DIR --log_samples`" + (f" ({last})" if last else "")
        )
