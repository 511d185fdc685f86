"""What the rows of a segment's two tables mean, and how their columns are found.

=========  ==================================================  =================
table      one row is                                          read and written by
=========  ==================================================  =================
directory  a stream: where it lies and what it holds           ``directory``
manifest   a bundle: which chunk of which stream fills a slot  ``manifest``
=========  ==================================================  =================

Both are Arrow IPC files of one batch. Columns are found by name, never by position; those of
version 1 must be there, ours are optional and None in the segments of other writers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry, DamageError
from quiver.ipc_file import ArrowFile
from quiver.segment.format import BUNDLES_MAX

__all__ = [
    "NANOSECONDS",
    "BundleEntry",
    "Column",
    "SlotRef",
    "StreamEntry",
    "find_column",
    "located",
    "need_column",
    "read_table",
    "take_times",
]

Column: TypeAlias = Any
"""An Arrow array; pyarrow's stubs know only those of a type that is known beforehand."""

NANOSECONDS: Final = pa.timestamp("ns", tz="UTC")

_TABLE_LIMITS: Final = LimitsConfig(rows=BUNDLES_MAX, columns=1_000, nesting=16)


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """One stream: the chunks of one slot that share a fingerprint and a schema.

    Event times are None if no row has one. Bit ``i`` of ``omitted_columns``, lowest bit of the
    first byte first, says that column ``i`` of the slot's representative schema is not in this
    stream. ``null_counts`` has one count for each column that is, None where it is not known.
    ``declared_schema`` is the serialized schema of its chunks, None if they are stored under it.
    """

    stream_id: int
    slot_id: int
    fingerprint: bytes
    byte_offset: int
    byte_length: int
    row_count: int
    chunk_count: int
    payload_type: str | None = None
    crc32c: int | None = None
    ingestion_ns_min: int | None = None
    ingestion_ns_max: int | None = None
    event_ns_min: int | None = None
    event_ns_max: int | None = None
    null_counts: tuple[int | None, ...] | None = None
    omitted_columns: bytes | None = None
    declared_schema: bytes | None = None


@dataclass(frozen=True, slots=True)
class SlotRef:
    """Which chunk fills one slot of a bundle."""

    slot_id: int
    stream_id: int
    chunk_index: int


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """One bundle. ``item_count`` is another writer's and never ours."""

    bundle_index: int
    refs: tuple[SlotRef, ...]
    wal_seq: int | None = None
    ingestion_ns: int | None = None
    event_ns_min: int | None = None
    event_ns_max: int | None = None
    byte_count: int | None = None
    item_count: int | None = None


@contextmanager
def located(place: str, *, base: int = 0) -> Iterator[None]:
    """Give each DamageError from inside its file, and add ``base`` to its offset."""
    try:
        yield
    except DamageError as error:
        raise error.at(place, base=base) from error


def read_table(data: pa.Buffer, rows: int, *, schema: pa.Schema) -> pa.RecordBatch:
    """Read the one batch of a table that must have ``rows`` rows; a view of ``data``.

    ``schema`` is the one that we write: it is what most tables have.
    """
    file = ArrowFile(data, limits=_TABLE_LIMITS, known=schema)
    if file.chunk_count != 1:
        raise DamagedEntry("a table is not one batch", expected=1, found=file.chunk_count)
    batch = file.chunk(0)
    if batch.num_rows != rows:
        raise DamagedEntry(
            "a table and the footer disagree about its rows", expected=rows, found=batch.num_rows
        )
    return batch


def need_column(batch: pa.RecordBatch, name: str, kind: pa.DataType | None) -> Column:
    """Give a column of version 1; DamagedEntry if it is missing, of another type, or has nulls."""
    places = batch.schema.get_all_field_indices(name)
    if len(places) != 1:
        raise DamagedEntry(f"a table has {len(places)} columns {name!r}", expected=1)
    column = batch.column(places[0])
    if kind is not None and column.type != kind:
        raise DamagedEntry(
            f"column {name!r} is of another type", expected=str(kind), found=str(column.type)
        )
    if column.null_count:
        raise DamagedEntry(f"column {name!r} has nulls", expected=0, found=column.null_count)
    return column


def find_column(batch: pa.RecordBatch, name: str, kind: pa.DataType) -> Column:
    """Give an optional column; None if there is none, or if another writer means another thing."""
    places = batch.schema.get_all_field_indices(name)
    if len(places) != 1 or batch.column(places[0]).type != kind:
        return None
    return batch.column(places[0])


def take_times(batch: pa.RecordBatch, name: str) -> Column:
    """Give an optional time column as int64 nanoseconds since 1970."""
    column = find_column(batch, name, NANOSECONDS)
    return None if column is None else column.view(pa.int64())
