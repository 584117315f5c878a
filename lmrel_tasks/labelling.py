"""People's labels: a page to give them on, and the file that they become."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from lmrel_tasks.filters.canonical import REFUSAL
from lmrel_tasks.labels import acceptable
from lmrel_tasks.repeats import Repeats, json_rows

FORMAT = 1
# Below this length a response is shown as it is; above, its answer, with the response folded.
SHORT = 160


def label_page(items: Sequence[Repeats], *, title: str, kind: str | None, seed: int = 0) -> str:
    """A self-contained HTML page on which a person marks the acceptable answers of every item.

    Answers come in an order drawn by `seed`, without frequencies. The page loads nothing from
    anywhere; its only script is the one here, which puts all texts in as text, and a content
    security policy lets no other run.

    Args:
        items: from `repeats.read_repeats` with texts kept.
        title: heading of the page.
        kind: kind of canonical answer, which the labels will carry.
    """
    data = {
        "format": FORMAT,
        "title": title,
        "kind": kind,
        "items": [_shown(item, seed) for item in items],
    }
    text = json.dumps(data)
    data["set"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    text = json.dumps(data)
    for mark in "<>&":  # no text can end the script element it lies in
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    page = files("lmrel_tasks").joinpath("label_page.html").read_text(encoding="utf-8")
    script = page[page.index("<script>") + len("<script>") : page.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return page.replace("{{SCRIPT_HASH}}", f"sha256-{digest}").replace("{{DATA}}", text)


def _shown(item: Repeats, seed: int) -> dict[str, Any]:
    answers = sorted({answer for answer in item.answers if answer})
    random.Random(f"{seed}|{item.key}").shuffle(answers)
    shown = []
    for answer in answers:
        text = item.texts.get(answer, answer).strip()
        brief = text if len(text) <= SHORT else answer
        if answer == REFUSAL:
            brief = "(declines to answer)"
        shown.append({"answer": answer, "shown": brief, "full": text if text != brief else ""})
    return {"id": item.key, "question": item.question or "", "answers": shown}


def imported(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Rows ``{"id", "gold", "kind"}`` from the files that the page saves.

    Raises:
        ValueError: for a file that the page did not write, and for two that disagree.
    """
    rows: dict[str, dict[str, Any]] = {}
    for path in paths:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not valid JSON ({error})") from None
        if not isinstance(saved, dict) or saved.get("lmrel_labels") != FORMAT:
            raise ValueError(f"{path}: not a file saved by the page of `lmrel label export`")
        for position, one in enumerate(saved.get("items") or ()):
            row = _row(one, saved.get("kind"), f"{path}, item {position}")
            before = rows.setdefault(row["id"], row)
            if set(before["gold"]) != set(row["gold"]) or before["kind"] != row["kind"]:
                raise ValueError(
                    f"{path}: item {row['id']!r} is labelled {row['gold']} here and "
                    f"{before['gold']} in another file; settle it, then import again"
                )
    if not rows:
        raise ValueError("no item is labelled yet")
    return list(rows.values())


def _row(one: Any, kind: Any, where: str) -> dict[str, Any]:
    gold = one.get("acceptable") if isinstance(one, dict) else None
    key = one.get("id") if isinstance(one, dict) else None
    if not isinstance(key, str):
        raise ValueError(f"{where}: field id: expected a text, got {key!r}")
    if not isinstance(gold, list) or not all(isinstance(text, str) and text for text in gold):
        raise ValueError(f"{where}: field acceptable: expected a list of answers, got {gold!r}")
    if bool(gold) == bool(one.get("none")):
        raise ValueError(f"{where}: needs either acceptable answers or `none`")
    return {"id": key, "gold": gold, "kind": kind}


def read_labels(path: Path, kind: str | None) -> dict[str, tuple[str, ...]]:
    """Labels from JSON lines ``{"id", "gold"}``, as `lmrel label import` writes them.

    Args:
        path: the file. ``gold`` is one acceptable answer or a list, [] if none is right. Lines with
            a field ``kind`` hold canonical answers; others go through the canonical function.
        kind: the kind of answers to compare them with.

    Raises:
        ValueError: naming file, line and field.
    """
    labels: dict[str, tuple[str, ...]] = {}
    text_kind = "text" if kind in ("embedding", "judge") else kind
    for number, row in json_rows(path):
        where = f"{path}, line {number}"
        key, gold = row.get("id"), row.get("gold")
        if isinstance(key, bool) or not isinstance(key, (str, int)):
            raise ValueError(f"{where}: field id: expected a text or an integer, got {key!r}")
        if str(key) in labels:
            raise ValueError(f"{where}: field id: {key!r} is labelled twice")
        if gold is None:
            raise ValueError(
                f"{where}: field gold is missing; give a list, [] if no answer is right, or leave "
                "the line out"
            )
        if "kind" in row:
            if row["kind"] != kind:
                raise ValueError(
                    f"{where}: field kind: these labels are for kind {row['kind']}, the answers "
                    f"are read as {kind}"
                )
            if not isinstance(gold, list) or not all(isinstance(one, str) and one for one in gold):
                raise ValueError(f"{where}: field gold: expected a list of answers, got {gold!r}")
            labels[str(key)] = tuple(gold)
            continue
        try:
            labels[str(key)] = acceptable(gold, text_kind) or ()
        except ValueError as error:
            raise ValueError(f"{where}: field gold: {error}") from None
    if not labels:
        raise ValueError(f"{path}: no labels")
    return labels
