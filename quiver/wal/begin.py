"""How a file of the log comes to be: made new, or written over one that is no longer needed.

Either is durable under another name first; ``activate`` gives it the name of the active file.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from quiver.disk import FILE_MODE, TEMPORARY, Disk, File
from quiver.wal.format import HEADER_BYTES, Place, encode_checkpoint, encode_header
from quiver.wal.names import ACTIVE_NAME
from quiver.wal.reuse import FIRST
from quiver.wal.writer import ReusedWriter, Writer

__all__ = [
    "Prepared",
    "activate",
    "create_active",
    "encode_head",
    "first_of",
    "hole_bytes",
    "prepare",
    "prepare_again",
]


class Prepared(NamedTuple):
    """A file that is durable but for its name, and where its entries end."""

    path: str
    end: int
    last_seq: int
    file_bytes: int = 0
    """How large it is, if it was used before."""


def create_active(
    disk: Disk, folder: str, *, digest: bytes, generation: int, last_seq: int, truncated: Place
) -> Writer:
    """Make a new active file, durable with its name when this returns.

    ``last_seq`` is the last sequence before it, -1 if there was none.
    """
    head = encode_head(digest, last_seq, truncated)
    prepared = prepare(disk, folder, head, last_seq=last_seq)
    return activate(disk, folder, prepared, generation=generation)


def encode_head(digest: bytes, last_seq: int, truncated: Place) -> bytes:
    """Write what a new file begins with; ``last_seq`` is -1 if there is nothing before it."""
    head = encode_header(digest)
    return head if last_seq < 0 else head + encode_checkpoint(last_seq, truncated)


def prepare(
    disk: Disk,
    folder: str,
    head: bytes,
    *,
    last_seq: int,
    tail: Callable[[File, int], int] | None = None,
) -> Prepared:
    """Make a file under a temporary name, durable."""
    path = f"{folder}/{ACTIVE_NAME}{TEMPORARY}"
    if disk.stat(path) is not None:
        disk.unlink(path)
    file = disk.create(path, mode=FILE_MODE)
    try:
        file.write(0, head)
        end = len(head) if tail is None else tail(file, len(head))
        file.sync()
        return Prepared(path, end, last_seq)
    finally:
        file.close()


def prepare_again(disk: Disk, path: str, head: bytes, *, last_seq: int) -> Prepared:
    """Begin a file anew whose entries are all in segments; what is behind the mark stays there."""
    with closing(disk.open(path, writable=True)) as file:
        file.write(0, head)
        file.sync()
        return Prepared(path, FIRST, last_seq, file.size())


def activate(disk: Disk, folder: str, prepared: Prepared, *, generation: int) -> Writer:
    """Give a file the name of the active one, durably."""
    path = f"{folder}/{ACTIVE_NAME}"
    disk.rename(prepared.path, path)
    disk.sync_dir(folder)
    file = disk.open(path, writable=True)
    if not prepared.file_bytes:
        return Writer(file, generation, prepared.end)
    return ReusedWriter(
        file, generation, prepared.end, file_bytes=prepared.file_bytes, last_seq=prepared.last_seq
    )


def first_of(writer: Writer) -> int:
    """Where bytes of a file begin that may be given back."""
    return FIRST if isinstance(writer, ReusedWriter) else HEADER_BYTES


def hole_bytes(disk: Disk, folder: str) -> int:
    """Count what of the active file takes no room on the disk."""
    found = disk.stat(f"{folder}/{ACTIVE_NAME}")
    return 0 if found is None else max(found.size - found.allocated, 0)
