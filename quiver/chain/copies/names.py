"""What the files of a copy are called: all of one partition lie in its folder."""

from __future__ import annotations

import re
from typing import Final

from quiver.chain.copies.format import NUMBER_MAX
from quiver.chain.peers import BlockName
from quiver.errors import InputError

__all__ = [
    "ASIDE",
    "FLOOR",
    "LOG",
    "SEGMENT",
    "STATE",
    "block_of",
    "check_name",
    "file_of",
    "is_partition",
]

STATE: Final = "copy"
LOG: Final = "log"
SEGMENT: Final = "qseg"
ASIDE: Final = "aside"
"""A segment that is rotten, or a log of a folder that is older than it should be."""
FLOOR: Final = "floor"

_PARTITION: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_FILE: Final = re.compile(r"([0-9]{16}|[1-9][0-9]{16,18})\.(copy|log|qseg|aside)")


def check_name(name: BlockName) -> None:
    """Raise InputError for what can be no block's name; it becomes a path."""
    if not is_partition(name.partition) or not 0 <= name.number <= NUMBER_MAX:
        raise InputError(f"{name!r:.200} is no name of a block")


def is_partition(folder: str) -> bool:
    """Whether a partition may be called that."""
    return _PARTITION.fullmatch(folder) is not None


def file_of(name: BlockName, kind: str) -> str:
    """Give the path of one of its files; segments are called everywhere by 16 decimal digits."""
    return f"{name.partition}/{name.number:016d}.{kind}"


def block_of(partition: str, file: str) -> tuple[BlockName, str] | None:
    """Say whose a file is, and which; None for what is no file of a copy."""
    found = _FILE.fullmatch(file)
    return (BlockName(partition, int(found[1])), found[2]) if found else None
