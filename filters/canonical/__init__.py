"""Canonical answers: a raw model output becomes a string that equal answers share.

`canonical(raw, kind, choices)` is pure and linear in the length of the output. '' means that
the output holds no answer and belongs to no class; "refusal" is a class of its own. Labels go
through the same function as answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lmrel_tasks.filters.canonical.brackets import brackets as brackets_answer
from lmrel_tasks.filters.canonical.code import code as code_answer
from lmrel_tasks.filters.canonical.diagnosis import diagnosis as diagnosis_answer
from lmrel_tasks.filters.canonical.label import label as label_answer
from lmrel_tasks.filters.canonical.mcq import mcq as mcq_answer
from lmrel_tasks.filters.canonical.numeric import numeric as numeric_answer
from lmrel_tasks.filters.canonical.options import is_none_of_these
from lmrel_tasks.filters.canonical.refusal import REFUSAL
from lmrel_tasks.filters.canonical.text import text as text_answer

KINDS = ("numeric", "mcq", "text", "code", "label", "brackets", "diagnosis")

__all__ = ["KINDS", "REFUSAL", "canonical", "canonical_all", "is_none_of_these"]

_WITHOUT_CHOICES: dict[str, Callable[[str], str]] = {
    "numeric": numeric_answer,
    "text": text_answer,
    "code": code_answer,
    "brackets": brackets_answer,
    "diagnosis": diagnosis_answer,
}
_WITH_CHOICES: dict[str, Callable[[str, Sequence[str] | None], str]] = {
    "mcq": mcq_answer,
    "label": label_answer,
}


def canonical(raw: str, kind: str, choices: Sequence[str] | None = None) -> str:
    """Canonical answer of one output.

    Parameters
    ----------
    raw : the output as the model wrote it.
    kind : one of `KINDS`.
    choices : option texts in the order of their letters (``mcq``, optional) or the labels
        (``label``, required); ignored by the other kinds.

    Returns
    -------
    The answer; '' if the output holds none; `REFUSAL` if it declines to answer.

    Raises
    ------
    ValueError
        Unknown kind, or ``label`` without choices.
    TypeError
        `raw` or a choice is no str.
    """
    if not isinstance(raw, str):
        raise TypeError(f"raw is {type(raw).__name__}, not str: pass the text of the output")
    if kind in _WITHOUT_CHOICES:
        return _WITHOUT_CHOICES[kind](raw)
    if kind in _WITH_CHOICES:
        return _WITH_CHOICES[kind](raw, choices)
    raise ValueError(f"kind {kind!r} is unknown: choose one of {', '.join(KINDS)}")


def canonical_all(
    raws: Iterable[str], kind: str, choices: Sequence[str] | None = None
) -> list[str]:
    """Canonical answers of many outputs that share kind and choices, in order.

    Equal outputs are read once. Raises what `canonical` raises.
    """
    known: dict[str, str] = {}
    answers: list[str] = []
    for raw in raws:
        answer = known.get(raw) if isinstance(raw, str) else None
        if answer is None:
            answer = known[raw] = canonical(raw, kind, choices)
        answers.append(answer)
    return answers
