"""The answer options of a document in another order, its label with them.

A condition with ``option_order`` asks with permuted options; ``metadata.lmrel.option_fields`` names
the document's fields: ``{choices: FIELD, answer: FIELD}``. Prompts, filters and the harness's own
metrics see the rearranged document; letters that runs choose are put back into the letters of the
original, so that one answer has one name under all conditions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from lmrel_tasks.variants import Variant

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
REVERSED = "reversed"


class Rearranged(Variant):
    """A document with its options in another order.

    Attributes:
        order: the option at place i is the original's option ``order[i]``.
    """

    order: tuple[int, ...]

    def original_letter(self, answer: str) -> str:
        """The original's letter of the option that an answer names; no letter stays as it is."""
        at = LETTERS.find(answer) if len(answer) == 1 else -1
        return LETTERS[self.order[at]] if 0 <= at < len(self.order) else answer


def permutation(n: int, order: int | str, key: str) -> tuple[int, ...]:
    """The order of n options: ``reversed``, or drawn from a seed and the document's key."""
    places = list(range(n))
    if order == REVERSED:
        return tuple(reversed(places))
    random.Random(f"{order}:{key}").shuffle(places)
    return tuple(places)


def rearranged(
    doc: Mapping[str, Any], fields: Mapping[str, str], order: int | str, key: str
) -> Rearranged:
    """The document with permuted options and its label moved along.

    Args:
        doc: options as a list, as a mapping from letters to texts, or as lists ``text`` and
            ``label``; the label as a place (0, 1, ...), a letter, the text of an option, or a list
            of these.
        fields: names of the two fields, ``choices`` and ``answer``.
        order: see `permutation`.
        key: identity of the document.

    Raises:
        ValueError: if a field is missing or the label is none of the options.
    """
    for role in ("choices", "answer"):
        if fields[role] not in doc:
            raise ValueError(
                f"metadata.lmrel.option_fields.{role}: the document has no field "
                f"{fields[role]!r}; its fields: {', '.join(map(str, doc))}"
            )
    names, texts = _options(doc[fields["choices"]], fields["choices"])
    places = permutation(len(texts), order, key)
    moved = Rearranged(doc)
    moved.original, moved.order = doc, places
    moved[fields["choices"]] = _like(doc[fields["choices"]], names, [texts[at] for at in places])
    label = doc[fields["answer"]]
    one = lambda value: _moved(value, names, texts, places, fields["answer"])
    moved[fields["answer"]] = [one(x) for x in label] if isinstance(label, list) else one(label)
    return moved


def _options(choices: Any, field: str) -> tuple[list[str], list[str]]:
    """Names (letters) and texts of the options."""
    if isinstance(choices, Mapping) and isinstance(choices.get("text"), (list, tuple)):
        texts = [str(one) for one in choices["text"]]
        names = [str(one) for one in choices.get("label", LETTERS[: len(texts)])]
    elif isinstance(choices, Mapping):
        names, texts = [str(one) for one in choices], [str(one) for one in choices.values()]
    elif isinstance(choices, Sequence) and not isinstance(choices, str):
        texts = [str(one) for one in choices]
        names = list(LETTERS[: len(texts)])
    else:
        raise ValueError(f"field {field!r} holds no list or mapping of options: {choices!r:.80}")
    if not 2 <= len(texts) <= len(LETTERS):
        raise ValueError(f"field {field!r} holds {len(texts)} options; 2 to 26 can change places")
    return names, texts


def _like(choices: Any, names: Sequence[str], texts: list[str]) -> Any:
    if isinstance(choices, Mapping):
        if isinstance(choices.get("text"), (list, tuple)):
            return {**choices, "text": texts}
        return dict(zip(names, texts, strict=True))
    return texts


def _moved(
    value: Any, names: Sequence[str], texts: Sequence[str], places: Sequence[int], field: str
) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(texts):
        return places.index(value)
    if isinstance(value, str):
        if value.strip() in names:
            return names[places.index(list(names).index(value.strip()))]
        if value.strip() in (text.strip() for text in texts):
            return value
    raise ValueError(
        f"field {field!r}: {value!r:.80} is neither a place, nor a letter, nor the text of an "
        f"option ({', '.join(names)})"
    )
