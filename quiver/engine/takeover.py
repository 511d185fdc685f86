"""Take what a folder of the Rust Quiver holds over into a new store, in one step.

::

    under the lock of <store>.importing                 a crash before this step leaves
    1  segments, an empty log, ack.log of each core     <store>.importing, which no verb opens
    2  quiver.json                                      the same
    3  rename <store>.importing to <store>, sync        nothing, or the whole store

What a broken-off import left is cleared by the next one. The source is only read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from quiver.acks import Ack, AckLog, Floor, Record, Register
from quiver.bundle import fingerprint
from quiver.clock import Clock
from quiver.config import Config
from quiver.disk import Disk, FolderDisk, replace, save_bytes
from quiver.engine.core import core_folder
from quiver.engine.inventory import (
    Aside,
    CoreStock,
    SegmentStock,
    check_unchanged,
    logged_bundles,
)
from quiver.errors import InputError
from quiver.ipc import encode_stream
from quiver.manifest import MANIFEST_NAME, StoreManifest
from quiver.payload import EncodedBundle, Payload
from quiver.segment import OpenSegment, SegmentLabel, SegmentReader, write_segment
from quiver.slots import SlotTable
from quiver.wal import ACTIVE_NAME
from quiver.wal.format import HEADER_BYTES, encode_header

__all__ = ["STAGING", "check_free", "take_over"]

STAGING: Final = ".importing"
"""How the name of a store ends that is not whole yet."""

_CORE: Final = re.compile(r"core_[0-9]+", re.ASCII)
_STATIONS: Final = ("segments", "wal", "acks", "quarantine")
_RECORDS: Final = 10_000
_PIECE: Final = 4 << 20


def check_free(parent: Disk, name: str) -> None:
    """Raise InputError unless nothing, or an empty folder, has the name."""
    found = parent.stat(name)
    if found is None:
        return
    entries = [] if found.is_file else parent.list_dir(name)
    if not found.is_file and not entries:
        return
    what = "is not empty"
    if found.is_file:
        what = "is a file"
    elif any(entry.name == MANIFEST_NAME for entry in entries):
        what = "is a Quiver store already"
    raise InputError(
        f"{parent.locate(name)} {what}", hint="import makes a new store: name a new or empty folder"
    )


def take_over(
    stocks: Sequence[CoreStock],
    parent: Disk,
    name: str,
    *,
    slots: SlotTable,
    config: Config,
    clock: Clock,
) -> None:
    """Make the store ``name`` in the folder ``parent`` of what was found in each data folder.

    When this returns all of it is there and survives a power cut; if it raises there is nothing of
    that name. Raises InputError if the name is taken, LockedError if somebody imports under it or
    the source has changed meanwhile.
    """
    check_free(parent, name)
    staging = f"{name}{STAGING}"
    parent.make_dir(staging)
    disk = FolderDisk(parent, staging)
    lock = disk.lock(f"{MANIFEST_NAME}.lock")
    try:
        _clear(disk, {core_folder(stock.core.number) for stock in stocks})
        manifest = StoreManifest.new(slots)
        for stock in stocks:
            _Taking(disk, manifest, stock, config).write(clock.wall_ns())
        for stock in stocks:
            check_unchanged(stock)
        manifest.write(disk)  # This makes the names of the cores beside it durable as well.
        check_free(parent, name)
        parent.rename(staging, name)
        parent.sync_dir("")
    finally:
        lock.release()


def _clear(disk: Disk, cores: set[str]) -> None:
    """Remove what a broken-off import left; folders are used again."""
    entries = disk.list_dir("")
    foreign = [
        entry.name
        for entry in entries
        if not (entry.name in cores or (entry.is_file and entry.name.startswith(MANIFEST_NAME)))
    ]
    if foreign:
        raise InputError(
            f"{disk.locate('')} holds {foreign[0]!r}, which this import would not make",
            hint="it is what an import of something else left: remove that folder, then try again",
        )
    for entry in entries:
        if entry.is_file and entry.name != f"{MANIFEST_NAME}.lock":
            disk.unlink(entry.name)
    for core in sorted({entry.name for entry in entries if _CORE.fullmatch(entry.name)}):
        for station in disk.list_dir(core):
            if station.name not in _STATIONS:
                raise InputError(f"{disk.locate(core)} holds {station.name!r}, which is not ours")
            for file in disk.list_dir(f"{core}/{station.name}"):
                disk.unlink(f"{core}/{station.name}/{file.name}")
            disk.sync_dir(f"{core}/{station.name}")


@dataclass(slots=True)
class _Taking:
    """One core in the making; ``wal_seq`` is what its next bundle gets."""

    disk: Disk
    manifest: StoreManifest
    stock: CoreStock
    config: Config
    wal_seq: int = 0
    segment_seq: int = 0
    folder: str = field(init=False)

    def __post_init__(self) -> None:
        """Name the folder, and go on behind every number that was ever used there."""
        self.folder = core_folder(self.stock.core.number)
        self.segment_seq = self.stock.next_segment_seq

    def write(self, now_ns: int) -> None:
        """Write all stations of the core; durable, but for its own name, when this returns."""
        disk = self.disk
        disk.make_dir(self.folder)
        for name in ("segments", "wal"):
            disk.make_dir(f"{self.folder}/{name}")
        for segment in self.stock.segments:
            bundles = list(self._from_segment(segment))
            self._write_segment(segment.file.segment_seq, bundles)
        self._write_logged()
        for aside in self.stock.aside:
            self._keep(aside)
        replace(
            disk,
            f"{self.folder}/wal/{ACTIVE_NAME}",
            encode_header(self.manifest.layout_digest),
        )
        self._write_outcomes(now_ns)
        disk.sync_dir(self.folder)

    def _from_segment(self, segment: SegmentStock) -> Iterator[EncodedBundle]:
        """Read the bundles of a segment; when they came nobody knows, but when it was written."""
        disk, path = self.stock.core.disk, segment.file.path
        at_ns = max(segment.file.modified_ns, 0)
        with SegmentReader.open(disk, path, limits=self.config.limits.for_reading()) as reader:
            for index in range(reader.bundle_count):
                payloads = [
                    _payload(slot_id, batch) for slot_id, batch in reader.bundle(index).items()
                ]
                yield EncodedBundle(self.wal_seq + index, at_ns, tuple(payloads))

    def _write_logged(self) -> None:
        """Write what is only in the log as the last segment, or several where one would be huge."""
        log, disk = self.stock.log, self.stock.core.disk
        gathering = OpenSegment(self.config.segment)
        for bundle in logged_bundles(log, disk, self.config.limits.for_reading()):
            wal_seq = self.wal_seq + gathering.bundle_count
            # A copy: views would keep all that was read around them in memory.
            owned = (p._replace(data=bytes(p.data)) for p in bundle.payloads)
            gathering.add(EncodedBundle(wal_seq, bundle.ingestion_ns, tuple(owned)), 0)
            if gathering.due(0) is not None:
                self._write_last(gathering)
                gathering = OpenSegment(self.config.segment)
        self._write_last(gathering)

    def _write_last(self, gathering: OpenSegment) -> None:
        if gathering.bundle_count:
            self._write_segment(self.segment_seq, gathering.encoded())
            self.segment_seq += 1

    def _write_segment(self, segment_seq: int, bundles: Sequence[EncodedBundle]) -> None:
        if not bundles:
            return  # A segment without bundles says nothing, and ours have at least one.
        label = SegmentLabel(
            segment_seq=segment_seq,
            store_id=self.manifest.store_id,
            core=self.stock.core.number,
            slots=self.manifest.slots,
            wal_generation=1,
            wal_offset=HEADER_BYTES,
        )
        folder, how = f"{self.folder}/segments", self.config.segment
        write_segment(self.disk, folder, bundles, label=label, config=how)
        self.wal_seq += len(bundles)

    def _keep(self, aside: Aside) -> None:
        """Copy what could not be taken to quarantine, with the reason beside it."""
        with closing(self.stock.core.disk.open(aside.path)) as file:
            end = file.size() if aside.end is None else aside.end
            pieces = (
                file.read(at, min(_PIECE, end - at)) for at in range(aside.offset, end, _PIECE)
            )
            folder = f"{self.folder}/quarantine"
            save_bytes(self.disk, folder, aside.name, data=pieces, error=aside.error)

    def _write_outcomes(self, now_ns: int) -> None:
        """Write ack.log as the engine does: a floor, then each subscriber and what it has."""
        floor = Floor(self.segment_seq, self.wal_seq, now_ns)
        log, _ = AckLog.open(self.disk, f"{self.folder}/acks", f"{self.folder}/quarantine")
        with closing(log):
            log.append([floor, floor])  # Once more, as all that exists once and matters.
            for batch in _batches(self._outcomes(now_ns)):
                log.append(batch)
            log.sync()

    def _outcomes(self, now_ns: int) -> Iterator[Record]:
        for subscriber_id, subscriber in enumerate(self.stock.subscribers, 1):
            register = Register(subscriber_id, subscriber.name, now_ns)
            yield from (register, register)
            for seq, runs in sorted(subscriber.resolved.items()):
                for first, count in runs:
                    yield Ack(subscriber_id, seq, first, count, now_ns)


def _payload(slot_id: int, batch: pa.RecordBatch) -> Payload:
    """Encode a batch as an append does; its payload type is the slot, for nothing else is known."""
    data = memoryview(encode_stream(batch))
    return Payload(slot_id, slot_id, fingerprint(batch.schema), batch.num_rows, data)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) >= _RECORDS:
            yield batch
            batch = []
    yield batch
