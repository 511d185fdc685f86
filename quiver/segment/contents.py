"""What the tables and the footer of a segment say of its streams and bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.disk import Bytes
from quiver.errors import InputError
from quiver.payload import EncodedBundle
from quiver.promote import union_schema
from quiver.schemas import same_schema
from quiver.segment.builder import BuiltStream
from quiver.segment.directory import Description, encode_directory
from quiver.segment.format import LENGTH_MAX, Extension, Footer, encode_tail
from quiver.segment.index import IndexEntry, encode_index
from quiver.segment.layout import Checks, PlacedStream, StreamChecks
from quiver.segment.manifest import BundleColumns, References, encode_manifest
from quiver.segment.sums import Piece
from quiver.segment.tables import StreamEntry
from quiver.slots import SlotTable

__all__ = ["Contents", "SegmentLabel"]

_INT64: Final = np.iinfo(np.int64)
_Omissions: TypeAlias = Mapping[tuple[int, int], bytes | None]
"""By slot, and the identity of a schema that is alive meanwhile."""


@dataclass(frozen=True, slots=True)
class SegmentLabel:
    """What a segment is called and which part of the log it covers.

    ``wal_generation`` and ``wal_offset`` name the place right behind the last entry covered.
    """

    segment_seq: int
    store_id: str
    core: int
    slots: SlotTable
    wal_generation: int
    wal_offset: int


@dataclass(frozen=True, slots=True)
class Contents:
    """All that goes into one segment file."""

    bundles: Sequence[EncodedBundle]
    built: Sequence[BuiltStream]
    label: SegmentLabel
    lost: Mapping[int, tuple[int, ...]]
    config: SegmentConfig
    progress: bytes = b""
    """How far sources were read with these bundles; as ``quiver.progress`` writes it."""

    def encode_end(self, placed: Sequence[PlacedStream]) -> tuple[list[Bytes], Footer]:
        """Write all that is behind the streams, which lie there, and give the footer too.

        Raises InputError if a table is larger than the footer can say.
        """
        checks = Checks()
        for stream in placed:
            checks.add_stream(stream)
        schemas = _representative_schemas(self.built)
        omitted = _omissions(self.built, schemas)
        entries, index = [], []
        for stream_id, (built, found) in enumerate(zip(self.built, checks.streams, strict=True)):
            entries.append(self._stream_entry(stream_id, built, found, omitted=omitted))
            index.append(IndexEntry(stream_id, found.pages, built.stream.rows, built.stream.bounds))
        label = self.label
        about = Description(
            label.store_id,
            label.core,
            label.segment_seq,
            label.slots,
            lost=dict(self.lost),
            compression=self.config.compression,
        )
        tables = [
            memoryview(encode_directory(entries, about, schemas)),
            memoryview(
                encode_manifest(_references(self.built), _bundle_columns(self.bundles, self.built))
            ),
            memoryview(encode_index(index)),
        ]
        if self.progress:
            tables.append(memoryview(self.progress))
        places, sums = [], []
        for table in tables:
            places.append(checks.size)
            sums.append(checks.add(Piece(table)).crc32c)
        footer = self._footer(tables, places, sums)
        return [*tables, encode_tail(footer, checks.crc32)], footer

    def _stream_entry(
        self,
        stream_id: int,
        built: BuiltStream,
        checks: StreamChecks,
        *,
        omitted: _Omissions,
    ) -> StreamEntry:
        stream = built.stream
        event = stream.events.span()
        ingested = [self.bundles[index].ingestion_ns for index in stream.bundles]
        return StreamEntry(
            stream_id=stream_id,
            slot_id=built.slot_id,
            fingerprint=built.fingerprint,
            byte_offset=checks.offset,
            byte_length=checks.length,
            row_count=sum(stream.rows),
            chunk_count=len(stream.rows),
            payload_type=self.label.slots[built.slot_id].name,
            crc32c=checks.crc32c,
            ingestion_ns_min=min(ingested),
            ingestion_ns_max=max(ingested),
            event_ns_min=event[0] if event else None,
            event_ns_max=event[1] if event else None,
            null_counts=stream.null_counts,
            omitted_columns=omitted[built.slot_id, id(built.schema)],
            declared_schema=_declared(built.schema, stream.stored_schema),
        )

    def _footer(
        self, tables: Sequence[memoryview], places: Sequence[int], sums: Sequence[int]
    ) -> Footer:
        directory, manifest, index, *progress = tables
        bundles, label = self.bundles, self.label
        extension = Extension(
            segment_seq=label.segment_seq,
            wal_seq_first=min(bundle.wal_seq for bundle in bundles),
            wal_seq_last=max(bundle.wal_seq for bundle in bundles),
            wal_generation=label.wal_generation,
            wal_offset=label.wal_offset,
            ingestion_ns_min=min(bundle.ingestion_ns for bundle in bundles),
            ingestion_ns_max=max(bundle.ingestion_ns for bundle in bundles),
            directory_crc32c=sums[0],
            manifest_crc32c=sums[1],
            index_offset=places[2],
            index_length=len(index),
            index_crc32c=sums[2],
            progress_offset=places[3] if progress else 0,
            progress_length=len(progress[0]) if progress else 0,
            progress_crc32c=sums[3] if progress else 0,
        )
        return Footer(
            len(self.built),
            len(bundles),
            places[0],
            _table_length(directory),
            places[1],
            _table_length(manifest),
            extension,
        )


def _representative_schemas(built: Sequence[BuiltStream]) -> dict[int, pa.Schema]:
    """Find for each slot the schema that all of its streams fit; none where there is none."""
    found = {}
    for slot_id in sorted({each.slot_id for each in built}):
        try:
            same = {id(b.schema): b.schema for b in built if b.slot_id == slot_id}
            found[slot_id] = union_schema(same.values())
        except InputError:
            continue  # Bundles are stored whatever their types; a reader of this slot will be told.
    return found


def _declared(schema: pa.Schema, stored: pa.Schema) -> bytes | None:
    if stored is schema or same_schema(stored, schema):
        return None
    return schema.serialize().to_pybytes()


def _omissions(built: Sequence[BuiltStream], schemas: Mapping[int, pa.Schema]) -> _Omissions:
    """Find the omitted columns once for each schema: very many streams may share one."""
    found: dict[tuple[int, int], bytes | None] = {}
    for slot_id, _, schema, _ in built:
        if (slot_id, id(schema)) not in found:
            found[slot_id, id(schema)] = _omitted(schema, schemas.get(slot_id))
    return found


def _omitted(schema: pa.Schema, representative: pa.Schema | None) -> bytes | None:
    if representative is None:
        return None
    present = set(schema.names)
    bits = bytearray((len(representative) + 7) // 8)
    for place, name in enumerate(representative.names):
        if name not in present:
            bits[place // 8] |= 1 << (place % 8)
    return bytes(bits)


def _references(built: Sequence[BuiltStream]) -> References:
    bundles, slots, streams, chunks = [], [], [], []
    for stream_id, (slot_id, _, _, stream) in enumerate(built):
        count = len(stream.bundles)
        bundles.append(np.array(stream.bundles, np.int64))
        slots.append(np.full(count, slot_id))
        streams.append(np.full(count, stream_id))
        chunks.append(np.arange(count))
    if not built:
        return References(*(np.empty(0, np.int64) for _ in References._fields))
    return References(*map(np.concatenate, (bundles, slots, streams, chunks)))


def _bundle_columns(
    bundles: Sequence[EncodedBundle], built: Sequence[BuiltStream]
) -> BundleColumns:
    low = np.full(len(bundles), _INT64.max)
    high = np.full(len(bundles), _INT64.min)
    unknown = np.ones(len(bundles), bool)
    for each in built:
        events = each.stream.events
        if not events.known.any():
            continue
        places = np.array(each.stream.bundles, np.int64)[events.known]
        # A bundle has no more than one chunk in a stream, so that no place comes twice.
        low[places] = np.minimum(low[places], events.low[events.known])
        high[places] = np.maximum(high[places], events.high[events.known])
        unknown[places] = False
    return BundleColumns(
        pa.array([bundle.wal_seq for bundle in bundles], pa.uint64()),
        pa.array([bundle.ingestion_ns for bundle in bundles], pa.int64()),
        pa.array(low, mask=unknown),
        pa.array(high, mask=unknown),
        pa.array([bundle.payload_bytes for bundle in bundles], pa.uint64()),
    )


def _table_length(table: memoryview) -> int:
    if len(table) > LENGTH_MAX:
        raise InputError(f"a table of {len(table):,} bytes does not fit into a segment")
    return len(table)
