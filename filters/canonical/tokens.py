"""Numbers written in figures: where they stand, their sign, and which are no answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmrel_tasks.filters.canonical.numbers import BODY

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b"
)
_TOKEN = re.compile(
    r"(?:(?<![A-Za-z_^\d])|(?<=\bUSD|\bEUR|\bGBP|\bINR|\bCHF|\bCAD|\bAUD)|(?<=\bRs))"
    r"(?<![A-Za-z]-)(?<!\d:)"
    r"(?:(?P<skip>\d{4}-\d{1,2}-\d{1,2}(?!\d)"
    r"|\d{1,2}(?:/\d{1,2}/|\.\d{1,2}\.)(?:\d{4}|\d\d)(?![\d.,]?\d)"
    r"|0[xX][\dA-Fa-f]+|\d+ ?:(?: ?\d+)+"
    r"|\d+(?:\.\d+){3,}(?!\.?\d)"
    r"|\d{1,2}(?:st|nd|rd|th)? (?:of )?" + _MONTH + r"(?:,? \d{4}\b)?)"
    r"|(?P<number>" + BODY.replace(r"\1", r"\3") + r"))"
)
_MONTH_BEFORE = re.compile(r"\b" + _MONTH + r"\.? (?:\d{1,2}(?:st|nd|rd|th)?,? )?$")
_DIGIT = re.compile(r"\d")
_FIGURES = re.compile(r"\d[\d.,]*")
_CURRENCY = re.compile(
    r"(?:[$€£¥₹₩₽₺₪฿¢]|\b(?:US|CA|AU|HK|NZ)\$|\b(?:USD|EUR|GBP|INR|JPY|CHF|CAD|AUD|Rs\.?))$"
)
_UNARY_AFTER = re.compile(
    r"(?:^|[=:≈(\[{,;<>*/^$\"'|&\n]|\b(?:is|are|was|be|equals?|answer|to|of)) ?$"
)
_NEGATIVE_WORD = re.compile(r"(?:^|[^\d\w) ] ?|[A-Za-z] |^ )(?:minus|negative) $", re.I)
_LIST_MARK = re.compile(r"[.)](?=[ \n])")
_REFERENCE = re.compile(
    r"\b(?:steps?|questions?|problem|part|case|equations?|eq\.|figure|fig\.|table|section|chapter"
    r"|page|exercise|example|option|item|number|no\.|note|version|iteration|line|rule|method|phase"
    r"|approach|solution|attempt|theorem|lemma) ?[#(\[]?$|#$",
    re.I,
)
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?![\d.,]?\d|s)")
_YEAR_BEFORE = re.compile(
    r"\b(?:in|since|by|of|from|until|till|year|during|before|after|circa|around|through|to) $", re.I
)


def iter_tokens(text: str) -> Iterator[re.Match[str]]:
    """Numbers (group "number") and dates, times and versions (group "skip") in order.

    The search for the next digit is what makes this fast: the pattern itself starts with
    conditions on what stands before, and trying it at every character costs far more.
    """
    digit = _DIGIT.search(text)
    while digit:
        start = digit.start()
        token = _TOKEN.match(text, start - 1) if text[start - 1 : start] == "." else None
        token = token or _TOKEN.match(text, start)
        if token:
            yield token
            end = token.end()
        else:
            # Part of a name ("x2", "COVID-19"): its other digits are no numbers either.
            run = _FIGURES.match(text, start)
            end = run.end() if run else start + 1
        digit = _DIGIT.search(text, end)


def sign(text: str, start: int) -> tuple[bool, bool]:
    """Whether a minus sign and a currency stand in front of the digits at `start`."""
    before = text[max(0, start - 24) : start]
    currency = False
    for _ in range(2):
        stripped = before.rstrip(" ({\\") if before[-1:] in "({" else before
        stripped = stripped[:-1] if stripped[-1:] == " " else stripped
        money = _CURRENCY.search(stripped)
        if not money:
            break
        currency = True
        before = stripped[: money.start()]
    word = _NEGATIVE_WORD.search(before)
    if word:
        return True, currency
    attached = before[-1:] not in " ({"
    head = before.rstrip(" ({")
    if head[-1:] not in ("-", "—", "+") or not head:
        return False, currency
    mark, rest = head[-1], head[:-1]
    at_start = not rest and start - len(before) <= 0
    unary = at_start or _UNARY_AFTER.search(rest) is not None
    if not unary and attached and mark == "-":
        unary = rest[-1:] == " " or not rest
    return unary and mark != "+", currency


def not_answer(text: str, start: int, end: int) -> str:
    """Why a number is no answer: "list" (marks, step numbers), "date", "year"; '' if it may be."""
    before = text[max(0, start - 20) : start]
    if (not before or before[-1] == "\n") and end - start <= 2 and _LIST_MARK.match(text, end):
        return "list"
    if before[-1:] in (" ", "#", "(", "[") and _REFERENCE.search(before):
        return "list"
    if _MONTH_BEFORE.search(before):
        return "date"
    if end - start == 4 and _YEAR.match(text, start) and _YEAR_BEFORE.search(before):
        return "year"
    return ""
