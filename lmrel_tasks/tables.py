"""Tables of an analysis: as text, CSV and JSON, with their findings in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmrel_tasks.markdown import plain, write_csv, write_json


@dataclass(frozen=True)
class Table:
    """A table with what it says.

    Attributes:
        name: short name, used for files.
        title: heading.
        columns: names of the columns.
        rows: their values, one tuple per row.
        findings: plain sentences.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    findings: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """Rows as mappings with plain JSON values; undefined numbers are None."""
        return [
            {key: plain(value) for key, value in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]

    def text(self) -> str:
        """The table for a terminal."""
        cells = [
            [
                _shown(value, exact=_is_p(name))
                for name, value in zip(self.columns, row, strict=True)
            ]
            for row in self.rows
        ]
        widths = [
            max(len(name), *(len(row[at]) for row in cells)) if cells else len(name)
            for at, name in enumerate(self.columns)
        ]
        numeric = [
            all(not isinstance(row[at], str) for row in self.rows)
            for at in range(len(self.columns))
        ]
        lines = [self.columns, *cells]
        body = [
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, numeric, strict=True)
            ).rstrip()
            for line in lines
        ]
        body.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, *body, *self.findings])


def join_tables(tables: Sequence[Table]) -> list[Table]:
    """One table for each name: the rows of all that share it, in their order."""
    joined: dict[str, Table] = {}
    for one in tables:
        if one.name in joined:
            known = joined[one.name]
            one = Table(
                one.name, known.title, known.columns, known.rows + one.rows,
                known.findings + one.findings,
            )  # fmt: skip
        joined[one.name] = one
    return list(joined.values())


def write_tables(tables: Iterable[Table], folder: str | Path, name: str) -> list[Path]:
    """Write ``name.json`` with everything, and ``name_TABLE.csv`` for every table.

    Returns:
        the files.
    """
    place = Path(folder)
    tables = join_tables(list(tables))
    content = {
        "tables": {one.name: one.records() for one in tables},
        "findings": [sentence for one in tables for sentence in one.findings],
    }
    written = [place / f"{name}.json"]
    write_json(written[0], content)
    for one in tables:
        written.append(place / f"{name}_{one.name}.csv")
        write_csv(written[-1], one.records(), one.columns)
    return written


def _is_p(column: str) -> bool:
    """Whether a column holds p-values, which may be as small as they like."""
    return column == "p" or column.endswith(("_p", "_p_holm")) or column == "p_holm"


def _shown(value: Any, *, exact: bool = False) -> str:
    if isinstance(value, float) or hasattr(value, "dtype"):
        number = float(value)
        if not math.isfinite(number):
            return "n/a" if math.isnan(number) else str(number)
        if abs(number) < 1e-9 and not exact:
            # What rounding leaves of a difference.
            number = 0.0
        return f"{number:.4f}" if abs(number) >= 1e-4 or number == 0 else f"{number:.1e}"
    return str(value)


def p_text(p: float) -> str:
    """A p-value for a sentence."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
