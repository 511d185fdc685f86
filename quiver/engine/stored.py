"""Recovered bundles: in the log and not in memory, until they become a segment.

A recovery checks each entry and keeps only where it is. Before the segment is written the entry is
read again, and must be what it was; so a disk that rots or fails in between costs what it destroyed
and nothing else, and no memory is held for the rest.

Decoding is left until then as well, since it costs more than all the rest of a recovery. The
checksum says that an entry is what its writer wrote: what cannot be decoded is another writer's
fault or a hostile file. With the policy ``strict`` it is decoded, and refused, at once.
"""

from __future__ import annotations

from typing import Self

from quiver.config import LimitsConfig
from quiver.disk import File, save_bytes
from quiver.engine.core import Core, Sealed
from quiver.engine.progress import progress_of
from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.ipc import decode_stream
from quiver.payload import EncodedBundle, StoredBundle
from quiver.segment import OpenSegment
from quiver.wal import Place
from quiver.wal.format import LENGTH, decode_stored

__all__ = ["check_readable", "fetch_stored"]


def check_readable(core: Core, bundle: EncodedBundle, limits: LimitsConfig) -> None:
    """Raise DamagedEntry unless every payload of a bundle can be decoded."""
    try:
        for payload in bundle.payloads:
            if payload.slot_id not in core.manifest.slots:
                raise DamagedEntry("a bundle has an unknown slot", found=payload.slot_id)
            decode_stream(payload.data, rows=payload.row_count, limits=limits)
        if not bundle.payloads:
            raise DamagedEntry("a bundle has no slot")
    except DamageError as error:
        raise DamagedEntry(
            f"bundle {bundle.wal_seq} cannot be decoded: {error.message}",
            path=core.disk.locate(core.path("wal")),
            offset=error.offset,
            expected=error.expected,
            found=error.found,
        ) from error


def fetch_stored(core: Core, sealed: Sealed) -> None:
    """Bring the recovered bundles of a sealed segment into memory; damaged ones go to quarantine.

    Called without the lock: the log grows and rotates meanwhile. Each damaged bundle is reported in
    ``core.report``, which grows by that after the opening. Raises StorageError if the log cannot be
    read; then everything is as before.
    """
    limits = core.config.limits.for_reading()
    before = sealed.content
    sound = OpenSegment(core.config.segment)
    found: list[DamageError] = []
    with _LogFiles(core) as files:
        for bundle in before.bundles:
            try:
                whole = bundle
                if isinstance(whole, StoredBundle):
                    whole = files.fetch(whole)
                    check_readable(core, whole, limits)
            except DamagedEntry as error:
                name = f"bundle-{bundle.wal_seq}.bin"
                save_bytes(core.disk, core.path("quarantine"), name, data=files.last, error=error)
                found.append(error)
            else:
                sound.add(whole, before.opened_ns or 0)
    with core.lock:
        sealed.content = sound
        if found:
            # A bundle and what it says of its source go together.
            sealed.progress = progress_of(b for b in sound.bundles if isinstance(b, EncodedBundle))
            core.report.damage += found
            core.report.replayed_bundles -= len(found)
            core.metrics.add("quiver.damage", len(found), label="wal")
            if hasattr(core, "log"):  # Otherwise the opening tells, of all that it found.
                for damage in found:
                    core.events.warning(
                        "recovery.damage", path=damage.path, offset=damage.offset, error=damage
                    )


class _LogFiles:
    """The files of the log, one open at a time: bundles come in the order in which they are."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._generation = -1
        self._file: File | None = None
        self.last: list[bytes] = []
        """What was read last."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def fetch(self, stored: StoredBundle) -> EncodedBundle:
        """Read a bundle; raises DamagedEntry if it is gone or not what it was, StorageError."""
        self.last = []
        with self._core.lock:
            # Once it is open, what becomes of its name and of the log does not matter.
            path, (generation, offset) = self._core.where_in_log(
                Place(stored.generation, stored.offset)
            )
            place = self._core.disk.locate(path)
            try:
                file = self._open(path, generation)
            except MissingError as error:
                text = f"bundle {stored.wal_seq} is gone with its file of the log"
                raise DamagedEntry(text, path=place, offset=offset) from error
        body = file.read(offset + LENGTH.size, stored.length)
        self.last = [body]
        try:
            return decode_stored(body, stored.checksum)
        except DamagedEntry as error:
            raise error.at(place, base=offset) from error

    def _open(self, path: str, generation: int) -> File:
        if self._file is None or generation != self._generation:
            self.__exit__()
            self._file = None
            self._file, self._generation = self._core.disk.open(path), generation
        return self._file
