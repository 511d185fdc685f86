"""How much room a folder takes, while others may write to it and delete from it."""

from __future__ import annotations

from contextlib import suppress

from quiver.disk.vfs import Disk
from quiver.errors import MissingError

__all__ = ["folder_bytes"]


def folder_bytes(disk: Disk, folder: str) -> int:
    """Count what all files below a folder take on the disk; what goes meanwhile counts as gone."""
    total, folders = 0, [folder]
    while folders:
        inside = folders.pop()
        with suppress(MissingError):
            for entry in [] if disk.stat(inside) is None else disk.list_dir(inside):
                if entry.is_file or entry.is_link:
                    total += entry.allocated
                else:
                    folders.append(f"{inside}/{entry.name}")
    return total
