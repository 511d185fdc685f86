"""The ack.log of one core: append records, sync them, now and then fold them into a checkpoint."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Sequence

from quiver.acks.checkpoint import Checkpoint
from quiver.acks.copies import encode_copies
from quiver.acks.format import (
    FRAME_SIZE,
    HEADER_SIZE,
    decode_frame,
    decode_header,
    encode_header,
    encode_record,
)
from quiver.acks.opening import (
    CHECKPOINT_NAME,
    LOG_BYTES_MAX,
    LOG_NAME,
    Opened,
    Replay,
    open_folder,
)
from quiver.acks.records import Record
from quiver.disk import Disk, File, replace
from quiver.errors import (
    CapacityError,
    ClosedError,
    DamageError,
    InputError,
    PoisonedError,
    QuiverError,
)

__all__ = ["AckLog"]


class AckLog:
    """One open ack.log. It knows bytes and numbers, not what a subscriber is.

    Not safe to use from several threads at once. Whoever has it holds the lock of the core.
    """

    def __init__(self, disk: Disk, folder: str, opened: Opened) -> None:
        """Take over a folder that ``open_folder`` made sound; use ``AckLog.open``."""
        self._disk = disk
        self._path = posixpath.join(folder, LOG_NAME)
        self._checkpoint_path = posixpath.join(folder, CHECKPOINT_NAME)
        self._file: File | None = disk.open(self._path, writable=True)
        self._base_seq = opened.base_seq
        self._last_seq = opened.last_seq
        # From here on numbers have no holes, so they say where a record is.
        self._snapshot_seq_min = opened.last_seq
        self._end = opened.end
        self._unsynced = False
        self._failure: QuiverError | None = None

    @classmethod
    def open(
        cls, disk: Disk, folder: str, quarantine: str, *, strict: bool = False
    ) -> tuple[AckLog, Replay]:
        """Open or make the log in ``folder``; damage goes to the folder ``quarantine``.

        The parents of both folders exist. When this returns, all that the replay says survives a
        power cut. Damage is reported in it, and raised only if the policy is ``strict``;
        VersionError and what the disk refuses are raised.
        """
        opened = open_folder(disk, folder, quarantine, strict=strict)
        log = cls(disk, folder, opened)
        try:
            log._cut()
        except QuiverError:
            log.close()
            raise
        return log, opened.replay

    @property
    def record_seq(self) -> int:
        """The number of the last record; 0 if there never was one. A snapshot carries it."""
        return self._last_seq

    @property
    def file_bytes(self) -> int:
        """Bytes of ack.log."""
        return self._end

    @property
    def has_records(self) -> bool:
        """Whether a checkpoint would make ack.log any smaller."""
        return self._end > HEADER_SIZE

    @property
    def checkpoint_bytes(self) -> int:
        """Bytes of the checkpoint; 0 if there is none."""
        found = self._disk.stat(self._checkpoint_path)
        return 0 if found is None else found.size

    def append(self, records: Sequence[Record]) -> None:
        """Write records, in one write; they survive a power cut after the next ``sync``.

        Either all of them are in the log or, if this raises, none. Raises CapacityError when the
        disk is full or the log so large that it needs a checkpoint first.
        """
        file = self._usable()
        if len(records) == 1:
            data = encode_record(records[0], self._last_seq + 1)
        else:
            data = self._encode(records)
        if not data:
            return
        if self._end + len(data) > LOG_BYTES_MAX:
            raise CapacityError(
                f"ack.log would have more than {LOG_BYTES_MAX:,} bytes",
                hint="make a checkpoint first",
            )
        try:
            file.write(self._end, data)
        except QuiverError:
            with contextlib.suppress(QuiverError):  # The first error is the one to tell.
                self._cut()
            raise
        self._end += len(data)
        self._last_seq += len(data) // FRAME_SIZE
        self._unsynced = True

    def sync(self) -> None:
        """Return once every appended record survives a power cut.

        A failure poisons the log: nobody knows what is on disk until it is opened again.
        """
        file = self._usable()
        if not self._unsynced:
            return
        try:
            file.sync()
        except QuiverError as error:
            self._failure = error
            raise
        self._unsynced = False

    def checkpoint(self, snapshot: Checkpoint) -> None:
        """Replace the checkpoint, then the log by the records that it does not cover.

        ``snapshot.record_seq`` is what ``record_seq`` was when the snapshot was taken, after all
        of the replay was applied. When this returns, all records so far survive a power cut. If it
        raises, the log goes on as before, unless it cannot tell which of its two files has the
        name: then it is poisoned.
        """
        self._usable()
        seq = snapshot.record_seq
        if not self._snapshot_seq_min <= seq <= self._last_seq:
            raise InputError(
                f"a checkpoint up to record {seq} is not within "
                f"{self._snapshot_seq_min}..{self._last_seq}"
            )
        data = encode_copies(snapshot)
        rest = self._frames_after(seq)
        replace(self._disk, self._checkpoint_path, data)
        self._snapshot_seq_min = seq
        if self._base_seq <= seq:
            self._restart(seq + 1, rest)

    def close(self) -> None:
        """Let go of the file, without a sync; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _usable(self) -> File:
        if self._failure is not None:
            raise PoisonedError(
                "ack.log is not usable since a write or sync failed",
                hint="close the store and open it again",
            ) from self._failure
        if self._file is None:
            raise ClosedError("ack.log is closed")
        return self._file

    def _encode(self, records: Sequence[Record]) -> bytes:
        frames = []
        seq = self._last_seq
        for record in records:
            data = encode_record(record, seq + 1)
            seq += len(data) // FRAME_SIZE
            frames.append(data)
        return b"".join(frames)

    def _cut(self) -> None:
        """Bring the file to its last good end and sync it; poisoned if even that fails."""
        file = self._usable()
        try:
            file.truncate(self._end)
            file.sync()
        except QuiverError as error:
            self._failure = error
            raise
        self._unsynced = False

    def _frames_after(self, seq: int) -> bytes:
        """Read the frames behind the one with this number, which must end its record."""
        length = (self._last_seq - seq) * FRAME_SIZE
        start = self._end - length
        frames = self._usable().read(start, length)
        try:
            inside = bool(frames) and decode_frame(frames).part > 0
        except DamageError as error:
            raise error.at(self._disk.locate(self._path), base=start) from error
        if inside:
            raise InputError(f"number {seq} is inside a record")
        return frames

    def _restart(self, base_seq: int, frames: bytes) -> None:
        try:
            replace(self._disk, self._path, encode_header(base_seq) + frames)
            file = self._disk.open(self._path, writable=True)
        except QuiverError as error:
            if not self._has_name():
                self._failure = error
            raise
        self.close()
        self._file = file
        self._base_seq = base_seq
        self._end = HEADER_SIZE + len(frames)
        self._unsynced = False

    def _has_name(self) -> bool:
        """Whether the file at the log's path is still the open one; False if that is unknown."""
        try:
            file = self._disk.open(self._path)
            try:
                return decode_header(file.read(0, HEADER_SIZE)) == self._base_seq
            finally:
                file.close()
        except QuiverError:
            return False
