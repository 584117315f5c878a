"""Boards as Markdown and as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from lmrel_tasks.leaderboard import Board, Standing
from lmrel_tasks.markdown import markdown_table
from lmrel_tasks.reporting.differences import templates, visible

EXPLAINED = (
    "Ranks count the models that are separably better: paired tests on the items that both have "
    "answered, Holm over all tests of this page, level {alpha:g}. Models that share a group letter "
    "are not separable, whatever their order. Intervals (95 %) are of each model by itself; two of "
    "them may overlap although the paired test separates the models."
)


def as_markdown(boards: Sequence[Board], notes: Sequence[str], title: str, alpha: float) -> str:
    """The boards as Markdown tables."""
    parts = [f"# {_line(title)}", "", EXPLAINED.format(alpha=alpha)]
    for board in boards:
        rows = [
            (one.rank, one.group, _line(one.name), _number(one.value), _interval(one),
             "–" if one.n is None else one.n, one.verified)
            for one in board.standings
        ]  # fmt: skip
        columns = ("rank", "group", "model", "value", "95 % interval", "items", "verified")
        parts += ["", f"## {_line(board.task)}: {_line(board.metric)}", ""]
        parts.append(markdown_table(columns, rows))
    if notes:
        parts += ["", "## Notes", "", *(f"- {_line(note)}" for note in notes)]
    return "\n".join(parts) + "\n"


def as_html(boards: Sequence[Board], notes: Sequence[str], title: str, alpha: float) -> str:
    """The boards as one page that needs nothing else.

    Raises:
        RuntimeError: if the extra ``report`` is not installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise RuntimeError(
            "an HTML page needs jinja2: pip install 'lmrel[report]', or write a .md file"
        ) from error
    environment = templates(number=_number, interval=_interval)
    shown = [{"board": board, "bars": _bars(board)} for board in boards]
    return environment.get_template("leaderboard.html.j2").render(
        title=title, boards=shown, notes=notes, explained=EXPLAINED.format(alpha=alpha)
    )


def _bars(board: Board) -> list[dict[str, float] | None]:
    """Per standing, where its interval lies between the ends of the board, in percent."""
    numbers = [
        number
        for one in board.standings
        for number in (one.value, one.ci_low, one.ci_high)
        if number is not None
    ]
    low, high = min([0.0, *numbers]), max([1.0, *numbers])

    def place(number: float) -> float:
        return round(100 * (number - low) / (high - low), 2)

    bars: list[dict[str, float] | None] = []
    for one in board.standings:
        if one.value is None:
            bars.append(None)
            continue
        left = place(one.value if one.ci_low is None else one.ci_low)
        right = place(one.value if one.ci_high is None else one.ci_high)
        bars.append({"left": left, "width": round(right - left, 2), "dot": place(one.value)})
    return bars


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(one: Standing) -> str:
    if one.ci_low is None or one.ci_high is None:
        return ""
    return f"{one.ci_low:.3f} to {one.ci_high:.3f}"


def _line(text: str) -> str:
    """One line of Markdown that holds no markup of its own: a bundle's names are foreign text."""
    plain = " ".join(visible(text).split())
    return "".join(f"\\{x}" if x in "\\`*[]<>#|&" else x for x in plain)
