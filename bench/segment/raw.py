"""The same acts on the same number of bytes with nothing around: the bars of this bench."""

from __future__ import annotations

import os
import time
from pathlib import Path

from crc32c import crc32c

__all__ = ["RawLog", "write_file"]


def write_file(folder: Path, data: bytes | memoryview) -> float:
    """Create a file, write it, fdatasync, rename it, sync the folder; seconds."""
    temporary, name = folder / "raw.tmp", folder / "raw"
    begun = time.perf_counter()
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o440)
    rest = memoryview(data)
    offset = 0
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        offset, rest = offset + written, rest[written:]
    os.fdatasync(descriptor)
    os.close(descriptor)
    os.rename(temporary, name)
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(place)
    os.close(place)
    return time.perf_counter() - begun


class RawLog:
    """A file to which frames are appended, each checksummed and synced."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._offset = 0

    def append(self, frame: bytes) -> None:
        """Return once the frame is on the disk."""
        crc32c(memoryview(frame)[4:-4])
        self._offset += os.pwrite(self._descriptor, frame, self._offset)
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
