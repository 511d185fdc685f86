"""Cores have numbers, and their folders are named after them."""

from __future__ import annotations

import re
from typing import Final

from quiver.disk import Disk, folder_bytes
from quiver.errors import QuiverError
from quiver.wal import ACTIVE_NAME
from quiver.wal.format import HEADER_BYTES

__all__ = [
    "CORES_MAX",
    "STAGING",
    "core_bytes",
    "core_folder",
    "core_numbers",
    "staged_bytes",
    "was_used",
]

CORES_MAX: Final = 1024
"""How many cores a store may have."""

STAGING: Final = "staging"
"""The folder of segments that were built for an intake; no core's, and seen by no reader."""

_FOLDER: Final = re.compile(r"core_(0|[1-9][0-9]{0,8})")


def core_folder(number: int) -> str:
    """Name of the folder of one core."""
    return f"core_{number}"


def core_numbers(disk: Disk) -> list[int]:
    """List the cores that have a folder, ascending."""
    matches = [_FOLDER.fullmatch(e.name) for e in disk.list_dir("") if not e.is_file]
    return sorted(int(match[1]) for match in matches if match)


def core_bytes(disk: Disk, number: int) -> int:
    """Count what the files of a core take on the disk; what goes meanwhile counts as gone."""
    return folder_bytes(disk, core_folder(number))


def was_used(disk: Disk, number: int) -> bool:
    """Whether a core ever had a bundle, as far as its folder tells at a glance."""
    folder = core_folder(number)
    log, segments = disk.stat(f"{folder}/wal/{ACTIVE_NAME}"), f"{folder}/segments"
    if log is not None and log.size > HEADER_BYTES:
        return True
    try:
        return disk.stat(segments) is not None and bool(disk.list_dir(segments))
    except QuiverError:  # Something else is in its place, perhaps of somebody else.
        return True


def staged_bytes(disk: Disk) -> int:
    """Count what waits for an intake, which is in no core yet."""
    return folder_bytes(disk, STAGING)
