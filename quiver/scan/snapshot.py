"""Which segments a store has now, and what each of them holds of one slot.

No lock is taken: segments are immutable and appear in their folder whole, by a rename. The store
may delete one at any time, so a list of them is a snapshot that can expire.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from quiver.disk import Disk
from quiver.errors import MissingError
from quiver.promote import union_schema
from quiver.segment import SegmentReader, StreamEntry, parse_segment_name

__all__ = [
    "SegmentRef",
    "SlotPart",
    "check_same",
    "list_segments",
    "open_segment",
    "read_part",
]

_CORE_FOLDER: Final = re.compile(r"core_(0|[1-9][0-9]*)")
_SEGMENTS: Final = "segments"


@dataclass(frozen=True, slots=True, order=True)
class SegmentRef:
    """One segment file of a store; the order of refs is the order in which a scan reads.

    ``path`` is relative to the store's folder.
    """

    core: int
    segment_seq: int
    path: str
    file_bytes: int


@dataclass(frozen=True, slots=True)
class SlotPart:
    """What one segment holds of one slot; ``schema`` is None if that is nothing.

    ``byte_count`` is that of the slot's streams in the file. ``schema`` has only the columns that
    were asked for, ``column_names`` are all that there are. ``checksum`` is that of the whole file:
    a file of this name with another one is another segment.
    """

    segment: SegmentRef
    row_count: int
    byte_count: int
    bundle_count: int
    column_names: tuple[str, ...]
    schema: pa.Schema | None
    streams: tuple[StreamEntry, ...] = ()
    checksum: int = 0


def list_segments(disk: Disk, *, core: int | None = None) -> tuple[SegmentRef, ...]:
    """List the finalized segments of all cores, or of one, by core and then by sequence.

    Whatever else lies in the folders is passed over, links among it.
    """
    found: list[SegmentRef] = []
    for folder in disk.list_dir(""):
        match = None if folder.is_file else _CORE_FOLDER.fullmatch(folder.name)
        if match is None or all(entry.name != _SEGMENTS for entry in disk.list_dir(folder.name)):
            continue
        if core is not None and int(match[1]) != core:
            continue
        place = posixpath.join(folder.name, _SEGMENTS)
        for entry in disk.list_dir(place):
            segment_seq = parse_segment_name(entry.name)
            if entry.is_file and segment_seq is not None:
                path = posixpath.join(place, entry.name)
                found.append(SegmentRef(int(match[1]), segment_seq, path, entry.size))
    return tuple(sorted(found))


@contextmanager
def open_segment(disk: Disk, segment: SegmentRef) -> Iterator[SegmentReader]:
    """Open a segment of a snapshot; raises MissingError with advice if it is gone by now."""
    try:
        reader = SegmentReader.open(disk, segment.path, lazy=True)
    except MissingError as error:
        raise MissingError(
            f"segment {segment.segment_seq} of core {segment.core} is gone since the scan was made",
            path=disk.locate(segment.path),
            hint="the store deleted it, as it may; take a new snapshot with refresh()",
        ) from error
    with reader:
        yield reader


def read_part(
    disk: Disk, segment: SegmentRef, slot_id: int, *, needed: Callable[[str], bool]
) -> SlotPart:
    """Look up what a segment holds of a slot, without reading its rows; of ``needed`` columns."""
    with open_segment(disk, segment) as reader:
        streams = tuple(stream for stream in reader.streams if stream.slot_id == slot_id)
        schemas = _schemas(reader, slot_id)
        chosen = [_select(schema, needed) for schema in schemas]
        return SlotPart(
            segment,
            sum(stream.row_count for stream in streams),
            sum(stream.byte_length for stream in streams),
            reader.bundle_count,
            tuple(dict.fromkeys(name for schema in schemas for name in schema.names)),
            union_schema(chosen) if chosen else None,
            streams,
            reader.trailer.crc32,
        )


def check_same(part: SlotPart, checksum: int, disk: Disk) -> None:
    """Raise MissingError unless a segment's file is the one that was there at first."""
    if checksum != part.checksum:
        raise MissingError(
            f"segment {part.segment.segment_seq} of core {part.segment.core} is another one than "
            "when the scan was made",
            path=disk.locate(part.segment.path),
            hint="a repair wrote it anew; take a new snapshot with refresh()",
        )


def _schemas(reader: SegmentReader, slot_id: int) -> list[pa.Schema]:
    """Give the slot's one schema, or those of its streams: some columns may still have a union."""
    schema = reader.representative_schema(slot_id)
    if schema is not None:
        return [schema]
    return [
        reader.stream_schema(stream.stream_id)
        for stream in reader.streams
        if stream.slot_id == slot_id
    ]


def _select(schema: pa.Schema, needed: Callable[[str], bool]) -> pa.Schema:
    metadata: Any = schema.metadata
    return pa.schema([field for field in schema if needed(field.name)], metadata)
