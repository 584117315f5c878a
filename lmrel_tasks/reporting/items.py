"""The least stable items of a task, with their runs."""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lmrel_tasks.markdown import counted
from lmrel_tasks.metrics import agreement
from lmrel_tasks.metrics.item import Item

PROMPT_TAIL = 600
_QUESTIONS = (
    "question",
    "problem",
    "query",
    "input",
    "case",
    "vignette",
    "text",
    "prompt",
    "goal",
    "sentence",
)


@dataclass(frozen=True)
class RunText:
    """The runs of a cell that have the same text.

    Attributes:
        text: their text.
        count: how many they are.
        answer: their canonical answer.
        right: whether it is acceptable; None without a label.
        notes: finish reason, tokens and certainty, in words.
    """

    text: str
    count: int
    answer: str
    right: bool | None
    notes: str


@dataclass(frozen=True)
class ItemView:
    """An item of the list: its question, labels and runs.

    Attributes:
        key: identity of the document.
        instability: probability that two of its runs that have an answer, of whatever conditions,
            answer differently; None if fewer than two have one.
        distinct: number of different texts.
        runs: number of runs.
        unanswered: runs without a canonical answer.
        missing: runs that could not be had.
        labels: acceptable answers; None if unknown.
        title: its question, in short.
        prompt: the end of the first condition's prompt.
        cells: per condition its name and its texts, the most frequent first.
    """

    key: str
    instability: float | None
    distinct: int
    runs: int
    unanswered: int
    missing: int
    labels: tuple[str, ...] | None
    title: str
    prompt: str
    cells: tuple[tuple[str, tuple[RunText, ...]], ...]


@dataclass(frozen=True)
class _Kept:
    """What an item's view is made from, once all items are seen."""

    item: Item
    instability: float | None
    distinct: int
    title: str
    prompt: str


@dataclass
class LeastStable:
    """The items of lowest agreement so far; of equal ones those with more texts, then the first.

    Items of which nothing can be said, since fewer than two runs have an answer, come before those
    whose answers all agree.

    Attributes:
        most: how many are kept.
    """

    most: int
    _seen: int = 0
    _heap: list[tuple[float, bool, int, int, _Kept]] = field(default_factory=list)

    def add(self, item: Item, sample: Mapping[str, Any]) -> None:
        """Take an item and the sample line that it was read from."""
        self._seen += 1
        share = agreement.answer_agreement(_answers(item))
        instability = None if math.isnan(share) else 1.0 - share
        distinct = len({text for one in item.conditions for text in one.texts})
        order = (instability or 0.0, instability is None, distinct, -self._seen)
        full = len(self._heap) >= self.most
        if full and (not self._heap or order <= self._heap[0][:4]):
            return
        kept = _Kept(item, instability, distinct, _title(sample), _prompt(sample))
        (heapq.heapreplace if full else heapq.heappush)(self._heap, (*order, kept))

    def views(self) -> tuple[ItemView, ...]:
        """The least stable one first."""
        return tuple(_view(entry[-1]) for entry in sorted(self._heap, reverse=True))


def _view(kept: _Kept) -> ItemView:
    item = kept.item
    return ItemView(
        key=item.key,
        instability=kept.instability,
        distinct=kept.distinct,
        runs=sum(len(one.answers) for one in item.conditions),
        unanswered=sum(map(agreement.is_missing, _answers(item))),
        missing=sum(one.missing for one in item.conditions),
        labels=item.labels if item.has_label else None,
        title=kept.title,
        prompt=kept.prompt,
        cells=tuple(
            (one.name, _grouped(item, number)) for number, one in enumerate(item.conditions)
        ),
    )


def _answers(item: Item) -> list[str]:
    return [answer for one in item.conditions for answer in one.answers]


def _grouped(item: Item, number: int) -> tuple[RunText, ...]:
    one = item.conditions[number]
    if not one.texts and one.probabilities is not None:
        named = zip(item.options, one.probabilities, strict=True)
        answer = one.answers[0] if one.answers else ""
        right = item.is_right(answer) if item.has_label else None
        text = "\n".join(f"{share:.4f}  {option}" for option, share in named)
        return (RunText(text, 1, answer, right, "option probabilities"),)
    places: dict[str, list[int]] = {}
    for at, text in enumerate(one.texts):
        places.setdefault(text, []).append(at)
    answers, certainty = Counter(one.answers), one.certainty.tolist()
    ordered = sorted(
        places.items(), key=lambda pair: (-answers[one.answers[pair[1][0]]], -len(pair[1]))
    )
    return tuple(
        RunText(
            text=text,
            count=len(at),
            answer=one.answers[at[0]],
            right=item.is_right(one.answers[at[0]]) if item.has_label else None,
            notes=_notes(float(one.tokens[at[0]]), _mean(certainty[run] for run in at)),
        )
        for text, at in ordered
    )


def _mean(numbers: Iterable[float]) -> float:
    known = [number for number in numbers if math.isfinite(number)]
    return sum(known) / len(known) if known else math.nan


def _notes(tokens: float, certainty: float) -> str:
    parts = [counted(round(tokens), "token")] if math.isfinite(tokens) else []
    parts += [f"certainty {certainty:.2f}"] if math.isfinite(certainty) else []
    return ", ".join(parts)


def _title(sample: Mapping[str, Any]) -> str:
    """The question as the document has it, or the end of the prompt."""
    doc = sample.get("doc")
    fields = doc if isinstance(doc, Mapping) else {}
    named = [fields[name] for name in _QUESTIONS if isinstance(fields.get(name), str)]
    if named:
        return " ".join(named[0].split())[:160]
    words = " ".join(_prompt(sample).split())
    # From the beginning of a word.
    return words if len(words) <= 160 else "… " + words[-160:].partition(" ")[2]


def _prompt(sample: Mapping[str, Any]) -> str:
    asked = sample.get("arguments")
    first: Any = asked.get("gen_args_0", {}).get("arg_0") if isinstance(asked, Mapping) else None
    text = first if isinstance(first, str) else json.dumps(sample.get("doc"), ensure_ascii=False)
    return text if len(text) <= PROMPT_TAIL else "…" + text[-PROMPT_TAIL:]
