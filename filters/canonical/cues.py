"""Where an output states its answer: ``\\boxed{}``, ``####``, "the answer is", corrections.

A cue is a half-open span of tidied text that should hold the answer. Cues come last first,
because a later statement replaces an earlier one. Spans are capped at `MAX_SPAN` characters and
only the last `MAX_CUES` cues are kept, so that reading all spans stays linear in the text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_SPAN = 1000
MAX_CUES = 20


class Cue(NamedTuple):
    """A span of text that states an answer; `kind` is "box", "answer" or "correction"."""

    start: int
    end: int
    kind: str


# "to answer", "let me answer" are verbs: what follows is the reasoning, not the answer.
_NOUN = r"(?<!to )(?<!me )(?<!not )(?<!n't )(?<!can )(?<!'ll )(?<!could )(?<!should )(?<![a-z])"
_ANSWER = (
    _NOUN + r"answers?(?! ?(?:choices?|options?|keys?|sheet|this|the|each|your|these)\b)(?:"
    # answer: / "answer": / answer = / answer ->
    r"[\"'*_)\]]{0,3} ?(?::|=(?!=)|-?->|=>|→|⇒)"
    # answer to the question is
    r"|[^.:=?!\n]{0,60}? ?\b(?:is|are|was|were|be|equals?|becomes)\b"
    r"(?! (?:as follows|below|in the form))"
    # answer 42 / answer (B)
    r"|(?= ?[-+$(\"']{0,3}\d)|(?= ?\(?[A-J]\b\)?[.,)]?(?:$|\n))"
    # a heading, the answer on the next line
    r"|[*_:]{0,3}\n)"
)
_CHANGE_OF_MIND = (
    r"(?:wait|actually|correction|oops|hmm|scratch that|on second thought|no,)[,.:;!—-]{0,3}"
    r"(?: ?(?:no|wait|actually|sorry|oops|hmm|rather"
    r"|i (?:made (?:a|an) (?:mistake|error)|was wrong)"
    r"|that(?:'s| is| was) (?:wrong|not right|incorrect))[,.:;!—-]{1,3}){0,4} ?"
    r"(?:(?:(?:so |then )?(?:it|that|this|the (?:total|result|value)) ?(?:'s|is|should be|must be"
    r"|equals|would be|should have been|was)|make (?:it|that)|i mean|i meant|rather)\b"
    r"|(?P<bare>)(?=[-+$(\"']{0,3}(?:\d|[A-J]\b[.,)\s]?(?:$|\n))))"
)
_CUE = re.compile(
    r"\\f?box(?:ed)?\b|(?<!\#)\#{4}(?!\#)|<(?:final_?)?answer>"
    rf"|\b(?:{_ANSWER}|{_CHANGE_OF_MIND})",
    re.I,
)
_POSSIBLE = (
    *("answer", "box", "####", "wait", "actually", "correct", "oops", "hmm", "scratch"),
    *("second th", "no,"),
)
_BRACES = re.compile(r"(?<!\\)[{}]")
_OPENING = re.compile(r"[\s:=*\"'>]{0,20}")
_SENTENCE_END = re.compile(r"\n|[.!?。](?=[\"')\]}*$]{0,4}(?:\s|$))")
_ABBREVIATIONS = frozenset(
    [
        "st",
        "dr",
        "mr",
        "mrs",
        "ms",
        "jr",
        "sr",
        "vs",
        "no",
        "fig",
        "eq",
        "approx",
        "prof",
        "gen",
        "mt",
        "ft",
        "inc",
        "ltd",
        "co",
        "u.s",
        "i.e",
        "e.g",
        "cf",
        "al",
    ]
)
_LAST_WORD = re.compile(r"(?:^|[\s(\"'$])([A-Za-z][A-Za-z.]{0,7})$")
_STARTERS = re.compile(
    r"\s+(?:The|This|That|These|It|He|She|They|We|I|You|In|Because|So|If|As|At|On|And|But|A|An|Since"
    r"|Thus|Therefore|However|Let|Here|There|Wait|Actually|My|To|For|Of|Not)\b"
)


def sentence_end(text: str, start: int) -> int:
    """End of the sentence that holds `start`; abbreviations and initials do not end one."""
    limit = min(len(text), start + MAX_SPAN)
    for match in _SENTENCE_END.finditer(text, start, limit):
        end = match.start()
        if text[end] == ".":
            word = _LAST_WORD.search(text[max(start, end - 10) : end])
            if word:
                name = word.group(1)
                followed = text[match.end() : match.end() + 2]
                if name.lower() in _ABBREVIATIONS and followed.strip():
                    continue
                initial = len(name) == 1 or (len(name) == 3 and name[1] == ".")
                if (
                    initial
                    and name.isupper()
                    and followed[:1] == " "
                    and followed[1:].isupper()
                    and not _STARTERS.match(text, match.end())
                ):
                    continue
        return end
    return limit


def _box(text: str, start: int) -> tuple[int, int]:
    """Content of the braces that open at or after `start`; to the end of line if unclosed."""
    if text[start : start + 1] == " ":
        start += 1
    if text[start : start + 1] != "{":
        end = text.find("$", start, start + MAX_SPAN)
        return start, end if end >= 0 else sentence_end(text, start)
    depth = 0
    for match in _BRACES.finditer(text, start, start + MAX_SPAN):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return start + 1, match.start()
    return start + 1, sentence_end(text, start)


def may_hold_cue(lower: str) -> bool:
    """Whether a lower-case text has a word that a cue needs."""
    return any(word in lower for word in _POSSIBLE)


def find_cues(text: str) -> list[Cue]:
    """Cues of tidied text, last first, at most `MAX_CUES`."""
    if not may_hold_cue(text.lower()):
        return []
    matches = list(_CUE.finditer(text))[-MAX_CUES:]
    cues: list[Cue] = []
    for match in reversed(matches):
        token = match.group()
        start = match.end()
        if token[0] == "\\":
            cues.append(Cue(*_box(text, start), "box"))
        elif token[0] == "#":
            end = text.find("\n", start)
            cues.append(Cue(start, min(end if end >= 0 else len(text), start + MAX_SPAN), "box"))
        elif token[0] == "<":
            end = text.find("</", start, start + MAX_SPAN)
            cues.append(Cue(start, end if end >= 0 else sentence_end(text, start), "box"))
        else:
            opening = _OPENING.match(text, start)
            start = opening.end() if opening else start
            end = sentence_end(text, start)
            kind = "answer" if "answer" in token.lower()[:8] else "correction"
            if match.group("bare") is not None and text.count(" ", start, end) > 4:
                continue
            cues.append(Cue(start, end, kind))
    return cues


_RETRACTION = re.compile(
    r"\b(?:wait|correction|scratch that|on second thought|oops"
    r"|i (?:made|see|spot|found) (?:a|an|my) (?:mistake|error)"
    r"|that(?:'s| is| was) (?:wrong|not right|incorrect)"
    r"|let me (?:re-?(?:calculate|compute|do|check|consider|think)|correct|try again))\b",
    re.I,
)


def find_retraction(text: str, start: int) -> int:
    """Where the text takes back what was stated before `start`; -1 if it does not."""
    match = _RETRACTION.search(text, start)
    return match.end() if match else -1
