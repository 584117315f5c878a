"""Token-matched paraphrases of items: the lexical ones, and a language model's with retries."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from lmrel_tasks.filters.paraphrase import (
    Check,
    accept,
    lexical_paraphrase,
    paraphrase_prompt,
    retry_prompt,
    targeted_terms,
)
from lmrel_tasks.filters.paraphrase.checks import MIN_COSINE, TOLERANCE, Cosine, Tokenize

log = logging.getLogger(__name__)

# Seeds of the lexical search, each with candidates of its own.
LEXICAL_SEEDS = 4


@dataclass(frozen=True)
class Matching:
    """When a paraphrase counts.

    Attributes:
        tolerance: allowed difference of the edit fractions.
        min_cosine: least embedding cosine with the original.
        cosine: None leaves the meaning unchecked.
    """

    tolerance: float = TOLERANCE
    min_cosine: float = MIN_COSINE
    cosine: Cosine | None = None


@dataclass(frozen=True)
class Paraphrases:
    """Accepted paraphrases of one item.

    Attributes:
        texts: at most as many as were asked for, the nearest to the target first.
        checks: of the accepted ones; without any, of the nearest candidate.
        reasons: why there are fewer than asked for, each once.
        attempts: candidates that were looked at.
    """

    texts: tuple[str, ...]
    checks: tuple[Check, ...]
    reasons: tuple[str, ...]
    attempts: int


def embedding_cosine(model: str | None = None) -> Cosine | None:
    """Cosine of two texts under the sentence embedder; None, with a warning, without one."""
    from lmrel_tasks.embedder import encoder

    try:
        encode = encoder(model)
    except RuntimeError as error:
        log.warning("the meaning of paraphrases is not checked: %s", error)
        return None

    @lru_cache(maxsize=4096)
    def cosine(a: str, b: str) -> float:
        # Both in one call: a call costs more than a text.
        first, second = np.asarray(encode([a, b]), dtype=np.float64)
        return float(first @ second)

    return cosine


@lru_cache(maxsize=1)
def default_matching() -> Matching:
    """The usual thresholds, with the installed embedder."""
    return Matching(cosine=embedding_cosine())


def lexical(
    text: str,
    targeted: str,
    tokenize: Tokenize,
    *,
    count: int = 1,
    matching: Matching | None = None,
    seed: int = 0,
) -> Paraphrases:
    """Paraphrases without a language model, as large as the targeted edit.

    Args:
        text, targeted: the original and its targeted edit.
        tokenize: text to token ids of the model under test.
        count: how many different ones.
        seed: the same seed gives the same texts.
    """
    matching = matching or default_matching()
    first = accept(text, text, targeted, tokenize)
    if not first.target_edits:
        return Paraphrases((), (), ("the targeted edit changes no token: nothing to match",), 0)
    terms = targeted_terms(text, targeted)
    found = Search(text, targeted, tokenize, matching, count)
    # Discourse markers only where nothing smaller will do.
    for openings, turn in itertools.product((False, True), range(LEXICAL_SEEDS)):
        candidates = lexical_paraphrase(
            text, tokenize, target_edits=first.target_edits,
            seed=seed * LEXICAL_SEEDS + turn, protected=terms, openings=openings,
        )  # fmt: skip
        if found.take(candidates):
            break
    if not found.attempts:
        found.reasons["nothing in the text can be reworded"] = None
    return found.result()


def tidy_reply(reply: str, text: str) -> str:
    """A reply without the blanks, quotes or fences that models put round a text."""
    tidied = reply.strip()
    for fence in ('"""', "```", '"', "“"):
        close = "”" if fence == "“" else fence
        if tidied.startswith(fence) and tidied.endswith(close) and not text.startswith(fence):
            tidied = tidied[len(fence) : -len(close) or None].strip()
    # The text's own edges stay, so that they count as no edit.
    head, tail = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:head] + tidied + text[tail:] if tidied else ""


class Search:
    """Accepted candidates of one item, and what was wrong with the others."""

    def __init__(
        self, text: str, targeted: str, tokenize: Tokenize, matching: Matching, count: int
    ) -> None:
        self.text, self.targeted, self.tokenize = text, targeted, tokenize
        self.matching, self.count = matching, count
        self.accepted: dict[str, Check] = {}
        self.reasons: dict[str, None] = {}
        self.seen: set[str] = set()
        self.nearest: Check | None = None
        self.last: Check | None = None
        self.attempts = 0

    def take(self, candidates: Iterable[str]) -> bool:
        """Look at candidates, those nearest to the target first; True once there are enough."""
        self.attempts += len(candidates := list(candidates))
        checked = []
        for candidate in candidates:
            if candidate not in self.seen:
                # Without the embedder, which is costly and comes last.
                checked.append((self._check(candidate, None), candidate))
                self.seen.add(candidate)
        checked.sort(key=lambda one: _distance(one[0]))
        self.last = None
        for check, candidate in checked:
            if len(self.accepted) >= self.count:
                break
            if check.ok and self.matching.cosine is not None:
                check = self._check(candidate, self.matching.cosine)
            self.last = check
            if check.ok:
                self.accepted[candidate] = check
            else:
                self.reasons.update(dict.fromkeys(check.reasons))
                if self.nearest is None or _distance(check) < _distance(self.nearest):
                    self.nearest = check
        return len(self.accepted) >= self.count

    def _check(self, candidate: str, cosine: Cosine | None) -> Check:
        return accept(
            self.text, candidate, self.targeted, self.tokenize, cosine,
            tolerance=self.matching.tolerance, min_cosine=self.matching.min_cosine,
        )  # fmt: skip

    def result(self) -> Paraphrases:
        enough = len(self.accepted) >= self.count
        near: Sequence[Check] = () if self.nearest is None else (self.nearest,)
        return Paraphrases(
            tuple(self.accepted),
            tuple(self.accepted.values()) or tuple(near),
            () if enough else tuple(self.reasons),
            self.attempts,
        )


class ModelSearch(Search):
    """The paraphrases of one item that a language model writes, asked until enough pass.

    Every prompt holds the whole text; a retry also the last attempt and what was wrong with it.

    Args:
        count: how many different ones.
        attempts: most replies per wanted paraphrase.
    """

    def __init__(
        self, text: str, targeted: str, tokenize: Tokenize, matching: Matching, count: int,
        attempts: int,
    ) -> None:  # fmt: skip
        super().__init__(text, targeted, tokenize, matching, count)
        self.most = attempts * count
        self.terms = targeted_terms(text, targeted)
        first = accept(text, text, targeted, tokenize)
        self.done = not first.target_edits
        if self.done:
            self.reasons["the targeted edit changes no token: nothing to match"] = None
            self.prompt = ""
        else:
            self.prompt = paraphrase_prompt(text, first.target_edits, self.terms)
        self._fresh = self.prompt

    def take_reply(self, reply: str) -> bool:
        """Look at a reply; True once no further one is wanted."""
        candidate = tidy_reply(reply, self.text)
        enough = self.take([candidate])
        last = self.last
        if last is None:
            self.reasons["the reply repeats an earlier attempt"] = None
        asks_again = last is not None and not last.ok
        self.prompt = (
            retry_prompt(self.text, candidate, last, self.terms)
            if asks_again and last is not None
            else self._fresh
        )
        self.done = enough or self.attempts >= self.most
        return self.done


def _distance(check: Check) -> int:
    return abs(check.edits - check.target_edits)
