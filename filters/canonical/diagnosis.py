"""The diagnosis that a free text finally states, in comparable form.

The last statement counts: a line "Diagnosis: X", "the most likely diagnosis is X", "consistent with
a diagnosis of X". A differential diagnosis is a list and states none. A text without a statement
is its own answer if it is one short line, as the gold diagnosis of a case is; a longer one has no
answer.
"""

from __future__ import annotations

import re

from lmrel_tasks.filters.canonical.common import tidy
from lmrel_tasks.filters.canonical.refusal import REFUSAL
from lmrel_tasks.filters.canonical.text import normalise
from lmrel_tasks.filters.canonical.text import text as text_answer

MAX_LENGTH = 160

_HEDGE = (
    r"(?:(?:most likely|most probably|likely|probably|possibly|therefore|thus|that of|a case of"
    r"|consistent with|an? (?=acute|chronic))[ ,:]{1,2}){0,3}"
)
_STATED = re.compile(
    r"(?<!differential )(?<!differential_)\bdiagnos[ie]s\b"
    r"(?: (?:here|now|in this case|in this patient|for this patient|of this patient))?"
    r"(?:[*_\"')]{0,3} ?(?::|=|—| - | is| was| remains| must be| would be| should be| of)"
    r"[*_\"'(]{0,3}\n?|[*_:]{0,3}\n) ?[*_\"']{0,3}(?:most likely:? )?" + _HEDGE,
    re.I,
)
_END = re.compile(
    r"\n|[;!?]|(?<!\bst)(?<!\bdr)(?<!\bvs)(?<!\bno)(?<!\b[a-z])\.(?=\s|$)"
    # "E. coli" goes on behind its dot, "hepatitis B. He" does not.
    r"|(?<=\b[a-z])\.(?=\s+(?-i:[A-Z])|\s*$)|,? (?:because|given|based on|since|as evidenced"
    r"|as indicated|with (?:an? |the )?(?:posterior|probability)|which|supported by)\b|, as |—| - ",
    re.I,
)
_ABBREVIATION = re.compile(r" ?\([A-Za-z][A-Za-z0-9./-]{0,9}\)$")
_POSTERIOR = re.compile(r",? ?\(?(?:about |roughly |~|≈)?\d{1,3}(?:\.\d+)? ?%.{0,30}$")


def diagnosis(raw: str) -> str:
    """Canonical diagnosis of an output; '' if it states none, "refusal" if it declines.

    Case, punctuation, leading articles and a closing abbreviation in brackets do not count:
    "The diagnosis is Graves' disease (GD)." is "graves' disease".
    """
    text = tidy(raw).strip(" \n\"'")
    last = None
    for last in _STATED.finditer(text):  # noqa: B007
        pass
    if last is not None:
        stated = _comparable(text[last.end() : last.end() + 2 * MAX_LENGTH])
        if stated:
            return stated
    if text_answer(raw) == REFUSAL:
        return REFUSAL
    if last is not None or "\n" in text or len(text) > MAX_LENGTH:
        return ""
    return _comparable(text)


def _comparable(text: str) -> str:
    # Each step can bring work for another to light: again until nothing changes.
    previous, span = None, text
    while span != previous:
        previous = span
        end = _END.search(span)
        span = (span[: end.start()] if end else span)[:MAX_LENGTH].strip(" *_\"'.,:")
        span = _POSTERIOR.sub("", span) or span
        span = _ABBREVIATION.sub("", span) or span
        span = normalise(span)
    return span
