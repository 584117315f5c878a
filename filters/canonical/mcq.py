"""Multiple-choice answers: the letter of the option that an output chooses.

Evidence in order: the whole output; the last cue or conclusion that names a letter ("answer is
B", "so (C)", "D is correct"); a letter that opens the output ("B) Paris"); the words of an option
when `choices` are known; the last letter in brackets; the only letter that stands alone. A
negated letter ("not A", "A is wrong") never counts, two letters side by side ("A or B") are no
answer, and the article "A", the pronoun "I", initials and names such as "E. coli" or "vitamin C"
are no letters. If letter and words disagree, the letter counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmrel_tasks.filters.canonical import letters as marks
from lmrel_tasks.filters.canonical.common import tidy
from lmrel_tasks.filters.canonical.cues import Cue, find_cues
from lmrel_tasks.filters.canonical.latex import plain
from lmrel_tasks.filters.canonical.letters import Letter
from lmrel_tasks.filters.canonical.options import (
    Options,
    choices_key,
    compile_options,
    exact,
    named,
)
from lmrel_tasks.filters.canonical.quick import quick_letter
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal, goes_on

LETTERS = "ABCDEFGHIJ"
_MAX_CHOICES = 26
_BARE_LETTER = re.compile(r"\W*[^\W\d_]\W*")


def _allowed(choices: tuple[str, ...] | None) -> str:
    if choices is None:
        return LETTERS
    if len(choices) > _MAX_CHOICES:
        raise ValueError(
            f"choices: {len(choices)} options, but letters end at {_MAX_CHOICES}; use kind 'label'"
        )
    return "".join(chr(ord("A") + position) for position in range(len(choices)))


def _one(found: list[Letter], text: str) -> str | None:
    """The letter that a list of letters in order states: '' if ambiguous, None if none."""
    kept = [letter for letter in found if not letter.negated]
    if not kept:
        return "" if found else None
    first = kept[0]
    for other in kept[1:]:
        if other.letter != first.letter:
            return "" if marks.side_by_side(text, first, other) else first.letter
    return first.letter


def _by_words(options: Options | None, span: str) -> str | None:
    option = named(options, span) if options else None
    if option is None:
        return None
    return chr(ord("A") + option) if option >= 0 else ""


def _whole(options: Options | None, span: str) -> str | None:
    """The letter of the option whose words are the whole of a span; a bare letter is no words."""
    if options is None or _BARE_LETTER.fullmatch(span):
        return None
    option = exact(options, span)
    return chr(ord("A") + option) if option >= 0 else None


def mcq(raw: str, choices: Sequence[str] | None = None) -> str:
    """Letter chosen by an output; '' if none or several, "refusal" if it declines.

    With `choices` only their letters count, and an answer may be given by the words of one.

    Raises
    ------
    ValueError
        If there are more choices than letters.
    """
    key = None if choices is None else choices_key(choices)
    allowed = _allowed(key)
    if len(raw) <= 3:
        bare = raw.strip("().: ").upper()
        if len(bare) == 1 and bare in allowed and raw.isascii():
            return bare
    quick = quick_letter(raw, allowed)
    return read(raw, key, allowed) if quick is None else quick


def read(raw: str, key: tuple[str, ...] | None, allowed: str) -> str:
    """`mcq` without its short cuts."""
    options = compile_options(key) if key else None
    text = tidy(raw)
    if "\\" in text:
        text = plain(text)
    if not text:
        return ""
    whole = _whole(options, text)
    if whole is not None:
        return whole
    found = marks.find_letters(text, allowed)
    stated = _stated(text, find_cues(text), found, options, allowed)
    if stated is not None:
        return stated
    refused = find_refusal(text)
    if refused >= 0:
        resumed = goes_on(text, refused)
        if resumed < 0:
            return REFUSAL
        found = [letter for letter in found if letter.start >= resumed]
        text_after = text[resumed:]
        return _one(found, text) or _by_words(options, text_after) or REFUSAL
    return _unstated(text, found, options, allowed)


def _stated(
    text: str, cues: list[Cue], found: list[Letter], options: Options | None, allowed: str
) -> str | None:
    """What the last cue or conclusion states; None if the text has neither."""
    concluded = [
        letter for letter in found if letter.role in ("chosen", "line") and not letter.negated
    ]
    last = concluded[-1] if concluded else None
    denied: str | None = None
    for cue in cues:
        if last is not None and last.start >= cue.end:
            break
        inside = [letter for letter in found if cue.start <= letter.start < cue.end]
        span = text[cue.start : cue.end]
        whole = _whole(options, span)
        if whole is not None:
            return whole
        lowered = marks.lower_case(span, cue.start, allowed)
        value = _one(inside or lowered, text)
        if value is None:
            value = _by_words(options, span)
        if value == "" and inside and all(letter.negated for letter in inside):
            denied = ""
            continue
        if value is not None:
            return value
    if last is None:
        return denied
    at = found.index(last)
    if at and last.role == found[at - 1].role == "line":
        # A list of letters, a line each, chooses none of them.
        previous = found[at - 1]
        if previous.letter != last.letter and marks.next_line(text, previous, last):
            return ""
    return _one(found[at:], text)


def _unstated(text: str, found: list[Letter], options: Options | None, allowed: str) -> str:
    if not found:
        found = marks.lower_case(text, 0, allowed)
        if found and found[0].letter != "I":
            return found[0].letter
    opening = {letter.letter for letter in found if letter.role == "opens" and not letter.negated}
    if len(opening) == 1:
        first = next(at for at, letter in enumerate(found) if letter.letter in opening)
        return _one(found[first : first + 2], text) or ""
    if len(opening) > 1:
        # The options were repeated, none was chosen.
        return ""
    words = _by_words(options, text)
    if words:
        return words
    kept = [letter for letter in found if not letter.negated]
    bracketed = [letter for letter in kept if letter.role == "bracketed"]
    if bracketed:
        last = bracketed[-1]
        before = [letter for letter in kept if letter.start < last.start]
        if (
            before
            and before[-1].letter != last.letter
            and marks.side_by_side(text, before[-1], last)
        ):
            return ""
        return last.letter
    return kept[0].letter if len({letter.letter for letter in kept}) == 1 else ""
