"""Discourse markers in front of sentences: the rewording that nearly every text allows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lmrel_tasks.filters.paraphrase.rewrite import Rewrite
from lmrel_tasks.filters.perturb.words import word_set

# None of them weighs, doubts, orders in time or contrasts what follows.
_FIRST = (
    "Indeed,",
    "Briefly,",
    "In short,",
    "To begin with,",
    "By way of background,",
    "By way of a short introduction,",
    "To give a brief account of the matter,",
)
_LATER = ("Also,", "In addition,", "In addition to this,")

# Words that lose their capital behind a marker; of others it is not known whether they are names.
_LOWERED = word_set(
    "a an the this that these those he she it they we you his her its their our my your there "
    "one two three four five for in on at by with since when while after before during over "
    "because as if although some many most all both each several another no"
)
_KEPT = word_set("i mr mrs ms dr miss prof")
# "John Smith", "Professor Weiss": two capitals in a row are a name.
_NAME = re.compile(r"\w+ [A-Z]")
# No sentence ends behind these, nor begins with "A.", "No. 5".
_ABBREVIATED = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|mt|sr|jr|vs|approx|ca|fig|no|nos|vol|vit|e\.g|i\.e|etc|cf|sgt"
    r"|messrs|gen|col|capt|rev|hon|dept|min|max|temp|wt|ht|jan|feb|mar|apr|jun|jul|aug|sept?|oct"
    r"|nov|dec)|(?<!\w)\w|\.\w)\.\Z",
    re.I,
)
# Characters of the longest of them.
_LONGEST = 8
_LETTERED = re.compile(r"(?:[A-Z]|No|Nos)[.)]")
_SENTENCE = re.compile(r"(?:\A\s*|(?<=[a-z)][.!?])[ \n]+)(?P<word>[IA]|[A-Z][a-z]+)(?=[ .'’-])")
# A sentence that leans on the one before, or already opens with a marker, takes none.
_LEANING = re.compile(r"\w+,|(?:This|That|These|Those|It|No) ")


def opening_rewrites(text: str) -> Iterator[Rewrite]:
    """A marker in front of every sentence that can bear one."""
    for match in _SENTENCE.finditer(text):
        word, start = match["word"], match.start("word")
        later = match.start() > 0
        lowered = word.lower() in _LOWERED
        if not (lowered or word.lower() in _KEPT or _NAME.match(text, start)):
            continue
        end = match.start()
        abbreviated = _ABBREVIATED.search(text, max(0, end - _LONGEST), end)
        if later and (_LEANING.match(text, start) or abbreviated):
            continue
        if _LETTERED.match(text, start):
            continue
        first = word[0].lower() if lowered else word[0]
        for marker in _LATER if later else _FIRST:
            yield Rewrite(start, start + 1, f"{marker} {first}", 4, "opening")
