"""Our metrics under the harness's own names, for tasks that do not use `RepeatedTask`.

A stock task with ``repeats`` and a filter that keeps a list of responses (``take_first_k``) can
name any metric that texts alone decide, such as ``answer_agreement``. Metrics that need captured
log-probabilities, embeddings or conditions say which class the task has to use. Newer harnesses
find these functions through entry points; here importing the plugin registers them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

# The harness's own metrics take their names first.
import lm_eval.api.metrics  # noqa: F401
from lm_eval.api.registry import (
    aggregation_registry,
    metric_registry,
    register_aggregation,
    register_metric,
)

from lmrel_tasks.measures import METRICS, Metric, condition_of
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.registry import mean
from lmrel_tasks.run import Run


class Aggregation:
    """An aggregation that brings its own standard error to the harness's Stderr column."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.__name__ = metric.name

    def __call__(self, values: Sequence[Any]) -> float | str:
        """The value; ``"N/A"`` where it is undefined, since JSON knows neither NaN nor infinity."""
        value = float(self.metric.aggregate(values))
        return value if math.isfinite(value) else "N/A"

    def stderr(self, values: Sequence[Any]) -> float | str:
        """Standard error over items; ``"N/A"``, as the harness writes it, where there is none."""
        error = self.metric.standard_error(values)
        return "N/A" if error is None or not math.isfinite(error) else float(error)


MEAN = "lmrel_mean"
CLASS_LINE = "class: !function lmrel_tasks.task.RepeatedTask"


def lmrel_mean(values: Sequence[Any]) -> float:
    """Mean over the items that have a value."""
    return mean(values)


def of_strings(metric: Metric) -> Callable[..., float]:
    """The metric as a harness metric function, ``(references, predictions) -> float``."""

    def compute(references: Sequence[Any], predictions: Sequence[Any], **arguments: Any) -> float:
        responses = predictions[0]
        runs = [Run(str(one)) for one in _as_list(responses)]
        labels = tuple(str(one).strip() for one in _as_list(references[0]))
        item = Item(key="", conditions=(condition_of("default", runs),), labels=labels)
        value = metric.bind(arguments).per_item(item)
        if value is None:
            raise ValueError(
                f"metric {metric.name} needs more than the texts of {len(runs)} response(s); put "
                f"`{CLASS_LINE}` into the task's YAML, with repeats >= 2 and the filters it needs"
            )
        # As it is: an aggregation may need what the value carries.
        return value

    compute.__name__ = metric.name
    compute.__doc__ = metric.per_item.__doc__
    return compute


def register() -> None:
    """Register every metric whose name the harness has not taken."""
    for name, aggregation in AGGREGATIONS.items():
        if name not in aggregation_registry:
            register_aggregation(name)(aggregation)
    for name, function in FUNCTIONS.items():
        if name not in metric_registry:
            register_metric(
                metric=name,
                higher_is_better=METRICS[name].higher_is_better,
                aggregation=name if name in AGGREGATIONS else MEAN,
            )(function)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


FUNCTIONS = {name: of_strings(metric) for name, metric in METRICS.items()}
AGGREGATIONS: dict[str, Callable[..., Any]] = {MEAN: lmrel_mean} | {
    name: Aggregation(metric) for name, metric in METRICS.items() if metric.aggregate is not mean
}
register()


def __getattr__(name: str) -> Callable[..., Any]:
    # What entry points name: harness_metrics:answer_agreement, harness_metrics:aggregate_icc
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name.removeprefix("aggregate_") in AGGREGATIONS:
        return AGGREGATIONS[name.removeprefix("aggregate_")]
    raise AttributeError(f"module {__name__} has no metric {name}")
