"""Many recovered bundles in columns: the numbers of each, and none of its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from quiver.payload import StoredBundle

__all__ = ["Blocks", "StoredRun"]

_Numbers: TypeAlias = npt.NDArray[np.int64]

_AROUND: Final = 8
"""An entry of the log is so many bytes longer than its length says."""


class Blocks(NamedTuple):
    """The payloads that are the first, second, ... of their bundles: rows ascend."""

    rows: _Numbers
    """Which bundle of a run each is of."""
    slots: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    """Four words each."""

    def part(self, start: int, stop: int) -> Blocks:
        """Give those of rows ``[start, stop)``, which count from 0 then."""
        first, last = np.searchsorted(self.rows, (start, stop))
        inside = slice(first, last)
        rows = self.rows[inside] - start
        return Blocks(rows, self.slots[inside], self.fingerprints[inside])


class StoredRun(NamedTuple):
    """Bundles that stand in the log one behind the other and are not kept in memory, in columns.

    Of each the numbers of a ``StoredBundle``; their sequences are consecutive.
    """

    generation: int
    first_seq: int
    offsets: _Numbers
    lengths: _Numbers
    checksums: npt.NDArray[np.uint32]
    payload_counts: _Numbers
    payload_bytes: _Numbers
    times: _Numbers
    """When each was ingested, in nanoseconds since 1970; below 0 reads as 0."""
    blocks: tuple[Blocks, ...]

    @property
    def bundle_count(self) -> int:
        """How many bundles it has."""
        return len(self.offsets)

    @property
    def last_seq(self) -> int:
        """The sequence of the last."""
        return self.first_seq + len(self.offsets) - 1

    @property
    def offset(self) -> int:
        """Where the first begins."""
        return int(self.offsets[0])

    @property
    def end(self) -> int:
        """The offset behind the last."""
        return self.end_of(-1)

    def end_of(self, place: int) -> int:
        """Give the offset behind one of them."""
        return int(self.offsets[place] + self.lengths[place]) + _AROUND

    def part(self, start: int, stop: int) -> StoredRun:
        """Give bundles ``[start, stop)`` of it."""
        return StoredRun(
            self.generation,
            self.first_seq + start,
            self.offsets[start:stop],
            self.lengths[start:stop],
            self.checksums[start:stop],
            self.payload_counts[start:stop],
            self.payload_bytes[start:stop],
            self.times[start:stop],
            tuple(blocks.part(start, stop) for blocks in self.blocks),
        )

    def bundles(self) -> Iterator[StoredBundle]:
        """Give them one by one."""
        numbers = (self.offsets.tolist(), self.lengths.tolist(), self.checksums.tolist())
        return map(
            StoredBundle,
            range(self.first_seq, self.first_seq + len(self.offsets)),
            repeat(self.generation),
            *numbers,
        )

    def streams(self) -> list[tuple[int, tuple[int, bytes]]]:
        """List slot and fingerprint of payloads with the bundle they are of, in order of that.

        Those that are the same as in the bundle before are left out.
        """
        found = []
        for rows, slots, words in self.blocks:
            differs = np.ones(len(rows), bool)
            differs[1:] = (slots[1:] != slots[:-1]) | (words[1:] != words[:-1]).any(axis=1)
            found += [
                (int(rows[place]), (int(slots[place]), words[place].tobytes()))
                for place in np.flatnonzero(differs)
            ]
        return sorted(found)
