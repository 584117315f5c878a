"""Bulk hashing of many short strings: equal strings get equal numbers, on every machine.

Counting the answers of ten thousand items with one dictionary each spends its time on single
strings. Here the strings are joined once and hashed together as arrays of 8-byte words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

_BLOCK = 8192  # strings hashed at once: their arrays stay in the processor's cache


def hash_groups(
    groups: Sequence[Collection[str]], what: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lengths of the groups, and the hashes of all their strings in order."""
    try:
        lengths = np.fromiter(map(len, groups), dtype=np.int64, count=len(groups))
    except TypeError:
        item = next(i for i, group in enumerate(groups) if not hasattr(group, "__len__"))
        raise TypeError(f"{what} of item {item} are {groups[item]!r}") from None
    try:
        return lengths, hash_strings(groups, int(lengths.sum()))
    except TypeError:
        item, text = next(
            (item, text)
            for item, group in enumerate(groups)
            for text in group
            if not isinstance(text, str)
        )
        raise TypeError(f"{what} must be canonical strings, item {item} has {text!r}") from None


def hash_strings(groups: Sequence[Collection[str]], total: int) -> NDArray[np.int64]:
    """64-bit hashes, equal on every machine; '' is 0. One-to-one for up to 8 bytes of UTF-8.

    A stand-in for the strings: two longer strings of an item share a hash with probability 2**-64.
    All strings are hashed at once on their joined bytes, many times faster than one by one.
    """
    if total == 0:
        return np.zeros(0, dtype=np.int64)
    joined = "\0".join(["\0".join(group) for group in groups if len(group)])
    data = (joined + "\0").encode("utf-8", "surrogatepass") + bytes(8)
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8)[:-8] == 0)
    if len(ends) != total:  # a string holds the separator itself
        replaced = [[text.replace("\0", "\ud800") for text in group] for group in groups]
        return hash_strings(replaced, total)
    # the 8 bytes that begin at every byte, as overlapping little-endian words
    words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    hashes = np.zeros(total, dtype=np.uint64)
    for start in range(0, total, _BLOCK):
        part = slice(start, start + _BLOCK)
        before = ends[start - 1] if start else -1
        left = np.diff(ends[part], prepend=before) - 1
        at = ends[part] - left
        hashed = mix(_first_bytes(words[at], left))
        hashed[left == 0] = 0
        rest = np.flatnonzero(left > 8)
        while len(rest):
            left, at = left - 8, at + 8
            hashed[rest] = mix(hashed[rest] ^ _first_bytes(words[at[rest]], left[rest]))
            rest = rest[left[rest] > 8]
        hashes[part] = hashed
    return hashes.view(np.int64)


def _first_bytes(words: NDArray[np.uint64], n: NDArray[np.int64]) -> NDArray[np.uint64]:
    # the rest is shifted out; strings hold no zero byte here, so their length is not lost
    return words << (64 - 8 * np.minimum(n, 8)).view(np.uint64)


def mix(x: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """The splitmix64 finaliser (Steele, Lea & Flood 2014, doi:10.1145/2714064.2660195)."""
    z = np.atleast_1d(np.asarray(x, dtype=np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z ^= z >> np.uint64(shift)
        z *= np.uint64(factor)
    z ^= z >> np.uint64(31)
    return z
