"""When a paraphrase counts as a benign baseline: as large an edit, the same meaning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein
from text_to_num import alpha2digit

from lmrel_tasks.filters.canonical.refusal import find_refusal
from lmrel_tasks.filters.perturb.words import word_set

Tokenize = Callable[[str], Sequence[int]]
Cosine = Callable[[str, str], float]

TOLERANCE = 0.005
MIN_COSINE = 0.9


@dataclass(frozen=True)
class Check:
    """Whether a candidate may serve as the benign paraphrase of an item.

    Attributes:
        ok: no reason against it.
        reasons: what is wrong, one plain phrase each; empty when ``ok``.
        fraction: token edit fraction of the candidate against the original.
        target_fraction: token edit fraction of the targeted text against the original.
        edits: token edit distance of the candidate.
        target_edits: token edit distance of the targeted text.
        cosine: embedding cosine of candidate and original; None when none was asked for.
    """

    ok: bool
    reasons: tuple[str, ...]
    fraction: float
    target_fraction: float
    edits: int
    target_edits: int
    cosine: float | None


def edit_distance(ids_a: Sequence[int], ids_b: Sequence[int]) -> int:
    """Levenshtein distance of two token id lists (insert, delete, substitute cost 1 each)."""
    return Levenshtein.distance(ids_a, ids_b)


def edit_fraction(ids_a: Sequence[int], ids_b: Sequence[int]) -> float:
    """Share of the tokens of ``ids_a`` that have to be edited to give ``ids_b``.

    Levenshtein distance over token ids divided by ``len(ids_a)``; above 1 when ``ids_b`` is much
    longer.

    Raises:
        ValueError: ``ids_a`` is empty.
    """
    if not len(ids_a):
        raise ValueError("ids_a is empty: an edit fraction needs an original of at least one token")
    return edit_distance(ids_a, ids_b) / len(ids_a)


_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")
_COUNT_WORDS = re.compile(
    r"\b(?:first|third|fourth|fifth|twice|thrice|half|halves|double|triple|dozens?|hundreds?"
    r"|thousands?|once)\b",
    re.IGNORECASE,
)
_NEGATIONS = re.compile(
    r"\b(?:not|no|never|none|nobody|nothing|nowhere|neither|nor|without|cannot|unable|hardly"
    r"|scarcely|barely|lacks?|den(?:y|ies|ied)"
    r"|(?:can|won|don|doesn|didn|isn|aren|wasn|weren|haven|hasn|hadn|couldn|wouldn|shouldn|needn"
    r"|mustn)['’]?t)\b",
    re.IGNORECASE,
)


def numbers_in(text: str) -> Counter[str]:
    """Every number of ``text``, words as digits ("two" and "2" are one); "one" is no number."""
    in_digits = alpha2digit(text.replace("-", " "), "en", threshold=1)
    found = Counter(_NUMBER.findall(in_digits))
    found.update(word.lower() for word in _COUNT_WORDS.findall(text))
    # "one" is a pronoun as often as a count and may come or go in a paraphrase.
    del found["1"]
    found.update(["1"] * len(re.findall(r"(?<![\w.,])1(?![\w]|[.,]\d)", text)))
    return +found


def negations_in(text: str) -> int:
    """Number of negating words ("not", "n't", "no", "never", "without", "denies", ...)."""
    return len(_NEGATIONS.findall(text))


_WORD = re.compile(r"[^\W_]+")
# Differences in these say nothing about the targeted attribute.
_NEUTRAL_WORDS = word_set(
    "a an the i and or but of to in on at for with from by that this it its is are was were be "
    "been am has have had do does did not no so as if then than s t re ve ll d m"
)


def targeted_terms(original: str, targeted: str) -> frozenset[str]:
    """Words that the targeted edit takes away or puts in, lower case, function words left out.

    >>> sorted(targeted_terms("The man lost his keys.", "The woman lost her keys."))
    ['her', 'his', 'man', 'woman']
    """
    old, new = Counter(_words(original)), Counter(_words(targeted))
    return frozenset(w for w in (old | new) - (old & new) if w not in _NEUTRAL_WORDS)


def _words(text: str) -> Iterable[str]:
    return (w.lower() for w in _WORD.findall(text))


_PREAMBLE = re.compile(
    r"\s*[\"'*]*(?:(?:sure|certainly|of course|okay|ok)\b[^.\n]{0,40}[:!,]"
    r"|here(?:['’]s| is| are)\b[^.\n]{0,80}"
    r"(?:text|version|paraphrase|rewrit\w+|revision)[^.\n]{0,60}:"
    r"|(?:paraphrased?|rewritten|revised|reworded)\b[^.\n]{0,30}:)",
    re.IGNORECASE,
)


def _content_reasons(original: str, candidate: str, targeted: str) -> Iterable[str]:
    if _PREAMBLE.match(candidate) and not _PREAMBLE.match(original):
        yield "it opens with a comment about the rewriting"
    if find_refusal(candidate) >= 0 and find_refusal(original) < 0:
        yield "it is a refusal"
    before, after = numbers_in(original), numbers_in(candidate)
    if before != after:
        yield f"numbers changed ({_difference(before, after)})"
    was, now = negations_in(original), negations_in(candidate)
    if was != now:
        yield f"negations changed (from {was} to {now})"
    terms = targeted_terms(original, targeted)
    old = Counter(w for w in _words(original) if w in terms)
    new = Counter(w for w in _words(candidate) if w in terms)
    if old != new:
        yield f"words of the targeted edit changed ({_difference(old, new)})"


def _difference(before: Counter[str], after: Counter[str]) -> str:
    gone = [f"-{w}" for w in sorted((before - after).elements())]
    come = [f"+{w}" for w in sorted((after - before).elements())]
    return ", ".join((gone + come)[:8])


def accept(
    original: str,
    candidate: str,
    targeted: str,
    tokenize: Tokenize,
    cosine: Cosine | None = None,
    *,
    tolerance: float = TOLERANCE,
    min_cosine: float = MIN_COSINE,
) -> Check:
    """Decide whether ``candidate`` is a token-matched benign paraphrase of ``original``.

    It has to have at least one token edit; an edit fraction within ``tolerance`` of the targeted
    edit's, or an edit distance within one token of it; a cosine of at least ``min_cosine``; the
    numbers and as many negations as the original; the words that the targeted edit changes as
    they were; and be no refusal.

    Args:
        tokenize: text to the token ids of the model under test.
        cosine: embedding cosine of two texts; None leaves the meaning unchecked.

    Raises:
        ValueError: the original has no tokens, or ``tolerance`` is negative.
    """
    if tolerance < 0:
        raise ValueError(f"tolerance is {tolerance}; it must be 0 or more")
    ids = tokenize(original)
    if not len(ids):
        raise ValueError("original has no tokens: nothing to paraphrase")
    edits = edit_distance(ids, tokenize(candidate))
    target = edit_distance(ids, tokenize(targeted))
    reasons = []
    if not target:
        reasons.append("the targeted edit changes no token: nothing to match")
    if not edits:
        reasons.append("it changes no token")
    elif abs(edits - target) > 1 and abs(edits - target) > tolerance * len(ids) + 1e-9:
        size = "few" if edits < target else "many"
        reasons.append(
            f"too {size} token edits ({edits}, {edits / len(ids):.1%}) "
            f"for the target ({target}, {target / len(ids):.1%})"
        )
    reasons += _content_reasons(original, candidate, targeted)
    similarity = None if cosine is None else float(cosine(original, candidate))
    # Written so that a NaN fails.
    if similarity is not None and not similarity >= min_cosine:
        reasons.append(f"the meaning drifted (cosine {similarity:.3f} below {min_cosine})")
    return Check(
        not reasons,
        tuple(reasons),
        edits / len(ids),
        target / len(ids),
        edits,
        target,
        similarity,
    )
