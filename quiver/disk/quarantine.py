"""Set damaged bytes aside as a file with its reason beside it, before anything destroys them.

The name says where the bytes were, so the same damage found again at the next start is not copied
again: a crash loop does not fill the disk.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable

from quiver.disk.replace import write_new
from quiver.disk.vfs import FILE_MODE, Bytes, Disk, File
from quiver.errors import DamageError

__all__ = ["copy_file", "copy_range", "save_bytes"]

_PIECE = 4 << 20


def copy_file(disk: Disk, folder: str, path: str, *, error: DamageError) -> None:
    """Copy a whole file to ``folder`` under its own name, durable when this returns."""
    file = disk.open(path)
    try:
        name = posixpath.basename(path)
        copy_range(disk, folder, name, file=file, offset=0, end=file.size(), error=error)
    finally:
        file.close()


def copy_range(
    disk: Disk, folder: str, name: str, *, file: File, offset: int, end: int, error: DamageError
) -> None:
    """Copy bytes ``[offset, end)`` of a file to ``folder/name``, durable when this returns."""
    pieces = (file.read(at, min(_PIECE, end - at)) for at in range(offset, end, _PIECE))
    save_bytes(disk, folder, name, data=pieces, error=error)


def save_bytes(
    disk: Disk, folder: str, name: str, *, data: Iterable[Bytes], error: DamageError
) -> None:
    """Write bytes as ``folder/name`` and the error as ``folder/name.json``.

    When this returns both survive a power cut. If both are there already nothing is written.
    """
    path = f"{folder}/{name}"
    if disk.stat(path) is not None and disk.stat(f"{path}.json") is not None:
        disk.sync_dir(folder)  # Whoever wrote them may have been killed before.
        return
    disk.make_dir(folder)
    disk.sync_dir(posixpath.dirname(folder))
    size = write_new(disk, path, data, mode=FILE_MODE)
    reason = {
        "reason": error.message,
        "path": error.path,
        "offset": error.offset,
        "bytes": size,
        "expected": None if error.expected is None else str(error.expected),
        "found": None if error.found is None else str(error.found),
    }
    text = json.dumps(reason, indent=2) + "\n"
    write_new(disk, f"{path}.json", [text.encode()], mode=FILE_MODE)
