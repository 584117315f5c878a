"""What importing the plugin adds to the harness: one request type, filters and metric names."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import lm_eval.evaluator_utils as evaluator_utils
from lm_eval.api.group import Group
from lm_eval.api.model import LM
from lm_eval.api.registry import filter_registry, register_filter

from lmrel_tasks import embedder, harness_metrics
from lmrel_tasks.filters.answer import AnswerFilter
from lmrel_tasks.filters.behaviour import BehaviourFilter
from lmrel_tasks.filters.clusters import ClusterFilter, Match
from lmrel_tasks.filters.embed import EmbedFilter
from lmrel_tasks.filters.token_match import TokenMatchFilter

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


class TokenMatch(TokenMatchFilter):
    """The ``token_match`` filter with the model's tokenizer and an embedder behind it."""

    @staticmethod
    def tokenize_with(tokenizer: str | None) -> Any:
        from lmrel_tasks.token_ids import tokens_of

        return tokens_of({}, tokenizer).ids

    @staticmethod
    def cosine() -> Any:
        from lmrel_tasks.paraphrasing import embedding_cosine

        return embedding_cosine()


def install() -> None:
    """Add the plugin to the harness of this process. Doing it again changes nothing."""
    from lmrel_tasks.sampling.collect import sample_until

    harness_metrics.register()
    if getattr(LM, "sample_until", None) is not sample_until:
        setattr(LM, "sample_until", sample_until)  # noqa: B010
    filters = {
        "answer": AnswerFilter,
        "behaviour": BehaviourFilter,
        "cluster": Cluster,
        "embed": Embed,
        "token_match": TokenMatch,
    }
    for name, filter_class in filters.items():
        if name not in filter_registry:
            register_filter(name)(filter_class)
    _give_aggregations_their_stderr()
    _leave_undefined_values_out_of_groups()


def _give_aggregations_their_stderr() -> None:
    # The harness knows standard errors for a fixed list of functions only.
    stock = evaluator_utils.stderr_for_metric
    if getattr(stock, "asks_aggregation", False):
        return

    def stderr_for_metric(metric: Any, bootstrap_iters: int) -> Callable[..., Any] | None:
        if isinstance(metric, harness_metrics.Aggregation):
            return metric.stderr if bootstrap_iters > 0 else None
        return stock(metric=metric, bootstrap_iters=bootstrap_iters)

    stderr_for_metric.asks_aggregation = True  # type: ignore[attr-defined]
    evaluator_utils.stderr_for_metric = stderr_for_metric


def _leave_undefined_values_out_of_groups() -> None:
    # A group averages its tasks' values, and would fail on a task whose value is undefined.
    stock = Group.aggregate
    if getattr(stock, "leaves_out_undefined", False):
        return

    def aggregate(self: Group, task_metrics: Mapping[str, Mapping[str, Any]]) -> Any:
        defined = {
            task: {key: value for key, value in row.items() if value != "N/A" or "_stderr," in key}
            for task, row in task_metrics.items()
        }
        return stock(self, defined)  # type: ignore[arg-type]

    aggregate.leaves_out_undefined = True  # type: ignore[attr-defined]
    Group.aggregate = aggregate  # type: ignore[assignment, method-assign]
