"""Ranks of those compared, with ties between what is not separable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lmrel_tasks.differences import Difference


@dataclass(frozen=True)
class Rank:
    """A contestant's place on one metric; ties are those not separable from it.

    Attributes:
        rank: one more than the number of contestants that are separably better.
        tied: those that are not separable from it.
    """

    task: str
    metric: str
    name: str
    value: float
    rank: int
    tied: tuple[str, ...]


def ranks(differences: Sequence[Difference], *, alpha: float = 0.05) -> list[Rank]:
    """Ranks on every task and metric, best first."""
    families: dict[tuple[str, str], list[Difference]] = {}
    for one in differences:
        families.setdefault((one.task, one.metric), []).append(one)
    found = []
    for (task, metric), pairs in families.items():
        values: dict[str, float] = {}
        better: dict[str, int] = {}
        tied: dict[str, list[str]] = {}
        for one in pairs:
            values |= {one.first: one.first_value, one.second: one.second_value}
            winner = one.winner(alpha)
            for name, other in ((one.first, one.second), (one.second, one.first)):
                better.setdefault(name, 0)
                tied.setdefault(name, [])
                if winner is None:
                    tied[name].append(other)
                elif winner == other:
                    better[name] += 1
        sign = 1 if pairs[0].higher_is_better is False else -1
        found += [
            Rank(task, metric, name, value, better[name] + 1, tuple(tied[name]))
            for name, value in sorted(
                values.items(), key=lambda pair: (better[pair[0]], sign * pair[1])
            )
        ]
    return found
