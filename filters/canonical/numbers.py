"""One number written in text, as an exact canonical string.

Canonical form: plain decimal without leading or trailing zeros, never rounded; a fraction whose
decimal expansion does not end is a reduced fraction ("1/3", "-4/3"), which therefore differs
from "0.333"; a number with more than `MAX_ZEROS` zeros of padding keeps an exponent
("1e999999999"). No float is involved.
"""

from __future__ import annotations

import re
from fractions import Fraction

MAX_ZEROS = 1000
# Arithmetic on fractions is quadratic in the digits: longer operands are no answer.
MAX_DIGITS = 1000
MAX_EXPONENT_DIGITS = 18


def decimal_text(digits: str, exponent: int = 0, negative: bool = False) -> str:
    """Canonical text of ±int(digits) * 10**exponent, by string operations only."""
    digits = digits.lstrip("0")
    if not digits:
        return "0"
    significant = digits.rstrip("0")
    exponent += len(digits) - len(significant)
    point = len(significant) + exponent
    if exponent >= 0:
        text = (
            significant + "0" * exponent if exponent <= MAX_ZEROS else f"{significant}e{exponent}"
        )
    elif point > 0:
        text = f"{significant[:point]}.{significant[point:]}"
    elif -point <= MAX_ZEROS:
        text = f"0.{'0' * -point}{significant}"
    else:
        text = f"{significant}e{exponent}"
    return f"-{text}" if negative else text


def fraction_text(value: Fraction) -> str:
    """Canonical text of a fraction: a terminating decimal, else numerator/denominator."""
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest //= 2
        twos += 1
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    scaled = abs(value.numerator) * 2 ** (places - twos) * 5 ** (places - fives)
    return decimal_text(_digits(scaled), -places, value < 0)


def _digits(value: int) -> str:
    """Decimal digits of a non-negative integer, above the interpreter's own limit too."""
    if value.bit_length() < 10_000:
        return str(value)
    half = value.bit_length() * 301 // 2000
    high, low = divmod(value, 10**half)
    return _digits(high) + _digits(low).zfill(half)


def _grouped(parts: list[str]) -> bool:
    """True if digit groups are thousands (3-3-3) or Indian (2-2-3), the first one not zero."""
    first = parts[0]
    if not 1 <= len(first) <= 3 or first[0] == "0" or len(parts[-1]) != 3:
        return False
    middle = {len(part) for part in parts[1:-1]}
    return middle <= {3} or (middle == {2} and len(first) <= 2)


def split_digits(body: str) -> tuple[str, str] | None:
    """Integer and fractional digits of a number with separators; None if it is no one number.

    A single comma with three digits after it separates thousands, otherwise it is a decimal
    comma; a single point is always a decimal point.
    """
    if body.isdigit():
        return body, ""
    spaced = " " in body or "'" in body
    body = body.replace(" ", "").replace("'", "").replace("_", "")
    commas, points = body.count(","), body.count(".")
    if not commas and points <= 1:
        whole, _, part = body.partition(".")
        return whole, part
    if commas and points:
        decimal = "," if body.rfind(",") > body.rfind(".") else "."
        whole, _, part = body.rpartition(decimal)
        thousands = "." if decimal == "," else ","
        groups = whole.split(thousands)
        if decimal in whole or not _grouped(groups):
            return None
        return "".join(groups), part
    separator = "," if commas else "."
    groups = body.split(separator)
    if len(groups) == 2 and (spaced or not _grouped(groups)):
        return groups[0], groups[1]
    return ("".join(groups), "") if _grouped(groups) else None


# Digits with separators. Spaces and apostrophes need full groups of three; commas and points
# are judged by `split_digits`.
BODY = (
    r"(?:[1-9]\d{0,2}([ '])\d{3}(?:\1\d{3})*(?!\d)(?:[.,]\d+)?"
    r"|\d+(?:[.,_]\d+)*|(?<![\d.])\.\d+)"
)
_PLAIN = r"(?:\d+(?:[.,]\d+)*|\.\d+)"
_SCALES = {
    "hundred": 2,
    "thousand": 3,
    "lakh": 5,
    "lakhs": 5,
    "lac": 5,
    "lacs": 5,
    "million": 6,
    "mn": 6,
    "mln": 6,
    "mio": 6,
    "crore": 7,
    "crores": 7,
    "billion": 9,
    "bn": 9,
    "trillion": 12,
    "tn": 12,
    "quadrillion": 15,
    "quintillion": 18,
    "hundreds": 2,
    "thousands": 3,
    "millions": 6,
    "billions": 9,
    "trillions": 12,
}
_LETTER_SCALES = {"k": 3, "m": 6, "b": 9, "t": 12}
_PARTS = {
    "a half": Fraction(1, 2),
    "one half": Fraction(1, 2),
    "a quarter": Fraction(1, 4),
    "one quarter": Fraction(1, 4),
    "three quarters": Fraction(3, 4),
    "a third": Fraction(1, 3),
    "one third": Fraction(1, 3),
    "two thirds": Fraction(2, 3),
}
_MIXED = re.compile(r"(\d{1,1000})(?: and | )(\d{1,1000}) ?/ ?(\d{1,1000})(?![\d/])")
_EXPONENT = re.compile(
    r"(?:[eE]([+-]?\d+)(?![A-Za-z\d])"
    r"| ?(?:\*|[xX](?= ?10 ?(?:\^|\*\*))) ?10 ?(?:\^|\*\*) ?[({]{0,2} ?([+-]? ?\d+) ?[)}]{0,2})"
)
_POWER = re.compile(r" ?(?:\^|\*\*) ?[({]? ?([+-]?\d{1,6})(?!\.?\d) ?[)}]?")
_DENOMINATOR = re.compile(rf"(?: ?/ ?| out of )([+-]?)({_PLAIN})(?![\d/])")
_SCALE = re.compile(r" ?-?(" + "|".join(sorted(_SCALES, key=len, reverse=True)) + r")\b", re.I)
_DOZEN = re.compile(r" ?dozens?\b", re.I)
_LETTER_SCALE = re.compile(r"([kKMBTm])(?![A-Za-z\d/^])")
_PART = re.compile(r" and (" + "|".join(_PARTS) + r")\b", re.I)
_BODY = re.compile(BODY)


