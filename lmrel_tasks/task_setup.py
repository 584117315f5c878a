"""A harness task with the plugin's settings: read, checked, and turned into the harness's own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from jinja2 import UndefinedError
from lm_eval.api.registry import get_filter, metric_registry
from lm_eval.api.task import ConfigurableTask

from lmrel_tasks.clinical import with_correctness
from lmrel_tasks.conditions import read_conditions
from lmrel_tasks.edits import Editor, names_with
from lmrel_tasks.filters.answer import AnswerFilter, options_of
from lmrel_tasks.harness_metrics import Aggregation
from lmrel_tasks.labels import acceptable
from lmrel_tasks.measures import Metric, get_metric
from lmrel_tasks.metric_rows import companions_of, rows_of
from lmrel_tasks.metrics.registry import METRICS
from lmrel_tasks.metrics.stopping import next_round
from lmrel_tasks.request import item_key
from lmrel_tasks.settings import check_generation, read_settings, sampling_temperature
from lmrel_tasks.token_ids import tokenizer_name

log = logging.getLogger(__name__)


class ConfiguredTask(ConfigurableTask):
    """The configuration of a `RepeatedTask`."""

    _metric_fn_list: dict[str, Any]

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
        # Metrics of a task with a scoring of its own mean what that scoring calls by their names.
        self._scores_itself = given.get("process_results") is not None
        metric_list = given.get("metric_list")
        if metric_list is not None:
            named = [one for one in metric_list if isinstance(one, Mapping)]
            self._listed = {str(one.get("name", one.get("metric"))) for one in named}
            given["metric_list"] = [
                row for one in metric_list for row in self._harness_entries(name, one)
            ]
        if given.get("filter_list") is not None:
            check_filter_list(name, given["filter_list"])
            filters = with_correctness(name, given.get("metadata"), given["filter_list"])
            given["filter_list"] = self._with_embedder(filters)
        check_choices(name, given.get("doc_to_choice"))
        if given.get("generation_kwargs") is not None:
            check_generation(f"task {name}", given["generation_kwargs"])
        for condition in self.conditions:
            check_generation(f"task {name}, condition {condition.name}", condition.generation)
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

    def _harness_entries(self, task: str, entry: Any) -> list[dict[str, Any]]:
        """The entry as the harness takes it: our metrics as callables with their aggregation."""
        if not isinstance(entry, Mapping) or "metric" not in entry:
            raise ValueError(
                f"task {task}: metric_list needs entries with `metric:`, got {entry!r}"
            )
        name = entry["metric"]
        if not isinstance(name, str) and not callable(name):
            raise TypeError(f"task {task}: metric_list: `metric` must be a name, got {name!r}")
        if self._is_stock(name):
            if not callable(name) and name not in metric_registry and "aggregation" not in entry:
                try:
                    get_metric(name)
                except KeyError as error:
                    raise KeyError(f"task {task}: metric_list: {error.args[0]}") from None
            return [dict(entry)]
        higher = entry.get("higher_is_better")
        if higher is not None and not isinstance(higher, bool):
            raise TypeError(
                f"task {task}: metric {name}: higher_is_better must be true or false, "
                f"not {higher!r}"
            )
        if entry.get("aggregation", "mean") != "mean":
            raise ValueError(
                f"task {task}: metric {name} brings its own aggregation; leave `aggregation` out"
            )
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

    def _is_stock(self, name: Any) -> bool:
        """Whether an entry of that name is the harness's metric, or of the task's own scoring."""
        return callable(name) or name not in METRICS or self._scores_itself

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

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
        """The prompt of a document; a field that it lacks is named with those it has."""
        with self._naming_fields(doc, "doc_to_text"):
            return super().doc_to_text(doc, doc_to_text)

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """The label of a document; empty for a task without labels."""
        if doc_to_target is None and self.config.doc_to_target is None:
            return ""
        with self._naming_fields(doc, "doc_to_target"):
            return super().doc_to_target(doc, doc_to_target)

    @contextmanager
    def _naming_fields(self, doc: Any, field: str) -> Iterator[None]:
        try:
            yield
        except UndefinedError as error:
            raise ValueError(
                f"task {self.config.task}: {field}: {error.message}; the document has the fields "
                f"{', '.join(map(str, doc))}"
            ) from None

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
        """The filters, with embedding model and tokenizer put in where the YAML names none."""
        filters = deepcopy(list(filter_list))
        for pipeline in filters:
            for step in pipeline.get("filter", ()):
                if step.get("function") == "embed":
                    if self.settings.embedder is not None:
                        step.setdefault("model", self.settings.embedder)
                    # With a stopping rule metrics look at the first runs only, so their vectors
                    # are needed; otherwise the sums of a cell are.
                    step.setdefault("keep", self.settings.stopping is not None)
                if step.get("function") == "token_match":
                    step.setdefault("tokenizer", tokenizer_name(self.editor.metadata))
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
        for condition in self.conditions:
            settings = {**(self.config.generation_kwargs or {}), **condition.generation}
            greedy = sampling_temperature(settings) == 0
            if greedy and self.config.repeats > 1 and "greedy" not in self._warned:
                self._warned.add("greedy")
                log.warning(
                    "task %s, condition %s: generation_kwargs switch sampling off (do_sample: %s, "
                    "temperature: %s) with repeats: %d; greedy repeats measure only numeric noise. "
                    "Set do_sample: true and a temperature above 0.",
                    self.config.task,
                    condition.name,
                    settings.get("do_sample"),
                    settings.get("temperature"),
                    self.config.repeats,
                )

    def _answer_settings(self) -> Mapping[str, Any] | None:
        """Arguments of the first ``answer`` filter, or None."""
        for pipeline in self.config.filter_list or ():
            for step in pipeline["filter"]:
                if step["function"] == "answer":
                    choices = step.get("choices")
                    if choices is not None and not isinstance(choices, (str, list, tuple)):
                        raise TypeError(
                            f"task {self.config.task}: filter answer: choices must be a field of "
                            f"the documents or a list of texts, not {choices!r}"
                        )
                    return {"kind": step.get("kind", "text"), "choices": choices}
        return None

    def _check_filters(self, task: str) -> None:
        for ensemble in self._filters:
            for make in ensemble.filters:
                try:
                    make()  # bad arguments are found now, not after sampling
                except (TypeError, ValueError) as error:
                    raise type(error)(
                        f"task {task}: filter_list, {ensemble.name}: {error}"
                    ) from None
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

    def _labels(self, doc: Any, kind: str | None) -> tuple[str, ...] | None:
        """Acceptable answers, through the same function as the runs' answers; None if unknown."""
        if self.config.doc_to_target is None:
            return None
        target = self.doc_to_target(doc)
        if self.config.doc_to_choice is not None:
            target = self._chosen(target, self.doc_to_choice(doc), item_key(doc))
        try:
            return acceptable(target, kind, options_for(doc, self._answer))
        except ValueError as error:
            if kind is None:  # an empty target of a task whose own scoring knows what is right
                return None
            raise ValueError(f"task {self.config.task}, item {item_key(doc)}: {error}") from None

    def _chosen(self, target: Any, choices: Sequence[str], item: str) -> Any:
        """Choices by their indices, as the harness's targets may be; -1 stands for unlabelled."""
        if isinstance(target, list) and all(isinstance(one, int) for one in target):
            return [self._chosen(one, choices, item) for one in target]
        if isinstance(target, bool) or not isinstance(target, int):
            return target
        if target == -1:
            return None
        if not 0 <= target < len(choices):
            raise ValueError(
                f"task {self.config.task}, item {item}: doc_to_target gives the index {target}, "
                f"but doc_to_choice has {len(choices)} choices"
            )
        return choices[target]


