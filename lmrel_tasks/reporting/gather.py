"""What a report shows of one task of one evaluation, read from the harness's files in one pass."""

from __future__ import annotations

import heapq
import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lmrel_tasks.metrics.item import Item
from lmrel_tasks.metrics.variance_metrics import PARTS
from lmrel_tasks.reporting.columns import SCALARS, Measures, Ranks
from lmrel_tasks.reporting.headline import Headline, headlines
from lmrel_tasks.results import Evaluation, item_of, samples_of

log = logging.getLogger(__name__)

MEASURES = ("meaning", *SCALARS)
PROMPT_TAIL = 600
_QUESTIONS = ("question", "problem", "query", "input", "case", "text", "prompt", "goal", "sentence")


@dataclass(frozen=True)
class RunText:
    """The runs of a cell that have the same text.

    Attributes:
        text: their text.
        count: how many they are.
        answer: their canonical answer.
        right: whether it is acceptable; None without a label.
        notes: finish reason, tokens and certainty, in words.
    """

    text: str
    count: int
    answer: str
    right: bool | None
    notes: str


@dataclass(frozen=True)
class ItemView:
    """An item of the list: its question, labels and runs.

    Attributes:
        key: identity of the document.
        instability: probability that two of its runs, of whatever condition, answer differently.
        distinct: number of different texts.
        runs: number of runs.
        missing: runs that could not be had.
        labels: acceptable answers; None if unknown.
        title: its question, in short.
        prompt: the end of the first condition's prompt.
        cells: per condition its name and its texts, the most frequent first.
    """

    key: str
    instability: float
    distinct: int
    runs: int
    missing: int
    labels: tuple[str, ...] | None
    title: str
    prompt: str
    cells: tuple[tuple[str, tuple[RunText, ...]], ...]


