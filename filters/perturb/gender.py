"""Gender swap: every gendered word of a text becomes its partner."""

from __future__ import annotations

import re

from lmrel_tasks.filters.perturb.lexicon import (
    first_names,
    gender_bound_terms,
    gendered_words,
    is_first_name,
    is_gendered_here,
    untouchable_spans,
)
from lmrel_tasks.filters.perturb.neutral import gender_remove, perturb_gender_remove
from lmrel_tasks.filters.perturb.pronouns import (
    her_is_possessive,
    his_stands_alone,
    joined_pronoun,
)
from lmrel_tasks.filters.perturb.result import Perturbed
from lmrel_tasks.filters.perturb.shorthand import sex_marks
from lmrel_tasks.filters.perturb.words import (
    Edit,
    Token,
    apply_edits,
    direction_of,
    match_case,
    overlaps,
    tokenize,
)

__all__ = [
    "gender_bound_terms",
    "gender_remove",
    "gender_swap",
    "perturb_gender_remove",
    "perturb_gender_swap",
]

_PRONOUNS = {
    "he": ("she", 1),
    "hes": ("shes", 1),
    "him": ("her", 1),
    "himself": ("herself", 1),
    "she": ("he", -1),
    "shes": ("hes", -1),
    "hers": ("his", -1),
    "herself": ("himself", -1),
}
_ABOUT_PATIENT = re.compile(
    r"(?:\bold|\by/?o|\byrs?|\bI am an?|\bI['’]?m an?|\bpatient is an?)\s+(?:\w+\s+){0,2}$",
    re.IGNORECASE,
)


def _pronoun(tokens: list[Token], i: int) -> tuple[str, int] | None:
    word = tokens[i].lower
    if word == "her":
        beside = joined_pronoun(tokens, i, -1) or joined_pronoun(tokens, i, 1)
        if beside in ("his", "hers"):
            return "his", -1
        if beside in ("him", "he"):
            return "him", -1
        return ("his" if her_is_possessive(tokens, i) else "him"), -1
    if word == "his":
        if joined_pronoun(tokens, i, 1) == "her":
            return ("her" if her_is_possessive(tokens, i + 2) else "hers"), 1
        return ("hers" if his_stands_alone(tokens, i) else "her"), 1
    return _PRONOUNS.get(word)


def _word_edit(text: str, tokens: list[Token], i: int) -> Edit | None:
    token = tokens[i]
    if pronoun := _pronoun(tokens, i):
        return Edit(token.start, token.end, match_case(token.text, pronoun[0]), pronoun[1], 2)
    name = first_names().get(token.text.title() if token.text.isupper() else token.text)
    if name and is_first_name(tokens, i):
        return Edit(token.start, token.end, match_case(token.text, name.partner), name.sign, 3)
    word = gendered_words().get(token.lower)
    if word is None or not is_gendered_here(tokens, i, word):
        return None
    partner = match_case(token.text, word.partner)
    if token.lower == "miss" and text[token.end : token.end + 1] != ".":
        partner += "."
    if word.kind == "sex":
        tier = 1
    elif word.kind == "person":
        tier = 1 if _ABOUT_PATIENT.search(text[: token.start]) else 2
    else:
        tier = 2 if word.kind == "title" else 3
    return Edit(token.start, token.end, partner, word.sign, tier)


def _swap_edits(text: str) -> list[Edit]:
    skip = untouchable_spans(text)
    edits = []
    for mark in sex_marks(text):
        if not overlaps(mark.start, mark.end, skip):
            other = "F" if mark.sign == 1 else "M"
            if text[mark.start].islower():
                other = other.lower()
            edits.append(Edit(mark.start, mark.end, other, mark.sign, 1))
    tokens = tokenize(text)
    for i, token in enumerate(tokens):
        if token.is_word and not overlaps(token.start, token.end, skip):
            edit = _word_edit(text, tokens, i)
            if edit:
                edits.append(edit)
    return edits


def perturb_gender_swap(text: str) -> Perturbed:
    """Swap the gender of everybody in ``text``.

    Pronouns (her becomes his or him by its place in the sentence), titles, kinship, roles, common
    first names and clinical shorthand change; capitals, layout, code, addresses and terms bound
    to one sex (:func:`gender_bound_terms`) stay.

    Returns:
        The text and the direction that the strongest evidence agrees on: marks of the patient's
        sex ("45M", "female", "I am a woman"), else pronouns, titles and man/woman words, else
        kinship, roles and names. 0 when that evidence is mixed.

    Swapping twice gives the text back except where English has one form for two: him/his against
    her when a rule misjudges the place, hers/his, and words with several partners (Mrs, Miss and
    Ms; mum and mom; guy).

    >>> perturb_gender_swap("He lost his keys.")
    Perturbed(text='She lost her keys.', direction=1, edits=2)
    """
    edits = _swap_edits(text)
    return Perturbed(apply_edits(text, edits), direction_of(edits), len(edits))


def gender_swap(text: str) -> str:
    """``perturb_gender_swap(text).text``.

    >>> gender_swap("Her doctor called her back.")
    'His doctor called him back.'
    """
    return perturb_gender_swap(text).text
