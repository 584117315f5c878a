"""Pure statistics: arrays in, numbers out."""

from __future__ import annotations

from typing import Any


def evaluate_module(name: str) -> Any:
    """A metric as a module of Hugging Face ``evaluate``.

    >>> evaluate_module("tar_raw").compute(predictions=[["a", "a"], ["a", "b"]])["tar_raw"]
    0.5

    Args:
        name: a metric that ``lmrel ls metrics`` lists.

    Raises:
        KeyError: if there is none of that name.
    """
    # Only this needs more than the statistics.
    from lmrel_tasks.evaluate_modules import evaluate_module as make

    return make(name)
