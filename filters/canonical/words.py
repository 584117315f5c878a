"""Numbers written in English words: "forty-two", "two and a half", "one point five"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from text_to_num import text2num

_CARDINALS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty", "thirty", "forty", "fourty", "fifty", "sixty", "seventy", "eighty"),
    "ninety",
]
_SMALL = {word: value for value, word in enumerate(_CARDINALS[:10])}
_LARGE = {
    "trillion": 10**12,
    "quadrillion": 10**15,
    "quintillion": 10**18,
}
_MULTIPLES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, **_LARGE}
_MULTIPLES["dozen"] = 12
_DENOMINATORS = {"half": 2, "halves": 2, "quarter": 4, "quarters": 4}
for _value, _name in enumerate(
    [
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
    ],
    start=3,
):
    _DENOMINATORS[_name] = _DENOMINATORS[_name + "s"] = _value
_DENOMINATORS.update({"hundredth": 100, "hundredths": 100, "thousandths": 1000})

_UNIT = "|".join(sorted([*_CARDINALS, *_MULTIPLES], key=len, reverse=True))
_TAIL = "|".join(sorted([*_DENOMINATORS, "point"], key=len, reverse=True))
_RUN = re.compile(
    rf"(?<![\w'-])(?:(?:an? )(?=(?:hundred|thousand|\w+illion|dozen|half|quarter|third|fourth|fifth"
    rf"|tenth)\b)(?:{_UNIT}|{_TAIL})|(?:{_UNIT}|half|quarter))\b"
    rf"(?:(?:-| |, | and | and an? | an? |-and-|-and-a-)(?:{_UNIT}|{_TAIL})\b)*",
    re.I,
)
# "one" is a pronoun here: "no one", "the one that", "one of them".
_PRONOUN_BEFORE = re.compile(
    r"\b(?:no|any|some|every|each|this|that|the|which|another|only|last|first|next|right|wrong)"
    r"[ -]$",
    re.I,
)
_PRONOUN_AFTER = re.compile(
    r" (?:of|can|could|must|should|may|might|who|which|that|for|by|another|would|needs?|has|way"
    r"|thing|day|more)\b",
    re.I,
)
# One of these is in every number word; looking for them is much cheaper than the pattern.
_STEMS = (
    *("zero", "one", "two", "three", "four", "fort", "five", "fift", "six", "seven", "eight"),
    *("nine", "ten", "eleven", "twel", "teen", "twent", "thirt", "half", "quarter", "hundred"),
    *("thousand", "illion", "dozen", "third"),
)
# Longer runs are lists or noise, not numbers.
_MAX_WORDS = 40


def _integer(words: list[str]) -> int:
    """Value of integer words; ValueError if they are not one integer."""
    words = [
        "one" if word in ("a", "an") else "forty" if word == "fourty" else word for word in words
    ]
    if not words or words[0] == "and" or words[-1] == "and":
        raise ValueError("not a number")
    total = 0
    for name, size in sorted(_LARGE.items(), key=lambda pair: -pair[1]):
        if name in words:
            at = words.index(name)
            total += (_integer(words[:at]) if at else 1) * size
            words = words[at + 1 :]
            if words and words[0] == "and":
                words = words[1:]
            if not words:
                return total
    if words[0] in ("hundred", "thousand", "million", "billion"):
        words = ["one", *words]
    try:
        return total + int(text2num(" ".join(words), "en"))
    except ValueError:
        # Years: "nineteen eighty-four".
        for at in (1, 2):
            try:
                century = text2num(" ".join(words[:at]), "en")
                rest = text2num(" ".join(words[at:]), "en")
            except ValueError:
                continue
            if 10 <= century < 100 and 10 <= rest < 100 and at < len(words):
                return int(century * 100 + rest)
        raise


def _plain_value(words: list[str]) -> Fraction:
    if words[-1] == "dozen":
        return 12 * (_plain_value(words[:-1]) if words[:-1] not in ([], ["a"]) else Fraction(1))
    if words[-1] in _DENOMINATORS:
        size = _DENOMINATORS[words[-1]]
        head = words[:-1]
        if not head or head in (["a"], ["an"], ["one"]):
            return Fraction(1, size)
        if "and" in head:
            at = len(head) - 1 - head[::-1].index("and")
            top = head[at + 1 :]
            part = Fraction(_integer(top) if top else 1, size)
            if part < 1:
                return _integer(head[:at]) + part
        return Fraction(_integer(head), size)
    return Fraction(_integer(words))


def parse_words(run: str) -> Fraction | None:
    """Value of a run of number words; None if the run is not one number."""
    words = re.findall(r"[a-z]+", run.lower())
    while words and words[-1] in ("point", "and", "a", "an"):
        words.pop()
    if not words or len(words) > _MAX_WORDS:
        return None
    multiple = 1
    try:
        if len(words) > 1 and words[0] == "half" and words[-1] in _MULTIPLES:
            multiple, rest = _MULTIPLES[words[-1]], words[1:-1]
            return Fraction(multiple, 2) if rest in ([], ["a"]) else None
        while (
            len(words) > 1
            and words[-1] in _MULTIPLES
            and ("point" in words or any(word in _DENOMINATORS for word in words))
        ):
            multiple *= _MULTIPLES[words.pop()]
        if "point" in words:
            at = words.index("point")
            places = [_SMALL.get(word) for word in words[at + 1 :]]
            whole = _integer(words[:at]) if at else 0
            if not places or None in places:
                return (
                    multiple * (whole + Fraction(_tens(words[at + 1 :]), 100)) if places else None
                )
            digits = "".join(map(str, places))
            return multiple * (whole + Fraction(int(digits), 10 ** len(digits)))
        return multiple * _plain_value(words)
    except ValueError:
        return None


def _tens(words: list[str]) -> int:
    """ "point twenty-five" reads .25; only two-digit numbers are read so."""
    value = _integer(words)
    if not 10 <= value < 100:
        raise ValueError("not two digits")
    return value


def iter_word_runs(text: str) -> Iterator[tuple[int, int]]:
    """Spans of number words in text, pronouns ("no one", "one of them") left out."""
    lower = text.lower()
    if not any(stem in lower for stem in _STEMS):
        return
    for match in _RUN.finditer(text):
        if match.group().lower() == "one" and (
            _PRONOUN_BEFORE.search(text, max(0, match.start() - 10), match.start())
            or _PRONOUN_AFTER.match(text, match.end())
        ):
            continue
        yield match.span()
