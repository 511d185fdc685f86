"""The file ``progress`` of a core: replaced as a whole, and twice in itself.

Where segments are deleted nothing else tells how far their sources were read; a source whose state
is lost would be read from its start again.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from quiver.disk import Disk, replace
from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.progress.format import COPY_BYTES_MAX, Content, decode_copy, encode_copy
from quiver.progress.table import Table

__all__ = ["PROGRESS_NAME", "read_copies", "read_progress", "write_progress"]

PROGRESS_NAME: Final = "progress"


def write_progress(
    disk: Disk, path: str, table: Table, *, wal_seq: int, core: int, store_id: str
) -> None:
    """Replace the file; it survives a power cut when this returns.

    If it raises, the file is as it was, or all new.
    """
    copy = encode_copy(table.encode(), wal_seq, core=core, store_id=bytes.fromhex(store_id))
    replace(disk, path, 2 * copy)


def read_progress(
    disk: Disk, path: str, *, core: int, store_id: str
) -> tuple[Content, list[DamageError]]:
    """Read the file, and list what is wrong with it; without a sound copy the content is empty.

    Raises VersionError for a newer format.
    """
    try:
        file = disk.open(path)
    except MissingError:
        return Content(-1, []), []
    with closing(file):
        data = file.read(0, 2 * COPY_BYTES_MAX + 1)
    content, damage = read_copies(data, core=core, store_id=store_id)
    return content, [error.at(disk.locate(path)) for error in damage]


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
