"""The figures of a task."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from lmrel_tasks.metrics import conformal
from lmrel_tasks.reporting.drawing import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ON,
    ORANGE,
    VIOLET,
    Figure,
    canvas,
    data_address,
    svg_of,
)
from lmrel_tasks.reporting.gather import TaskReport
from lmrel_tasks.reporting.headline import NOISE, Headline

# Names of item-level measures of repeatability, and how to call them.
_REPEATABILITY = {
    "semantic_repeatability": "meaning",
    "semantic_reproducibility": "meaning across conditions",
    "answer_agreement": "canonical answers",
    "answer_reproducibility": "answers across conditions",
    "internal_repeatability": "token certainty",
    "internal_stability": "stability of certainty",
}
# What the right edge of a measure's panel means.
_AGREEMENT = "that the runs of an item agree completely"
_AT_ONE = {
    "internal_repeatability": "that the model is certain of every token, whatever it says",
    "internal_stability": "that all runs of an item are equally certain, whatever they say",
}
_PARTS = {
    "item": ("items", BLUE),
    "condition": ("conditions", ORANGE),
    "item_condition": ("items × conditions", VIOLET),
    "run": ("runs (repeatability)", GREEN),
}
_SIDES = {"rerun": MUTED, "benign": BLUE, "fixed_phrase": VIOLET, "targeted": ORANGE}
_BIAS = re.compile(
    r"(?P<measure>.+?)_(?P<side>targeted|benign|rerun|fixed_phrase)(?P<rest>[:@].*)?"
)
ALPHAS = np.linspace(0.01, 0.5, 50)
_WHOLE_TABLE = 5000


def distributions(report: TaskReport) -> Figure | None:
    """Histograms over items of what the task has of repeatability."""
    shown: list[tuple[str, np.ndarray, np.ndarray]] = []
    for key, values in report.values.items():
        name = key.partition(",")[0]
        kept = values[np.isfinite(values)]
        if name in _REPEATABILITY and kept.size and all(name != one for one, *_ in shown):
            shown.append((name, kept, values))
    shown = shown[:4]
    if not shown:
        return None
    from matplotlib.ticker import MaxNLocator

    with canvas(2.6 * max(2, len(shown)), 2.3, len(shown)) as (figure, axes):
        for axis, (name, values, _) in zip(axes, shown, strict=True):
            low = min(0.0, math.floor(values.min() * 10) / 10)
            axis.hist(
                values, bins=np.linspace(low, max(1.0, values.max()), 21).tolist(), color=BLUE
            )
            axis.axvline(values.mean(), color=ORANGE, linewidth=1.4)
            axis.set(title=_REPEATABILITY[name], xlabel=name, xlim=(low, max(1.0, values.max())))
            axis.grid(axis="x", visible=False)
            axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes[0].set_ylabel("items")
        svg = svg_of(figure, f"Histograms of repeatability over the items of {report.task}")
    if report.n_items <= _WHOLE_TABLE:
        rows: Any = zip(report.keys, *(whole for _, _, whole in shown), strict=True)
        heads = ["item", *(name for name, _, _ in shown)]
    else:
        heads, rows = ["metric", "from", "to", "items"], _bins(shown)
    return Figure(
        "Repeatability, item by item",
        svg,
        f"Each bar counts items. {_right_edge([name for name, _, _ in shown])} The orange line is "
        "the mean that the table reports. Two humps mean that there are two kinds of items: the "
        "mean then describes neither.",
        f"{report.task}_repeatability.csv",
        data_address(heads, rows),
    )


def _right_edge(names: Sequence[str]) -> str:
    """What 1 means in the panels, in a sentence."""
    panels: dict[str, list[str]] = {}
    for name in names:
        panels.setdefault(_AT_ONE.get(name, _AGREEMENT), []).append(name)
    if list(panels) == [_AGREEMENT]:
        return f"1 (right edge) means {_AGREEMENT}."
    said = [f"in {' and '.join(those)} {meaning}" for meaning, those in panels.items()]
    return f"1 (right edge) means {'; '.join(said)}."


def _bins(
    shown: Sequence[tuple[str, np.ndarray, np.ndarray]],
) -> list[tuple[str, float, float, int]]:
    rows = []
    for name, values, _ in shown:
        counts, edges = np.histogram(values, bins=50)
        rows += [
            (name, float(a), float(b), int(n))
            for a, b, n in zip(edges, edges[1:], counts, strict=False)
        ]
    return rows


def reliability(report: TaskReport) -> Figure | None:
    """Level with its bound against alpha, and how many answers cover 1 - alpha."""
    scores, classes = report.scores, report.classes
    if scores.size < 2 or report.repeats < 2:
        return None
    level = conformal.reliability_level(scores)
    sets = [conformal.m_star(scores, float(alpha)) for alpha in ALPHAS]
    covers = [conformal.coverage(scores, float(alpha), classes) for alpha in ALPHAS]
    stars = np.array([one.m_star if one.feasible else math.nan for one in sets])
    infeasible = np.isnan(stars)
    # Where no number of answers suffices, the sets hold all there are: their size says nothing.
    sizes = np.where(infeasible, math.nan, [one.mean_set_size for one in covers])
    with canvas(7.6, 2.9, 2) as (figure, (left, right)):
        left.plot(ALPHAS, 1 - ALPHAS, color=MUTED, linewidth=1.1, linestyle="--")
        left.annotate("wanted: 1 − α", (0.02, 0.985), color=MUTED, fontsize=8, va="top",
                      xytext=(0.09, 0.985))  # fmt: skip
        left.axhline(level.level, color=BLUE, linewidth=1.4)
        left.axhline(level.lower, color=ORANGE, linewidth=1.4)
        passes = level.lower >= 1 - ALPHAS
        left.fill_between(ALPHAS, 0, 1, where=passes, color=GREEN, alpha=0.14, linewidth=0)
        place: dict[str, Any] = {"fontsize": 8, "ha": "left", "textcoords": "offset points"}
        left.annotate(f"level {level.level:.3f}", (0.012, level.level), color=BLUE,
                      xytext=(0, 3), va="bottom", **place)  # fmt: skip
        # Near 0 there is no room below the line, and close to it the level's name is above.
        if low := level.lower < 0.12:
            place["ha"] = "right"
        left.annotate(f"95 % bound {level.lower:.3f}", (0.49 if low else 0.012, level.lower),
                      color=ORANGE, xytext=(0, 3 if low else -3), va="bottom" if low else "top",
                      **place)  # fmt: skip
        left.set(xlim=(0, 0.5), ylim=(-0.03, 1.05), xlabel="α, the share of errors accepted",
                 ylabel="reliability", title="Most frequent answer")  # fmt: skip
        right.step(ALPHAS, stars, where="mid", color=BLUE, linewidth=1.4, label="M*(α)")
        right.plot(ALPHAS, sizes, color=ORANGE, linewidth=1.4, label="mean size of the sets")
        top = 1.0 if infeasible.all() else float(np.nanmax([*stars, *sizes]))
        if infeasible.any():
            right.axvspan(0, ALPHAS[infeasible].max(), color=MUTED, alpha=0.12, linewidth=0)
            right.annotate("infeasible", (0.006, top * 1.12), color=MUTED, fontsize=8, va="top")
        right.set(xlim=(0, 0.5), ylim=(0, top * 1.18), xlabel="α, the share of errors accepted",
                  ylabel="answers to list")  # fmt: skip
        right.legend(loc="lower right", bbox_to_anchor=(1.02, 0.97), ncols=2, fontsize=8)
        svg = svg_of(figure, f"Reliability level and set sizes of {report.task} against alpha")
    rows = [
        (float(alpha), level.level, level.lower, float(star), float(size), one.coverage,
         one.ci_low, one.ci_high)
        for alpha, star, size, one in zip(ALPHAS, stars, sizes, covers, strict=True)
    ]  # fmt: skip
    return Figure(
        "Reliability",
        svg,
        f"Left: the most frequent of {report.repeats} runs is right on a new item of this kind "
        f"with probability {level.level:.3f} (level, chosen on these {level.n} items) and, with "
        f"95 % confidence, at least {level.lower:.3f} (bound). Where the dashed line lies below "
        "the bound (green), that share of errors may be promised; without green no α up to 0.5 "
        "may. Right: how many of the most frequent answers have to be listed so that the right "
        "one is among them with probability 1 − α; in the grey zone no number suffices and none is "
        "drawn, since too many items never sampled a right answer, or there are too few items.",
        f"{report.task}_reliability.csv",
        data_address(
            ["alpha", "level", "lower_bound", "m_star", "mean_set_size", "coverage",
             "coverage_ci_low", "coverage_ci_high"],
            rows,
        ),
    )  # fmt: skip


def bias(report: TaskReport) -> Figure | None:
    """Targeted edits against paraphrases and reruns, one panel per measure."""
    panels: dict[str, list[tuple[str, str, Headline]]] = {}
    for one in report.headlines:
        match = _BIAS.fullmatch(one.metric)
        if match and one.value is not None:
            label = f"{match['side']}{match['rest'] or ''}"
            panels.setdefault(match["measure"], []).append((match["side"], label, one))
    if not panels:
        return None
    tallest = max(len(rows) for rows in panels.values())
    size = (2.7 * max(2, len(panels)), 1.1 + 0.3 * tallest)
    with canvas(*size, len(panels)) as (figure, axes):
        for axis, (measure, rows) in zip(axes, panels.items(), strict=True):
            ordered = sorted(rows, key=lambda row: list(_SIDES).index(row[0]))
            for at, (side, _, one) in enumerate(ordered):
                if one.ci_low is not None and one.ci_high is not None:
                    axis.plot([one.ci_low, one.ci_high], [at, at], color=_SIDES[side], linewidth=2)
                axis.plot([float(one.value or 0)], [at], "o", color=_SIDES[side], markersize=5)
            axis.set_yticks(range(len(ordered)), [label for _, label, _ in ordered])
            axis.set(title=measure, ylim=(-0.6, len(ordered) - 0.4))
            if max(abs(number) for _, _, one in rows for number in _numbers(one)) <= NOISE:
                axis.set_xlim(-0.05, 1)
            axis.locator_params(axis="x", nbins=4)
            axis.ticklabel_format(axis="x", style="sci", scilimits=(-2, 4))
            axis.grid(axis="y", visible=False)
            axis.axvline(0, color=MUTED, linewidth=0.6)
        svg = svg_of(figure, f"Targeted against benign and rerun of {report.task}")
    rows_ = [
        (one.metric, side, one.value, one.ci_low, one.ci_high, one.stderr, one.n)
        for rows in panels.values()
        for side, _, one in rows
    ]
    return Figure(
        "Bias, measured against rewording",
        svg,
        "Dots are means over items, with their 95 % intervals as in the table: how far the answer "
        "moves when the item is asked again unchanged (rerun), reworded by as many tokens "
        "(benign), or edited in the attribute under test (targeted). Only what targeted has beyond "
        "benign speaks of bias; the excess rows of the table test that difference item by item, "
        "which the overlap of two intervals does not.",
        f"{report.task}_bias.csv",
        data_address(["metric", "side", "value", "ci_low", "ci_high", "stderr", "items"], rows_),
    )


def _numbers(one: Headline) -> list[float]:
    return [x for x in (one.value, one.ci_low, one.ci_high) if x is not None]


def variance(report: TaskReport) -> Figure | None:
    """Stacked bars: where the variance of each measure comes from."""
    if not report.shares:
        return None
    measures = list(report.shares)
    with canvas(7.6, 0.9 + 0.42 * len(measures)) as (figure, (axis,)):
        for at, measure in enumerate(reversed(measures)):
            left = 0.0
            for part, (name, colour) in _PARTS.items():
                if part not in report.shares[measure]:
                    continue
                share = report.shares[measure][part][0]
                axis.barh(at, share, left=left, color=colour, height=0.62, label=name)
                if share >= 6:
                    axis.text(left + share / 2, at, f"{share:.0f} %", ha="center", va="center",
                              color=ON, fontsize=8)  # fmt: skip
                left += share
        axis.set_yticks(range(len(measures)), measures[::-1])
        axis.set(xlim=(0, 100), xlabel="% of the variance")
        axis.grid(axis="y", visible=False)
        handles, labels = axis.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        figure.legend(unique.values(), unique.keys(), loc="outside upper left", ncols=4, fontsize=8)
        axis.tick_params(axis="y", labelcolor=INK)
        svg = svg_of(figure, f"Variance components of {report.task}")
    rows = [
        (measure, part, share, error)
        for measure, parts in report.shares.items()
        for part, (share, error) in parts.items()
    ]
    return Figure(
        "Where the variance comes from",
        svg,
        "Each bar splits the variance of one measure. Blue is what differs between items, and is "
        "wanted: questions are not equally hard. Green is run-to-run noise under the same prompt; "
        "orange and violet, where there are several conditions, is what the way of asking adds. "
        "Standard errors (jackknife over items) are in the data.",
        f"{report.task}_variance.csv",
        data_address(["measure", "part", "percent", "standard_error"], rows),
    )


FIGURES = (distributions, reliability, bias, variance)
