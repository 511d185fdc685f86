"""A folder that the Rust Quiver wrote: its segments, its log, how far its subscribers are.

::

    <data folder>/segments/0000000000000042.qseg
    <data folder>/wal/quiver.wal, quiver.wal.<N>, quiver.wal.cursor
    <data folder>/quiver.sub.<subscriber>

Or a folder of such folders, ``core_0``, ``core_1`` and so on, as its ``durable_buffer`` makes them.
Its writer takes no lock that could be asked for, and nothing here is locked or changed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, NamedTuple

from quiver.disk import Disk, Stat
from quiver.errors import DamagedEntry, DamageError, InputError, VersionError
from quiver.slots import SLOTS_MAX
from quiver.upstream.format import PROGRESS_BYTES_MAX, Progress, decode_progress
from quiver.upstream.log import CURSOR_NAME, LoggedBundle, UpstreamLog, listing, log_files

__all__ = [
    "UpstreamCore",
    "UpstreamFolder",
    "UpstreamSegment",
    "UpstreamSubscriber",
    "find",
    "slot_name",
]

_CORE: Final = re.compile(r"core_(0|[1-9][0-9]{0,8})", re.ASCII)
_SEGMENT: Final = re.compile(r"([0-9]{16})\.qseg", re.ASCII)
_SUBSCRIBER: Final = re.compile(r"quiver\.sub\.([A-Za-z0-9_-]{1,64})", re.ASCII)
_SLOT: Final = re.compile(r"slot_(0|[1-9][0-9]?)", re.ASCII)
_OURS: Final = frozenset({"quiver.json", "quiver.json.lock", "LOCK", "acks"})
"""Names in a store of our own, or in a core of one, that the other implementation never has."""


class UpstreamSegment(NamedTuple):
    """One segment file; ``modified_ns`` is when it was written, all that tells of its age."""

    core: int
    segment_seq: int
    path: str
    file_bytes: int
    modified_ns: int


class UpstreamSubscriber(NamedTuple):
    """One subscriber's file; ``progress`` is None if it cannot be read, and ``damage`` says why."""

    name: str
    path: str
    progress: Progress | None
    damage: DamageError | None


@dataclass(frozen=True, slots=True)
class UpstreamCore:
    """One data folder, at ``path`` below the disk's root; "" is the root itself."""

    disk: Disk
    number: int
    path: str

    def segments(self) -> tuple[UpstreamSegment, ...]:
        """List the segment files that are there now, in order of number, sound or not."""
        folder = self._inside("segments")
        return tuple(
            UpstreamSegment(self.number, int(match[1]), path, entry.size, entry.modified_ns)
            for entry in listing(self.disk, folder)
            if entry.is_file and (match := _SEGMENT.fullmatch(entry.name))
            for path in (posixpath.join(folder, entry.name),)
        )

    def log(self) -> UpstreamLog:
        """Read the log as it is now; VersionError if it is of a newer format."""
        return UpstreamLog(self.disk, self._inside("wal"))

    def subscribers(self) -> list[UpstreamSubscriber]:
        """Read how far each subscriber is; VersionError for a newer format."""
        found = []
        for entry in listing(self.disk, self.path):
            match = _SUBSCRIBER.fullmatch(entry.name) if entry.is_file else None
            if match is not None:
                path = self._inside(entry.name)
                found.append(_read_subscriber(self.disk, match[1], path))
        return found

    def state(self) -> tuple[tuple[str, int, int], ...]:
        """Give path, size and time of each file: equal as long as nobody writes here."""
        folders = (self.path, self._inside("wal"), self._inside("segments"))
        return tuple(
            (posixpath.join(folder, entry.name), entry.size, entry.modified_ns)
            for folder in folders
            for entry in listing(self.disk, folder)
            if entry.is_file
        )

    def _inside(self, name: str) -> str:
        return posixpath.join(self.path, name)


@dataclass(frozen=True, slots=True)
class UpstreamFolder:
    """All data folders of one writer, by number; a data folder alone has the number 0."""

    disk: Disk
    cores: tuple[UpstreamCore, ...]

    @property
    def segments(self) -> tuple[UpstreamSegment, ...]:
        """The segment files that are there now, by core and then by number."""
        return tuple(segment for core in self.cores for segment in core.segments())

    def open_bundles(self) -> Iterator[tuple[int, LoggedBundle]]:
        """Go through what the logs hold and no segment does, each with the number of its core."""
        for core in self.cores:
            for logged in core.log().bundles():
                yield core.number, logged

    @staticmethod
    def slot_id(slot: str | int) -> int:
        """Read the id of a slot, given as ``30`` or ``"slot_30"``: slots have no names there."""
        match = _SLOT.fullmatch(slot) if isinstance(slot, str) else None
        found = int(match[1]) if match is not None else slot
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < SLOTS_MAX:
            return found
        raise InputError(
            f"slot: {slot!r} is no slot of a folder that the Rust Quiver wrote",
            hint=f'slots have only ids there: slot=30 or slot="slot_30", 0 to {SLOTS_MAX - 1}',
        )


def slot_name(slot_id: int) -> str:
    """Name a slot that has only an id."""
    return f"slot_{slot_id}"


def find(disk: Disk) -> UpstreamFolder | None:
    """Recognise a folder that the Rust Quiver wrote; None if it is a store of ours, or neither."""
    entries = disk.list_dir("")
    if any(entry.name in _OURS for entry in entries):
        return None
    if _is_data_folder(disk, "", entries):
        return UpstreamFolder(disk, (UpstreamCore(disk, 0, ""),))
    cores = []
    for entry in entries:
        match = None if entry.is_file else _CORE.fullmatch(entry.name)
        if match is None:
            continue
        inside = listing(disk, entry.name)
        if any(each.name in _OURS for each in inside):
            return None
        if _is_data_folder(disk, entry.name, inside):
            cores.append(UpstreamCore(disk, int(match[1]), entry.name))
    ordered = tuple(sorted(cores, key=lambda core: core.number))
    return UpstreamFolder(disk, ordered) if ordered else None


def _is_data_folder(disk: Disk, path: str, entries: list[Stat]) -> bool:
    """Whether there is a log, a segment or a subscriber's file where they should be."""
    if any(entry.is_file and _SUBSCRIBER.fullmatch(entry.name) for entry in entries):
        return True
    wal = posixpath.join(path, "wal")
    if log_files(disk, wal) or disk.stat(posixpath.join(wal, CURSOR_NAME)) is not None:
        return True
    return bool(UpstreamCore(disk, 0, path).segments())


def _read_subscriber(disk: Disk, name: str, path: str) -> UpstreamSubscriber:
    place = disk.locate(path)
    try:
        with closing(disk.open(path)) as file:
            if file.size() > PROGRESS_BYTES_MAX:
                raise DamagedEntry(
                    "the progress file is longer than one can be",
                    expected=f"at most {PROGRESS_BYTES_MAX}",
                    found=file.size(),
                )
            progress = decode_progress(file.read(0, PROGRESS_BYTES_MAX))
    except VersionError as error:
        raise VersionError(f"{place}: {error.message}", hint=error.hint) from error
    except DamageError as error:
        return UpstreamSubscriber(name, path, None, error.at(place))
    return UpstreamSubscriber(name, path, progress, None)
