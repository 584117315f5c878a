"""Tables as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def counted(number: int, noun: str) -> str:
    """``1 item``, ``2 items``, ``1,200 items``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A pipe table, padded so that it also reads in a terminal; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    heads = [_cell(name) for name in columns]
    right = [
        bool(rows) and all(isinstance(row[at], (int, float)) for row in rows)
        for at in range(len(columns))
    ]
    widths = [max(3, len(head), *(len(row[at]) for row in cells)) for at, head in enumerate(heads)]
    lines = [
        "| "
        + " | ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(line, widths, right, strict=True)
        )
        + " |"
        for line in [heads, *cells]
    ]
    rule = [
        "-" * (width + 1) + ":" if numeric else "-" * (width + 2)
        for width, numeric in zip(widths, right, strict=True)
    ]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "n/a"}[value]
    if isinstance(value, float):
        if math.isnan(value):
            return "n/a"
        small = 0 < abs(value) < 5e-5
        return f"{value:.1e}" if small else f"{value:.4f}"
    return " ".join(str(value).replace("|", "\\|").split())


def plain(value: Any) -> Any:
    """JSON values; what is undefined or infinite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: str | Path, content: Any) -> None:
    """Write a file, and the folders above it."""
    place = _place(path)
    text = json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)
    place.write_text(text + "\n", encoding="utf-8")


def write_csv(
    path: str | Path, records: Sequence[Mapping[str, Any]], columns: Sequence[str] = ()
) -> None:
    """Write records with the same keys, one a line under a line of the keys.

    Args:
        columns: the keys, for a table that may be without records.
    """
    with _place(path).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(columns or (list(records[0]) if records else []))
        for record in records:
            values = [plain(value) for value in record.values()]
            rows.writerow(["" if value is None else value for value in values])


def _place(path: str | Path) -> Path:
    place = Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
