"""The log as one thing: the active file, the rotated ones before it, and the first place needed.

::

    quiver.wal.7   quiver.wal.8   quiver.wal        (generation 9, active)
    [.............][.............][......|.....]
        deleted whole once covered       ^ truncate place: what is before it is in segments

A rotated file keeps the generation it was, so a name is never used twice and nothing shifts.
"""

from __future__ import annotations

from dataclasses import dataclass

from quiver.config import WalConfig
from quiver.disk import FILE_MODE, TEMPORARY, Disk, remove
from quiver.errors import CapacityError, QuiverError
from quiver.payload import EncodedBundle
from quiver.wal.format import HEADER_BYTES, Place, encode_bundle, encode_header
from quiver.wal.truncate import write_sidecar
from quiver.wal.writer import Writer

__all__ = ["ACTIVE_NAME", "Log", "RotatedFile", "create_active", "rotated_name"]

ACTIVE_NAME = "quiver.wal"


@dataclass(frozen=True, slots=True)
class RotatedFile:
    """A WAL file that nobody appends to any more."""

    generation: int
    file_bytes: int


def rotated_name(generation: int) -> str:
    """Name of the file that was active in this generation."""
    return f"{ACTIVE_NAME}.{generation}"


def create_active(disk: Disk, folder: str, *, digest: bytes, generation: int) -> Writer:
    """Make a new active file, durable with its name when this returns."""
    _prepare(disk, folder, digest)
    return _activate(disk, folder, generation)


def _prepare(disk: Disk, folder: str, digest: bytes) -> None:
    path = f"{folder}/{ACTIVE_NAME}{TEMPORARY}"
    if disk.stat(path) is not None:
        disk.unlink(path)
    file = disk.create(path, mode=FILE_MODE)
    try:
        file.write(0, encode_header(digest))
        file.sync()
    finally:
        file.close()


def _activate(disk: Disk, folder: str, generation: int) -> Writer:
    path = f"{folder}/{ACTIVE_NAME}"
    disk.rename(path + TEMPORARY, path)
    disk.sync_dir(folder)
    return Writer(disk.open(path, writable=True), generation, HEADER_BYTES)


class Log:
    """Append, sync, rotate, truncate. One thread at a time, but ``sync`` may run beside all."""

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
    ) -> None:
        """Take over what ``Replay.finish`` found; not for others."""
        self._disk = disk
        self._folder = folder
        self._digest = digest
        self._config = config
        self._writer = writer
        self._rotated = rotated
        self._truncated = truncated
        self._punched = HEADER_BYTES

    def append(self, bundle: EncodedBundle) -> Place:
        """Write a bundle and give the place behind it; not durable before ``sync``.

        Raises CapacityError, before anything is written, if a cap of the config would break: the
        log would hold more than ``max_size`` bytes still needed, or more than ``max_chunks`` files.
        """
        entry = encode_bundle(bundle)
        self._writer.check()
        if self.live_bytes + len(entry) > self._config.max_size:
            raise CapacityError(
                f"the write-ahead log holds {self.live_bytes:,} bytes that are not in segments yet",
                hint="wal.max_size is reached: finalize, or raise it",
            )
        full = self._writer.end + len(entry) > self._config.rotate_size
        if full and self._writer.end > HEADER_BYTES:
            if self.file_count + 1 > self._config.max_chunks:
                raise CapacityError(
                    f"the write-ahead log has {self.file_count} files",
                    hint="wal.max_chunks is reached: finalize, or raise it",
                )
            self._rotate()
        return self._writer.append(entry)

    def sync(self, place: Place) -> None:
        """Return once everything before ``place`` survives a power cut; from any thread."""
        writer = self._writer
        # Files of earlier generations were synced before they were rotated.
        if place.generation == writer.generation:
            writer.sync(place.offset)

    def sync_all(self) -> None:
        """Return once everything appended so far survives a power cut."""
        self._writer.sync()

    def _rotate(self) -> None:
        """Retire the active file and begin the next; a full disk is noticed before any change."""
        old = self._writer
        _prepare(self._disk, self._folder, self._digest)
        old.sync()
        try:
            self._disk.rename(
                f"{self._folder}/{ACTIVE_NAME}", f"{self._folder}/{rotated_name(old.generation)}"
            )
            # Between the two renames: otherwise a power cut could keep the second and not the
            # first, and the new file would have replaced the old one.
            self._disk.sync_dir(self._folder)
            self._writer = _activate(self._disk, self._folder, old.generation + 1)
        except QuiverError as error:
            old.poison(error)
            raise
        self._rotated.append(RotatedFile(old.generation, old.end))
        self._punched = HEADER_BYTES
        old.close()

    def truncate(self, place: Place) -> None:
        """Say that everything before ``place`` is in durable segments, and give its space back.

        The sidecar survives a power cut before the first byte is given back.
        """
        covered = [old for old in self._rotated if old.generation < place.generation]
        if place <= self._truncated and not covered:
            return
        self._writer.check()
        if place > self._truncated:
            write_sidecar(self._disk, self._folder, place)
            self._truncated = place
        for old in covered:
            remove(self._disk, f"{self._folder}/{rotated_name(old.generation)}")
            self._rotated.remove(old)
        if covered:
            self._disk.sync_dir(self._folder)
        if place.generation == self._writer.generation:
            self._reclaim_prefix(place.offset)

    def _reclaim_prefix(self, offset: int) -> None:
        """Give the covered prefix of the active file back: punch it, or start a new file."""
        if offset - self._punched < self._config.reclaim_size:
            return
        if self._writer.punch(HEADER_BYTES, offset):
            self._punched = offset
        elif offset == self._writer.end:
            self._rotate()
            self.truncate(Place(self._writer.generation, HEADER_BYTES))

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
        rotated = sum(old.file_bytes - HEADER_BYTES for old in self._rotated)
        start = HEADER_BYTES
        if self._truncated.generation == self._writer.generation:
            start = max(start, self._truncated.offset)
        return rotated + self._writer.end - start

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
        self._writer.close()
