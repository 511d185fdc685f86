"""Read the bundles of one slot in a segment, few columns of them, each with its index."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from quiver.disk import Disk
from quiver.errors import DamageError
from quiver.scan import SegmentRef
from quiver.scan.snapshot import open_segment
from quiver.segment import SegmentReader

__all__ = ["Span", "read_bundles", "read_span", "read_timed"]


_MUCH: Final = 0.25
"""From such a part of its chunks on, to read a stream as one costs less than chunk by chunk."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bundles ``[first, stop)`` of one segment; None is its end."""

    segment: SegmentRef
    first: int = 0
    stop: int | None = None


def read_span(
    disk: Disk, span: Span, slot_id: int, *, columns: Collection[str] | None = None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Do as ``read_timed``, and give (index, batch)."""
    for index, _, batch in read_timed(disk, span, slot_id, columns=columns):
        yield index, batch


def read_timed(
    disk: Disk, span: Span, slot_id: int, *, columns: Collection[str] | None = None
) -> Iterator[tuple[int, int | None, pa.RecordBatch]]:
    """Give the bundles of a span that fill the slot, in order, as (index, ingestion time, batch).

    With ``columns`` only those that are named and there, in the order of the segment, and no page
    of others is touched; a batch has at least one column, wanted or not, where it has any. Batches
    are views of the file. Raises MissingError if the segment is gone, DamageError.
    """
    with open_segment(disk, span.segment) as reader:
        yield from read_bundles(reader, slot_id, first=span.first, stop=span.stop, columns=columns)


def read_bundles(
    reader: SegmentReader,
    slot_id: int,
    *,
    first: int = 0,
    stop: int | None = None,
    columns: Collection[str] | None = None,
) -> Iterator[tuple[int, int | None, pa.RecordBatch]]:
    """Do as ``read_timed`` with bundles ``[first, stop)`` of a segment that is open."""
    owners, streams, chunks = reader.manifest.chunks_of(slot_id)
    inside = (owners >= first) & (owners < (reader.bundle_count if stop is None else stop))
    wanted = np.unique(streams[inside]).tolist()
    choose = None if columns is None else partial(_places, columns=columns)
    ready = {
        entry.stream_id: batch
        for kin in reader.kin(wanted, choose=choose)
        for entry, batch in zip(kin.streams, kin.batches, strict=True)
    }
    opened = {
        stream: _Stream(reader, stream, columns, wanted=float(inside[streams == stream].mean()))
        for stream in wanted
        if stream not in ready
    }
    places = (owners[inside].tolist(), streams[inside].tolist(), chunks[inside].tolist())
    times = reader.manifest.ingestion_ns()
    for owner, stream, chunk in zip(*places, strict=True):
        time = None if times is None else int(times[owner])
        batch = ready[stream] if stream in ready else opened[stream].chunk(chunk)
        yield owner, time, batch


class _Stream:
    """One stream, read at once if much of it is wanted: that is checked faster than its chunks."""

    def __init__(
        self,
        reader: SegmentReader,
        stream_id: int,
        columns: Collection[str] | None,
        *,
        wanted: float,
    ) -> None:
        self._reader, self._id = reader, stream_id
        self._places = _places(reader.stream_schema(stream_id), columns)
        self._batches: list[pa.RecordBatch] | None = None
        if wanted >= _MUCH:
            try:
                table: Any = reader.table(stream_id, columns=self._places)
            except DamageError:
                if wanted == 1:
                    raise
                return  # Perhaps of a chunk that nobody asks for here.
            batches = table.to_batches()
            count = next(s.chunk_count for s in reader.streams if s.stream_id == stream_id)
            # A table does not show chunks without rows or columns.
            self._batches = batches if len(batches) == count else None

    def chunk(self, index: int) -> pa.RecordBatch:
        """Give one chunk."""
        if self._batches is not None:
            return self._batches[index]
        return self._reader.chunk(self._id, index, columns=self._places)


def _places(schema: pa.Schema, columns: Collection[str] | None) -> tuple[int, ...] | None:
    """Find the wanted columns; None is all of them, and that is what no place at all would be."""
    if columns is None:
        return None
    places = tuple(place for place, name in enumerate(schema.names) if name in columns)
    return None if len(places) == len(schema) else places or (0,)
