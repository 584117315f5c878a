"""Answers given by the words of an option: which of several known texts does an output name?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from lmrel_tasks.filters.canonical.common import nfc, tidy
from lmrel_tasks.filters.canonical.latex import plain
from lmrel_tasks.filters.canonical.text import normalise

_PREFIX = re.compile(r"\s*(?:\(?([A-Z])\)|([A-Z])[.:])\s+(?=\S)")
_NONE = re.compile(
    r"(?:it is |it's )?(?:none|neither)(?: (?:of|is|are)(?: the| them| these| those)?"
    r"(?: (?:above|these|those|them|options?|choices?|answers?|given|listed|following|provided|"
    r"correct|two|acceptable|apply))*)?"
    r"|no (?:correct |right |acceptable )?(?:answer|option|choice)s?"
    r"(?: (?:is|are) (?:correct|right|acceptable))?",
    re.I,
)
NEGATED_BEFORE = re.compile(
    r"(?:\b(?:not|never|neither|nor|cannot be|no longer|eliminat\w*|rul(?:e|es|ed|ing) out"
    r"|exclud\w*|reject\w*|discard\w*|rather than|instead of|other than|except|unlike|without"
    r"|than|over)|n't)"
    r"(?: (?:a|an|the|be|really|very|truly|clearly|necessarily|simply|just|quite|entirely|option"
    r"|answer|choice|label|options|letter|both|either|at all|in any way|so|in)){0,3}"
    r" ?[(\"'\[*:]{0,2}$",
    re.I,
)
NEGATED_AFTER = re.compile(
    r"[)\]\"'.:*]{0,3} ?(?:(?:is|are|was|were|would be|seems?|looks?|can be|could be|must be)"
    r" (?:both |also |clearly |all |definitely |obviously |simply |just |therefore )?"
    r"(?:not\b|incorrect|wrong|false|ruled out|eliminated|excluded|out\b|implausible|unlikely"
    r"|impossible|invalid|discarded|rejected|never)"
    r"|(?:is|are|was|were|does|do|did|would|can|could)n't|cannot\b|does not|do not|did not"
    r"|can't be|(?:incorrect|wrong|false)\b)",
    re.I,
)


_FORMULA = re.compile(r"\$ ?([^$]+?) ?\$")
_NONE_OF = re.compile(r"\b(?:none|neither) of (?:the|these|those|them)\b")
_CLAUSE_END = re.compile(r"\W{0,3}(?:$|[.,;:!\n]|because\b|since\b|as\b|- |—)")
_FILLER = re.compile(
    r"(?:(?:most|very|definitely|clearly|likely|probably|the|an?|option|label) ?|\W){0,6}"
)
# What stands between two alternatives.
BESIDE = re.compile(r"[\"')]{0,2} ?(?:or|and|/|,|\+|&) ?[\"'(]{0,2}(?:an? |the )?")


class Mention(NamedTuple):
    """One option named at [start, end) of a folded text."""

    start: int
    end: int
    option: int
    negated: bool


class Options(NamedTuple):
    """Normalised option texts and the pattern that finds any of them, longest first."""

    texts: tuple[str, ...]
    positions: dict[str, int]
    pattern: re.Pattern[str] | None
    none: int


def is_none_of_these(raw: str) -> bool:
    """Whether a label or an answer says that none of the offered answers is right."""
    return _NONE.fullmatch(normalise(tidy(raw))) is not None


@lru_cache(maxsize=4096)
def compile_options(choices: tuple[str, ...]) -> Options:
    """Look-up for a tuple of option texts; of equal texts the first counts."""
    texts = tuple(_comparable(choice) for choice in _without_letters(choices))
    index: dict[str, int] = {}
    for position, option in enumerate(texts):
        if option:
            index.setdefault(option, position)
    for position, option in enumerate(texts):
        formula = _FORMULA.fullmatch(option)
        if formula:
            # The same in a box has no dollars.
            index.setdefault(formula[1], position)
    none = next((at for at, option in enumerate(texts) if _NONE.fullmatch(option)), -1)
    pattern = None
    if index:
        longest = sorted(index, key=len, reverse=True)
        pattern = re.compile(
            r"(?<![\w+-])(?:"
            + "|".join(re.escape(option) for option in longest)
            + r")(?![\w+]|-\w)"
        )
    return Options(texts, index, pattern, none)


def _comparable(choice: str) -> str:
    # As an output is read before it is compared.
    text = tidy(choice)
    return normalise(plain(text) if "\\" in text else text)


def _without_letters(choices: tuple[str, ...]) -> list[str]:
    """The option texts without "A) ", "B. "... where each option bears its own letter."""
    prefixes = [_PREFIX.match(choice) for choice in choices]
    letters = [prefix and (prefix[1] or prefix[2]) for prefix in prefixes]
    if letters != [chr(ord("A") + at) for at in range(len(choices))]:
        # "E. coli" bears none.
        return list(choices)
    return [
        choice[prefix.end() :] for choice, prefix in zip(choices, prefixes, strict=True) if prefix
    ]


def exact(options: Options, text: str) -> int:
    """Position of the option that a tidied text equals; -1 if there is none."""
    normal = normalise(text)
    found = options.positions.get(normal, -1)
    if found < 0 and options.none >= 0 and _NONE.fullmatch(normal):
        return options.none
    return found


def fold(text: str) -> str:
    """Case and blanks as `mentions` sees them, so that its positions can be used."""
    return " ".join(nfc(text.casefold()).split())


def mentions(options: Options, text: str) -> list[Mention]:
    """Options named in a text, in order of appearance; positions are those of `fold(text)`."""
    folded = fold(text)
    found: list[Mention] = []
    if options.pattern is not None:
        for match in options.pattern.finditer(folded):
            start, end = match.span()
            if match.group() in ("no", "not") and not _stands_alone(folded, end):
                continue
            negated = (
                NEGATED_BEFORE.search(folded[max(0, start - 40) : start]) is not None
                or NEGATED_AFTER.match(folded, end) is not None
            )
            found.append(Mention(start, end, options.positions[match.group()], negated))
    if options.none >= 0 and not found:
        none = _NONE_OF.search(folded)
        if none:
            found.append(Mention(none.start(), none.end(), options.none, False))
    return found


def named(options: Options, span: str) -> int | None:
    """The one option a short span names: -1 if several or only denied ones, None if none.

    An option that opens the span is the answer ("Berlin, because Paris is in France"), unless
    the next one stands beside it ("Berlin or Paris").
    """
    whole = exact(options, span)
    if whole >= 0:
        return whole
    found = mentions(options, span)
    if not found:
        return None
    kept = [item for item in found if not item.negated]
    if len({item.option for item in kept}) == 1:
        return kept[0].option
    if not kept or _FILLER.fullmatch(fold(span)[: kept[0].start]) is None:
        return -1
    first = kept[0]
    other = next(item for item in kept if item.option != first.option)
    between = fold(span)[first.end : other.start]
    return -1 if BESIDE.fullmatch(between) else first.option


def _stands_alone(text: str, end: int) -> bool:
    """Whether "no" ends a clause and so names the label: "no." but not "no doubt"."""
    return _CLAUSE_END.match(text, end) is not None


def choices_key(choices: Sequence[str]) -> tuple[str, ...]:
    """Choices as a tuple of texts; TypeError if one is no text."""
    if isinstance(choices, str):
        raise TypeError("choices must be a sequence of texts, not one text: wrap it in a list")
    key = tuple(choices)
    for position, choice in enumerate(key):
        if not isinstance(choice, str):
            raise TypeError(
                f"choices[{position}] is {type(choice).__name__}, not str: convert it first"
            )
    return key
