"""A file that is walked from its start to its end, and not held in memory as a whole."""

from __future__ import annotations

from typing import Final

from quiver.disk.vfs import File

__all__ = ["WINDOW_BYTES", "Window"]

WINDOW_BYTES: Final = 4 << 20
"""How much is read at a time, unless more is asked for."""


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
