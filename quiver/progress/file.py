"""The file ``progress`` of a core: replaced as a whole, and twice in itself.

Where segments are deleted nothing else tells how far their sources were read; a source whose state
is lost would be read from its start again. So an empty file beside it says that there is one.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from quiver.disk import Disk, replace
from quiver.errors import DamagedEntry, DamageError, MissingError, TornEntry
from quiver.progress.format import COPY_BYTES_MAX, Content, decode_copy, encode_copy
from quiver.progress.table import Table

__all__ = [
    "HERE_NAME",
    "PROGRESS_NAME",
    "is_marked",
    "read_copies",
    "read_progress",
    "write_progress",
]

PROGRESS_NAME: Final = "progress"
_HERE: Final = ".here"
HERE_NAME: Final = PROGRESS_NAME + _HERE


def write_progress(
    disk: Disk, path: str, table: Table, *, wal_seq: int, core: int, store_id: str
) -> None:
    """Replace the file; it survives a power cut when this returns.

    If it raises, the file is as it was, or all new. From the first time on a mark says that it is
    there.
    """
    copy = encode_copy(table.encode(), wal_seq, core=core, store_id=bytes.fromhex(store_id))
    replace(disk, path, 2 * copy)
    if not is_marked(disk, path):
        replace(disk, path + _HERE, b"")


def is_marked(disk: Disk, path: str) -> bool:
    """Whether it is known that there is a file."""
    return disk.stat(path + _HERE) is not None


def read_progress(
    disk: Disk, path: str, *, core: int, store_id: str
) -> tuple[Content, list[DamageError]]:
    """Read the file, and list what is wrong with it; without a sound copy the content is empty.

    Raises VersionError for a newer format.
    """
    try:
        data = _read(disk, path)
    except MissingError:
        if not is_marked(disk, path):
            return Content(-1, []), []
        try:
            data = _read(disk, path)  # It may have been written in between.
        except MissingError:
            return Content(-1, []), [TornEntry("the progress is gone", path=disk.locate(path))]
    content, damage = read_copies(data, core=core, store_id=store_id)
    return content, [error.at(disk.locate(path)) for error in damage]


def _read(disk: Disk, path: str) -> bytes:
    with closing(disk.open(path)) as file:
        return file.read(0, 2 * COPY_BYTES_MAX + 1)


def read_copies(data: bytes, *, core: int, store_id: str) -> tuple[Content, list[DamageError]]:
    """Do the same with the bytes of a file."""
    owner, half = bytes.fromhex(store_id), len(data) // 2
    damage: list[DamageError] = []
    for start in (0, half):
        view = memoryview(data)[start:]
        try:
            content, length = decode_copy(view, core=core, store_id=owner)
        except DamageError as error:
            damage.append(error.at("", base=start))
            continue
        if data != 2 * bytes(view[:length]):
            found = damage or [DamagedEntry("the copies of the progress differ", offset=half)]
            return content, found
        return content, []
    return Content(-1, []), damage[:1]
