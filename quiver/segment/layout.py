"""Where the streams of a segment lie, and their checksums, computed while they are written.

The checksums take about as long as the writing does, and both leave the interpreter to others.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from quiver.ipc_build import Piece
from quiver.segment.format import padding
from quiver.segment.pages import StreamChecks, check_stream

__all__ = ["Checking", "Checks", "lay_out"]

_PIECE_BYTES: Final = 1 << 16
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
        joined = list(_joined(pieces))
        gap = bytes(padding(end))
        placed.append(_Placed(gap, end + len(gap), joined))
        end += len(gap) + sum(map(len, joined))
    return placed


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Put small pieces together: each costs some calls."""
    small: list[Piece] = []
    size = 0
    for piece in pieces:
        if small and size + len(piece) > _PIECE_BYTES:
            yield b"".join(small)
            small, size = [], 0
        if not small and len(piece) > _PIECE_BYTES // 2:
            yield piece
        else:
            small.append(piece)
            size += len(piece)
    if small:
        yield b"".join(small)


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
            for piece in each.pieces:
                checks.add(piece)
            checks.streams.append(check_stream(each.pieces, each.offset))

    def result(self) -> Checks:
        """Wait for it, once."""
        if self._thread is None:
            self._check()
        else:
            self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._checks
