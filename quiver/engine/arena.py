"""Memory for payloads, which is used again once nobody holds a view of what was in it.

Memory that is new to the process costs several times as much as a write into it; a store that takes
bundles without a pause has all it needs after two segments, and who lets each bundle go before the
next few come stays in the first slabs, of a few hundred kilobytes::

    slab   [ payload | payload | payload | ......... ]   one thread at a time fills it
               ^         ^ views, held by open segments and by whoever reads them

A view keeps its slab. When the last one goes, so does what they are views of, and with that comes
the slab back here.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any, Final

import numpy as np

from quiver.ipc import out_of_memory
from quiver.ipc_room import StreamRoom

__all__ = ["SLAB_BYTES", "Arena", "new_memory"]

SLAB_BYTES: Final = 8 << 20
_FIRST_BYTES: Final = 256 << 10
"""A store that takes little needs no more; each slab is twice as large as the one before it."""
_SPREAD: Final = 4
"""Slabs that are so many times smaller than the next one are not used again."""
_ALIGNMENT: Final = 64
"""As Arrow wants its buffers."""


class Arena:
    """All slabs of one store, of which no more than ``kept_bytes`` wait to be used again.

    Safe to use from several threads.
    """

    def __init__(self, kept_bytes: int) -> None:
        self._begun: deque[StreamRoom] = deque()
        self._free: deque[Any] = deque(maxlen=max(kept_bytes // SLAB_BYTES, 1))
        """What is more goes: a full deque lets its oldest go."""
        self._next_bytes = _FIRST_BYTES
        self.taken_bytes = 0
        """Of all slabs that were ever begun; some are not counted where threads race."""

    def begun(self) -> StreamRoom:
        """Take a slab that has room, or a new one; ``give_back`` lets others have it."""
        try:
            return self._begun.pop()
        except IndexError:
            return self.new()

    def new(self) -> StreamRoom:
        """Take a slab that nobody has written to since it came back.

        A view of a few bytes keeps all of it. So whoever keeps views looks at ``taken_bytes``.
        """
        memory = self._came_back()
        if memory is None:
            memory = _memory(self._next_bytes + _ALIGNMENT)
            self._next_bytes = min(2 * self._next_bytes, SLAB_BYTES)
        skipped = -memory.ctypes.data % _ALIGNMENT
        # All views are of this object: when it goes, nobody has one any more.
        held = memory[skipped:]
        self.taken_bytes += len(held)
        weakref.finalize(held, self._free.append, memory).atexit = False
        return StreamRoom(memoryview(held))

    def let_go(self, slab: StreamRoom) -> None:
        """Let a new slab go in which there is nothing: it comes back as any other does."""
        self.taken_bytes -= slab.byte_count

    def grow(self) -> None:
        """Make slabs larger from now on, because a payload had no room in one."""
        self._next_bytes = min(_SPREAD * self._next_bytes, SLAB_BYTES)

    def _came_back(self) -> Any | None:  # noqa: ANN401
        """Take what came back last, which the processor's cache may have; None if nothing did."""
        while self._free:
            try:
                memory = self._free.pop()
            except IndexError:  # Another thread had it.
                break
            if _SPREAD * len(memory) >= self._next_bytes:
                return memory
        return None

    def give_back(self, slab: StreamRoom) -> None:
        """Let others fill the rest of a slab."""
        self._begun.append(slab)


def new_memory(byte_count: int) -> memoryview:
    """Take memory for bytes that come; CapacityError if there is none."""
    return memoryview(_memory(byte_count))


def _memory(byte_count: int) -> Any:  # noqa: ANN401
    try:
        return np.empty(byte_count, np.uint8)
    except MemoryError as error:
        raise out_of_memory() from error
