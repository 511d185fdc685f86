"""Which chunks a scan must read, and how much it may leave alone: from bounds and times only."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.disk import Disk
from quiver.scan.open_bundle import OpenBundle
from quiver.scan.predicate import ColumnFacts, Facts, possible
from quiver.scan.snapshot import SlotPart, check_same, open_segment
from quiver.segment import SegmentReader, StreamEntry
from quiver.segment.bounds import ColumnBounds, value_array, value_type

__all__ = ["Extent", "Filter", "Piece", "extent_of", "open_extent", "plan_part"]

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a store: segments, streams, chunks and rows of one slot."""

    segments: int = 0
    streams: int = 0
    chunks: int = 0
    rows: int = 0

    def __add__(self, other: Extent) -> Extent:
        """Count both together."""
        return Extent(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __sub__(self, other: Extent) -> Extent:
        """Take the other away."""
        return Extent(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True, slots=True)
class Filter:
    """What rows must satisfy: an expression over ``names``, and when their bundle was appended.

    ``ingestion`` is half-open, in nanoseconds since 1970; None is open on that side.
    """

    where: Any = None
    names: tuple[str, ...] = ()
    ingestion: tuple[int | None, int | None] = (None, None)

    def __bool__(self) -> bool:
        """Whether it leaves anything out."""
        return self.where is not None or self.ingestion != (None, None)

    def is_timely(self, ingestion_ns: int) -> bool:
        """Whether a bundle was appended in time."""
        low, high = self.ingestion
        return (low is None or low <= ingestion_ns) and (high is None or ingestion_ns < high)


@dataclass(frozen=True, slots=True)
class Piece:
    """What is to be read of one segment: by stream id, which chunks. A missing stream is not read.

    None instead of a mapping is all that there is.
    """

    part: SlotPart
    chunks: Mapping[int, Mask] | None = None
    extent: Extent = field(default_factory=Extent)


def extent_of(part: SlotPart) -> Extent:
    """Count what a segment holds of the slot."""
    return Extent(
        1 if part.streams else 0,
        len(part.streams),
        sum(stream.chunk_count for stream in part.streams),
        part.row_count,
    )


def open_extent(bundles: Iterable[OpenBundle], slot_id: int) -> Extent:
    """Count what bundles of the log have of a slot."""
    slots = [slot for bundle in bundles if (slot := bundle.slot(slot_id)) is not None]
    return Extent(chunks=len(slots), rows=sum(slot.row_count for slot in slots))


def plan_part(disk: Disk, part: SlotPart, wanted: Filter, *, schema: pa.Schema) -> Piece | None:
    """Find out what of a segment is to be read; None if nothing is.

    ``schema`` is that of the rows when the filter sees them. Raises MissingError if the segment is
    gone.
    """
    if not part.streams:
        return None
    if not wanted:
        return Piece(part, None, extent_of(part))
    with open_segment(disk, part.segment) as reader:
        check_same(part, reader.trailer.crc32, disk)
        masks = _by_time(reader, part, wanted.ingestion)
        if wanted.where is not None:
            masks = _by_values(reader, masks, wanted, schema=schema)
        masks = {stream_id: mask for stream_id, mask in masks.items() if mask.any()}
        if not masks:
            return None
        streams = [s for s in part.streams if s.stream_id in masks]
        rows = sum(_rows(reader, stream, masks[stream.stream_id]) for stream in streams)
        chunks = sum(int(mask.sum()) for mask in masks.values())
        return Piece(part, masks, Extent(1, len(masks), chunks, rows))


def _rows(reader: SegmentReader, stream: StreamEntry, mask: Mask) -> int:
    if mask.all():
        return stream.row_count
    if reader.index is not None:
        return int(reader.index.chunk_rows(stream)[mask].sum())
    return sum(
        reader.chunk(stream.stream_id, int(chunk)).num_rows for chunk in np.flatnonzero(mask)
    )


def _by_time(
    reader: SegmentReader, part: SlotPart, ingestion: tuple[int | None, int | None]
) -> dict[int, Mask]:
    """Mark the chunks of bundles that were appended in time; all, if no time is known."""
    masks = {s.stream_id: np.ones(s.chunk_count, bool) for s in part.streams}
    times = None if ingestion == (None, None) else reader.manifest.ingestion_ns()
    if times is None:
        return masks
    low, high = ingestion
    inside = np.ones(len(times), bool)
    if low is not None:
        inside &= times >= low
    if high is not None:
        inside &= times < high
    owners, streams, chunks = reader.manifest.chunks_of(part.streams[0].slot_id)
    for stream_id, mask in masks.items():
        mine = streams == stream_id
        mask[:] = False
        mask[chunks[mine]] = inside[owners[mine]]
    return masks


def _by_values(
    reader: SegmentReader, masks: dict[int, Mask], wanted: Filter, *, schema: pa.Schema
) -> dict[int, Mask]:
    """Leave out the streams, and then the chunks, of which no row can pass the filter."""
    if reader.index is None:
        return masks
    bounded = reader.index.bounded()
    streams = [s for s in reader.streams if s.stream_id in masks and _tells(s, bounded)]
    try:
        known = [_Known(reader, stream, wanted.names) for stream in streams]
        return masks | _left_over(streams, known, masks, wanted=wanted, schema=schema)
    except (ValueError, IndexError, pa.ArrowException):
        return masks  # Bounds that are no values of their types: all is read, ``verify`` tells.


def _tells(stream: StreamEntry, bounded: Container[int]) -> bool:
    """Whether anything is known of a stream by which it may be left out; of kept ones it is not."""
    return (
        stream.stream_id in bounded
        or any(stream.omitted_columns or b"")
        or any(count is not None for count in stream.null_counts or ())
    )


def _left_over(
    streams: Sequence[StreamEntry],
    known: Sequence[_Known],
    masks: Mapping[int, Mask],
    *,
    wanted: Filter,
    schema: pa.Schema,
) -> dict[int, Mask]:
    kept = possible(wanted.where, schema, [one.whole() for one in known])
    found = {}
    for stream, one, keep in zip(streams, known, kept, strict=True):
        mask = masks[stream.stream_id].copy()
        if keep and stream.chunk_count > 1:
            places = np.flatnonzero(mask)
            passed = possible(wanted.where, schema, one.chunks(places))
            mask[places] = passed
        elif not keep:
            mask[:] = False
        found[stream.stream_id] = mask
    return found


class _Known:
    """What the index knows of the columns that a filter names, in one stream."""

    def __init__(self, reader: SegmentReader, stream: StreamEntry, names: Sequence[str]) -> None:
        schema = reader.stream_schema(stream.stream_id)
        index: Any = reader.index
        bounds = index.columns(stream.stream_id, len(schema))
        self._all: dict[str, ColumnFacts] = {}
        self._columns: list[tuple[str, Any, ColumnBounds, bool]] = []
        for name in names:
            places = schema.get_all_field_indices(name)
            if not places:
                self._all[name] = ColumnFacts(all_null=True)
            if len(places) != 1:
                continue
            place = places[0]
            nulls = stream.null_counts[place] if stream.null_counts else None
            if nulls == stream.row_count and nulls:
                self._all[name] = ColumnFacts(all_null=True)
                continue
            kind = value_type(schema.field(place).type)
            self._columns.append((name, kind, bounds[place], nulls != 0))

    def whole(self) -> dict[str, ColumnFacts]:
        """Say what is known of all rows of the stream."""
        found = dict(self._all)
        for name, kind, bounds, may_be_null in self._columns:
            if kind is not None and bounds.stream is not None:
                low, high = (value_array(kind, data)[0] for data in bounds.stream)
                found[name] = ColumnFacts(low, high, may_be_null)
            else:
                found[name] = ColumnFacts(may_be_null=may_be_null)
        return found

    def chunks(self, places: npt.NDArray[Any]) -> Sequence[Facts]:
        """Say what is known of the rows of each of these chunks."""
        found = [self.whole() for _ in places]
        for name, kind, bounds, may_be_null in self._columns:
            if kind is None or bounds.chunks is None:
                continue
            lows, highs = (value_array(kind, data) for data in bounds.chunks)
            for facts, place in zip(found, places.tolist(), strict=True):
                low, high = lows[place], highs[place]
                nan = low.as_py() != low.as_py() if pa.types.is_floating(kind) else False
                facts[name] = ColumnFacts(None if nan else low, None if nan else high, may_be_null)
        return found
