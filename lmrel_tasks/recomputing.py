"""Results recomputed from the runs in the sample files, and compared with what is reported."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from lmrel_tasks import embedder
from lmrel_tasks.conditions import read_conditions
from lmrel_tasks.edits import names_with
from lmrel_tasks.filters.embed import cell_vectors
from lmrel_tasks.harness_metrics import Aggregation
from lmrel_tasks.measures import METRICS, Metric
from lmrel_tasks.metric_rows import companions_of, rows_of
from lmrel_tasks.metrics.item import Item
from lmrel_tasks.rereading import KEEP_TEXTS, Rereader
from lmrel_tasks.results import Evaluation, samples_of
from lmrel_tasks.settings import Settings, read_settings

EXACT = 1e-9
# Embeddings in float32 differ between processors and batches in their last digits.
EMBEDDED = 1e-4
_BLOCK = 512

Verdict = Literal["equal", "differs", "cannot judge", "not recomputed"]


@dataclass(frozen=True)
class Check:
    """One thing that was recomputed.

    Attributes:
        task: task or group.
        what: the metric with its filter, or what else was looked at.
        verdict: ``not recomputed`` is for numbers of the harness that runs alone do not give.
        reported, recomputed: both values, in words.
        tolerance: largest difference that counts as equal, relative for values above 1.
        note: why, where it is not equal.
    """

    task: str
    what: str
    verdict: Verdict
    reported: str = ""
    recomputed: str = ""
    tolerance: float = 0.0
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A metric of a task as its YAML lists it.

    Attributes:
        metric: with its arguments filled in.
        embedded: True if it looks at embeddings.
    """

    metric: Metric
    embedded: bool


def listed_rows(task: str, config: Mapping[str, Any]) -> tuple[dict[str, Row], Settings]:
    """The metrics of this plugin that a task's stored configuration lists: name -> row.

    Raises:
        ValueError, TypeError, KeyError: if the configuration is not one of ours.
    """
    settings = read_settings(task, config.get("metadata"))
    conditions = read_conditions(task, settings.conditions, settings.text)
    targeted = names_with({c.name: c.edit for c in conditions if c.edit is not None}, "targeted")
    rows: dict[str, Row] = {}
    entries = [dict(one) for one in config.get("metric_list") or ()]
    listed = {one.get("name", one.get("metric")) for one in entries}
    for entry in entries:
        name = str(entry.get("metric"))
        if "aggregation" in entry or name not in METRICS:
            continue
        shown = str(entry.get("name", name))
        arguments = {
            key: value
            for key, value in entry.items()
            if key not in ("metric", "name", "higher_is_better", "per_condition")
        }
        metric = METRICS[name].bind(arguments)
        of_meaning = name.startswith("var_") and entry.get("of", "meaning") == "meaning"
        found = rows_of(
            shown, metric, [one.name for one in conditions], preset=settings.preset,
            k=settings.top_logprobs, per_condition=bool(entry.get("per_condition", True)),
            targeted=targeted,
        )  # fmt: skip
        for key, row in found.items():
            rows[key] = Row(row, of_meaning or "embeddings" in row.needs)
        for suffix in companions_of(metric.name):
            if f"{shown}{suffix}" not in listed:
                entries.append({**entry, "metric": f"{name}{suffix}", "name": f"{shown}{suffix}"})
    return rows, settings


def recompute(evaluation: Evaluation, embedding_model: str | None = None) -> Iterator[Check]:
    """Recompute every metric of an evaluation.

    Args:
        evaluation: results and samples.
        embedding_model: what to embed with, where the results name another model than the
            default; a name out of a foreign file is never loaded unasked.
    """
    for task in evaluation.tasks:
        try:
            yield from _task(evaluation, task, embedding_model)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OSError) as error:
            yield Check(task, "samples", "cannot judge", note=f"{type(error).__name__}: {error}")
    for group in evaluation.content.get("groups") or ():
        yield from _group(evaluation, group)


