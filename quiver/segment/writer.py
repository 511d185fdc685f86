"""Write a segment: group payloads into streams, lay the file out, make it durable in one step.

Equal bundles and an equal label give an equal file, byte for byte. Decoding, uniting, encoding and
checksums take a table for each stream, not a batch at a time: that is what makes it quick.
"""

from __future__ import annotations

import posixpath
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import crc32c
import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.disk import SEALED_MODE, Bytes, Disk, write_new
from quiver.errors import InputError
from quiver.ipc import decode_own_streams, decode_stream, schema_message
from quiver.payload import EncodedBundle, Payload
from quiver.promote import union_schema
from quiver.schemas import same_schema
from quiver.segment.bounds import column_bounds
from quiver.segment.catalog import SegmentInfo, describe
from quiver.segment.directory import Description, encode_directory
from quiver.segment.format import (
    BUNDLES_MAX,
    LENGTH_MAX,
    STREAMS_MAX,
    Extension,
    Footer,
    encode_tail,
    padding,
    segment_name,
)
from quiver.segment.index import IndexEntry, encode_index
from quiver.segment.manifest import encode_manifest
from quiver.segment.open_segment import check_bundle
from quiver.segment.pages import page_checksums
from quiver.segment.stream import (
    Chunk,
    Group,
    count_nulls,
    encode_chunks,
    event_range,
    join_ranges,
)
from quiver.segment.tables import BundleEntry, SlotRef, StreamEntry
from quiver.slots import SlotTable

__all__ = ["SegmentLabel", "write_segment"]

_DEFAULT_CONFIG: Final = SegmentConfig()


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


