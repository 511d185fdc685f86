"""How much of a disk the copies of a node may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quiver.chain.placing import FILL_MAX
from quiver.errors import CapacityError, InputError

__all__ = ["Quota"]


class Quota:
    """A limit, and what is taken of it. Safe for many threads."""

    def __init__(
        self,
        capacity: int,
        taken: Callable[[], int],
        room: Callable[[], tuple[int, int]],
    ) -> None:
        """Limit a node; a capacity of 0 is all that the disk has, of which ``room`` tells.

        ``taken`` counts a log twice, for a segment is made of it before it goes.
        """
        if capacity < 0:
            raise InputError(f"a capacity of {capacity:,} bytes is below 0")
        self._capacity = capacity
        self._taken = taken
        self._room = room
        self._lock = threading.Lock()
        self._left = 0
        self._coming = 0
        """Bytes of segments that are being copied here."""

    def room(self) -> tuple[int, int]:
        """Give the bytes that are free, and all of them."""
        free, total = self._room()
        if not self._capacity:
            return free, total
        total = min(total, self._capacity)
        return max(min(free, total - self._taken()), 0), total

    def check_begin(self) -> None:
        """Raise CapacityError if there is no room for one more block."""
        if self._capacity:
            free, total = self.room()
            if total - free >= FILL_MAX * total:
                raise self._full()

    @contextmanager
    def keep(self, size: int) -> Iterator[None]:
        """Keep room free for a segment while it is copied; raises CapacityError if there is none.

        Entries have no more room then than is left beside it.
        """
        with self._lock:
            if self._capacity and self._taken() + self._coming + size > self._capacity:
                raise self._full()
            self._coming += size
            self._left = 0
        try:
            yield
        finally:
            with self._lock:
                self._coming -= size

    def take(self, size: int) -> None:
        """Take room for entries; raises CapacityError if there is none.

        What there is, is counted again only when what was left then is used up.
        """
        if not self._capacity:
            return
        with self._lock:
            self._left -= 2 * size
            if self._left < 0:
                self._left = self._capacity - self._taken() - self._coming - 2 * size
            if self._left < 0:
                self._left = 0
                raise self._full()

    def _full(self) -> CapacityError:
        return CapacityError(
            f"the copies of this node take {self._taken():,} of {self._capacity:,} bytes",
            hint="give it more (--capacity), start more nodes, or purge",
        )
