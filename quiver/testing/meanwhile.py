"""A stage on which something else is done in the middle of writing a segment.

The store writes a segment without its lock, so anything may happen between two acts of that. Here
it happens in the same thread, at an act that is chosen, and so in the same way each time::

    create  write  write ... sync  rename  sync folder  (registered)
   ^       ^      ^         ^     ^       ^            ^
   0       1      2        ...                         n

There is a moment before each act, and one after the last. Behind that the log is given back, with
a moment before each hole that is punched without the lock.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quiver.disk import FILE_MODE, Bytes
from quiver.errors import StorageError

if TYPE_CHECKING:
    from quiver.disk import File
    from quiver.testing.subject import Stage

__all__ = ["BusyStage"]


class BusyStage:
    """A stage that calls ``meanwhile`` at each moment of writing a segment, with its number.

    What is done there may act on the stage as well; no moments are counted in that. An act may be
    refused, with nothing of it done.
    """

    def __init__(self, stage: Stage) -> None:
        """Pass everything on to ``stage``."""
        self.meanwhile: Callable[[int], None] | None = None
        self.refused: int | None = None
        """The moment whose act the disk refuses; once."""
        self.is_locked: Callable[[], bool] = lambda: True
        """Whether whoever acts holds the store's lock, so that nobody else could."""
        self._stage = stage
        self._moment = 0
        self._is_aside = False

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        """Pass on what is nobody's business here."""
        return getattr(self._stage, name)

    def segment_moment(self, path: str) -> None:
        """Let something else be done, if this is about a segment that is being written."""
        if _is_of_segment(path):
            self.moment(path)

    def moment(self, path: str) -> None:
        """Let something else be done, unless this is part of that."""
        if self._is_aside:
            return
        number, self._moment = self._moment, self._moment + 1
        if number == self.refused:
            self.refused = None
            raise StorageError(f"cannot write {path}", path=path, errno=errno.EIO)
        if self.meanwhile is None:
            return
        self._is_aside = True
        try:
            self.meanwhile(number)
        finally:
            self._is_aside = False

    def create(self, path: str, *, mode: int = FILE_MODE) -> File:
        """Make a new file; with that the moments of a segment begin."""
        if _is_of_segment(path) and not self._is_aside:
            self._moment = 0
        self.segment_moment(path)
        return self._busy(self._stage.create(path, mode=mode))

    def open(self, path: str, *, writable: bool = False) -> File:
        """Open a file that exists."""
        return self._busy(self._stage.open(path, writable=writable))

    def _busy(self, file: File) -> File:
        if _is_of_segment(file.path):
            return _BusyFile(self, file)
        return _BusyLog(self, file) if "/quiver.wal" in file.path else file

    def rename(self, source: str, target: str) -> None:
        """Give a file another name in one step."""
        self.segment_moment(source)
        self._stage.rename(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        self.segment_moment(path)
        self._stage.unlink(path)

    def sync_dir(self, path: str) -> None:
        """Make the names in this folder durable."""
        self.segment_moment(path)
        self._stage.sync_dir(path)
        self.segment_moment(path)


class _Watched:
    """A file in whose acts something else may be done."""

    def __init__(self, stage: BusyStage, file: File) -> None:
        self._stage = stage
        self._file = file
        self.path = file.path

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._file, name)


class _BusyFile(_Watched):
    """A segment in the making."""

    def write(self, offset: int, data: Bytes) -> None:
        self._stage.moment(self.path)
        self._file.write(offset, data)

    def sync(self) -> None:
        self._stage.moment(self.path)
        self._file.sync()


class _BusyLog(_Watched):
    """A file of the log, of which a part is given back."""

    def punch(self, offset: int, length: int) -> bool:
        if not self._stage.is_locked():
            self._stage.moment(self.path)
        return self._file.punch(offset, length)


def _is_of_segment(path: str) -> bool:
    return path.endswith((".qseg.tmp", "/segments"))
