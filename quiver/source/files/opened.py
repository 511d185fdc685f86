"""A file of the source, open: what pyarrow reads from, by way of the disk.

It is read and not mapped: a file that another program cuts while it is mapped ends the process.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from quiver.disk import Disk, File
from quiver.errors import MissingError, SourceError
from quiver.source.format import FileEntry

__all__ = ["Opened", "arrow_file"]

_SET, _CURRENT, _END = 0, 1, 2
_HINT: Final = (
    "files are read once and must not change: give new rows a file of a new name, and write it "
    "under a hidden or temporary one until it is whole"
)


class Opened:
    """One file of the register, with the few methods that pyarrow asks of a Python file."""

    closed = False

    def __init__(self, disk: Disk, entry: FileEntry, split: str) -> None:
        """Open it; raises SourceError if it is gone or not as it was registered."""
        self.entry = entry
        self._disk = disk
        self._split = split
        self._place = 0
        try:
            self._file: File = disk.open(entry.path)
        except MissingError as error:
            raise SourceError(
                f"{self.path} is gone",
                split=split,
                hint="it was found and not read to its end: put it back as it was",
            ) from error
        try:
            self.check()
        except SourceError:
            self._file.close()
            raise

    @property
    def path(self) -> str:
        """The path that a person would use."""
        return self._disk.locate(self.entry.path)

    def check(self) -> None:
        """Raise SourceError if the file is not what it was when it was found."""
        found = self._disk.stat(self.entry.path)
        size = self._file.size()
        if found is None:
            return  # Deleted while it is read: what is open is still whole.
        if size != self.entry.size or found.size != size:
            raise self._changed(f"{self.entry.size:,} bytes when it was found, {found.size:,} now")
        if found.modified_ns != self.entry.modified_ns:
            raise self._changed("written to after it was found")

    def _changed(self, how: str) -> SourceError:
        return SourceError(f"{self.path} has changed: {how}", split=self._split, hint=_HINT)

    def pread(self, offset: int, length: int) -> bytes:
        """Copy bytes; fewer only where the file ends."""
        return self._file.read(offset, length)

    def read(self, size: int = -1) -> bytes:
        """Read on from the cursor."""
        data = self._file.read(self._place, self.size() - self._place if size < 0 else size)
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = _SET) -> int:
        """Move the cursor."""
        base = {_SET: 0, _CURRENT: self._place, _END: self.size()}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        """Where the cursor is."""
        return self._place

    def size(self) -> int:
        """How many bytes the file had when it was found."""
        return self.entry.size

    def readable(self) -> bool:
        """Say yes."""
        return True

    def writable(self) -> bool:
        """Say no."""
        return False

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def flush(self) -> None:
        """Do nothing: nothing is written."""

    def close(self) -> None:
        """Let go of the file."""
        self.closed = True
        self._file.close()


def arrow_file(opened: Opened) -> pa.PythonFile:
    """Give it as a file of pyarrow's."""
    source: Any = opened
    return pa.PythonFile(source, mode="r")