def write_segment(
    disk: Disk,
    folder: str,
    bundles: Sequence[EncodedBundle],
    *,
    label: SegmentLabel,
    lost: Mapping[int, tuple[int, ...]] | None = None,
    config: SegmentConfig = _DEFAULT_CONFIG,
    trusted: bool = False,
) -> SegmentInfo:
    """Write bundles as the segment file of ``label`` in ``folder``, read-only from the start.

    ``lost`` names slots of bundles, by their index, that damage took before: see ``Description``.
    ``config`` says how: its ``compression`` and ``dictionary_cardinality``. Payloads are
    ``trusted`` if this process encoded or checked them; others are validated first.
    When this returns the file and its name survive a power cut; if it raises, a file of that name
    is as it was, or all new. Any Arrow data can be written and reads back value for value.
    Raises InputError for no bundles, too many, or a slot that ``label`` does not know, and
    DamagedEntry for a payload that is not what it says.
    """
    if not bundles:
        raise InputError("an empty segment cannot be written", hint="append a bundle first")
    if len(bundles) > BUNDLES_MAX:
        raise InputError(f"a segment holds at most {BUNDLES_MAX:,} bundles")
    groups = _group(bundles, label.slots, trusted=trusted)
    schemas = _representative_schemas(groups)
    streams = [
        _Stream(group, *encoded)
        for group in groups
        for encoded in encode_chunks(group.schema, group.chunks, config=config)
    ]
    if len(streams) > STREAMS_MAX:
        raise InputError(f"a segment holds at most {STREAMS_MAX:,} streams, not {len(streams):,}")
    layout = _Layout()
    entries, index = [], []
    for stream_id, stream in enumerate(streams):
        offset = layout.add_aligned(stream.data)
        table = pa.Table.from_batches(stream.batches, stream.stored_schema)
        entry = _stream_entry(stream_id, stream, offset, label=label, schemas=schemas)
        entries.append(replace(entry, null_counts=count_nulls(table)))
        index.append(
            IndexEntry(
                stream_id,
                page_checksums(memoryview(stream.data), offset),
                [chunk.batch.num_rows for chunk in stream.chunks],
                tuple(column_bounds(table)),
            )
        )
    about = Description(
        label.store_id,
        label.core,
        label.segment_seq,
        label.slots,
        lost=dict(lost or {}),
        compression=config.compression,
    )
    tables = (
        encode_directory(entries, about, schemas),
        encode_manifest(_bundle_entries(bundles, streams)),
        encode_index(index),
    )
    footer = _footer(layout, tables, label=label, stream_count=len(streams), bundles=bundles)
    layout.add(encode_tail(footer, layout.crc32))
    path = posixpath.join(folder, segment_name(label.segment_seq))
    write_new(disk, path, layout.parts, mode=SEALED_MODE)
    return describe(disk, path, footer, file_bytes=layout.size)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Chunks of one group that share a file, and that file."""

    group: Group
    chunks: Sequence[Chunk]
    data: pa.Buffer
    stored_schema: pa.Schema
    batches: Sequence[pa.RecordBatch]


class _Layout:
    """The file in the making: its parts, not copied, with their size and CRC-32 so far."""

    def __init__(self) -> None:
        self.parts: list[Bytes] = []
        self.size = 0
        self.crc32 = 0

    def add(self, data: pa.Buffer | bytes) -> int:
        """Put bytes at the end, and say at which offset that is."""
        view, offset = memoryview(data), self.size
        self.parts.append(view)
        self.size += view.nbytes
        self.crc32 = zlib.crc32(view, self.crc32)
        return offset

    def add_aligned(self, data: pa.Buffer) -> int:
        """Put bytes at the next offset where a stream may start."""
        gap = padding(self.size)
        if gap:
            self.add(bytes(gap))
        return self.add(data)


def _group(bundles: Sequence[EncodedBundle], slots: SlotTable, *, trusted: bool) -> list[Group]:
    """Decode all payloads into groups, in order of first appearance.

    The schema is part of the key: two that share a fingerprint by mistake are kept apart here and
    not refused, since the bundles were taken long ago.
    """
    groups: dict[tuple[int, bytes, bytes], list[tuple[int, Payload]]] = {}
    for index, bundle in enumerate(bundles):
        check_bundle(bundle)
        for payload in bundle.payloads:
            if not trusted:
                decode_stream(payload.data, rows=payload.row_count)
            key = (payload.slot_id, payload.fingerprint, schema_message(payload.data))
            groups.setdefault(key, []).append((index, payload))
    found = []
    for (slot_id, fingerprint, _), members in groups.items():
        slot = slots[slot_id]
        batches = decode_own_streams([payload.data for _, payload in members])
        group = Group(slot_id, fingerprint, batches[0].schema)
        for (index, _), batch in zip(members, batches, strict=True):
            event = event_range(batch, slot.event_time)
            group.chunks.append(Chunk(index, bundles[index].ingestion_ns, event, batch))
        found.append(group)
    return found


def _representative_schemas(groups: Sequence[Group]) -> dict[int, pa.Schema]:
    """Find for each slot the schema that all of its streams fit; none where there is none."""
    found = {}
    for slot_id in sorted({group.slot_id for group in groups}):
        try:
            found[slot_id] = union_schema(g.schema for g in groups if g.slot_id == slot_id)
        except InputError:
            continue  # Bundles are stored whatever their types; a reader of this slot will be told.
    return found


def _stream_entry(
    stream_id: int,
    stream: _Stream,
    offset: int,
    *,
    label: SegmentLabel,
    schemas: Mapping[int, pa.Schema],
) -> StreamEntry:
    group, chunks = stream.group, stream.chunks
    event = join_ranges([chunk.event for chunk in chunks])
    representative = schemas.get(group.slot_id)
    return StreamEntry(
        stream_id=stream_id,
        slot_id=group.slot_id,
        fingerprint=group.fingerprint,
        byte_offset=offset,
        byte_length=stream.data.size,
        row_count=sum(chunk.batch.num_rows for chunk in chunks),
        chunk_count=len(chunks),
        payload_type=label.slots[group.slot_id].name,
        crc32c=crc32c.crc32c(memoryview(stream.data)),
        ingestion_ns_min=min(chunk.ingestion_ns for chunk in chunks),
        ingestion_ns_max=max(chunk.ingestion_ns for chunk in chunks),
        event_ns_min=event[0] if event else None,
        event_ns_max=event[1] if event else None,
        omitted_columns=_omitted(group.schema, representative) if representative else None,
        declared_schema=_declared(group.schema, stream.stored_schema),
    )


def _declared(schema: pa.Schema, stored: pa.Schema) -> bytes | None:
    if same_schema(stored, schema):
        return None
    return schema.serialize().to_pybytes()


def _omitted(schema: pa.Schema, representative: pa.Schema) -> bytes:
    present = set(schema.names)
    bits = bytearray((len(representative) + 7) // 8)
    for place, name in enumerate(representative.names):
        if name not in present:
            bits[place // 8] |= 1 << (place % 8)
    return bytes(bits)


def _bundle_entries(
    bundles: Sequence[EncodedBundle], streams: Sequence[_Stream]
) -> list[BundleEntry]:
    refs: list[list[SlotRef]] = [[] for _ in bundles]
    events: list[list[tuple[int, int] | None]] = [[] for _ in bundles]
    for stream_id, stream in enumerate(streams):
        for chunk_index, chunk in enumerate(stream.chunks):
            ref = SlotRef(stream.group.slot_id, stream_id, chunk_index)
            refs[chunk.bundle_index].append(ref)
            events[chunk.bundle_index].append(chunk.event)
    entries = []
    for index, bundle in enumerate(bundles):
        event = join_ranges(events[index])
        entries.append(
            BundleEntry(
                bundle_index=index,
                refs=tuple(sorted(refs[index], key=lambda ref: ref.slot_id)),
                wal_seq=bundle.wal_seq,
                ingestion_ns=bundle.ingestion_ns,
                event_ns_min=event[0] if event else None,
                event_ns_max=event[1] if event else None,
                byte_count=bundle.payload_bytes,
            )
        )
    return entries


def _table_length(table: pa.Buffer) -> int:
    if table.size > LENGTH_MAX:
        raise InputError(f"a table of {table.size:,} bytes does not fit into a segment")
    return table.size


def _footer(
    layout: _Layout,
    tables: tuple[pa.Buffer, pa.Buffer, pa.Buffer],
    *,
    label: SegmentLabel,
    stream_count: int,
    bundles: Sequence[EncodedBundle],
) -> Footer:
    """Lay the three tables down, and say where they are."""
    directory, manifest, index = tables
    places = [layout.add(table) for table in tables]
    extension = Extension(
        segment_seq=label.segment_seq,
        wal_seq_first=min(bundle.wal_seq for bundle in bundles),
        wal_seq_last=max(bundle.wal_seq for bundle in bundles),
        wal_generation=label.wal_generation,
        wal_offset=label.wal_offset,
        ingestion_ns_min=min(bundle.ingestion_ns for bundle in bundles),
        ingestion_ns_max=max(bundle.ingestion_ns for bundle in bundles),
        directory_crc32c=crc32c.crc32c(memoryview(directory)),
        manifest_crc32c=crc32c.crc32c(memoryview(manifest)),
        index_offset=places[2],
        index_length=index.size,
        index_crc32c=crc32c.crc32c(memoryview(index)),
    )
    return Footer(
        stream_count,
        len(bundles),
        places[0],
        _table_length(directory),
        places[1],
        _table_length(manifest),
        extension,
    )
