"""The metrics for people outside the harness, as modules of Hugging Face ``evaluate``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import evaluate
import numpy as np
from datasets import Features, Value
from datasets import Sequence as Column

from lmrel_tasks.filters.answer import AnswerFilter
from lmrel_tasks.labels import acceptable
from lmrel_tasks.measures import condition_of, get_metric
from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.metrics.registry import Metric
from lmrel_tasks.run import Capture, Run

ROLES = ("original", "targeted", "benign", "rerun", "fixed_phrase")

CITATION = """\
@software{lmrel,
  title = {lmrel: repeatability, baseline-adjusted bias and certified reliability of language models},
  license = {MIT}
}
"""  # noqa: E501

_TEXTS = """
Args:
    predictions (list of list of str): per item, the texts of its runs; or per item and condition,
        the texts of its runs.
    references (list of str or of list of str, optional): per item, the acceptable answers; needed
        by metrics of correctness.
    kind (str, optional): kind of canonical answer: numeric, mcq, text, code, label, brackets,
        diagnosis. Without it, stripped texts are compared.
    choices (list of str, optional): answer options, for mcq and label.
    embedder (str, optional): sentence-transformers model for the semantic metrics.
    Further arguments are those of the metric.
Returns:
    dict: the metric's name -> its value (NaN where it is undefined), the name with "_stderr" -> its
    standard error over items (None where there is none).
"""
_CERTAINTIES = """
Args:
    predictions (list of list of float): per item, the certainty of each run, 1 - H/log2 k averaged
        over its tokens; or per item and condition, that of each run.
Returns:
    dict: the metric's name -> its value, the name with "_stderr" -> its standard error over items.
"""
_PROBABILITIES = """
Args:
    predictions (list of list of list of float): per item and role, the probability of each answer
        option; NaN throughout where there is no answer.
    roles (list of str): the roles in that order: original, targeted, and the baselines benign,
        rerun, fixed_phrase.
    directions (list of float, optional): per item, the signed direction of the targeted edit.
    Further arguments are those of the metric.
Returns:
    dict: the metric's name -> its value, the name with "_stderr" -> its standard error over items.
