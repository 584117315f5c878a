"""The task class: any harness task, asked repeatedly, under one condition or several.

Used from YAML by ``class: !function lmrel_tasks.task.RepeatedTask``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from lm_eval.api.instance import Instance

from lmrel_tasks.filters.answer import as_run
from lmrel_tasks.measures import Metric, condition_of
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.option_order import Rearranged
from lmrel_tasks.plugin import install
from lmrel_tasks.request import SampleRequest, item_key
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.sample_row import RunsRecord, SampleRow
from lmrel_tasks.stock_scores import PerRun, RunAggregation, over_runs
from lmrel_tasks.task_requests import AskingTask
from lmrel_tasks.variants import original

install()

log = logging.getLogger(__name__)


class RepeatedTask(AskingTask):
    """A harness task whose items are asked ``repeats`` times under each condition.

    ``repeats``, ``generation_kwargs``, ``filter_list`` and ``metric_list`` mean what they mean in
    the harness. Plugin settings live under ``metadata.lmrel``; see `lmrel_tasks.settings`.

    Raises:
        ValueError, TypeError, KeyError: for settings that cannot work, naming task and field.
    """

    def __new__(cls, config: Mapping[str, Any] | None = None, **_: Any) -> RepeatedTask:
        """Tasks whose answers are read from option probabilities have a class of their own."""
        if cls is RepeatedTask and (config or {}).get("output_type") == "multiple_choice":
            from lmrel_tasks.option_task import OptionTask

            return super().__new__(OptionTask)
        return super().__new__(cls)

    def apply_filters(self) -> list[Instance] | None:
        """Run the filters over the runs that arrived, and find out what can be measured.

        Filters write on the runs. So every list of filters but the last works on copies.
        """
        requests = [one for one in self._instances or () if isinstance(one, SampleRequest)]
        for request in requests:
            request.set_missing_aside()
        for place, filters in enumerate(self._filters, start=1):
            arrived = [request.resps for request in requests]
            if place < len(self._filters):
                for request in requests:
                    request.resps = [run.derive() for run in request.resps]
            filters.apply(self._instances)
            for request, runs in zip(requests, arrived, strict=True):
                filtered = _with_captures(request.filtered_resps[filters.name], request)
                request.filtered_resps[filters.name] = _in_original_letters(filtered, request.doc)
                request.resps = runs
        self._warn_of_runs_without_answer(requests)
        self._find_available(requests)
        return None

    def _find_available(self, requests: Sequence[Instance]) -> None:
        """Which of our metrics have a value for at least one item, on any rank."""
        by_doc: dict[Any, list[Instance]] = {}
        for request in requests:
            by_doc.setdefault(request.doc_id, []).append(request)
        names = list(requests[0].filtered_resps) if requests else []
        found: set[str] = set()
        seen = _Seen()
        for cells in by_doc.values():
            for name in names:
                sought = [key for key in self.own if key not in found]
                if not sought:
                    break
                doc = original(cells[0].doc)
                item = self._item(doc, [cell.filtered_resps[name] for cell in cells])
                seen.add(item)
                found |= {key for key in sought if self._value(self.own[key], item) is not None}
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            gathered: list[Any] = [None] * torch.distributed.get_world_size()
            torch.distributed.all_gather_object(gathered, found)
            found = set().union(*gathered)
        left_out = [key for key in self.own if key not in found]
        if left_out:
            log.warning(
                "task %s: no value for %s, left out of the results%s",
                self.config.task,
                ", ".join(left_out),
                self._why(left_out, seen),
            )
        self._available = [key for key in self.own if key in found]

    def _why(self, left_out: Sequence[str], seen: _Seen) -> str:
        needs = {need for key in left_out for need in self.own[key].needs}
        empty = [one.name for one in self.conditions if one.name not in seen.texts]
        where = f" under {', '.join(empty)}" if len(self.conditions) > 1 else ""
        reasons = {
            "the model gives no token log-probabilities": "logprobs" in needs and not seen.captured,
            "no filter `embed`": "embeddings" in needs and not seen.embedded and not empty,
            f"every run is empty{where}": bool(empty) and self.OUTPUT_TYPE == "generate_until",
            "the documents carry no answer": "labels" in needs and not seen.labelled,
            "the task declares one condition only": "conditions" in needs
            and len(self.conditions) == 1,
            "no item has both original and targeted answers, and every baseline": "targeted"
            in needs,
        }
        given = [reason for reason, holds in reasons.items() if holds]
        return f" ({'; '.join(given)})" if given else ""

    def _warn_of_runs_without_answer(self, requests: Sequence[SampleRequest]) -> None:
        if self._answer is None:
            return
        cells: dict[tuple[str, int], list[Run]] = {}
        for request in requests:
            for name, runs in request.filtered_resps.items():
                cells.setdefault((name, request.idx), []).extend(_runs(runs))
        for (name, index), runs in cells.items():
            lost = [run for run in runs if run.answer == "" and not run.missing]
            if 2 * len(lost) > len(runs):
                log.warning(
                    "task %s, filter %s, condition %s: %d of %d runs hold no answer of kind %s; "
                    "they are wrong in acc and left out of agreement. One of them: %r",
                    self.config.task, name, self.conditions[index].name, len(lost), len(runs),
                    self._answer["kind"], str(lost[0])[:120],
                )  # fmt: skip

    def process_results(self, doc: Any, results: Sequence[Any]) -> dict[str, Any]:
        """Values of all metrics for one item.

        Args:
            doc: the document.
            results: per condition, the filtered runs: a list, or one string.
        """
        if "bypass" in self._metric_fn_list:
            return SampleRow({"bypass": None}, self._record(doc, results))
        item = self._item(doc, results)
        values: dict[str, Any] = self._stock_scores(doc, results) if self._stock_metrics else {}
        for key in getattr(self, "_available", self.own):
            values[key] = self._value(self.own[key], item)
        return SampleRow(values, self._record(doc, results), self._metric_names())

    def _metric_names(self) -> list[str]:
        """What the entries of ``metric_list`` call their metrics."""
        names = [one.get("metric") for one in self.config.metric_list or ()]
        return [name for name in names if isinstance(name, str)]

    def _value(self, metric: Metric, item: Item) -> float | None:
        """The item's value, from the runs that the metric may look at; see `Metric.all_runs`."""
        if metric.all_runs or self._first_round is None:
            return metric.per_item(item)
        return metric.per_item(item.first_runs(self._first_round))

    def _item(self, doc: Any, results: Sequence[Any]) -> Item:
        cells = [_runs(result) for result in results]
        labels = self._labels(doc, _kind(cells))
        return Item(
            key=item_key(doc),
            conditions=tuple(
                condition_of(
                    condition.name,
                    [run for run in runs if not run.missing],
                    missing=sum(run.missing for run in runs),
                    info=self.editor.info(doc, item_key(doc), condition.name),
                )
                for condition, runs in zip(self._asked(doc), cells, strict=True)
            ),
            labels=labels or (),
            has_label=labels is not None,
            fields=doc,
        )

    def _stock_scores(self, doc: Any, results: Sequence[Any]) -> dict[str, Any]:
        """The harness's own metrics: its score of each run, averaged over runs."""
        everything = self._metric_fn_list
        self._metric_fn_list = self._stock_metrics
        try:
            scores = [
                super(RepeatedTask, self).process_results(asked, [self._stock_input(run)])
                for asked, result in zip(
                    (self._arranged(doc, condition) for condition in self._asked(doc)),
                    results,
                    strict=True,
                )
                for run in _runs(result)[: self._first_round]
                if not run.missing
            ]
        finally:
            self._metric_fn_list = everything
        values = over_runs(scores, single=self.config.repeats == len(self.conditions) == 1)
        self._scored_per_run.update(key for key, one in values.items() if isinstance(one, PerRun))
        return values

    def _stock_input(self, run: Run) -> Any:
        """A run as the harness's scoring gets it."""
        return str(run)

    def aggregation(self) -> dict[str, Any]:
        """The metrics' aggregations, ``metric -> (values of the items -> number)``."""
        known = super().aggregation()
        per_run = {key: RunAggregation(known[key]) for key in self._scored_per_run & set(known)}
        return {**known, **per_run}

    def _record(self, doc: Any, results: Sequence[Any]) -> Mapping[str, Any]:
        cells = [_runs(result) for result in results]
        record: dict[str, Any] = {
            "item": item_key(doc),
            "conditions": [condition.name for condition in self._asked(doc)],
        }
        if self._first_round is not None:
            record["first_round"] = self._first_round
        labels = self._labels(doc, _kind(cells))
        if labels is not None:
            record["labels"] = list(labels)
        return RunsRecord(record, cells)


