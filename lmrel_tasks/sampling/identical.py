"""A sign of sampling that does not sample: every run of every item has the same text."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST_CELLS = 5
# A one-word answer may well be the same every time; a sentence hardly.
FEWEST_CHARACTERS = 20


def identical_texts_warning(
    texts: Sequence[Sequence[str]], temperature: float, fewest_cells: int = FEWEST_CELLS
) -> str | None:
    """A warning when sampling at a temperature above 0 gave the same text every time.

    Args:
        texts: the runs' texts, one sequence per cell; cells with fewer than two are left out.
        temperature: of the sampling; at 0 identical texts are as they should be.
        fewest_cells: say nothing about fewer cells than this.

    Returns:
        The warning, which names the likely causes, or None. Given when the runs agree in every
        cell although some text is longer than a word or two.
    """
    repeated = [cell for cell in texts if len(cell) > 1]
    if temperature <= 0 or len(repeated) < fewest_cells:
        return None
    if any(len(set(cell)) > 1 for cell in repeated):
        return None
    if not any(len(cell[0]) >= FEWEST_CHARACTERS for cell in repeated):
        return None
    return (
        f"all runs of all {len(repeated)} items have identical texts at temperature "
        f"{temperature:g}. Likely causes: the server uses one seed for every request or caches "
        "answers, a proxy or cache in between repeats them, or it ignores the temperature. "
        "Repeatability measured on these runs says nothing about the model."
    )
