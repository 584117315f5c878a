"""Differences with their intervals as a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmrel_tasks.differences import Difference


def plot_differences(
    differences: Sequence[Difference], path: str | Path, *, alpha: float = 0.05
) -> None:
    """Draw every difference with its interval; filled where separable after Holm.

    Args:
        differences: the adjusted family.
        path: file; its ending (.png, .svg, .pdf) is the format.
        alpha: level of the verdicts.

    Raises:
        ValueError: without matplotlib, or for an unknown format.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ValueError('a plot needs matplotlib: pip install "lmrel[report]"') from error
    place = Path(path)
    known = FigureCanvasAgg.get_supported_filetypes()
    if place.suffix.lstrip(".").lower() not in known:
        raise ValueError(f"{path}: give a file that ends in .png, .svg or .pdf")
    place.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(8, 1.6 + 0.34 * len(differences)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for row, one in enumerate(differences):
        separable = one.winner(alpha) is not None
        axes.errorbar(
            one.difference, row,
            xerr=[[one.difference - one.ci_low], [one.ci_high - one.difference]],
            fmt="o", color="#1f5fa8", markerfacecolor="#1f5fa8" if separable else "white",
            capsize=3, linewidth=1.4,
        )  # fmt: skip
    axes.axvline(0, color="#666666", linewidth=0.8)
    axes.set_yticks(range(len(differences)), [_label(one) for one in differences], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("difference, first minus second")
    axes.set_title(
        f"{100 * (1 - alpha):g} % intervals, not adjusted; filled: separable after Holm",
        fontsize=9,
    )
    figure.savefig(place, dpi=150)


def _label(one: Difference) -> str:
    # matplotlib takes $...$ for mathematics
    return f"{one.task} · {one.metric}\n{one.first} − {one.second}".replace("$", r"\$")
