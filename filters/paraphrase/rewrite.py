"""Single rewrites that keep the meaning: contractions, phrases, "that" and commas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from lmrel_tasks.filters.perturb.pos import is_past_participle, main_tag
from lmrel_tasks.filters.perturb.words import match_case, read_rows


class Rewrite(NamedTuple):
    """Replace ``text[start:end]`` by ``text``; a lower ``rank`` is a safer rewrite."""

    start: int
    end: int
    text: str
    rank: int
    kind: str


_APOSTROPHE = re.compile(r"['’]")

# Contraction to its full form. "'s" is left to _short_is, "'d" is ambiguous and stays.
_EXPAND = (
    (re.compile(r"\b(I)(['’]m)\b", re.I), " am"),
    (re.compile(r"\b(I|you|we|they)(['’]ve)\b", re.I), " have"),
    (re.compile(r"\b(I|you|we|they|it)(['’]ll)\b", re.I), " will"),
    (re.compile(r"\b(you|we|they)(['’]re)\b", re.I), " are"),
    (
        re.compile(
            r"\b(do|does|did|is|are|was|were|have|has|had|could|would|should)(n['’]t)\b", re.I
        ),
        " not",
    ),
    (re.compile(r"\b(can)(['’]t)\b", re.I), "not"),
    (re.compile(r"\b(wo)(n['’]t)\b", re.I), "will not"),
)
_QUESTION_START = re.compile(r"(?:^|[.?!\n,;]\s*|\b(?:why|how|and|but|or|so)\s+)$", re.IGNORECASE)


def _expansions(text: str) -> Iterator[Rewrite]:
    for pattern, full in _EXPAND:
        for match in pattern.finditer(text):
            negated = match[2][0] in "nN" or full == "not"
            # "Don't I ...?" cannot become "Do not I ...?".
            if negated and _QUESTION_START.search(text[: match.start()]):
                continue
            if full == "will not":
                yield Rewrite(*match.span(), match_case(match[0], full), 0, "contraction")
            else:
                yield Rewrite(match.start(2), match.end(2), full, 0, "contraction")


_SHORT_IS = re.compile(r"\b(?:it|that|there|what|where|who|how)(['’]s)\s+(\w+)", re.IGNORECASE)


def _short_is(text: str) -> Iterator[Rewrite]:
    for match in _SHORT_IS.finditer(text):
        word = match[2].lower()
        perfect = word in ("been", "had", "got", "gotten", "become") or (
            is_past_participle(word) and not word.endswith("ed") and main_tag(word) == "VERB"
        )
        if word not in ("not", "never", "just", "also", "only") and not word.endswith("ed"):
            yield Rewrite(*match.span(1), " has" if perfect else " is", 0, "contraction")


# Full form to contraction, where no stress can fall on the verb.
_CONTRACT = (
    (re.compile(r"\b(?:I)( am)(?= (?!not\b)\w)", re.I), "'m"),
    (
        re.compile(
            r"\b(?:I|you|we|they)( have)(?= (?:been|had|noticed|tried|also|never|no idea)\b)", re.I
        ),
        "'ve",
    ),
    (re.compile(r"\b(?:it)( is)(?= (?!not\b)\w)", re.I), "'s"),
    (re.compile(r"\b(?:I|you|we|they|it)( will)(?= (?!not\b)\w)", re.I), "'ll"),
    (re.compile(r"\b(?:you|we|they)( are)(?= (?!not\b)\w)", re.I), "'re"),
    (
        re.compile(
            r"\b(?:do|does|did|is|are|was|were|has|had|have|could|would|should)( not)"
            r"(?= (?!only\b|just\b)\w)",
            re.I,
        ),
        "n't",
    ),
    (re.compile(r"\b(?:can)( ?not)(?= (?!only\b|just\b)\w)", re.I), "'t"),
)


def _contractions(text: str) -> Iterator[Rewrite]:
    curly = "’" in text and "'" not in text
    for pattern, short in _CONTRACT:
        for match in pattern.finditer(text):
            # "Is it is"/"what it is like": an inverted or embedded clause keeps the full form.
            before = re.search(
                r"\b(is|are|am|will|have|what|how|where|who)\s+\w+$", text[: match.start(1)], re.I
            )
            if not before:
                new = short.replace("'", "’") if curly else short
                yield Rewrite(*match.span(1), new, 0, "contraction")


@cache
def _phrases() -> tuple[tuple[re.Pattern[str], str, re.Pattern[str] | None, bool], ...]:
    """Pattern, replacement, what has to stand before, and whether it must not."""
    found = []
    for left, way, right, before, after in read_rows("phrases.tsv"):
        for old, new in ((left, right), (right, left)) if way == "=" else ((left, right),):
            ahead = ""
            if after != "-":
                ahead = f"(?!{after[1:]})" if after[0] == "!" else f"(?={after})"
            words = re.escape(old).replace(r"\ ", r" ").replace("'", "['’]")
            edge = "" if re.search(r"\W$", old) else r"(?!['’\w-])"
            pattern = re.compile(rf"(?<![\w'’-]){words}{edge}{ahead}", re.I | re.M)
            forbidden = before[0] == "!"
            condition = None
            if before != "-":
                # The condition is looked for right before the phrase, spaces between them or not.
                body = before.lstrip("!").rstrip()
                condition = re.compile(rf"(?:(?<!\w)|(?=\W))(?:{body})\s*$", re.I | re.M)
            found.append((pattern, new, condition, forbidden))
    return tuple(found)


def _phrase_rewrites(text: str) -> Iterator[Rewrite]:
    for pattern, new, condition, forbidden in _phrases():
        for match in pattern.finditer(text):
            if condition and bool(condition.search(text[: match.start()])) == forbidden:
                continue
            # Only the first letter carries over: "I" alone must not put all in capitals.
            upper = match[0][0].isupper()
            cased = new[0].upper() + new[1:] if upper else new
            cased = re.sub(r"\bi\b", "I", cased)
            yield Rewrite(*match.span(), cased, 1, "phrase")


_SAYING = (
    r"\b(?:I|he|she|they|we) (?:think|thought|believe|believed|said|know|knew|hope|noticed|feel)"
    r"|\b(?:afraid|worried|glad|sure)"
)
_CLAUSE = r"(?:I|he|she|they|we|it (?:is|was|has|might|could|may))\b"
_ADD_THAT = re.compile(rf"(?:{_SAYING})(?= {_CLAUSE})", re.I)
_DROP_THAT = re.compile(rf"(?:{_SAYING})( that)(?= (?:{_CLAUSE}|my ))", re.I)
_OPENERS = (
    r"(?:Yesterday|Today|Currently|Recently|Sometimes|Last (?:night|week|month|year)|Now|Usually"
    r"|Normally|Lately|However|Initially|Occasionally|Eventually|Apparently|Unfortunately)"
)
_ADD_COMMA = re.compile(rf"(?:^|(?<=[.!?]\s)){_OPENERS}(?= (?:I|my|we|he|she|it|the)\b)", re.M)
_DROP_COMMA = re.compile(
    r"(?:^|(?<=[.!?]\s))(?:Yesterday|Today|Currently|Recently|Sometimes|Last (?:night|week)"
    r"|Now|Lately|Usually)(,)(?= (?:I|my|we|he|she|it|the)\b)",
    re.M,
)
# Only in lists whose last member is short: "X, Y, and Z." but not "X, Y, and it hurts".
_OXFORD = re.compile(
    r"\b[a-z]+, [a-z]+(,)(?= (?:and|or) (?!(?:it|i|he|she|they|we|not|is|was|then)\b)"
    r"[a-z]+(?: [a-z]+)?[.,;:)])"
)


def _small_words(text: str) -> Iterator[Rewrite]:
    for match in _ADD_THAT.finditer(text):
        yield Rewrite(match.end(), match.end(), " that", 0, "that")
    for match in _DROP_THAT.finditer(text):
        yield Rewrite(*match.span(1), "", 0, "that")
    for match in _ADD_COMMA.finditer(text):
        yield Rewrite(match.end(), match.end(), ",", 0, "comma")
    for pattern in (_DROP_COMMA, _OXFORD):
        for match in pattern.finditer(text):
            yield Rewrite(*match.span(1), "", 0, "comma")


def phrase_rewrites(text: str) -> Iterator[Rewrite]:
    """Contractions and their expansions, equivalent phrases, optional "that" and commas."""
    yield from _expansions(text)
    yield from _short_is(text)
    yield from _contractions(text)
    yield from _phrase_rewrites(text)
    yield from _small_words(text)
