"""One number for each key, the same in every process and for all time: files are sorted by it.

HASHING.md gives it in words. Two keys may have the same number; whoever compares keys compares
their bytes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["buckets_of", "key_hashes", "places_by_hash", "rest_of", "rows_of_buckets"]

_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)
_WORD: Final = 8
_ALL: Final = (1 << 64) - 1
_WINDOW: Final = 1 << 15
"""Rows at a time, so that what is worked on stays near the processor."""

_Words = npt.NDArray[np.uint64]


def key_hashes(rows: pa.LargeBinaryArray) -> _Words:
    """Give the hash of each row of bytes."""
    found = np.empty(len(rows), np.uint64)
    _, raw_offsets, raw = rows.buffers()
    if raw_offsets is None:
        return found
    given: Any = raw_offsets
    offsets = np.frombuffer(given, np.int64, len(rows) + 1, rows.offset * _WORD)
    given = raw if raw is not None else b""
    data = np.frombuffer(given, np.uint8)
    for start in range(0, len(rows), _WINDOW):
        window = offsets[start : start + _WINDOW + 1]
        found[start : start + _WINDOW] = _hash_window(window, data)
    return found


def buckets_of(hashes: _Words, buckets: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Give for each hash the bucket in which its key is, in numbers that are sorted soon."""
    return rest_of(hashes, buckets).astype(np.min_scalar_type(max(buckets - 1, 0)))


def rest_of(hashes: _Words, buckets: int) -> _Words:
    """Give the bucket of each hash; of a power of two sooner than by a division."""
    if buckets & (buckets - 1):
        return hashes % np.uint64(buckets)
    return hashes & np.uint64(buckets - 1)


def places_by_hash(hashes: _Words) -> npt.NDArray[np.int64]:
    """Give the places of hashes in their order, of equal ones the first one first.

    Sixteen bits at a time are sorted by counting, which is sooner than to compare. Half of the bits
    put nearly all hashes in order, and what is nearly in order is sorted at once.
    """
    count = len(hashes)
    if bool(np.all(hashes[1:] >= hashes[:-1])):
        return np.arange(count, dtype=np.int64)
    places = np.argsort((hashes >> np.uint64(32)).astype(np.uint16), kind="stable")
    digits = (hashes >> np.uint64(48)).astype(np.uint16)
    places = places[np.argsort(digits[places], kind="stable")].astype(np.int64, copy=False)
    ordered = hashes[places]
    if bool(np.any(ordered[1:] < ordered[:-1])):
        places = places[np.argsort(ordered, kind="stable")]
    return places


def rows_of_buckets(
    hashes: _Words, buckets: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Give the rows in order of their buckets, and where in it each bucket begins; and its end.

    Rows of one bucket stay in the order in which they are.
    """
    owners = buckets_of(hashes, buckets)
    edges = np.zeros(buckets + 1, np.intp)
    np.cumsum(np.bincount(owners, minlength=buckets), out=edges[1:])
    return np.argsort(owners, kind="stable"), edges


def _hash_window(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> _Words:
    lengths = np.diff(offsets)
    if lengths.min() == lengths.max():
        return _hash_alike(data[offsets[0] : offsets[-1]], len(lengths), int(lengths[0]))
    counts = np.maximum((lengths + _WORD - 1) // _WORD, 1)
    firsts = np.cumsum(counts) - counts
    words, places = _words(offsets, data, counts)
    words += (places + 1).astype(np.uint64) * _STEP
    _mix(words)
    sums = np.add.reduceat(words, firsts)
    sums += lengths.astype(np.uint64) * _STEP
    _mix(sums)
    return sums


def _hash_alike(data: npt.NDArray[np.uint8], rows: int, length: int) -> _Words:
    """Do so where all rows are of one length: then nothing has to be looked for."""
    count = max(-(-length // _WORD), 1)
    own = np.zeros((rows, count * _WORD), np.uint8)
    own[:, :length] = data.reshape(rows, length)
    words = own.view("<u8").astype(np.uint64, copy=False)
    sums = np.full(rows, _times(length))
    for place in range(count):
        word = words[:, place] + _times(place + 1)
        _mix(word)
        sums += word
    _mix(sums)
    return sums


def _times(count: int) -> np.uint64:
    """Give so many steps, in 64 bits."""
    return np.uint64(count * int(_STEP) & _ALL)


def _words(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], counts: npt.NDArray[np.int64]
) -> tuple[_Words, npt.NDArray[np.int64]]:
    """Give the words of all rows, one behind the other, and the place of each in its row."""
    first, last = int(offsets[0]), int(offsets[-1])
    own = np.zeros(last - first + _WORD, np.uint8)  # So that the last word may end behind it.
    own[: last - first] = data[first:last]
    sliding: Any = np.ndarray((last - first + 1,), "<u8", own, 0, (1,))
    ends = np.cumsum(counts)
    places = np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - counts, counts)
    words = sliding[np.repeat(offsets[:-1] - first, counts) + places * _WORD]
    surplus = (counts * _WORD - np.diff(offsets)).astype(np.uint64) * np.uint64(_WORD)
    words[ends - 1] = (words[ends - 1] << surplus) >> surplus  # Bits of the next row.
    return words.astype(np.uint64, copy=False), places


def _mix(words: _Words) -> None:
    """Spread each word's bits over all of it, in place."""
    words ^= words >> np.uint64(32)
    words *= _FIRST
    words ^= words >> np.uint64(29)
    words *= _SECOND
    words ^= words >> np.uint64(32)
