"""The ``token_match`` filter: of several generated paraphrases, the best acceptable one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from lm_eval.api.filter import Filter

from lmrel_tasks.filters.answer import as_run, texts_of
from lmrel_tasks.filters.paraphrase import select
from lmrel_tasks.filters.paraphrase.checks import MIN_COSINE, TOLERANCE, Cosine, Tokenize
from lmrel_tasks.filters.perturb import get_perturbation


class TokenMatchFilter(Filter):
    """Keep of each item's texts the paraphrase that matches the targeted edit, or an empty text.

    Args:
        text: field of the document with the original.
        targeted: field with the targeted edit's text; or
        perturbation: name of the perturbation that makes it, with its ``arguments``.
        tokenizer: of the model under test; words are counted without one.
        tolerance, min_cosine: see `lmrel_tasks.filters.paraphrase.accept`.
        meaning: False leaves the embedding cosine out.

    Raises:
        ValueError: without exactly one of ``targeted`` and ``perturbation``, or for arguments
            that the perturbation does not take.
    """

    tokenize_with: ClassVar[Callable[[str | None], Tokenize]]
    cosine: ClassVar[Callable[[], Cosine | None]]

    def __init__(
        self,
        text: str,
        targeted: str | None = None,
        perturbation: str | None = None,
        arguments: dict[str, Any] | None = None,
        tokenizer: str | None = None,
        tolerance: float = TOLERANCE,
        min_cosine: float = MIN_COSINE,
        meaning: bool = True,
    ) -> None:
        if (targeted is None) == (perturbation is None):
            raise ValueError("filter token_match: give one of targeted and perturbation")
        if tolerance < 0:
            raise ValueError(f"filter token_match: tolerance must not be negative, got {tolerance}")
        self.text, self.targeted = text, targeted
        self.perturb = get_perturbation(perturbation, **(arguments or {})) if perturbation else None
        self.tokenizer = tokenizer
        self.tolerance, self.min_cosine, self.meaning = tolerance, min_cosine, meaning

    def apply(self, resps: Iterable[Any], docs: Sequence[Any]) -> list[str]:
        """One text per item; ``""`` where no candidate is acceptable."""
        tokenize = type(self).tokenize_with(self.tokenizer)
        cosine = type(self).cosine() if self.meaning else None
        return [
            self._chosen(cell, doc, tokenize, cosine) for cell, doc in zip(resps, docs, strict=True)
        ]

    def _chosen(self, cell: Any, doc: Any, tokenize: Tokenize, cosine: Cosine | None) -> str:
        runs = texts_of(cell)
        for field in (self.text, *([self.targeted] if self.targeted else [])):
            if field not in doc:
                raise ValueError(
                    f"filter token_match: the document has no field {field!r}; its fields: "
                    f"{', '.join(map(str, doc))}"
                )
        original = str(doc[self.text])
        if self.perturb is not None:
            edited = self.perturb(original).text
        else:
            edited = str(doc[self.targeted] or original)
        unique = list(dict.fromkeys(str(run).strip() for run in runs))
        found = select(
            [one for one in unique if one], original, edited, tokenize, cosine,
            tolerance=self.tolerance, min_cosine=self.min_cosine,
        )  # fmt: skip
        if found.text is None:
            return as_run(runs[0]).derive(text="") if runs else ""
        chosen = next(run for run in runs if str(run).strip() == found.text)
        return as_run(chosen).derive(text=found.text)
