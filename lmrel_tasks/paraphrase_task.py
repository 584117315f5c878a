"""Prompts of the tasks ``lmrel_paraphrase_*``: paraphrasing as an evaluation of the harness."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lmrel_tasks.filters.paraphrase import edit_distance, paraphrase_prompt, targeted_terms
from lmrel_tasks.filters.perturb import get_perturbation
from lmrel_tasks.token_ids import tokens_of


def vignette_prompt(doc: Mapping[str, Any]) -> str:
    """Reword a bundled vignette by as many words as swapping the gender changes."""
    return _prompt(doc["vignette"], get_perturbation("gender_swap")(doc["vignette"]).text)


def columns_prompt(doc: Mapping[str, Any]) -> str:
    """Reword ``text`` by as many words as ``targeted`` changes."""
    return _prompt(doc["text"], doc["targeted"] or doc["text"])


def _prompt(text: str, edited: str) -> str:
    words = tokens_of({}).ids
    edits = edit_distance(words(text), words(edited))
    return paraphrase_prompt(text, max(edits, 1), targeted_terms(text, edited))
