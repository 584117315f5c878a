"""Numeric answers: which number of an output is its answer.

Order of evidence: the whole output is a number; the last cue that holds one (`cues`), unless it
is taken back and restated; a refusal; the last number of the text. Dates, clock times, list
marks, step numbers and years in passing are not answers. An unfinished computation ("6*7"), a
range ("10-15"), alternatives ("2 or 3"), a clock time, infinity and "undefined" are no answer.
A percent sign, a currency and a unit are dropped: "50%" is "50".
"""

from __future__ import annotations

import re

from lmrel_tasks.filters.canonical.common import tidy
from lmrel_tasks.filters.canonical.cues import find_cues, find_retraction
from lmrel_tasks.filters.canonical.latex import plain
from lmrel_tasks.filters.canonical.numbers import BODY, fraction_text, read_number
from lmrel_tasks.filters.canonical.quick import quick_number
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal, goes_on
from lmrel_tasks.filters.canonical.tokens import iter_tokens, not_answer, sign
from lmrel_tasks.filters.canonical.words import iter_word_runs, parse_words

_CHAIN = re.compile(r"[=≈]")
_CHAIN_BREAK = re.compile(
    r", |;|\b(?:because|since|as|from|where|given|for|when|with|if|after|so|not|and)\b|\. |\n", re.I
)
_OPERATOR = re.compile(
    r"[a-z%°$]{0,6}\)? ?(?:[*+^÷]|-(?! ?[A-Za-z])|/|\bx(?= ?\d)|\*\*|±) ?[$(]{0,2}[-+]?[.\d√π]"
)
_RANGE = re.compile(r"[%$°]? ?(?:-|—|to|through) ?[$€£]?\d")
_ALTERNATIVE = re.compile(r"[%$)]{0,2} (?:or|and) [$(-]{0,3}\d")
_PAIR_END = re.compile(r"[)$]{0,2} ?[,;] ?[$(\[-]{0,3}" + BODY + r"[)\]}$.\s]{0,4}$")
_SECOND_VARIABLE = re.compile(r"(?: ?[,;] ?(?:and )?| and )[A-Za-z]\w? ?= ?-?\d")
_TAIL = re.compile(r"[^\d=≈±]{0,40}(?:± ?[\d.,]+[^\d=≈]{0,40})?")
_SYMBOL = re.compile(r" ?\{?(?:√|π|∞|pi\b|i\b(?! ))|\\?(?:log|ln|sin|cos|tan|frac)\b")
_SYMBOL_BEFORE = re.compile(r"(?:√|π|±|log|ln|sin|cos|tan|frac|∞)[ ({]{0,3}$")
_NOT = re.compile(
    r"\b(?:not|n't|isn't|never|neither|nor|rather than|instead of)(?: \w+)? ?\$?$", re.I
)
_BETWEEN = re.compile(r"\bbetween $", re.I)
_NO_NUMBER = re.compile(
    r"∞|\b(?:infinit(?:y|e|ely)|inf|nan|not a number|undefined|does ?n[o']t exist|no solutions?"
    r"|unbounded|indeterminate|unknown|not (?:be )?determined|n/a|none)\b|√|π",
    re.I,
)
_STATED = re.compile(
    r"[=≈]|\bequals?\b|\b(?:result|total|sum|value|solution|difference|product|quotient|amount"
    r"|cost|price|number|average|mean|median|area|volume|probability)\b"
    r"(?: of\b|[^.\n=≈]{0,40}?\b(?:is|are|was|comes to|equals)\b)",
    re.I,
)
_SO = re.compile(r"\b(?:so|therefore|thus|hence)\b", re.I)
_CONCLUDED = re.compile(
    r"[=≈]|\b(?:so|therefore|thus|hence|it'?s|it is|should be|must be|equals|is|gives|get)\b", re.I
)
_SENTENCE_BREAK = re.compile(r"[.!?] |\n")
_MAX_TRIES = 200


def _word_value(text: str, start: int, end: int) -> str | None:
    value = parse_words(text[start:end])
    if value is None:
        return None
    before = text[max(0, start - 12) : start]
    negative = re.search(r"(?:\b(?:minus|negative) |(?:^|\W)-)$", before, re.I) is not None
    return fraction_text(-value if negative else value)


def _in_span(text: str, start: int, end: int) -> str | None:
    """Answer stated in a cue's span: canonical text, '' for certainly none, None for no number."""
    span = text[start:end]
    verdict = None
    for match in iter_tokens(span):
        at = match.start("number")
        if at < 0:
            verdict = "" if verdict is None else verdict
            continue
        if _NO_NUMBER.search(span, 0, at) and not _CHAIN.search(span, 0, at):
            return ""
        kind = not_answer(span, at, match.end())
        if kind == "list" and len(span) > match.end() + 2:
            continue
        if kind == "date":
            verdict = ""
            continue
        if _NOT.search(span, max(0, at - 30), at):
            verdict = ""
            continue
        equals = None
        for mark in _CHAIN.finditer(span, match.end()):
            if _CHAIN_BREAK.search(span, match.end(), mark.start()):
                break
            equals = mark
        if equals is not None:
            rest = _in_span(span, equals.end(), len(span))
            if rest is not None:
                return rest
        return _judge(span, at)
    for run_start, run_end in iter_word_runs(span):
        if _NOT.search(span, max(0, run_start - 30), run_start):
            verdict = ""
            continue
        value = _word_value(span, run_start, run_end)
        if value is not None:
            return value
    if verdict is None and (_NO_NUMBER.search(span) or _NOT.search(span)):
        return ""
    return verdict


