"""Synonyms from the reviewed WordNet pairs, in the inflection of the word they replace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import lemminflect

from lmrel_tasks.filters.paraphrase.rewrite import Rewrite
from lmrel_tasks.filters.perturb.pos import can_be, is_base_verb
from lmrel_tasks.filters.perturb.words import Token, match_case, read_rows, tokenize

_UPOS = {"noun": "NOUN", "verb": "VERB", "adj": "ADJ", "adv": "ADV"}
_TAGS = {
    "noun": ("NN", "NNS"),
    "verb": ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG"),
    "adj": ("JJ",),
    "adv": ("RB",),
}


@cache
def _partners() -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pos, left, right in read_rows("wordnet_synonyms.tsv"):
        found[pos, left].append(right)
    return {key: tuple(words) for key, words in found.items()}


def _inflected(lemma: str, tag: str) -> str:
    return (lemminflect.getInflection(lemma, tag=tag) or ("",))[0]


def _tags_of(word: str, lemma: str, pos: str) -> list[str]:
    """Inflections that ``word`` can be; rarer variants ("illness" as a plural) only at need."""
    usual = [tag for tag in _TAGS[pos] if word == _inflected(lemma, tag)]
    return usual or [t for t in _TAGS[pos] if word in lemminflect.getInflection(lemma, tag=t)]


@cache
def synonyms_of(word: str) -> tuple[str, ...]:
    """Words that may stand in the place of ``word`` (lower case), in its own inflection.

    A form that could be two inflections (past tense and participle) gets only synonyms for which
    the two are one form as well.
    """
    found: list[str] = []
    for pos, upos in _UPOS.items():
        if not can_be(word, upos, 0.5):
            continue
        for lemma in {word, *lemminflect.getAllLemmas(word, upos=upos).get(upos, ())}:
            for partner in _partners().get((pos, lemma), ()):
                if pos in ("adj", "adv"):
                    forms = {partner} if lemma == word else set()
                else:
                    forms = {_inflected(partner, tag) for tag in _tags_of(word, lemma, pos)}
                if len(forms) == 1:
                    found += sorted(forms - {"", word})
    return tuple(dict.fromkeys(found))


def _fits(tokens: list[Token], i: int) -> bool:
    """Whether the place allows a synonym: no name, no compound, no idiom of degree."""
    token = tokens[i]
    before = tokens[i - 1] if i else None
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    if "-" in (before and before.text, after and after.text):
        return False
    opens = before is None or before.text in '.!?:"“(' or before.text == "\n"
    if token.text.isupper() or (token.text[0].isupper() and not opens):
        return False
    # "Doctor Smith", "as often as", "how terribly", "doctor's" in a name.
    if after and after.is_word and after.text[0].isupper() and after.text != "I":
        return False
    if token.lower in ("doctor", "physician") and after and after.lower == "'s":
        return before is not None and before.lower in ("my", "the", "a", "your", "his", "her")
    if token.lower in ("almost", "nearly", "exactly") and after and after.text[0].isdigit():
        return False
    if token.lower in ("usually", "perhaps", "often") and before and before.lower == "more":
        return False
    # "select to", "prompt response": a verb needs its own place, not that of a noun or adjective.
    previous = before.lower if before else ""
    return not (
        is_base_verb(token.lower) and previous in ("a", "an", "the", "my", "his", "her", "no")
    )


def synonym_rewrites(text: str) -> Iterator[Rewrite]:
    """Every word with a reviewed synonym."""
    tokens = tokenize(text)
    for i, token in enumerate(tokens):
        if not token.is_word or len(token.text) < 3:
            continue
        partners = synonyms_of(token.lower)
        if partners and _fits(tokens, i):
            for partner in partners:
                yield Rewrite(token.start, token.end, match_case(token.text, partner), 2, "synonym")
