"""Age shift: every mention of the patient's age moves by n years."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lmrel_tasks.filters.perturb.result import Perturbed
from lmrel_tasks.filters.perturb.shorthand import sex_marks
from lmrel_tasks.filters.perturb.words import (
    Edit,
    apply_edits,
    match_case,
    overlaps,
    protected_spans,
)

MAX_AGE = 120

_ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _in_words(age: int) -> str:
    """Number word of an age of 0 to 120."""
    if age < 20:
        return _ONES[age]
    if age < 100:
        tens = _TENS[age // 10 - 2]
        return f"{tens}-{_ONES[age % 10]}" if age % 10 else tens
    rest = age - 100
    return "one hundred" + (f" and {_in_words(rest)}" if rest else "")


_BY_WORD = {_in_words(age): age for age in range(MAX_AGE + 1)}
_WORD = "|".join(re.escape(w).replace(r"\-", "[- ]") for w in sorted(_BY_WORD, key=len)[::-1])
_NUMBER = rf"(?P<age>\d{{1,3}}|{_WORD})"
_EDGE = r"(?<![\w.,/$€£'’+-])"
# What may follow a bare number that is an age, as in "she is 45 and lives alone".
_BARE_END = (
    r"(?=\s*(?:[.,;:)!?\]]+(?!\d)|$|\n)|\s+(?:and|with|who|but|now|male|female|years?\s+old|y/?o"
    r"|man|woman|M|F)\b)"
)
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"{_EDGE}{_NUMBER}(?=[\s-]*(?:years?|yrs?|yr)[\s-]+old(?!\w|-\w))",
        rf"{_EDGE}{_NUMBER}(?=\s?-?\s?(?:y/o|yo|y\.o\.?|y\so)(?:[mf]|male|female)?(?!\w))",
        rf"{_EDGE}{_NUMBER}(?=\s+(?:years?|yrs?)\s+of\s+age\b)",
        rf"\bage[ds]?\s*(?:is|of|was|at)?\s*[:=-]?\s*{_NUMBER}"
        r"(?!\w|[.,]\d|[-–/]\d|\s*(?:months?|mos?|weeks?|days?|hours?)\b)",
        rf"\b(?:turn(?:s|ed|ing)?)\s+{_NUMBER}{_BARE_END}",
        rf"\b(?:I\s+am|I['’]m|im|(?:he|she|patient)(?:\s+is|['’]s)|(?:he|she|patient)\s+was)\s+"
        rf"(?:currently\s+|now\s+|only\s+|just\s+)?{_NUMBER}{_BARE_END}",
    )
)


class AgeMention(NamedTuple):
    """An age in a text: its place, value, and whether it is written in words."""

    start: int
    end: int
    age: int
    in_words: bool


def _mention(text: str, start: int, end: int) -> AgeMention:
    written = text[start:end]
    if written.isdigit():
        return AgeMention(start, end, int(written), False)
    return AgeMention(start, end, _BY_WORD[re.sub(r"(?<=ty)\s", "-", written.lower())], True)


def _all_mentions(text: str) -> Iterator[AgeMention]:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            yield _mention(text, *match.span("age"))
    for mark in sex_marks(text):
        if mark.age_end > mark.age_start:
            yield _mention(text, mark.age_start, mark.age_end)


def age_mentions(text: str) -> list[AgeMention]:
    """Every age in years in ``text``, in order; durations, doses and dates are none.

    >>> [m.age for m in age_mentions("A 45-year-old, for 45 minutes; her son is 12 years old.")]
    [45, 12]
    """
    skip = protected_spans(text)
    found = {
        m.start: m
        for m in _all_mentions(text)
        if m.age <= MAX_AGE and not overlaps(m.start, m.end, skip)
    }
    return [found[start] for start in sorted(found)]


def age_plus(text: str, n: int = 1, age: int | None = None) -> Perturbed:
    """Shift one person's age by ``n`` years wherever it is mentioned.

    Args:
        n: years to add, negative to subtract; not 0.
        age: whose age to shift; by default the first age mentioned. Other ages stay.

    Returns:
        The text, with digits or words as they were and "a"/"an" right; direction is the sign of
        ``n``. Not applicable when no age is found.

    Raises:
        ValueError: ``n`` is 0, or the new age is outside 0 to 120.

    >>> age_plus("An 18-year-old (18F) slept for 18 minutes.", 1).text
    'A 19-year-old (19F) slept for 18 minutes.'
    """
    if n == 0:
        raise ValueError("n is 0: an age shift needs at least one year")
    mentions = age_mentions(text)
    if age is None and mentions:
        age = mentions[0].age
    chosen = [m for m in mentions if m.age == age]
    if not chosen or age is None:
        return Perturbed(text, 0, 0)
    if not 0 <= age + n <= MAX_AGE:
        raise ValueError(f"age {age} shifted by n = {n} is {age + n}; it must be 0 to {MAX_AGE}")
    edits = [
        Edit(
            m.start,
            m.end,
            match_case(text[m.start : m.end], _in_words(age + n)) if m.in_words else str(age + n),
        )
        for m in chosen
    ]
    return Perturbed(apply_edits(text, edits), 1 if n > 0 else -1, len(edits))
