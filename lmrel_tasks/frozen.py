"""Perturbed texts kept in a JSONL file, keyed by the item's hash.

One object a line: ``item`` (the hash), ``targeted`` (the condition that a paraphrase is matched
to), ``number`` (0 for the first paraphrase), ``text`` (null for a failure) and ``reasons``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from lmrel_tasks.data import read_jsonl

BASELINES_VARIABLE = "LMREL_BASELINES"


def baselines_file(metadata: Mapping[str, Any]) -> str | None:
    """The paraphrases that the user names: ``--metadata baselines=FILE``, or LMREL_BASELINES."""
    named = metadata.get("baselines") or os.environ.get(BASELINES_VARIABLE)
    return None if named is None else str(named)


def find_file(name: str, metadata: Mapping[str, Any]) -> Path:
    """The file as named, or beside the task's YAML.

    Raises:
        FileNotFoundError: saying how to make one.
    """
    beside = Path(str(metadata.get("config_source", ""))).parent / name
    for path in (Path(name).expanduser(), beside):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"no frozen texts at {name}; make them with `lmrel paraphrase --task TASK -o {name}`"
    )


def frozen_text(path: Path, item: str, number: int, targeted: str | None) -> Mapping[str, Any]:
    """The item's record, an empty one where there is none.

    Raises:
        ValueError: for a line without ``item`` and ``text``, naming file and line.
    """
    records = _records(path, path.stat().st_mtime_ns)
    for key in ((item, number, targeted), (item, number, None)):
        if key in records:
            return records[key]
    if targeted is None:
        return next((one for key, one in records.items() if key[:2] == (item, number)), {})
    return {}


@lru_cache(maxsize=8)
def _records(path: Path, _changed: int) -> dict[tuple[str, int, str | None], Mapping[str, Any]]:
    found: dict[tuple[str, int, str | None], Mapping[str, Any]] = {}
    for row in read_jsonl(path):
        if "kind" in row:  # the heading that says how the file was made
            continue
        text = row.get("text", "")
        if not isinstance(row.get("item"), str) or not (text is None or isinstance(text, str)):
            raise ValueError(
                f"{path}: every line needs `item` (the item's hash) and `text` (or null), "
                f"got {row!r:.120}"
            )
        key = (row["item"], int(row.get("number", 0)), row.get("targeted"))
        # A later line replaces a failure, never a text.
        if key not in found or text is not None:
            found[key] = row
    return found
