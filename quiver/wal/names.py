"""What the files of a log are called, and what is known of one that is full."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["ACTIVE_NAME", "RotatedFile", "rotated_generation", "rotated_name"]

ACTIVE_NAME: Final = "quiver.wal"
_ROTATED: Final = re.compile(re.escape(ACTIVE_NAME) + r"\.([1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class RotatedFile:
    """A WAL file that nobody appends to any more."""

    generation: int
    file_bytes: int
    end: int
    """Where its entries end: before what is there of earlier times, if it was used before."""


def rotated_name(generation: int) -> str:
    """Name of the file that was active in this generation."""
    return f"{ACTIVE_NAME}.{generation}"


def rotated_generation(name: str) -> int | None:
    """Read the generation out of a rotated file's name; None if the name is something else's."""
    found = _ROTATED.fullmatch(name)
    return None if found is None else int(found[1])
