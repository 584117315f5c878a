"""Acceptable answers of an item, read by the same function as the answers of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lmrel_tasks.filters.canonical import canonical, is_none_of_these

_WITH_OPTIONS = ("mcq", "label")


def acceptable(
    target: Any, kind: str | None, options: Sequence[str] | None = None
) -> tuple[str, ...] | None:
    """Canonical acceptable answers.

    Args:
        target: what the document calls right: a text or number, or a list of several; an empty
            list, or the text "none of these", where no answer is right; None where it is unknown.
        kind: kind of canonical answer; None compares stripped texts.
        options: the answer options, for ``mcq`` and ``label``.

    Returns:
        the answers, none twice; empty if no answer is right; None if that is unknown.

    Raises:
        ValueError: for a target that holds no answer of that kind.

    If "none of these" is itself among the options, its letter or label is the answer.
    """
    if target is None:
        return None
    targets = target if isinstance(target, (list, tuple)) else [target]
    answers: dict[str, None] = {}
    for one in targets:
        raw = str(one).strip()
        answer = canonical(raw, kind, options) if kind else raw
        # A bare "none" may well be the right answer to an open question.
        no_option = is_none_of_these(raw) and raw.casefold() not in ("none", "neither")
        if no_option and not (answer and kind in _WITH_OPTIONS):
            continue
        if not answer:
            raise ValueError(
                f"the target {raw!r:.80} holds no answer of kind {kind}; correct doc_to_target or "
                "the kind of the filter `answer` (an empty list says that no answer is right, "
                "null that it is unknown)"
            )
        answers[answer] = None
    return tuple(answers)
