"""The metrics that a task's ``metric_list`` can name: one decorated function each."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lmrel_tasks.metrics.item import Item


class ItemValue(float):
    """An item's own number, with whatever the aggregation needs besides.

    Shown as a number in the samples file; travels between processes with its ``data``.
    """

    __slots__ = ("data",)

    data: Any

    def __new__(cls, value: float, data: Any = None) -> ItemValue:
        self = super().__new__(cls, value)
        self.data = data
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemValue, (float(self), self.data)


PerItem = Callable[..., "float | None"]
Aggregate = Callable[..., float]
StandardError = Callable[..., "float | None"]
Check = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Metric:
    """A metric of the plugin.

    Attributes:
        name: what ``metric_list`` calls it.
        per_item: ``Item -> float | None``; None means that this item cannot tell.
        aggregate: values of the items -> the reported number.
        standard_error: values of the items -> its standard error over items, or None.
        higher_is_better: direction of the metric.
        needs: what must have been captured: ``"embeddings"``, ``"logprobs"``, ``"labels"``,
            ``"repeats"`` (two runs or more), ``"conditions"`` (two or more).
        per_condition: True if the metric is also reported for every condition by itself.
        check: looks at the YAML arguments before anything is sampled; raises ValueError.
        all_runs: True if the metric speaks of the most frequent answer and takes every run of an
            item that a stopping rule ended. Means over runs would be biased by such an end, which
            comes when the leader leads; the other metrics see the runs of the first round, whose
            number depends on no answer.
    """

    name: str
    per_item: PerItem
    aggregate: Aggregate
    standard_error: StandardError
    higher_is_better: bool
    needs: frozenset[str] = frozenset()
    per_condition: bool = False
    check: Check | None = None
    all_runs: bool = False

    def bind(self, arguments: Mapping[str, Any]) -> Metric:
        """The metric with its YAML arguments filled in.

        Raises:
            ValueError: if an argument is unknown; the message lists the known ones.
        """
        if not arguments:
            return self
        known: set[str] = set()
        bound: dict[str, Any] = {}
        for part in ("per_item", "aggregate", "standard_error"):
            function = getattr(self, part)
            accepted = _options(function)
            known |= accepted
            chosen = {name: arguments[name] for name in accepted if name in arguments}
            bound[part] = partial(function, **chosen) if chosen else function
        unknown = sorted(set(arguments) - known)
        if unknown:
            takes = f"takes {', '.join(sorted(known))}" if known else "takes no arguments"
            raise ValueError(f"metric {self.name}: unknown argument {unknown[0]!r}; it {takes}")
        if self.check is not None:
            try:
                self.check(arguments)
            except (TypeError, ValueError) as error:
                raise ValueError(f"metric {self.name}: {error}") from None
        fixed = {name: getattr(self, name) for name in ("name", "higher_is_better", "needs")}
        flags = {name: getattr(self, name) for name in ("per_condition", "all_runs")}
        return Metric(**bound, **fixed, **flags)


METRICS: dict[str, Metric] = {}


def present(values: Iterable[Any]) -> list[Any]:
    """The values that are there: neither None nor NaN."""
    return [value for value in values if value is not None and not math.isnan(value)]


def mean(values: Sequence[Any]) -> float:
    """Mean over the items that have a value; NaN without any."""
    numbers = present(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def mean_stderr(values: Sequence[Any]) -> float | None:
    """Standard error of `mean` over items: SD / sqrt(n), with n - 1 in the SD."""
    numbers = present(values)
    if len(numbers) < 2:
        return None
    return float(np.std(numbers, ddof=1) / math.sqrt(len(numbers)))


def jackknife_stderr(values: Sequence[Any], aggregate: Aggregate) -> float | None:
    """Delete-one-item standard error of any smooth aggregation.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), formula 11.5.
    """
    n = len(values)
    if n < 2:
        return None
    left_out = [aggregate([*values[:i], *values[i + 1 :]]) for i in range(n)]
    numbers = np.asarray(left_out, dtype=np.float64)
    if not np.isfinite(numbers).all():
        return None
    return float(math.sqrt((n - 1) / n * np.square(numbers - numbers.mean()).sum()))


def metric(
    *,
    higher_is_better: bool = True,
    needs: Iterable[str] = (),
    per_condition: bool = False,
    aggregate: Aggregate = mean,
    standard_error: StandardError | None = None,
    name: str | None = None,
    check: Check | None = None,
    all_runs: bool = False,
) -> Callable[[PerItem], PerItem]:
    """Register a per-item function as a metric.

    Args:
        higher_is_better: direction.
        needs: see `Metric`.
        per_condition: see `Metric`.
        aggregate: reduces the items' values; the mean over items by default.
        standard_error: its standard error. By default SD/sqrt(n) for the mean, and the
            delete-one-item jackknife for any other aggregation.
        name: the metric's name; the function's own by default.
        check, all_runs: see `Metric`.

    Raises:
        ValueError: if the name is taken.
    """
    if standard_error is None:
        standard_error = (
            mean_stderr if aggregate is mean else partial(jackknife_stderr, aggregate=aggregate)
        )

    def register(function: PerItem) -> PerItem:
        key = name or function.__name__
        if key in METRICS:
            raise ValueError(f"metric {key} is registered twice")
        METRICS[key] = Metric(
            key, function, aggregate, standard_error, higher_is_better,
            frozenset(needs), per_condition, check, all_runs,
        )  # fmt: skip
        return function

    return register


def get_metric(name: str) -> Metric:
    """The registered metric of that name.

    Raises:
        KeyError: if there is none; the message names the closest ones.
    """
    if name in METRICS:
        return METRICS[name]
    close = difflib.get_close_matches(name, METRICS, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(METRICS)}"
    raise KeyError(f"no metric is called {name!r}; {hint}")


def _options(function: Callable[..., Any]) -> set[str]:
    fixed = function.keywords if isinstance(function, partial) else {}
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {
        p.name
        for p in parameters
        if p.name not in fixed and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    }


def takes(bound: Metric, argument: str) -> bool:
    """Whether a YAML argument of the metric is still open."""
    parts = (bound.per_item, bound.aggregate, bound.standard_error)
    return any(argument in _options(part) for part in parts)


def of_item(function: Callable[[Item], Any]) -> PerItem:
    """Adapt a function that returns NaN for "cannot tell" to one that returns None."""

    def per_item(item: Item) -> float | None:
        value = function(item)
        return None if value is None or math.isnan(value) else float(value)

    return per_item
