"""What the samples file shows of an item: its metric values, and a record of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lmrel_tasks.run import Run, captures_of


class SampleRow(dict[str, Any]):
    """An item's metric values, with a record that only the samples file shows.

    The harness writes the whole mapping into the samples file and aggregates what ``items()``
    lists, so the record is kept out of ``items()`` and ``keys()``. So are listed metrics without a
    row of their own name, which the harness's W&B logger looks for in every sample.
    """

    def __init__(
        self, values: Mapping[str, Any], record: Mapping[str, Any], listed: Sequence[str] = ()
    ) -> None:
        super().__init__({**dict.fromkeys(listed), **values, "lmrel": record})
        self._metrics = dict(values)

    def items(self) -> Any:
        return self._metrics.items()

    def keys(self) -> Any:
        return self._metrics.keys()


class RunsRecord(dict[str, Any]):
    """What the samples file says of an item, its runs under ``runs``: a list for each condition.

    The rows of all runs would take more memory than the runs, and the harness keeps them until the
    samples are written. So they are made when they are read, in whatever way, and not kept. Nor are
    the runs, whose texts the harness replaces by plain ones. A ``dict``, so that JSON encoders take
    it, whose methods are those of `Mapping` over all entries.

    Args:
        facts: the other entries.
        cells: per condition, the runs.
    """

    def __init__(self, facts: Mapping[str, Any], cells: Iterable[Sequence[Run]]) -> None:
        super().__init__(facts)
        self._cells = [(captures_of(runs), [run.answer for run in runs]) for runs in cells]

    def __missing__(self, key: str) -> Any:
        if key != "runs":
            raise KeyError(key)
        return [
            [
                row if answer is None else {**row, "answer": answer}
                for row, answer in zip(captures.to_dicts(), answers, strict=True)
            ]
            for captures, answers in self._cells
        ]

    # Those of ``dict`` pass by what is made on demand.
    get: Any = Mapping.get
    keys: Any = Mapping.keys
    values: Any = Mapping.values
    items: Any = Mapping.items
    __eq__: Any = Mapping.__eq__
    __ne__: Any = object.__ne__

    def __iter__(self) -> Iterator[str]:
        yield from dict.__iter__(self)
        yield "runs"

    def __len__(self) -> int:
        return dict.__len__(self) + 1

    def __contains__(self, key: object) -> bool:
        return key == "runs" or dict.__contains__(self, key)

    def __repr__(self) -> str:
        return repr(dict(self))

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __or__(self, other: Any) -> dict[str, Any]:  # type: ignore[override]
        return dict(self) | other

    def __ror__(self, other: Any) -> dict[str, Any]:  # type: ignore[override]
        return other | dict(self)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
