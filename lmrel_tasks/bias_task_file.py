"""The YAML of a bias task on a user's own file."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lmrel_tasks.data import read_jsonl

_AGE = re.compile(r"age([+-]\d+)")
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class Wanted:
    """What the task is to ask.

    Attributes:
        file: CSV, TSV or JSONL.
        text: column of the text.
        question: asked about every text.
        options: answer options.
        swap: the targeted edit: ``gender``, ``gender-removed``, ``age+N``, ``age-N``,
            ``column:NAME``.
        baseline: column or JSONL file of paraphrases; None makes lexical ones.
        answer: column of the right option.
        name: the task's name.
    """

    file: Path
    text: str
    question: str
    options: tuple[str, ...]
    swap: str = "gender"
    baseline: str | None = None
    answer: str | None = None
    name: str | None = None

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.name or "bias_" + re.sub(r"\W+", "_", self.file.stem).strip("_").lower()


def task_text(wanted: Wanted) -> str:
    """The task as YAML.

    Raises:
        FileNotFoundError: without the file.
        ValueError: for a column, option or swap that cannot be, saying what there is.
    """
    rows = read_rows(wanted.file)
    columns = list(rows[0])
    for name in (wanted.text, wanted.answer):
        if name is not None and name not in columns:
            raise ValueError(f"{wanted.file} has no column {name!r}; it has {', '.join(columns)}")
    empty = [n for n, row in enumerate(rows, 1) if not str(row.get(wanted.text) or "").strip()]
    if empty:
        raise ValueError(f"{wanted.file}: column {wanted.text!r} is empty in row {empty[0]}")
    if len(set(wanted.options)) != len(wanted.options) or len(wanted.options) < 2:
        raise ValueError(f"--options needs two or more different answers, got {wanted.options}")
    if any(not option for option in wanted.options):
        raise ValueError("--options holds an empty answer")
    _check_answers(wanted, rows)
    conditions = [
        {"name": "original", "role": "original"},
        _targeted(wanted, columns),
        _benign(wanted, columns),
        {"name": "asked_again", "role": "rerun"},
    ]
    config: dict[str, Any] = {
        "task": wanted.task,
        "custom_dataset": "!function lmrel_tasks.bias_task_file.own_file",
        "dataset_kwargs": {"file": str(wanted.file.resolve())},
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": f"{{{{{_plain(wanted.text)}}}}}\n\nQuestion: "
        f"{_literal(wanted.question)}\nAnswer:",
        "doc_to_choice": list(wanted.options),
        "metric_list": [{"metric": name} for name in _metrics(wanted)],
        "metadata": {
            "version": 1,
            "lmrel": {"text": _plain(wanted.text), "conditions": conditions},
        },
    }
    if wanted.answer is not None:
        config["doc_to_target"] = _plain(wanted.answer)
    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100)
    text = text.replace("'!function lmrel_tasks.bias_task_file.own_file'",
                        "!function lmrel_tasks.bias_task_file.own_file")  # fmt: skip
    return f"class: !function lmrel_tasks.task.RepeatedTask\n{text}"


def own_file(file: str, **_: Any) -> Any:
    """A CSV, TSV or JSONL file as a dataset with the split ``test``.

    Every value is text; names of columns are made fit for templates ("Case text": Case_text).
    """
    from datasets import Dataset, DatasetDict

    rows = [
        {_plain(name): None if value is None else str(value) for name, value in row.items()}
        for row in read_rows(Path(file))
    ]
    return DatasetDict({"test": Dataset.from_list(rows)})


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV, TSV or JSONL file.

    Raises:
        FileNotFoundError: without the file.
        ValueError: for another kind of file, no rows, or rows of different lengths.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    delimiter = _DELIMITERS.get(path.suffix.lower())
    if delimiter is None:
        if path.suffix.lower() not in (".jsonl", ".json"):
            raise ValueError(f"{path}: give a .csv, .tsv or .jsonl file")
        return read_jsonl(path)
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter=delimiter))
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise ValueError(f"{path}: row {number} has more or fewer cells than the heading")
    if not rows:
        raise ValueError(f"{path}: no rows")
    return rows


def _targeted(wanted: Wanted, columns: list[str]) -> dict[str, Any]:
    age = _AGE.fullmatch(wanted.swap)
    if wanted.swap == "gender":
        return {"name": "gender_swap", "role": "targeted", "perturbation": "gender_swap"}
    if wanted.swap == "gender-removed":
        return {"name": "gender_removed", "role": "targeted", "perturbation": "gender_remove"}
    if age:
        return {
            "name": f"age_{age[1]}", "role": "targeted", "perturbation": "age_plus",
            "arguments": {"n": int(age[1])},
        }  # fmt: skip
    if wanted.swap.startswith("column:"):
        column = wanted.swap.removeprefix("column:")
        if column in columns:
            return {"name": column, "role": "targeted", "field": _plain(column)}
        raise ValueError(f"{wanted.file} has no column {column!r}; it has {', '.join(columns)}")
    raise ValueError(
        f"--swap must be gender, gender-removed, age+N, age-N or column:NAME, not {wanted.swap!r}"
    )


def _benign(wanted: Wanted, columns: list[str]) -> dict[str, Any]:
    benign: dict[str, Any] = {"name": "reworded", "role": "benign"}
    if wanted.baseline is None:
        return {**benign, "paraphrase": "lexical"}
    if wanted.baseline in columns:
        return {**benign, "field": _plain(wanted.baseline)}
    if wanted.baseline.endswith(".jsonl"):
        return {**benign, "frozen": str(Path(wanted.baseline).resolve())}
    raise ValueError(
        f"--baseline {wanted.baseline!r} is neither a column ({', '.join(columns)}) nor a .jsonl"
    )


def _metrics(wanted: Wanted) -> list[str]:
    names = ["acc"] if wanted.answer else []
    for measure in ("flip_rate", "jsd", "kl", "mi"):
        names += [f"{measure}_targeted", f"{measure}_benign"]
        names.append(f"{measure.removesuffix('_rate')}_excess")
    directed = wanted.swap == "gender"
    names += ["direction_beta"] if directed else []
    return [*names, "edit_fraction_targeted", "edit_fraction_benign", "benign_missing_rate",
            "applicable_rate"]  # fmt: skip


def _check_answers(wanted: Wanted, rows: list[dict[str, Any]]) -> None:
    if wanted.answer is None:
        return
    for number, row in enumerate(rows, start=1):
        if str(row[wanted.answer]) not in wanted.options:
            raise ValueError(
                f"{wanted.file}, row {number}: {wanted.answer} is {row[wanted.answer]!r}, none of "
                f"the options {', '.join(wanted.options)}"
            )


def _plain(name: str) -> str:
    """A column's name as a template can use it."""
    plain = re.sub(r"\W+", "_", name.strip())
    return plain if plain.isidentifier() else f"c_{plain}"


def _literal(text: str) -> str:
    """Text that a template leaves as it is."""
    return "{% raw %}" + text + "{% endraw %}" if re.search(r"{[{%#]", text) else text
