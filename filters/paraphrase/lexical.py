"""Paraphrases of a wanted number of token edits without a language model."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from functools import cache

from lmrel_tasks.filters.paraphrase.checks import Tokenize, edit_distance
from lmrel_tasks.filters.paraphrase.openings import opening_rewrites
from lmrel_tasks.filters.paraphrase.reorder import reorder_rewrites
from lmrel_tasks.filters.paraphrase.rewrite import Rewrite, phrase_rewrites
from lmrel_tasks.filters.paraphrase.synonyms import synonym_rewrites
from lmrel_tasks.filters.perturb.words import (
    Edit,
    apply_edits,
    overlaps,
    protected_spans,
    read_rows,
)

_TRIES = 40
_HEADING = re.compile(r"^[ \t]*[A-Z][\w /()-]{1,60}:", re.MULTILINE)


@cache
def _protected_terms() -> re.Pattern[str]:
    terms = "|".join(row[0] for row in read_rows("protected_terms.txt"))
    return re.compile(rf"(?<!\w)(?:{terms})(?!\w)", re.IGNORECASE)


def rewrites(text: str, protected: Iterable[str] = (), openings: bool = False) -> list[Rewrite]:
    """Every single rewrite that ``text`` allows, by place; discourse markers with ``openings``.

    Code, addresses, headings ("Age:"), clinical phrases and the words in ``protected`` stay.
    """
    skip = protected_spans(text)
    skip += [m.span() for m in _HEADING.finditer(text)]
    skip += [m.span() for m in _protected_terms().finditer(text)]
    words = [re.escape(w) for w in protected if w.strip()]
    kept = re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE) if words else None
    found = []
    every = [*phrase_rewrites(text), *synonym_rewrites(text), *reorder_rewrites(text)]
    if openings:
        every += opening_rewrites(text)
    for rewrite in every:
        old = text[rewrite.start : rewrite.end]
        # A pair may be turned round a protected word, as long as the word survives.
        touches = kept and kept.findall(old.lower()) != kept.findall(rewrite.text.lower())
        if not touches and not overlaps(rewrite.start, rewrite.end or 1, skip):
            found.append(rewrite)
    return sorted(set(found))


def _apply(text: str, chosen: Iterable[Rewrite]) -> str:
    return apply_edits(text, [Edit(r.start, r.end, r.text) for r in chosen])


def _clear_of(rewrite: Rewrite, chosen: Sequence[Rewrite]) -> bool:
    """Whether a rewrite leaves a word between itself and all chosen ones."""
    return all(rewrite.end + 1 < c.start or c.end + 1 < rewrite.start for c in chosen)


def _wanted(target_edits: int | None, target_fraction: float | None, length: int) -> int:
    if (target_edits is None) == (target_fraction is None):
        raise ValueError("give either target_edits or target_fraction")
    if target_edits is None:
        assert target_fraction is not None
        target_edits = round(target_fraction * length)
    if target_edits < 0:
        raise ValueError(f"the target is {target_edits} token edits; it must be 0 or more")
    return max(target_edits, 1)


def lexical_paraphrase(
    text: str,
    tokenize: Tokenize,
    *,
    target_edits: int | None = None,
    target_fraction: float | None = None,
    seed: int = 0,
    protected: Iterable[str] = (),
    candidates: int = 8,
    openings: bool = False,
) -> list[str]:
    """Reword ``text`` by as near as possible to a wanted number of token edits.

    Rewrites (contractions, equivalent phrases, synonyms, reorderings) are drawn in random order,
    safer kinds first, and taken while they fit into what is left of the target. The cost of a
    rewrite is measured with ``tokenize`` on the whole text.

    Args:
        tokenize: text to the token ids of the model under test.
        target_edits: wanted edit distance in tokens; at least 1 is aimed at.
        target_fraction: the same as a share of the original's tokens; give one of the two.
        seed: the same seed gives the same candidates.
        protected: words not to touch, such as those of the targeted edit.
        candidates: at most so many are returned.
        openings: also put discourse markers ("In short, ...") in front of sentences; they change
            more than other rewrites do, but nearly every text allows them.

    Returns:
        Distinct texts other than ``text``, nearest to the target first; empty when nothing in the
        text can be reworded.

    Raises:
        ValueError: neither or both targets given, or a negative one.
    """
    ids = tokenize(text)
    target = _wanted(target_edits, target_fraction, len(ids))
    possible = rewrites(text, protected, openings)
    costs = {r: edit_distance(ids, tokenize(_apply(text, [r]))) for r in possible}
    options = [r for r, cost in costs.items() if 0 < cost <= target + 1]
    rng = random.Random(seed)
    found: dict[str, int] = {}
    for _ in range(_TRIES):
        order = sorted(options, key=lambda r: r.rank + 2.5 * rng.random())
        chosen: list[Rewrite] = []
        left = target
        for rewrite in order:
            if costs[rewrite] <= left and _clear_of(rewrite, chosen):
                chosen.append(rewrite)
                left -= costs[rewrite]
        if not chosen:
            chosen = order[:1]
        if chosen:
            candidate = _apply(text, chosen)
            found.setdefault(candidate, abs(edit_distance(ids, tokenize(candidate)) - target))
    found.pop(text, None)
    return sorted(found, key=lambda c: found[c])[:candidates]
