"""How many requests, and how many bytes of them, a receiver has in memory at once."""

from __future__ import annotations

import threading

__all__ = ["Budget", "Room", "Ticket"]


class Budget:
    """Bytes that several receivers share; safe to use from several threads."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._held = 0

    @property
    def held_bytes(self) -> int:
        """How many bytes are held, by all of them."""
        return self._held

    @property
    def is_full(self) -> bool:
        """Whether there is nothing left."""
        return self._held >= self.memory_bytes

    def take(self, size: int) -> bool:
        """Take so many bytes, or nothing; less than 0 gives back."""
        with self._lock:
            if size > 0 and self._held + size > self.memory_bytes:
                return False
            self._held += size
            return True


class Room:
    """Room for some requests in work and for some bytes; safe to use from several threads.

    The bytes are also those of a ``budget`` that other rooms share.
    """

    def __init__(self, requests: int, memory_bytes: int, budget: Budget | None = None) -> None:
        self._requests, self._memory_bytes = requests, memory_bytes
        self._budget = budget or Budget(memory_bytes)
        self._lock = threading.Lock()
        self._working = 0
        self._held = 0

    @property
    def working(self) -> int:
        """How many requests are in work."""
        return self._working

    @property
    def held_bytes(self) -> int:
        """How many bytes are held."""
        return self._held

    @property
    def is_full(self) -> bool:
        """Whether a request that came whole now would be refused."""
        is_full = self._working >= self._requests or self._held >= self._memory_bytes
        return is_full or self._budget.is_full

    def take(self, work: int, size: int) -> bool:
        """Take so many places in work and so many bytes, or nothing; less than 0 gives back."""
        with self._lock:
            if work > 0 and self._working >= self._requests:
                return False
            if size > 0 and self._held + size > self._memory_bytes:
                return False
            if size and not self._budget.take(size):
                return False
            self._working += work
            self._held += size
            return True


class Ticket:
    """What one request has of a room; whoever opened it leaves in the end."""

    __slots__ = ("_held", "_is_working", "_room")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._is_working = False
        self._held = 0

    @property
    def held(self) -> int:
        """For how many bytes it has room."""
        return self._held

    def claim(self, size: int) -> bool:
        """Take room for so many bytes more, or say that there is none."""
        if not self._room.take(0, size):
            return False
        self._held += size
        return True

    def give_back(self, size: int) -> None:
        """Give back some of the bytes."""
        self._room.take(0, -size)
        self._held -= size

    def begin(self) -> bool:
        """Take a place among the requests in work, or say that there is none."""
        self._is_working = self._is_working or self._room.take(1, 0)
        return self._is_working

    def leave(self) -> None:
        """Give everything back; a second call does nothing."""
        held, self._held = self._held, 0
        working, self._is_working = self._is_working, False
        self._room.take(-int(working), -held)
