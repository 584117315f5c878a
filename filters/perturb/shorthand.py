"""Clinical shorthand for sex: "45M", "32 y/o F", "(F, 30)", "Sex: M"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class SexMark(NamedTuple):
    """A sex letter and what belongs to it.

    Attributes:
        start, end: place of the letter.
        sign: +1 for M (swapping it goes male to female), -1 for F.
        cut_start, cut_end: what is to go with it when sex is removed.
        race: race letters before it ("W" of "45 yo WF"), "" without.
        field: whether it is the value of a sex field.
        age_start, age_end: place of the age beside it, empty without one.
    """

    start: int
    end: int
    sign: int
    cut_start: int
    cut_end: int
    race: str = ""
    field: bool = False
    age_start: int = 0
    age_end: int = 0


_AGE = r"(?<![\w.,$€£~<>=+'\"’-])(?<!\d/)(?P<age>1[01]\d|[1-9]\d?)"
_OLD = r"(?:\s?-?\s?(?:y/?o|y\.\s?o\.?|y|yr?s?\s?-?old|years?[\s-]old|yr?s?))"
_RACES = r"(?:(?:white|black|asian|hispanic|latino|latina|african[- ]american|caucasian)\s)?"
_NOT_COUNT = (
    r"(?!\w|['’]|\s(?:people|users|dollars|usd|patients|cases|views|nacl|hcl|solution|fever"
    r"|grants?|budget|loan|units|cells|contract|deal|revenue|rows|parameters|followers)\b)"
)
_PATTERNS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # 45yoM, 32 y/o F, 61 yr old white f, 45 yo WM
        rf"{_AGE}(?i:{_OLD})(?P<sep>[\s,]*-?\s?)(?i:(?P<raceword>{_RACES}))"
        rf"(?P<race>W|B|H|AA|A)?(?P<sex>[MFmf])(?!\w|['’])",
        # 45M, 24F
        rf"{_AGE}(?P<sep>)(?P<sex>[MF])(?i:{_NOT_COUNT})",
        # 23f; 23m only where an age is introduced
        rf"{_AGE}(?P<sep>)(?P<sex>f){_NOT_COUNT}",
        r"(?:^|(?<=[(\[])|(?<=\bI )|(?<=\bi )|(?<=\bam )|(?<=\bI'm )|(?<=\bim )|(?<=\bme ))"
        r"(?P<age>[1-9]\d?)(?P<sep>)(?P<sex>m)(?=[)\],;:/.]|\shere\b|\swith\b|$)",
        # 45 M, presented with
        rf"{_AGE}(?P<sep>\s)(?P<sex>[MF])(?=[,.;:)\]/]|\s?$|\s(?:with|presents?|presented|who|here|"
        r"c/o|s/p|w/|complain\w+|came|admitted|referred|seen|brought)\b)",
        # 45/M and 24, F
        rf"{_AGE}(?P<sep>/|,\s?)(?P<sex>[MF])(?=[),.;:\]\s]|$)",
        # 26 (M)
        rf"{_AGE}(?P<sep>\s?\()(?P<sex>[MF])(?=\))",
        # M/45, and (F, 32), [M28] in brackets or at the start of a line
        r"(?<!\w)(?P<sex>[MF])(?P<sep>/)(?P<age>1[01]\d|[1-9]\d?)(?!\w|/|\.\d)",
        r"(?:^|(?<=[(\[]))(?P<sex>[MF])(?P<sep>[,\s]?\s?)(?P<age>[1-9]\d)(?=[)\],.;\s]|$)",
    )
)
_FIELD = re.compile(
    r"\b(?:sex|gender)(?:\s+at\s+birth)?\s*(?:[:=]|-)\s*(?P<sex>[MFmf])(?!\w|['’])", re.IGNORECASE
)


def _is_temperature(match: re.Match[str], text: str) -> bool:
    """Whether "101F" is degrees: a number of that size, or a word on temperature before it."""
    if match["sex"] not in "Ff" or match.re is _PATTERNS[0]:
        return False
    before = text[max(0, match.start() - 25) : match.start()].lower()
    return 94 <= int(match["age"]) <= 115 or bool(re.search(r"temp|fever|degrees|°", before))


def sex_marks(text: str) -> Iterator[SexMark]:
    """Every sex letter of clinical shorthand in ``text``, in no particular order, none twice."""
    seen: set[int] = set()
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span("sex")
            if start in seen or _is_temperature(match, text):
                continue
            seen.add(start)
            groups = match.groupdict()
            first = start < match.start("age")
            cut_end = match.end("sep") if first else end + (match["sep"].endswith("("))
            cut_start = start if first else match.start("sep")
            if groups.get("raceword"):
                cut_start = match.end("raceword")
            yield SexMark(
                start,
                end,
                1 if match["sex"] in "Mm" else -1,
                cut_start,
                cut_end,
                groups.get("race") or "",
                False,
                *match.span("age"),
            )
    for match in _FIELD.finditer(text):
        start, end = match.span("sex")
        if start not in seen:
            seen.add(start)
            yield SexMark(start, end, 1 if match["sex"] in "Mm" else -1, start, end, field=True)
