"""The page: gathered tasks put through the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate, repeat
from operator import mul
from pathlib import Path
from typing import Any

from lmrel_tasks.markdown import counted
from lmrel_tasks.reporting.differences import (
    Segments,
    shortened,
    templates,
    visible,
    word_differences,
)
from lmrel_tasks.reporting.drawing import Figure, data_address
from lmrel_tasks.reporting.figures import FIGURES
from lmrel_tasks.reporting.gather import TaskReport
from lmrel_tasks.reporting.headline import NOISE, Headline, headlines
from lmrel_tasks.reporting.items import ItemView
from lmrel_tasks.results import Evaluation

MAX_BYTES = 5_000_000
# Texts are cut to about this size, which a browser opens well within two seconds.
_AIM = 3_200_000
_LONGEST, _SHORTEST = 6000, 60
# Of the items, where not all can be listed.
_SHARES = tuple(accumulate(repeat(0.6, 10), mul, initial=1.0))[::-1]


@dataclass(frozen=True)
class _Section:
    report: TaskReport
    figures: tuple[Figure, ...]
    table: str
    measure: str
    pooled: str


def render(
    evaluations: Sequence[Evaluation],
    reports: Sequence[TaskReport],
    title: str,
    max_bytes: int = MAX_BYTES,
    names: Mapping[Path, str] | None = None,
) -> str:
    """The report as one HTML document.

    Args:
        evaluations: where the tasks come from, for the rows of their groups.
        reports: one per model and task.
        title: its heading.
        max_bytes: texts of runs are shortened until the page is smaller; where even short ones do
            not fit, fewer items are listed.
        names: results file -> what its model is called; its recorded name by default.

    Raises:
        RuntimeError: if the extra ``report`` is not installed.
    """
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise RuntimeError(f"the report needs {error.name}: pip install 'lmrel[report]'") from error
    environment = templates(
        number=_number, interval=_interval, breakable=_breakable, counted=counted
    )
    template, of_item = map(environment.get_template, ("report.html.j2", "item.html.j2"))
    sections = [
        _Section(
            one, tuple(fig for make in FIGURES if (fig := make(one))), _table(one), *_pooled(one)
        )
        for one in reports
    ]
    shown = {
        "title": title,
        "sections": sections,
        "overview": _overview(evaluations, reports, names or {}),
        "models": list(dict.fromkeys(one.model for one in reports)),
        "version": version("lmrel"),
    }

    def page(items: Sequence[_Items], share: float = 1.0) -> tuple[str, int]:
        text: str = template.render(items=[one.first(share) for one in items], **shown)
        return text, len(text.encode("utf-8", "replace"))

    length = _first_length(reports, min(max_bytes, _AIM))
    while length > _SHORTEST:
        text, size = page([_Items(one, of_item, length) for one in sections])
        if size <= max_bytes:
            return text
        length = max(_SHORTEST, int(min(length * 0.6, length * max_bytes / size)))
    # Texts cannot be shorter. From few items to many, so that none is made in vain.
    items = [_Items(one, of_item, _SHORTEST) for one in sections]
    text, _ = page(items, _SHARES[0])
    for share in _SHARES[1:]:
        more, size = page(items, share)
        if size > max_bytes:
            break
        text = more
    return text


# What the first table shows, as far as the results have it.
_FIRST = (
    "acc", "exact_match", "mode_acc", "reliability_level", "reliability_lower",
    "semantic_repeatability", "semantic_reproducibility", "answer_agreement",
    "internal_repeatability", "internal_stability", "tar_answer", "flip_excess", "jsd_excess",
)  # fmt: skip
_COLUMNS = 6


def _overview(
    evaluations: Sequence[Evaluation], reports: Sequence[TaskReport], names: Mapping[Path, str]
) -> tuple[list[str], list[tuple[str, str, list[Headline | None]]]]:
    """Columns, and rows of (task or group, model, their values)."""
    tables = [
        (name, names.get(one.path, one.model), tuple(headlines(one, name, {})))
        for one in evaluations
        for name in one.content.get("groups") or ()
    ] + [(one.task, one.model, one.headlines) for one in reports]
    present = {row.metric for _, _, rows in tables for row in rows}
    columns = [name for name in _FIRST if name in present][:_COLUMNS]
    found = []
    for name, model, rows in tables:
        first: dict[str, Headline] = {}
        for row in rows:
            first.setdefault(row.metric, row)
        found.append((name, model, [first.get(column) for column in columns]))
    return columns, found


_ROLES = {
    "targeted": "edited", "benign": "reworded", "rerun": "asked again",
    "fixed_phrase": "with an irrelevant sentence in front",
}  # fmt: skip


def _pooled(report: TaskReport) -> tuple[str, str]:
    """What the items are ordered by, and of which answers it is made."""
    roles = {name: role for name, role in report.conditions.items() if role}
    if roles:
        asked = [
            name if name == (called := _ROLES.get(role, role)) else f"{name} ({called})"
            for name, role in roles.items()
        ]
        return "differs between conditions", (
            "Differs between conditions: the share of pairs of an item's answers that are not the "
            f"same, answers to all of its conditions together: {', '.join(asked)}. It is no flip "
            "rate, which holds one edit against the original."
        )
    several = ""
    if len(report.conditions) > 1:
        several = f", of the same condition or of two of the {len(report.conditions)},"
    return "instability", (
        f"Instability is the probability that two runs of an item{several} give different "
        "answers. Runs without an answer are left out of the pairs, as in answer_agreement, and "
        "counted in the item's line; – stands where fewer than two have one."
    )


def _first_length(reports: Sequence[TaskReport], max_bytes: int) -> int:
    """The longest texts that are likely to fit, so that long pages are seldom made twice."""
    lengths = sorted(
        len(text.text) for report in reports for one in report.items for _, texts in one.cells
        for text in texts
    )  # fmt: skip
    # What surrounds a text, and how much longer marks and escapes make it.
    left = (max_bytes - 250_000 - 330 * len(lengths)) / 1.45
    for at, length in enumerate(lengths):
        share = left / (len(lengths) - at)
        if length > share:
            return int(min(_LONGEST, max(_SHORTEST, share)))
        left -= length
    return _LONGEST


class _Items:
    """The items of a task as HTML, each made when it is first asked for."""

    def __init__(self, section: _Section, template: Any, length: int) -> None:
        self.items, self.measure = section.report.items, section.measure
        self.template, self.length = template, length
        self.made: list[Any] = []

    def first(self, share: float) -> list[Any]:
        """This share of the items, one at least if there is any."""
        from markupsafe import Markup

        number = max(1, int(len(self.items) * share))
        for item in self.items[len(self.made) : number]:
            self.made.append(Markup(self.template.render(_item(item, self.length, self.measure))))
        return self.made[:number]


def _item(item: ItemView, length: int, measure: str) -> dict[str, Any]:
    first = next((texts[0] for _, texts in item.cells if texts), None)
    reference = shortened(visible(first.text), length) if first else ""
    cells = []
    for name, texts in item.cells:
        shown = []
        for one in texts:
            text = shortened(visible(one.text), length)
            same = one is first or text == reference
            pieces: Segments = [("same", text)] if same else word_differences(text, reference)
            shown.append({"run": one, "pieces": pieces, "reference": one is first})
        cells.append({"name": name, "texts": shown})
    prompt = item.prompt[-max(200, length) :]
    return {"item": item, "cells": cells, "prompt": prompt, "measure": measure}


def _table(report: TaskReport) -> str:
    columns = [
        "metric", "filter", "value", "stderr", "ci_low", "ci_high", "interval", "items",
        "higher_is_better",
    ]  # fmt: skip
    rows = [
        (one.metric, one.filter, one.value, one.stderr, one.ci_low, one.ci_high, one.method,
         one.n, one.higher_is_better)
        for one in report.headlines
    ]  # fmt: skip
    return data_address(columns, rows)


def _number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "–"
    value = 0.0 if abs(value) <= NOISE else value
    small = 0 < abs(value) < 0.5 * 10**-digits
    return f"{value:{'.1e' if small else f'.{digits}f'}}".replace("-", "−")


def _breakable(name: str) -> Any:
    """A name that may be broken behind its underscores, safe for HTML."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(visible(part)) for part in name.split("_"))


def _interval(one: Headline) -> str:
    if one.ci_low is None or one.ci_high is None:
        return ""
    return f"{_number(one.ci_low)} to {_number(one.ci_high)}"
