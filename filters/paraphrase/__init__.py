"""Token-matched paraphrases: benign edits as large as a targeted one."""

from lmrel_tasks.filters.paraphrase.checks import (
    Check,
    accept,
    edit_distance,
    edit_fraction,
    negations_in,
    numbers_in,
    targeted_terms,
)
from lmrel_tasks.filters.paraphrase.lexical import lexical_paraphrase
from lmrel_tasks.filters.paraphrase.prompts import paraphrase_prompt, retry_prompt
from lmrel_tasks.filters.paraphrase.selection import Selection, select

__all__ = [
    "Check",
    "Selection",
    "accept",
    "edit_distance",
    "edit_fraction",
    "lexical_paraphrase",
    "negations_in",
    "numbers_in",
    "paraphrase_prompt",
    "retry_prompt",
    "select",
    "targeted_terms",
]
