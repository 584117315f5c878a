"""Messages about a name that is not there: what it might have been meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# More names than this do not help to find the one that was meant.
SHOWN = 20


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean a or b?``, or nothing if no known name looks like it."""
    close = difflib.get_close_matches(name, list(dict.fromkeys(known)), n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def listed(known: Iterable[str]) -> str:
    """The names behind commas, the first `SHOWN` of them."""
    names = list(dict.fromkeys(known))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
