"""Which segments a store has now, and what each of them holds of one slot.

No lock is taken: segments are immutable and appear in their folder whole, by a rename. The store
may delete one at any time, so a list of them is a snapshot that can expire.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.disk import Disk
from quiver.errors import DamageError, MissingError
from quiver.promote import union_schema
from quiver.segment import (
    Description,
    SegmentReader,
    StreamEntry,
    glance,
    parse_segment_name,
)

__all__ = [
    "SegmentRef",
    "SlotLookup",
    "SlotPart",
    "check_same",
    "list_segments",
    "open_segment",
    "read_parts",
]

_CORE_FOLDER: Final = re.compile(r"core_(0|[1-9][0-9]*)")
_SEGMENTS: Final = "segments"
_FEW: Final = 16
"""More than get their names while one folder is listed."""
_LIMITS: Final = LimitsConfig().for_reading()


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

    Whatever else lies in the folders is passed over, links among it. Of a core it is the segments
    up to some number, without one that is there: a listing may miss a name that is given meanwhile
    and still have the next one, so where there is a hole a second one says what is below.
    """
    found: list[SegmentRef] = []
    for folder in disk.list_dir(""):
        match = None if folder.is_file else _CORE_FOLDER.fullmatch(folder.name)
        if match is None or (core is not None and int(match[1]) != core):
            continue
        if folder.is_link:
            disk.list_dir(folder.name)  # That refuses it; what is in it would be found.
        place = posixpath.join(folder.name, _SEGMENTS)
        if disk.stat(place) is None:
            continue
        listed = _list_core(disk, int(match[1]), place)
        if _may_lack(listed):
            last = listed[-1]
            again = _list_core(disk, last.core, place)
            listed = [ref for ref in again if ref.segment_seq <= last.segment_seq]
        found += listed
    return tuple(sorted(found))


def _may_lack(listed: Sequence[SegmentRef]) -> bool:
    """Whether there is a hole, or so little that its beginning may have been missed."""
    if not listed:
        return False
    first, last = listed[0].segment_seq, listed[-1].segment_seq
    return last - first >= len(listed) or (first > 0 and len(listed) < _FEW)


def _list_core(disk: Disk, core: int, place: str) -> list[SegmentRef]:
    found = []
    for entry in disk.list_dir(place):
        segment_seq = parse_segment_name(entry.name)
        if entry.is_file and segment_seq is not None:
            path = posixpath.join(place, entry.name)
            found.append(SegmentRef(core, segment_seq, path, entry.size))
    return sorted(found)


@contextmanager
def open_segment(disk: Disk, segment: SegmentRef) -> Iterator[SegmentReader]:
    """Open a segment of a snapshot; raises MissingError with advice if it is gone by now."""
    with _advised(disk, segment):
        reader = SegmentReader.open(disk, segment.path, lazy=True)
    with reader:
        yield reader


@contextmanager
def _advised(disk: Disk, segment: SegmentRef) -> Iterator[None]:
    try:
        yield
    except MissingError as error:
        raise MissingError(
            f"segment {segment.segment_seq} of core {segment.core} is gone since the scan was made",
            path=disk.locate(segment.path),
            hint="the store deleted it, as it may; take a new snapshot with refresh()",
        ) from error


def read_parts(
    disk: Disk, segments: Iterable[SegmentRef], slot_id: int, *, needed: Callable[[str], bool]
) -> Iterator[SlotPart]:
    """Look up what segments hold of a slot, without reading its rows; of ``needed`` columns."""
    lookup = SlotLookup(slot_id, needed)
    return (lookup.part(disk, segment) for segment in segments)


class _Columns(NamedTuple):
    """The columns of a slot in a segment: the names of all, and the schema of those needed."""

    names: tuple[str, ...] = ()
    schema: pa.Schema | None = None


class SlotLookup:
    """Looks one slot up in segment after segment; what they have in common is read once."""

    def __init__(self, slot_id: int, needed: Callable[[str], bool]) -> None:
        """Look up the slot of this id, and its ``needed`` columns."""
        self._slot_id = slot_id
        self._needed = needed
        self._known: dict[bytes, _Columns] = {}

    def part(self, disk: Disk, segment: SegmentRef) -> SlotPart:
        """Read a segment's directory, and more of it only where that does not say enough.

        Raises MissingError if the segment is gone.
        """
        with _advised(disk, segment):
            seen = glance(disk, segment.path)
        if seen is not None:
            streams = self._own(seen.streams)
            columns = self._written(seen.about, streams)
            if columns is not None:
                ends = seen.footer.bundle_count, seen.checksum
                return _part(segment, streams, columns, ends=ends)
        with open_segment(disk, segment) as reader:
            streams = self._own(reader.streams)
            ends = reader.bundle_count, reader.trailer.crc32
            return _part(segment, streams, self._found(reader, streams), ends=ends)

    def _own(self, streams: Iterable[StreamEntry]) -> tuple[StreamEntry, ...]:
        return tuple(stream for stream in streams if stream.slot_id == self._slot_id)

    def _written(self, about: Description, streams: Sequence[StreamEntry]) -> _Columns | None:
        """Give what the directory says; None if it has no schema of the slot that can be read."""
        text = (about.schemas or {}).get(self._slot_id)
        if text is None:
            return None if streams else _Columns()
        if text not in self._known:
            with suppress(DamageError):
                schema = about.schema(self._slot_id, _LIMITS)
                self._known[text] = self._columns([] if schema is None else [schema])
        return self._known.get(text)

    def _found(self, reader: SegmentReader, streams: Sequence[StreamEntry]) -> _Columns:
        """Give the slot's one schema, or those of its streams: some columns may have a union."""
        schema = reader.representative_schema(self._slot_id)
        if schema is not None:
            return self._columns([schema])
        return self._columns([reader.stream_schema(stream.stream_id) for stream in streams])

    def _columns(self, schemas: Sequence[pa.Schema]) -> _Columns:
        names = tuple(dict.fromkeys(name for schema in schemas for name in schema.names))
        chosen = [_select(schema, self._needed) for schema in schemas]
        return _Columns(names, union_schema(chosen) if chosen else None)


def _part(
    segment: SegmentRef,
    streams: tuple[StreamEntry, ...],
    columns: _Columns,
    *,
    ends: tuple[int, int],
) -> SlotPart:
    bundle_count, checksum = ends
    return SlotPart(
        segment,
        sum(stream.row_count for stream in streams),
        sum(stream.byte_length for stream in streams),
        bundle_count,
        columns.names,
        columns.schema,
        streams,
        checksum,
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


def _select(schema: pa.Schema, needed: Callable[[str], bool]) -> pa.Schema:
    metadata: Any = schema.metadata
    return pa.schema([field for field in schema if needed(field.name)], metadata)
