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

import hashlib
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ties = Literal["random", "conservative"]
Acceptable = Sequence[str | Collection[str]] | NDArray[np.integer]


@dataclass(frozen=True)
class ClassTable:
    """Class counts of n items as flat columns: one row per sampled class, sorted by item and code.

    item, code, count : (rows,) integers. `code` indexes `labels`, or is the caller's own number
        when the table was built from numbers (`labels` is None).
    runs : (n,) runs per item, empty answers included.
    classes : (n,) distinct classes per item.
    keys : (n,) hashed item keys, which seed the order of ties.
    """

    item: NDArray[np.int64]
    code: NDArray[np.int64]
    count: NDArray[np.int64]
    runs: NDArray[np.int64]
    classes: NDArray[np.int64]
    keys: NDArray[np.uint64]
    labels: tuple[str, ...] | None
    n_codes: int

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
    lengths = np.fromiter(map(len, answers), dtype=np.int64, count=len(answers))
    flat = list(chain.from_iterable(answers))
    try:
        vocabulary = dict.fromkeys(flat)
    except TypeError as error:
        raise TypeError(f"answers must be strings: {error}") from None
    vocabulary.pop("", None)
    for label in vocabulary:
        if not isinstance(label, str):
            raise TypeError(f"answers must be strings, got {label!r}; canonicalise answers first")
    codes_of = {label: code for code, label in enumerate(vocabulary)}
    codes_of[""] = -1
    codes = np.fromiter(map(codes_of.__getitem__, flat), dtype=np.int64, count=len(flat))
    items = np.repeat(np.arange(len(lengths)), lengths)
    sampled = codes >= 0
    width = max(len(vocabulary), 1)
    pairs = np.sort(items[sampled] * width + codes[sampled])
    starts = np.flatnonzero(np.diff(pairs, prepend=-1))
    unique = pairs[starts]
    return _table(
        item=unique // width,
        code=unique % width,
        count=np.diff(starts, append=len(pairs)),
        runs=lengths,
        keys=_hash_keys(keys, len(lengths)),
        labels=tuple(vocabulary),
        n_codes=width,
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
    return _table(
        item, code, matrix[item, code], total, _hash_keys(keys, len(matrix)), None, matrix.shape[1]
    )


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
    result = 1.0 + above + np.bincount(table.item[rivals], minlength=table.n_items)
    result[best == 0] = np.inf
    return result


def mode_accuracy(table: ClassTable, acceptable: Acceptable) -> NDArray[np.float64]:
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
    codes = table.code[order].tolist()
    names = codes if table.labels is None else [table.labels[code] for code in codes]
    stops = first[:-1] + np.minimum(table.classes, m).astype(np.int64)
    return [names[a:b] for a, b in zip(first[:-1].tolist(), stops.tolist(), strict=True)]


def _table(
    item: NDArray,
    code: NDArray,
    count: NDArray,
    runs: NDArray,
    keys: NDArray[np.uint64],
    labels: tuple[str, ...] | None,
    n_codes: int,
) -> ClassTable:
    classes = np.bincount(item, minlength=len(runs))
    return ClassTable(item, code, count, runs, classes, keys, labels, n_codes)


def _check_ties(ties: str) -> None:
    if ties not in ("random", "conservative"):
        raise ValueError(f'ties must be "random" or "conservative", got {ties!r}')


def _acceptable_rows(table: ClassTable, acceptable: Acceptable) -> NDArray[np.bool_]:
    if len(acceptable) != table.n_items:
        raise ValueError(
            f"{table.n_items} items have answers but {len(acceptable)} have acceptable labels"
        )
    item, code = (
        _coded_labels(acceptable) if table.labels is None else _named_labels(table, acceptable)
    )
    rows = np.zeros(len(table.item), dtype=bool)
    if len(rows) == 0:
        return rows
    pairs = table.item * table.n_codes + table.code
    wanted = (item * table.n_codes + code)[code < table.n_codes]
    at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    rows[at[pairs[at] == wanted]] = True
    return rows


def _coded_labels(acceptable: Acceptable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    codes = np.asarray(acceptable)
    if codes.ndim not in (1, 2) or not np.issubdtype(codes.dtype, np.integer):
        raise ValueError("numbered classes need acceptable codes as integers, (n,) or (n, labels)")
    codes = codes.reshape(len(codes), -1) if codes.size else codes.reshape(len(codes), 0)
    item, column = np.nonzero(codes >= 0)
    return item, codes[item, column]


def _named_labels(
    table: ClassTable, acceptable: Acceptable
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    assert table.labels is not None
    code_of = dict(zip(table.labels, range(len(table.labels)), strict=True))
    items: list[int] = []
    codes: list[int] = []
    for item, labels in enumerate(acceptable):
        for label in (labels,) if isinstance(labels, str) else _collection(labels, item):
            if not isinstance(label, str) or not label:
                raise ValueError(
                    f"item {item} has {label!r} among its acceptable labels; labels are canonical, "
                    "non-empty strings (an empty set says that no answer is right)"
                )
            code = code_of.get(label)
            if code is not None:  # a label that nobody answered can be on no row
                items.append(item)
                codes.append(code)
    return np.asarray(items, dtype=np.int64), np.asarray(codes, dtype=np.int64)


def _collection(labels: object, item: int) -> Collection[str]:
    if not isinstance(labels, Collection):
        raise ValueError(
            f"the acceptable labels of item {item} are {labels!r}; give a string, a set of strings "
            "(empty if no answer is right), or leave the item out if its label is unknown"
        )
    return labels


def _best_count(table: ClassTable, right: NDArray[np.bool_]) -> NDArray[np.int64]:
    best = np.zeros(table.n_items, dtype=np.int64)
    np.maximum.at(best, table.item[right], table.count[right])
    return best


def _tie_order(table: ClassTable, rows: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    codes, inverse = np.unique(table.code[rows], return_inverse=True)
    if table.labels is None:
        hashed = _mix(codes.astype(np.uint64))
    else:
        hashed = np.array([_digest(table.labels[code]) for code in codes], dtype=np.uint64)
    stream = _mix(table.keys[table.item[rows]] ^ _mix(np.uint64(seed % 2**64)))
    return _mix(hashed[inverse.reshape(-1)] ^ stream)


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
    return np.array([_digest(str(key)) for key in keys], dtype=np.uint64)


def _digest(text: str) -> int:
    # Python's own hash of a string changes from process to process
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _mix(x: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The splitmix64 finaliser (Steele, Lea & Flood 2014, doi:10.1145/2714064.2660195)."""
    z = np.atleast_1d(np.asarray(x, dtype=np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
