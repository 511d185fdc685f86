"""Which pages of a file are in memory: what a reader of a cold file has touched.

The kernel reads around the place of a fault, as much as the disk's ``read_ahead_kb`` says, so this
counts what was read and not what was needed.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

__all__ = ["drop", "resident", "segment_files", "touched"]

_libc = ctypes.CDLL(None, use_errno=True)


def segment_files(store: str | os.PathLike[str]) -> list[Path]:
    """List the segment files of all cores of a store."""
    return sorted(Path(store).glob("core_*/segments/*.qseg"))


def drop(paths: Iterable[Path]) -> None:
    """Drop files from the page cache; pages that somebody has mapped and touched stay."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # Pages that are to be written are not dropped.
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def resident(path: Path) -> int:
    """Count the bytes of a file that are in memory, in whole pages; touches none of them."""
    size = path.stat().st_size
    if size == 0:
        return 0
    states = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    with path.open("rb") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as map_:
        view = np.frombuffer(map_, np.uint8)
        failed = _libc.mincore(
            ctypes.c_void_p(view.ctypes.data),
            ctypes.c_size_t(size),
            ctypes.c_void_p(states.ctypes.data),
        )
        del view  # The map cannot be closed before.
    if failed:
        raise OSError(ctypes.get_errno(), "mincore", str(path))
    return int(np.count_nonzero(states & 1)) * mmap.PAGESIZE


def touched(paths: Iterable[Path]) -> float:
    """Give the share of files that is in memory, 0 to 1."""
    files = list(paths)
    whole = sum(-(-path.stat().st_size // mmap.PAGESIZE) * mmap.PAGESIZE for path in files)
    return sum(map(resident, files)) / whole
