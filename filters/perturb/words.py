"""Tokens, protected spans and edits: what every perturbation of text shares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).resolve().parent.parent / "data"


def word_set(words: str) -> frozenset[str]:
    """The words of a space-separated string."""
    return frozenset(words.split())


class Token(NamedTuple):
    """A piece of text: a word, a number, a clitic ("'s") or one other character."""

    start: int
    end: int
    text: str

    @property
    def lower(self) -> str:
        return self.text.lower().replace("’", "'")

    @property
    def is_word(self) -> bool:
        return self.text[0].isalpha()


class Edit(NamedTuple):
    """Replace ``text[start:end]`` by ``text``; ``sign`` and ``tier`` tell the direction.

    Tier 1 evidence is about the patient (sex field, "45M"), tier 2 pronouns and titles, tier 3
    everything else; see :func:`direction_of`.
    """

    start: int
    end: int
    text: str
    sign: int = 0
    tier: int = 3


# A word glued to a digit or an underscore is an identifier or shorthand, never an English word.
_TOKEN = re.compile(
    r"\w*[\d_]\w*"
    r"|ma['’]am\b"
    r"|[^\W\d_]+"
    r"|['’](?:s|re|ve|ll|d|m|t)(?![^\W_])"
    r"|\S",
    re.IGNORECASE,
)

_PROTECTED = re.compile(
    r"```.*?```"
    r"|`[^`\n]+`"
    r"|(?:https?|ftp)://\S+|www\.\S+"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|edu|gov|io|uk|de)\b(?:/\S*)?"
    r"|\b[\w-]+\.(?:py|js|ts|txt|csv|json|jsonl|html|xml|pdf|docx?|xlsx?|png|jpe?g|md|ya?ml)\b"
    r"|[@#$%\\]\w+|(?<![\w-])--[A-Za-z][\w-]*=?"
    r"|\w*_\w*(?:\.\w+)*|\b(?:self|this|obj|df)\.\w+"
    r"|\b[a-z]+[A-Z]\w*"
    r"|\b\w+(?:\.\w+)*\(\)"
    r"|\b\w+(?:\.\w+)+\("
    r"|</?[A-Za-z][^<>\n]*>"
    r"|(?<![^\s\"'(])(?:~|\.{1,2})?(?:/[\w.-]+){2,}"
    r"|[A-Za-z]:\\\S+",
    re.DOTALL,
)


def tokenize(text: str) -> list[Token]:
    """Split ``text`` into tokens with their places; white space is left out."""
    return [Token(m.start(), m.end(), m.group()) for m in _TOKEN.finditer(text)]


def protected_spans(text: str) -> list[tuple[int, int]]:
    """Places of code, URLs, e-mail addresses, file names, tags and identifiers."""
    return [m.span() for m in _PROTECTED.finditer(text)]


def overlaps(start: int, end: int, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether ``start:end`` meets any of ``spans``."""
    return any(start < b and a < end for a, b in spans)


@cache
def read_rows(name: str) -> tuple[tuple[str, ...], ...]:
    """Tab-separated rows of a data file of this package, comment lines dropped."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split("\t")) for line in lines if line and not line.startswith("#"))


def match_case(source: str, replacement: str) -> str:
    """``replacement`` in the capitals of ``source``: "HIS" gives "HER", "His" gives "Her"."""
    if len(source) > 1 and source.isupper():
        return replacement.upper()
    if source[:1].isupper():
        return replacement[:1].upper() + replacement[1:]
    return replacement


_VOWEL_SOUND = re.compile(
    r"(?:8\d?\b|8\d\d\b|11\b|18\b|heir|hour|honest|hono|[AEFHILMNORSX]\b"
    r"|(?!uni(?!n)|use|usu|uter|eu|ewe|one\b|once\b)[aeiou])",
    re.IGNORECASE,
)


def vowel_sound(text: str) -> bool:
    """Whether ``text`` takes "an" before it."""
    return bool(_VOWEL_SOUND.match(text.lstrip("\"'“‘([*")))


_ARTICLE = re.compile(r"(?<![\w'’-])(an?)[ \t]+[\"“‘(*]?$", re.IGNORECASE)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Carry out non-overlapping edits and keep "a"/"an" right before each of them.

    An article is changed only where it fitted the old word and does not fit the new one, so that
    errors of the writer stay as they are.
    """
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits):
        before = text[at : edit.start]
        article = _ARTICLE.search(text[: edit.start])
        if article and article.start(1) >= at:
            old = vowel_sound(text[edit.start : edit.start + 40])
            new = vowel_sound((edit.text + text[edit.end : edit.end + 40]).lstrip())
            word = article.group(1)
            if old == (len(word) == 2) and old != new:
                right = "an" if new else "a"
                right = right.upper() if word == "AN" else match_case(word, right)
                cut = article.start(1) - at
                before = before[:cut] + right + before[cut + len(word) :]
        pieces += [before, edit.text]
        at = edit.end
    pieces.append(text[at:])
    return "".join(pieces)


def drop(text: str, start: int, end: int, sign: int = 0, tier: int = 3) -> Edit:
    """An edit that removes ``text[start:end]`` together with one neighbouring space."""
    after = re.match(r"[ \t]+", text[end:])
    before = re.search(r"[ \t]+$", text[:start])
    if after and (before or start == 0 or text[start - 1] in "\n(["):
        end += after.end()
    elif before and (end == len(text) or not text[end].isalnum()):
        start -= len(before.group())
    return Edit(start, end, "", sign, tier)


def direction_of(edits: Iterable[Edit]) -> int:
    """Sign that all edits of the strongest tier agree on; 0 when they do not."""
    edits = [e for e in edits if e.sign]
    strongest = min((e.tier for e in edits), default=0)
    signs = {e.sign for e in edits if e.tier == strongest}
    return signs.pop() if len(signs) == 1 else 0
