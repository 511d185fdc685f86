"""The folder that files are exported to: whose it is, what it has already, one writer at a time.

=======================  ====================================================================
name                     what it is
=======================  ====================================================================
``<slot>-<core>-...``    a file that is whole; ``names`` says how to read its name
``.quiver-export.json``  which store and which subscriber these files are of
``.quiver-export.lock``  held by the exporter
``.quiver-export.*.tmp``  a file that is being written, or that a dead exporter left
=======================  ====================================================================

Files that are called otherwise are somebody else's and left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quiver.disk import NewFile, is_temporary, remove, replace
from quiver.errors import InputError, LockedError
from quiver.export.formats import write_rows
from quiver.export.names import Covered, FileRange, Place
from quiver.manifest import MANIFEST_NAME

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.disk import Disk, Lock

__all__ = ["ExportFolder", "ExportedFile"]

_PREFIX: Final = ".quiver-export."
_LOCK: Final = f"{_PREFIX}lock"
_OWNER: Final = f"{_PREFIX}json"
_TEMPORARY: Final = f"{_PREFIX}rows.tmp"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file that was written; ``path`` is where a person finds it."""

    path: str
    range: FileRange
    bundle_count: int
    row_count: int
    file_bytes: int


class ExportFolder:
    """A folder that this process exports to; made by ``open``."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._covered = Covered()
        self._is_unsure = False
        """Whether there may be files that were written and not settled."""

    @classmethod
    @contextmanager
    def open(cls, disk: Disk, *, store_id: str, subscriber: str) -> Iterator[ExportFolder]:
        """Have a folder for the length of a block, for one subscriber of one store.

        Raises LockedError if another exporter has it, and InputError if the files in it are of
        another store or subscriber: their names would say that ours are written.
        """
        place = disk.locate("")
        if disk.stat(MANIFEST_NAME) is not None:
            raise InputError(f"{place} is a store", hint="export to a folder of its own")
        lock = _lock(disk)
        try:
            names = [entry.name for entry in disk.list_dir("") if entry.is_file]
            is_used = any(map(FileRange.parse, names))
            _own(disk, {"store_id": store_id, "subscriber": subscriber}, is_used=is_used)
            for name in names:
                if name.startswith(_PREFIX) and is_temporary(name):
                    remove(disk, name)
            folder = cls(disk)
            folder._look()
            yield folder
        finally:
            lock.release()

    def _look(self) -> None:
        """Learn which files there are."""
        # A name that a killed exporter left visible may not be durable yet; acks rely on it.
        self._disk.sync_dir("")
        covered = Covered()
        for entry in self._disk.list_dir(""):
            range_ = FileRange.parse(entry.name) if entry.is_file else None
            if range_ is not None:
                covered.add(range_)
        self._covered, self._is_unsure = covered, False

    def has(self, slot: str, core: int, place: Place) -> bool:
        """Whether the rows that a bundle has in a slot are in a file."""
        if self._is_unsure:
            self._look()
        return self._covered.has(slot, core, place)

    def write(
        self, range_: FileRange, kind: str, batches: Sequence[pa.RecordBatch], *, bundle_count: int
    ) -> ExportedFile:
        """Write one file; its bytes survive a power cut then, its name only after ``settle``."""
        name = range_.name(kind)
        file = NewFile(self._disk, _TEMPORARY)
        try:
            write_rows(kind, file.write, batches)
            self._is_unsure = True  # If this fails, or the next slot does, nothing is settled.
            file.finish(name)
        except BaseException:
            file.discard()
            raise
        rows = sum(batch.num_rows for batch in batches)
        return ExportedFile(self._disk.locate(name), range_, bundle_count, rows, file.size)

    def settle(self, files: Sequence[ExportedFile]) -> None:
        """Return once the names of these files survive a power cut."""
        if files:
            self._disk.sync_dir("")
        for file in files:
            self._covered.add(file.range)
        self._is_unsure = False


def _lock(disk: Disk) -> Lock:
    try:
        return disk.lock(_LOCK)
    except LockedError as error:
        raise LockedError(
            f"{disk.locate('')} is being exported to by process {error.pid or 'unknown'}",
            pid=error.pid,
            hint="one exporter at a time for a folder: end that one, or export to another folder",
        ) from error


def _own(disk: Disk, owner: dict[str, str], *, is_used: bool) -> None:
    """See that the files are of this owner, and write that down if there are none yet."""
    place = disk.locate("")
    if disk.stat(_OWNER) is None:
        if is_used:
            raise InputError(
                f"{place} has exported files, but {_OWNER} is missing: of which store are they?",
                hint="export to another folder",
            )
        replace(disk, _OWNER, f"{json.dumps(owner, indent=2)}\n".encode())
        return
    try:
        found = json.loads(bytes(disk.map(_OWNER)))
        known = {name: found[name] for name in owner}
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{disk.locate(_OWNER)} does not say of which store the files beside it are",
            hint="export to another folder",
        ) from error
    if known != owner:
        raise InputError(
            f"{place} has what {known['subscriber']!r} exported of store {known['store_id']}, "
            f"not {owner['subscriber']!r} of {owner['store_id']}",
            hint="each subscriber of each store exports to a folder of its own",
        )
