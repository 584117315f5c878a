"""Answers from a given list of labels ("yes"/"no", "entailment"/"neutral"/...).

An output is mapped to the one label it names, in this order: it equals the label; the last cue
names it; the output opens with it ("Yes, because ..."); it is named last in the text. Negated
mentions ("not positive") do not count. The label comes back as it is spelled in the list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmrel_tasks.filters.canonical.common import tidy
from lmrel_tasks.filters.canonical.cues import find_cues, find_retraction
from lmrel_tasks.filters.canonical.options import (
    BESIDE,
    choices_key,
    compile_options,
    exact,
    fold,
    mentions,
    named,
)
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal, goes_on

_OPENING = re.compile(r"[^\n.,;:!—]{1,200}(?=[\n.,;:!—])")


def label(raw: str, choices: Sequence[str] | None) -> str:
    """The label an output names, as spelled in `choices`; '' if none or several.

    Raises
    ------
    ValueError
        If `choices` is missing or empty.
    """
    if not choices:
        raise ValueError("choices: kind 'label' needs the list of labels; pass choices=[...]")
    key = choices_key(choices)
    if raw in key:
        return raw
    options = compile_options(key)
    text = tidy(raw)
    if not text:
        return ""
    whole = exact(options, text)
    if whole >= 0:
        return key[whole]
    for cue in find_cues(text):
        found = named(options, text[cue.start : cue.end])
        if found is None:
            continue
        if find_retraction(text, cue.end) >= 0:
            later = [item for item in mentions(options, text[cue.end :]) if not item.negated]
            if later:
                return key[later[-1].option]
        return key[found] if found >= 0 else ""
    refused = find_refusal(text)
    if refused >= 0:
        resumed = goes_on(text, refused)
        if resumed < 0:
            return REFUSAL
        text = text[resumed:]
    opening = _OPENING.match(text)
    if opening:
        first = exact(options, opening.group())
        if first >= 0:
            return key[first]
    kept = [item for item in mentions(options, text) if not item.negated]
    if not kept:
        return REFUSAL if refused >= 0 else ""
    last = kept[-1]
    if len(kept) > 1 and kept[-2].option != last.option:
        between = fold(text)[kept[-2].end : last.start]
        if BESIDE.fullmatch(between):
            return ""
    return key[last.option]
