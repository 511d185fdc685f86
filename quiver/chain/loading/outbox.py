"""Entries that not all locations have yet, in order: what is under way, and what is to be sent."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import pyarrow as pa

from quiver.chain.loading.rules import AHEAD, LoaderRules

__all__ = ["Outbox", "Waiting"]


_FRAME_BYTES: Final = 1 << 20
_COALESCE_BYTES: Final = 256 << 10


class Waiting(NamedTuple):
    """An entry that was not acknowledged yet."""

    wal_seq: int
    time_ns: int
    body: pa.Buffer
    """In memory of Arrow's own."""


class Outbox:
    """What a loader keeps until it is acknowledged. Not safe for threads."""

    def __init__(self) -> None:
        """Begin empty; ``acked_seq`` is set by the first record that is read."""
        self._sent: deque[Waiting] = deque()
        self._unsent: deque[Waiting] = deque()
        self.acked_seq = -1
        self.sent_bytes = 0
        """Bytes that are under way."""
        self.unsent_bytes = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes of all that was not acknowledged."""
        return self.sent_bytes + self.unsent_bytes

    @property
    def next(self) -> Waiting | None:
        """What is to be sent next; for a thread without the lock as well."""
        try:
            return self._unsent[0]
        except IndexError:
            return None

    def add(self, waiting: Waiting) -> None:
        """Take an entry behind all others; if that is interrupted ``mend`` is to be called."""
        self.unsent_bytes += len(waiting.body)
        self._unsent.append(waiting)

    def recount(self) -> None:
        """Be whole again, wherever ``add`` or ``take`` was interrupted."""
        if self._sent and self._unsent and self._sent[-1].wal_seq == self._unsent[0].wal_seq:
            self._unsent.popleft()
        self.unsent_bytes = sum(len(each.body) for each in self._unsent)
        self.sent_bytes = sum(len(each.body) for each in self._sent)

    def mend(self, waiting: Waiting) -> bool:
        """Count anew, and say whether an entry was added whose adding was interrupted."""
        self.recount()
        newest = self._unsent or self._sent
        return waiting.wal_seq <= (newest[-1].wal_seq if newest else self.acked_seq)

    def take(self) -> Waiting:
        """Give the next one, which is under way from now on; interrupted: ``recount``."""
        waiting = self._unsent[0]
        self._sent.append(waiting)  # Before it is taken from there: it is never nowhere.
        self._unsent.popleft()
        self.sent_bytes += len(waiting.body)
        self.unsent_bytes -= len(waiting.body)
        return waiting

    def take_alone(self, bytes_max: int) -> Waiting | None:
        """Give the next one if it is the only one that is kept, and no larger than that."""
        if self.sent_bytes or len(self._unsent) != 1 or len(self._unsent[0].body) > bytes_max:
            return None
        return self.take()

    def take_frame(self, length: int, rules: LoaderRules) -> list[Waiting]:
        """Give what may go as one frame into a block of this length; empty: nothing now."""
        frame: list[Waiting] = []
        size = 0
        if self.sent_bytes and self.unsent_bytes < _COALESCE_BYTES:
            return frame  # More will have come when that is acknowledged.
        limits = [AHEAD * rules.soft_bytes, rules.soft_bytes, rules.hard_bytes]
        room = min((limit for limit in limits if limit > length), default=0) - length
        past = length >= rules.soft_bytes
        while (waiting := self.next) is not None and self.sent_bytes < rules.window_bytes:
            if frame and (past or size >= room or size + len(waiting.body) > _FRAME_BYTES):
                break
            frame.append(self.take())
            size += len(waiting.body)
        return frame

    def acked(self, last_seq: int) -> None:
        """Let go of all up to this number: each location has them."""
        while self._sent and self._sent[0].wal_seq <= last_seq:
            self.sent_bytes -= len(self._sent.popleft().body)
        while not self._sent and self._unsent and self._unsent[0].wal_seq <= last_seq:
            self.unsent_bytes -= len(self._unsent.popleft().body)
        self.acked_seq = max(self.acked_seq, last_seq)

    def rewind(self, last_seq: int) -> None:
        """Begin anew behind what a block ended with: that is in, all else is to be sent again."""
        self.acked(last_seq)
        self._unsent.extendleft(reversed(self._sent))
        self.unsent_bytes += self.sent_bytes
        self.sent_bytes = 0
        self._sent.clear()
