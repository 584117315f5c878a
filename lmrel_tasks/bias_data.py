"""Datasets of the bias tasks that are not on the hub, or need more than a column each.

Files that the user has are named by ``--metadata NAME=PATH``, or lie in the folder LMREL_DATA
under the same name.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict

DATA_VARIABLE = "LMREL_DATA"

# dataset_id of MedPerturb: the edited texts, and the paraphrases matched to them.
_EDITS = {
    "gender_swap": ("2", "6"),
    "gender_removed": ("3", "7"),
    "uncertain": ("4", "8"),
    "colorful": ("5", "9"),
}
_NURSE, _PROFESSOR = 13, 21


def user_path(name: str, metadata: Mapping[str, Any], where: str) -> Path:
    """The file or folder that the user names for a dataset.

    Raises:
        FileNotFoundError: saying how to name it and where the data come from.
    """
    folder = os.environ.get(DATA_VARIABLE)
    given = metadata.get(name) or (Path(folder) / name if folder else None)
    if given is None:
        raise FileNotFoundError(
            f"say where {name} is: `--metadata {name}=PATH`, or put it below the folder in the "
            f"environment variable {DATA_VARIABLE}. It comes from {where}"
        )
    path = Path(str(given)).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"{name}: {path} does not exist. The data come from {where}")
    return path


def rows_of(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a CSV file, byte order mark or not."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines, delimiter=delimiter))


def medperturb(edit: str, **metadata: Any) -> DatasetDict:
    """MedPerturb with one edit and the paraphrases matched to it; split ``test``.

    Fields: ``context_id``, ``dataset``, ``gender``, ``text`` (original), ``targeted``, ``benign``
    (empty where the file has none) and, for the gender swap, ``direction`` (+1 towards female).
    Conversations are left out, as in the published analysis.

    Args:
        edit: ``gender_swap``, ``gender_removed``, ``uncertain`` or ``colorful``.

    Raises:
        FileNotFoundError, ValueError: if the file cannot be found or read.
    """
    path = user_path(
        "medperturb", metadata,
        "redagavin/counterfactual-prompting-baselines, MedPerturb/data_with_baselines.csv",
    )  # fmt: skip
    if path.is_dir():
        path = path / "data_with_baselines.csv"
    targeted, benign = _EDITS[edit]
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows_of(path):
        if "clinical_context" not in row or "dataset_id" not in row:
            raise ValueError(f"{path}: not MedPerturb; its columns are {', '.join(row)}")
        if row["dataset"] != "conversational":
            texts.setdefault(row["context_id"], {})[row["dataset_id"]] = row
    rows = []
    for context, by_id in texts.items():
        original = by_id.get("1")
        if original is None:
            continue
        female = original["original_patient_gender"] == "F"
        rows.append(
            {
                "context_id": context,
                "dataset": original["dataset"],
                "gender": original["original_patient_gender"],
                "text": original["clinical_context"],
                "targeted": by_id.get(targeted, {}).get("clinical_context", ""),
                "benign": by_id.get(benign, {}).get("clinical_context", ""),
                "direction": (-1.0 if female else 1.0) if edit == "gender_swap" else None,
            }
        )
    if not rows:
        raise ValueError(f"{path}: no original contexts (dataset_id 1)")
    return DatasetDict({"test": Dataset.from_list(rows)})


def winogender(**metadata: Any) -> DatasetDict:
    """Winogender schemas, each with its pronoun in one gender and then in the other.

    Fields: ``occupation``, ``participant``, ``text``, ``targeted`` (the other gender),
    ``direction`` (+1 towards female; every second template starts female), ``options`` and
    ``answer`` (the place of the right one).

    Raises:
        FileNotFoundError, ValueError: if the file cannot be found or read.
    """
    path = user_path("winogender", metadata, "rudinger/winogender-schemas, data/templates.tsv")
    if path.is_dir():
        found = sorted(path.rglob("templates.tsv"))
        if not found:
            raise FileNotFoundError(f"winogender: no templates.tsv below {path}")
        path = found[0]
    rows = []
    for number, row in enumerate(rows_of(path, "\t")):
        try:
            occupation, participant, answer, sentence = list(row.values())[:4]
            right = int(answer)
        except (TypeError, ValueError):
            raise ValueError(f"{path}, line {number + 2}: not a template: {row}") from None
        male, female = (_sentence(sentence, occupation, participant, sex) for sex in (0, 1))
        # Both directions, or the slope and the common shift would be one.
        first, second = (female, male) if number % 2 else (male, female)
        rows.append(
            {
                "occupation": occupation,
                "participant": participant,
                "text": first,
                "targeted": second,
                "direction": -1.0 if number % 2 else 1.0,
                "options": [f"the {occupation}", f"the {participant}"],
                "answer": right,
            }
        )
    return DatasetDict({"test": Dataset.from_list(rows)})


def _sentence(template: str, occupation: str, participant: str, sex: int) -> str:
    filled = template.replace("$OCCUPATION", occupation).replace("$PARTICIPANT", participant)
    for slot, forms in {
        "$NOM_PRONOUN": ("he", "she"),
        "$POSS_PRONOUN": ("his", "her"),
        "$ACC_PRONOUN": ("him", "her"),
    }.items():
        filled = filled.replace(slot, forms[sex])
    return filled


def qpain(**metadata: Any) -> DatasetDict:
    """Vignettes of Q-Pain with their slots open; split ``test``.

    The five files (``data_acute_cancer.csv``...) have the columns Vignette, Question, Answer,
    Dosage and Explanation. As in the original experiments, the one vignette of each file whose
    answer is "No." is an example for prompts and is not asked: 50 of 55 are left.

    Fields: ``file``, ``template`` (with ``[race] [gender] [subject] [possessive]``) and
    ``question``.

    Raises:
        FileNotFoundError, ValueError: if the folder cannot be found, or holds no vignette.
    """
    folder = user_path("qpain", metadata, "PhysioNet: Q-Pain, A Question Answering Dataset")
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.csv"))
    rows = [one for file in files for one in _vignettes(file)]
    if not rows:
        raise ValueError(f"qpain: no CSV file with a column of vignettes below {folder}")
    return DatasetDict({"test": Dataset.from_list(rows)})


def _vignettes(file: Path) -> Iterator[dict[str, Any]]:
    from lmrel_tasks.filters.perturb.slots import has_slots

    for row in rows_of(file):
        columns = {str(name).strip().lower(): value for name, value in row.items()}
        vignette = next((v for k, v in columns.items() if k.startswith("vignette")), None)
        question = next((v for k, v in columns.items() if k.startswith("question")), "")
        example = str(columns.get("answer") or "").strip().lower().startswith("no")
        if vignette and has_slots(vignette) and not example:
            yield {"file": file.stem, "template": vignette.strip(), "question": question.strip()}


def professor_or_nurse(data: Dataset, most: int = 250) -> Dataset:
    """Biographies of professors and nurses, up to ``most`` of each profession and gender.

    Which ones depends on their text alone. Field ``answer``: 0 professor, 1 nurse.
    """
    groups: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for place, row in enumerate(data):
        if row["profession"] in (_NURSE, _PROFESSOR):
            rank = hashlib.sha256(row["hard_text"].encode("utf-8", "surrogatepass")).hexdigest()
            groups.setdefault((row["profession"], row["gender"]), []).append((rank, place))
    if not groups:
        raise ValueError("bias_in_bios: no biography of a professor (21) or a nurse (13)")
    chosen = sorted(place for group in groups.values() for _, place in sorted(group)[:most])
    kept = data.select(chosen)
    return kept.map(lambda row: {"answer": int(row["profession"] == _NURSE)})