def _task(evaluation: Evaluation, task: str, model: str | None) -> Iterator[Check]:
    config = evaluation.content["configs"][task]
    ours = '"lmrel"' in json.dumps(config.get("metadata")) or config.get("repeats", 1) > 1
    rows, settings = listed_rows(task, config) if ours else ({}, Settings())
    reported = evaluation.content["results"][task]
    filters = _embedders(config, settings)
    encode, why = _encoder(filters, model)
    values: dict[str, list[Any]] = {}
    logged: dict[str, list[Any]] = {}
    wrong: dict[str, int] = {}
    hashes, lines = hashlib.sha256(), 0
    reread = Rereader(task, config, settings)
    samples = samples_of(evaluation, task)
    while block := list(islice(samples, _BLOCK)):
        cells = [reread.item(sample) for sample in block]
        if encode is not None:
            cells = _embedded(block, cells, filters, encode)
        for sample, item in zip(block, cells, strict=True):
            lines += 1
            parts = (sample.get(f"{x}_hash") for x in ("doc", "prompt", "target"))
            hashes.update("".join(map(str, parts)).encode())
            first = (sample.get("lmrel") or {}).get("first_round")
            for name in sample.get("metrics") or ():
                key = f"{name},{sample.get('filter', 'none')}"
                logged.setdefault(key, []).append(sample.get(name))
                row = rows.get(name)
                if row is None or (
                    row.embedded and (encode is None or sample.get("filter", "none") not in filters)
                ):
                    continue
                seen = item if row.metric.all_runs or first is None else item.first_runs(first)
                value = row.metric.per_item(seen)
                values.setdefault(key, []).append(value)
                if not _same(sample.get(name), value, EMBEDDED if row.embedded else EXACT):
                    wrong[key] = wrong.get(key, 0) + 1
    yield from reread.checks()
    yield from _counts(evaluation, task, lines, hashes.hexdigest())
    for key, value in reported.items():
        name, comma, filter_name = key.partition(",")
        if not comma or name.endswith("_stderr"):
            continue
        error = reported.get(f"{name}_stderr,{filter_name}")
        row = rows.get(name)
        if row is None:
            yield _stock(task, key, value, error, logged.get(key))
        elif row.embedded and encode is None:
            yield Check(task, key, "cannot judge", _shown(value), note=why)
        elif row.embedded and filter_name not in filters:
            note = "the samples do not show the texts that were embedded"
            yield Check(task, key, "not recomputed", _shown(value), note=note)
        else:
            yield _ours(task, key, row, value, error, values.get(key, []), wrong.get(key, 0))
    for key in logged:
        if key not in reported:
            yield Check(task, key, "differs", note="in the samples, but not in the results")


def _ours(
    task: str, key: str, row: Row, value: Any, error: Any, values: Sequence[Any], wrong: int
) -> Check:
    tolerance = EMBEDDED if row.embedded else EXACT
    if not values:
        return Check(task, key, "differs", _shown(value), note="the samples hold no such value")
    aggregation = Aggregation(row.metric)
    again, again_error = aggregation(values), aggregation.stderr(values)
    notes = []
    if wrong:
        notes.append(f"{wrong} items differ")
    if not _same(value, again, tolerance):
        notes.append("the value differs")
    # With --bootstrap_iters 0 the harness reports no errors at all.
    if error not in (None, "N/A") and not _same(error, again_error, tolerance):
        notes.append(f"the standard error differs: {_shown(error)} and {_shown(again_error)}")
    verdict: Verdict = "differs" if notes else "equal"
    return Check(task, key, verdict, _shown(value), _shown(again), tolerance, "; ".join(notes))


