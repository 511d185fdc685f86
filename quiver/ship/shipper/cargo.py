"""One segment made ready to be shipped: its file as it is, or written anew with what is wanted.

::

    all bundles open, all slots wanted, file sound    the file as it lies on the disk
    else, for each open bundle
        damaged, or it lost a part                    left out: given up, or all of it refused
        none of the wanted slots                      left out: acked
        else                                          in a file that is written anew, in memory
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from crc32c import crc32c

from quiver.bundle import fingerprint
from quiver.config import Config, LimitsConfig
from quiver.consumer import Pending
from quiver.disk import Bytes, Disk, read_along
from quiver.errors import DamagedEntry, DamageError
from quiver.ipc import encode_stream
from quiver.manifest import StoreManifest
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentLabel, SegmentReader, encode_segment
from quiver.segment.catalog import check_file
from quiver.segment.memory import open_bytes
from quiver.ship.shipper.facts import facts_of
from quiver.ship.shipper.format import ShippedSegment
from quiver.slots import SlotTable

__all__ = ["DAMAGED", "Cargo", "OnDamage", "Packer"]

OnDamage: TypeAlias = Literal["skip", "block"]
DAMAGED: Final[tuple[OnDamage, ...]] = ("skip", "block")

_REPAIR: Final = "quiver repair mends what the log still has; to leave it out is --damaged skip"


@dataclass(slots=True)
class Cargo:
    """What becomes of the open bundles of one segment.

    All that are not ``rejected`` are acked once the record, if there is one, is in the queue.
    """

    pending: Pending
    segment: ShippedSegment | None = None
    """None if nothing of it is to be shipped."""
    record: memoryview | bytes = b""
    rejected: list[int] = field(default_factory=list)
    """Bundles that are damaged, by index."""
    reason: str = ""
    """Why they are."""
    is_gone: bool = False
    """The segment was deleted before it could be read: nothing of it is acked."""
    record_bytes: int = 0

    def let_go(self) -> None:
        """Forget the record itself: it is elsewhere."""
        self.record_bytes, self.record = len(self.record), b""


class Packer:
    """Makes cargo of the segments of one store. Safe for several threads at once."""

    def __init__(
        self,
        disk: Disk,
        manifest: StoreManifest,
        *,
        config: Config,
        slots: Collection[str] | None = None,
        damaged: OnDamage = "skip",
    ) -> None:
        """Ship all ``slots``, or those named; raises InputError if there is none of a name."""
        self._disk, self._manifest, self._config = disk, manifest, config
        self._damaged = damaged
        self._wanted: frozenset[int] | None = None
        if slots is not None:
            self._wanted = frozenset(manifest.slots[name].slot_id for name in slots)

    def pack(self, pending: Pending) -> Cargo:
        """Read and check a segment.

        Raises DamageError if any open bundle is damaged and that is to block, MissingError if the
        segment was deleted meanwhile, StorageError if the disk refuses to read it.
        """
        path = pending.info.path
        data = self._disk.map(path)
        try:
            reader = SegmentReader(self._disk, path, data, limits=self._limits)
            _ = reader.manifest
        except DamageError as error:
            self._refuse(error)
            return Cargo(pending, rejected=_indexes(pending), reason=_short(error))
        with reader:
            if self._is_whole(pending, reader, data):
                return self._as_it_is(pending, reader, data)
            return self._anew(pending, reader, data)

    @property
    def _limits(self) -> LimitsConfig:
        return self._config.limits.for_reading()

    def _refuse(self, error: DamageError) -> None:
        if self._damaged == "block":
            error.hint = error.hint or _REPAIR
            raise error

    def _is_whole(self, pending: Pending, reader: SegmentReader, data: memoryview) -> bool:
        """Whether the file can go as it is, every byte of it."""
        if self._wanted is not None or not pending.is_whole or reader.lost:
            return False
        if reader.store_id != self._manifest.store_id or reader.slots is None:
            return False
        read_along(data, 0, len(data))
        with suppress(DamageError):
            check_file(data, reader.trailer)
            return True
        return False

    def _as_it_is(self, pending: Pending, reader: SegmentReader, data: memoryview) -> Cargo:
        info = pending.info
        segment = ShippedSegment(
            self._manifest.store_id,
            pending.core,
            info.segment_seq,
            info.wal_seq_first or 0,
            info.wal_seq_last or 0,
            info.bundle_count,
            *facts_of(reader, record_bytes=len(data)),
        )
        return Cargo(pending, segment, data)

    def _anew(self, pending: Pending, reader: SegmentReader, data: memoryview) -> Cargo:
        cargo = Cargo(pending)
        place = self._disk.locate(pending.info.path)
        bundles = self._take(cargo, reader, _damaged_streams(reader, data, place))
        if not bundles:
            return cargo
        config = self._config.segment
        if reader.compression is not None:
            config = replace(config, compression=reader.compression)
        label = self._label(pending, reader)
        parts: list[Bytes] = encode_segment(bundles, label=label, config=config)
        cargo.record = b"".join(memoryview(part) for part in parts)
        with open_bytes(cargo.record, place=place, limits=self._limits) as made:
            facts = facts_of(made, record_bytes=len(cargo.record))
        cargo.segment = ShippedSegment(
            self._manifest.store_id,
            pending.core,
            pending.info.segment_seq,
            min(bundle.wal_seq for bundle in bundles),
            max(bundle.wal_seq for bundle in bundles),
            len(bundles),
            *facts,
        )
        return cargo

    def _label(self, pending: Pending, reader: SegmentReader) -> SegmentLabel:
        info = pending.info
        return SegmentLabel(
            segment_seq=info.segment_seq,
            store_id=self._manifest.store_id,
            core=pending.core,
            slots=self._slots(reader),
            wal_generation=info.wal_generation or 0,
            wal_offset=info.wal_offset or 0,
        )

    def _slots(self, reader: SegmentReader) -> SlotTable:
        """Give the slot table under which a segment was written."""
        return self._manifest.slots if reader.slots is None else reader.slots

    def _take(
        self, cargo: Cargo, reader: SegmentReader, damaged: dict[int, DamageError]
    ) -> list[EncodedBundle]:
        """Read the open bundles; note in the cargo which are left out for damage."""
        bundles: list[EncodedBundle] = []
        for index in _indexes(cargo.pending):
            try:
                payloads = self._read(reader, index, damaged)
            except DamageError as error:
                if index not in reader.lost:  # What a repair took is nothing to wait for.
                    self._refuse(error)
                cargo.rejected.append(index)
                cargo.reason = cargo.reason or _short(error)
                continue
            if payloads:
                entry = reader.bundle_entry(index)
                bundles.append(
                    EncodedBundle(entry.wal_seq or 0, entry.ingestion_ns or 0, tuple(payloads))
                )
        return bundles

    def _read(
        self, reader: SegmentReader, index: int, damaged: dict[int, DamageError]
    ) -> list[Payload]:
        """Encode the wanted slots of a bundle as an append does."""
        place = self._disk.locate(reader.info.path)
        if index in reader.lost:
            raise DamagedEntry(f"bundle {index} lost a part before", path=place)
        table = self._slots(reader)
        payloads = []
        for ref in sorted(reader.bundle_entry(index).refs, key=lambda ref: ref.slot_id):
            if self._wanted is not None and ref.slot_id not in self._wanted:
                continue
            if ref.stream_id in damaged:
                raise damaged[ref.stream_id]
            batch = reader.chunk(ref.stream_id, ref.chunk_index)
            data = memoryview(encode_stream(batch))
            kind = table[ref.slot_id].payload_type_id
            print_ = fingerprint(batch.schema)
            payloads.append(Payload(ref.slot_id, kind, print_, batch.num_rows, data))
        return payloads


def _damaged_streams(reader: SegmentReader, data: memoryview, place: str) -> dict[int, DamageError]:
    """Check each stream once: each chunk of a damaged one would be a check of all of it."""
    found: dict[int, DamageError] = {}
    for stream in reader.streams:
        computed = crc32c(data[stream.byte_offset :][: stream.byte_length])
        if stream.crc32c is not None and stream.crc32c != computed:
            found[stream.stream_id] = DamagedEntry(
                f"stream {stream.stream_id}'s checksum is wrong",
                path=place,
                offset=stream.byte_offset,
                expected=f"{stream.crc32c:#010x}",
                found=f"{computed:#010x}",
            )
    return found


def _indexes(pending: Pending) -> list[int]:
    return [index for first, count in pending.runs for index in range(first, first + count)]


def _short(error: DamageError) -> str:
    return f"not shipped: {error.message}"
