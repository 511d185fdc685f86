"""One split on its way: its reader, and what was read and is not taken yet."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from quiver.errors import ClosedError, SourceError
from quiver.source.parser import PAYLOAD, DeadLetter, Parser
from quiver.source.protocols import Connector, Split, SplitBatch, SplitReader

__all__ = ["Lane", "Making", "SourceChunk"]

_WAIT: Final = 60.0
"""Seconds that a reader is asked to wait; a close wakes it."""


@dataclass(frozen=True, slots=True)
class SourceChunk:
    """Rows of one split: where each is, what follows them, and what was no row.

    A row's split is ``split`` and its place there is in ``offsets``; ``state`` covers the dead
    letters as well, so whoever keeps the one has to keep the other.
    """

    split: str
    batch: pa.RecordBatch
    offsets: pa.Array[Any]
    state: str
    dead_letters: tuple[DeadLetter, ...] = ()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        dead = sum(len(letter.payload) for letter in self.dead_letters)
        return self.batch.nbytes + self.offsets.nbytes + dead


@dataclass(frozen=True, slots=True)
class Making:
    """How readers are made and what becomes of what they read; the same for all lanes."""

    connector: Connector
    columns: Sequence[str] | None
    parser: Parser | None

    def reader(self, split: Split, state: str | None) -> SplitReader:
        """Restore a reader of one split."""
        return self.connector.reader(split, state, self.columns)

    def chunk(self, split: str, found: SplitBatch) -> SourceChunk:
        """Take apart what was read, if it is messages."""
        if self.parser is None:
            return SourceChunk(split, found.batch, found.offsets, found.state)
        try:
            parsed = self.parser.parse(found.batch)
        except SourceError as error:
            raise SourceError(
                f"split {split}: {error.message}", split=split, hint=error.hint
            ) from error
        offsets = found.offsets
        dead = []
        for refused in parsed.refused:
            payload = found.batch.column(PAYLOAD)[refused.place].as_py() or b""
            offset = offsets[refused.place].as_py()
            dead.append(DeadLetter(split, offset, refused.reason, payload))
        if parsed.refused:
            offsets = offsets.take(pa.array(parsed.rows, pa.int64()))
        return SourceChunk(split, parsed.batch, offsets, found.state, tuple(dead))


class Lane:
    """One split of a source. All fields but ``split`` are under the lock of ``bell``."""

    def __init__(self, making: Making, split: Split, state: str | None) -> None:
        self.split = split
        self.state = state
        """What follows what was taken from here."""
        self.error: Exception | None = None
        self.is_drained = False
        self.queue: deque[SourceChunk] = deque()
        self.queue_bytes = 0
        self._making = making
        self._reader: SplitReader | None = None
        self._is_closed = False

    def has_room(self, bytes_max: int, batches_max: int) -> bool:
        """Whether another batch may be read; one always may."""
        if not self.queue:
            return True
        return self.queue_bytes < bytes_max and len(self.queue) < batches_max

    def put(self, chunk: SourceChunk) -> None:
        """Keep what was read."""
        self.queue.append(chunk)
        self.queue_bytes += chunk.nbytes

    def take(self) -> SourceChunk:
        """Hand out what was read first; from now on the state is behind it."""
        chunk = self.queue.popleft()
        self.queue_bytes -= chunk.nbytes
        self.state = chunk.state
        return chunk

    def read(self, timeout: float) -> SourceChunk | None:
        """Read on, in the one thread that does; the reader is made when there is none yet."""
        if self._reader is None:
            self._reader = self._making.reader(self.split, self.state)
        found = self._reader.next(timeout)
        if found is None:
            self.is_drained = self._reader.is_drained()
            return None
        return self._making.chunk(self.split.id, found)

    def fill(self, bell: threading.Condition, bytes_max: int, batches_max: int) -> None:
        """Read until closed, drained, or until something fails; what one thread does."""
        try:
            while not self.is_drained:
                with bell:
                    bell.wait_for(lambda: self._is_closed or self.has_room(bytes_max, batches_max))
                    if self._is_closed:
                        return
                self._open(bell)
                chunk = self.read(_WAIT)
                with bell:
                    if chunk is not None:
                        self.put(chunk)
                    bell.notify_all()
        except Exception as error:  # noqa: BLE001 Whoever takes from here gets it.
            with bell:
                if not (self._is_closed and isinstance(error, ClosedError)):
                    self.error = error
                bell.notify_all()
        finally:
            self.let_go()

    def _open(self, bell: threading.Condition) -> None:
        """Make the reader; one that was made while the lane was closed is closed at once."""
        if self._reader is not None:
            return
        reader = self._making.reader(self.split, self.state)
        with bell:
            self._reader = reader
            is_closed = self._is_closed
        if is_closed:
            reader.close()

    def close(self, bell: threading.Condition) -> None:
        """Wake whoever reads, and let it end."""
        with bell:
            self._is_closed = True
            self.queue.clear()
            self.queue_bytes = 0
            bell.notify_all()
        self.let_go()

    def let_go(self) -> None:
        """Close the reader, if there is one."""
        if self._reader is not None:
            self._reader.close()
