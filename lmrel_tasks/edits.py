"""Conditions of a bias experiment: what each does to an item's text.

A condition has a ``role`` and, unless it asks the text as it is, one source of its text: a
``field`` of the dataset, a ``perturbation`` by name, a ``paraphrase`` made on the spot, a
``frozen`` file, or a ``prefix`` that is put in front.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from lmrel_tasks.filters.paraphrase import edit_fraction
from lmrel_tasks.filters.perturb import get_perturbation
from lmrel_tasks.frozen import baselines_file, find_file, frozen_text
from lmrel_tasks.paraphrasing import Paraphrases, lexical
from lmrel_tasks.token_ids import Tokens, tokens_of

ROLES = ("original", "targeted", "benign", "fixed_phrase", "rerun")
SOURCES = ("field", "perturbation", "paraphrase", "frozen", "prefix")
EDIT_FIELDS = ("role", "text", "of", "arguments", "number", "direction", *SOURCES)
FIXED_PHRASE = "This text was printed on white paper."
_NEEDS_SOURCE = ("targeted", "benign")


@dataclass(frozen=True)
class Edit:
    """What a condition does to the text of an item.

    Attributes:
        role: one of `ROLES`.
        text: the document's field that holds the text.
        source: one of `SOURCES`, or None for the text as it is.
        value: the column, perturbation, method, file or sentence.
        arguments: of the perturbation.
        of: the targeted condition that a benign one is matched to.
        number: which of an item's paraphrases, from 0.
        direction: a column with the signed direction of a targeted edit from data.
    """

    role: str
    text: str | None = None
    source: str | None = None
    value: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    of: str | None = None
    number: int = 0
    direction: str | None = None


@dataclass(frozen=True)
class Edited:
    """A text as a condition asks it.

    Attributes:
        text: None where there is none for this item, or nothing to replace.
        direction: signed direction of the edit, NaN where it has none.
        applicable: False if the edit finds nothing to change in this item.
        reason: why there is no text.
    """

    text: str | None
    direction: float = math.nan
    applicable: bool = True
    reason: str = ""

    @property
    def exists(self) -> bool:
        """False if there is nothing to ask under this condition."""
        return self.applicable and not self.reason


def read_edit(where: str, declared: Mapping[str, Any], text: str | None) -> Edit | None:
    """The edit that a declared condition makes; None for a condition without ``role``.

    Args:
        where: task and condition, for messages.
        declared: the condition.
        text: the task's field of the text, for conditions that name none.

    Raises:
        ValueError: for a role, source or argument that does not exist.
    """
    given = [key for key in EDIT_FIELDS if declared.get(key) is not None]
    if not given:
        return None
    role = declared.get("role")
    if role not in ROLES:
        raise ValueError(f"{where}: role must be one of {', '.join(ROLES)}, not {role!r}")
    sources = [key for key in SOURCES if key in given]
    if len(sources) > 1:
        raise ValueError(f"{where}: {sources[0]} and {sources[1]} are two sources of one text")
    if role in _NEEDS_SOURCE and not sources:
        raise ValueError(f"{where}: role {role} needs one of {', '.join(SOURCES)}")
    if role == "rerun" and sources:
        raise ValueError(f"{where}: role rerun asks the original again; it takes no {sources[0]}")
    source = sources[0] if sources else None
    value = str(declared[source]) if source else ""
    if role == "fixed_phrase" and source is None:
        source, value = "prefix", FIXED_PHRASE
    arguments = declared.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise ValueError(f"{where}: arguments must be a mapping, not {arguments!r}")
    if source == "perturbation":
        try:
            get_perturbation(value, **arguments)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if source == "paraphrase" and value != "lexical":
        raise ValueError(
            f"{where}: paraphrase must be lexical, not {value!r}; for a language model's, run "
            "`lmrel paraphrase` and give its file as `frozen:`"
        )
    target = declared.get("text") or text
    if source not in (None, "field") and not target:
        raise ValueError(f"{where}: say which field holds the text: metadata.lmrel.text: FIELD")
    if source == "field" and not target:
        raise ValueError(f"{where}: say which field {value!r} replaces: metadata.lmrel.text: FIELD")
    return Edit(
        role, target, source, value, dict(arguments), declared.get("of"),
        int(declared.get("number") or 0), declared.get("direction"),
    )  # fmt: skip


def check_family(task: str, edits: Mapping[str, Edit]) -> None:
    """Refuse a set of conditions that makes no experiment.

    Raises:
        ValueError: without an original, or a benign condition ``of`` nothing.
    """
    if not edits:
        return
    roles = [edit.role for edit in edits.values()]
    if roles.count("original") != 1:
        raise ValueError(
            f"task {task}: metadata.lmrel.conditions with roles need exactly one of role original, "
            f"got {roles.count('original')}"
        )
    targeted = [name for name, edit in edits.items() if edit.role == "targeted"]
    for name, edit in edits.items():
        if edit.of is not None and edit.of not in targeted:
            raise ValueError(
                f"task {task}: condition {name} is `of: {edit.of}`, but the targeted conditions "
                f"are {', '.join(targeted) or '(none)'}"
            )


class Editor:
    """Makes the texts of all conditions of an item, once.

    Args:
        edits: condition name -> its edit.
        metadata: the task's metadata.
    """

    def __init__(self, edits: Mapping[str, Edit], metadata: Mapping[str, Any]) -> None:
        self.edits = edits
        self.metadata = metadata
        self._tokens: Tokens | None = None
        self._made: dict[tuple[str, str], Edited] = {}

    @property
    def tokens(self) -> Tokens:
        """The tokenizer of the model under test."""
        if self._tokens is None:
            self._tokens = tokens_of(self.metadata)
        return self._tokens

    def edited(self, doc: Mapping[str, Any], key: str, name: str) -> Edited:
        """The text of a document under a condition.

        Raises:
            ValueError: if the document lacks a field, or a perturbation refuses the text.
        """
        if (key, name) not in self._made:
            self._made[key, name] = self._make(doc, key, self.edits[name])
        return self._made[key, name]

    def fraction(self, doc: Mapping[str, Any], key: str, name: str) -> float:
        """Token edit fraction of the condition's text against the original's; NaN without."""
        before, after = self._original(doc, key), self.edited(doc, key, name).text
        if before is None or after is None:
            return math.nan
        ids = self.tokens.ids(before)
        return edit_fraction(ids, self.tokens.ids(after)) if len(ids) else math.nan

    def exists(self, doc: Mapping[str, Any], key: str, name: str) -> bool:
        """Whether there is something to ask under a condition; True for one without an edit."""
        return name not in self.edits or self.edited(doc, key, name).exists

    def info(self, doc: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
        """What metrics know of a condition: its role, direction, edit fraction, what it lacks."""
        if name not in self.edits:
            return {}
        edit, made = self.edits[name], self.edited(doc, key, name)
        known: dict[str, Any] = {"role": edit.role}
        if edit.role == "benign" and (target := self.target_of(edit)):
            known["of"] = target
        if not math.isnan(made.direction):
            known["direction"] = made.direction
        if made.reason:
            known["reason"] = made.reason
        fraction = self.fraction(doc, key, name) if edit.role in _NEEDS_SOURCE else math.nan
        if not math.isnan(fraction):
            known["edit_fraction"] = fraction
        return known

    def without_baseline(self) -> dict[str, Counter[str]]:
        """Benign condition -> why items that were looked at have no text under it, and how many."""
        found: dict[str, Counter[str]] = {}
        for (_, name), made in self._made.items():
            if self.edits[name].role == "benign" and made.applicable and made.reason:
                found.setdefault(name, Counter())[made.reason] += 1
        return found

    def target_of(self, edit: Edit) -> str | None:
        """The targeted condition that a benign one is matched to."""
        if edit.of is not None:
            return edit.of
        targeted = [name for name, one in self.edits.items() if one.role == "targeted"]
        return targeted[0] if len(targeted) == 1 else None

    def _original(self, doc: Mapping[str, Any], key: str) -> str | None:
        name = next(name for name, edit in self.edits.items() if edit.role == "original")
        return self.edited(doc, key, name).text

    def _make(self, doc: Mapping[str, Any], key: str, edit: Edit) -> Edited:
        if edit.role == "rerun":
            return Edited(self._original(doc, key))
        if edit.source is None:
            return Edited(None if edit.text is None else _field(doc, edit.text))
        file = baselines_file(self.metadata) if edit.role == "benign" else None
        if file is not None or edit.source == "frozen":
            return self._frozen(file or edit.value, key, edit)
        if edit.source == "field":
            return _column(doc, edit)
        text = _field(doc, str(edit.text)) if edit.role == "original" else self._original(doc, key)
        if text is None:
            return Edited(None, reason="no original")
        if edit.source == "prefix":
            return Edited(f"{edit.value.rstrip()} {text}")
        if edit.source == "paraphrase":
            return self._paraphrased(doc, key, text, edit)
        # A template is filled anew; every other perturbation starts from the original.
        start = _field(doc, str(edit.text)) if edit.value == "slot_fill" else text
        made = get_perturbation(edit.value, **edit.arguments)(str(start))
        if not made.applicable or made.text == text:
            return Edited(None, applicable=False, reason=f"{edit.value} finds nothing to change")
        return Edited(made.text, float(made.direction))

    def _frozen(self, file: str, key: str, edit: Edit) -> Edited:
        target = self.target_of(edit) if edit.role == "benign" else None
        record = frozen_text(find_file(file, self.metadata), key, edit.number, target)
        text = record.get("text")
        direction = float(record.get("direction", math.nan))
        if text:
            return Edited(text, direction)
        reasons = record.get("reasons") or ["not in the file"]
        return Edited(None, direction, reason="; ".join(map(str, reasons)))

    def _paraphrased(self, doc: Mapping[str, Any], key: str, text: str, edit: Edit) -> Edited:
        target = self.target_of(edit)
        if target is None:
            return Edited(None, reason="no single targeted condition: say `of: NAME`")
        targeted = self.edited(doc, key, target).text
        if targeted is None:
            return Edited(None, applicable=False, reason=f"{target} does not apply")
        chosen = _lexical(text, targeted, self.tokens, edit.number + 1)
        if len(chosen.texts) > edit.number:
            return Edited(chosen.texts[edit.number])
        return Edited(None, reason="; ".join(chosen.reasons) or "no further paraphrase")


@lru_cache(maxsize=65536)
def _lexical(text: str, targeted: str, tokens: Tokens, count: int) -> Paraphrases:
    # Several tasks on the same items share their paraphrases.
    return lexical(text, targeted, tokens.ids, count=count)


def _field(doc: Mapping[str, Any], name: str) -> str:
    if name not in doc:
        raise ValueError(
            f"the document has no field {name!r}; its fields: {', '.join(map(str, doc))}"
        )
    return str(doc[name])


def _column(doc: Mapping[str, Any], edit: Edit) -> Edited:
    if edit.value not in doc:
        _field(doc, edit.value)
    value = doc[edit.value]
    sign = doc.get(edit.direction) if edit.direction else None
    direction = math.nan if sign is None else float(sign)
    if value is None or not str(value).strip():
        return Edited(None, direction, reason=f"field {edit.value} is empty")
    if edit.role == "targeted" and edit.text and str(value) == str(doc.get(edit.text)):
        return Edited(None, applicable=False, reason=f"field {edit.value} changes nothing")
    return Edited(str(value), direction)


def names_with(edits: Mapping[str, Edit], role: str) -> Sequence[str]:
    """Names of the conditions of a role, in their order."""
    return [name for name, edit in edits.items() if edit.role == role]
