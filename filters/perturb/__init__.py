"""Document perturbations: pure functions from a text to a perturbed text and its direction.

>>> get_perturbation("age_plus", n=2)("A 45-year-old man.").text
'A 47-year-old man.'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from lmrel_tasks.filters.perturb.age import age_plus
from lmrel_tasks.filters.perturb.gender import (
    gender_bound_terms,
    gender_remove,
    gender_swap,
    perturb_gender_remove,
    perturb_gender_swap,
)
from lmrel_tasks.filters.perturb.result import Perturbed
from lmrel_tasks.filters.perturb.slots import fill_slots, slot_fill, slot_grid

__all__ = [
    "PERTURBATIONS",
    "Perturbed",
    "age_plus",
    "fill_slots",
    "gender_bound_terms",
    "gender_remove",
    "gender_swap",
    "get_perturbation",
    "perturb_gender_remove",
    "perturb_gender_swap",
    "slot_fill",
    "slot_grid",
]

PERTURBATIONS: dict[str, Callable[..., Perturbed]] = {
    "gender_swap": perturb_gender_swap,
    "gender_remove": perturb_gender_remove,
    "age_plus": age_plus,
    "slot_fill": slot_fill,
}
"""Perturbations by name; each takes the text and keyword arguments of its own."""


def get_perturbation(name: str, **kwargs: Any) -> Callable[[str], Perturbed]:
    """The perturbation called ``name`` with its arguments set: a function of the text alone.

    Raises:
        ValueError: no such perturbation, or an argument it does not take.
    """
    if name not in PERTURBATIONS:
        known = ", ".join(sorted(PERTURBATIONS))
        raise ValueError(f"unknown perturbation {name!r}; known: {known}")
    function = PERTURBATIONS[name]
    allowed = list(inspect.signature(function).parameters)[1:]
    for argument in kwargs:
        if argument not in allowed:
            takes = ", ".join(allowed) or "none"
            raise ValueError(f"perturbation {name!r} takes no {argument!r}; arguments: {takes}")
    return partial(function, **kwargs)
