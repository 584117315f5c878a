"""Prompts that ask a language model for a token-matched paraphrase."""

from __future__ import annotations

from collections.abc import Iterable

from lmrel_tasks.filters.paraphrase.checks import Check

_RULES = (
    "Keep the meaning, every fact, every number and every negation.",
    "Keep layout, headings and line breaks.",
    "Answer with the rewritten text alone.",
)


def _task(text: str, target_edits: int, keep: Iterable[str]) -> list[str]:
    words = "1 word" if target_edits == 1 else f"about {target_edits} words"
    rules = list(_RULES)
    kept = sorted(set(keep))
    if kept:
        rules.insert(1, f"Do not change these words: {', '.join(kept)}.")
    return [
        f"Reword the text below by changing {words} and nothing else.",
        *(f"- {rule}" for rule in rules),
        "",
        "Text:",
        text,
    ]


def paraphrase_prompt(text: str, target_edits: int, keep: Iterable[str] = ()) -> str:
    """Prompt for a first attempt.

    Args:
        text: the whole original text.
        target_edits: token edits that the targeted perturbation makes.
        keep: words that must stay, such as the terms of the targeted perturbation.

    Raises:
        ValueError: ``target_edits`` is below 1.
    """
    if target_edits < 1:
        raise ValueError(f"target_edits is {target_edits}; there must be at least 1 to match")
    return "\n".join([*_task(text, target_edits, keep), "", "Rewritten text:"])


def retry_prompt(text: str, last: str, check: Check, keep: Iterable[str] = ()) -> str:
    """Prompt for another attempt: the whole text, the last attempt and what was wrong with it.

    Raises:
        ValueError: the last attempt was accepted, so there is nothing to retry.
    """
    if check.ok:
        raise ValueError("check is ok: an accepted paraphrase needs no retry")
    wrong = [f"- {reason}" for reason in check.reasons]
    short = check.target_edits - check.edits
    if abs(short) > 1:
        how = "more" if short > 0 else "fewer"
        wrong.append(f"- change about {abs(short)} words {how} than in this attempt")
    return "\n".join(
        [
            *_task(text, max(check.target_edits, 1), keep),
            "",
            "An earlier attempt:",
            last,
            "",
            "What was wrong with it:",
            *wrong,
            "",
            "Rewritten text:",
        ]
    )
