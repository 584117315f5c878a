"""Parts of speech of single words, from a dictionary of forms and WordNet's tag counts."""

from __future__ import annotations

from functools import cache

import lemminflect

from lmrel_tasks.filters.perturb.words import read_rows, word_set

_ORDER = ("NOUN", "VERB", "ADJ", "ADV")
# Nouns of clinical English that the tagged texts (news and fiction) know mostly as verbs.
_CLINICAL_NOUNS = word_set(
    "cough sneeze scan swab biopsy bruise rash stool smear shot dose refill check checkup screen "
    "visit stay care drip cut burn sting itch ache cramp drink smoke sleep rest walk record report "
    "chart test treat result swelling bleeding breathing feeling"
)
_PSEUDO_COUNT = 1.0
_SUFFIXES = (
    (("ly",), "ADV"),
    (("ing", "ed"), "VERB"),
    (("ous", "ful", "less", "ive", "ible", "able", "ic", "al"), "ADJ"),
)


@cache
def _tag_counts() -> dict[str, tuple[int, ...]]:
    return {row[0]: tuple(map(int, row[1:])) for row in read_rows("wordnet_pos.tsv")}


@cache
def tag_weights(word: str) -> dict[str, float]:
    """Share of each open part of speech (NOUN, VERB, ADJ, ADV) among the uses of ``word``.

    A word unknown to the dictionary is judged by its suffix, and a noun without one.
    """
    word = word.lower()
    lemmas = lemminflect.getAllLemmas(word)
    counts = _tag_counts()
    weights = {
        pos: _PSEUDO_COUNT + max(counts.get(lemma, (0,) * 4)[i] for lemma in lemmas[pos])
        for i, pos in enumerate(_ORDER)
        if pos in lemmas
    }
    # WordNet files participles used as adjectives under the adjective alone ("diagnosed", "tired").
    own = counts.get(word, (0,) * 4)[2]
    if own and "ADJ" not in weights:
        weights["ADJ"] = _PSEUDO_COUNT + own
    if "NOUN" in weights and _CLINICAL_NOUNS.intersection(lemmas["NOUN"]):
        weights["NOUN"] = max(weights.values())
    if not weights:
        weights = {next((pos for ends, pos in _SUFFIXES if word.endswith(ends)), "NOUN"): 1.0}
    total = sum(weights.values())
    return {pos: weight / total for pos, weight in weights.items()}


def can_be(word: str, pos: str, share: float = 0.0) -> bool:
    """Whether ``word`` is used as ``pos`` in more than ``share`` of its uses."""
    return tag_weights(word).get(pos, 0.0) > share


def main_tag(word: str) -> str:
    """The commonest part of speech of ``word``."""
    weights = tag_weights(word)
    return max(weights, key=lambda pos: weights[pos])


@cache
def base_form(word: str) -> str | None:
    """Base form of a third person singular verb ("walks" gives "walk"), None for other words."""
    for lemma in lemminflect.getAllLemmas(word, upos="VERB").get("VERB", ()):
        if word in lemminflect.getInflection(lemma, tag="VBZ"):
            return str(lemma)
    return None


@cache
def is_base_verb(word: str) -> bool:
    """Whether ``word`` is the base form of a verb."""
    return word in lemminflect.getAllLemmas(word, upos="VERB").get("VERB", ())


@cache
def is_past_participle(word: str) -> bool:
    """Whether ``word`` is a past participle ("taken", "diagnosed")."""
    lemmas = lemminflect.getAllLemmas(word, upos="VERB").get("VERB", ())
    return any(word in lemminflect.getInflection(lemma, tag="VBN") for lemma in lemmas)


@cache
def is_past(word: str) -> bool:
    """Whether ``word`` is a past tense ("drove", "walked")."""
    lemmas = lemminflect.getAllLemmas(word, upos="VERB").get("VERB", ())
    return any(word in lemminflect.getInflection(lemma, tag="VBD") for lemma in lemmas)
