"""Repeated numbers: packed into ranges, or one field each, or both in one message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from quiver.otel.wire.reader import Level, fixed64, varint
from quiver.otel.wire.source import Ints, Longs, Source, malformed
from quiver.otel.wire.varints import VARINT_SIZE_MAX

__all__ = ["Numbers", "repeated_fixed64", "repeated_varints"]

_WORD_SIZE: Final = 8


@dataclass(frozen=True, slots=True)
class Numbers:
    """All numbers of a repeated field, in order, each with its message."""

    owner: Ints
    value: Longs

    def counts(self, count: int) -> Ints:
        """How many each of so many messages has."""
        return np.bincount(self.owner, minlength=count)


def repeated_fixed64(source: Source, level: Level, number: int) -> Numbers:
    """Give the words of a repeated field of doubles or of fixed64, as bits."""
    ranges = level.ranges(number)
    sizes = ranges.end - ranges.start
    if bool((sizes % _WORD_SIZE).any()):
        worst = int(ranges.start[int(np.argmax(sizes % _WORD_SIZE))])
        raise malformed(worst, "packed numbers of 8 bytes end within one")
    counts = sizes // _WORD_SIZE
    at = np.repeat(ranges.start, counts) + _WORD_SIZE * _within(counts)
    packed = (np.repeat(ranges.owner, counts), at, source.words64[at])
    return _both(packed, level.fields(fixed64(number)))


def repeated_varints(source: Source, level: Level, number: int) -> Numbers:
    """Give the numbers of a repeated field of varints."""
    ranges = level.ranges(number)
    sizes = ranges.end - ranges.start
    places = np.repeat(ranges.start, sizes) + _within(sizes)
    octets = source.octets[places]
    last = np.flatnonzero(octets < 0x80)  # noqa: PLR2004
    if not last.size and not octets.size:
        return _both((places, places, places.astype(np.uint64)), level.fields(varint(number)))
    full = ranges.end[sizes > 0]
    if bool((source.octets[full - 1] >= 0x80).any()):  # noqa: PLR2004
        worst = int(full[int(np.argmax(source.octets[full - 1] >= 0x80))])  # noqa: PLR2004
        raise malformed(worst, "packed varints end within one")
    first = np.concatenate([[0], last[:-1] + 1])
    value = np.zeros(last.size, np.uint64)
    left, length = np.arange(last.size), last - first + 1
    for round_ in range(VARINT_SIZE_MAX + 1):
        left = left[length[left] > round_]
        if not left.size:
            break
        octet = octets[first[left] + round_]
        if round_ == VARINT_SIZE_MAX:
            where = int(places[first[left[0]]])
            raise malformed(where, f"a varint goes on after {VARINT_SIZE_MAX} bytes")
        value[left] |= (octet & 0x7F).astype(np.uint64) << np.uint64(7 * round_)
    owner = np.repeat(ranges.owner, sizes)[first]
    return _both((owner, places[first], value), level.fields(varint(number)))


def _both(packed: tuple[Ints, Ints, Longs], alone: tuple[Ints, Ints, Longs]) -> Numbers:
    """Unite what was packed with what was not, in the order of the bytes."""
    if not alone[0].size:
        return Numbers(packed[0], packed[2])
    owner, start, value = (np.concatenate(pair) for pair in zip(packed, alone, strict=True))
    order = np.argsort(start, kind="stable")
    return Numbers(owner[order], value[order])


def _within(counts: Ints) -> Ints:
    """Count from 0 within each of these runs."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) - np.repeat(ends - counts, counts)
