"""Where the streams of a segment lie, and their checksums, computed while they are written.

The checksums take about as long as the writing does, and both leave the interpreter to others.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from quiver.ipc_build import Piece
from quiver.segment.format import padding
from quiver.segment.pages import StreamCheck, StreamChecks

__all__ = ["Checking", "Checks", "lay_out"]

_BLOCK_BYTES: Final = 1 << 18
_ALONE_BYTES: Final = 1 << 20
"""Less than this is checked sooner than a thread is there."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """One stream: the zeros in front of it, where it starts, and its bytes."""

    gap: bytes
    offset: int
    pieces: Sequence[Piece]


def lay_out(streams: Iterable[Sequence[Piece]]) -> list[_Placed]:
    """Put streams one after the other, each at the next place where one may start."""
    placed, end = [], 0
    for pieces in streams:
        gap = bytes(padding(end))
        placed.append(_Placed(gap, end + len(gap), pieces))
        end += len(gap) + sum(map(len, pieces))
    return placed


@dataclass(slots=True)
class Checks:
    """What was found: the checksums of each stream, and of all of them with what is between."""

    streams: list[StreamChecks] = field(default_factory=list)
    size: int = 0
    crc32: int = 0

    def add(self, data: Piece) -> None:
        """Go over bytes of the file."""
        self.size += len(data)
        self.crc32 = zlib.crc32(data, self.crc32)


class Checking:
    """Computes checksums in a thread of its own, if there can be one and it is worth it."""

    def __init__(self, placed: Sequence[_Placed]) -> None:
        """Begin."""
        self._placed = placed
        self._checks = Checks()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        if sum(len(piece) for each in placed for piece in each.pieces) < _ALONE_BYTES:
            return
        thread = threading.Thread(target=self._run, name="quiver-checks", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # There are too many, or the interpreter is about to end.
            return
        self._thread = thread

    def _run(self) -> None:
        try:
            self._check()
        except BaseException as error:  # noqa: BLE001 Raised by ``result``.
            self._failure = error

    def _check(self) -> None:
        checks = self._checks
        for each in self._placed:
            checks.add(each.gap)
            stream = StreamCheck(each.offset)
            for piece in each.pieces:
                view = memoryview(piece)
                # All of them go over a block while it is in the processor's cache.
                for start in range(0, len(view), _BLOCK_BYTES):
                    block = view[start : start + _BLOCK_BYTES]
                    checks.add(block)
                    stream.add(block)
            checks.streams.append(stream.found())

    def result(self) -> Checks:
        """Wait for it, once."""
        if self._thread is None:
            self._check()
        else:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._checks
