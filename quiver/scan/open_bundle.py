"""One bundle that is in the log and in no segment yet: what it has, and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.disk import Disk
from quiver.engine.core import core_folder
from quiver.errors import DamagedEntry, DamageError, MissingError
from quiver.ipc import decode_stream
from quiver.payload import EncodedBundle, Octets, StoredBundle
from quiver.wal import ACTIVE_NAME
from quiver.wal.format import LENGTH, decode_stored
from quiver.wal.names import rotated_name

__all__ = ["OpenBundle", "OpenSlot", "describe", "open_batches"]

_LIMITS: Final = LimitsConfig().for_reading()


@dataclass(frozen=True, slots=True)
class OpenSlot:
    """What an open bundle has in one slot. ``fingerprint`` is that of the schema."""

    slot_id: int
    row_count: int
    byte_count: int
    fingerprint: bytes
    data: bytes | None = field(default=None, repr=False)
    """The payload as it is in the log, if it is kept in memory."""


@dataclass(frozen=True, slots=True)
class OpenBundle:
    """A bundle of the log, at a moment when no segment had it. May be pickled.

    ``ingestion_ns`` is when it was appended, in nanoseconds since 1970 UTC.
    """

    core: int
    wal_seq: int
    ingestion_ns: int
    slots: tuple[OpenSlot, ...]
    stored: StoredBundle = field(repr=False)
    """Where its entry was in the log, and the checksum of it."""

    def slot(self, slot_id: int) -> OpenSlot | None:
        """Give what it has in a slot; None if that is nothing."""
        return next((slot for slot in self.slots if slot.slot_id == slot_id), None)

    def batch(self, disk: Disk, slot_id: int) -> pa.RecordBatch | None:
        """Decode the rows of a slot, validated in full; None if the bundle does not have it.

        Raises MissingError if the payload is not kept in memory and the log has let go of the
        entry since, DamagedEntry if what a writer wrote cannot be decoded.
        """
        slot = self.slot(slot_id)
        if slot is None:
            return None
        data: Octets | None = slot.data
        if data is None:
            found = {payload.slot_id: payload.data for payload in self._fetch(disk).payloads}
            data = found[slot_id]
        try:
            return decode_stream(data, rows=slot.row_count, limits=_LIMITS)
        except DamageError as error:
            raise DamagedEntry(
                f"bundle {self.wal_seq} cannot be decoded: {error.message}",
                path=disk.locate(self._folder),
                offset=self.stored.offset,
                expected=error.expected,
                found=error.found,
            ) from error

    def is_in_log(self, disk: Disk) -> bool:
        """Whether its entry is where it was."""
        try:
            self._fetch(disk)
        except MissingError:
            return False
        return True

    @property
    def _folder(self) -> str:
        return f"{core_folder(self.core)}/wal"

    def _fetch(self, disk: Disk) -> EncodedBundle:
        """Read the entry again; its file may have another name by now, but not another place."""
        for name in (rotated_name(self.stored.generation), ACTIVE_NAME):
            try:
                file = disk.open(f"{self._folder}/{name}")
            except MissingError:
                continue
            with closing(file):
                body = file.read(self.stored.offset + LENGTH.size, self.stored.length)
            try:
                bundle = decode_stored(body, self.stored.checksum)
            except DamagedEntry:
                continue  # A hole, or another file: a new snapshot tells damage from that.
            if bundle.wal_seq == self.wal_seq:
                return bundle
        raise MissingError(
            f"bundle {self.wal_seq} of core {self.core} left the log since the scan was made",
            path=disk.locate(self._folder),
            hint="it is in a segment by now; take a new snapshot with refresh()",
        )


def describe(
    core: int, bundle: EncodedBundle, stored: StoredBundle, *, kept: Iterable[int]
) -> OpenBundle:
    """Note what a bundle of the log has; payloads of the slots in ``kept`` are copied."""
    keep = set(kept)
    slots = tuple(
        OpenSlot(
            payload.slot_id,
            payload.row_count,
            len(payload.data),
            payload.fingerprint,
            bytes(payload.data) if payload.slot_id in keep else None,
        )
        for payload in bundle.payloads
    )
    return OpenBundle(core, bundle.wal_seq, bundle.ingestion_ns, slots, stored)


def open_batches(
    disk: Disk, bundles: Iterable[OpenBundle], slot_id: int
) -> Iterator[pa.RecordBatch]:
    """Decode what bundles have in a slot, in their order."""
    for bundle in bundles:
        batch = bundle.batch(disk, slot_id)
        if batch is not None:
            yield batch
