"""Words in which one text differs from another, and texts made fit to be shown on a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WORDS = re.compile(r"\s*\S+|\s+$")

Segments = list[tuple[str, str]]


def visible(text: str) -> str:
    """The text with characters that a page cannot carry replaced by visible ones.

    Lone surrogates become U+FFFD, control characters their pictures (U+2400 ff.); line breaks of
    any kind become a line feed.
    """
    text = text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    text = _LONE_SURROGATE.sub("\ufffd", text)
    return _CONTROL.sub(lambda match: _picture(match[0]), text)


def _picture(control: str) -> str:
    return "\u2421" if control == "\x7f" else chr(0x2400 + ord(control))


def shortened(text: str, length: int) -> str:
    """At most about `length` characters, with a mark of how much is left out."""
    if len(text) <= length:
        return text
    return f"{text[:length]} … [{len(text) - length:,} more characters in the samples file]"


def word_differences(text: str, reference: str) -> Segments:
    """The text in pieces: ``same``, ``new`` (not in the reference), ``gap`` (words of the
    reference are missing here; the piece is empty).

    The pieces of kind ``same`` and ``new`` put together are the text.
    """
    ours, theirs = _WORDS.findall(text), _WORDS.findall(reference)
    # Leading white space belongs to a word but does not make it another one.
    matcher = SequenceMatcher(
        None, [one.strip() for one in theirs], [one.strip() for one in ours], autojunk=False
    )
    pieces: Segments = []
    for operation, _, _, start, end in matcher.get_opcodes():
        if operation == "delete":
            pieces.append(("gap", ""))
        else:
            kind = "same" if operation == "equal" else "new"
            pieces.append((kind, "".join(ours[start:end])))
    return pieces


def templates(**filters: Callable[..., Any]) -> Any:
    """The templates of the pages, with these filters; what a model wrote stays text in all."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lmrel_tasks.reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters.update(filters)
    return environment