"""


def evaluate_module(name: str) -> RepeatedRuns:
    """The module of a metric, as ``evaluate.load`` gives it.

    Raises:
        KeyError: if no metric has that name; the message names the closest.
    """
    return RepeatedRuns(config_name=name)


class RepeatedRuns(evaluate.Metric):
    """A metric of repeated runs; ``config_name`` says which."""

    def _info(self) -> evaluate.MetricInfo:
        metric = self._metric()
        text = Value("string")
        if metric.needs & {"targeted"}:
            inputs, shapes = _PROBABILITIES, [Column(Column(Value("float64")))]
        elif "logprobs" in metric.needs:
            value = Value("float64")
            inputs, shapes = _CERTAINTIES, [Column(value), Column(Column(value))]
        else:
            inputs, shapes = _TEXTS, [Column(text), Column(Column(text))]
        if "conditions" in metric.needs:
            shapes = shapes[1:]
        return evaluate.MetricInfo(
            description=(metric.per_item.__doc__ or metric.name).strip(),
            citation=CITATION,
            inputs_description=inputs,
            features=[
                Features({"predictions": shape, "references": Column(text)}) for shape in shapes
            ],
        )

    def _metric(self) -> Metric:
        return get_metric(self.config_name)

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> Any:
        """Compute the metric."""
        if predictions is None:  # from what add() and add_batch() have gathered
            return super().compute(**kwargs)
        labelled = references is not None
        if not labelled:
            references = [[] for _ in predictions]
        if len(references) != len(predictions):
            raise ValueError(
                f"metric {self.config_name}: {len(predictions)} predictions but "
                f"{len(references)} references; give one entry per item"
            )
        listed = [
            [str(one) for one in entry] if isinstance(entry, (list, tuple)) else [str(entry)]
            for entry in references
        ]
        return super().compute(
            predictions=predictions, references=listed, labelled=labelled, **kwargs
        )

    def _compute(
        self,
        predictions: Sequence[Any],
        references: Sequence[Sequence[str]],
        labelled: bool = True,
        kind: str | None = None,
        choices: Sequence[str] | None = None,
        embedder: str | None = None,
        roles: Sequence[str] | None = None,
        directions: Sequence[float] | None = None,
        **arguments: Any,
    ) -> dict[str, float | None]:
        metric = self._metric()
        bound = metric.bind(arguments)
        if "labels" in metric.needs and not labelled:
            raise ValueError(f"metric {metric.name} needs references: the acceptable answers")
        if "targeted" in metric.needs:
            items = _with_roles(metric.name, predictions, roles, directions)
        else:
            cells = [_nested(one) for one in predictions]
            if "logprobs" in metric.needs:
                runs = [[[_certain(v) for v in cell] for cell in item] for item in cells]
            else:
                runs = [[[Run(text) for text in cell] for cell in item] for item in cells]
                if kind is not None:
                    answers = AnswerFilter(kind, choices)
                    runs = [answers.apply(item, [{}] * len(item)) for item in runs]
                if "embeddings" in metric.needs:
                    runs = _embedded(runs, embedder)
            items = [
                Item(
                    key=str(number),
                    conditions=tuple(condition_of(str(at), cell) for at, cell in enumerate(item)),
                    labels=(acceptable(list(labels), kind, choices) or ()) if labelled else (),
                    has_label=labelled,
                )
                for number, (item, labels) in enumerate(zip(runs, references, strict=True))
            ]
        values = [bound.per_item(item) for item in items]
        error = bound.standard_error(values)
        return {metric.name: float(bound.aggregate(values)), f"{metric.name}_stderr": error}


def _nested(item: Sequence[Any]) -> list[list[Any]]:
    """Runs per condition; runs of a single condition become its only one."""
    one_more = bool(item) and isinstance(item[0], (list, tuple, np.ndarray))
    return [list(cell) for cell in item] if one_more else [list(item)]


def _certain(value: float) -> Run:
    return Run("", Capture(certainty=None if math.isnan(value) else float(value)))


def _embedded(runs: list[list[list[Run]]], model: str | None) -> list[list[list[Run]]]:
    from lmrel_tasks.plugin import Embed

    flat = [cell for item in runs for cell in item]
    found = iter(Embed(model).apply(flat, [{}] * len(flat)))
    return [[next(found) for _ in item] for item in runs]


def _with_roles(
    name: str,
    predictions: Sequence[Any],
    roles: Sequence[str] | None,
    directions: Sequence[float] | None,
) -> list[Item]:
    if not roles or any(role not in ROLES for role in roles):
        raise ValueError(
            f"metric {name}: say which answers are which: roles=[...] of {', '.join(ROLES)}"
        )
    if directions is not None and len(directions) != len(predictions):
        raise ValueError(
            f"metric {name}: {len(directions)} directions for {len(predictions)} items"
        )
    items = []
    for number, rows in enumerate(predictions):
        if len(rows) != len(roles):
            raise ValueError(
                f"metric {name}, item {number}: {len(rows)} answers for {len(roles)} roles"
            )
        cells = []
        for at, (role, row) in enumerate(zip(roles, rows, strict=True)):
            info: dict[str, Any] = {"role": role}
            if role in ROLES[2:]:
                info["of"] = "targeted"
            if role == "targeted" and directions is not None:
                info["direction"] = float(directions[number])
            cells.append(_cell(f"{role}" if role in ROLES[:2] else f"{role}{at}", row, info))
        options = tuple(str(at) for at in range(len(rows[0])))
        items.append(Item(key=str(number), conditions=tuple(cells), options=options))
    return items


def _cell(name: str, row: Sequence[float], info: Mapping[str, Any]) -> Condition:
    probabilities = np.asarray(row, dtype=np.float64)
    known = None if np.isnan(probabilities).any() else probabilities
    return Condition(name, probabilities=known, info=info)