@dataclass(frozen=True)
class TaskReport:
    """One task of one evaluation.

    Attributes:
        model, task: names.
        facts: what was run and how: label -> value.
        headlines: the rows of the results table.
        keys: identities of the items, in order.
        values: ``metric,filter`` -> (items,) values, NaN where an item has none.
        scores: (labelled items,) rank of the best acceptable answer, inf if never sampled.
        classes: (labelled items,) number of different answers.
        repeats: largest number of runs of a cell.
        shares: measure -> part of the variance -> (percentage, standard error or None).
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
    items: tuple[ItemView, ...]
    n_items: int
    notes: tuple[str, ...]


@dataclass
class _Seen:
    keys: list[str] = field(default_factory=list)
    values: dict[str, dict[str, float]] = field(default_factory=dict)
    ranks: Ranks = field(default_factory=Ranks)
    measures: Measures = field(default_factory=Measures)
    heap: list[tuple[float, int, int, ItemView]] = field(default_factory=list)
    repeats: int = 0
    runs: int = 0
    missing: int = 0
    tokens: float = 0.0
    filter_name: str = ""


def gather(evaluation: Evaluation, task: str, max_items: int = 500) -> TaskReport:
    """Read one task.

    Args:
        evaluation: the harness's results.
        task: name of a leaf task.
        max_items: how many of the least stable items keep their texts.
    """
    notes: list[str] = []
    seen = _Seen()
    try:
        for sample in _samples(evaluation, task):
            _take(seen, sample, max_items)
    except FileNotFoundError as error:
        notes.append(f"Only the table can be shown: {error}.")
    keys = tuple(seen.keys)
    values = {
        name: np.array([row.get(key, math.nan) for key in keys])
        for name, row in seen.values.items()
    }
    shown = tuple(headlines(evaluation, task, values))
    return TaskReport(
        model=evaluation.model,
        task=task,
        facts=_facts(evaluation, task, seen),
        headlines=shown,
        keys=keys,
        values=values,
        scores=seen.ranks.found(),
        classes=np.array(seen.ranks.classes),
        repeats=seen.repeats,
        shares=_shares(seen, shown, evaluation.content.get("configs", {}).get(task, {})),
        items=tuple(entry[-1] for entry in sorted(seen.heap, reverse=True)),
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


def _take(seen: _Seen, sample: Mapping[str, Any], max_items: int) -> None:
    item: Item = sample["_item"]
    filter_name = str(sample.get("filter", "none"))
    for metric in sample.get("metrics") or ():
        value = sample.get(metric)
        if isinstance(value, (int, float)):
            seen.values.setdefault(f"{metric},{filter_name}", {})[item.key] = float(value)
        else:
            seen.values.setdefault(f"{metric},{filter_name}", {})
    if seen.keys and filter_name != seen.filter_name:
        return  # the same documents once more, behind another filter
    seen.filter_name = filter_name
    seen.keys.append(item.key)
    seen.repeats = max([seen.repeats, *(len(one.texts) for one in item.conditions)])
    seen.runs += sum(len(one.texts) for one in item.conditions)
    seen.missing += sum(one.missing for one in item.conditions)
    seen.tokens += sum(t for one in item.conditions for t in one.tokens.tolist() if t == t)
    seen.ranks.add(item)
    seen.measures.add(item)
    _keep(seen, item, sample, max_items)


def _keep(seen: _Seen, item: Item, sample: Mapping[str, Any], max_items: int) -> None:
    answers = [answer for one in item.conditions for answer in one.answers]
    texts = {text for one in item.conditions for text in one.texts}
    instability = _disagreement(answers)
    order = (instability, len(texts), -len(seen.keys))
    full = len(seen.heap) >= max_items
    if full and (not seen.heap or order <= seen.heap[0][:3]):
        return
    view = ItemView(
        key=item.key,
        instability=instability,
        distinct=len(texts),
        runs=len(answers),
        missing=sum(one.missing for one in item.conditions),
        labels=item.labels if item.has_label else None,
        title=_title(sample),
        prompt=_prompt(sample),
        cells=tuple(
            (one.name, _grouped(item, number)) for number, one in enumerate(item.conditions)
        ),
    )
    (heapq.heapreplace if full else heapq.heappush)(seen.heap, (*order, view))


def _disagreement(answers: list[str]) -> float:
    n = len(answers)
    if n < 2:
        return 0.0
    same = sum(count * (count - 1) for count in Counter(answers).values())
    return 1.0 - same / (n * (n - 1))


def _grouped(item: Item, number: int) -> tuple[RunText, ...]:
    one = item.conditions[number]
    if not one.texts and one.probabilities is not None:
        named = zip(item.options, one.probabilities, strict=True)
        answer = one.answers[0] if one.answers else ""
        right = item.is_right(answer) if item.has_label else None
        text = "\n".join(f"{share:.4f}  {option}" for option, share in named)
        return (RunText(text, 1, answer, right, "option probabilities"),)
    places: dict[str, list[int]] = {}
    for at, text in enumerate(one.texts):
        places.setdefault(text, []).append(at)
    answers = {answer: one.answers.count(answer) for answer in one.answers}
    ordered = sorted(
        places.items(), key=lambda pair: (-answers[one.answers[pair[1][0]]], -len(pair[1]))
    )
    return tuple(
        RunText(
            text=text,
            count=len(at),
            answer=one.answers[at[0]],
            right=item.is_right(one.answers[at[0]]) if item.has_label else None,
            notes=_notes(float(one.tokens[at[0]]), float(np.nanmean(one.certainty[at])))
            if np.isfinite(one.certainty[at]).any()
            else _notes(float(one.tokens[at[0]]), math.nan),
        )
        for text, at in ordered
    )


def _notes(tokens: float, certainty: float) -> str:
    parts = [f"{tokens:.0f} tokens"] if math.isfinite(tokens) else []
    parts += [f"certainty {certainty:.2f}"] if math.isfinite(certainty) else []
    return ", ".join(parts)


def _title(sample: Mapping[str, Any]) -> str:
    """The question as the document has it, or the end of the prompt."""
    doc = sample.get("doc")
    fields = doc if isinstance(doc, Mapping) else {}
    named = [fields[name] for name in _QUESTIONS if isinstance(fields.get(name), str)]
    return " ".join((named[0] if named else _prompt(sample)[-160:]).split())[:160]


def _prompt(sample: Mapping[str, Any]) -> str:
    asked = sample.get("arguments")
    first: Any = asked.get("gen_args_0", {}).get("arg_0") if isinstance(asked, Mapping) else None
    text = first if isinstance(first, str) else json.dumps(sample.get("doc"), ensure_ascii=False)
    return text if len(text) <= PROMPT_TAIL else "…" + text[-PROMPT_TAIL:]


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
        "Device and type": " ".join(str(run.get(key) or "") for key in ("device", "model_dtype")),
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
