"""Reading what a judge wrote: a verdict, or the number of a candidate.

Judges are asked for one word or number, and often write more: reasons before, explanations after,
JSON, markdown. What cannot be read for certain is None, never a guess; callers count it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from lmrel_tasks.filters.canonical.common import tidy

_NEGATION = (
    r"(?:\b(?:not|never|hardly|cannot|neither|nor|no longer|nowhere near|far from|anything but)\b"
    r"|n't\b)"
)
_GOOD = {"correct", "right", "accurate", "true", "yes", "acceptable", "valid", "pass"}
_BAD = {
    "incorrect", "wrong", "inaccurate", "false", "no", "untrue", "unacceptable", "invalid",
    "fail", "mistaken", "erroneous",
}  # fmt: skip
_WORD = "|".join(sorted(_GOOD | _BAD, key=len, reverse=True))
_CUE = re.compile(
    r"\b(?:verdict|judge?ment|grade|conclusion|assessment|result|decision|final answer)\b[\"']?"
    rf" ?(?:is|:|=|->)+ ?[\"'(\[]*({_NEGATION} (?:\w+ ){{0,2}})?({_WORD})\b",
    re.I,
)
_OPENING = re.compile(rf"\W*({_NEGATION} (?:\w+ ){{0,2}})?({_WORD})(?= ?(?:[.,:;!\n—-]|$))", re.I)
# The question repeated ("CORRECT or INCORRECT?") answers nothing.
_EITHER = re.compile(rf"\b(?:{_WORD})[\"'*]? ?(?:or|/|\|) ?[\"'*]?(?:{_WORD})\b", re.I)
# Words that are verdicts wherever they stand; "no", "true" and the like only open or close.
_MENTION = re.compile(
    r"\b(correct|incorrect|wrong|inaccurate|accurate|mistaken|erroneous"
    r"|right(?! (?:side|hand|angled?|triangle|now|after|before|away|column|of|from|to)\b))\b(?!-)",
    re.I,
)
_NEGATED = re.compile(_NEGATION + r"[ \"'*]*(?:[\w'-]+ ){0,3}[\"'*(]*$", re.I)
_OPEN_QUESTION = re.compile(r"\b(?:whether|if|would be|were)\b (?:[\w'-]+ ){0,8}$", re.I)
_OF_A_NOUN = re.compile(
    r" (?:\w+ )?(?:answers?|options?|choices?|values?|responses?|solutions?|results?|one|spelling"
    r"|name|term|number|formula|date|year|approach)\b",
    re.I,
)
_PREDICATE = re.compile(
    r"(?:\b(?:is|was|as|gives?|provides?|be|are|be)|n't|'s|\bnot) (?:\w+ )?(?:an? |the )"
    r"(?:[\w-]+ )?$",
    re.I,
)
_PARTLY = re.compile(r"\b(?:partly|partially|half|almost|nearly|somewhat|not (?:fully|entirely"
                     r"|quite|completely|strictly))[ -]*$", re.I)  # fmt: skip


def parse_verdict(reply: str) -> bool | None:
    """Whether the judge calls the answer right; None if it does not say.

    A stated verdict ("Verdict: ...") counts first, then the word the reply opens with, then the
    last one it uses of the answer. "Not correct" is wrong, "not incorrect" is right, "partly
    correct" is wrong, and "the correct answer is ..." says nothing.
    """
    text = tidy(reply)
    structured = _from_json(text, ("correct", "is_correct", "verdict", "grade", "judgment",
                                   "judgement", "answer", "result"))  # fmt: skip
    if isinstance(structured, bool):
        return structured
    if isinstance(structured, str):
        text = structured
    text = _EITHER.sub("?", text)
    found = _last(_CUE, text) or _OPENING.match(text)
    if found:
        return _polarity(found[2]) != bool(found[1])
    verdict: bool | None = None
    for mention in _MENTION.finditer(text):
        sentence = _clause_before(text, mention.start())
        attributive = _OF_A_NOUN.match(text, mention.end())
        if (attributive and not _PREDICATE.search(sentence)) or _OPEN_QUESTION.search(sentence):
            continue
        if _PARTLY.search(sentence):
            verdict = False
            continue
        verdict = _polarity(mention[1]) != bool(_NEGATED.search(sentence))
    last = re.search(rf"\b({_WORD})\W*$", text, re.I)
    if verdict is None and last and not _clause_before(text, last.start()).strip(" \"'*"):
        return _polarity(last[1])
    return verdict


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(list(pattern.finditer(text))[-1:]), None)


def _clause_before(text: str, position: int) -> str:
    return re.split(r"[.!?;:\n]", text[max(position - 160, 0) : position])[-1]


def _polarity(word: str) -> bool:
    return word.lower() in _GOOD


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_NUMBER = re.compile(
    r"\b(?:candidates?|options?|answers?|numbers?|no\.|choices?) ?#?\(?(\d{1,4})\b\)?"
    r"|(?:^|(?<=[ (]))#(\d{1,4})\b"
    r"|(?<=and )(\d{1,4})\b|(?<=or )(\d{1,4})\b"
    r"|\b(" + "|".join(_ORDINALS) + r") (?:candidate|option|answer|choice|one)\b",
    re.I,
)
_NONE = re.compile(
    r"\bnone\b(?! of the (?:others?|rest|remaining))|\bno (?:candidates?|match(?:es)?\b|option)"
    r"|\bneither\b|(?:not|n't) match any|\b(?:different|differs?) from (?:all|every|each|any)",
    re.I,
)
_DIFFERS = re.compile(
    _NEGATION + r"|\b(?:different|differs?|unlike|rather than|instead of|except|contradicts?"
    r"|conflicts?)\b",
    re.I,
)
_SAME = re.compile(r"\b(?:match(?:es|ed|ing)?|same|equivalent|identical|agrees?|corresponds?"
                   r"|do(?:es)?|equals?|answer)\b", re.I)  # fmt: skip
_STATED = re.compile(
    r"\b(?:answer|choice|match|selection|verdict|candidate|number|result)\b[\"']?"
    r" ?(?:is|:|=|->)+ ?[\"'(\[#]*(?:candidate |option |number )?#?(\d{1,4}\b|none\b)",
    re.I,
)
_ALONE = re.compile(
    r"[^\w-]*(?:candidate |option |number |answer )?#?\(?(\d{1,4}|none)\)?\W*", re.I
)


def parse_choice(reply: str, n: int) -> int | None:
    """Which of candidates 1 to `n` the judge picks: 0 for none of them, None if it does not say.

    "Candidate 2 matches; none of the others do" is 2. A number beyond `n`, or two different ones,
    is None.
    """
    text = tidy(reply)
    structured = _from_json(text, ("candidate", "match", "answer", "choice", "number"))
    if isinstance(structured, (int, str)) and not isinstance(structured, bool):
        text = str(structured)
    found = _ALONE.fullmatch(text) or _ALONE.fullmatch(text.split("\n")[-1])
    found = found or _last(_STATED, text)
    if found:
        return _within(0 if found[1].lower() == "none" else int(found[1]), n)
    same: list[int] = []
    mentioned: list[int] = []
    differ: set[int] = set()
    for clause in re.split(r"[.;,:!?\n]+|\b(?:but|while|whereas|although)\b", text):
        numbers = [_value(match) for match in _NUMBER.finditer(clause)]
        if _DIFFERS.search(clause):
            differ.update(numbers)
        elif _SAME.search(_NUMBER.sub(" ", clause)):
            same += numbers
        else:
            mentioned += numbers
    positive = set(same) or set(mentioned) - differ
    if len(positive) == 1:
        return _within(positive.pop(), n)
    if not positive and (_NONE.search(text) or (differ and differ >= set(range(1, n + 1)))):
        return 0
    return None


def _value(match: re.Match[str]) -> int:
    digits = next((group for group in match.groups()[:-1] if group), None)
    return int(digits) if digits else _ORDINALS.index(match.groups()[-1].lower()) + 1


def _within(number: int, n: int) -> int | None:
    return number if 0 <= number <= n else None


def _from_json(text: str, names: tuple[str, ...]) -> object:
    """The value of the first of these fields in a JSON object inside the text."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        return None
    try:
        value = json.loads(text[start : end + 1])
    except ValueError:
        return None
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in names if name in value), None)
