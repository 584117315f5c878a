"""What the samples file shows of an item: its metric values, and a record of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    samples are written. So they are made when they are read, by name or by ``items()``, as JSON
    encoders do, and not kept. Nor are the runs, whose texts the harness replaces by plain ones.

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

    def items(self) -> Any:
        return {**self, "runs": self["runs"]}.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items()) == dict(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()),)
