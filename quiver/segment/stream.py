"""Streams in the making: payloads that share slot, fingerprint and schema become one Arrow file.

An Arrow file holds one dictionary for each column, while the chunks of a stream come with one each.
So dictionaries are united first: indices change, values do not. Where that would change the data
or cannot be done (the index type overflows, the dictionary is ordered, pyarrow knows no way) the
chunks are halved into several files until each can be written, and all of them are streams of the
same slot and fingerprint. One chunk alone always fits into a file, so any data can be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from quiver.errors import InputError
from quiver.ipc import child_types, encode_file
from quiver.segment.tables import Column

__all__ = ["Chunk", "Group", "count_nulls", "encode_chunks", "event_range", "join_ranges"]

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


def encode_chunks(
    schema: pa.Schema, chunks: Sequence[Chunk]
) -> list[tuple[Sequence[Chunk], pa.Buffer]]:
    """Write chunks of one schema as few Arrow files; each comes with the chunks that are in it."""
    try:
        return [(chunks, encode_file(schema, _unite(schema, [c.batch for c in chunks])))]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if len(chunks) == 1:
            raise InputError(f"pyarrow cannot write this data as a file: {error}") from error
    half = len(chunks) // 2
    return [*encode_chunks(schema, chunks[:half]), *encode_chunks(schema, chunks[half:])]


def _unite(schema: pa.Schema, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    places = [place for place, column in enumerate(schema) if _may_unite(column.type)]
    if len(batches) < 2 or not places:  # noqa: PLR2004
        return batches
    columns = [list(batch.columns) for batch in batches]
    for place in places:
        arrays = _unite_column([batch.column(place) for batch in batches])
        for row, array in zip(columns, arrays, strict=True):
            row[place] = array
    return [pa.RecordBatch.from_arrays(arrays, schema=schema) for arrays in columns]


def _unite_column(arrays: list[Column]) -> list[Column]:
    try:
        return pa.chunked_array(arrays).unify_dictionaries().chunks
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return arrays  # They may be equal as they are: the file writer decides.


def _may_unite(kind: pa.DataType) -> bool:
    """Whether a type has dictionaries in it, and none whose order says something."""
    todo: list[Any] = [kind]
    found = False
    while todo:
        inner = todo.pop()
        if isinstance(inner, pa.DictionaryType):
            if inner.ordered:
                return False
            found = True
        todo += child_types(inner)
    return found


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


def count_nulls(schema: pa.Schema, chunks: Sequence[Chunk]) -> tuple[int | None, ...]:
    """Count the nulls of each column; None where only the values themselves could tell.

    That is so for unions, run-end encoded columns, and dictionaries that hold a null or such types.
    """
    return tuple(
        _sum([_count_nulls(chunk.batch.column(place)) for chunk in chunks])
        for place in range(len(schema))
    )


def _sum(counts: list[int | None]) -> int | None:
    return None if None in counts else sum(filter(None, counts))


def _count_nulls(array: Column) -> int | None:
    """Count from validity bitmaps alone.

    Not by ``pyarrow.compute.count``: it ends the process on a dictionary whose values are of the
    null type, and misses nulls in the storage of extension types.
    """
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_union(array.type) or pa.types.is_run_end_encoded(array.type):
        return None
    if pa.types.is_dictionary(array.type) and _count_nulls(array.dictionary) != 0:
        return None
    return int(array.null_count)
