"""What a backend records about a run: by itself, and in columns for many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Capture:
    """What a backend recorded about one run. ``None`` means "not recorded", never zero.

    Means are taken over the tokens that count (those before the first stop string).

    Attributes:
        seed: the run's own seed (0 <= seed < 2**63).
        tokens: number of generated tokens that count.
        finish_reason: ``"stop"`` (stop string or end token), ``"length"``,
            ``"content_filter"``, ``"refusal"`` or ``"error"``.
        entropy: mean token entropy in bits of the renormalised top-k distribution.
        certainty: mean over tokens of ``1 - H / log2(k)``, each token with its own k.
        tail_mass: mean probability outside the top k.
        logprob: sum of the chosen tokens' natural log-probabilities.
        top_k: mean number of candidates the entropy was computed from.
        error: why the run is missing, for a run that could not be had.
        first_tokens: the most probable tokens at the first place as (text, natural
            log-probability), where they were asked for.
    """

    seed: int | None = None
    tokens: int | None = None
    finish_reason: str | None = None
    entropy: float | None = None
    certainty: float | None = None
    tail_mass: float | None = None
    logprob: float | None = None
    top_k: float | None = None
    error: str | None = None
    first_tokens: Sequence[tuple[str, float]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The recorded fields as plain JSON values; NaN and infinity, which JSON lacks, are not."""
        # Not `dataclasses.asdict`, whose deep copies would take most of the time of keeping a run.
        found = ((name, getattr(self, name)) for name in self.__slots__)
        return {
            name: value
            for name, value in found
            if value is not None and not (isinstance(value, float) and not isfinite(value))
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Capture:
        """Inverse of `to_dict`; unknown keys are ignored."""
        return cls(**{key: value for key, value in values.items() if key in _CAPTURED})


_CAPTURED = frozenset(field.name for field in fields(Capture))
_WHOLE = ("seed", "tokens")
_REAL = ("entropy", "certainty", "tail_mass", "logprob", "top_k")
_NUMBERS = np.dtype([(name, np.int64) for name in _WHOLE] + [(name, np.float64) for name in _REAL])


class Captures:
    """The captures of many runs, in 64 bytes each; as objects they take five times as much.

    An entry is put together when it is asked for. A number that was NaN is None there.

    Attributes:
        numbers: (R,) structured array. ``seed`` and ``tokens`` are -1 where not recorded,
            ``entropy``, ``certainty``, ``tail_mass``, ``logprob`` and ``top_k`` are NaN.
        finish_reasons: (R,) as in `Capture`.
        rare: ``row -> (error, first_tokens)`` for rows that have one of them.
    """

    __slots__ = ("finish_reasons", "numbers", "rare")

    def __init__(self, captures: Iterable[Capture]) -> None:
        given = list(captures)
        self.numbers: NDArray[Any] = np.empty(len(given), dtype=_NUMBERS)
        for name in _WHOLE:
            column = (getattr(one, name) for one in given)
            self.numbers[name] = [-1 if value is None else value for value in column]
        for name in _REAL:
            self.numbers[name] = [getattr(one, name) for one in given]  # None becomes NaN
        self.finish_reasons = [one.finish_reason for one in given]
        self.rare = {
            row: (one.error, one.first_tokens)
            for row, one in enumerate(given)
            if one.error is not None or one.first_tokens is not None
        }

    def __len__(self) -> int:
        return len(self.finish_reasons)

    def __getitem__(self, row: int) -> Capture:
        seed, tokens, *real = self.numbers[row].item()
        entropy, certainty, tail_mass, logprob, top_k = (
            None if isnan(value) else value for value in real
        )
        return Capture(
            None if seed < 0 else seed,
            None if tokens < 0 else tokens,
            self.finish_reasons[row],
            entropy,
            certainty,
            tail_mass,
            logprob,
            top_k,
            *self.rare.get(row, (None, None)),
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """`Capture.to_dict` of every entry, several times as fast."""
        rows: list[dict[str, Any]] = [{} for _ in self.finish_reasons]
        columns: dict[str, list[Any]] = {
            name: [None if value < 0 else value for value in self.numbers[name].tolist()]
            for name in _WHOLE
        }
        columns["finish_reason"] = self.finish_reasons
        for name in _REAL:
            values = self.numbers[name].tolist()
            columns[name] = [value if isfinite(value) else None for value in values]
        for name, column in columns.items():
            for row, value in zip(rows, column, strict=True):
                if value is not None:
                    row[name] = value
        for at in self.rare:
            rows[at] = self[at].to_dict()
        return rows
