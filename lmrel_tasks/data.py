"""Datasets of the shipped tasks: bundled JSONL, or a file that the user names."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from datasets import Dataset, DatasetDict


class _Readable(Protocol):
    def read_text(self, encoding: str) -> str: ...


def bundled(file: str, first: int | None = None, **_: Any) -> DatasetDict:
    """A JSONL file of `lmrel_tasks.task_configs`, split by its field ``split``.

    Used as ``custom_dataset`` with ``dataset_kwargs: {file: ...}``; the harness passes the task's
    metadata too, which is ignored.

    Args:
        file: its path within the package.
        first: take so many rows only.
    """
    source = files("lmrel_tasks.task_configs").joinpath(file)
    return split_rows(read_jsonl(source, str(file))[:first])


def read_jsonl(file: _Readable, name: str | None = None) -> list[dict[str, Any]]:
    """The objects of a JSONL file.

    Args:
        file: a path, or a file of the package.
        name: what to call it in messages; its path if None.

    Raises:
        ValueError: naming the file and the line that is not a JSON object.
    """
    name = name or str(file)
    try:
        text = file.read_text(encoding="utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: no text in UTF-8 ({error}); save it as UTF-8") from None
    rows = []
    # Not splitlines(): it also ends lines at characters that JSON allows within a text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{name}, line {number}: not JSON ({error.msg})") from None
        if not isinstance(row, dict):
            raise ValueError(f"{name}, line {number}: expected an object, got {row!r:.80}")
        rows.append(row)
    if not rows:
        raise ValueError(f"{name}: no items")
    return rows


def split_rows(rows: list[dict[str, Any]]) -> DatasetDict:
    """Rows as a dataset; the field ``split`` (``test`` if absent) says where each belongs."""
    splits: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        rest = {key: value for key, value in row.items() if key != "split"}
        splits.setdefault(str(row.get("split", "test")), []).append(rest)
    return DatasetDict({name: Dataset.from_list(part) for name, part in splits.items()})


def task_folder() -> Path:
    """The folder with the YAML tasks, for ``--include_path``."""
    return Path(str(files("lmrel_tasks.task_configs")))
