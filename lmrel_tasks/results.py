"""Reading what the harness wrote: results files, sample files, and the items in them.

A folder may hold several models, several dates, half-written files and other things; whatever
cannot be read is named, and the rest is used.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.options import item_from

log = logging.getLogger(__name__)

# In the order in which they are tried: `--output_path x.json` makes `x_DATE.json`, a folder
# `results_DATE.json`. The harness's date is its clock's ISO time with "-" for ":".
_NAMES = (
    re.compile(r".+_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.json"),
    re.compile(r"results_(.+)\.json"),
)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d-\d\d-\d\d(\.\d+)?)?")
_CAPTURED = ("entropy", "certainty", "top_k", "logprob", "tokens")


@dataclass(frozen=True)
class Evaluation:
    """One run of the harness: a results file and the sample files beside it.

    Attributes:
        path: the results file.
        date: its date stamp, as in the file name; any other word where that was renamed.
        content: the results file's content.
    """

    path: Path
    date: str
    content: Mapping[str, Any]

    @property
    def age(self) -> tuple[bool, str, float]:
        """Sorts by time, see `age_of`."""
        return age_of(self.path)

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

    def size(self, task: str) -> int | None:
        """Items of a task or group; None if the file does not say."""
        row = self.content["results"].get(task, {})
        counts = self.content.get("n-samples", {}).get(task) or {}
        size = counts.get("effective", row.get("sample_len"))
        return size if isinstance(size, int) else None

    def samples_path(self, task: str) -> Path | None:
        """The task's sample file, or None if the run logged none."""
        path = self.path.with_name(f"samples_{task}_{self.date}.jsonl")
        return path if path.exists() else None


def date_of(path: Path) -> str | None:
    """The date stamp in the name of a results file; None if it is not named like one."""
    return next((found[1] for name in _NAMES if (found := name.fullmatch(path.name))), None)


def age_of(path: Path) -> tuple[bool, str, float]:
    """Sorts results files from old to new.

    Returns:
        (has a date, date, time of the last change): a name whose stamp is no date is older than
        any date, since the harness writes none; those are sorted by the time of the change.
    """
    date = date_of(path) or ""
    if _ISO_DATE.fullmatch(date):
        return True, date, 0.0
    return False, "", path.stat().st_mtime if path.exists() else 0.0


def results_files(folder: Path) -> list[Path]:
    """What is named like a results file below a folder, sorted."""
    return sorted(path for path in folder.rglob("*.json") if date_of(path) is not None)


def find_evaluations(paths: Iterable[str | Path], *, latest: bool = True) -> list[Evaluation]:
    """All harness results below some folders (or given as files).

    Args:
        paths: folders, searched to the bottom, or results files.
        latest: keep only the newest evaluation of each model and task set.

    Raises:
        FileNotFoundError: if a path does not exist or holds no readable results file.
    """
    found: list[Evaluation] = []
    for given in map(Path, paths):
        if not given.exists():
            raise FileNotFoundError(f"{given}: no such file or folder{_dated(given)}")
        files = [given] if given.is_file() else results_files(given)
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
    for one in sorted(found, key=lambda one: one.age):
        newest[(str(one.path.parent), one.model, tuple(sorted(one.tasks)))] = one
    return list(newest.values())


def _dated(given: Path) -> str:
    """A hint for who gives the name that ``--output_path`` had."""
    if given.suffix != ".json" or not given.parent.is_dir():
        return ""
    names = [one.name for one in given.parent.iterdir() if one.name.startswith(f"{given.stem}_")]
    dated = sorted(name for name in names if date_of(Path(name)) is not None)
    return f"; the harness adds the date: {dated[-1]}" if dated else ""


def _read(path: Path) -> Evaluation | None:
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
        _check_groups(content.get("group_subtasks") or {})
    except (ValueError, OSError, AttributeError, RecursionError) as error:
        log.warning("%s: not a readable results file (%s); skipped", path, error)
        return None
    return Evaluation(path, date_of(path) or path.stem, content)


def _check_groups(groups: Any) -> None:
    if not isinstance(groups, dict):
        raise ValueError("its `group_subtasks` is no mapping")
    for group, names in groups.items():
        listed = names is None or isinstance(names, list)
        if not listed or not all(isinstance(name, str) for name in names or ()):
            raise ValueError(f"`{group}` in its `group_subtasks` is no list of names")


def read_samples(path: Path, broken: list[int] | None = None) -> Iterator[dict[str, Any]]:
    """The lines of a sample file, one at a time; a broken line is named and skipped.

    Args:
        path: the file.
        broken: takes the numbers of the broken lines.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                # The decoder would take other encodings from bytes, UTF-16 for one.
                sample = json.loads(line.decode("utf-8"))
                if not isinstance(sample, dict):
                    raise ValueError("not an object")
            except (ValueError, RecursionError) as error:
                log.warning("%s, line %d: %s; skipped", path, number, error)
                if broken is not None:
                    broken.append(number)
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
    conditions = [
        _condition(name, [cell] if isinstance(cell, str) else cell, notes)
        for name, cell, notes in zip(names, texts, captured, strict=False)
    ]
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


def _condition(name: str, cell: Iterable[Any], notes: Sequence[Mapping[str, Any]]) -> Condition:
    """A cell from its texts and what was noted of their runs.

    What `measures.condition_of` makes of `Run` objects, without making a million of them.
    """
    runs = [(str(text), note) for text, note in zip(cell, chain(notes, repeat({})), strict=False)]
    arrived = [(text, note) for text, note in runs if note.get("error") is None]
    # NumPy takes None for NaN.
    columns = np.array([[note.get(x) for _, note in arrived] for x in _CAPTURED], dtype=np.float64)
    return Condition(
        name=name,
        texts=tuple([text for text, _ in arrived]),
        answers=tuple([_answer(text, note) for text, note in arrived]),
        **dict(zip(_CAPTURED, columns, strict=True)),
        missing=len(runs) - len(arrived),
        asked=len(runs),
    )


def _answer(text: str, note: Mapping[str, Any]) -> str:
    """The canonical answer, or the text where no filter has looked for one."""
    answer = note.get("answer")
    return text.strip() if answer is None else answer
