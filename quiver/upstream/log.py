"""The log of one data folder: which of its entries no segment holds yet, and what is damaged.

::

    position   0 .......... 900 .......... 2100 ..... 2600
    file       quiver.wal.1 | quiver.wal.2 | quiver.wal
    cursor                        ^ 1500: segments hold all before it

A **position** counts the bytes of entries over all files, headers left out. The cursor is believed
if an entry begins at its position or the log ends there, or if damage hides whether one does.
Everything else is the picture of a log that lost bytes after its cursor was written (the other
implementation then skips what it acknowledged later): all of it is given then, and so it is where
the cursor is missing or damaged, or where positions go back. ``may_repeat`` says so.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from quiver.disk import Disk, File, Stat
from quiver.errors import DamagedEntry, DamageError, MissingError, VersionError
from quiver.payload import EncodedBundle
from quiver.upstream.format import (
    BUNDLE,
    CURSOR_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    LAYOUT,
    decode_bundle,
    decode_cursor,
    decode_header,
)
from quiver.upstream.reader import Entry, Skipped, good_at, walk

__all__ = [
    "ACTIVE_NAME",
    "CURSOR_NAME",
    "BadRange",
    "LogFile",
    "LoggedBundle",
    "UpstreamLog",
    "log_files",
]

ACTIVE_NAME: Final = "quiver.wal"
CURSOR_NAME: Final = "quiver.wal.cursor"
_BACK: Final = "the positions of the log go back"
_ROTATED: Final = re.compile(r"quiver\.wal\.([1-9][0-9]{0,18})", re.ASCII)


class LoggedBundle(NamedTuple):
    """A bundle that the log holds, and where: ``[offset, end)`` of the file at ``path``.

    Its ``wal_seq`` is the sequence that the other log gave it.
    """

    path: str
    offset: int
    end: int
    bundle: EncodedBundle


class BadRange(NamedTuple):
    """Bytes ``[offset, end)`` of a file that are no entries and that nothing else holds."""

    path: str
    offset: int
    end: int
    error: DamageError


@dataclass(slots=True)
class LogFile:
    """One file of the log: where its entries begin, and the position of the first, if known."""

    path: str
    is_active: bool
    file_bytes: int
    start: int = HEADER_BYTES
    position: int | None = None

    @property
    def position_end(self) -> int | None:
        """The position right behind its last byte."""
        return None if self.position is None else self.position + self.file_bytes - self.start


@dataclass(slots=True)
class _Survey:
    """What one walk through the files found."""

    damage: list[DamageError] = field(default_factory=list)
    bad: list[BadRange] = field(default_factory=list)
    torn: DamageError | None = None
    cursor_fits: bool = False


class UpstreamLog:
    """The log of one data folder as it was when this was made. Nothing is locked, or changed.

    ``damage`` has everything that is wrong, with located paths; ``bad`` the ranges among it that
    may have held bundles. ``torn`` is an append that was never finished, which held none.
    ``may_repeat`` says why bundles may come that segments hold already; it is empty if none can.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        """Read it from one end to the other; VersionError for a newer format."""
        self._disk = disk
        self._folder = folder
        self.damage: list[DamageError] = []
        self.may_repeat = ""
        self._files = [self._open(found) for found in log_files(disk, folder)]
        self._cursor = self._read_cursor()
        self._check_positions()
        self._infer_positions()
        survey = self._survey()
        if self._cursor is not None and not survey.cursor_fits:
            self.may_repeat = "the cursor names no place where an entry begins"
            self._cursor = None
            survey = self._survey()
        self.damage += survey.damage
        self.bad: list[BadRange] = survey.bad
        self.torn: DamageError | None = survey.torn

    @property
    def file_bytes(self) -> int:
        """Size of all files together."""
        return sum(file.file_bytes for file in self._files)

    def bundles(self) -> Iterator[LoggedBundle]:
        """Go through the bundles that no segment holds, in order; each reading starts anew."""
        for log_file in self._needed():
            with closing(self._disk.open(log_file.path)) as file:
                for item in walk(file, log_file.start):
                    if isinstance(item, Skipped) or self._is_covered(log_file, item.end):
                        continue
                    if item.frame.entry_type == BUNDLE:
                        bundle = decode_bundle(item.frame)
                        yield LoggedBundle(log_file.path, item.offset, item.end, bundle)

    def _open(self, found: LogFile) -> LogFile:
        if found.is_active and not found.file_bytes:
            return found  # A crash between its creation and its header.
        place = self._disk.locate(found.path)
        with closing(self._disk.open(found.path)) as file:
            try:
                header = decode_header(file.read(0, HEADER_BYTES))
            except VersionError as error:
                raise VersionError(f"{place}: {error.message}", hint=error.hint) from error
            except DamageError as error:
                self.damage.append(error.at(place))
                return found
            found.start, found.position = header.header_bytes, header.position_start
            self._check_header(file, found, header.layout)
        return found

    def _check_header(self, file: File, found: LogFile, layout: bytes) -> None:
        """Tell what is wrong in a header that has no checksum, as far as something tells it."""
        place = self._disk.locate(found.path)
        is_behind = found.start > found.file_bytes
        if found.start != HEADER_BYTES and (
            is_behind or (not good_at(file, found.start) and good_at(file, HEADER_BYTES))
        ):
            self.damage.append(
                DamagedEntry(
                    "a log's header has another size than it says",
                    path=place,
                    offset=12,
                    expected=HEADER_BYTES,
                    found=found.start,
                )
            )
            found.start = HEADER_BYTES
        if layout != LAYOUT:
            self.damage.append(
                DamagedEntry(
                    "a log's header is of a layout that is not known",
                    path=place,
                    offset=HEADER.size - 24,
                    expected=LAYOUT,
                    found=layout,
                    hint="its entries say themselves how they are laid out, and were read",
                )
            )

    def _read_cursor(self) -> int | None:
        path = f"{self._folder}/{CURSOR_NAME}"
        if self._disk.stat(path) is None:
            if any(log_file.file_bytes > log_file.start for log_file in self._files):
                self._repeat("there is no cursor")
            return None
        try:
            with closing(self._disk.open(path)) as file:
                return decode_cursor(file.read(0, CURSOR_BYTES_MAX))
        except DamageError as error:
            self.damage.append(error.at(self._disk.locate(path)))
            self._repeat("the cursor is damaged")
            return None

    def _check_positions(self) -> None:
        """Take the positions of files whose headers go back, or leave a hole, for what they are.

        A hole means that a file is missing. Where they go back they are not believed, so that such
        a file counts as needed from its first entry on.
        """
        before: LogFile | None = None
        for log_file in self._files:
            start, end = log_file.position, None if before is None else before.position_end
            if start is None or before is None or before.position is None:
                before = log_file
                continue
            if start != end and log_file.file_bytes > log_file.start:
                error = DamagedEntry(
                    "the positions of a log file do not go on where the file before it ends",
                    path=self._disk.locate(log_file.path),
                    offset=HEADER.size - 8,
                    expected=end,
                    found=start,
                )
                self.damage.append(error)
                if start <= before.position:
                    log_file.position = None
                    self._repeat(_BACK)
                    continue
            before = log_file

    def _infer_positions(self) -> None:
        """Find the position of a file with a damaged header from its neighbours."""
        if self._distrusted:
            return
        pairs = list(itertools.pairwise(self._files))
        for before, behind in pairs:
            if behind.position is None and before.position is not None:
                behind.position = before.position_end
        for before, behind in reversed(pairs):
            if before.position is None and behind.position is not None:
                before.position = max(0, behind.position - before.file_bytes + before.start)
        for log_file in self._files:
            if log_file.position is None and log_file.file_bytes:
                self._repeat("the header of a log file is damaged")

    @property
    def _distrusted(self) -> bool:
        return self.may_repeat == _BACK

    def _repeat(self, reason: str) -> None:
        self.may_repeat = self.may_repeat or reason

    def _needed(self) -> Iterator[LogFile]:
        """Give the files that may hold something behind the cursor."""
        for log_file in self._files:
            end = log_file.position_end
            if self._cursor is None or end is None or end > self._cursor:
                yield log_file

    def _is_covered(self, log_file: LogFile, end: int) -> bool:
        """Whether segments hold what ends at this place of a file."""
        if self._cursor is None or log_file.position is None:
            return False
        return log_file.position + end - log_file.start <= self._cursor

    def _survey(self) -> _Survey:
        """Walk what is needed: note damage, and whether the cursor names the end of an entry."""
        found = _Survey()
        for log_file in self._files:
            if self._cursor in (log_file.position, log_file.position_end):
                found.cursor_fits = True
        first = min((f.position for f in self._files if f.position is not None), default=None)
        if first is None or (self._cursor is not None and self._cursor < first):
            found.cursor_fits = True  # Nothing is skipped because of it.
            if first is not None:
                self._repeat("the cursor lies before the log")
        for log_file in self._needed():
            with closing(self._disk.open(log_file.path)) as file:
                for item in walk(file, log_file.start):
                    self._note(found, log_file, item)
        return found

    def _note(self, found: _Survey, log_file: LogFile, item: Entry | Skipped) -> None:
        if self._cursor is not None and log_file.position is not None:
            at = self._cursor - log_file.position + log_file.start
            if at == item.end or (item.offset < at < item.end and isinstance(item, Skipped)):
                found.cursor_fits = True
        if self._is_covered(log_file, item.end):
            return
        place = self._disk.locate(log_file.path)
        if isinstance(item, Entry):
            if item.damage is not None:
                found.damage.append(item.damage.at(place))
        elif item.is_torn and log_file.is_active:
            found.torn = item.error.at(place)
        else:
            error = item.error.at(place)
            found.damage.append(error)
            found.bad.append(BadRange(log_file.path, item.offset, item.end, error))


def log_files(disk: Disk, folder: str) -> list[LogFile]:
    """List the log's files, oldest first, the active one last."""
    rotated: list[tuple[int, LogFile]] = []
    active: list[LogFile] = []
    for entry in listing(disk, folder):
        path = f"{folder}/{entry.name}"
        match = _ROTATED.fullmatch(entry.name) if entry.is_file else None
        if match is not None:
            rotated.append((int(match[1]), LogFile(path, is_active=False, file_bytes=entry.size)))
        elif entry.is_file and entry.name == ACTIVE_NAME:
            active.append(LogFile(path, is_active=True, file_bytes=entry.size))
    return [log_file for _, log_file in sorted(rotated, key=lambda pair: pair[0])] + active


def listing(disk: Disk, folder: str) -> list[Stat]:
    """List a folder; what is not there, or is a file or a link, is empty."""
    try:
        return disk.list_dir(folder)
    except MissingError:
        return []
