"""Reading what the harness wrote: results files, sample files, and the items in them.

A folder may hold several models, several dates, half-written files and other things; whatever
cannot be read is named, and the rest is used.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmrel_tasks.measures import condition_of
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.options import item_from
from lmrel_tasks.run import Capture, Run

log = logging.getLogger(__name__)

_RESULTS = re.compile(r"results_(?P<date>.+)\.json")


@dataclass(frozen=True)
class Evaluation:
    """One run of the harness: a results file and the sample files beside it.

    Attributes:
        path: the results file.
        date: its date stamp, as in the file name; sorts by time.
        content: the results file's content.
    """

    path: Path
    date: str
    content: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The model's name as the harness recorded it."""
        name = self.content.get("model_name") or self.content.get("config", {}).get("model")
        return str(name or self.path.parent.name)

    @property
    def tasks(self) -> list[str]:
        """Names of the leaf tasks."""
        return list(self.content.get("configs", {}))

    def scores(self, task: str) -> dict[str, float]:
        """``metric -> value`` of a task or group, filter ``none`` without its name."""
        row = self.content.get("results", {}).get(task, {})
        return {
            key.removesuffix(",none"): value
            for key, value in row.items()
            if "," in key and isinstance(value, (int, float)) and "_stderr," not in key
        }

    def samples_path(self, task: str) -> Path | None:
        """The task's sample file, or None if the run logged none."""
        path = self.path.with_name(f"samples_{task}_{self.date}.jsonl")
        return path if path.exists() else None


def find_evaluations(paths: Iterable[str | Path], *, latest: bool = True) -> list[Evaluation]:
    """All harness results below some folders (or given as files).

    Args:
        paths: folders, searched to the bottom, or ``results_*.json`` files.
        latest: keep only the newest evaluation of each model and task set.

    Raises:
        FileNotFoundError: if a path does not exist or holds no readable results file.
    """
    found: list[Evaluation] = []
    for given in map(Path, paths):
        if not given.exists():
            raise FileNotFoundError(f"{given}: no such file or folder")
        files = [given] if given.is_file() else sorted(given.rglob("results_*.json"))
        read = [one for file in files if (one := _read(file)) is not None]
        if not read:
            raise FileNotFoundError(
                f"{given}: no readable results_*.json; make one with "
                "`lm_eval run ... --output_path DIR --log_samples`"
            )
        found += read
    if not latest:
        return found
    newest: dict[tuple[str, str, tuple[str, ...]], Evaluation] = {}
    for one in sorted(found, key=lambda one: one.date):
        newest[(str(one.path.parent), one.model, tuple(sorted(one.tasks)))] = one
    return list(newest.values())


def _read(path: Path) -> Evaluation | None:
    match = _RESULTS.fullmatch(path.name)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content.get("results"), dict):
            raise ValueError("it has no `results`")
        for field in ("config", "configs", "versions", "n-samples", "higher_is_better"):
            if not isinstance(content.get(field, {}), dict):
                raise ValueError(f"its `{field}` is no mapping")
        for field in ("results", "configs", "n-samples"):
            if not all(isinstance(one, dict) for one in content.get(field, {}).values()):
                raise ValueError(f"an entry of its `{field}` is no mapping")
    except (ValueError, OSError, AttributeError, RecursionError) as error:
        log.warning("%s: not a readable results file (%s); skipped", path, error)
        return None
    return Evaluation(path, match["date"] if match else path.stem, content)


def read_samples(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a sample file, one at a time; a broken line is named and skipped."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                sample = json.loads(line)
                if not isinstance(sample, dict):
                    raise ValueError("not an object")
            except (ValueError, RecursionError) as error:
                log.warning("%s, line %d: %s; skipped", path, number, error)
                continue
            yield sample


def samples_of(evaluation: Evaluation, task: str) -> Iterator[dict[str, Any]]:
    """The samples of a task.

    Raises:
        FileNotFoundError: if the run logged none; the message says which flag writes them.
    """
    path = evaluation.samples_path(task)
    if path is None:
        raise FileNotFoundError(
            f"{evaluation.path.parent}: no samples_{task}_{evaluation.date}.jsonl; "
            "run the evaluation with --log_samples"
        )
    return read_samples(path)


def item_of(sample: Mapping[str, Any]) -> Item:
    """An item as the metrics see it, from a line of a sample file.

    Lines of stock tasks (no ``lmrel`` record) become one condition whose answers are the filtered
    responses. Embeddings are not stored; see `lmrel_tasks.measures` to compute them again.

    Raises:
        ValueError: if the line has no responses.
    """
    record = sample.get("lmrel") or {}
    if "probabilities" in record:
        return item_from(record, sample.get("doc") or {})
    texts = sample.get("filtered_resps") or sample.get("resps")
    if not texts:
        raise ValueError(f"document {sample.get('doc_id')}: the sample has no responses")
    names = record.get("conditions") or ["default"]
    captured = record.get("runs") or [[] for _ in texts]
    conditions = []
    for name, cell, notes in zip(names, texts, captured, strict=False):
        runs = _runs([cell] if isinstance(cell, str) else cell, notes)
        arrived = [run for run in runs if not run.missing]
        conditions.append(condition_of(name, arrived, missing=len(runs) - len(arrived)))
    target = sample.get("target")
    stock = None if target is None else [str(target).strip()]
    labels = record.get("labels", None if record else stock)
    return Item(
        key=str(record.get("item") or sample.get("doc_hash") or sample.get("doc_id")),
        conditions=tuple(conditions),
        labels=tuple(labels or ()),
        has_label=labels is not None,
        fields=sample.get("doc") or {},
    )


def _runs(cell: Iterable[Any], notes: list[Mapping[str, Any]]) -> list[Run]:
    texts = [str(text) for text in cell]
    padded = [*notes, *({} for _ in range(len(texts) - len(notes)))]
    return [
        Run(text, Capture.from_dict(note), answer=note.get("answer"))
        for text, note in zip(texts, padded, strict=False)
    ]
