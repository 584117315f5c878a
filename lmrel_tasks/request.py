"""The request that the task sends: one item under one condition, asked R times."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.utils import handle_non_serializable

from lmrel_tasks.run import Run
from lmrel_tasks.settings import Settings

REQUEST_TYPE = "sample_until"
NOT_DRAWN = "not_drawn"


@dataclass(frozen=True)
class Plan:
    """How a request is drawn, beyond the harness's generation settings.

    Attributes:
        task: the task's name.
        item: stable identity of the document.
        condition: the condition's name.
        seed: the seed of the study; each run derives its own.
        settings: the task's plugin settings.
        kind: kind of canonical answer, for stopping rules; None without an answer filter.
        choices: the item's answer options, if the answer filter uses them.
        first_tokens: whether the candidates of the first token are kept with the run.
    """

    task: str
    item: str
    condition: str
    seed: int
    settings: Settings
    kind: str | None = None
    choices: tuple[str, ...] | None = None
    first_tokens: bool = False


@dataclass
class SampleRequest(Instance):
    """A harness instance that also says how its runs are drawn."""

    plan: Plan | None = field(default=None, repr=False)

    lost: list[Run] = field(default_factory=list, repr=False)

    def set_missing_aside(self) -> None:
        """Leave only runs that arrived for the filters, unless none did.

        Runs that a stopping rule left out are forgotten; missing ones are kept in ``lost``.
        """
        asked: list[Run] = [run for run in self.resps if run.finish_reason != NOT_DRAWN]
        arrived = [run for run in asked if not run.missing]
        self.resps: list[Run] = arrived or asked
        self.lost = [run for run in asked if run.missing] if arrived else []


def item_key(doc: Mapping[str, Any]) -> str:
    """Stable identity of a document: a hash of its content, whatever its place in the data.

    Raises:
        TypeError: for a value without a stable content, naming its type.
    """
    try:
        text = json.dumps(doc, sort_keys=True, default=_content, ensure_ascii=False)
    except TypeError as error:
        if "not supported between" not in str(error):
            raise
        # Keys of several types, which JSON would turn into text anyway.
        named = {str(key): value for key, value in doc.items()}
        text = json.dumps(named, sort_keys=True, default=_content, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _content(value: Any) -> Any:
    """JSON for what documents hold besides JSON: by content, never by place in memory."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (bytes, bytearray)):
        return hashlib.sha256(value).hexdigest()
    if hasattr(value, "tobytes"):  # an image or an array
        kind = [str(getattr(value, name, "")) for name in ("mode", "size", "dtype", "shape")]
        return [*kind, hashlib.sha256(value.tobytes()).hexdigest()]
    plain = handle_non_serializable(value)
    if isinstance(plain, str) and " at 0x" in plain:
        raise TypeError(
            f"a document holds a {type(value).__name__}, which has no stable content; "
            "leave the field out with process_docs"
        )
    return plain
