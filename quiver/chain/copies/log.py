"""The log of one copy: raw entries, the same bytes on each node of the chain."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import blake3

from quiver.chain.copies.entries import Extent, entries_between, pieces
from quiver.chain.copies.format import (
    FRONT_BYTES,
    LOG_BEGIN,
    MARK_BYTES,
    MARK_PLACES,
    Mark,
    decode_front,
    decode_mark,
    encode_front,
    encode_mark,
)
from quiver.chain.copies.room import LEAST_BYTES, add_room, is_unfinished
from quiver.chain.peers import BlockName
from quiver.disk import Disk, File
from quiver.errors import DamagedEntry, DamageError, InputError, QuiverError, TornEntry
from quiver.wal.writer import Writer

__all__ = ["BlockLog"]

PIECE_BYTES: Final = 1 << 20
_FRONT_BYTES: Final = 16


class BlockLog:
    """Entries that are appended, synced and cut. Whoever calls sees to it that one does at a time.

    A sync may run while others append.
    """

    def __init__(self, file: File, extent: Extent, *, mark: Mark, entry_bytes_max: int) -> None:
        self._file = file
        self._writer = Writer(file, 0, LOG_BEGIN + extent.length)
        self._mark = mark
        self._entry_bytes_max = entry_bytes_max
        self._sync_lock = threading.Lock()
        self._room_end = 0
        self.lacks_room = True
        """Whether ``make_room`` has something to do for small entries that come next."""
        self.extent = extent
        self.synced = extent
        """As far as it survives a power cut."""
        self.found_sure = Extent()
        """Of what was found at a start, all that each node before this one has synced as well."""

    # to make and to find -----------------------------------------------------------------------

    @classmethod
    def create(cls, disk: Disk, path: str, name: BlockName, *, entry_bytes_max: int) -> BlockLog:
        """Make an empty one; its name is durable once its folder is synced."""
        file = disk.create(path)
        mark = Mark(0, 0)
        try:
            file.write(0, encode_front(name.number, _digest(name)))
            file.write(MARK_PLACES[0], encode_mark(mark))
            file.write(LOG_BEGIN - 1, b"\0")
            file.sync()
        except BaseException:
            file.close()
            raise
        return cls(file, Extent(), mark=mark, entry_bytes_max=entry_bytes_max)

    @classmethod
    def open(
        cls, disk: Disk, path: str, name: BlockName, *, entry_bytes_max: int, is_same_boot: bool
    ) -> BlockLog:
        """Find what was synced, and cut off what a crash left unfinished behind it.

        Raises DamageError for bytes that were synced, and are wrong: a copy that ends too early
        would end the block too early. If the machine ran all the while, no entry can be whole and
        wrong but by damage.
        """
        file = disk.open(path, writable=True)
        try:
            file.settle()
            front = file.read(0, FRONT_BYTES)
            try:
                decode_front(front, name.number, _digest(name))
            except DamageError as error:
                raise error.at(disk.locate(path)) from error
            mark = cls._newest_mark(disk, path, file)
            found = cls._good(disk, path, file, limit=entry_bytes_max, floor=mark.length)
            good, sure, fault = found
            if fault is not None and is_same_boot and not isinstance(fault, TornEntry):
                raise fault
            if file.size() != LOG_BEGIN + good.length:
                file.truncate(LOG_BEGIN + good.length)
            log = cls(file, good, mark=mark, entry_bytes_max=entry_bytes_max)
            log.found_sure = sure
            log.note()
        except BaseException:
            file.close()
            raise
        return log

    @staticmethod
    def _newest_mark(disk: Disk, path: str, file: File) -> Mark:
        found = [decode_mark(file.read(place, MARK_BYTES)) for place in MARK_PLACES]
        marks = [mark for mark in found if mark is not None]
        if not marks:
            raise DamagedEntry(
                "both marks of a log are wrong", path=disk.locate(path), offset=MARK_PLACES[0]
            )
        return max(marks)

    @staticmethod
    def _good(
        disk: Disk, path: str, file: File, *, limit: int, floor: int
    ) -> tuple[Extent, Extent, DamageError | None]:
        """Give what is whole, that without its last entry, and what is wrong behind it."""
        extent, before, fault = Extent(), Extent(), None
        end = file.size()
        try:
            for _, frame in entries_between(file, LOG_BEGIN, end, entry_bytes_max=limit):
                before, extent = extent, extent.with_frame(frame)
        except DamageError as error:
            place = LOG_BEGIN + extent.length
            kind = TornEntry if is_unfinished(file, place, end) else type(error)
            fault = kind(
                error.message,
                path=disk.locate(path),
                offset=place,
                expected=error.expected,
                found=error.found,
            )
        if extent.length < floor:
            raise fault or TornEntry(
                "a log ends before what was synced",
                path=disk.locate(path),
                offset=LOG_BEGIN + extent.length,
                expected=LOG_BEGIN + floor,
            )
        return extent, before, fault

    # to grow -----------------------------------------------------------------------------------

    def append(self, body: memoryview, extent: Extent) -> None:
        """Write entries that were checked; taken back as a whole if the disk refuses."""
        if self._writer.fault is not None:
            self._writer.check()
        if self.synced.length > self._mark.length:
            self._put_mark()
        try:
            self._writer.append([body], last_seq=extent.last_seq)
        except BaseException:
            self._room_end = 0  # What was ahead may be cut off as well.
            raise
        self.extent = extent
        self.lacks_room = self._room_end - extent.length < LOG_BEGIN + LEAST_BYTES

    def make_room(self) -> None:
        """See to it that small entries have room ahead, for as long as the disk has some.

        Raises PoisonedError: what is written ahead is a part of the next sync.
        """
        end = LOG_BEGIN + self.extent.length
        begin = max(self._room_end, end)
        if begin - end >= LEAST_BYTES:
            return
        try:
            added = add_room(self._file, begin)
        except QuiverError as error:
            self._writer.poison(error)
            self._writer.check()
            raise
        self._room_end = begin + added if added else 0

    def sync(self) -> Extent:
        """Return once all that was appended by now survives a power cut; gives how far that is.

        A sync that fails is the last act on it: PoisonedError from then on.
        """
        extent = self.extent
        self._writer.sync(LOG_BEGIN + extent.length)
        with self._sync_lock:
            if extent.length <= self.extent.length:  # Else it was cut meanwhile.
                self.synced = max(extent, self.synced)
        return extent

    def note(self) -> None:
        """Sync, and write down durably how far: all of it is missed if it is gone."""
        self.sync()
        if self._mark.length != self.synced.length:
            self._put_mark()
        self._file.sync()

    def _put_mark(self) -> None:
        mark = Mark(self._mark.turn + 1, self.synced.length)
        self._file.write(MARK_PLACES[mark.turn % 2], encode_mark(mark))
        self._mark = mark

    def check_usable(self) -> None:
        """Raise PoisonedError if a sync failed."""
        self._writer.check()

    # to end ------------------------------------------------------------------------------------

    def cut(self, length: int, last_seq: int) -> None:
        """Let go of what is behind ``length``, durably; InputError if no such entry ends there.

        Nothing can be appended any more.
        """
        extent = self.extent_at(length)
        if extent.last_seq != last_seq:
            raise InputError(
                f"{self._file.path} has entry {extent.last_seq} before byte {length:,}, "
                f"not {last_seq}"
            )
        if extent.length < self.extent.length:
            self._mark = Mark(self._mark.turn + 1, length)
            self._file.write(MARK_PLACES[self._mark.turn % 2], encode_mark(self._mark))
            self._file.sync()  # Before it is shorter: else the mark would miss what is gone.
        if self._file.size() != LOG_BEGIN + length:
            self._file.truncate(LOG_BEGIN + length)
        with self._sync_lock:
            self.extent = self.synced = extent
        self._file.sync()

    def extent_at(self, length: int) -> Extent:
        """Say what lies before ``length``; raises InputError if no entry ends there."""
        if length == self.extent.length:
            return self.extent
        extent = Extent()
        end = LOG_BEGIN + self.extent.length
        for _, frame in entries_between(
            self._file, LOG_BEGIN, end, entry_bytes_max=self._entry_bytes_max
        ):
            if extent.length >= length:
                break
            extent = extent.with_frame(frame)
        if extent.length != length:
            raise InputError(f"no entry of {self._file.path} ends at byte {length:,}")
        return extent

    def read(self, offset: int, end: int) -> Iterator[memoryview]:
        """Give whole entries of ``[offset, end)``; raises DamageError, and InputError."""
        start = LOG_BEGIN + offset
        return pieces(
            self._file,
            start,
            LOG_BEGIN + end,
            entry_bytes_max=self._entry_bytes_max,
            piece_bytes=PIECE_BYTES,
        )

    def end(self) -> None:
        """Note how far it is synced, if that can be, and let go of the file."""
        with suppress(Exception):  # Whatever stopped it was told when it did.
            self.note()
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._writer.close()


def _digest(name: BlockName) -> bytes:
    return blake3.blake3(name.partition.encode()).digest(length=_FRONT_BYTES)
