"""Verb agreement when a subject "he" or "she" becomes "they"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lmrel_tasks.filters.perturb.pos import base_form, can_be, is_past_participle, main_tag
from lmrel_tasks.filters.perturb.words import Edit, Token, match_case, word_set

_IRREGULAR = {
    "is": "are",
    "was": "were",
    "has": "have",
    "does": "do",
    "isn": "aren",
    "wasn": "weren",
    "hasn": "haven",
    "doesn": "don",
    "isnt": "arent",
    "wasnt": "werent",
    "hasnt": "havent",
    "doesnt": "dont",
}
_INVERTING = frozenset(("is", "was", "has", "does"))
_ADVERBS = word_set(
    "also never always just still now then often usually really only even sometimes not once "
    "currently rarely seldom almost already soon both all herself himself now otherwise "
    "therefore however thus too ever generally probably maybe first"
)
_NEW_CLAUSE = word_set(
    "i you he she it we they who which that there what because if when while as since although "
    "though where whether until before how why than so"
)
_COORDINATORS = frozenset(("and", "or", "but", "then", "yet", "nor", "plus", ",", "&"))
_QUESTION_WORDS = word_set(
    "what why how when where who whom which often long much many old and but or so nor neither "
    "as than"
)
# Participles that show "'s" to be "has": "she's been", "he's had".
_PERFECT = word_set(
    "been had got gotten become begun lost taken seen felt tried started stopped gone eaten "
    "gained developed experienced"
)
_OBJECT_STARTS = word_set("a an the my his her their some any no several two three")


def _is_adverb(token: Token) -> bool:
    return token.is_word and (
        token.lower in _ADVERBS or (token.lower.endswith("ly") and main_tag(token.lower) == "ADV")
    )


def _skip_adverbs(tokens: Sequence[Token], i: int) -> int:
    while i < len(tokens):
        if _is_adverb(tokens[i]):
            i += 1
        elif tokens[i].text == "," and i + 1 < len(tokens) and _is_adverb(tokens[i + 1]):
            i += 3 if i + 2 < len(tokens) and tokens[i + 2].text == "," else 2
        else:
            break
    return i


def _plural(token: Token) -> str | None:
    """Form of a singular present verb (or "was") that goes with "they"; None for other words."""
    word = token.lower
    changed = _IRREGULAR.get(word) or base_form(word)
    return match_case(token.text, changed) if changed else None


def _short_be_or_have(tokens: Sequence[Token], i: int) -> str:
    """What the "'s" at ``i`` stands for with "they": "re" or "ve"."""
    j = _skip_adverbs(tokens, i + 1)
    if j >= len(tokens):
        return "re"
    word = tokens[j].lower
    after = tokens[j + 1] if j + 1 < len(tokens) else None
    # "she's prescribed daily" is passive, "she's developed a rash" perfect: an object tells.
    takes_object = after is not None and (after.lower in _OBJECT_STARTS or after.text[0].isdigit())
    return "ve" if word in _PERFECT or (is_past_participle(word) and takes_object) else "re"


def _is_verb_here(tokens: Sequence[Token], i: int) -> bool:
    """Whether a word in "-s" at ``i`` behind "and" is a verb and not a plural noun."""
    word = tokens[i].lower
    if word in _IRREGULAR:
        return True
    after = tokens[i + 1].lower if i + 1 < len(tokens) else "."
    followed = after in _OBJECT_STARTS | {"to", "in", "on", "at", "from", "with", "it", "that"}
    return can_be(word, "VERB", 0.45) or (followed and can_be(word, "VERB", 0.2))


def _is_inverted(tokens: Sequence[Token], i: int, text: str) -> bool:
    """Whether the auxiliary before the subject at ``i`` belongs to it: "is she", "does he"."""
    k = i - 1
    if k > 0 and tokens[k].lower == "'t":
        k -= 1
    if k < 0 or tokens[k].lower.removesuffix("n") not in _INVERTING:
        return False
    before = tokens[k - 1] if k else None
    if before is None or not before.is_word or before.lower in _QUESTION_WORDS:
        return True
    sentence_end = re.search(r"[.?!\n]", text[tokens[i].end :])
    return sentence_end is not None and sentence_end.group() == "?"


def agreement_edits(text: str, tokens: Sequence[Token], i: int, sign: int) -> list[Edit]:
    """Edits that make the verbs of the subject at ``tokens[i]`` agree with "they".

    Covers the verb behind the subject (adverbs between them skipped), contractions, inverted
    questions ("is she"), and further verbs joined by "and", "or", "but" in the same clause.
    """

    def edit(token: Token, new: str) -> Edit:
        return Edit(token.start, token.end, new, sign, 2)

    edits: list[Edit] = []
    j = i + 1
    if j < len(tokens) and tokens[j].lower == "'s":
        return [
            edit(tokens[j], tokens[j].text[0] + _short_be_or_have(tokens, j)),
            *_coordinated(text, tokens, j, edit),
        ]
    j = _skip_adverbs(tokens, j)
    if j < len(tokens) and (plural := _plural(tokens[j])):
        edits.append(edit(tokens[j], plural))
    elif i > 1 and tokens[i - 1].lower == "'s" and tokens[i - 2].lower in _QUESTION_WORDS:
        edits.append(edit(tokens[i - 1], " are"))
    elif _is_inverted(tokens, i, text):
        k = i - 2 if tokens[i - 1].lower == "'t" else i - 1
        edits.append(edit(tokens[k], match_case(tokens[k].text, _IRREGULAR[tokens[k].lower])))
    return edits + _coordinated(text, tokens, j, edit)


def _coordinated(
    text: str, tokens: Sequence[Token], j: int, edit: Callable[[Token, str], Edit]
) -> list[Edit]:
    """Edits of the further verbs of the clause whose first verb stands at ``j``."""
    edits = []
    for k in range(j + 1, len(tokens) - 1):
        token = tokens[k]
        gap = text[tokens[k - 1].end : token.start]
        as_noun = token.lower == "as" and tokens[k + 1].lower in ("a", "an")
        if token.text in ".;!?:" or "\n" in gap or (token.lower in _NEW_CLAUSE and not as_noun):
            break
        if token.lower in _COORDINATORS:
            m = _skip_adverbs(tokens, k + 1)
            if m < len(tokens) and (plural := _plural(tokens[m])) and _is_verb_here(tokens, m):
                edits.append(edit(tokens[m], plural))
    return list(dict.fromkeys(edits))
