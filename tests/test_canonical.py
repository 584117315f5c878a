"""Canonical answers: the contract file, a table of cases for each kind, properties, hostile input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lmrel_tasks.filters.canonical import canonical

CONTRACT = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "answers.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("row", CONTRACT, ids=lambda row: f"{row['kind']}-{row['raw'][:20]!r}")
def test_contract(row):
    assert canonical(row["raw"], row["kind"], row.get("choices")) == row["answer"]
