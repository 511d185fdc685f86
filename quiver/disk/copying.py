"""Copy bytes from one open file to another, inside the system where it can."""

from __future__ import annotations

from quiver.disk.local import LocalFile
from quiver.disk.vfs import File

__all__ = ["copy_bytes"]

_PIECE = 4 << 20


def copy_bytes(source: File, target: File, *, offset: int, length: int, at: int) -> None:
    """Copy ``[offset, offset + length)`` to ``at``; durable after the target's next sync.

    Uses copy_file_range between files of the system, which shares blocks where the file system
    can, and reads and writes everywhere else. Holes of the source may become zeros.
    """
    done = 0
    if isinstance(source, LocalFile) and isinstance(target, LocalFile):
        done = target.copy_from(source, offset=offset, length=length, at=at)
    while done < length:
        data = source.read(offset + done, min(_PIECE, length - done))
        if not data:
            break
        target.write(at + done, data)
        done += len(data)
