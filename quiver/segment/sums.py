"""Checksums of pieces, and what they make together, without going over any byte twice.

A cyclic redundancy check is linear: followed by ``n`` bytes, what it says of a piece is shifted by
``8 n`` bits, that is multiplied by ``x`` to that power modulo the polynomial, and the check of all
pieces is the exclusive or of theirs, each shifted by what is behind it.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import crc32c
import numpy as np
import numpy.typing as npt

from quiver.disk import Bytes

__all__ = ["BYTES_AT_ONCE", "CRC32", "CRC32C", "Bytes", "Piece", "Sums", "join_sums", "sum_up"]

CRC32: Final = 0xEDB88320
"""The polynomial of zlib's check, as is usual with its lowest power in the highest bit."""
CRC32C: Final = 0x82F63B78
"""The polynomial of Castagnoli's, in the same way."""
BYTES_AT_ONCE: Final = 1 << 18
"""As much as stays in a processor's cache while several checks go over it."""

_KEEP_INTERPRETER: Final = 0

_Words: TypeAlias = npt.NDArray[np.uint32]


class Sums(NamedTuple):
    """Both checks of some bytes."""

    crc32: int
    crc32c: int


NOTHING: Final = Sums(0, 0)
"""Those of no bytes."""


class Piece(NamedTuple):
    """Bytes of a file, and their checksums if somebody computed them before."""

    data: Bytes
    sums: Sums | None = None


def sum_up(data: Bytes, before: Sums = NOTHING) -> Sums:
    """Compute both checks, behind the bytes that have those ``before``."""
    if len(data) <= BYTES_AT_ONCE:
        # The first one lets others have the interpreter; the second takes no longer than that does.
        return Sums(
            zlib.crc32(data, before.crc32),
            crc32c.crc32c(data, before.crc32c, gil_release_mode=_KEEP_INTERPRETER),
        )
    found = before
    view = memoryview(data)
    for start in range(0, len(view), BYTES_AT_ONCE):
        found = sum_up(view[start : start + BYTES_AT_ONCE], found)
    return found


def join_sums(polynomial: int, sums: Sequence[int], lengths: Sequence[int]) -> int:
    """Give the check of pieces one after the other, whose own ``sums`` and ``lengths`` are these.

    ``lengths`` are in bytes.
    """
    shifted = np.array(sums, np.uint32)
    sizes = np.array(lengths, np.int64)
    behind = sizes.sum() - np.cumsum(sizes)
    power = 0
    while (behind >> power).any():
        far = np.flatnonzero((behind >> power) & 1)
        shifted[far] = _shift(_shifts(polynomial, power), shifted[far])
        power += 1
    return int(np.bitwise_xor.reduce(shifted))


def _shift(shifts: _Words, words: _Words) -> _Words:
    octets = words.astype("<u4").view(np.uint8).reshape(-1, 4)
    found: _Words = np.bitwise_xor.reduce(shifts[np.arange(4), octets], axis=1)
    return found


@functools.cache
def _shifts(polynomial: int, power: int) -> _Words:
    """Tabulate what ``2 ** power`` bytes behind it make of each value of each byte of a check."""
    if power:
        half = _shifts(polynomial, power - 1)
        return _shift(half, half.ravel()).reshape(4, 256)
    words = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    for _ in range(8):
        words = (words >> np.uint32(1)) ^ np.where(words & 1, np.uint32(polynomial), np.uint32(0))
    return words
