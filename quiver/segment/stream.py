"""Streams in the making: payloads that share slot, fingerprint and schema become one Arrow file.

Or several, where their dictionaries do not fit into one: see ``dictionaries``. All of them are
streams of the same slot and fingerprint. One chunk alone always fits, so any data can be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from quiver.config import Compression, SegmentConfig
from quiver.errors import InputError
from quiver.ipc import encode_file
from quiver.segment.dictionaries import UnitedChunks, unite
from quiver.segment.tables import Column

__all__ = [
    "Chunk",
    "EncodedChunks",
    "Group",
    "count_nulls",
    "encode_chunks",
    "event_range",
    "join_ranges",
]

Range = tuple[int, int] | None
"""Least and greatest time in nanoseconds since 1970, both included; None if there is none."""

_FACTORS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NS_MIN: Final = -(1 << 63)
_NS_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """One payload as Arrow data, and the bundle it came in."""

    bundle_index: int
    ingestion_ns: int
    event: Range
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Group:
    """The chunks of one slot with one fingerprint and one schema, in order of their bundles."""

    slot_id: int
    fingerprint: bytes
    schema: pa.Schema
    chunks: list[Chunk] = field(default_factory=list)


class EncodedChunks(NamedTuple):
    """Chunks that share an Arrow file, that file, and the schema that it has.

    It is the declared one, except that indices of dictionaries may be narrower.
    """

    chunks: Sequence[Chunk]
    data: pa.Buffer
    stored_schema: pa.Schema
    batches: Sequence[pa.RecordBatch]


def encode_chunks(
    schema: pa.Schema, chunks: Sequence[Chunk], *, config: SegmentConfig
) -> list[EncodedChunks]:
    """Write chunks of one schema as few Arrow files, filled in order."""
    batches = [chunk.batch for chunk in chunks]
    parts = unite(schema, batches, cardinality=config.dictionary_cardinality)
    return [
        _encode(part, chunks[part.chunks.start : part.chunks.stop], config.compression)
        for part in parts
    ]


def _encode(part: UnitedChunks, chunks: Sequence[Chunk], compression: Compression) -> EncodedChunks:
    # What is united is no larger, and to ask the batches as they came is quick.
    body_bytes = sum(chunk.batch.get_total_buffer_size() for chunk in chunks)
    try:
        data = encode_file(
            part.schema, list(part.batches), compression=compression, body_bytes=body_bytes
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"pyarrow cannot write this data as a file: {error}") from error
    return EncodedChunks(chunks, data, part.schema, part.batches)


def event_range(batch: pa.RecordBatch, column_name: str) -> Range:
    """Find the range of a timestamp column; None if it is absent, no timestamp, or all null.

    A time without zone counts as UTC. One beyond what 64 bits of nanoseconds hold (years 1677 to
    2262) counts as the nearest that they do, so that a search by range still finds the chunk.
    """
    places = batch.schema.get_all_field_indices(column_name) if column_name else []
    if len(places) != 1 or not pa.types.is_timestamp(batch.schema.types[places[0]]):
        return None
    column: Column = batch.column(places[0])
    both: Any = pc.min_max(column)
    low, high = both["min"].value, both["max"].value
    if low is None or high is None:
        return None
    factor = _FACTORS[column.type.unit]
    return _clamp(low * factor), _clamp(high * factor)


def _clamp(nanoseconds: int) -> int:
    return min(max(nanoseconds, _NS_MIN), _NS_MAX)


def join_ranges(ranges: Sequence[Range]) -> Range:
    """Find the range that spans all of those given; None if none of them is one."""
    known = [each for each in ranges if each is not None]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def count_nulls(table: pa.Table) -> tuple[int | None, ...]:
    """Count the nulls of each column of a stream; None where only the values could tell.

    That is so for unions, run-end encoded columns, and dictionaries that hold a null or such types.
    """
    return tuple(_count_nulls(column) for column in table.columns)


def _count_nulls(column: Column) -> int | None:
    """Count from validity bitmaps alone.

    Not by ``pyarrow.compute.count``: it ends the process on a dictionary whose values are of the
    null type, and misses nulls in the storage of extension types.
    """
    array: Column = column.chunk(0) if column.num_chunks else None
    kind: Column = column.type
    while isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
        array = None if array is None else array.storage
    while array is not None and pa.types.is_dictionary(array.type):
        array = array.dictionary  # All chunks of a file have the same one.
        kind = array.type
        while isinstance(kind, pa.BaseExtensionType):
            array, kind = array.storage, kind.storage_type
        if array.null_count:
            return None
    if pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind):
        return None
    return int(column.null_count)
