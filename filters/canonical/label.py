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
    Options,
    choices_key,
    compile_options,
    exact,
    mentions,
)
from lmrel_tasks.filters.canonical.refusal import REFUSAL, find_refusal, goes_on

_OPENING = re.compile(r"[^\n.,;:!—]{1,200}(?=[\n.,;:!—])")
_ALTERNATIVE = re.compile(r"\W{0,3}(?:or|and|/|,) ?\W{0,3}")


def _named(options: Options, span: str) -> int | None:
    """The one option a span names: -1 if several or only negated ones, None if it names none."""
    whole = exact(options, span)
    if whole >= 0:
        return whole
    found = mentions(options, span)
    if not found:
        return None
    kept = {option for _, option, negated in found if not negated}
    if len(kept) == 1:
        return kept.pop()
    first = next((item for item in found if not item[2]), None)
    if first is None:
        return -1
    # "Berlin, because Paris is in France": what opens the span is the answer, unless the
    # next one stands beside it as an alternative.
    opening = re.match(
        r"(?:(?:most|very|definitely|clearly|likely|probably|the|an?|:|\W) ?){0,4}$",
        span[: first[0]],
        re.I,
    )
    if opening is None:
        return -1
    after = span[first[0] + len(options.texts[first[1]]) :]
    beside = _ALTERNATIVE.match(after)
    if beside and any(
        0 <= at - first[0] - len(options.texts[first[1]]) - beside.end() <= 4
        for at, option, negated in found
        if option != first[1] and not negated
    ):
        return -1
    return first[1]


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
        found = _named(options, text[cue.start : cue.end])
        if found is None:
            continue
        if find_retraction(text, cue.end) >= 0:
            later = [item for item in mentions(options, text[cue.end :]) if not item[2]]
            if later:
                return key[later[-1][1]]
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
    found_all = [item for item in mentions(options, text) if not item[2]]
    if not found_all:
        return REFUSAL if refused >= 0 else ""
    last = found_all[-1]
    if len(found_all) > 1 and found_all[-2][1] != last[1]:
        previous = found_all[-2]
        folded = " ".join(text.casefold().split())
        between = folded[previous[0] + len(options.texts[previous[1]]) : last[0]]
        if re.fullmatch(r"\W{0,3}(?:or|and|/|,|\+|&)?\W{0,3}(?:an? |the )?", between):
            return ""
    return key[last[1]]
