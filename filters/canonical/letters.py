"""Letters in running text that may name an option, and what is said about each of them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lmrel_tasks.filters.canonical.options import NEGATED_AFTER, NEGATED_BEFORE


class Letter(NamedTuple):
    """One letter of a text.

    `role`: it "opens" a line, is a "line" of its own, is "chosen" by a conclusion or a verdict,
    stands in brackets ("bracketed"), or is "bare".
    """

    start: int
    end: int
    letter: str
    role: str
    negated: bool


# Only the last letters of a text count; the first few may open it.
_MAX_LETTERS = 100

_CHOSEN_BEFORE = re.compile(
    r"(?:\b(?:so|therefore|thus|hence|consequently|accordingly|(?:must|should|would|will) be|it'?s"
    r"|it is|that'?s|that is|(?:choose|chose|choosing|pick|picked|picking|select|selected|selecting"
    r"|go(?:ing)? with|went with|opt(?:ing)? for|say|guess|believe|think|prefer|conclude"
    r"|leaves(?: us with)?|points? to|indicates)"
    r"|(?:options?|choices?|letter|selection|pick|response|diagnosis|statement|alternative)"
    r" (?:is|are|be)"
    r"|(?:correct|best|right) (?:option|choice|answer|one)(?: is)?|final)"
    r"[,:;]? ?)"
    r"(?:(?:it'?s|it is|it must be|i (?:would |will |'ll )?(?:choose|pick|select|say|think|go with)"
    r"|the (?:correct |best |right |final )?|correct |best |right |option|choice|answer|letter|is"
    r"|that|probably|likely|definitely|clearly|most|:)[,:]? ?){0,6}[(\"'\[*$]{0,3}$",
    re.I,
)
_NAMED_BEFORE = re.compile(r"\b(?:option|choice|letter|answer)s? ?:? ?[(\"'\[*]{0,3}$", re.I)
_CHOSEN_AFTER = re.compile(
    r"[)\]\"'.:*]{0,3} (?:is|seems|appears|would be|must be|fits|remains)"
    r"(?: to be)?(?: clearly| definitely| probably| likely| indeed| therefore| most likely)?"
    r" ?(?:the |my |an? )?(?:most |only |single )?"
    r"(?:correct|right|best|true|answer|appropriate|accurate|likely|remaining|valid|plausible|choice)\b",
    re.I,
)
_THING_BEFORE = re.compile(
    r"\b(?:vitamins?|hepatitis|group|type|grade|plan|class|stage|phase|schedule|factor|influenza"
    r"|point|figure|fig\.|table|appendix|blood|complement|section|team|patient|person|case|set"
    r"|event|angle|side|node|vertex|line|box|bag|city|town|block|variable|matrix|protein|cell"
    r"|level|category|exhibit|part|room|gate|sample|drug|player|train|car|machine|company|country"
    r"|state|species|element|cytochrome|chromosome|immunoglobulin|ig|rna|dna|serotype|strain|test"
    r"|condition|group's|sub|big|middle|high|low) ?[\"']?$",
    re.I,
)
_SPECIES = re.compile(
    r"\. (?:coli|difficile|botulinum|tetani|perfringens|albicans|elegans|diphtheriae|jejuni"
    r"|trachomatis|neoformans|pneumoniae|immitis|familiaris|burgdorferi|cereus|anthracis|subtilis"
    r"|fragilis|pertussis|abortus|melitensis|henselae|faecalis|faecium|histolytica|granulosus"
    r"|multilocularis|tularensis|nucleatum|lamblia|vaginalis|duodenalis|intestinalis|pylori"
    r"|influenzae|sapiens|erectus|neanderthalensis|capsulatum|ducreyi|scapularis|fumigatus|flavus"
    r"|niger|baumannii|lumbricoides|thaliana|melanogaster|rerio|latum|discoideum|dermatitidis"
    r"|glabrata|catus|lupus|muridarum|psittaci|israelii|hydrophila|aegypti|gambiae)\b"
)
_INITIALS = re.compile(r"\. ?[A-Z]\. ?[A-Z]")
_INITIAL_AFTER = re.compile(r"\. ?[A-Z](?:\.|[a-z])")
_INITIAL_BEFORE = re.compile(r"(?:^|[^.!?:;,] ?)\b[A-Z][a-z]+ $|[A-Z]\. ?$")
# After "A", these make it a letter; any other word makes it an article.
_NOT_A_NOUN = re.compile(
    r" (?:is|isn't|was|are|because|as|since|and|or|for|due|which|with|but|not|if|would|seems|states"
    r"|describes|says|refers|appears|fits|may|might|can|cannot|should|must|has|have|over|rather|nor"
    r"|instead|then|than|on|from|best|most|only|to|by|in|at|gives|matches|follows|suggests)\b"
)
_WORD_AFTER = re.compile(r" [\"']?(?:[A-Za-z][A-Za-z']|[a-z]\b)")
_JOIN = re.compile(
    r"[)\]\"'.*]{0,3}(?: ?[,/&] ?| ?,? (?:and|or|and/or|&|nor|plus) )"
    r"(?:option |either )?[(\[\"'*]{0,3}"
)


_LINE_START = re.compile(
    r"(?:^|\n)(?:[-*#>•] )?(?:option |choice |answer )?[(\[\"'*{$]{0,3}$", re.I
)
_DELIMITER = re.compile(r"[)\]}\"'*$]{0,3}(?:[.:,;)\]}]|\n|$| ?[—–]| -|(?= because\b| since\b))")
_LINE_END = re.compile(r"[)\]}\"'*.$]{0,4}(?:\n|$)")
_LOWER = re.compile(
    r"(?:(?:option|choice|letter|answer|the|definitely|clearly|probably|most|likely|is|:) ?"
    r"|\W){0,6}(?<![\w'])([a-z])(?!\.\w)"
    r"(?=[)\]}\"'*$]{0,3} ?(?:[.,;:)\]}\n]|$|because\b|since\b|as\b))"
)


@lru_cache(maxsize=32)
def _token(allowed: str) -> re.Pattern[str]:
    lower = allowed.lower()
    return re.compile(
        rf"(?<![\w.&\\-])(?<!\w')(?<![Nn]/)[{allowed}](?![\w&#°-]|'\w|\+|/\w\w)"
        rf"|(?<=[(\[])[{lower}](?=[)\]])"
        rf"|(?<=[Oo]ption |[Cc]hoice |[Ll]etter )[{lower}](?=[)\].,;:!?\n]|$| (?:is|because)\b)"
    )


def find_letters(text: str, allowed: str) -> list[Letter]:
    """Letters of tidied text that may name an option, in order, at most the last 100."""
    tokens = list(_token(allowed).finditer(text))
    found: list[Letter] = []
    for token in tokens[-_MAX_LETTERS:]:
        start, end = token.span()
        before = text[max(0, start - 60) : start]
        # A window cut inside a word must not look like the start of a line.
        if start > 60:
            before = "_" + before
        role = _role(text, start, end, before)
        if role is None:
            continue
        negated = (
            NEGATED_BEFORE.search(before) is not None or NEGATED_AFTER.match(text, end) is not None
        )
        found.append(Letter(start, end, token.group().upper(), role, negated))
    return _spread_negation(text, found)


def _role(text: str, start: int, end: int, before: str) -> str | None:
    """Role of the letter at `start`; None for an article, a pronoun, an initial or a name."""
    bracketed = before[-1:] in "([{" and before != "" and text[end : end + 1] in (")", "]", "}")
    letter = text[start]
    if not bracketed:
        if _SPECIES.match(text, end):
            return None
        named = _NAMED_BEFORE.search(before)
        verdict = _CHOSEN_AFTER.match(text, end)
        word_like = letter == "I" or (letter == "A" and not _NOT_A_NOUN.match(text, end))
        if word_like and not named and not verdict and _WORD_AFTER.match(text, end):
            return None
        if not named and not verdict and _THING_BEFORE.search(before):
            return None
        if verdict or _CHOSEN_BEFORE.search(before):
            return "chosen"
        if not named and (
            _INITIALS.match(text, end)
            or (_INITIAL_AFTER.match(text, end) and _INITIAL_BEFORE.search(before))
        ):
            return None
    elif _CHOSEN_AFTER.match(text, end) or _CHOSEN_BEFORE.search(before):
        return "chosen"
    if _LINE_START.search(before):
        if _LINE_END.match(text, end):
            return "line"
        if bracketed or _DELIMITER.match(text, end):
            return "opens"
    return "bracketed" if bracketed else "bare"


def _spread_negation(text: str, found: list[Letter]) -> list[Letter]:
    """ "neither A nor B", "A and B are wrong": letters side by side share a denial."""
    for at in range(1, len(found)):
        left, right = found[at - 1], found[at]
        if left.negated and not right.negated and side_by_side(text, left, right):
            found[at] = right._replace(negated=_is_listed(text, left, right))
    for at in range(len(found) - 2, -1, -1):
        left, right = found[at], found[at + 1]
        denied = right.negated and NEGATED_AFTER.match(text, right.end)
        if denied and not left.negated and side_by_side(text, left, right):
            found[at] = left._replace(negated=True)
    return found


def _is_listed(text: str, left: Letter, right: Letter) -> bool:
    """ "not A, B" may correct itself, "not A or B" and "not A and B" deny both."""
    return "," not in text[left.end : right.start]


def side_by_side(text: str, left: Letter, right: Letter) -> bool:
    """Whether two letters are joined as alternatives: "A or B", "(A), (B)", "A/B"."""
    return _JOIN.fullmatch(text, left.end, right.start) is not None


def next_line(text: str, left: Letter, right: Letter) -> bool:
    """Whether nothing but a line end and brackets stand between two letters."""
    return not any(character.isalnum() for character in text[left.end : right.start])


def lower_case(span: str, offset: int, allowed: str) -> list[Letter]:
    """A lower-case letter that a cue's span states: "b", "option c", "d) Rome"."""
    match = _LOWER.match(span)
    if match is None or match.group(1).upper() not in allowed:
        return []
    start = offset + match.start(1)
    return [Letter(start, start + 1, match.group(1).upper(), "chosen", False)]
