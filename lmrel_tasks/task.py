"""The task class: any harness task, asked repeatedly, under one condition or several.

Used from YAML by ``class: !function lmrel_tasks.task.RepeatedTask``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from lm_eval.api.instance import Instance
from lm_eval.api.registry import metric_registry
from lm_eval.api.task import ConfigurableTask

from lmrel_tasks.clinical import with_correctness
from lmrel_tasks.conditions import ConditionSpec, asked_under, joined, read_conditions
from lmrel_tasks.edits import Editor, names_with
from lmrel_tasks.filters.answer import AnswerFilter, as_run, options_of
from lmrel_tasks.harness_metrics import Aggregation
from lmrel_tasks.labels import acceptable
from lmrel_tasks.measures import Metric, condition_of, get_metric, run_record
from lmrel_tasks.metric_rows import companions_of, rows_of
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.registry import METRICS
from lmrel_tasks.metrics.stopping import next_round
from lmrel_tasks.option_order import Rearranged, rearranged
from lmrel_tasks.plugin import install
from lmrel_tasks.request import REQUEST_TYPE, Plan, SampleRequest, item_key
from lmrel_tasks.run import Capture, Run
from lmrel_tasks.settings import read_settings
from lmrel_tasks.stock_scores import PerRun, RunAggregation, over_runs
from lmrel_tasks.variants import original, with_field

install()

log = logging.getLogger(__name__)


class SampleRow(dict[str, Any]):
    """An item's metric values, with a record that only the samples file shows.

    The harness writes the whole mapping into the samples file and aggregates what ``items()``
    lists, so the record is kept out of ``items()`` and ``keys()``. So are listed metrics without a
    row of their own name, which the harness's W&B logger looks for in every sample.
    """

    def __init__(
        self, values: Mapping[str, Any], record: Mapping[str, Any], listed: Sequence[str] = ()
    ) -> None:
        super().__init__({**dict.fromkeys(listed), **values, "lmrel": dict(record)})
        self._metrics = dict(values)

    def items(self) -> Any:
        return self._metrics.items()

    def keys(self) -> Any:
        return self._metrics.keys()


class RepeatedTask(ConfigurableTask):
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

    def __init__(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        given = dict(config or {})
        given.pop("class", None)
        name = str(given.get("task", "(unnamed)"))
        self.settings = read_settings(name, given.get("metadata"))
        self.conditions = read_conditions(name, self.settings.conditions, self.settings.text)
        edits = {one.name: one.edit for one in self.conditions if one.edit is not None}
        self.editor = Editor(edits, given.get("metadata") or {})
        self.own: dict[str, Metric] = {}
        self._warned: set[str] = set()
        self._scored_per_run: set[str] = set()
        self._shot_states: Iterator[Any] = iter(())
        metric_list = given.get("metric_list")
        if metric_list is not None:
            named = [one for one in metric_list if isinstance(one, Mapping)]
            self._listed = {one.get("name", one.get("metric")) for one in named}
            given["metric_list"] = [
                row for one in metric_list for row in self._harness_entries(name, one)
            ]
        if given.get("filter_list") is not None:
            filters = with_correctness(name, given.get("metadata"), given["filter_list"])
            given["filter_list"] = self._with_embedder(filters)
        super().__init__(config=given, **kwargs)
        self._name_placeholders()
        if metric_list is not None:
            self.config.metric_list = [dict(one) for one in metric_list]
        self._stock_metrics = {
            key: function for key, function in self._metric_fn_list.items() if key not in self.own
        }
        self._check_repeats(name)
        self._answer = self._answer_settings()
        self._check_filters(name)
        self._first_round = self._always_drawn()

    # Configuration -----------------------------------------------------------------------------

    def _harness_entries(self, task: str, entry: Any) -> list[dict[str, Any]]:
        """The entry as the harness takes it: our metrics as callables with their aggregation."""
        if not isinstance(entry, Mapping) or "metric" not in entry:
            raise ValueError(
                f"task {task}: metric_list needs entries with `metric:`, got {entry!r}"
            )
        name = entry["metric"]
        stock = callable(name) or "aggregation" in entry or name not in METRICS
        if stock:
            if not callable(name) and name not in metric_registry and "aggregation" not in entry:
                try:
                    get_metric(name)
                except KeyError as error:
                    raise KeyError(f"task {task}: metric_list: {error.args[0]}") from None
            return [dict(entry)]
        more: list[dict[str, Any]] = []
        arguments = {key: value for key, value in entry.items() if key not in _ENTRY_KEYS}
        try:
            metric = get_metric(name).bind(arguments)
        except ValueError as error:
            raise ValueError(f"task {task}: metric_list: {error}") from None
        rows = rows_of(
            str(entry.get("name", name)),
            metric,
            [condition.name for condition in self.conditions],
            preset=self.settings.preset,
            k=self.settings.top_logprobs,
            per_condition=bool(entry.get("per_condition", True)),
            targeted=names_with(self.editor.edits, "targeted"),
        )
        shown_rows = [
            self._row(task, shown, row, bool(entry.get("higher_is_better", row.higher_is_better)))
            for shown, row in rows.items()
        ]
        for suffix in companions_of(metric.name):
            # An excess brings its p-value and its interval, unless they have entries of their own.
            if f"{entry.get('name', name)}{suffix}" not in self._listed:
                other = {**entry, "metric": f"{name}{suffix}"}
                other["name"] = f"{entry.get('name', name)}{suffix}"
                more += self._harness_entries(task, other)
        return shown_rows + more

    def _row(self, task: str, shown: str, metric: Metric, higher: bool) -> dict[str, Any]:
        if shown in self.own:
            raise ValueError(
                f"task {task}: metric {shown} is listed twice; give one of them another `name:`"
            )
        self.own[shown] = metric

        def placeholder(*args: Any, **kwargs: Any) -> None:
            raise TypeError(f"metric {shown} sees items, not strings: use class RepeatedTask")

        placeholder.__name__ = shown
        return {
            "metric": placeholder,
            "aggregation": Aggregation(metric),
            "higher_is_better": higher,
        }

    def _name_placeholders(self) -> None:
        # With process_results of the task's own, the harness keys callables by themselves.
        for table in (
            self._metric_fn_list,
            self._metric_fn_kwargs,
            self._aggregation_list,
            self._higher_is_better,
        ):
            for key in [one for one in table if callable(one)]:
                table[key.__name__] = table.pop(key)

    def _with_embedder(self, filter_list: Sequence[Any]) -> list[Any]:
        """The filters, with the task's embedding model put into ``embed`` where it names none."""
        filters = deepcopy(list(filter_list))
        for pipeline in filters:
            for step in pipeline.get("filter", ()):
                if step.get("function") == "embed":
                    if self.settings.embedder is not None:
                        step.setdefault("model", self.settings.embedder)
                    # With a stopping rule metrics look at the first runs only, so their vectors
                    # are needed; otherwise the sums of a cell are.
                    step.setdefault("keep", self.settings.stopping is not None)
        return filters

    def _check_repeats(self, task: str) -> None:
        repeats = self.config.repeats
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
            raise ValueError(f"task {task}: repeats must be a positive integer, got {repeats!r}")
        needy = [key for key, metric in self.own.items() if "repeats" in metric.needs]
        if repeats < 2 and needy:
            raise ValueError(
                f"task {task}: metric {needy[0]} needs repeats >= 2, but repeats is {repeats}"
            )

    def _always_drawn(self) -> int | None:
        """Runs that a stopping rule draws whatever they answer; None without a rule."""
        rule = self.settings.stopping
        repeats = self.config.repeats
        return next_round([], repeats, **rule) if rule and repeats > 1 else None

    def _warn_if_greedy(self) -> None:
        settings = self.config.generation_kwargs or {}
        off = settings.get("do_sample") is False or float(settings.get("temperature") or 0) == 0
        if off and self.config.repeats > 1 and "greedy" not in self._warned:
            self._warned.add("greedy")
            log.warning(
                "task %s: generation_kwargs switch sampling off (do_sample: %s, temperature: %s) "
                "with repeats: %d; greedy repeats measure only numeric noise. Set do_sample: true "
                "and a temperature above 0.",
                self.config.task,
                settings.get("do_sample"),
                settings.get("temperature"),
                self.config.repeats,
            )

    def _answer_settings(self) -> Mapping[str, Any] | None:
        """Arguments of the first ``answer`` filter, or None."""
        for pipeline in self.config.filter_list or ():
            for step in pipeline["filter"]:
                if step["function"] == "answer":
                    return {"kind": step.get("kind", "text"), "choices": step.get("choices")}
        return None

    def _check_filters(self, task: str) -> None:
        for ensemble in self._filters:
            for make in ensemble.filters:
                make()  # bad arguments are found now, not after sampling
        steps = [
            step["function"] for one in self.config.filter_list or () for step in one["filter"]
        ]
        if "behaviour" in steps and not self.config.unsafe_code:
            raise ValueError(
                f"task {task}: the filter behaviour runs what the model wrote; say "
                "`unsafe_code: true`, so that the harness asks for --confirm_run_unsafe_code"
            )
        if self._answer is not None:
            AnswerFilter(**self._answer)  # refuses a wrong kind before anything is sampled
        ordered = [one.name for one in self.conditions if one.option_order is not None]
        if ordered and self.settings.option_fields is None:
            raise ValueError(
                f"task {task}: condition {ordered[0]} has an option_order; say where options and "
                "label are: metadata.lmrel.option_fields: {choices: FIELD, answer: FIELD}"
            )
        if ordered and (self._answer or {}).get("kind") not in ("mcq", "label"):
            raise ValueError(
                f"task {task}: condition {ordered[0]} has an option_order, which needs a filter "
                "`answer` of kind mcq or label, so that answers can be compared across orders"
            )
        later = [step for step in steps if step in ("behaviour", "cluster")]
        if self.settings.stopping and (self._answer is None or later):
            raise ValueError(
                f"task {task}: metadata.lmrel.stopping looks at canonical answers while sampling; "
                "it needs a filter `answer`, and cannot go with `behaviour` or `cluster`, which "
                "make classes afterwards"
            )

    def override_metric(self, metric_name: str) -> None:
        """Replace all metrics, as ``--predict_only`` does; nothing is embedded or run then."""
        super().override_metric(metric_name)
        self.own, self._stock_metrics = {}, dict(self._metric_fn_list)
        costly = _costly_filters()
        for ensemble in self._filters:
            ensemble.filters = [
                one for one in ensemble.filters if getattr(one, "func", None) not in costly
            ]

    # Requests ----------------------------------------------------------------------------------

    def build_all_requests(self, **kwargs: Any) -> None:  # type: ignore[override]
        """Build the requests; ones taken from the request cache get the settings of this run."""
        self._warn_if_greedy()
        self._shot_states = self._states_of_one_process(**kwargs)
        super().build_all_requests(**kwargs)
        for request in self._instances or ():
            if isinstance(request, SampleRequest):
                self._plan(request)

    def _states_of_one_process(
        self,
        rank: int = 0,
        world_size: int = 1,
        limit: int | None = None,
        samples: list[int] | None = None,
        **_: Any,
    ) -> Iterator[Any]:
        """The few-shot sampler's state before each of this rank's items.

        The harness draws shots from one sequence in the order of the items, so ranks that see
        every other item would draw other shots than a single process does.
        """
        sampler, shots = getattr(self, "sampler", None), self.config.num_fewshot or 0
        if world_size == 1 or not shots or sampler is None:
            return
        start, states = sampler.rnd.getstate(), []
        same_split = self.fewshot_cfg.split == self.config.test_split
        for number, (_, doc) in enumerate(self.doc_iterator(limit=limit, samples=samples)):
            if number % world_size == rank:
                states.append(sampler.rnd.getstate())
            sampler.sample(n=shots, eval_doc=doc if same_split else None)
        sampler.rnd.setstate(start)
        yield from states

    def fewshot_context(self, doc: Any, num_fewshot: int, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        """One prompt per condition, in their order; all with the same shots unless they differ."""
        system = kwargs.pop("system_instruction", None)
        kwargs.pop("gen_prefix", None)
        state = next(self._shot_states, None)
        if state is None and hasattr(self, "sampler"):
            state = self.sampler.rnd.getstate()
        contexts = []
        for condition in self._asked(doc):
            if state is not None:
                self.sampler.rnd.setstate(state)
                if condition.fewshot_seed is not None:
                    self.sampler.rnd.seed(f"{condition.fewshot_seed}:{item_key(doc)}")
            asked = self._arranged(doc, condition)
            with asked_under(self, condition):
                contexts.append(
                    super().fewshot_context(
                        asked,
                        int(condition.prompt.get("num_fewshot", num_fewshot) or 0),
                        *args,
                        system_instruction=self._system(condition, system, kwargs),
                        gen_prefix=self.doc_to_prefix(asked),
                        **kwargs,
                    )
                )
        return contexts

    def _system(
        self, condition: ConditionSpec, given: str | None, kwargs: Mapping[str, Any]
    ) -> str | None:
        """The system instruction; in a plain prompt the condition's stands in lines of its own."""
        system = joined(condition.system, given)
        if condition.system and not kwargs.get("apply_chat_template"):
            return f"{system}{self.config.fewshot_delimiter or ''}"
        return system

    def construct_requests(self, doc: Any, ctx: Any, **kwargs: Any) -> Any:
        """One request per condition; the harness clones each ``repeats`` times."""
        if self.OUTPUT_TYPE not in ("generate_until", "multiple_choice"):
            raise ValueError(
                f"task {self.config.task}: output_type {self.OUTPUT_TYPE} cannot be sampled; "
                "use generate_until or multiple_choice"
            )
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        return [
            SampleRequest(
                request_type=REQUEST_TYPE,  # type: ignore[arg-type]
                doc=self._arranged(doc, condition),
                arguments=(prompt, {}),
                idx=self.conditions.index(condition),
                **kwargs,
            )
            for condition, prompt in zip(self._asked(doc), ctx, strict=True)
        ]

    def _asked(self, doc: Any) -> list[ConditionSpec]:
        """The conditions under which there is something to ask about this document."""
        if not self.editor.edits:
            return list(self.conditions)
        key = item_key(doc)
        return [one for one in self.conditions if self.editor.exists(doc, key, one.name)]

    def _arranged(self, doc: Any, condition: ConditionSpec) -> Any:
        """The document as the condition asks it: its text, its options in the condition's order."""
        fields, edit = self.settings.option_fields, condition.edit
        asked = doc
        try:
            if condition.option_order is not None and fields is not None:
                asked = rearranged(doc, fields, condition.option_order, item_key(doc))
            if edit is not None and edit.text is not None:
                text = self.editor.edited(doc, item_key(doc), condition.name).text
                asked = with_field(asked, edit.text, text)
        except ValueError as error:
            raise ValueError(f"task {self.config.task}, item {item_key(doc)}: {error}") from None
        return asked

    def _plan(self, request: SampleRequest) -> None:
        condition, drawing = self.conditions[request.idx], self._drawing(request)
        seed = self.settings.seed
        if request.idx == 0 and self._answer and "bypass" not in self._metric_fn_list:
            # A label that holds no answer is found before anything is sampled.
            self._labels(request.doc, self._answer["kind"])
        plan = Plan(
            task=str(self.config.task),
            item=item_key(original(request.doc)),
            condition=condition.name,
            # The harness hands its --seed to torch; a run's own draws derive from it.
            seed=int(torch.initial_seed()) if seed is None else seed,
            settings=self.settings,
            kind=drawing["kind"],
            choices=drawing["choices"],
            first_tokens=drawing.get("first_tokens", False),
        )
        told = {"item": plan.item, "condition": plan.condition, "seed": plan.seed}
        request.plan = plan
        request.arguments = (request.arguments[0], drawing["generation"], told)
        request.repeats = drawing["repeats"]
        request.metadata = (request.task_name, request.doc_id, request.repeats)

    def _drawing(self, request: SampleRequest) -> dict[str, Any]:
        """How the runs of a request are drawn, and what kind of answer they hold."""
        condition = self.conditions[request.idx]
        return {
            "generation": {**deepcopy(self.config.generation_kwargs or {}), **condition.generation},
            "repeats": self.config.repeats,
            "kind": self._answer["kind"] if self._answer else None,
            "choices": _options(request.doc, self._answer),
        }

    # Results -----------------------------------------------------------------------------------

    def apply_filters(self) -> list[Instance] | None:
        """Run the filters over the runs that arrived, and find out what can be measured."""
        requests = [one for one in self._instances or () if isinstance(one, SampleRequest)]
        for request in requests:
            request.set_missing_aside()
        super().apply_filters()
        for request in requests:
            for name, filtered in request.filtered_resps.items():
                runs = _with_captures(filtered, request)
                request.filtered_resps[name] = _in_original_letters(runs, request.doc)
        self._find_available(requests)
        return None

    def _find_available(self, requests: Sequence[Instance]) -> None:
        """Which of our metrics have a value for at least one item, on any rank."""
        by_doc: dict[Any, list[Instance]] = {}
        for request in requests:
            by_doc.setdefault(request.doc_id, []).append(request)
        names = list(requests[0].filtered_resps) if requests else []
        found: set[str] = set()
        for cells in by_doc.values():
            for name in names:
                sought = [key for key in self.own if key not in found]
                if not sought:
                    break
                doc = original(cells[0].doc)
                item = self._item(doc, [cell.filtered_resps[name] for cell in cells])
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
                self._why(left_out),
            )
        self._available = [key for key in self.own if key in found]

    def _why(self, left_out: Sequence[str]) -> str:
        needs = {need for key in left_out for need in self.own[key].needs}
        reasons = [text for need, text in _REASONS.items() if need in needs]
        return f" ({'; '.join(reasons)})" if reasons else ""

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

    def _labels(self, doc: Any, kind: str | None) -> tuple[str, ...] | None:
        """Acceptable answers, through the same function as the runs' answers; None if unknown."""
        if self.config.doc_to_target is None:
            return None
        target = self.doc_to_target(doc)
        if isinstance(target, int) and self.config.doc_to_choice is not None:
            target = self.doc_to_choice(doc)[target]
        try:
            return acceptable(target, kind, _options(doc, self._answer))
        except ValueError as error:
            if kind is None:  # an empty target of a task whose own scoring knows what is right
                return None
            raise ValueError(f"task {self.config.task}, item {item_key(doc)}: {error}") from None

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

    def _record(self, doc: Any, results: Sequence[Any]) -> dict[str, Any]:
        cells = [_runs(result) for result in results]
        record: dict[str, Any] = {
            "item": item_key(doc),
            "conditions": [condition.name for condition in self._asked(doc)],
            "runs": [[run_record(run) for run in runs] for runs in cells],
        }
        if self._first_round is not None:
            record["first_round"] = self._first_round
        labels = self._labels(doc, _kind(cells))
        if labels is not None:
            record["labels"] = list(labels)
        return record


_ENTRY_KEYS = frozenset({"metric", "name", "higher_is_better", "per_condition"})

_REASONS = {
    "logprobs": "the model gives no token log-probabilities",
    "embeddings": "no filter `embed`, or only empty texts",
    "labels": "the documents carry no answer",
    "conditions": "the task declares one condition only",
    "targeted": "no item has both original and targeted answers, and every baseline",
}


def _costly_filters() -> tuple[Any, ...]:
    from lmrel_tasks.plugin import BehaviourFilter, Embed

    return BehaviourFilter, Embed


def _options(doc: Any, answer: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    options = options_of(doc, answer["choices"]) if answer else None
    return None if options is None else tuple(options)


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
        return origin.derive(text=str(run), answer=None)
    if run.capture != Capture():
        return run
    # An answer filter behind a stock one saw plain text.
    changes = {"answer": run.answer, "kind": run.kind}
    if run.sums is not None:
        changes |= {"sums": run.sums, "embedding": run.embedding}
    return origin.derive(text=str(run), **changes)
