"""Varints, many at a time: up to 10 bytes of 7 bits each, the lowest first."""

from __future__ import annotations

from typing import Final

import numpy as np

from quiver.otel.wire.source import Ints, Longs, Octets, Source, malformed

__all__ = [
    "SHORT",
    "VARINT_SIZE_MAX",
    "read_varints",
    "short_sizes",
    "varint_sizes",
    "write_varints",
]

VARINT_SIZE_MAX: Final = 10
SHORT: Final = 5
"""How many bytes a tag or a length may take, as libraries of protobuf have it."""

_STEPS: Final = np.array([1 << shift for shift in range(7, 64, 7)], np.uint64)


def read_varints(source: Source, at: Ints) -> tuple[Longs, Ints]:
    """Give the varints that begin at these bytes, and where each ends.

    They may end past the message, which the caller checks. Bits above the 64th are nobody's, as
    libraries of protobuf have it; raises InputError if one goes on after 10 bytes.
    """
    octets = source.octets
    first = octets[at]
    values = first.astype(np.uint64)
    if first.tobytes().isascii():  # All have one byte: sooner said so than by a maximum.
        return values, at + 1
    values &= np.uint64(0x7F)
    after = at + 1
    left = np.flatnonzero(first >= 0x80)  # noqa: PLR2004
    for shift in range(7, 7 * VARINT_SIZE_MAX, 7):
        # Behind the padding lies nothing: who got there is past the end anyway.
        octet = octets[np.minimum(after[left], source.size)]
        values[left] |= (octet & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[left] += 1
        more = octet >= 0x80  # noqa: PLR2004
        if not np.count_nonzero(more):
            return values, after
        left = left[more]
    raise malformed(int(at[left[0]]), f"a varint goes on after {VARINT_SIZE_MAX} bytes")


def short_sizes(source: Source, at: Ints) -> tuple[Ints | Octets, Ints] | None:
    """Give the lengths of one or two bytes that begin there, and where each ends.

    None if one is longer. They may begin at the end of the message, and end past it.
    """
    first = source.octets[at]
    if first.tobytes().isascii():
        return first, at + 1
    long = first >= 0x80  # noqa: PLR2004
    second = source.octets[at + 1].astype(np.int64)
    if np.count_nonzero(long & (second >= 0x80)):  # noqa: PLR2004
        return None
    return first + long * ((second << 7) - 0x80), at + 1 + long


def varint_sizes(values: Longs) -> Ints:
    """Tell how many bytes each takes."""
    if values.size and int(values.max()) < 0x80:  # noqa: PLR2004
        return np.ones(values.size, np.int64)
    return np.searchsorted(_STEPS, values, side="right") + 1


def write_varints(out: Octets, at: Ints, values: Longs) -> None:
    """Write each at its place."""
    left, place = values, at
    while left.size:
        more = left >= np.uint64(0x80)
        if not more.any():
            out[place] = left.astype(np.uint8)
            return
        out[place] = (left & np.uint64(0x7F)).astype(np.uint8) | (more.view(np.uint8) << 7)
        left, place = left[more] >> np.uint64(7), place[more] + 1
