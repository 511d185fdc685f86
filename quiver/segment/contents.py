"""What the tables and the footer of a segment say of its streams and bundles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.config import SegmentConfig
from quiver.disk import Bytes
from quiver.errors import InputError
from quiver.payload import EncodedBundle
from quiver.promote import union_schema
from quiver.schemas import same_schema
from quiver.segment.builder import BuiltStreams
from quiver.segment.columns import StreamColumns
from quiver.segment.directory import Description, encode_columns
from quiver.segment.format import LENGTH_MAX, Extension, Footer, encode_tail
from quiver.segment.index import encode_index
from quiver.segment.layout import Checks, Placed, StreamChecks
from quiver.segment.manifest import BundleColumns, References, encode_manifest
from quiver.segment.rest import Rest, no_rest
from quiver.segment.sums import Piece
from quiver.segment.tables import Column
from quiver.slots import SlotTable

__all__ = ["Contents", "SegmentLabel"]

_FINGERPRINT: Final = pa.binary(32)
_NULL_COUNTS: Final = pa.list_(pa.uint64())
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
    built: Sequence[BuiltStreams]
    label: SegmentLabel
    lost: Mapping[int, tuple[int, ...]]
    config: SegmentConfig
    progress: bytes = b""
    """How far sources were read with these bundles; as ``quiver.progress`` writes it."""
    rest: Rest = no_rest

    def encode_end(self, placed: Sequence[Placed]) -> tuple[list[Bytes], Footer]:
        """Write all that is behind the streams, which lie there, and give the footer too.

        Raises InputError if a table is larger than the footer can say.
        """
        checks = Checks(self.rest)
        for each in placed:
            checks.add_streams(each)
        streams = StreamColumns.of(self.built)
        schemas = _representative_schemas(self.built)
        label = self.label
        about = Description(
            label.store_id,
            label.core,
            label.segment_seq,
            label.slots,
            lost=dict(self.lost),
            compression=self.config.compression,
        )
        directory = encode_columns(
            self._directory(streams, checks.streams, schemas), about, schemas
        )
        self.rest()
        manifest = encode_manifest(self._references(streams), self._bundle_columns(streams))
        self.rest()
        index = encode_index(
            [found.pages for found in checks.streams],
            streams.chunk_rows(),
            bounds=[each.streams.bounds for each in self.built],
            alike=streams.alike,
        )
        self.rest()
        tables = [memoryview(table) for table in (directory, manifest, index)]
        if self.progress:
            tables.append(memoryview(self.progress))
        places, sums = [], []
        for table in tables:
            places.append(checks.size)
            sums.append(checks.add(Piece(table)).crc32c)
        footer = self._footer(tables, places, sums, stream_count=len(checks.streams))
        return [*tables, encode_tail(footer, checks.crc32)], footer

    def _directory(
        self,
        streams: StreamColumns,
        checks: Sequence[StreamChecks],
        schemas: Mapping[int, pa.Schema],
    ) -> list[Column]:
        """Give what the directory says of streams; what streams alike share, once for all."""
        built, alike = self.built, streams.alike
        omitted = _omissions(built, schemas)
        offsets, lengths, crcs, _ = zip(*checks, strict=True) if checks else ((),) * 4
        ingested = self._of_bundles("ingestion_ns")[streams.bundles]
        return [
            pa.array(streams.stream_ids),
            _each([each.slot_id for each in built], pa.uint16(), alike),
            _each([each.fingerprint for each in built], _FINGERPRINT, alike),
            pa.array(offsets, pa.uint64()),
            pa.array(lengths, pa.uint64()),
            pa.array(streams.row_counts()),
            pa.array(streams.chunk_counts),
            _each([self.label.slots[each.slot_id].name for each in built], pa.string(), alike),
            pa.array(crcs, pa.uint32()),
            pa.array(streams.least(ingested)),
            pa.array(streams.greatest(ingested)),
            *streams.event_spans(),
            _each([each.streams.null_counts for each in built], _NULL_COUNTS, alike),
            _each([omitted[each.slot_id, id(each.schema)] for each in built], pa.binary(), alike),
            _each([_declared(each) for each in built], pa.binary(), alike),
        ]

    def _references(self, streams: StreamColumns) -> References:
        slots = np.array([each.slot_id for each in self.built], np.int64)[streams.alike]
        return References(
            streams.bundles,
            streams.of_chunks(slots),
            streams.of_chunks(streams.stream_ids),
            np.arange(len(streams.bundles)) - streams.of_chunks(streams.starts),
        )

    def _bundle_columns(self, streams: StreamColumns) -> BundleColumns:
        return BundleColumns(
            pa.array(self._of_bundles("wal_seq", np.uint64)),
            pa.array(self._of_bundles("ingestion_ns")),
            *streams.event_spans_of_bundles(len(self.bundles)),
            pa.array(self._of_bundles("payload_bytes")),
        )

    def _of_bundles(self, name: str, kind: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
        return np.array([getattr(bundle, name) for bundle in self.bundles], kind)

    def _footer(
        self,
        tables: Sequence[memoryview],
        places: Sequence[int],
        sums: Sequence[int],
        *,
        stream_count: int,
    ) -> Footer:
        directory, manifest, index, *progress = tables
        label, wal_seqs = self.label, self._of_bundles("wal_seq", np.uint64)
        ingested = self._of_bundles("ingestion_ns")
        extension = Extension(
            segment_seq=label.segment_seq,
            wal_seq_first=int(wal_seqs.min()),
            wal_seq_last=int(wal_seqs.max()),
            wal_generation=label.wal_generation,
            wal_offset=label.wal_offset,
            ingestion_ns_min=int(ingested.min()),
            ingestion_ns_max=int(ingested.max()),
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
            stream_count,
            len(self.bundles),
            places[0],
            _table_length(directory),
            places[1],
            _table_length(manifest),
            extension,
        )


def _representative_schemas(built: Sequence[BuiltStreams]) -> dict[int, pa.Schema]:
    """Find for each slot the schema that all of its streams fit; none where there is none."""
    found = {}
    for slot_id in sorted({each.slot_id for each in built}):
        try:
            same = {id(b.schema): b.schema for b in built if b.slot_id == slot_id}
            found[slot_id] = union_schema(same.values())
        except InputError:
            continue  # Bundles are stored whatever their types; a reader of this slot will be told.
    return found


def _declared(built: BuiltStreams) -> bytes | None:
    stored, schema = built.streams.stored_schema, built.schema
    if stored is schema or same_schema(stored, schema):
        return None
    return schema.serialize().to_pybytes()


def _omissions(built: Sequence[BuiltStreams], schemas: Mapping[int, pa.Schema]) -> _Omissions:
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


def _each(values: Sequence[object], kind: pa.DataType, alike: npt.NDArray[np.int64]) -> Column:
    """Give each stream its value of those that streams alike share."""
    shared: Column = pa.array(values, kind)
    return shared.take(pa.array(alike))


def _table_length(table: memoryview) -> int:
    if len(table) > LENGTH_MAX:
        raise InputError(f"a table of {len(table):,} bytes does not fit into a segment")
    return len(table)
