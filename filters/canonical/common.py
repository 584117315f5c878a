"""Text clean-up shared by every kind of answer: Unicode, markdown, fences, reasoning blocks.

Everything here runs in time linear in the length of the text. Whitespace runs are collapsed
first, so that later patterns may say "an optional space" instead of "any number of spaces",
which is what keeps them free of backtracking.
"""

from __future__ import annotations

import re
import unicodedata

_LINE_ENDS = frozenset("\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
_SPELLED = {
    "\n": "\n",
    "\t": " ",
    "—": "—",
    "―": "—",
    "⸺": "—",
    "\u2212": "-",
    "\u02d7": "-",
    "\u2796": "-",
    "\u2044": "/",
    "\u2215": "/",
    "\u2236": ":",
    "\u066b": ".",
    "\u066c": "'",
    "\u066a": "%",
    "\u00b4": "'",
    "\u2032": "'",
    "\u02bc": "'",
    "\u02b9": "'",
    "\u2019": "'",
    "\u2018": "'",
    "\u201a": "'",
    "\u201b": "'",
    "\u2033": '"',
    "\u201c": '"',
    "\u201d": '"',
    "\u201e": '"',
    "\u201f": '"',
    "«": '"',
    "»": '"',
    "\u3001": ",",
    "\u3002": ". ",
}
# Compatibility forms that only change how a character is drawn. Superscripts, subscripts and
# fractions change the meaning ("10²" is not "102") and are left to the kinds.
_SAME_MEANING = frozenset(
    ["<wide>", "<narrow>", "<compat>", "<font>", "<noBreak>", "<circle>", "<square>"]
)
# Normalisation sorts runs of combining marks by insertion, quadratic in the run; the
# stream-safe text format (Unicode Annex 15) allows 30 marks in a row.
_MAX_MARKS = 30


def _fold_character(character: str) -> str:
    if character in _SPELLED:
        return _SPELLED[character]
    if character in _LINE_ENDS:
        return "\n"
    category = unicodedata.category(character)
    if category in ("Cf", "Cs"):
        return ""
    if category in ("Cc", "Zs"):
        return " "
    if category == "Pd":
        return "-"
    decimal = unicodedata.decimal(character, None)
    if decimal is not None:
        return str(decimal)
    tag = unicodedata.decomposition(character).partition(" ")[0]
    if tag == "<fraction>":
        return " " + unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    if tag in _SAME_MEANING:
        folded = unicodedata.normalize("NFKC", character)
        if folded[0] != " ":
            return "".join(_fold_character(part) if part != character else part for part in folded)
    return character


class _FoldTable(dict[int, str]):
    """Translation table that is filled as characters are met."""

    def __missing__(self, code: int) -> str:
        folded = _fold_character(chr(code))
        self[code] = folded
        return folded


_FOLD = _FoldTable()


def _cap_marks(text: str) -> str:
    kept: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= _MAX_MARKS:
            kept.append(character)
    return "".join(kept)


def nfc(text: str) -> str:
    """Canonical composition, in linear time for runs of combining marks of any length."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _cap_marks(text) if len(text) > _MAX_MARKS else text)


def fold_unicode(text: str) -> str:
    """One spelling for characters that mean the same: digits, dashes, spaces, quotes, widths."""
    if text.isascii():
        return text.translate(_FOLD) if not text.isprintable() else text
    return nfc(nfc(text).translate(_FOLD))


_THOUGHT_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.I)
_FENCE = re.compile(r"`{3,}(?:[A-Za-z][\w+-]*(?=\n))?|(?<!~)~{3,}(?=\n)")
# "2**10" keeps its stars: emphasis never stands between two operands.
_STARS = re.compile(r"(?<![\d)])\*\*|\*\*(?![\d(])")
_UNDERLINES = re.compile(r"(?<!\w)__|__(?!\w)")
# "_42_" is emphasis, "x_1" and "1_000" are not.
_UNDERLINE = re.compile(r"(?:(?<=[\s(\"'])|^)_(?=\w)")
_TAG = re.compile(r"</?(?:b|i|u|p|em|br|hr|code|span|strong|div|pre)(?: [^<>]{0,60})?/?>", re.I)
_SPACES = re.compile(r"[ \t]+")
_NEWLINES = re.compile(r" ?\n[ \n]*")


def drop_reasoning(text: str) -> str:
    """What follows the last closed reasoning block (``<think>...</think>``)."""
    if "</" not in text:
        return text
    end = 0
    for match in _THOUGHT_END.finditer(text):
        end = match.end()
    return text[end:]


def tidy(raw: str) -> str:
    """Plain text of an output: reasoning, fences, emphasis and repeated blanks removed."""
    text = drop_reasoning(fold_unicode(raw))
    if "`" in text or "~~~" in text:
        text = _FENCE.sub("\n", text).replace("`", "")
    if "**" in text:
        text = _STARS.sub("", text)
    if "__" in text:
        text = _UNDERLINES.sub("", text)
    if "_" in text:
        text = _UNDERLINE.sub("", text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "  " in text or "\t" in text:
        text = _SPACES.sub(" ", text)
    if "\n" in text:
        text = _NEWLINES.sub("\n", text)
    return text.strip()