def _judge(span: str, at: int) -> str | None:
    """The number at `at`, '' if what surrounds it shows that it is no single number."""
    negative, currency = sign(span, at)
    value, after = read_number(span, at, negative, currency)
    if value is None:
        return ""
    if after < len(span) and (
        _OPERATOR.match(span, after)
        or _RANGE.match(span, after)
        or _ALTERNATIVE.match(span, after)
        or _PAIR_END.match(span, after)
        or _SECOND_VARIABLE.match(span, after)
        or _SYMBOL.match(span, after)
    ):
        return ""
    if _in_brackets(span, at, after):
        return ""
    before = span[max(0, at - 12) : at]
    return "" if _SYMBOL_BEFORE.search(before) or _BETWEEN.search(before) else value


def _in_brackets(text: str, at: int, after: int) -> bool:
    """Whether "(3,4)", "[0,1]" or "{1,2}" is a pair and not a number with a decimal comma."""
    body = text[at:after]
    return (
        body.count(",") == 1
        and "." not in body
        and not re.fullmatch(r"[1-9]\d{0,2},\d{3}", body)
        and text[at - 1 : at] in ("(", "[", "{")
        and text[after : after + 1] in (")", "]", "}", "\\")
    )


def _last(text: str) -> tuple[str | None, str | None]:
    """Last number of a text without cues, and the last year in passing."""
    year = None
    tokens = [match for match in iter_tokens(text) if match.group("number") is not None]
    for match in reversed(tokens[-_MAX_TRIES:]):
        at = match.start("number")
        kind = not_answer(text, at, match.end())
        if kind == "year" and year is None:
            year = match.group("number")
        if kind:
            continue
        breaks = [found.end() for found in _SENTENCE_BREAK.finditer(text, max(0, at - 400), at)]
        sentence = breaks[-1] if breaks else max(0, at - 400)
        stated = None
        for found in _STATED.finditer(text, sentence, at):
            stated = found
        if stated is not None and not _SO.search(text, stated.end(), at):
            value = _in_span(text, stated.end(), min(len(text), at + 100))
            if value is not None:
                return value, year
        if _TOLERANCE_BEFORE.search(text[max(0, at - 3) : at]):
            continue
        negative, currency = sign(text, at)
        value, after = read_number(text, at, negative, currency)
        if value is None or _in_brackets(text, at, after):
            return "", year
        return ("" if _unfinished(text, at, after) else value), year
    for start, end in reversed(list(iter_word_runs(text))[-_MAX_TRIES:]):
        value = _word_value(text, start, end)
        if value is not None:
            return value, year
    return None, year


_OPERATOR_BEFORE = re.compile(
    r"\d\)? ?(?:[*+×÷^/]|-) ?\(?$|[\d%] ?(?:-|—) ?$|[√±][({ ]{0,2}$|\d (?:or|and|x) $|% of $"
)
_TOLERANCE_BEFORE = re.compile(r"± ?$")
_ASIDE = re.compile(r"(?<=\w) \([^()\n]{1,200}\)[.!]?$")


def _unfinished(text: str, at: int, after: int) -> bool:
    """Whether the last number ends a bare computation or a range."""
    if _OPERATOR_BEFORE.search(text[max(0, at - 8) : at]):
        return True
    return bool(_SYMBOL.match(text, after)) or bool(_OPERATOR.match(text, after))


def numeric(raw: str) -> str:
    """Canonical number stated by an output; '' if there is none, "refusal" if it declines."""
    answer = quick_number(raw)
    return read(raw) if answer is None else answer


def read(raw: str) -> str:
    """`numeric` without its short cut."""
    text = plain(tidy(raw))
    if not text:
        return ""
    for cue in find_cues(text):
        value = _in_span(text, cue.start, cue.end)
        if value is None:
            continue
        retracted = find_retraction(text, cue.end)
        if retracted >= 0:
            restated = _restated(text, retracted)
            if restated:
                return restated
        return value
    refused = find_refusal(text)
    if refused >= 0:
        resumed = goes_on(text, refused)
        value = _last(text[resumed:])[0] if resumed >= 0 else None
        return value or REFUSAL
    if len(text) <= 40 or "\n" not in text:
        short = _whole(text)
        if short is not None:
            return short
    aside = _ASIDE.search(text, max(0, len(text) - 210))
    if aside:
        sentence = max(text.rfind("\n", 0, aside.start()), text.rfind(". ", 0, aside.start()))
        if any(map(str.isdigit, text[max(sentence, aside.start() - 400, 0) : aside.start()])):
            text = text[: aside.start()]
    value, year = _last(text)
    if value is None:
        return year or ""
    return value


def _whole(text: str) -> str | None:
    """A text that is one number with a currency or unit, or a list or range of numbers."""
    first = next(iter_tokens(text), None)
    if first is None or first.group("number") is None:
        return None
    if re.search(r"[A-Za-z]", text[: first.start("number")]):
        return None
    at = first.start("number")
    negative, currency = sign(text, at)
    value, after = read_number(text, at, negative, currency)
    if _SYMBOL_BEFORE.search(text[:at]) or _in_brackets(text, at, after):
        return ""
    if _TAIL.fullmatch(text, after):
        return value
    if _RANGE.match(text, after) or _ALTERNATIVE.match(text, after) or _PAIR_END.match(text, after):
        return ""
    return None


def _restated(text: str, start: int) -> str | None:
    last = None
    for match in _CONCLUDED.finditer(text, start):
        last = match
    if last is None:
        return None
    return _in_span(text, last.end(), min(len(text), last.end() + 200))
