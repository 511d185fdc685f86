"""Bytes into files with as few copies as the system allows: of other files, of several pieces."""

from __future__ import annotations

from collections.abc import Sequence

from quiver.disk.local_file import LocalFile
from quiver.disk.vfs import Bytes, File

__all__ = ["copy_bytes", "write_parts"]

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


def write_parts(file: File, offset: int, parts: Sequence[Bytes]) -> int:
    """Write pieces of bytes, a thousand at most, one after the other; give how many bytes it was.

    All of them are written at ``offset`` as by one write, or this raises with any prefix written.
    """
    if type(file) is LocalFile:
        return file.write_parts(offset, parts)
    data = b"".join(parts)
    file.write(offset, data)
    return len(data)
