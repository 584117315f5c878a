"""Tasks whose answers are read from option probabilities: ``output_type: multiple_choice``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask

from lmrel_tasks import options
from lmrel_tasks.metrics.item import Condition, Item
from lmrel_tasks.request import SampleRequest, item_key
from lmrel_tasks.task import RepeatedTask
from lmrel_tasks.variants import original

log = logging.getLogger(__name__)

_UNKNOWN = ""


class OptionTask(RepeatedTask):
    """A `RepeatedTask` that asks for the probability of every answer option.

    Written in YAML as ``class: !function lmrel_tasks.task.RepeatedTask`` with ``output_type:
    multiple_choice``, ``doc_to_choice`` and, if there is a right answer, ``doc_to_target``.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        given = dict(config or {})
        if given.get("doc_to_choice") is None:
            raise ValueError(f"task {given.get('task')}: multiple_choice needs doc_to_choice")
        if given.get("doc_to_target") is None:
            # The harness wants a target of every task; this one is no option.
            given["doc_to_target"] = _UNKNOWN
        self.reading: str | None = None
        super().__init__(given, **kwargs)
        if self.multiple_input:
            raise ValueError(
                f"task {self.config.task}: doc_to_text gives a number; options that stand in the "
                "context, not behind it, cannot be read"
            )

    # Requests ----------------------------------------------------------------------------------

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build the requests and note in the results how probabilities are read."""
        super().build_all_requests(**kwargs)
        requests = self._instances or ()
        sampled = any(isinstance(one, SampleRequest) for one in requests)
        if self.reading is None:  # the requests come from the harness's cache
            self.reading = (self.settings.read or "first_token") if sampled else "loglikelihood"
        edits = self.editor.edits
        sized = any(edit.role in ("targeted", "benign") for edit in edits.values())
        used = {"read": self.reading, **({"tokens": self.editor.tokens.name} if sized else {})}
        self.config.metadata = {**(self.config.metadata or {}), "lmrel_used": used}

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """One request per condition and option, or one per condition where answers are drawn."""
        if self.reading is None:
            self.reading = options.choose_reading(
                str(self.config.task), self.settings.read, ctx[0] if ctx else ""
            )
        if self.reading != "loglikelihood":
            return super().construct_requests(doc, ctx, **kwargs)
        requests: list[Instance] = []
        for condition, prompt in zip(self._asked(doc), ctx, strict=True):
            asked = self._arranged(doc, condition)
            made = ConfigurableTask.construct_requests(self, asked, prompt, **kwargs)
            requests += options.numbered(made, self.conditions.index(condition))
        return requests

    def _drawing(self, request: SampleRequest) -> dict[str, Any]:
        condition = self.conditions[request.idx]
        first = self.reading == "first_token"
        usual = options.FIRST_TOKEN if first else options.SAMPLES
        return {
            "generation": {**usual, **condition.generation},
            "repeats": 1 if first else self.settings.samples,
            "first_tokens": first,
            "kind": "label",
            "choices": tuple(self._options(request.doc)),
        }

    def _options(self, doc: Any) -> list[str]:
        return [str(option) for option in self.doc_to_choice(doc)]

    # Results -----------------------------------------------------------------------------------

    def apply_filters(self) -> list[Instance] | None:
        """Give drawn answers their canonical form; log-likelihoods stay as they are."""
        requests = list(self._instances or ())
        drawn = [one for one in requests if isinstance(one, SampleRequest)]
        for request in drawn:
            request.set_missing_aside()
            runs = [*request.resps, *request.lost]
            request.filtered_resps["none"] = options.answered(runs, self._options(request.doc))
        if self.reading == "first_token":
            runs = [run for request in drawn for run in request.filtered_resps["none"]]
            options.check_first_tokens(str(self.config.task), runs)
        if not drawn:
            ConfigurableTask.apply_filters(self)
        self._find_available(sorted(requests, key=lambda one: one.idx))
        return None

    def _record(self, doc: Any, results: Sequence[Any]) -> Mapping[str, Any]:
        return options.record_of(self._item(doc, results), str(self.reading))

    def _item(self, doc: Any, results: Sequence[Any]) -> Item:
        doc = original(doc)
        key, asked = item_key(doc), self._asked(doc)
        listed = self._options(self._arranged(doc, asked[0]))
        read = dict(zip((one.name for one in asked), self._cells(results, len(asked)), strict=True))
        cells = []
        for condition in self.conditions:
            info = self.editor.info(doc, key, condition.name)
            if condition.name in read:
                offered = self._options(self._arranged(doc, condition))
                cell = options.cell_of(
                    condition.name, str(self.reading), read[condition.name], offered, info
                )
                cells.append(_in_order(cell, offered, listed))
            else:
                edited = self.editor.edited(doc, key, condition.name)
                cells.append(Condition(condition.name, applicable=edited.applicable, info=info))
        label = self._label(self._arranged(doc, asked[0]), listed)
        return Item(
            key=key, conditions=tuple(cells), labels=label or (), has_label=label is not None,
            options=tuple(listed), fields=doc,
        )  # fmt: skip

    def _cells(self, results: Sequence[Any], asked: int) -> list[Any]:
        if self.reading != "loglikelihood":
            return list(results)
        # Unconditional log-likelihoods, which the harness asks for acc_mutual_info, come last.
        width = len(results) // asked
        both = 2 if "acc_mutual_info" in self._stock_metrics else 1
        return [
            [value for value, _ in cell[: width // both]] for cell in options.split(results, asked)
        ]

    def _label(self, doc: Any, listed: Sequence[str]) -> tuple[str, ...] | None:
        target = self.doc_to_target(doc)
        if target == _UNKNOWN:
            return None
        targets = target if isinstance(target, list) else [target]
        return tuple(listed[one] if isinstance(one, int) else str(one) for one in targets)

    def _stock_scores(self, doc: Any, results: Sequence[Any]) -> dict[str, Any]:
        """The harness's own metrics, on the unedited text, averaged over its conditions."""
        if self.reading != "loglikelihood":
            return {}
        everything = self._metric_fn_list
        self._metric_fn_list = self._stock_metrics
        asked = self._asked(doc)
        try:
            scores = [
                ConfigurableTask.process_results(self, self._arranged(doc, condition), cell)
                for condition, cell in zip(asked, options.split(results, len(asked)), strict=True)
                if condition.edit is None or condition.edit.role == "original"
            ]
        finally:
            self._metric_fn_list = everything
        if len(scores) == 1:
            return scores[0]
        return {
            key: sum(float(score[key]) for score in scores) / len(scores)
            for key in (scores[0] if scores else ())
        }


def _in_order(cell: Condition, offered: Sequence[str], listed: Sequence[str]) -> Condition:
    """The condition's probabilities in the order of the first condition's options."""
    if list(offered) == list(listed) or cell.probabilities is None:
        return cell
    if sorted(offered) != sorted(listed):
        return cell  # other words under this condition; its places are what counts
    places = [list(offered).index(option) for option in listed]
    return replace(cell, probabilities=np.asarray(cell.probabilities)[places])
