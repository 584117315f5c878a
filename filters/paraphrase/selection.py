"""Token matching: the best acceptable paraphrase among several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmrel_tasks.filters.paraphrase.checks import (
    MIN_COSINE,
    TOLERANCE,
    Check,
    Cosine,
    Tokenize,
    accept,
)


@dataclass(frozen=True)
class Selection:
    """Outcome of a selection.

    Attributes:
        text: the chosen paraphrase, None when no candidate is acceptable.
        check: its check; that of the candidate nearest to the target when none is acceptable,
            None without candidates.
        reasons: why there is none: the reasons of all candidates, each once; empty when chosen.
        checks: the check of every candidate, in order.
    """

    text: str | None
    check: Check | None
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]


def select(
    candidates: Sequence[str],
    original: str,
    targeted: str,
    tokenize: Tokenize,
    cosine: Cosine | None = None,
    *,
    tolerance: float = TOLERANCE,
    min_cosine: float = MIN_COSINE,
) -> Selection:
    """Choose the acceptable candidate whose edit distance is nearest to the targeted edit's.

    Ties go to the higher cosine, then to the earlier candidate. Arguments as in
    :func:`lmrel_tasks.filters.paraphrase.checks.accept`.
    """
    checks = tuple(
        accept(
            original,
            candidate,
            targeted,
            tokenize,
            cosine,
            tolerance=tolerance,
            min_cosine=min_cosine,
        )
        for candidate in candidates
    )
    if not checks:
        return Selection(None, None, ("there is no candidate",), ())

    def rank(i: int) -> tuple[bool, int, float, int]:
        check = checks[i]
        return (
            not check.ok,
            abs(check.edits - check.target_edits),
            -(check.cosine or 0.0),
            i,
        )

    best = min(range(len(checks)), key=rank)
    if checks[best].ok:
        return Selection(candidates[best], checks[best], (), checks)
    reasons = tuple(dict.fromkeys(reason for check in checks for reason in check.reasons))
    return Selection(None, checks[best], reasons, checks)
