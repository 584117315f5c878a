"""Documents of the clinical tasks, and how a free-text diagnosis is judged right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict, load_dataset

from lmrel_tasks.data import read_jsonl

CASES = "lmrel/clinical_cases"
CORRECTNESS = ("canonical", "embedding", "judge")

_ASKS_DIAGNOSIS = re.compile(
    r"(?:which of the following|what)(?: diagnos[ei]s)?"
    r"(?: (?:is|are|would be))?(?: the| this| his| her)?(?: patient['’]s)? most likely"
    r"(?: diagnosis)?(?: (?:in|of|for) (?:this|the) (?:patient|case))?[?:.\"” ]*$",
    re.I,
)
_AMONG = re.compile(r"which of the following(?P<named> diagnos[ei]s)?(?= )", re.I)


def clinical_cases(cases: str | None = None, **_: Any) -> DatasetDict:
    """The cases of `lmrel/clinical_cases`, or a user's own.

    Used as ``custom_dataset``; the harness passes what ``--metadata`` gives.

    Args:
        cases: JSONL file of objects with ``id``, ``case`` (the text) and ``diagnosis`` (a text or
            a list of acceptable ones).

    Raises:
        FileNotFoundError, ValueError: naming the file, the line and the field.
    """
    if cases is None:
        return load_dataset(CASES)
    path = Path(cases)
    if not path.is_file():
        raise FileNotFoundError(f"--metadata cases={cases}: no such file")
    rows, seen = read_jsonl(path), set()
    for number, row in enumerate(rows, start=1):
        where = f"{path}, item {number}"
        for field in ("id", "case", "diagnosis"):
            if field not in row or row[field] in ("", None, []):
                raise ValueError(f"{where}: field {field} is missing; give id, case and diagnosis")
        if str(row["id"]) in seen:
            raise ValueError(f"{where}: field id: {row['id']!r} is there twice")
        seen.add(str(row["id"]))
        if not isinstance(row["case"], str):
            raise ValueError(f"{where}: field case must be a text, not {row['case']!r:.60}")
        given = row["diagnosis"] if isinstance(row["diagnosis"], list) else [row["diagnosis"]]
        if not all(isinstance(one, str) and one.strip() for one in given):
            raise ValueError(
                f"{where}: field diagnosis must be a text or a list of texts, not "
                f"{row['diagnosis']!r:.60}"
            )
        row["diagnosis"] = given
        row["id"] = str(row["id"])
    kept = [{key: row[key] for key in ("id", "case", "diagnosis")} for row in rows]
    return DatasetDict({"test": Dataset.from_list(kept)})


def medqa_cases(docs: Dataset) -> Dataset:
    """MedQA questions that ask for the most likely diagnosis, as open questions.

    The options go; "Which of the following is ...?" becomes "What is ...?".

    Returns:
        documents with ``case`` and ``diagnosis``.
    """
    asked = docs.filter(lambda doc: asks_diagnosis(doc["question"]))
    return asked.map(
        lambda doc: {"case": opened(doc["question"]), "diagnosis": doc["answer"].strip(' \n"“”')},
        remove_columns=docs.column_names,
    )


def asks_diagnosis(question: str) -> bool:
    """True if the question ends by asking for the most likely diagnosis, and for nothing else."""
    last = _last_sentence(question)
    return "diagnos" in last.lower() and _ASKS_DIAGNOSIS.search(last) is not None


def opened(question: str) -> str:
    """The question without mention of options."""
    last = _last_sentence(question)
    head = question.strip().removesuffix(last)
    what = lambda match: "What diagnosis" if match["named"] else "What"
    return (head + _AMONG.sub(what, last).rstrip(' "”\n')).strip()


def _last_sentence(question: str) -> str:
    text = question.strip()
    starts = [match.end() for match in re.finditer(r"[.?!]\s+|\n", text) if match.end() < len(text)]
    return text[starts[-1] :] if starts else text


def with_correctness(
    task: str, metadata: Mapping[str, Any] | None, filter_list: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The filters under the task's ``metadata.correctness``, which names them in the results.

    ``canonical`` (equal canonical diagnoses), ``embedding`` (cosine of the diagnoses at least
    ``metadata.threshold``), or ``judge`` (the model at ``metadata.judge``, called
    ``metadata.judge_model``, says that both mean the same). A results row then reads
    ``acc,embedding``. Set it with ``--metadata correctness=embedding threshold=0.8``.

    Args:
        task: the task's name, for messages.
        metadata: the task's metadata; without ``correctness`` nothing changes.
        filter_list: the task's filters; ``answer`` steps are followed by the comparison.

    Raises:
        ValueError: for another method, or a judge without an address.
    """
    filters = [deepcopy(dict(one)) for one in filter_list]
    given = metadata or {}
    method = given.get("correctness")
    if method is None:
        return filters
    if method not in CORRECTNESS:
        raise ValueError(
            f"task {task}: metadata.correctness must be one of {', '.join(CORRECTNESS)}, "
            f"got {method!r}"
        )
    step: dict[str, Any] = {
        "function": "cluster", "kind": method, "target": "diagnosis", "question": "case",
    }  # fmt: skip
    if method == "judge":
        if not given.get("judge"):
            raise ValueError(
                f"task {task}: metadata.correctness judge needs metadata.judge, the address of an "
                "OpenAI-compatible endpoint or a harness model"
            )
        step |= {"judge": given["judge"], "model": given.get("judge_model")}
    elif given.get("threshold") is not None:
        step["threshold"] = given["threshold"]
    for pipeline in filters:
        pipeline["name"] = method
        if method != "canonical":
            steps = list(pipeline.get("filter", ()))
            at = [n for n, one in enumerate(steps) if one.get("function") == "answer"]
            pipeline["filter"] = [*steps[: at[-1] + 1], step, *steps[at[-1] + 1 :]] if at else steps
    return filters
