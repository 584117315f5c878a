"""What the shipped benchmark tasks do to their documents before asking them (``process_docs``)."""

from __future__ import annotations

import hashlib
import logging
import random
import re
from functools import cache
from typing import Any

from datasets import Dataset

log = logging.getLogger(__name__)

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_OPTION = re.compile(r"^\(([A-Z])\) ?(.*)$", re.M)
_LETTER = re.compile(r"\(([A-Z])\)\Z")


def truthfulqa_letters(docs: Dataset) -> Dataset:
    """TruthfulQA's single-answer form (mc1) as lettered options in random order.

    The published lists put the right answer first. Each item's order is drawn from a seed of its
    own, a hash of the question, so it depends neither on the item's place nor on the machine.

    Returns:
        documents with ``question``, ``choices`` (the options in their order) and ``answer`` (the
        letter of the right one).
    """
    return docs.map(_shuffled, remove_columns=docs.column_names)


def _shuffled(doc: dict[str, Any]) -> dict[str, Any]:
    listed, right = doc["mc1_targets"]["choices"], list(doc["mc1_targets"]["labels"]).index(1)
    order = list(range(len(listed)))
    seed = hashlib.sha256(doc["question"].encode("utf-8")).digest()
    random.Random(int.from_bytes(seed[:8], "big")).shuffle(order)
    return {
        "question": doc["question"],
        "choices": [listed[at] for at in order],
        "answer": LETTERS[order.index(right)],
    }


def bbh_lettered(docs: Dataset) -> Dataset:
    """BIG-Bench Hard items with lettered options: adds ``choices``, the texts of the options.

    Items whose target is none of their letters are dropped, and the log says how many: commas
    within option texts broke three items of the published data (one of movie_recommendation, two
    of ruin_names).
    """
    read = docs.map(_with_choices)
    kept = read.filter(_has_lettered_target)
    if len(kept) < len(read):
        _tell(docs._fingerprint, len(read) - len(kept), len(read))
    return kept


@cache
def _tell(fingerprint: str, dropped: int, total: int) -> None:
    # The harness asks for the documents several times.
    log.warning(
        "%d of %d items have a target that is none of their options; they are left out",
        dropped,
        total,
    )


def _with_choices(doc: dict[str, Any]) -> dict[str, Any]:
    found = _OPTION.findall(doc["input"])
    in_order = [letter for letter, _ in found] == list(LETTERS[: len(found)])
    return {"choices": [text.strip() for _, text in found] if in_order else []}


def _has_lettered_target(doc: dict[str, Any]) -> bool:
    letter = _LETTER.match(doc["target"])
    return letter is not None and letter.group(1) in LETTERS[: len(doc["choices"])]
