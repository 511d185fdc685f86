"""What a query leaves in its checkpoint for ``quiver spark-ack``: who it is and what it reads.

``quiver/<subscriber>-<store>.json`` in the checkpoint folder, and beside it a lock that is held for
as long as the process of the query that reads the store is there. One query may read two stores.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Final

from quiver.checkpoint.folder import CheckpointFolder
from quiver.disk import Disk, Lock, replace
from quiver.errors import DamagedEntry, LockedError

__all__ = ["FOLDER", "Note", "hold", "read_notes", "write_note"]

FOLDER: Final = "quiver"
_SUFFIX: Final = ".json"
_LOCK: Final = ".lock"
_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Note:
    """One source of a query: a slot of a store, read as a subscriber, written into a sink.

    ``sink`` is the folder of a file sink, ``synced``, or empty if nothing is known of it.
    """

    store: str
    store_id: str
    slot: str
    subscriber: str
    sink: str = ""
    schema: str = ""
    """The columns that the query reads, as a schema message of Arrow in base64."""

    @property
    def stem(self) -> str:
        """The path of its files in the checkpoint, without their ends."""
        return f"{FOLDER}/{self.subscriber}-{self.store_id}"


def write_note(disk: Disk, note: Note) -> None:
    """Leave a note; one that is there and says the same stays as it is."""
    path = f"{note.stem}{_SUFFIX}"
    disk.make_dir(FOLDER)
    data = json.dumps(asdict(note) | {"version": 1}, sort_keys=True).encode()
    if disk.stat(path) is not None:
        with closing(disk.open(path)) as file:
            if file.read(0, _BYTES_MAX) == data:
                return
    replace(disk, path, data)
    disk.sync_dir("")


def read_notes(folder: CheckpointFolder) -> Iterator[Note]:
    """Give the notes in a checkpoint, in order of the subscribers' names."""
    disk = folder.disk
    if disk is None or disk.stat(FOLDER) is None:
        return
    for stat in disk.list_dir(FOLDER):
        if not stat.is_file or not stat.name.endswith(_SUFFIX):
            continue
        with closing(disk.open(f"{FOLDER}/{stat.name}")) as file:
            text = file.read(0, _BYTES_MAX)
        try:
            fields = json.loads(text)
            fields.pop("version")
            note = Note(**fields)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise DamagedEntry(
                "the note of a query cannot be read",
                path=posixpath.join(folder.path, FOLDER, stat.name),
                hint="start the query again, which writes it anew",
            ) from error
        yield note


def hold(disk: Disk, note: Note) -> Lock | None:
    """Take the lock of a query that is there; None if another process has it."""
    disk.make_dir(FOLDER)
    try:
        return disk.lock(f"{note.stem}{_LOCK}")
    except LockedError:
        return None
