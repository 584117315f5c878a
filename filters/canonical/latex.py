"""LaTeX and Unicode notation spelled as plain text, so that numbers can be read from it."""

from __future__ import annotations

import re

_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUBSCRIPT = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")
_RAISED = re.compile(r"[⁰¹²³⁴-⁹⁺⁻]+")
_LOWERED = re.compile(r"[₀-₉₊₋]+")
_OPERATORS = str.maketrans(
    {
        "×": "*",
        "✕": "*",
        "✖": "*",
        "·": "*",
        "⋅": "*",
        "∙": "*",
        "÷": "/",
        "≃": "≈",
        "≅": "≈",
        "∼": "≈",
        "~": "≈",
        "∣": " ",
    }
)
_THIN = re.compile(r"\\[,;: ]|\\(?:quad|qquad|thinspace|hspace\{[^{}]{0,20}\})(?![A-Za-z])")
_WORDS = {
    "times": "*",
    "cdot": "*",
    "ast": "*",
    "div": "/",
    "approx": "≈",
    "sim": "≈",
    "simeq": "≈",
    "infty": "∞",
    "pi": "π",
    "pm": "±",
    "circ": "°",
    "degree": "°",
    "left": "",
    "right": "",
    "displaystyle": "",
    "implies": "=>",
    "Rightarrow": "=>",
    "to": "->",
    "rightarrow": "->",
    "euro": "€",
    "pounds": "£",
    "textdollar": "$",
    "sqrt": "√",
    "times10": "*10",
}
_COMMAND = re.compile(
    r"\\(?:(?:text|mathrm|mathbf|mathit|mathsf|textbf|textit|textrm|mbox|hbox"
    r"|operatorname|bm|boldsymbol|rm|bf)(?![A-Za-z])\*?|(" + "|".join(_WORDS) + r")(?![A-Za-z]))"
)
_GROUP = r"(?:\{ ?([+-]? ?[\d.,' ]{1,2000}?) ?\}|(\d))"
_FRAC = re.compile(r"\\[dtc]?frac ?(?=[{\d ])" + _GROUP + " ?" + _GROUP)
_UPRIGHT = re.compile(r"\^ ?\{? ?(?:°|\\prime) ?\}?")


def _join_frac(match: re.Match[str]) -> str:
    top = (match.group(1) or match.group(2)).replace(" ", "")
    bottom = (match.group(3) or match.group(4)).replace(" ", "")
    return f" {top}/{bottom} "


def plain(text: str) -> str:
    """Plain spelling: fractions as a/b, powers as a^b, products as a*b, spacing removed.

    Subscripts become "_1", so that they never read as numbers of their own.
    """
    if not text.isascii():
        text = _RAISED.sub(lambda match: "^" + match.group().translate(_SUPERSCRIPT), text)
        text = _LOWERED.sub(lambda match: "_" + match.group().translate(_SUBSCRIPT), text)
        text = text.translate(_OPERATORS)
    elif "~" in text:
        text = text.replace("~", "≈")
    if "{,}" in text:
        text = text.replace("{,}", ",").replace("{.}", ".")
    if "\\" in text:
        text = text.replace("\\!", "").replace("\\$", "$").replace("\\%", "%")
        text = text.replace("\\(", " ").replace("\\)", " ").replace("\\[", " ").replace("\\]", " ")
        text = _THIN.sub(" ", text)
        text = _FRAC.sub(_join_frac, text)
        text = _COMMAND.sub(lambda match: _WORDS.get(match.group(1) or "", " "), text)
        text = _UPRIGHT.sub("°", text)
        text = _collapse(text)
    return text


def _collapse(text: str) -> str:
    return re.sub(" {2,}", " ", text)
