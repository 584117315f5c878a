"""What importing the plugin adds to the harness: one request type, filters and metric names."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import lm_eval.evaluator_utils as evaluator_utils
from lm_eval.api.model import LM
from lm_eval.api.registry import filter_registry, register_filter

from lmrel_tasks import embedder, measures
from lmrel_tasks.filters.answer import AnswerFilter
from lmrel_tasks.filters.behaviour import BehaviourFilter
from lmrel_tasks.filters.clusters import ClusterFilter, Match
from lmrel_tasks.filters.embed import EmbedFilter

log = logging.getLogger(__name__)


class Embed(EmbedFilter):
    """The ``embed`` filter with sentence-transformers behind it."""

    encoder = staticmethod(embedder.encoder)


class Cluster(ClusterFilter):
    """The ``cluster`` filter with an embedder and judges behind it."""

    encoder = staticmethod(embedder.encoder)

    @staticmethod
    def matcher(judge: str, model: str | None) -> Match:
        """The judge's comparison of answers; its replies are kept in the store, if there is one."""
        from lmrel_tasks.judge import open_judge
        from lmrel_tasks.settings import STORE_VARIABLE

        return open_judge(judge, model, store=os.environ.get(STORE_VARIABLE)).matches


class Aggregation:
    """An aggregation that brings its own standard error to the harness's Stderr column."""

    def __init__(self, metric: measures.Metric) -> None:
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


def install() -> None:
    """Add the plugin to the harness of this process. Doing it again changes nothing."""
    from lmrel_tasks.sampling.collect import sample_until

    if getattr(LM, "sample_until", None) is not sample_until:
        setattr(LM, "sample_until", sample_until)  # noqa: B010
    filters = {
        "answer": AnswerFilter,
        "behaviour": BehaviourFilter,
        "cluster": Cluster,
        "embed": Embed,
    }
    for name, filter_class in filters.items():
        if name not in filter_registry:
            register_filter(name)(filter_class)
    _give_aggregations_their_stderr()


def _give_aggregations_their_stderr() -> None:
    # The harness knows standard errors for a fixed list of functions only.
    stock = evaluator_utils.stderr_for_metric
    if getattr(stock, "asks_aggregation", False):
        return

    def stderr_for_metric(metric: Any, bootstrap_iters: int) -> Callable[..., Any] | None:
        if isinstance(metric, Aggregation):
            return metric.stderr if bootstrap_iters > 0 else None
        return stock(metric=metric, bootstrap_iters=bootstrap_iters)

    stderr_for_metric.asks_aggregation = True  # type: ignore[attr-defined]
    evaluator_utils.stderr_for_metric = stderr_for_metric
