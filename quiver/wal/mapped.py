"""Entries of a log where they lie, mapped: what recovery holds until a segment has it.

Reading and checking goes through memory that is used again at once; only what is to be kept is
mapped, so that a large log is not copied into fresh memory, which costs far more than reading it.
"""

from __future__ import annotations

from typing import Final

from quiver.disk import File

__all__ = ["MappedLog"]

_PIECE: Final = 8 << 20


class MappedLog:
    """A file of the log in pieces, each mapped as long as a view of it is held.

    What it shows was read and found good a moment ago. It stays: a log is appended to, cut behind
    its last entry, and given back only where segments hold what was there.
    """

    def __init__(self, file: File) -> None:
        """Map nothing yet; the file must be open until the last ``view``."""
        self._file = file
        self._size = file.size()
        self._start = 0
        self._piece = memoryview(b"")

    def view(self, offset: int, length: int) -> memoryview:
        """Give bytes ``[offset, offset + length)`` of the file, without a copy."""
        inside = offset - self._start
        if inside < 0 or inside + length > len(self._piece):
            wanted = max(length, min(_PIECE, self._size - offset))
            self._piece = self._file.map(offset, wanted)
            self._start, inside = offset, 0
        return self._piece[inside : inside + length]
