"""A document as one condition asks it: other fields, the same item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Variant(dict[str, Any]):
    """A document of which a condition changes something.

    Equal to the original, as it is the same item: the harness compares documents to keep the
    asked one out of its own few-shot examples.

    Attributes:
        original: the document as it is in the data.
    """

    original: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        return (other.original if isinstance(other, Variant) else other) == self.original

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def original(doc: Any) -> Any:
    """The document as it is in the data."""
    return doc.original if isinstance(doc, Variant) else doc


def with_field(doc: Any, field: str, value: Any) -> Variant:
    """The document with one field replaced; what it was before stays known."""
    changed = doc if isinstance(doc, Variant) else Variant(doc)
    if changed is not doc:
        changed.original = doc
    changed[field] = value
    return changed
