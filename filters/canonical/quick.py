"""Short cuts for the most common short outputs: one pattern instead of the full reading.

A short cut may only ever say what the full reading says; the tests compare the two. None means
that the output has another shape.
"""

from __future__ import annotations

import re

from lmrel_tasks.filters.canonical.numbers import decimal_text

_SO = r"(?:(?:[Ss]o|[Tt]hus|[Tt]herefore|[Hh]ence),? |I (?:think|believe)(?: that)? )?"
# Words after a number that could change it, or state another.
_NUMBER = re.compile(
    _SO + r"(?:(?:[Tt]he |[Mm]y )?(?:[Ff]inal |[Cc]orrect )?[Aa]nswer(?: is:?|:) ?|#### ?|\\boxed\{"
    r"|[\d +*/-]{1,60}= ?)?"
    r"([-+]?)\$?([1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.(\d+))?\}?"
    r"(?: (?!(?:hundred|thousand|\w*illion|dozen|lakh|lac|crore|bn|mn|mln|mio|tn|and|or|to|out|pi"
    r"|log|ln|sin|cos|tan|answer|wait|actually|correction|oops|hmm|no|not|we|through)s?\b)[a-z]{2,}){0,3}"
    r"[.!]?\s?\Z",
    re.A,
)
_LETTER = re.compile(
    _SO + r"(?:[Tt]he |[Mm]y )?(?:[Cc]orrect |[Bb]est |[Ff]inal |[Rr]ight )?"
    r"(?:[Aa]nswer|[Oo]ption|[Cc]hoice)(?: is:?|:) ?(?:\(([A-Z])\)|([A-Z]))"
    r"(?:(?:,| because| since)(?! ?(?:[a-j]|or|and|not|but|nor|rather|no|wait|actually)\b)"
    r"(?: (?!answer|option|choice)[a-z0-9]+)+)?[.!]?\s?\Z"
    r"|\\boxed\{\(?([A-Z])\)?\}\.?\Z"
    r"|\{ ?\"[Aa]nswer\" ?: ?\"\(?([A-Z])\)?\" ?\}\Z"
    r"|\(?([A-Z])(?:\)|\.(?= [A-Z][a-z]))"
    r"(?: (?!(?:or|and|is|are|was|not|nor|isn|answer|wrong|incorrect|false|cannot"
    r"|does|do|did|option|choice|seems|looks?|plus|would|were|can|could|must|i|we|as)\b)"
    r"[A-Za-z]?[a-z0-9]+){1,8}[.!]?\Z",
    re.A,
)


def quick_number(raw: str) -> str | None:
    """Canonical number of an output such as "42", "#### 1,234" or "The answer is 42 km."."""
    match = _NUMBER.match(raw)
    if match is None:
        return None
    sign, digits, part = match.groups()
    if "," in digits:
        digits = digits.replace(",", "")
    if part:
        return decimal_text(digits + part, -len(part), sign == "-")
    if digits[0] == "0":
        return decimal_text(digits, 0, sign == "-")
    return "-" + digits if sign == "-" else digits


def quick_letter(raw: str, allowed: str) -> str | None:
    """Letter of an output such as "The answer is (B)." or "B) Paris"."""
    match = _LETTER.match(raw)
    if match is None:
        return None
    letter = match.group(match.lastindex or 0)
    return letter if letter in allowed else None
