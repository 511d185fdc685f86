"""Cores have numbers, and their folders are named after them."""

from __future__ import annotations

import re
from typing import Final

from quiver.disk import Disk, folder_bytes

__all__ = ["CORES_MAX", "core_bytes", "core_folder", "core_numbers"]

CORES_MAX: Final = 1024
"""How many cores a store may have."""

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
