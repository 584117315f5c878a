"""Answers, labels and hashes of sample lines, read once more from their texts."""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lm_eval.utils import handle_non_serializable

from lmrel_tasks.conditions import read_conditions
from lmrel_tasks.filters.answer import options_of
from lmrel_tasks.filters.canonical import canonical_all
from lmrel_tasks.labels import acceptable
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.stopping import next_round
from lmrel_tasks.option_order import rearranged
from lmrel_tasks.request import item_key
from lmrel_tasks.results import item_of
from lmrel_tasks.settings import Settings

if TYPE_CHECKING:
    from lmrel_tasks.recomputing import Check

# Filters that leave the texts as they are.
KEEP_TEXTS = frozenset({"answer", "embed", "cluster", "behaviour"})
# Steps behind `answer` that leave a run's text and answer as they are.
_KEEPS = ("embed", "take_first", "take_first_k")


class Rereader:
    """Turns sample lines into items and counts what does not follow from their texts.

    Args:
        task: its name.
        config: its configuration as stored in the results.
        settings: its ``metadata.lmrel``.
    """

    def __init__(self, task: str, config: Mapping[str, Any], settings: Settings) -> None:
        self.task, self.config, self.settings = task, config, settings
        self.conditions = {
            one.name: one for one in read_conditions(task, settings.conditions, settings.text)
        }
        self.looked: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.example: dict[str, str] = {}
        self.steps = {
            str(one.get("name")): list(one.get("filter", ()))
            for one in config.get("filter_list") or ()
        }

    def item(self, sample: Mapping[str, Any]) -> Item:
        """The item of a line; what is odd about the line is counted."""
        item = item_of(sample)
        record = sample.get("lmrel") or {}
        self._hashes(sample, item)
        if record:
            self._count("item keys", item_key(sample["doc"]) == item.key, item)
        if record.get("runs") is not None:
            self._first_round(record, item)
            self._texts(sample, item)
            self._answers(sample, item)
        return item

    def checks(self) -> Iterator[Check]:
        """What was found, one line per kind."""
        from lmrel_tasks.recomputing import Check

        for what, number in self.looked.items():
            wrong = self.wrong[what]
            yield Check(
                self.task, what, "differs" if wrong else "equal", f"{number} read again",
                f"{number - wrong} the same", 0.0,
                f"first in item {self.example[what]}" if wrong else "",
            )  # fmt: skip

    def _count(self, what: str, right: bool, item: Item) -> None:
        self.looked[what] += 1
        if not right:
            self.wrong[what] += 1
            self.example.setdefault(what, item.key)

    def _hashes(self, sample: Mapping[str, Any], item: Item) -> None:
        first = next(iter(self.conditions.values()))
        if "doc_hash" in sample and first.option_order is None and first.edit is None:
            text = json.dumps(
                sample.get("doc"), indent=2, default=handle_non_serializable, ensure_ascii=False
            )
            self._count("document hashes", _digest(text) == sample["doc_hash"], item)
        asked = sample.get("arguments", {}).get("gen_args_0", {}).get("arg_0")
        if "prompt_hash" in sample and isinstance(asked, str):
            self._count("prompt hashes", _digest(asked) == sample["prompt_hash"], item)
        if "target_hash" in sample:
            target = str(sample.get("target"))
            self._count("target hashes", _digest(target) == sample["target_hash"], item)

    def _first_round(self, record: Mapping[str, Any], item: Item) -> None:
        rule, repeats = self.settings.stopping, self.config.get("repeats", 1)
        always = next_round([], repeats, **rule) if rule and repeats > 1 else None
        self._count("rounds", record.get("first_round") == always, item)

    def _texts(self, sample: Mapping[str, Any], item: Item) -> None:
        """Filters of this plugin change no text; others are taken at their word."""
        steps = [step.get("function") for step in self.steps.get(sample.get("filter", "none"), ())]
        if steps and KEEP_TEXTS.issuperset(steps):
            raw = [[str(text) for text in cell] for cell in sample.get("resps") or ()]
            for one, cell in zip(item.conditions, raw, strict=True):
                nothing_arrived = not one.texts and one.missing > 0
                self._count("texts", list(one.texts) == cell or nothing_arrived, item)

    def _answers(self, sample: Mapping[str, Any], item: Item) -> None:
        steps = self.steps.get(sample.get("filter", "none"), [])
        names = [step.get("function") for step in steps]
        if "answer" not in names or not set(names[names.index("answer") + 1 :]) <= set(_KEEPS):
            return
        step = steps[names.index("answer")]
        kind, doc = step.get("kind", "text"), sample["doc"]
        for one in item.conditions:
            order, fields = self.conditions[one.name].option_order, self.settings.option_fields
            changed = None
            if order is not None and fields is not None:
                changed = rearranged(doc, fields, order, item_key(doc))
            options = options_of(changed if changed is not None else doc, step.get("choices"))
            answers = canonical_all(one.texts, kind, options)
            if changed is not None and kind == "mcq":
                answers = [changed.original_letter(x) if x else x for x in answers]
            for again, said in zip(answers, one.answers, strict=True):
                self._count("answers", again == said, item)
        if item.has_label and not self.config.get("doc_to_choice"):
            options = options_of(doc, step.get("choices"))
            possible = _labels(str(sample.get("target")), kind, options)
            self._count("labels", item.labels in possible, item)


def _labels(text: str, kind: str, options: Any) -> list[tuple[str, ...] | None]:
    found = []
    for target in _targets(text):
        try:
            found.append(acceptable(target, kind, options))
        except ValueError:
            continue
    return found


def _targets(text: str) -> list[Any]:
    """What the harness may have written as this text: itself, or a list."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [text]
    return [text, list(value)] if isinstance(value, (list, tuple)) else [text]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
