"""Reorderings that keep the meaning: joined pairs, opening time phrases, opening clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmrel_tasks.filters.paraphrase.rewrite import Rewrite
from lmrel_tasks.filters.perturb.pos import main_tag
from lmrel_tasks.filters.perturb.words import Token, tokenize, word_set

# Before these a pair stands alone, so that no modifier is torn from its word.
_PAIR_MAY_FOLLOW = word_set(
    "and with of from to by for about including has have had having experience experiencing feel "
    "feeling am is are was were be been i'm cause causes causing like , : ( - get getting denies "
    "reports report both history"
)
_FIXED_PAIRS = frozenset(
    frozenset(pair.split())
    for pair in (
        "back forth", "up down", "trial error", "pros cons", "black white", "rest relaxation",
        "pins needles", "safe sound", "ups downs", "more less", "before after", "more better",
        "obstetrics gynecology", "ear nose", "nose throat", "signs symptoms", "cut dry",
        "odds ends", "tips tricks", "good bad", "worse worse", "better better", "more more",
        "first foremost", "time place", "place person", "here there", "now then",
        "push pull", "food drug", "wear tear",
    )
)  # fmt: skip


# Words that close a list and cannot open it.
_CLOSERS = word_set("anything something everything whatnot stuff others more such beyond")


def _plural(word: str) -> bool:
    return word.endswith("s") and not word.endswith(("ss", "is", "us"))


def _may_swap(tokens: list[Token], i: int) -> bool:
    """Whether "X and Y" with "and" at ``i`` may become "Y and X"."""
    left, right = tokens[i - 1], tokens[i + 1]
    if not (left.is_word and right.is_word and left.text.islower() and right.text.islower()):
        return False
    kind = main_tag(left.lower)
    if kind == "ADV" and left.lower.endswith("ly") and right.lower.endswith("ly"):
        return main_tag(right.lower) == "ADV"
    if kind not in ("NOUN", "ADJ") or main_tag(right.lower) != kind or left.lower == right.lower:
        return False
    fixed = frozenset((left.lower, right.lower)) in _FIXED_PAIRS
    if fixed or right.lower in _CLOSERS or min(len(left.text), len(right.text)) < 4:
        return False
    if i < 2 or tokens[i - 2].lower not in _PAIR_MAY_FOLLOW:
        return False
    after = tokens[i + 2] if i + 2 < len(tokens) else None
    if kind == "NOUN":
        # A following noun or verb would make the second word a modifier or subject of its own.
        return _plural(left.text) == _plural(right.text) and (
            after is None
            or after.text in ".,;)?!"
            or after.lower in ("for", "since", "after", "but")
        )
    return after is None or after.text in ".,;)?!"


def _pairs(text: str) -> Iterator[Rewrite]:
    tokens = tokenize(text)
    for i in range(1, len(tokens) - 1):
        if tokens[i].lower in ("and", "or") and _may_swap(tokens, i):
            left, right = tokens[i - 1], tokens[i + 1]
            between = text[left.end : right.start]
            if "\n" not in between:
                new = f"{right.text}{between}{left.text}"
                yield Rewrite(left.start, right.end, new, 2, "pair")


_OPENING = re.compile(
    r"(?:^|(?<=[.!?]\s))(At night|In the mornings?|Every (?:day|night|morning)|Yesterday|Last "
    r"(?:night|week|month|year)|This morning|Earlier today|Currently|Recently), "
    r"((?:I|My|my|The|the|We|we) [^,.?!;:\n()]{6,70})\.",
    re.MULTILINE,
)
_CLAUSE = re.compile(
    r"(?:^|(?<=[.!?]\s))((?:When|If|After|Before|Because|Although|While|Since) (?:I|we|you) "
    r"[^,.?!;:\n()]{3,70}), ((?:I|my|the|we|you) [^,.?!;:\n()]{6,80})([.?])",
    re.MULTILINE,
)


def _turned(match: re.Match[str], end: str) -> Rewrite:
    first, second = match[1], match[2]
    lead = second[0].upper() + second[1:]
    return Rewrite(
        match.start(), match.end(), f"{lead} {first[0].lower()}{first[1:]}{end}", 3, "order"
    )


def reorder_rewrites(text: str) -> Iterator[Rewrite]:
    """Swaps of "X and Y" and opening phrases moved to the end of their sentence."""
    yield from _pairs(text)
    for match in _OPENING.finditer(text):
        yield _turned(match, ".")
    for match in _CLAUSE.finditer(text):
        yield _turned(match, match[3])
