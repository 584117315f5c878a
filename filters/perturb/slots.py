"""Template slots for race, gender, name and age, as in vignettes with "[race] [gender]"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from lmrel_tasks.filters.perturb.result import Perturbed
from lmrel_tasks.filters.perturb.words import Edit, apply_edits, drop, match_case

# Slot of a pronoun to its male and female form.
_PRONOUNS = {
    "subject": ("he", "she"),
    "object": ("him", "her"),
    "possessive": ("his", "her"),
    "possessive_pronoun": ("his", "hers"),
    "reflexive": ("himself", "herself"),
    "title": ("Mr.", "Ms."),
}
_FEMALE = {"man": False, "male": False, "boy": False, "woman": True, "female": True, "girl": True}
_VALUES = ("race", "gender", "name", "age")
SLOTS = (*_VALUES, *_PRONOUNS)
_SLOT = re.compile(r"\[(" + "|".join(SLOTS) + r")\]", re.IGNORECASE)
_SLOT_LIKE = re.compile(r"\[([a-z][a-z_ ]*)\]", re.IGNORECASE)


@dataclass(frozen=True)
class Filled:
    """A filled template and the values that went in."""

    text: str
    race: str | None
    gender: str | None
    name: str | None
    age: int | str | None


def _is_female(gender: str) -> bool:
    try:
        return _FEMALE[gender.lower()]
    except KeyError:
        raise ValueError(f"gender {gender!r} is unknown; use one of {', '.join(_FEMALE)}") from None


def has_slots(text: str) -> bool:
    """Whether ``text`` has at least one slot."""
    return bool(_SLOT.search(text))


def _slot_edits(template: str, values: dict[str, int | str | None]) -> list[Edit]:
    edits = []
    gender = values["gender"]
    for match in _SLOT.finditer(template):
        slot = match[1].lower()
        if slot in _PRONOUNS:
            if gender is None:
                raise ValueError(f"slot [{match[1]}] needs gender=; it is missing")
            value = _PRONOUNS[slot][_is_female(str(gender))]
        else:
            given = values[slot]
            if given is None:
                raise ValueError(f"slot [{match[1]}] needs {slot}=; pass '' to leave it out")
            value = str(given)
        if not value:
            edits.append(drop(template, *match.span()))
            continue
        starts = re.search(r"(?:^|[.!?]\s+|\n\s*)[\"“(]?$", template[: match.start()])
        cased = match_case(match[1], value)
        edits.append(Edit(*match.span(), match_case("Xx", cased) if starts else cased))
    return edits


def fill_slots(
    template: str,
    *,
    race: str | None = None,
    gender: str | None = None,
    name: str | None = None,
    age: int | str | None = None,
) -> str:
    """Fill ``[race] [gender] [name] [age]`` and the pronouns that follow from the gender.

    ``[subject] [object] [possessive] [possessive_pronoun] [reflexive] [title]`` take their form
    from ``gender`` (man, male, boy, woman, female, girl). A slot that opens a sentence or is
    written ``[Subject]`` is capitalised, ``[SUBJECT]`` is in capitals, "a"/"an" is kept right,
    and ``race=""`` leaves the slot out together with its space.

    Raises:
        ValueError: a slot without a value, an unknown gender, or a slot that does not exist.

    >>> fill_slots("A [race] [gender] says [possessive] arm hurts.", race="Asian", gender="woman")
    'An Asian woman says her arm hurts.'
    """
    unknown = [m[1] for m in _SLOT_LIKE.finditer(template) if m[1].lower() not in SLOTS]
    if unknown:
        raise ValueError(f"unknown slot [{unknown[0]}]; known slots: {', '.join(SLOTS)}")
    edits = _slot_edits(template, {"race": race, "gender": gender, "name": name, "age": age})
    return _fix_articles(template, edits)


def _fix_articles(template: str, edits: list[Edit]) -> str:
    # A slot has no sound of its own, so the article before it is set by the filled word alone:
    # written as "a" first, then corrected as for any other edit.
    plain = re.sub(r"\b([Aa])n(?=\s+\[)", r"\1", template)
    if plain != template:
        shift = [m.start() + 1 for m in re.finditer(r"\b[Aa]n(?=\s+\[)", template)]
        edits = [
            e._replace(
                start=e.start - sum(s < e.start for s in shift),
                end=e.end - sum(s < e.end for s in shift),
            )
            for e in edits
        ]
    # The bracket hides the old sound, which apply_edits takes for a consonant.
    return apply_edits(plain.replace("[", "\0"), edits).replace("\0", "[")


def slot_grid(
    template: str,
    *,
    races: Sequence[str | None] = (None,),
    genders: Sequence[str | None] = (None,),
    names: Sequence[str | None] = (None,),
    ages: Sequence[int | str | None] = (None,),
) -> list[Filled]:
    """``template`` filled with every combination, races outermost.

    >>> [f.text for f in slot_grid("[race] [gender]", races=["Black"], genders=["man", "woman"])]
    ['Black man', 'Black woman']
    """
    return [
        Filled(fill_slots(template, race=r, gender=g, name=n, age=a), r, g, n, a)
        for r, g, n, a in product(races, genders, names, ages)
    ]


def slot_fill(
    text: str,
    *,
    race: str | None = None,
    gender: str | None = None,
    name: str | None = None,
    age: int | str | None = None,
    reference_gender: str = "man",
) -> Perturbed:
    """:func:`fill_slots` as a perturbation.

    The direction is relative to the condition filled with ``reference_gender``: +1 when that is
    male and ``gender`` female, -1 the other way, 0 when they are the same. A text without slots
    is not applicable.
    """
    if not has_slots(text):
        return Perturbed(text, 0, 0)
    filled = fill_slots(text, race=race, gender=gender, name=name, age=age)
    direction = 0 if gender is None else _is_female(gender) - _is_female(reference_gender)
    return Perturbed(filled, direction, len(_SLOT.findall(text)))
