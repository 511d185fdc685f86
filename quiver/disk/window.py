"""A file that is walked from its start to its end, and not held in memory as a whole."""

from __future__ import annotations

from typing import Final

from quiver.disk.local_file import LocalFile
from quiver.disk.vfs import File

__all__ = ["WINDOW_BYTES", "PassingWindow", "Window", "read_into"]

WINDOW_BYTES: Final = 4 << 20
"""How much is read at a time, unless more is asked for."""
PASSING_BYTES: Final = 8 << 20
"""The same where it goes into one buffer: who looks at many entries at once has some work each time
that does not depend on how many they are."""


class Window:
    """A file seen through a window that moves forward; what was viewed keeps its bytes alive."""

    def __init__(self, file: File) -> None:
        """Look at a file of which the size does not change."""
        self._file = file
        self.size = file.size()
        self._start = 0
        self._view = memoryview(b"")

    def view(self, offset: int, length: int) -> tuple[memoryview, int]:
        """Give a buffer and the place of ``offset`` in it, with ``length`` bytes if there are."""
        wanted = min(length, self.size - offset)
        inside = offset - self._start
        if inside < 0 or inside + wanted > len(self._view):
            data = self._file.read(offset, max(wanted, min(WINDOW_BYTES, self.size - offset)))
            self._view, self._start, inside = memoryview(data), offset, 0
        return self._view, inside


class PassingWindow:
    """The same through one buffer: what was viewed is overwritten when the window moves.

    A buffer for each place of the window costs more than to read into it.
    """

    def __init__(self, file: File) -> None:
        """Look at a file of which the size does not change."""
        self._file = file
        self._size = file.size()
        self._start = 0
        self._buffer = memoryview(bytearray())
        self._view = self._buffer

    def view(self, offset: int, length: int) -> tuple[memoryview, int]:
        """Give a view and the place of ``offset`` in it, with ``length`` bytes if there are."""
        wanted = min(length, self._size - offset)
        inside = offset - self._start
        if inside < 0 or inside + wanted > len(self._view):
            room = max(wanted, min(PASSING_BYTES, self._size - offset))
            self._view = self._buffer[:0]  # Nothing of it is right if the read fails.
            if len(self._buffer) < room:
                self._buffer = _memory(room)
            self._view = self._buffer[: self._read(offset, room)]
            self._start, inside = offset, 0
        return self._view, inside

    def copied(self, offset: int, length: int) -> bytes | None:
        """Give bytes that are in view, to keep; None if some of them are not."""
        inside = offset - self._start
        if inside < 0 or inside + length > len(self._view):
            return None
        return bytes(self._view[inside : inside + length])

    def _read(self, offset: int, length: int) -> int:
        return read_into(self._file, offset, self._buffer[:length])


def _memory(size: int) -> memoryview:
    """Give memory that nobody filled, in few pages."""
    import numpy as np

    return np.empty(size, np.uint8).data


def read_into(file: File, offset: int, target: memoryview) -> int:
    """Read as many bytes as ``target`` has room for, or the file has; how many those were."""
    if isinstance(file, LocalFile):
        return file.read_into(offset, target)
    data = file.read(offset, len(target))
    target[: len(data)] = data
    return len(data)
