"""The log as one thing: the active file, the rotated ones before it, and the first place needed.

::

    quiver.wal.7   quiver.wal.8   quiver.wal        (generation 9, active)
    [.............][.............][......|.....]
        deleted whole once covered       ^ truncate place: what is before it is in segments

A rotated file keeps the generation it was, so a name is never used twice. A new file begins with a
checkpoint entry: the last wal_seq before it, so that a replay can tell from its first bytes whether
all before it is in segments.

The covered prefix of the active file is given back by punching a hole; where the file system cannot
do that, what is behind it is copied to a file of the next generation. Or the file is rotated, and
written over once all of it is covered (``spares``).
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from quiver.config import WalConfig
from quiver.disk import Bytes, Disk, File, remove
from quiver.errors import CapacityError, QuiverError
from quiver.events import Events
from quiver.payload import EncodedBundle
from quiver.wal.begin import (
    Prepared,
    activate,
    encode_head,
    first_of,
    hole_bytes,
    prepare,
    prepare_again,
)
from quiver.wal.format import HEADER_BYTES, Place, encode_header, entry_parts
from quiver.wal.names import ACTIVE_NAME, RotatedFile, rotated_name
from quiver.wal.reuse import encode_beginning
from quiver.wal.spares import Spares
from quiver.wal.truncate import write_sidecar
from quiver.wal.writer import ReusedWriter, Writer

__all__ = ["Apart", "Log"]

_MOVES_KEPT = 64
"""An open segment is never older than that; a place that is says too little, never too much."""
_BLOCK: Final = 4096
_HOLE_BYTES: Final = 1 << 20  # Less than a millisecond's work; 32 MiB in one are 12.
Apart: TypeAlias = Callable[[], contextlib.AbstractContextManager[None]]


class Log:
    """Append, sync, rotate, truncate. One thread at a time, but ``sync`` may run beside all.

    So may ``append_all``, by who holds ``turn``; nobody else appends while something waits for it.
    """

    def __init__(
        self,
        disk: Disk,
        folder: str,
        *,
        digest: bytes,
        config: WalConfig,
        writer: Writer,
        rotated: list[RotatedFile],
        truncated: Place,
        last_seq: int,
        first: int,
        events: Events,
    ) -> None:
        """Take over what ``Replay.finish`` found; not for others."""
        self.turn = threading.RLock()
        """Held by who writes beside the others, or changes the file; it is a last lock."""
        self._events = events
        self._disk = disk
        self._folder = folder
        self._digest = digest
        self._config = config
        self._writer = writer
        self._rotated = rotated
        self._truncated = truncated
        self.last_seq = last_seq
        self._first = first
        """Where the first entry of the active file is, behind its checkpoint."""
        self._reclaimed = first
        """Up to where the active file was given back."""
        self._hole_bytes = min(config.reclaim_size, _HOLE_BYTES)
        self._ends: deque[int] = deque()
        """Where some of the entries that were appended to it end: so far apart, or more."""
        self._last_end = first
        self._can_punch = config.reclaim != "copy"
        self._recycles = config.reclaim == "recycle"
        spare_bytes = config.rotate_size + _BLOCK if self._recycles else 0
        self._spares = Spares(disk, folder, bytes_max=spare_bytes)
        self.drop_spares: Final[Callable[[], None]] = self._spares.give_up
        """Give back files that are kept to be written over, as far as the disk allows."""
        self._holes = hole_bytes(disk, folder)
        """What an earlier process gave back of the active file."""
        self._moved: dict[int, int] = {}
        """How far the entries of the last generations moved towards the start of the next one."""

    def append(self, bundle: EncodedBundle) -> Place:
        """Write a bundle and give the place behind it; not durable before ``sync``.

        Raises CapacityError, before anything is written, if a cap of the config would break: the
        log would hold more than ``max_size`` bytes still needed, or more than ``max_chunks`` files.
        """
        entry = entry_parts(bundle)
        byte_count = sum(map(len, entry))
        self._writer.check()
        if self.live_bytes + byte_count > self._config.max_size:
            raise CapacityError(
                f"the write-ahead log holds {self.live_bytes:,} bytes that are not in segments yet",
                hint="wal.max_size is reached: finalize, or raise it",
            )
        used = self._writer.end - self._first + HEADER_BYTES
        if used + byte_count > self._config.rotate_size and used > HEADER_BYTES:
            self._make_room()
        seq = bundle.wal_seq
        place = self._spares.give_way(lambda: self._writer.append(entry, last_seq=seq))
        self._note(place.offset, seq)
        return place

    def has_room(self, byte_count: int) -> bool:
        """Whether so many bytes more fit into the active file, and below all caps."""
        used = self._writer.end - self._first + HEADER_BYTES + byte_count
        live = self.live_bytes + byte_count
        return used <= self._config.rotate_size and live <= self._config.max_size

    def append_all(self, entries: Sequence[tuple[int, int, Sequence[Bytes]]]) -> Place:
        """Write entries, number, size and parts of each, with one write; all of them, or none.

        They must have room, and a thousand parts at most. Gives the place behind the last one.
        """
        end = self._writer.end
        place = self._writer.append(*(parts for _, _, parts in entries), last_seq=entries[-1][0])
        for wal_seq, byte_count, _ in entries:
            end += byte_count
            self._note(end, wal_seq)
        return place

    def _note(self, end: int, wal_seq: int) -> None:
        """Take note of an entry that is in the file."""
        self.last_seq = wal_seq
        if end - self._last_end >= self._hole_bytes:
            self._ends.append(end)
            self._last_end = end

    def sync(self, place: Place) -> None:
        """Return once everything before ``place`` survives a power cut; from any thread."""
        writer = self._writer
        # Files of earlier generations were synced before they were rotated.
        if place.generation == writer.generation:
            writer.sync(place.offset)

    def sync_all(self) -> None:
        """Return once everything appended so far survives a power cut."""
        self._writer.sync()

    def _make_room(self) -> None:
        """Begin a new file; the old one stays only if something in it is still needed."""
        is_needed = self._truncated != self.end
        if is_needed and self.file_count + 1 > self._config.max_chunks:
            raise CapacityError(
                f"the write-ahead log has {self.file_count} files",
                hint="wal.max_chunks is reached: finalize, or raise it",
            )
        self._rotate()
        if not is_needed:
            self.truncate(self._truncated)

    def _rotate(self) -> None:
        """Retire the active file and begin the next; a full disk is noticed before any change."""
        old = self._writer
        prepared = self._prepare(old.generation + 1)
        old.sync()
        try:
            self._disk.rename(
                f"{self._folder}/{ACTIVE_NAME}", f"{self._folder}/{rotated_name(old.generation)}"
            )
            # Between the two renames: otherwise a power cut could keep the second and not the
            # first, and the new file would have replaced the old one.
            self._disk.sync_dir(self._folder)
            generation = old.generation + 1
            self._writer = activate(self._disk, self._folder, prepared, generation=generation)
        except QuiverError as error:
            old.poison(error)
            raise
        self._rotated.append(RotatedFile(old.generation, old.file_bytes, old.end))
        self._first = self._reclaimed = self._last_end = prepared.end
        self._holes = 0
        self._ends.clear()
        self._events.info(
            "wal.rotated", generation=old.generation, file_bytes=old.end, file_count=self.file_count
        )
        old.close()

    def _prepare(self, generation: int) -> Prepared:
        """Make the file of the next generation, or write it over one that was kept for that."""
        last_seq, truncated = self.last_seq, self._truncated
        spare = self._spares.take() if last_seq >= 0 else None
        if spare is None:
            head = encode_head(self._digest, last_seq, truncated)
            return prepare(self._disk, self._folder, head, last_seq=last_seq)
        try:
            head = encode_beginning(self._digest, generation, last_seq, truncated=truncated)
            return prepare_again(self._disk, spare, head, last_seq=last_seq)
        except QuiverError:
            self._spares.give_up(spare)
            raise

    def truncate(self, place: Place, *, apart: Apart = contextlib.nullcontext) -> None:
        """Say that everything before ``place`` is in durable segments, and give its space back.

        The sidecar survives a power cut before the first byte is given back. What may take long is
        done a bit at a time in the context of ``apart``, in which other threads may use the log.
        """
        place = self.locate(place)
        if any(place == Place(old.generation, old.end) for old in self._rotated):
            place = Place(place.generation + 1, HEADER_BYTES)
        covered = [old for old in self._rotated if old.generation < place.generation]
        if place <= self._truncated and not covered:
            return
        self._writer.check()
        if place > self._truncated:
            write_sidecar(self._disk, self._folder, place)
            self._truncated = place
        spares = self._spares.put_aside(covered)
        for old in covered:
            if old not in spares:
                with apart():  # To free a large file takes tens of milliseconds.
                    remove(self._disk, f"{self._folder}/{rotated_name(old.generation)}")
            self._rotated = [each for each in self._rotated if each is not old]
        if covered:
            self._disk.sync_dir(self._folder)
        self._spares.keep(spares)
        if place.generation == self._writer.generation:
            self._reclaim_prefix(place.offset, apart)

    def squeeze(self) -> None:
        """Give back at once what segments hold of the active file, however little, and spares."""
        self._spares.drop()
        with self.turn:
            self._writer.trim()
        if self._truncated.generation == self._writer.generation:
            self._writer.check()
            self._reclaim_prefix(self._truncated.offset, contextlib.nullcontext, least=_BLOCK)

    def _reclaim_prefix(self, offset: int, apart: Apart, *, least: int | None = None) -> None:
        """Give the covered prefix of the active file back: punch it, or do without it."""
        if offset - self._reclaimed < (least or self._config.reclaim_size):
            return
        if self._recycles and least is None and self._may_go_round(offset):
            self._go_round(apart)
            return
        if self._can_punch:
            self._punch(offset, apart)
        if self._can_punch:
            return
        with self.turn:
            is_empty = offset == self._writer.end
            if is_empty:
                self._rotate()
            elif isinstance(self._writer, ReusedWriter):
                return  # Its checksums are its own. It goes as a whole.
            elif offset >= self._writer.end - offset:
                # Copying less than is given back keeps the price of an append bounded.
                self._rewrite(offset)
        if is_empty:
            self.truncate(Place(self._writer.generation, HEADER_BYTES))

    def _may_go_round(self, offset: int) -> bool:
        """Whether there may be one more file; an append that is in need of one comes first."""
        return offset == self._writer.end or self.file_count + 2 <= self._config.max_chunks

    def _go_round(self, apart: Apart) -> None:
        """Begin the next file, so that segments soon hold all of this one, and it is a spare."""
        writer = self._writer
        with apart():
            writer.sync()
        if self._writer is not writer:
            return
        with self.turn:
            is_empty = self._truncated == self.end
            self._rotate()
        if is_empty:
            self.truncate(Place(self._writer.generation, HEADER_BYTES))

    def _punch(self, offset: int, apart: Apart) -> None:
        """Punch what is before ``offset`` in bits, since writes to the file wait for each of them.

        Each hole begins where the first does and ends with an entry: whichever of them a power cut
        takes, no entry is left in half.
        """
        writer = self._writer
        while self._reclaimed < offset:
            while self._ends and self._ends[0] <= self._reclaimed:
                self._ends.popleft()
            end = min(self._ends[0], offset) if self._ends else offset
            with apart():
                can_punch = writer.punch(first_of(writer), end)
            if self._writer is not writer:
                return
            self._can_punch = can_punch
            if not can_punch:
                return
            self._reclaimed = max(self._reclaimed, end)

    def _rewrite(self, offset: int) -> None:
        """Go on with a file that has only what is behind ``offset``; no rotated files are left.

        The sidecar goes to the beginning of the new generation before the new file takes the name:
        a crash between leaves the old file under the new number, which replays as well.
        """
        old = self._writer
        generation = old.generation + 1
        head = encode_header(self._digest)

        def tail(file: File, at: int) -> int:
            return old.copy_tail(offset, file, at)

        prepared = prepare(self._disk, self._folder, head, last_seq=self.last_seq, tail=tail)
        old.sync()  # Who waits for it in another thread must not meet a closed file.
        write_sidecar(self._disk, self._folder, Place(generation, HEADER_BYTES))
        try:
            self._writer = activate(self._disk, self._folder, prepared, generation=generation)
        except QuiverError as error:
            old.poison(error)
            raise
        self._truncated = Place(generation, HEADER_BYTES)
        self._first = self._reclaimed = self._last_end = HEADER_BYTES
        self._holes = 0
        self._ends.clear()
        self._moved[old.generation] = offset - HEADER_BYTES
        self._moved.pop(old.generation - _MOVES_KEPT, None)
        old.close()

    def locate(self, place: Place) -> Place:
        """Give where a place is now: entries move when the file before them is rewritten."""
        while place.generation in self._moved:
            offset = max(place.offset - self._moved[place.generation], HEADER_BYTES)
            place = Place(place.generation + 1, offset)
        return place

    def where(self, place: Place) -> tuple[str, Place]:
        """Give the file in which a place is now, and the place there; it must still be needed."""
        place = self.locate(place)
        is_old = place.generation != self._writer.generation
        return f"{self._folder}/{rotated_name(place.generation) if is_old else ACTIVE_NAME}", place

    @property
    def fault(self) -> BaseException | None:
        """The write or sync that went wrong; nothing is taken any more then."""
        return self._writer.fault

    @property
    def end(self) -> Place:
        """The place behind the last entry."""
        return Place(self._writer.generation, self._writer.end)

    @property
    def truncated(self) -> Place:
        """The first place that is still needed."""
        return self._truncated

    @property
    def live_bytes(self) -> int:
        """Bytes of entries that are not known to be in segments, whole rotated files included."""
        rotated = sum(old.end - HEADER_BYTES for old in self._rotated)
        start = self._first
        if self._truncated.generation == self._writer.generation:
            start = max(start, self._truncated.offset)
        return rotated + self._writer.end - start

    @property
    def disk_bytes(self) -> int:
        """Bytes that the log takes on the disk: with what segments hold, and files to be reused."""
        rotated = sum(old.file_bytes for old in self._rotated) + self._spares.disk_bytes
        return rotated + self._writer.file_bytes - max(self._reclaimed - self._first, self._holes)

    @property
    def file_count(self) -> int:
        """How many WAL files there are, the active one included."""
        return len(self._rotated) + 1

    @property
    def sync_count(self) -> int:
        """How many syncs the active file has had."""
        return self._writer.sync_count

    def close(self) -> None:
        """Let go of the files; what was not synced stays with the operating system."""
        with self.turn:
            self._spares.give_up()
            self._writer.close()