def check_filter_list(task: str, filter_list: Any) -> None:
    """Refuse what is no list of pipelines.

    Raises:
        TypeError, ValueError: naming the task and the entry.
    """
    shape = "[{name: none, filter: [{function: answer}]}]"
    if not isinstance(filter_list, list):
        raise TypeError(f"task {task}: filter_list must be a list like {shape}")
    for number, pipeline in enumerate(filter_list):
        where = f"task {task}: filter_list[{number}]"
        steps = pipeline.get("filter") if isinstance(pipeline, Mapping) else None
        if not isinstance(steps, list) or "name" not in pipeline:
            raise ValueError(f"{where} needs `name` and a list `filter`, as in {shape}")
        for step in steps:
            if not isinstance(step, Mapping) or "function" not in step:
                raise ValueError(f"{where}: each filter needs `function`, got {step!r}")
            try:
                get_filter(step["function"])
            except KeyError as error:
                raise KeyError(f"{where}: {error.args[0]}") from None


def check_choices(task: str, choices: Any) -> None:
    """Refuse options that YAML has read as something else than text.

    Raises:
        TypeError: naming the task and the option.
    """
    if not isinstance(choices, list):
        return
    for number, one in enumerate(choices):
        if not isinstance(one, str):
            raise TypeError(
                f"task {task}: doc_to_choice[{number}] is {one!r}, no text; YAML reads an unquoted "
                'yes, no or number as something else: write ["yes", "no"]'
            )


_ENTRY_KEYS = frozenset({"metric", "name", "aggregation", "higher_is_better", "per_condition"})


def _costly_filters() -> tuple[Any, ...]:
    from lmrel_tasks.plugin import BehaviourFilter, Embed

    return BehaviourFilter, Embed


def options_for(doc: Any, answer: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    options = options_of(doc, answer["choices"]) if answer else None
    return None if options is None else tuple(options)
