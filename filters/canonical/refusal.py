"""Outputs that decline to answer.

A refusal is first person and about the task ("I cannot help with that", "I don't know"). A
statement about the world ("the value cannot be determined") is an answer, not a refusal; and
an output that goes on to state an answer is that answer: the kinds look for one first.
"""

from __future__ import annotations

import re

REFUSAL = "refusal"

_ABOUT_THE_TASK = (
    r"(?:answer|help(?= (?:with|you|out|here|on)\b|[^\w ]|$)|assist|provide|give|offer|comply"
    r"|fulfil|fulfill|complete|respond|discuss|comment|engage|determine|solve|say"
    r"|tell(?= (?:you|for|with|from|which|what|if|whether)\b|[^\w ]|$)|know|decide"
    r"|choose|pick|select|do (?:that|this|so)"
    r"|make (?:a|that|this)|generate|produce|advise|diagnose|continue|proceed|support"
    r"|share|create|write|participate|speculate|confirm|verify|recommend)"
)
_REFUSAL = re.compile(
    r"\b(?:"
    r"(?:i|we)(?: am|'m| are|'re)? ?(?:really |simply |honestly |just |also |currently )?"
    r"(?:can ?not|can'?t|could(?: not|n'?t)|will not|won'?t|would not|wouldn'?t"
    r"|must (?:decline|refuse)|(?:have|need) to (?:decline|refuse)|decline|refuse"
    r"|(?:am |are )?(?:not able|unable|not allowed|not permitted|not comfortable"
    r"|not in a position|not going)(?: to)?)"
    r"(?: to| in good conscience| be able to| possibly| reliably| directly| definitively"
    r"| accurately| really| fully| even| safely| ethically)* ?" + _ABOUT_THE_TASK + r"\b"
    r"|(?:i|we) (?:must|have to|need to|will|would like to)? ?(?:respectfully |politely )?"
    r"(?:decline|refuse)\b(?! in| by)"
    r"|(?:i|we) (?:really |honestly |just |simply )?(?:do not|don'?t|dont) (?:really )?"
    r"(?:know|have (?:an?|any|the|enough|sufficient|access|personal))\b"
    r"|(?:i have|i've got|i had) no (?:idea|clue|answer)\b"
    r"|(?:i am|i'm) not (?:sure|certain)\W*$"
    r"|(?:i am|i'm) (?:sorry|afraid)[,.]? (?:but )?(?:i|we)"
    r" (?:can ?not|can'?t|don'?t|do not|am unable)\b"
    r"|as an? (?:ai|artificial intelligence|language model)\b[^.\n]{0,80}"
    r"\b(?:cannot|can'?t|unable|do not|don'?t|not able)\b"
    r"|unable to (?:answer|help|assist|comply|provide|determine|fulfil)\b"
    r"|(?:(?:this|that|it) is |it's )?against my (?:guidelines|programming|policy|policies)\b"
    r")",
    re.I,
)
_GOES_ON = re.compile(
    r"\b(?:but|however|so|therefore|thus|hence|anyway|nevertheless|nonetheless|still|yet"
    r"|best guess|estimate|approximately|assuming)\b",
    re.I,
)
_POSSIBLE = ("n't ", "nt ", "not ", "no ", "unable", "declin", "refus", "against", "as an")


def may_refuse(lower: str) -> bool:
    """Whether a lower-case text has a word that a refusal needs."""
    return any(word in lower for word in _POSSIBLE)


def find_refusal(text: str) -> int:
    """Where the first refusal ends in tidied text; -1 when there is none."""
    lower = text.lower()
    if lower == REFUSAL:
        return len(text)
    if not may_refuse(lower):
        return -1
    match = _REFUSAL.search(text)
    return match.end() if match else -1


def goes_on(text: str, position: int) -> int:
    """Where an output resumes after a refusal ("..., but my best guess is"); -1 if it does not."""
    match = _GOES_ON.search(text, position)
    return match.end() if match else -1