class _Seen:
    """What the items have that metrics need."""

    def __init__(self) -> None:
        self.captured = self.embedded = self.labelled = False
        self.texts: set[str] = set()

    def add(self, item: Item) -> None:
        self.captured |= any(np.isfinite(one.certainty).any() for one in item.conditions)
        self.embedded |= item.cells is not None
        self.labelled |= item.has_label
        self.texts |= {one.name for one in item.conditions if any(map(str.strip, one.texts))}


def _kind(cells: Sequence[Sequence[Run]]) -> str | None:
    """Kind of the runs' canonical answers, None if no answer filter has seen them."""
    return next((run.kind for runs in cells for run in runs if run.kind is not None), None)


def _runs(result: Any) -> list[Run]:
    """Filtered runs of one cell as a list, whatever a stock filter left of them."""
    if isinstance(result, str):
        return [as_run(result)]
    return [as_run(run) for run in result]


def _in_original_letters(filtered: Any, doc: Any) -> Any:
    """Runs whose letters, chosen among rearranged options, are those of the original document."""
    if not isinstance(doc, Rearranged):
        return filtered
    letters = [
        run.derive(answer=doc.original_letter(run.answer))
        if run.kind == "mcq" and run.answer
        else run
        for run in _runs(filtered)
    ]
    return letters[0] if isinstance(filtered, str) else letters


def _with_captures(filtered: Any, request: SampleRequest) -> Any:
    """Give plain strings that a stock filter returned the captures of the runs they came from.

    Where each run still has its place, the missing ones come back at the end.
    """
    if isinstance(filtered, str):
        return as_run(filtered)
    runs = list(filtered)
    if len(runs) != len(request.resps):
        return runs
    captured = [_captured(run, origin) for run, origin in zip(runs, request.resps, strict=True)]
    return captured + request.lost


def _captured(run: Any, origin: Run) -> Run:
    if not isinstance(run, Run):
        return origin.derive(text=str(run), answer=None, kind=None)
    if run.capture != Capture():
        return run
    # An answer filter behind a stock one saw plain text.
    changes: dict[str, Any] = {"answer": run.answer, "kind": run.kind}
    if run.sums is not None:
        changes |= {"sums": run.sums, "embedding": run.embedding}
    return origin.derive(text=str(run), **changes)
