"""Tasks that `lmrel wrap` makes of a harness task: the same, asked repeatedly.

The YAML includes the original and says under ``wrap:`` what is added; the rest (data, prompt,
shots, filters and scoring) is read from the original whenever the task is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from lm_eval.api.registry import DEFAULT_METRIC_REGISTRY
from lm_eval.defaults import default_gen_kwargs

from lmrel_tasks.measures import get_metric
from lmrel_tasks.metrics.registry import METRICS
from lmrel_tasks.option_task import OptionTask
from lmrel_tasks.run import Run
from lmrel_tasks.task import RepeatedTask

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Generation settings for a letter, where the original generates nothing.
LETTER_GENERATION = {"do_sample": False, "max_gen_toks": 32, "until": ["\n\n"]}


def added(config: Mapping[str, Any]) -> dict[str, Any]:
    """What ``wrap:`` of a task says, checked.

    Raises:
        ValueError, TypeError: naming the task and the field.
    """
    given = config.get("wrap") or {}
    if not isinstance(given, Mapping):
        raise TypeError(f"task {config.get('task')}: wrap must be a mapping, not {given!r}")
    known = {"metrics", "answer", "generation"}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ValueError(
            f"task {config.get('task')}: unknown setting wrap.{unknown[0]}; "
            f"known: {', '.join(sorted(known))}"
        )
    return dict(given)


def with_metrics(
    config: Mapping[str, Any], metrics: Sequence[Any]
) -> tuple[list[dict[str, Any]], set[str]]:
    """The original's metrics, then ours; where both have a name, the original's counts.

    Returns:
        ``metric_list``, and the names in it that are ours.
    """
    listed = config.get("metric_list")
    if listed is None:
        output_type = str(config.get("output_type", "generate_until"))
        listed = [{"metric": name} for name in DEFAULT_METRIC_REGISTRY[output_type]]
    stock = [dict(one) for one in listed]
    for entry in stock:
        if entry["metric"] in METRICS:  # the harness's has no such name, or another aggregation
            entry.setdefault("aggregation", "mean")
            entry.setdefault("higher_is_better", True)
    taken = {entry["metric"] for entry in stock}
    given = [dict(one) if isinstance(one, Mapping) else {"metric": one} for one in metrics]
    ours = [entry for entry in given if entry["metric"] not in taken]
    return stock + ours, {entry["metric"] for entry in ours}


def with_filters(
    config: Mapping[str, Any], metrics: Sequence[Any], answer: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """The original's filters without ``take_first``, which would leave one run of many.

    Whole outputs are embedded before filters extract from them; canonical answers are made of
    what they extract.
    """
    names = [one["metric"] if isinstance(one, Mapping) else one for one in metrics]
    embed = any("embeddings" in get_metric(name).needs for name in names)
    pipelines = deepcopy(config.get("filter_list")) or [{"name": "none", "filter": []}]
    for pipeline in pipelines:
        steps = [step for step in pipeline["filter"] if step["function"] != "take_first"]
        before = [{"function": "embed"}] if embed else []
        after = [{"function": "answer", **answer}] if answer else []
        pipeline["filter"] = before + steps + after
    return pipelines


def keeps_lists(config: Mapping[str, Any]) -> bool:
    """Whether the original's scoring gets a list of responses, since no ``take_first`` ends it."""
    pipelines = config.get("filter_list")
    return bool(pipelines) and not any(
        step["function"] == "take_first" for one in pipelines or () for step in one["filter"]
    )


class WrappedTask(RepeatedTask):
    """A ``generate_until`` task of the harness, asked repeatedly; see `lmrel_tasks.wrapping`."""

    def __init__(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        given = dict(config or {})
        more = added(given)
        given.pop("wrap", None)
        self._list_scored = keeps_lists(given)
        metrics = more.get("metrics", ())
        original = given.get("generation_kwargs")
        if original is None:
            original = default_gen_kwargs(given.get("fewshot_delimiter", "\n\n"))
        given["generation_kwargs"] = {**original, **more.get("generation", {})}
        given["filter_list"] = with_filters(given, metrics, more.get("answer"))
        given["metric_list"], self._added = with_metrics(given, metrics)
        super().__init__(given, **kwargs)

    def _is_stock(self, name: Any) -> bool:
        return callable(name) or name not in self._added

    def _stock_input(self, run: Run) -> Any:
        return [str(run)] if self._list_scored else str(run)


class WrappedOptions(OptionTask):
    """A ``multiple_choice`` task of the harness whose option probabilities are kept."""

    def __init__(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        given = dict(config or {})
        more = added(given)
        given.pop("wrap", None)
        given["metric_list"], self._added = with_metrics(given, more.get("metrics", ()))
        super().__init__(given, **kwargs)

    def _is_stock(self, name: Any) -> bool:
        return callable(name) or name not in self._added


class LetterTask(RepeatedTask):
    """A ``multiple_choice`` task of the harness that is answered with the letter of an option.

    Where the original's options are not letters themselves, they are listed below the question.
    The harness's own scoring compares log-likelihoods and has no meaning here; ``acc`` is the
    share of runs that give the right letter.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        given = dict(config or {})
        more = added(given)
        given.pop("wrap", None)
        if given.get("doc_to_choice") is None:
            raise ValueError(f"task {given.get('task')}: no doc_to_choice, so no options to letter")
        self._choices = given.pop("doc_to_choice")
        metrics = ["acc", *more.get("metrics", ())]
        given.update(
            output_type="generate_until",
            generation_kwargs={**LETTER_GENERATION, **more.get("generation", {})},
            filter_list=with_filters({}, metrics, {"kind": "mcq"}),
            metric_list=[
                dict(one) if isinstance(one, Mapping) else {"metric": one} for one in metrics
            ],
        )
        given["fewshot_config"] = {
            key: value
            for key, value in (given.get("fewshot_config") or {}).items()
            if key != "doc_to_choice"
        }
        super().__init__(given, **kwargs)

    def _options_of(self, doc: Any) -> list[str]:
        return [str(one) for one in self.doc_to_choice(doc, self._choices)]

    def doc_to_text(self, doc: Any, doc_to_text: Any = None) -> Any:
        """The original's question, with its options listed and lettered if they are not yet."""
        text = super().doc_to_text(doc, doc_to_text)
        if not isinstance(text, str) or text.isdigit():
            raise ValueError(
                f"task {self.config.task}: doc_to_text gives a number, so the options stand in "
                "the context and cannot be answered with a letter"
            )
        options = self._options_of(doc)
        if [one.strip().strip("().").upper() for one in options] == list(LETTERS[: len(options)]):
            return text
        question = text.rstrip().removesuffix("Answer:").rstrip()
        listed = "\n".join(
            f"{letter}. {option.strip()}" for letter, option in zip(LETTERS, options, strict=False)
        )
        return f"{question}\n{listed}\nAnswer:"

    def doc_to_target(self, doc: Any, doc_to_target: Any = None) -> Any:
        """The letter of the right option, or a list of them."""
        target = super().doc_to_target(doc, doc_to_target)
        if isinstance(target, list):
            return [self._letter(doc, one) for one in target]
        return self._letter(doc, target)

    def _letter(self, doc: Any, target: Any) -> str:
        options = self._options_of(doc)
        if isinstance(target, str):
            if target in options:
                target = options.index(target)
            elif target.strip().isdigit():
                target = int(target)
        if not isinstance(target, int) or not 0 <= target < min(len(options), len(LETTERS)):
            raise ValueError(
                f"task {self.config.task}: the target {target!r:.60} is none of the document's "
                f"{len(options)} options"
            )
        return LETTERS[int(target)]
