"""Certificates as files: everything as JSON, tables as CSV."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmrel_tasks.certification import ItemRow

SUMMARY = (
    "input", "qualifies", "items", "unlabelled", "runs_min", "runs_max", "level", "lower",
    "confidence", "alpha", "m_star", "coverage", "coverage_solvable", "capability_gap",
    "set_size", "accuracy", "mode_accuracy", "answer_agreement", "tar_answer",
    "judge_accepted", "judge_accuracy", "judge_qualifies", "error",
)  # fmt: skip
ITEMS = (
    "input", "id", "runs", "answered", "classes", "answer", "share", "score", "labels",
    "prediction_set", "covered",
)  # fmt: skip


def write_certificates(folder: Path, done: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Write ``certificate.json``, ``summary.csv`` and ``items.csv``.

    Args:
        folder: made if it does not exist.
        done: what `lmrel certify` found, one entry per input, with its ``rows``.

    Returns:
        the files. In the CSV a list is JSON, and what is undefined or infinite is empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    plain = [{key: value for key, value in one.items() if key != "rows"} for one in done]
    whole = [
        {**entry, "table": [_row(row) for row in one.get("rows", ())]}
        for entry, one in zip(plain, done, strict=True)
    ]
    paths = [folder / name for name in ("certificate.json", "summary.csv", "items.csv")]
    text = json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False)
    paths[0].write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    _write_csv(paths[1], SUMMARY, [_summary(one) for one in plain])
    _write_csv(paths[2], ITEMS, [
        {"input": one["input"], **_row(row)} for one in done for row in one.get("rows", ())
    ])  # fmt: skip
    return paths


def _row(row: ItemRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "runs": row.runs,
        "answered": row.answered,
        "classes": row.classes,
        "answer": row.answer,
        "share": row.share,
        "score": row.score if math.isfinite(row.score) else None,
        "labels": None if row.labels is None else list(row.labels),
        "prediction_set": list(row.prediction_set),
        "covered": row.covered,
    }


def _summary(one: Mapping[str, Any]) -> dict[str, Any]:
    level, sets, cover = (one.get(key) or {} for key in ("level", "sets", "coverage"))
    judge = one.get("judge") or {}
    return {
        **{key: value for key, value in one.items() if key in SUMMARY},
        "level": level.get("level"),
        "lower": level.get("lower"),
        "confidence": level.get("confidence"),
        "alpha": sets.get("alpha"),
        "m_star": sets.get("m_star"),
        "coverage": cover.get("coverage"),
        "coverage_solvable": cover.get("coverage_solvable"),
        "capability_gap": (cover.get("capability_gap") or {}).get("estimate"),
        "judge_accepted": (judge.get("accepted") or {}).get("estimate"),
        "judge_accuracy": (judge.get("accuracy") or {}).get("estimate"),
        "judge_qualifies": judge.get("qualifies"),
    }


def _write_csv(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        for row in rows:
            writer.writerow({
                key: json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
                for key, value in row.items()
            })  # fmt: skip
