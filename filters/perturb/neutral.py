"""Gender removal: every gendered word of a text becomes neutral."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmrel_tasks.filters.perturb.agreement import agreement_edits
from lmrel_tasks.filters.perturb.lexicon import (
    Gendered,
    first_names,
    gendered_words,
    is_first_name,
    is_gendered_here,
    untouchable_spans,
)
from lmrel_tasks.filters.perturb.pos import can_be, main_tag
from lmrel_tasks.filters.perturb.pronouns import (
    her_is_possessive,
    his_stands_alone,
    joined_pronoun,
)
from lmrel_tasks.filters.perturb.result import Perturbed
from lmrel_tasks.filters.perturb.shorthand import SexMark, sex_marks
from lmrel_tasks.filters.perturb.words import (
    Edit,
    Token,
    apply_edits,
    drop,
    match_case,
    overlaps,
    read_rows,
    tokenize,
)

_NOT_STATED = "not stated"
_RACE_LETTERS = {"W": "white", "B": "Black", "H": "Hispanic", "A": "Asian"}
_RACE_LETTERS |= {"AA": "African American"}
_SIGNS = {"he": 1, "him": 1, "his": 1, "himself": 1, "hes": 1}
_SIGNS |= {"she": -1, "her": -1, "hers": -1, "herself": -1, "shes": -1}
_FIELD_NAME = re.compile(r"\b(?:sex|gender)(?:\s+at\s+birth)?\s*[:=-]\s*$", re.IGNORECASE)
_LINK_VERB = re.compile(r"\b(?:am|is|are|was|were|['’]m|['’]s|im)\s+$", re.IGNORECASE)


def _pronoun_edits(text: str, tokens: Sequence[Token], i: int) -> list[Edit]:
    token, word = tokens[i], tokens[i].lower
    sign = _SIGNS[word]
    joined = joined_pronoun(tokens, i, -1)
    if joined and tokens[i - 1].lower in ("or", "/") and joined in _SIGNS:
        # The second of "he or she": the first one already became "they".
        gone = Edit(tokens[i - 2].end, token.end, "", sign, 2)
        if word not in ("he", "she"):
            return [gone]
        verbs = agreement_edits(text, tokens, i, sign)
        return [gone, *(verbs or agreement_edits(text, tokens, i - 2, sign))]

    def replace(new: str) -> Edit:
        return Edit(token.start, token.end, match_case(token.text, new), sign, 2)

    if word in ("he", "she"):
        verbs = [] if joined_pronoun(tokens, i, 1) else agreement_edits(text, tokens, i, sign)
        return [replace("they"), *verbs]
    if word in ("hes", "shes"):
        return [replace("theyre")]
    if word in ("himself", "herself"):
        return [replace("themselves")]
    if word == "him":
        return [replace("them")]
    if word == "hers":
        return [replace("theirs")]
    pair = joined_pronoun(tokens, i, 1)
    if word == "his":
        if pair == "her":
            alone = not her_is_possessive(tokens, i + 2)
        else:
            alone = his_stands_alone(tokens, i)
        return [replace("theirs" if alone else "their")]
    owner = pair == "his" or (pair is None and her_is_possessive(tokens, i))
    return [replace("their" if owner else "them")]


def _sex_word_edit(text: str, tokens: Sequence[Token], i: int, word: Gendered, person: str) -> Edit:
    """Removal of "male" or "female": adjective, noun, predicate or value of a field."""
    token = tokens[i]
    before, after = text[: token.start], tokens[i + 1] if i + 1 < len(tokens) else None
    previous = tokens[i - 1] if i else None

    def replace(new: str) -> Edit:
        return Edit(token.start, token.end, match_case(token.text, new), word.sign, 1)

    if word.neutral:
        return replace(word.neutral)
    if _FIELD_NAME.search(before):
        return Edit(token.start, token.end, _NOT_STATED, word.sign, 1)
    same_line = after is not None and "\n" not in text[token.end : after.start]
    noun_follows = (
        same_line
        and after is not None
        and after.is_word
        and (
            main_tag(after.lower) in ("NOUN", "ADJ")
            and can_be(after.lower, "NOUN", 0.0 if main_tag(after.lower) == "ADJ" else 0.3)
            and after.lower not in ("with", "who", "in", "on", "here", "and", "a", "i")
        )
    )
    if noun_follows or (same_line and after is not None and after.text[0].isdigit()):
        return drop(text, token.start, token.end, word.sign, 1)
    closes = after is None or not same_line or after.text in ",.);/"
    if previous is not None and previous.text in ",/" and closes:
        return Edit(previous.start, token.end, "", word.sign, 1)
    opens = previous is None or previous.text == "(" or "\n" in text[previous.end : token.start]
    if opens and same_line and after is not None and after.text == ",":
        end = after.end + (text[after.end : after.end + 1] == " ")
        return Edit(token.start, end, "", word.sign, 1)
    if previous is not None and previous.text[-1].isdigit():
        return drop(text, token.start, token.end, word.sign, 1)
    return replace(f"a {person}" if _LINK_VERB.search(before) else person)


def _title_edit(text: str, token: Token, sign: int) -> Edit:
    if token.lower in ("sir", "madam", "ma'am"):
        if re.search(r"\bdear\s+$", text[: token.start], re.IGNORECASE):
            return Edit(token.start, token.end, "Sir or Madam", sign, 2)
        comma = re.search(r",?\s*$", text[: token.start])
        return Edit(comma.start() if comma else token.start, token.end, "", sign, 2)
    end = token.end + (1 if text[token.end : token.end + 1] == "." else 0)
    return drop(text, token.start, end, sign, 2)


def _mark_edit(text: str, mark: SexMark) -> Edit:
    if mark.field:
        return Edit(mark.start, mark.end, _NOT_STATED, mark.sign, 1)
    if mark.race:
        return Edit(mark.cut_start, mark.end, f" {_RACE_LETTERS[mark.race]} patient", mark.sign, 1)
    if mark.cut_start < mark.start and text[mark.cut_start - 1] == " ":
        return drop(text, mark.start, mark.end, mark.sign, 1)
    glued_noun = mark.age_end == mark.start and re.search(
        r"\ban?\s+$", text[: mark.age_start], re.IGNORECASE
    )
    return Edit(mark.cut_start, mark.cut_end, "-year-old" if glued_noun else "", mark.sign, 1)


def _neutral_names(text: str, tokens: Sequence[Token]) -> dict[str, str]:
    """A neutral name for each listed first name, in order, none that the text already has."""
    present = {t.text.title() for t in tokens}
    free = [row[0] for row in read_rows("gender_neutral_names.txt") if row[0] not in present]
    names = [t.text.title() for t in tokens if t.text.title() in first_names()]
    return dict(zip(dict.fromkeys(names), free, strict=False))


def _removal_edits(text: str, person: str) -> list[Edit]:
    skip = untouchable_spans(text)
    # "Dear Sir or Madam" is neutral as it stands.
    skip += [m.span() for m in re.finditer(r"\b(?:sir or madam|madam or sir)\b", text, re.I)]
    edits = [_mark_edit(text, m) for m in sex_marks(text) if not overlaps(m.start, m.end, skip)]
    tokens = tokenize(text)
    names = _neutral_names(text, tokens)
    for i, token in enumerate(tokens):
        if not token.is_word or overlaps(token.start, token.end, skip):
            continue
        if token.lower in _SIGNS:
            edits += _pronoun_edits(text, tokens, i)
            continue
        name = token.text.title() if token.text.isupper() else token.text
        if name in names and is_first_name(tokens, i):
            new = match_case(token.text, names[name])
            edits.append(Edit(token.start, token.end, new, first_names()[name].sign, 3))
            continue
        word = gendered_words().get(token.lower)
        if word is None or not is_gendered_here(tokens, i, word):
            continue
        if word.kind == "sex":
            edits.append(_sex_word_edit(text, tokens, i, word, person))
        elif word.kind == "title":
            edits.append(_title_edit(text, token, word.sign))
        else:
            neutral = person if word.neutral == "person" else word.neutral
            # "BF" is an abbreviation, not a word in capitals.
            source = token.lower if token.lower in ("bf", "gf") else token.text
            edits.append(Edit(token.start, token.end, match_case(source, neutral), word.sign))
    return _without_overlaps(edits)


def _without_overlaps(edits: list[Edit]) -> list[Edit]:
    kept: list[Edit] = []
    for edit in sorted(edits):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def perturb_gender_remove(text: str, person: str = "person") -> Perturbed:
    """Take the gender out of ``text``.

    He and she become they with the verb in agreement, man and woman become ``person``, kinship
    its neutral word, titles go, first names become neutral ones, "45M" becomes "45" and the value
    of a sex field "not stated". Terms bound to one sex stay.

    Args:
        person: noun for man, woman, male and female; "patient" suits clinical notes.

    Returns:
        The text; direction is 0, as removal has no sign.

    >>> perturb_gender_remove("She walks to her car.").text
    'They walk to their car.'
    """
    edits = _removal_edits(text, person)
    return Perturbed(apply_edits(text, edits), 0, len(edits))


def gender_remove(text: str, person: str = "person") -> str:
    """``perturb_gender_remove(text, person).text``.

    >>> gender_remove("The woman says he has lost his keys.", person="patient")
    'The patient says they have lost their keys.'
    """
    return perturb_gender_remove(text, person).text
