"""Figures as inline SVG that takes its colours and fonts from the page."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# Colour drawn -> the page's own, so that one drawing serves light, dark and paper.
INK, MUTED, GRID, BLUE, ORANGE, GREEN, VIOLET, ON = (
    "#1c1d1f", "#6a6d73", "#dcdee2", "#2b6ca3", "#c2662d", "#3c8a63", "#7d5ba6", "#fefefe",
)  # fmt: skip
_VARIABLES = {
    INK: "ink", MUTED: "muted", GRID: "line", BLUE: "blue", ORANGE: "orange", GREEN: "green",
    VIOLET: "violet", ON: "on",
}  # fmt: skip
_NUMBER = count()


@dataclass(frozen=True)
class Figure:
    """A figure of the report.

    Attributes:
        title: what is shown.
        svg: the drawing, trusted: made here, texts in it escaped.
        caption: how to read it.
        file_name: name of its data when saved.
        data: its data as a ``data:`` address.
    """

    title: str
    svg: str
    caption: str
    file_name: str
    data: str


@contextmanager
def canvas(width: float, height: float, columns: int = 1) -> Iterator[tuple[Canvas, list[Axes]]]:
    """A drawing of `columns` panels, in inches; call `svg_of` inside the block."""
    import matplotlib
    from matplotlib.figure import Figure as New

    style: Any = {
        "svg.fonttype": "none", "svg.hashsalt": f"figure{next(_NUMBER)}", "text.parse_math": False,
        "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 9,
        "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.titlecolor": INK,
        "axes.titlesize": 9.5, "axes.titlelocation": "left", "axes.linewidth": 0.6,
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.6, "text.color": INK,
        "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK,
        "ytick.labelcolor": INK, "xtick.major.size": 0, "ytick.major.size": 0,
        "legend.frameon": False, "figure.facecolor": "none", "axes.facecolor": "none",
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = New(figsize=(width, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)[0]
        yield figure, list(axes)


def svg_of(figure: Canvas, label: str) -> str:
    """The drawing as an ``<svg>`` element that scales with its place.

    Args:
        figure: the drawing.
        label: what a screen reader says; escaped here.
    """
    from markupsafe import escape

    target = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(target, format="svg", transparent=True, metadata=nothing)
    text = target.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.S)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    # Names of groups, the same in every drawing; what is referred to has salted names.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    for drawn, variable in _VARIABLES.items():
        text = text.replace(drawn, f"var(--{variable})")
    text = text.replace("'DejaVu Sans'", "var(--sans)")
    width = figure.get_figwidth() * 72
    start = f'<svg role="img" aria-label="{escape(label)}" style="max-width:{width * 1.34:.0f}px"'
    return start + text.removeprefix("<svg")


def data_address(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV table as a ``data:`` address.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    raw = target.getvalue().encode("utf-8", "replace")
    return f"data:text/csv;charset=utf-8;base64,{base64.b64encode(raw).decode('ascii')}"


def _cell(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t"):
        return f"'{value}"
    if isinstance(value, float):
        return "" if value != value else repr(float(value))
    return "" if value is None else value
