"""Token ids of the model under test, for edit fractions and token-matched paraphrases."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

log = logging.getLogger(__name__)

WORDS = "words"
# Model arguments that name a tokenizer, the most telling first; the harness puts them into the
# task's metadata.
_NAMES = ("tokenizer", "pretrained", "model")
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Tokens:
    """How texts are cut into tokens.

    Attributes:
        name: the tokenizer's name or folder; ``"words"`` for words and punctuation marks.
        ids: text to token ids, without special tokens.
    """

    name: str
    ids: Callable[[str], Sequence[int]]


def tokens_of(metadata: Mapping[str, Any] | None, tokenizer: Any = None) -> Tokens:
    """The tokenizer of the model under test, or words where it cannot be had.

    Args:
        metadata: a task's metadata, in which the harness puts the model's arguments.
        tokenizer: a tokenizer or its name, where one is known already.
    """
    if tokenizer is not None and not isinstance(tokenizer, str):
        name = str(getattr(tokenizer, "name_or_path", type(tokenizer).__name__))
        return Tokens(name, lambda text: tokenizer.encode(text, add_special_tokens=False))
    given = metadata or {}
    named = tokenizer or tokenizer_name(given)
    if named is None:
        return Tokens(WORDS, _words)
    return _load(named, str(given.get("gguf_file") or ""), str(given.get("revision") or ""))


def tokenizer_name(metadata: Mapping[str, Any]) -> str | None:
    """The model argument that names the tokenizer, None without one."""
    named = next((metadata[key] for key in _NAMES if metadata.get(key)), None)
    return named if isinstance(named, str) else None


@lru_cache(maxsize=4)
def _load(name: str, gguf_file: str, revision: str) -> Tokens:
    from transformers import AutoTokenizer

    options = {"gguf_file": gguf_file, "revision": revision}
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **{k: v for k, v in options.items() if v})
    except Exception as error:  # an API model's name is no tokenizer; a hub may be out of reach
        log.warning(
            "no tokenizer %r (%s); edits are measured in words and punctuation marks. Name one "
            "with --model_args tokenizer=... or --metadata tokenizer=...",
            name,
            type(error).__name__,
        )
        return Tokens(WORDS, _words)
    return Tokens(name, lambda text: tokenizer(text, add_special_tokens=False)["input_ids"])


def _words(text: str) -> list[int]:
    return [hash(word) for word in _WORD.findall(text)]
