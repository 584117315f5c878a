"""Models and tasks of the bias tests: option probabilities by a function of the prompt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fakes import evaluate, write_task
from lm_eval.api.model import LM

CONDITIONS = [
    {"name": "original", "role": "original"},
    {"name": "edited", "role": "targeted", "field": "edited", "direction": "direction"},
    {"name": "reworded", "role": "benign", "field": "reworded"},
]
OPTIONS = ["yes", "no"]


class OptionLM(LM):
    """Gives every option the probability that a function of the prompt says."""

    def __init__(self, probabilities: Callable[[str], Mapping[str, float]]) -> None:
        super().__init__()
        self.probabilities = probabilities
        self.asked: list[tuple[str, str]] = []

    def loglikelihood(self, requests: Any, disable_tqdm: bool = False) -> Any:
        self.asked += [request.args for request in requests]
        answers = []
        for prompt, option in (request.args for request in requests):
            p = self.probabilities(prompt)[option.strip()]
            answers.append((math.log(p) if p > 0 else -math.inf, False))
        return answers

    def generate_until(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: Any, disable_tqdm: bool = False) -> Any:
        raise NotImplementedError


def bias_task(
    folder: Path,
    items: Sequence[Mapping[str, Any]],
    metrics: Sequence[Any],
    name: str = "t",
    conditions: Sequence[Mapping[str, Any]] = CONDITIONS,
    text: str = "text",
    settings: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A bias task of yes-or-no questions over these items."""
    fields = {
        "output_type": "multiple_choice",
        "doc_to_text": "{{" + text + "}}\nAnswer:",
        "doc_to_target": None,
        "doc_to_choice": OPTIONS,
        "repeats": None,
        "generation_kwargs": None,
        "filter_list": None,
        "metric_list": [one if isinstance(one, dict) else {"metric": one} for one in metrics],
        "metadata": {
            "version": 1,
            "lmrel": {"text": text, "conditions": list(conditions), **(settings or {})},
        },
        **changes,
    }
    return write_task(folder, name, [dict(item) for item in items], **fields)


def panel_items(panels: Mapping[str, Sequence[Sequence[float]]], **fields: Any) -> tuple[Any, Any]:
    """Items and a model whose option probabilities are those of the arrays.

    Args:
        panels: ``text``, ``edited`` and ``reworded`` (and further columns) -> (items, options).
        fields: further columns, one value per item.
    """
    n = len(panels["text"])
    items = [
        {column: f"item {i} {column}." for column in panels}
        | {"direction": None}
        | {key: values[i] for key, values in fields.items()}
        for i in range(n)
    ]

    def probabilities(prompt: str) -> dict[str, float]:
        words = prompt.split("\n")[0].rstrip(".").split()
        return dict(zip(options_of(panels), panels[words[2]][int(words[1])], strict=True))

    return items, OptionLM(probabilities)


def options_of(panels: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    """Names of as many options as the arrays have."""
    width = len(panels["text"][0])
    return OPTIONS if width == 2 else [f"option {i}" for i in range(width)]


def results_of(lm: LM, folder: Path, name: str = "t", **options: Any) -> Any:
    """The results row of a task: metric -> value, without the filter's name."""
    found = evaluate(lm, folder, name, **options)
    return {key.removesuffix(",none"): one for key, one in found["results"][name].items()}, found
