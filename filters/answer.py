"""The ``answer`` filter: gives every run its canonical answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lm_eval.api.filter import Filter

from lmrel_tasks.filters.canonical import KINDS, canonical_all
from lmrel_tasks.run import Run


class AnswerFilter(Filter):
    """Attach canonical answers, to the runs themselves; the texts stay as they are.

    Args:
        kind: ``numeric``, ``mcq``, ``text``, ``code``, ``label`` or ``brackets``.
        choices: for ``mcq`` and ``label``: the options, as a list, or the name of the document
            field that holds them (a list, or a mapping with a ``text`` list as in ARC).
    """

    def __init__(self, kind: str = "text", choices: str | Sequence[str] | None = None) -> None:
        if kind not in KINDS:
            raise ValueError(f"filter answer: kind must be one of {', '.join(KINDS)}, got {kind!r}")
        if isinstance(choices, (list, tuple)) and not all(isinstance(c, str) for c in choices):
            raise TypeError(
                f"filter answer: choices must be texts, got {list(choices)!r}; "
                'write them in quotes (YAML reads a bare yes or no as true or false: ["yes", "no"])'
            )
        self.kind = kind
        self.choices = choices

    def apply(self, resps: Iterable[Any], docs: Sequence[Any]) -> list[Any]:
        """Answers for a whole task.

        Args:
            resps: per instance, its runs (or one string, after a filter such as ``take_first``).
            docs: per instance, its document.
        """
        return [self._cell(cell, doc) for cell, doc in zip(resps, docs, strict=True)]

    def _cell(self, cell: Any, doc: Any) -> Any:
        single = cell is None or isinstance(cell, str)
        runs = texts_of(cell)
        answers = canonical_all(runs, self.kind, options_of(doc, self.choices))
        answered = [
            give_answer(run, answer, self.kind) for run, answer in zip(runs, answers, strict=True)
        ]
        return answered[0] if single else answered


def texts_of(cell: Any) -> list[str]:
    """The texts of a cell, as a stock filter may have left it: one text, or None for no match."""
    texts = [cell] if cell is None or isinstance(cell, str) else cell
    return ["" if text is None else text for text in texts]


def as_run(text: str) -> Run:
    """The run itself; a plain string, as stock filters return, becomes one."""
    return text if isinstance(text, Run) else Run(text)


def give_answer(text: str, answer: str, kind: str | None = None) -> Run:
    """The run itself, with this answer from now on; copies of all runs would double the memory.

    Args:
        text: a run, or a plain string, which becomes one.
        kind: the kind of answer; None leaves it as it is.
    """
    run = as_run(text)
    run.answer = answer
    if kind is not None:
        run.kind = kind
    return run


def options_of(doc: Any, choices: str | Sequence[str] | None) -> list[str] | None:
    """The answer options of a document.

    Raises:
        ValueError: if ``choices`` names a field that the document lacks.
    """
    if choices is None or not isinstance(choices, str):
        return None if choices is None else [str(one) for one in choices]
    if choices not in doc:
        raise ValueError(
            f"filter answer: the document has no field {choices!r} for choices; "
            f"its fields: {', '.join(map(str, doc))}"
        )
    options = doc[choices]
    if isinstance(options, dict):
        options = options.get("text", list(options.values()))
    return [str(one) for one in options]
