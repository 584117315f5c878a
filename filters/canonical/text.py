"""Short text answers: case, width, quotes, leading articles and closing punctuation removed.

The stated answer is taken if there is one ("The answer is Paris." is "paris"), the whole output
otherwise. Inner punctuation and symbols stay ("c++", "a-b"). A leading article goes unless
nothing would be left ("The Who" is "who", "A" is "a").
"""

from __future__ import annotations

import re

from lmrel_tasks.filters.canonical.common import nfc, tidy
from lmrel_tasks.filters.canonical.cues import find_cues, may_hold_cue
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal, goes_on, may_refuse

_PLAIN = re.compile(r"(?:(?:the|an?) )*([a-z0-9]+(?: [a-z0-9]+){0,9})[.!]?\Z")
_PREAMBLE = re.compile(
    r"(?:sure(?: thing)?|certainly|of course|okay|ok|great question|good question|absolutely)"
    r"[!,.:] ?(?=\S)|(?:final )?answer ?: ?(?=\S)|a: ",
    re.I,
)
_ARTICLE = re.compile(r"(?:the|an?) (?=\S)")
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textit|mbox) ?\{([^{}]*)\}")
_LEFT = " \n\"'*#>:;,!?-—•([{"
_RIGHT = " \n\"'*.,:;!?-—)]}"
# Each pass shortens the text; more than a few are never needed outside attacks.
_MAX_PASSES = 5
_AMOUNT = re.compile(r"[$€£]?\.?\d")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_OPENERS = {"(": ")", "[": "]", "{": "}"}


def _strip_edges(text: str) -> str:
    """Text without punctuation at its ends and articles at its start.

    A bracket goes only if its partner is not inside.
    """
    start, end = 0, len(text)
    counts = {mark: text.count(mark) for mark in "()[]{}"}
    while start < end:
        first, last = text[start], text[end - 1]
        closer = _OPENERS.get(first)
        article = _ARTICLE.match(text, start, end)
        if article:
            start = article.end()
        elif closer and last == closer and end - start >= 2:
            counts[first] -= 1
            counts[last] -= 1
            start, end = start + 1, end - 1
        elif first in _LEFT and not (
            (first in "-—" and _AMOUNT.match(text, start + 1))
            or (closer and counts[first] <= counts[closer])
        ):
            if closer:
                counts[first] -= 1
            start += 1
        elif last in _RIGHT and not (last in _PAIRS and counts[last] <= counts[_PAIRS[last]]):
            if last in _PAIRS:
                counts[last] -= 1
            end -= 1
        else:
            break
    return text[start:end]


def normalise(text: str) -> str:
    """Comparable form of a tidied text: casefolded, blanks joined, edges and articles removed."""
    return _strip_edges(" ".join(nfc(text.casefold()).split()))


def stated(text: str) -> str:
    """The part of tidied text that states the answer; all of it when no cue does."""
    for cue in find_cues(text):
        span = text[cue.start : cue.end]
        if cue.kind == "box":
            span = _WRAPPER.sub(r"\1", span)
        if any(character.isalnum() for character in span):
            return span
    return text


def text(raw: str) -> str:
    """Canonical text of an output; '' if it has no word or symbol, "refusal" if it declines."""
    lower = raw.lower()
    plain = _PLAIN.match(lower) if raw.isascii() else None
    if plain and not may_hold_cue(lower) and not may_refuse(lower):
        return plain.group(1)
    return read(raw)


def read(raw: str) -> str:
    """`text` without its short cut for plain words."""
    answer = _once(raw)
    # Case folding and stripping can bring a cue or an article to light: read again until
    # nothing changes, so that an answer is its own canonical answer.
    for _ in range(_MAX_PASSES):
        again = _once(answer)
        if again == answer:
            break
        answer = again
    return answer


def _once(raw: str) -> str:
    tidied = tidy(raw)
    answer = stated(tidied)
    refused = find_refusal(answer)
    if refused >= 0 and (answer is not tidied or goes_on(tidied, refused) < 0):
        return REFUSAL
    if answer is tidied:
        if refused >= 0:
            answer = tidied[goes_on(tidied, refused) :]
        preamble = _PREAMBLE.match(answer)
        while preamble:
            answer = answer[preamble.end() :]
            preamble = _PREAMBLE.match(answer)
    return normalise(answer)
