"""How ``--limit`` is read: a number of items, or, as the harness takes it, a share of them."""

from __future__ import annotations

import argparse


def items_limit(text: str) -> int:
    """A whole number of items.

    Raises:
        argparse.ArgumentTypeError: for anything else, and below 1.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of items; write 1 or more")
    return number


def harness_limit(text: str) -> float:
    """A whole number of items, or the share of them between 0 and 1.

    Raises:
        argparse.ArgumentTypeError: for anything else.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (0 < number < 1 or (number >= 1 and number.is_integer())):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no limit; write a number of items, 1 or more, or a share of them "
            "between 0 and 1"
        )
    return number
