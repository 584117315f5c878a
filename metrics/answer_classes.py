"""From repeated canonical answers to class counts, ranks and scores.

The runs of an item fall into classes of equal canonical answer. The score of an item is the rank,
by frequency, of its best acceptable class; infinite when no acceptable class was ever sampled.

Conventions
-----------
- An empty answer '' is a run that belongs to no class: it counts in `runs`, never in a count.
- 'refusal' is an ordinary class.
- An item may accept several labels, or none at all ("none of these": its score is infinite).
- Classes of equal count have no natural order. `ties="random"` orders them by a hash of item key,
  label and seed: as good as a coin (so ranks stay exchangeable), the same on every machine, and
  independent of the order of items and runs. `ties="conservative"` gives an acceptable class the
  worst rank that any order could. Alphabetical order would favour some labels and is not offered.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmrel_tasks.metrics.string_hash import hash_groups, hash_strings, mix

Ties = Literal["random", "conservative"]
Acceptable = Sequence[str | Collection[str]] | NDArray[np.integer]


@dataclass(frozen=True)
class ClassTable:
    """Class counts of n items as flat columns: one row per sampled class, sorted by item.

    item, code, count : (rows,) integers. `code` is the caller's number of the class, or a hash of
        its label.
    runs : (n,) runs per item, empty answers included.
    classes : (n,) distinct classes per item.
    keys : (n,) hashed item keys, which seed the order of ties.
    answers, codes : the strings and their codes (n, most runs), for tables made of strings.
    """

    item: NDArray[np.int64]
    code: NDArray[np.int64]
    count: NDArray[np.int64]
    runs: NDArray[np.int64]
    classes: NDArray[np.int64]
    keys: NDArray[np.uint64]
    answers: Sequence[Sequence[str]] | None = None
    codes: NDArray[np.int64] | None = None

    @property
    def n_items(self) -> int:
        return len(self.runs)


def count_classes(
    answers: Sequence[Sequence[str]], keys: Sequence[Hashable] | None = None
) -> ClassTable:
    """Count the canonical answers of every item.

    Parameters
    ----------
    answers : n sequences of canonical answers, one string per run; lengths may differ. An item
        without runs is allowed and has no class.
    keys : n distinct item identifiers that seed the order of ties. By default the position, so
        give the identifiers when the same items may come in another order.

    Raises
    ------
    TypeError : an item is a bare string, or an answer is no string (canonicalise first).
    ValueError : keys repeat or do not match the items in number.
    """
    for position, runs_of_item in enumerate(answers):
        if isinstance(runs_of_item, str):
            raise TypeError(
                f"the answers of item {position} are one string; give a list, one string per run"
            )
    lengths, hashes = hash_groups(answers, "answers")
    # One row per item, sorted: equal answers are neighbours, and 0 (no answer) is left out
    matrix = _pad(lengths, hashes)
    ordered = np.sort(matrix, axis=1)
    starts_class = np.ones(ordered.shape, dtype=bool)
    starts_class[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.flatnonzero(starts_class)
    code = ordered.ravel()[starts]
    count = np.diff(starts, append=ordered.size)
    sampled = code != 0
    return _table(
        item=starts[sampled] // max(ordered.shape[1], 1),
        code=code[sampled],
        count=count[sampled],
        runs=lengths,
        keys=_hash_keys(keys, len(lengths)),
        answers=answers,
        codes=matrix,
    )


def table_from_counts(
    counts: ArrayLike, runs: ArrayLike | None = None, keys: Sequence[Hashable] | None = None
) -> ClassTable:
    """The table of items whose classes are numbered: `counts` is (n, classes), zeros unsampled.

    `runs` (n,) defaults to the row sums; give it when some runs were empty.
    """
    matrix = np.asarray(counts)
    if matrix.ndim != 2 or np.any(matrix < 0):
        raise ValueError("counts must be a matrix (items, classes) without negative numbers")
    item, code = np.nonzero(matrix)
    total = matrix.sum(axis=1) if runs is None else np.asarray(runs)
    if total.shape != matrix.shape[:1] or np.any(total < matrix.sum(axis=1)):
        raise ValueError("runs must hold one number per item, at least the sum of its counts")
    return _table(item, code, matrix[item, code], total, _hash_keys(keys, len(matrix)))


def scores(
    table: ClassTable, acceptable: Acceptable, ties: Ties = "random", seed: int = 0
) -> NDArray[np.float64]:
    """Rank of the best acceptable class of every item, from 1; inf when none was sampled.

    Parameters
    ----------
    table : from `count_classes` or `table_from_counts`
    acceptable : n labels or collections of labels (an empty collection: no answer is right); for a
        table of numbered classes an integer array (n,) or (n, labels), negative where unused
    ties : "random" (see the module) or "conservative"
    seed : of the random order

    Raises
    ------
    ValueError : lengths differ, or a label is missing (None) or empty.
    """
    _check_ties(ties)
    right = _acceptable_rows(table, acceptable)
    best = _best_count(table, right)
    above = np.bincount(table.item[table.count > best[table.item]], minlength=table.n_items)
    tied = np.flatnonzero(table.count == best[table.item])
    rivals = tied[~right[tied]]
    if ties == "random" and len(rivals):
        contested = np.isin(table.item[tied], table.item[rivals])
        tied = tied[contested]
        order = _tie_order(table, tied, seed)
        first = np.full(table.n_items, np.iinfo(np.uint64).max)
        good = right[tied]
        np.minimum.at(first, table.item[tied[good]], order[good])
        ahead = ~good & (order < first[table.item[tied]])
        rivals = tied[ahead]
    ahead_of_best = above + np.bincount(table.item[rivals], minlength=table.n_items)
    result = (1 + ahead_of_best).astype(np.float64)
    result[best == 0] = np.inf
    return result


def mode_accuracy(table: ClassTable, acceptable: Acceptable) -> NDArray[np.floating]:
    """Chance, per item, that the most frequent class is acceptable when ties are drawn at random.

    A tie of t classes, a of them acceptable, gives a/t; an item without any class gives 0. The mean
    is the expected accuracy of majority voting, free of the noise of one particular tie-break.
    """
    right = _acceptable_rows(table, acceptable)
    top = np.zeros(table.n_items, dtype=np.int64)
    np.maximum.at(top, table.item, table.count)
    leading = table.count == top[table.item]
    leaders = np.bincount(table.item[leading], minlength=table.n_items)
    good = np.bincount(table.item[leading & right], minlength=table.n_items)
    return good / np.maximum(leaders, 1)


def prediction_sets(table: ClassTable, m: float, seed: int = 0) -> list[list[str | int]]:
    """The m most frequent classes of every item, best first; all sampled ones if m is inf.

    Ties fall in the order that `scores(..., ties="random", seed=seed)` uses, so an item's set holds
    an acceptable label exactly when its random score is at most m, and always when its conservative
    score is.
    """
    if not m >= 0:
        raise ValueError(f"m must be a number of classes, 0 or more, got {m!r}")
    order = np.lexsort(
        (_tie_order(table, np.arange(len(table.item)), seed), -table.count, table.item)
    )
    first = np.concatenate(([0], np.cumsum(table.classes)))
    names = _labels(table, order)
    stops = first[:-1] + np.minimum(table.classes, m).astype(np.int64)
    return [names[a:b] for a, b in zip(first[:-1].tolist(), stops.tolist(), strict=True)]


def _table(
    item: NDArray,
    code: NDArray,
    count: NDArray,
    runs: NDArray,
    keys: NDArray[np.uint64],
    answers: Sequence[Sequence[str]] | None = None,
    codes: NDArray[np.int64] | None = None,
) -> ClassTable:
    classes = np.bincount(item, minlength=len(runs))
    return ClassTable(item, code, count, runs, classes, keys, answers, codes)


def _check_ties(ties: str) -> None:
    if ties not in ("random", "conservative"):
        raise ValueError(f'ties must be "random" or "conservative", got {ties!r}')


def _acceptable_rows(table: ClassTable, acceptable: Acceptable) -> NDArray[np.bool_]:
    if len(acceptable) != table.n_items:
        raise ValueError(
            f"{table.n_items} items have answers but {len(acceptable)} have acceptable labels"
        )
    wanted = _numbered(acceptable) if table.answers is None else _named(acceptable)
    rows = np.zeros(len(table.item), dtype=bool)
    for column in wanted.T:
        rows |= table.code == column[table.item]
    return rows


def _numbered(acceptable: Acceptable) -> NDArray[np.int64]:
    codes = np.asarray(acceptable)
    if codes.ndim not in (1, 2) or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError("numbered classes need acceptable codes as integers, (n,) or (n, labels)")
    return codes if codes.ndim == 2 else codes[:, None]


def _named(acceptable: Acceptable) -> NDArray[np.int64]:
    n = len(acceptable)
    try:
        if set(map(type, acceptable)) == {str}:  # one label each: no tuple around every one
            lengths = np.ones(n, dtype=np.int64)
            hashes = hash_strings([cast(Sequence[str], acceptable)], n)
        else:
            sets = [(labels,) if isinstance(labels, str) else labels for labels in acceptable]
            lengths, hashes = hash_groups(sets, "acceptable labels")
    except TypeError as error:
        raise TypeError(
            f"{error}; give a string, or a set of strings that is empty if no answer is right, and "
            "leave out items of unknown label"
        ) from None
    if np.any(hashes == 0):
        item = int(np.repeat(np.arange(n), lengths)[np.argmax(hashes == 0)])
        raise ValueError(
            f"item {item} has an empty acceptable label; labels are canonical answers (an empty "
            "set, not an empty string, says that no answer is right)"
        )
    return _pad(lengths, hashes)


def _pad(lengths: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    width = int(lengths.max(initial=0))
    if width * len(lengths) == len(values):
        return values.reshape(len(lengths), width)
    matrix = np.zeros((len(lengths), width), dtype=np.int64)
    matrix[np.arange(width) < lengths[:, None]] = values
    return matrix


def _best_count(table: ClassTable, right: NDArray[np.bool_]) -> NDArray[np.int64]:
    best = np.zeros(table.n_items, dtype=np.int64)
    np.maximum.at(best, table.item[right], table.count[right])
    return best


def _tie_order(table: ClassTable, rows: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    stream = mix(table.keys[table.item[rows]] ^ mix(np.uint64(seed % 2**64)))
    return mix(mix(table.code[rows].astype(np.uint64)) ^ stream)


def _labels(table: ClassTable, rows: NDArray[np.int64]) -> list:
    items, codes = table.item[rows], table.code[rows]
    if table.answers is None or table.codes is None or len(rows) == 0:
        return codes.tolist()
    runs = (table.codes[items] == codes[:, None]).argmax(axis=1)
    return [
        table.answers[item][run] for item, run in zip(items.tolist(), runs.tolist(), strict=True)
    ]


def _hash_keys(keys: Sequence[Hashable] | None, n: int) -> NDArray[np.uint64]:
    if keys is None:
        return np.arange(n, dtype=np.uint64)
    if len(keys) != n:
        raise ValueError(f"{len(keys)} keys were given for {n} items")
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"item key {key!r} occurs twice; every item needs its own")
        seen.add(key)
    return hash_strings([[str(key) for key in keys]], n).view(np.uint64)
