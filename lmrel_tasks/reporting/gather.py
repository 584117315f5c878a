"""What a report shows of one task of one evaluation, read from the harness's files in one pass."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.variance_metrics import PARTS
from lmrel_tasks.reporting.columns import SCALARS, Measures, Ranks, Values
from lmrel_tasks.reporting.headline import Headline, headlines
from lmrel_tasks.reporting.items import ItemView, LeastStable
from lmrel_tasks.results import Evaluation, item_of, samples_of

log = logging.getLogger(__name__)

MEASURES = ("meaning", *SCALARS)


@dataclass(frozen=True)
class TaskReport:
    """One task of one evaluation.

    Attributes:
        model, task: names; of the model, what the page calls it.
        facts: what was run and how: label -> value.
        headlines: the rows of the results table.
        keys: identities of the items, in order.
        values: ``metric,filter`` -> (items,) values, NaN where an item has none.
        scores: (labelled items,) rank of the best acceptable answer, inf if never sampled.
        classes: (labelled items,) number of different answers.
        repeats: largest number of runs of a cell.
        shares: measure -> part of the variance -> (percentage, standard error or None).
        conditions: name -> role in a bias task, else "".
        items: the least stable ones first.
        n_items: items in all.
        notes: what is missing, and why.
    """

    model: str
    task: str
    facts: Mapping[str, str]
    headlines: tuple[Headline, ...]
    keys: tuple[str, ...]
    values: Mapping[str, np.ndarray]
    scores: np.ndarray
    classes: np.ndarray
    repeats: int
    shares: Mapping[str, Mapping[str, tuple[float, float | None]]]
    conditions: Mapping[str, str]
    items: tuple[ItemView, ...]
    n_items: int
    notes: tuple[str, ...]


@dataclass
class _Seen:
    items: LeastStable
    keys: list[str] = field(default_factory=list)
    values: Values = field(default_factory=Values)
    ranks: Ranks = field(default_factory=Ranks)
    measures: Measures = field(default_factory=Measures)
    conditions: dict[str, str] = field(default_factory=dict)
    repeats: int = 0
    runs: int = 0
    missing: int = 0
    tokens: float = 0.0
    filter_name: str = ""


def gather(
    evaluation: Evaluation, task: str, max_items: int = 500, name: str | None = None
) -> TaskReport:
    """Read one task.

    Args:
        evaluation: the harness's results.
        task: name of a leaf task.
        max_items: how many of the least stable items keep their texts.
        name: what to call the model; its recorded name by default.
    """
    notes: list[str] = []
    seen = _Seen(LeastStable(max_items))
    try:
        for sample in _samples(evaluation, task):
            _take(seen, sample)
    except FileNotFoundError as error:
        notes.append(f"Only the table can be shown: {error}.")
    keys = tuple(seen.keys)
    values = seen.values.found(keys)
    shown = tuple(headlines(evaluation, task, values))
    return TaskReport(
        model=evaluation.model if name is None else name,
        task=task,
        facts=_facts(evaluation, task, seen),
        headlines=shown,
        keys=keys,
        values=values,
        scores=seen.ranks.found(),
        classes=np.array(seen.ranks.classes),
        repeats=seen.repeats,
        shares=_shares(seen, shown, evaluation.content.get("configs", {}).get(task, {})),
        conditions=seen.conditions,
        items=seen.items.views(),
        n_items=len(keys),
        notes=tuple(notes),
    )


def _samples(evaluation: Evaluation, task: str) -> Iterator[dict[str, Any]]:
    """The samples; a line that holds no item is named and skipped."""
    for sample in samples_of(evaluation, task):
        try:
            sample["_item"] = item_of(sample)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("task %s, document %s: %s; skipped", task, sample.get("doc_id"), error)
            continue
        yield sample


def _take(seen: _Seen, sample: Mapping[str, Any]) -> None:
    item: Item = sample["_item"]
    filter_name = str(sample.get("filter", "none"))
    seen.values.add(item.key, sample)
    if seen.keys and filter_name != seen.filter_name:
        return  # the same documents once more, behind another filter
    seen.filter_name = filter_name
    seen.keys.append(item.key)
    for one in item.conditions:
        seen.conditions.setdefault(one.name, str(one.info.get("role") or ""))
    seen.repeats = max([seen.repeats, *(len(one.texts) for one in item.conditions)])
    seen.runs += sum(len(one.texts) for one in item.conditions)
    seen.missing += sum(one.missing for one in item.conditions)
    seen.tokens += sum(t for one in item.conditions for t in one.tokens.tolist() if t == t)
    seen.ranks.add(item)
    seen.measures.add(item)
    seen.items.add(item, sample)


def _shares(
    seen: _Seen, shown: tuple[Headline, ...], config: Mapping[str, Any]
) -> dict[str, dict[str, tuple[float, float | None]]]:
    """Shares of variance: from the runs; of meaning, whose vectors are gone, from the table."""
    found = seen.measures.shares()
    for entry in config.get("metric_list") or ():
        part = str(entry.get("metric", "")).removeprefix("var_")
        if part not in PARTS or entry.get("of", "meaning") != "meaning":
            continue
        name = entry.get("name", entry["metric"])
        row_of_name = next((one for one in shown if one.metric == name), None)
        if row_of_name is not None and row_of_name.value is not None:
            share_and_error = (row_of_name.value, row_of_name.stderr)
            found.setdefault("meaning", {})[part] = share_and_error
    return {measure: found[measure] for measure in MEASURES if measure in found}


def _facts(evaluation: Evaluation, task: str, seen: _Seen) -> dict[str, str]:
    content = evaluation.content
    config = content.get("configs", {}).get(task, {})
    run = content.get("config", {})
    own = (config.get("metadata") or {}).get("lmrel") or {}
    counts = content.get("n-samples", {}).get(task, {})
    items = f"{counts.get('effective', len(seen.keys))} of {counts.get('original', '?')}"
    conditions = [
        str(one.get("name") if isinstance(one, Mapping) else one)
        for one in own.get("conditions") or ()
    ]
    facts: dict[str, Any] = {
        "Model": evaluation.model,
        "Backend": run.get("model"),
        "Model arguments": run.get("model_args"),
        "Date": evaluation.date,
        "Data": " ".join(str(config.get(key) or "") for key in ("dataset_path", "dataset_name"))
        or config.get("dataset_kwargs"),
        "Items": items,
        "Repeats": config.get("repeats"),
        "Runs": f"{seen.runs:,}, {seen.missing:,} missing" if seen.runs else None,
        "Generated tokens": f"{seen.tokens:,.0f}" if seen.tokens else None,
        "Conditions": ", ".join(conditions),
        "Generation": config.get("generation_kwargs"),
        "Filters": " | ".join(
            " → ".join(_step(step) for step in one.get("filter", ()))
            for one in config.get("filter_list") or ()
        ),
        "Few-shot examples": content.get("n-shot", {}).get(task),
        "Stopping rule": own.get("stopping"),
        "Definitions": own.get("preset"),
        "Seeds": {
            key: run[key] for key in ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
            if run.get(key) is not None
        },
        "Chat template": (content.get("chat_template_sha") or "")[:12],
        "System instruction": content.get("system_instruction"),
        "Task version": content.get("versions", {}).get(task),
        "Device asked for": run.get("device"),
        "Data type": run.get("model_dtype"),
        "Software": ", ".join(
            f"{name} {content[key]}"
            for name, key in (
                ("lm_eval", "lm_eval_version"), ("transformers", "transformers_version"),
            )
            if content.get(key)
        ),
        "Results file": evaluation.path.name,
    }  # fmt: skip
    return {key: _plain(value) for key, value in facts.items() if _plain(value)}


def _step(step: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in step.items() if key != "function" and value is not None}
    return f"{step.get('function')}({_plain(rest)})" if rest else str(step.get("function"))


def _plain(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_inner(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(_inner(one) for one in value)
    return str(value).strip()


def _inner(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_inner, value))}]"
    # Quotes only where white space would not be seen.
    return repr(value) if isinstance(value, str) and value.split() != [value] else _plain(value)