def read_number(text: str, start: int, negative: bool, currency: bool) -> tuple[str | None, int]:
    """The number whose digits begin at `start`, and where it ends.

    Parameters
    ----------
    text : tidied text in which LaTeX has been spelled plainly (`latex.plain`).
    negative : whether a sign stands in front.
    currency : whether a currency stands in front, so that "5M" is five million.

    Returns
    -------
    (canonical text, end). The text is '' for what is certainly no finite number (1/0) and None
    if the digits are no single number ("1,2,3").
    """
    mixed = _MIXED.match(text, start)
    if mixed:
        whole, top, bottom = (int(group) for group in mixed.groups())
        if bottom and top < bottom:
            value = whole + Fraction(top, bottom)
            return fraction_text(-value if negative else value), mixed.end()
    body = _BODY.match(text, start)
    if body is None:
        return None, start
    end = body.end()
    digits = split_digits(body.group())
    if digits is None:
        return None, end
    whole_digits, part_digits = digits
    significand = whole_digits + part_digits
    exponent = -len(part_digits)
    plain_end = end
    if end == len(text):
        return decimal_text(significand, exponent, negative), end

    power = _EXPONENT.match(text, end)
    if power:
        shift = (power.group(1) or power.group(2)).replace(" ", "")
        if len(shift) > MAX_EXPONENT_DIGITS:
            return "", power.end()
        exponent += int(shift)
        end = power.end()
    else:
        raised = _POWER.match(text, end)
        if raised:
            return _power(significand, exponent, int(raised.group(1)), negative), raised.end()
    while True:
        scale = _SCALE.match(text, end)
        if scale is None:
            break
        exponent += _SCALES[scale.group(1).lower()]
        end = scale.end()
    letter = _LETTER_SCALE.match(text, end) if end == plain_end else None
    if letter and (currency or letter.group() in "kK"):
        exponent += _LETTER_SCALES[letter.group().lower()]
        end = letter.end()

    dozen = _DOZEN.match(text, end)
    below = _DENOMINATOR.match(text, end)
    part = _PART.match(text, end)
    if not (dozen or below or part):
        return decimal_text(significand, exponent, negative), end
    if len(significand) > MAX_DIGITS or abs(exponent) > MAX_DIGITS:
        return "", end
    value = Fraction(int(significand or "0")) * Fraction(10) ** exponent
    if below:
        end = below.end()
        bottom_digits = split_digits(below.group(2))
        if bottom_digits is None:
            return None, end
        bottom_text = "".join(bottom_digits)
        if len(bottom_text) > MAX_DIGITS or not bottom_text.strip("0"):
            return "", end
        bottom_value = Fraction(int(bottom_text), 10 ** len(bottom_digits[1]))
        value /= -bottom_value if below.group(1) == "-" else bottom_value
    elif part:
        end = part.end()
        value += _PARTS[part.group(1).lower()]
    elif dozen:
        end = dozen.end()
        value *= 12
    return fraction_text(-value if negative else value), end


def _power(digits: str, exponent: int, power: int, negative: bool) -> str:
    """A number raised to an integer power, '' where the digits would not fit; -2^2 is -4."""
    stripped = digits.strip("0")
    if stripped == "1":
        shift = exponent + len(digits) - len(digits.rstrip("0"))
        return decimal_text("1", shift * power, negative)
    if not stripped:
        return "0" if power > 0 else ("" if power < 0 else "1")
    if (len(digits) + abs(exponent)) * abs(power) > MAX_DIGITS:
        return ""
    value = (Fraction(int(digits)) * Fraction(10) ** exponent) ** power
    return fraction_text(-value if negative else value)
