"""Result folders as the harness writes them, from per-item values, for tests."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_results(
    folder: Path,
    model: str,
    values: Mapping[str, Sequence[float | None]],
    *,
    task: str = "t",
    date: str = "2026-01-01T00-00-00.000000",
    first_item: int = 0,
    samples: bool = True,
    reported: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    version: int = 1,
    prompt: str = "Question {i}",
    docs: Sequence[Mapping[str, Any]] | None = None,
    filter: str = "none",
    higher_is_better: bool | None = True,
) -> Path:
    """One evaluation of one task; returns the results file.

    ``values`` maps a metric to its value per item; the reported number is their mean unless
    ``reported`` (keys as in a results file, ``acc,none``) says otherwise.
    """
    place = folder / model.replace("/", "__")
    place.mkdir(parents=True, exist_ok=True)
    n = len(next(iter(values.values())))
    row: dict[str, Any] = {"alias": task, "name": task, "sample_len": n}
    for metric, column in values.items():
        known = np.array([x for x in column if x is not None], dtype=float)
        row[f"{metric},{filter}"] = float(known.mean())
        row[f"{metric}_stderr,{filter}"] = float(known.std(ddof=1) / len(known) ** 0.5)
    row |= dict(reported or {})
    content = {
        "results": {task: row},
        "configs": {
            task: {
                "task": task, "doc_to_text": prompt, "repeats": 1,
                "generation_kwargs": {"temperature": 0.7, "max_gen_toks": 32}, **(config or {}),
            }
        },
        "versions": {task: version},
        "n-shot": {task: 0},
        "higher_is_better": {task: {metric: higher_is_better for metric in values}},
        "n-samples": {task: {"original": n, "effective": n}},
        "config": {"model": "hf", "limit": None, "random_seed": 0, "torch_seed": 1, **(run or {})},
        "lm_eval_version": "0.4.13",
        "model_name": model,
    }  # fmt: skip
    path = place / f"results_{date}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    if samples:
        with (place / f"samples_{task}_{date}.jsonl").open("w", encoding="utf-8") as file:
            for i in range(n):
                doc = dict(docs[i]) if docs else {"id": first_item + i}
                asked = prompt.format(i=first_item + i)
                line = {
                    "doc_id": i, "doc": doc, "target": str(i),
                    "arguments": {"gen_args_0": {"arg_0": asked, "arg_1": {}}},
                    "resps": [["x"]], "filtered_resps": ["x"], "filter": filter,
                    "metrics": list(values), "doc_hash": digest(json.dumps(doc)),
                    "prompt_hash": digest(asked), "target_hash": digest(str(first_item + i)),
                    **{metric: column[i] for metric, column in values.items()},
                }  # fmt: skip
                file.write(json.dumps(line) + "\n")
    return path
