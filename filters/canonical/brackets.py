"""Bracket sequences: the ``()[]{}<>`` of what an output states, in order and without blanks.

The text kinds drop punctuation, which here is the answer. Taken from the last "answer is" or
"answer:" to the end of its line, else from the last line that holds a bracket.
"""

from __future__ import annotations

import re

from lmrel_tasks.filters.canonical.common import drop_reasoning
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal

_STATED = re.compile(r"\banswer(?: is\b|s?:| ?=)", re.I)
_TAG = re.compile(r"</?\w{1,20}>|<\|\w{1,20}\|>")
_OTHER = re.compile(r"[^()\[\]{}<>]+")
_BOX = "\\boxed{"


def brackets(raw: str) -> str:
    """Brackets that an output states; '' if it has none, "refusal" if it declines."""
    text = _TAG.sub(" ", drop_reasoning(raw))
    stated = list(_STATED.finditer(text))
    lines = [text[stated[-1].end() :].strip().partition("\n")[0]] if stated else []
    lines += reversed(text.split("\n"))
    for line in lines:
        if (box := line.rfind(_BOX)) >= 0:
            line = line[box + len(_BOX) : line.rfind("}")]
        found = _OTHER.sub("", line)
        if found:
            return found
    return REFUSAL if raw.strip() == REFUSAL or find_refusal(text) >= 0 else ""
