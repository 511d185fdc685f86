"""All commands for one time, spread over shelves by the highest bits of their hash.

A shelf that grows is parted in two, so that what is sorted at once, and what is held twice while it
is, stays small however many keys there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from quiver.upsert.rows import Commands
from quiver.upsert.stash.shelf import Shelf

__all__ = ["BYTES_MOST", "Bin"]

BYTES_MOST: Final = 256 << 20
"""Beyond that a shelf is parted."""
_HASH_BITS: Final = 64
_SPLITS_MOST: Final = 10
"""Then there are 1,024 shelves; who needs more of them has no memory for what is on them."""


class Bin:
    """What waits for one time."""

    def __init__(self, bytes_most: int = BYTES_MOST) -> None:
        self._shelves = [Shelf()]
        self._bits = 0
        self._bytes_most = bytes_most

    def __len__(self) -> int:
        """How many rows it keeps, some perhaps of one key."""
        return sum(map(len, self._shelves))

    @property
    def nbytes(self) -> int:
        """How much memory the rows take, about."""
        return sum(shelf.nbytes for shelf in self._shelves)

    def add(self, commands: Commands) -> None:
        """Take commands that came later than all before."""
        for number, part in self._parted(commands):
            self._shelves[number].add(part)
        while self._bits < _SPLITS_MOST and self._is_crowded():
            self._part()

    def windows(self, rows: int) -> Iterator[Commands]:
        """Give one command of each key, sorted by hash, so many at a time; they stay."""
        for shelf in self._shelves:
            yield from shelf.windows(rows)

    def _is_crowded(self) -> bool:
        return any(shelf.nbytes > self._bytes_most for shelf in self._shelves)

    def _part(self) -> None:
        """Make two shelves of each."""
        before, self._bits = self._shelves, self._bits + 1
        self._shelves = [Shelf() for _ in range(2 * len(before))]
        for shelf in before:
            whole = shelf.settle()
            if whole is not None:
                for number, part in self._parted(whole):
                    self._shelves[number].add(part)

    def _parted(self, commands: Commands) -> Iterator[tuple[int, Commands]]:
        if not self._bits:
            yield 0, commands
            return
        numbers = (commands.hashes >> np.uint64(_HASH_BITS - self._bits)).astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        edges = np.searchsorted(numbers[order], np.arange(len(self._shelves) + 1))
        for number in np.flatnonzero(np.diff(edges)).tolist():
            yield number, commands.take(order[edges[number] : edges[number + 1]])
