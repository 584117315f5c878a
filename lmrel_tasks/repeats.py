"""Items with repeated responses, read from what already exists.

Two kinds of files, read line by line: sample files of the harness (`samples_*.jsonl`, of our tasks
or of any task that generates text), and plain JSON lines ``{"id", "gold", "responses": [...]}``,
optionally with ``question`` and ``choices``. A gate must not judge what it has not read, so a
broken or doubtful line is an error that names file, line and field, and nothing is skipped.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from lmrel_tasks.filters.answer import options_of
from lmrel_tasks.filters.canonical import KINDS, canonical_all
from lmrel_tasks.labels import acceptable
from lmrel_tasks.results import date_of, find_evaluations, item_of, results_files

CLUSTER_KINDS = ("embedding", "judge")


@dataclass(frozen=True)
class Reading:
    """How answers are read from responses.

    Attributes:
        kind: kind of canonical answer; ``embedding`` and ``judge`` read texts, to be clustered
            afterwards; None takes the answers that a sample file of our tasks recorded.
        choices: answer options for ``mcq`` and ``label``: a list, or the name of a field of the
            document (of the line, in a plain file; ``choices`` is looked at by itself).
        condition: name of the condition to read; the first one by default.
        group: a field of the document (or of the line) that says which group an item is in.
        texts: keep one raw response of every answer, and the question.
        gold: require that gold answers are given; False where labels come from elsewhere.
    """

    kind: str | None = None
    choices: str | Sequence[str] | None = None
    condition: str | None = None
    group: str | None = None
    texts: bool = False
    gold: bool = True

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in (*KINDS, *CLUSTER_KINDS):
            raise ValueError(
                f"kind must be one of {', '.join((*KINDS, *CLUSTER_KINDS))}, got {self.kind!r}"
            )

    @property
    def text_kind(self) -> str | None:
        """The kind that texts are read by before any clustering."""
        return "text" if self.kind in CLUSTER_KINDS else self.kind


@dataclass(frozen=True)
class Repeats:
    """An item: the canonical answers of its runs, and its acceptable ones.

    Attributes:
        key: identity of the item, unique in its file.
        where: file and line, for messages.
        answers: one per run, ``""`` for a response without an answer.
        labels: acceptable answers, empty if none is right, None if that is unknown.
        group: value of the grouping field.
        question: what was asked, if kept and known.
        texts: answer -> the first response that gave it, if kept.
    """

    key: str
    where: str
    answers: tuple[str, ...]
    labels: tuple[str, ...] | None
    group: str | None = None
    question: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def inputs_of(paths: Sequence[str | Path]) -> list[tuple[str, Path]]:
    """``(name, file)`` of every set of items below some paths.

    Args:
        paths: files of items; folders or results files of the harness, of which every task's
            newest sample file is taken.

    Raises:
        FileNotFoundError: if a path does not exist or holds no items.
    """
    found: dict[Path, tuple[str, ...]] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file or folder")
        if path.is_file() and date_of(path) is None:
            found.setdefault(path, (str(path),))
            continue
        files = _sample_files(path)
        if not files:
            raise FileNotFoundError(
                f"{path}: no samples_*.jsonl; run the evaluation with --log_samples"
            )
        for names, file in files:
            found.setdefault(file, names)
    used = Counter(name for names in found.values() for name in set(names))
    return [
        (next((name for name in names if used[name] == 1), names[-1]), path)
        for path, names in found.items()
    ]


def _sample_files(path: Path) -> list[tuple[tuple[str, ...], Path]]:
    """Names of every sample file, the shortest first, and the file."""
    if path.is_dir() and not results_files(path):
        return [((str(file),), file) for file in sorted(path.rglob("samples_*.jsonl"))]
    found = [
        (one.model, task, file)
        for one in find_evaluations([path])
        for task in one.tasks
        if (file := one.samples_path(task)) is not None
    ]
    return [
        (
            (
                f"{_last_part(model)} {task}", f"{_last_part(model)} {task} ({path})",
                f"{model} {task}", f"{model} {task} ({file})",
            ),
            file,
        )
        for model, task, file in found
    ]  # fmt: skip


def _last_part(model: str) -> str:
    """The name of a model's folder; a hub name, ``owner/name``, stays as it is."""
    is_path = model.startswith((".", "~")) or model.count("/") > 1 or Path(model).is_absolute()
    return Path(model).name or model if is_path else model


