"""Option probabilities of every item under every condition, checked and aligned."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """Probabilities of the items that have an original, a targeted and a benign answer.

    Attributes
    ----------
    ids : tuple
        Identifiers of the kept items.
    original, targeted : ndarray, shape (items, options)
    benign : ndarray, shape (items, paraphrases, options)
        The paraphrases an item has come first; the rest of its rows are NaN.
    rerun : ndarray, shape (items, options), or None
        The original asked again; NaN rows where it was not.
    n_given : int
        Items before exclusion.
    missing : mapping of str to int
        Items excluded because this condition is missing. An item that lacks two conditions
        counts under both, so the values can sum to more than ``n_excluded``.
    """

    ids: tuple[object, ...]
    original: Floats
    targeted: Floats
    benign: Floats
    rerun: Floats | None
    n_given: int
    missing: Mapping[str, int]

    @property
    def n(self) -> int:
        """Items kept."""
        return len(self.ids)

    @property
    def n_excluded(self) -> int:
        """Items dropped because a condition was missing."""
        return self.n_given - self.n

    @property
    def options(self) -> int:
        """Answer options per item."""
        return int(self.original.shape[-1])


def panel(
    original: ArrayLike,
    targeted: ArrayLike,
    benign: ArrayLike,
    *,
    rerun: ArrayLike | None = None,
    ids: Sequence[object] | None = None,
    nan_policy: str = "raise",
    tolerance: float = 1e-3,
    renormalise: bool = True,
) -> Panel:
    """Check the conditions of a bias experiment and keep the complete items.

    Parameters
    ----------
    original, targeted : array_like, shape (items, options)
    benign : array_like, shape (items, options) or (items, paraphrases, options)
    rerun : array_like, shape (items, options), optional
    ids : sequence of hashable, optional
        One identifier per item; positions by default.
    nan_policy : {"raise", "omit"}
        What a row that is NaN throughout means: an error, or a missing answer. An item without
        original, targeted or any benign answer is then excluded and counted. A row that is NaN
        in part is an error under both. A missing rerun never excludes an item.
    tolerance : float
        How far from 1 the sum of a row may be.
    renormalise : bool
        Divide each row by its sum once it has passed, so that rounding in a file cannot make a
        divergence negative.

    Returns
    -------
    Panel

    Raises
    ------
    ValueError
        For wrong shapes, a differing number of options, duplicate ids, and for NaN, negative or
        unnormalised rows; the message names the condition and the item.
    """
    first = np.asarray(original, float)
    if first.ndim != 2 or first.shape[1] < 2 or not len(first):
        raise ValueError(
            f"original must have shape (items, options), one item and two options or more, not "
            f"{first.shape}"
        )
    names = _unique_ids(ids, len(first))
    given: dict[str, Floats] = {"original": first, "targeted": np.asarray(targeted, float)}
    reworded = np.asarray(benign, float)
    given["benign"] = reworded[:, None, :] if reworded.ndim == 2 else reworded
    if rerun is not None:
        given["rerun"] = np.asarray(rerun, float)
    for name, values in given.items():
        wanted = 3 if name == "benign" else 2
        if values.ndim != wanted or len(values) != len(first):
            raise ValueError(
                f"{name} has shape {values.shape}, but original has {len(first)} items: give one "
                "row of option probabilities per item"
            )
        if values.shape[-1] != first.shape[1]:
            raise ValueError(
                f"{name} has {values.shape[-1]} options and original has {first.shape[1]} "
                f"(row 0, id {names[0]!r}): every condition needs the same options"
            )
        given[name] = check_probabilities(
            values,
            name=name,
            ids=names,
            nan_policy=nan_policy,
            tolerance=tolerance,
            renormalise=renormalise,
        )
    absent: dict[str, NDArray[np.bool_]] = {
        name: np.isnan(values[..., 0]) for name, values in given.items()
    }
    absent["benign"] = np.asarray(absent["benign"].all(axis=1))
    absent.pop("rerun", None)
    kept = ~np.any(list(absent.values()), axis=0)
    ordered = _valid_first(given["benign"][kept])
    again = given.get("rerun")
    return Panel(
        ids=tuple(name for name, keep in zip(names, kept, strict=True) if keep),
        original=given["original"][kept],
        targeted=given["targeted"][kept],
        benign=ordered,
        rerun=None if again is None else again[kept],
        n_given=len(first),
        missing=MappingProxyType({name: int(gone.sum()) for name, gone in absent.items()}),
    )


def check_probabilities(
    probabilities: ArrayLike,
    *,
    name: str = "probabilities",
    ids: Sequence[object] | None = None,
    nan_policy: str = "raise",
    tolerance: float = 1e-3,
    renormalise: bool = True,
) -> Floats:
    """Probabilities that are non-negative and sum to 1, or an error that names the row.

    Parameters
    ----------
    probabilities : array_like, shape (items, ..., options)
    name, ids
        How the message calls the array and its items.
    nan_policy, tolerance, renormalise
        See `panel`.

    Returns
    -------
    ndarray of the same shape

    Raises
    ------
    ValueError
    """
    if nan_policy not in ("raise", "omit"):
        raise ValueError(f"nan_policy must be 'raise' or 'omit', not {nan_policy!r}")
    values = np.array(probabilities, dtype=float)
    empty = np.isnan(values).all(axis=-1)
    unknown = np.isnan(values).any(axis=-1) & ~(empty & (nan_policy == "omit"))
    advice = "" if nan_policy == "omit" else "; nan_policy='omit' excludes items without answer"
    _refuse(values, unknown, name, ids, "is NaN" + advice)
    with np.errstate(invalid="ignore"):
        total = values.sum(axis=-1)
        _refuse(values, (values < 0).any(axis=-1), name, ids, "has a negative probability")
        wrong = ~empty & ~(np.abs(total - 1) <= tolerance)
    _refuse(values, wrong, name, ids, f"does not sum to 1 within {tolerance}: normalise it")
    return values / total[..., None] if renormalise else values


def answer_shares(answers: Sequence[object], options: Sequence[str]) -> Floats:
    """Option probabilities from canonical answers, for models that give no likelihoods.

    Case, surrounding space and Unicode composition do not distinguish answers. An answer that
    is None or none of the options (a refusal) is missing: it takes no part in the shares, and
    an item with no other answer is a row of NaN, which ``panel(..., nan_policy="omit")``
    excludes and counts.

    Parameters
    ----------
    answers : sequence of length items
        Each a string or None, or a sequence of them, one per run.
    options : sequence of str

    Returns
    -------
    ndarray, shape (items, options)
        The share of the item's valid runs that gave each option.

    Raises
    ------
    ValueError
        If two options are the same answer, or there are fewer than two.
    """
    place = {_plain(option): index for index, option in enumerate(options)}
    if len(place) != len(options) or len(options) < 2:
        raise ValueError(f"options must be two or more different answers, not {list(options)}")
    counts = np.zeros((len(answers), len(options)))
    for row, given in enumerate(answers):
        runs = [given] if given is None or isinstance(given, str) else given
        for answer in runs:  # type: ignore[attr-defined]
            index = place.get(_plain(answer)) if isinstance(answer, str) else None
            if index is not None:
                counts[row, index] += 1
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1), np.nan)


def _plain(answer: str) -> str:
    return unicodedata.normalize("NFC", answer).strip().casefold()


def _unique_ids(ids: Sequence[object] | None, n: int) -> list[object]:
    names: list[object] = list(range(n) if ids is None else ids)
    if len(names) != n:
        raise ValueError(f"ids has {len(names)} entries for {n} items")
    seen: set[object] = set()
    for row, name in enumerate(names):
        if name in seen:
            raise ValueError(f"ids: {name!r} appears again in row {row}; ids must be unique")
        seen.add(name)
    return names


def _refuse(
    values: Floats, where: ArrayLike, name: str, ids: Sequence[object] | None, what: str
) -> None:
    bad = np.asarray(where)
    if not bad.any():
        return
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    item = f" (id {ids[place[0]]!r})" if ids is not None else ""
    paraphrase = f", paraphrase {place[1]}" if len(place) > 1 else ""
    raise ValueError(f"{name}, row {place[0]}{item}{paraphrase}: {values[place].tolist()} {what}")


def _valid_first(benign: Floats) -> Floats:
    order = np.argsort(np.isnan(benign[..., 0]), axis=1, kind="stable")
    return np.take_along_axis(benign, order[..., None], axis=1)
