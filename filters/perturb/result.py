"""What a perturbation returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Perturbed:
    """A perturbed text.

    Attributes:
        text: the text after the perturbation; the input itself when nothing applied.
        direction: sign of the change, for regressions on the signed direction. For gender +1 is
            male to female, -1 female to male; for age the sign of the shift; 0 is mixed, neutral
            or not applicable.
        edits: number of places changed.
    """

    text: str
    direction: int
    edits: int

    @property
    def applicable(self) -> bool:
        """Whether the perturbation found anything to change."""
        return self.edits > 0
