"""The gendered words and first names, and where in a text they count as such."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from lmrel_tasks.filters.perturb.words import Token, protected_spans, read_rows, word_set


class Gendered(NamedTuple):
    """A gendered word: its partner, its neutral form ("" without one), kind and sign."""

    partner: str
    neutral: str
    kind: str
    sign: int


@cache
def gendered_words() -> dict[str, Gendered]:
    """Lower-case gendered word to what is known of it, from ``gender_words.tsv``."""
    found: dict[str, Gendered] = {}
    for male, female, neutral, kind, way in read_rows("gender_words.tsv"):
        neutral = "" if neutral == "-" else neutral
        if way in ("both", "m2f"):
            found.setdefault(male, Gendered(female, neutral, kind, 1))
        if way in ("both", "f2m"):
            found.setdefault(female, Gendered(male, neutral, kind, -1))
    return found


@cache
def first_names() -> dict[str, Gendered]:
    """First name to its partner of the other sex, from ``gender_names.tsv``."""
    rows = read_rows("gender_names.tsv")
    found = {male: Gendered(female, "", "name", 1) for male, female in rows}
    return found | {female: Gendered(male, "", "name", -1) for male, female in rows}


@cache
def _fixed_phrases() -> tuple[re.Pattern[str], ...]:
    rows = [row[0] for row in read_rows("gender_fixed_phrases.txt")]
    plain = "|".join(p for p in rows if not p.startswith("="))
    cased = "|".join(p[1:] for p in rows if p.startswith("="))
    edge = r"(?<!\w)(?:{})(?!\w)"
    return re.compile(edge.format(plain), re.IGNORECASE), re.compile(edge.format(cased))


@cache
def _bound_terms() -> re.Pattern[str]:
    terms = "|".join(row[1] for row in read_rows("gender_bound_terms.tsv"))
    return re.compile(rf"(?<!\w)(?:{terms})(?!\w)", re.IGNORECASE)


def gender_bound_terms(text: str) -> tuple[str, ...]:
    """Words of ``text`` that tie it to one sex by anatomy ("pregnant", "prostate").

    They are never changed; an item that has any may be left out of a gender comparison, because
    its swapped text can be impossible rather than merely different.

    >>> gender_bound_terms("She is pregnant; her PSA is normal.")
    ('pregnant', 'psa')
    """
    found = (m.group().lower() for m in _bound_terms().finditer(text))
    return tuple(dict.fromkeys(found))


def untouchable_spans(text: str) -> list[tuple[int, int]]:
    """Code, addresses and fixed phrases, in which no gendered word is looked for."""
    phrases = [m.span() for pattern in _fixed_phrases() for m in pattern.finditer(text)]
    return protected_spans(text) + phrases


_AFTER_NAME = word_set(
    "hospital clinic medical university institute foundation school college street avenue road "
    "syndrome disease law center centre county city"
)
_POSSESSIVE = word_set("my his her your their our the a an ex new old")
_TITLES = word_set("mr mrs ms miss mister")


def _capital(token: Token) -> bool:
    return token.text[0].isupper()


def _neighbours(tokens: Sequence[Token], i: int) -> tuple[Token | None, Token | None]:
    """Tokens beside ``i``; the full stop of an abbreviation ("Mr.", "Dr.") is skipped."""
    before = tokens[i - 1] if i else None
    abbreviated = before and before.text == "." and i > 1 and before.start == tokens[i - 2].end
    if abbreviated and tokens[i - 2].lower in _TITLES | {"dr", "prof", "st"}:
        before = tokens[i - 2]
    return before, tokens[i + 1] if i + 1 < len(tokens) else None


def is_first_name(tokens: Sequence[Token], i: int) -> bool:
    """Whether the listed name at ``i`` is a first name here and not a surname or an eponym."""
    before, after = _neighbours(tokens, i)
    if after and (after.lower in _AFTER_NAME or after.text == "-"):
        return False
    if before is None or not before.is_word:
        return True
    if before.lower in ("dr", "prof", "doctor", "professor", "st", "saint"):
        return False
    if before.lower in _TITLES:
        return after is not None and after.is_word and _capital(after)
    return before.text.title() not in first_names()


def is_gendered_here(tokens: Sequence[Token], i: int, word: Gendered) -> bool:
    """Whether the listed word at ``i`` is meant as such: "Miss Lee" but not "I miss her"."""
    token = tokens[i]
    before, after = _neighbours(tokens, i)
    if word.kind == "title":
        if token.lower not in _TITLES:
            return not (
                _capital(token)
                and after
                and after.is_word
                and _capital(after)
                and after.lower != "or"
            )
        dotted = bool(after and after.text == "." and after.start == token.end)
        name = tokens[i + 2] if dotted and i + 2 < len(tokens) else after
        if not _capital(token) or name is None or not (name.is_word and _capital(name)):
            return False
        # "MS" and "MR" in capitals are multiple sclerosis and magnetic resonance.
        return not token.text.isupper() or token.lower == "mrs" or dotted
    if word.kind == "royal":
        return not _capital(token)
    if token.lower in ("bf", "gf"):
        return bool(
            (before is None or before.lower in _POSSESSIVE)
            and not (after and after.lower in ("diet", "free", "bread", "food"))
        )
    if token.lower == "groom":
        return before is not None and before.lower in _POSSESSIVE | {"and", "or"}
    if token.lower == "lady":
        return not (_capital(token) and after and after.is_word and _capital(after))
    if token.lower in ("man", "boy"):
        exclaimed = before is not None and before.lower in ("oh", "hey", "damn", "ah")
        opening = before is None or before.text in ".!?"
        return not (exclaimed or (opening and after is not None and after.text == ","))
    return True