def read_repeats(path: Path, reading: Reading) -> Iterator[Repeats]:
    """The items of a file, one at a time.

    Raises:
        ValueError: for a line that cannot be read, naming file, line and field; for two items of
            one identity, and for a file without items.
    """
    seen: dict[str, int] = {}
    pipeline: Any = None
    for number, row in _rows(path):
        where = f"{path}, line {number}"
        if "resps" in row:
            # Every filter pipeline of a task writes the same responses again.
            pipeline = row.get("filter") if pipeline is None else pipeline
            if row.get("filter") != pipeline:
                continue
            item = _sample(row, reading, where, seen)
        else:
            item = _plain(row, reading, where)
        if item.key in seen:
            raise ValueError(
                f"{where}: field id: {item.key!r} was line {seen[item.key]} already; give every "
                "item an id of its own, with all its responses on one line"
            )
        seen[item.key] = number
        yield item
    if not seen:
        raise ValueError(f"{path}: no items")


def json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """``(line number, object)`` of a file of JSON lines; a broken line is a ValueError."""
    return _rows(path)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    with _open(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            except UnicodeDecodeError as error:
                raise ValueError(f"{where}: not UTF-8 text ({error.reason})") from None
            except ValueError as error:
                raise ValueError(
                    f"{where}: not valid JSON ({error}); the file must hold one object a line"
                ) from None
            if not isinstance(row, dict):
                raise ValueError(f"{where}: {type(row).__name__} instead of an object")
            yield number, row


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return path.open("rb")


def _plain(row: Mapping[str, Any], reading: Reading, where: str) -> Repeats:
    if "responses" not in row:
        raise ValueError(
            f"{where}: neither `responses` nor `resps`; expected an object with id, gold and "
            f"responses, or a line of a samples file; its fields: {', '.join(row) or 'none'}"
        )
    key = row.get("id")
    if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
        raise ValueError(f"{where}: field id: expected a text or an integer, got {key!r}")
    if "gold" not in row and reading.gold:
        raise ValueError(
            f"{where}: field gold is missing; give the acceptable answer or a list of them, [] if "
            "no answer is right, null if it is unknown, or labels in a file of their own (--labels)"
        )
    responses = _texts(row["responses"], f"{where}: field responses")
    return _item(
        str(key), where, responses, row.get("gold"), _choices(row, reading, where),
        _group(row, reading, where), row.get("question"), reading,
    )  # fmt: skip


def _sample(
    row: Mapping[str, Any], reading: Reading, where: str, seen: Mapping[str, int]
) -> Repeats:
    record = row.get("lmrel") or {}
    doc = row.get("doc") if isinstance(row.get("doc"), Mapping) else {}
    assert doc is not None
    key = str(record.get("item") or row.get("doc_hash") or row.get("doc_id"))
    if key in seen:
        # The same question twice in the data is two items; the same document twice is a mistake.
        key = f"{key}#{row.get('doc_id')}"
    names = record.get("conditions") or ["default"]
    if reading.condition is not None and reading.condition not in names:
        raise ValueError(
            f"{where}: no condition {reading.condition!r}; the file has {', '.join(names)}"
        )
    at = 0 if reading.condition is None else names.index(reading.condition)
    cells = row["resps"]
    if not isinstance(cells, list) or len(cells) <= at:
        raise ValueError(f"{where}: field resps: no list of responses for condition {names[at]}")
    responses = _texts(cells[at], f"{where}: field resps")
    question = _question(row, doc, at)
    group = _group(doc, reading, where)
    if reading.kind is not None:
        # A record without labels means that they are unknown; its target is then "".
        target = record.get("labels") if record else row.get("target")
        choices = _choices(doc, reading, where)
        return _item(key, where, responses, target, choices, group, question, reading)
    if not record:
        raise ValueError(
            f"{where}: a file of a stock task records no canonical answers; say how to read them "
            f"with --kind ({', '.join(KINDS)})"
        )
    item = item_of(row)
    condition = item.conditions[at]
    labels = item.labels if item.has_label else None
    return Repeats(
        key, where, condition.answers, labels, group,
        question if reading.texts else None,
        _first_texts(condition.answers, condition.texts) if reading.texts else {},
    )  # fmt: skip


def _item(
    key: str,
    where: str,
    responses: Sequence[str],
    gold: Any,
    choices: Sequence[str] | None,
    group: str | None,
    question: Any,
    reading: Reading,
) -> Repeats:
    kind = reading.text_kind
    if kind is None:
        raise ValueError(f"{where}: say how to read the responses with --kind ({', '.join(KINDS)})")
    if kind == "label" and not choices:
        raise ValueError(f"{where}: kind label needs --choices: the labels, or the field with them")
    answers = tuple(canonical_all(responses, kind, choices))
    labels = None
    if reading.gold:
        _check_gold(gold, where)
        try:
            labels = acceptable(gold, kind, choices)
        except ValueError as error:
            raise ValueError(f"{where}: field gold: {error}") from None
    return Repeats(
        key, where, answers, labels, group,
        str(question) if reading.texts and question is not None else None,
        _first_texts(answers, responses) if reading.texts else {},
    )  # fmt: skip


def _check_gold(gold: Any, where: str) -> None:
    for one in gold if isinstance(gold, list) else [gold]:
        if isinstance(one, (bool, Mapping, list)) or (one is None and isinstance(gold, list)):
            raise ValueError(
                f"{where}: field gold: expected a text, a number or a list of them, got {gold!r}"
            )


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(f"{where}: expected a list of texts, got {type(value).__name__}")
    for position, text in enumerate(value):
        if text is not None and not isinstance(text, str):
            hint = (
                "log-likelihoods are no responses, use a task that generates text"
                if isinstance(text, list)
                else "write every response as a text"
            )
            raise ValueError(
                f"{where}[{position}]: expected a text, got {type(text).__name__} {text!r:.60}; "
                f"{hint}"
            )
    # A server's null content is a response without an answer.
    return ["" if text is None else text for text in value]


def _choices(source: Mapping[str, Any], reading: Reading, where: str) -> Sequence[str] | None:
    choices = reading.choices
    if choices is None:
        given = source.get("choices")
        usable = isinstance(given, list) and all(isinstance(one, str) for one in given)
        return given if usable and given else None
    try:
        return options_of(source, choices)
    except ValueError:
        raise ValueError(
            f"{where}: no field {choices!r} for the choices; there are {', '.join(source)}"
        ) from None


def _group(source: Mapping[str, Any], reading: Reading, where: str) -> str | None:
    if reading.group is None:
        return None
    if reading.group not in source:
        raise ValueError(
            f"{where}: no field {reading.group!r} to group by; there are {', '.join(source)}"
        )
    return str(source[reading.group])


def _question(row: Mapping[str, Any], doc: Mapping[str, Any], at: int) -> str | None:
    """What the model was asked: the document's question, else the whole prompt."""
    if isinstance(doc.get("question"), str):
        return str(doc["question"])
    arguments = row.get("arguments")
    request = arguments.get(f"gen_args_{at}") if isinstance(arguments, Mapping) else None
    prompt = request.get("arg_0") if isinstance(request, Mapping) else None
    if prompt is None and isinstance(arguments, list) and len(arguments) > at and arguments[at]:
        prompt = arguments[at][0]
    return None if prompt is None else str(prompt)


def _first_texts(answers: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    first: dict[str, str] = {}
    for answer, text in zip(answers, texts, strict=True):
        if answer:
            first.setdefault(answer, text)
    return first