def _stock(task: str, key: str, value: Any, error: Any, logged: Sequence[Any] | None) -> Check:
    """A metric of the harness: the mean of its logged values, where that is what it is."""
    if not logged or not all(isinstance(one, (int, float)) for one in logged):
        return Check(task, key, "not recomputed", _shown(value), note="not a mean over items")
    numbers = np.array(logged, dtype=np.float64)
    again = math.fsum(numbers) / len(numbers)
    if _same(value, again, EXACT):
        spread = float(numbers.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else None
        if (
            isinstance(error, (int, float))
            and spread is not None
            and not _same(error, spread, 1e-6)
        ):
            return Check(
                task, key, "not recomputed", _shown(value), _shown(again), EXACT,
                "the value is the mean of the logged ones; its standard error is another kind",
            )  # fmt: skip
        note = "mean of the logged values"
        return Check(task, key, "equal", _shown(value), _shown(again), EXACT, note)
    known = key.partition(",")[0] in ("acc", "acc_norm", "exact_match")
    verdict: Verdict = "differs" if known else "not recomputed"
    return Check(task, key, verdict, _shown(value), _shown(again), EXACT,
                 "" if known else "not the mean of the logged values")  # fmt: skip


def _counts(evaluation: Evaluation, task: str, lines: int, digest: str) -> Iterator[Check]:
    said = (evaluation.content.get("n-samples") or {}).get(task, {}).get("effective")
    config = evaluation.content["configs"][task]
    several = len(config.get("filter_list") or ()) or 1
    if said is not None:
        same = lines == said * several
        yield Check(task, "number of items", "equal" if same else "differs",
                    str(said * several), str(lines))  # fmt: skip
    whole = (evaluation.content.get("task_hashes") or {}).get(task)
    if whole is not None:
        same = digest == whole
        yield Check(task, "hash of all items", "equal" if same else "differs", whole[:12],
                    digest[:12])  # fmt: skip


def _group(evaluation: Evaluation, group: str) -> Iterator[Check]:
    """A group's values are means of its tasks' reported ones, by size or not."""
    results = evaluation.content["results"]
    children = evaluation.content.get("group_subtasks") or {}
    leaves: list[str] = []
    open_ = list(children.get(group, ()))
    while open_ and len(leaves) < 10_000:
        name = open_.pop(0)
        if children.get(name):
            open_ += children[name]
        else:
            leaves.append(name)
    for key, value in evaluation.content["groups"][group].items():
        name, comma, _ = key.partition(",")
        if not comma or name.endswith("_stderr"):
            continue
        pairs = [
            (results[leaf][key], results[leaf].get("sample_len", 1))
            for leaf in leaves
            if isinstance(results.get(leaf, {}).get(key), (int, float))
        ]
        if not pairs:
            yield Check(group, key, "differs", _shown(value), note="none of its tasks has it")
            continue
        numbers, sizes = np.array(pairs, dtype=np.float64).T
        means = (float(np.average(numbers, weights=sizes)), float(numbers.mean()))
        same = any(_same(value, one, EXACT) for one in means)
        yield Check(group, key, "equal" if same else "differs", _shown(value), _shown(means[0]),
                    EXACT, "mean of its tasks")  # fmt: skip


# Embeddings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Embedder:
    """What a list of filters embeds.

    Attributes:
        model: with which model; None for the default.
        raw: True for the runs as drawn, since later filters change the texts that are shown.
    """

    model: str | None
    raw: bool


def _embedders(config: Mapping[str, Any], settings: Settings) -> dict[str, _Embedder]:
    """The lists of filters that embed texts which the samples file still has."""
    found = {}
    for one in config.get("filter_list") or ():
        steps = list(one.get("filter", ()))
        names = [step.get("function") for step in steps]
        if "embed" not in names:
            continue
        at = names.index("embed")
        raw = not KEEP_TEXTS.issuperset(names[at:])
        if raw and not KEEP_TEXTS.issuperset(names[:at]):
            continue
        found[str(one.get("name"))] = _Embedder(steps[at].get("model", settings.embedder), raw)
    return found


def _encoder(filters: Mapping[str, _Embedder], model: str | None) -> tuple[Any, str]:
    if not filters:
        return None, "no filter embeds texts that the samples show"
    models = {one.model for one in filters.values()}
    named = {one for one in models if one not in (None, embedder.DEFAULT_MODEL)}
    if named and model is None:
        return None, f"embedded with {', '.join(map(str, named))}; give it by --embedder"
    try:
        return embedder.encoder(model), ""
    except RuntimeError as error:
        return None, str(error)


def _embedded(
    samples: Sequence[Mapping[str, Any]],
    items: Sequence[Item],
    filters: Mapping[str, _Embedder],
    encode: Any,
) -> list[Item]:
    texts = [
        cell
        for sample, item in zip(samples, items, strict=True)
        for cell in _embedded_texts(sample, item, filters.get(sample.get("filter", "none")))
    ]
    vectors = iter(cell_vectors(texts, encode))
    return [
        replace(
            item,
            conditions=tuple(replace(one, embeddings=next(vectors)) for one in item.conditions),
        )
        for item in items
    ]


def _embedded_texts(
    sample: Mapping[str, Any], item: Item, embedded: _Embedder | None
) -> list[Sequence[str]]:
    """Per condition, the texts that were embedded."""
    shown: list[Sequence[str]] = [one.texts for one in item.conditions]
    if embedded is None:
        return [() for _ in shown]
    drawn = sample.get("resps") or ()
    if embedded.raw and list(map(len, drawn)) == list(map(len, shown)):
        return [[str(text) for text in cell] for cell in drawn]
    return shown


# Numbers ---------------------------------------------------------------------------------------


def _same(reported: Any, again: Any, tolerance: float) -> bool:
    if reported is None or again is None or isinstance(reported, str) or isinstance(again, str):
        return _word(reported) == _word(again)
    if math.isnan(reported) or math.isnan(again):
        return math.isnan(reported) and math.isnan(again)
    if math.isinf(reported) or math.isinf(again):
        return float(reported) == float(again)
    return abs(reported - again) <= tolerance * max(1.0, abs(reported))


def _word(value: Any) -> str:
    return "N/A" if value is None else str(value)


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else _word(value)
