"""Read what a plan says of one segment: few columns, few chunks, in order of its bundles.

A stream is checked the first time that a scan reads it, and then never again by that scan: what was
found sound is kept by the checksum of its file. So a second reading costs what Arrow's own does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.disk import Disk, read_along, read_apart
from quiver.errors import MissingError
from quiver.scan.plan import Piece
from quiver.scan.query import Verify
from quiver.scan.snapshot import SlotPart, check_same, open_segment
from quiver.segment import SegmentReader, StreamEntry
from quiver.segment.alike import FEW, Kin, may_be_alike, read_kin
from quiver.segment.format import TRAILER_BYTES, decode_trailer
from quiver.segment.stream_file import StreamFile
from quiver.segment.tables import located

__all__ = ["Chunks", "Placed", "Sound", "read_piece", "read_placed"]

Key: TypeAlias = tuple[str, int, int, tuple[int | str, ...] | None]
Sound: TypeAlias = set[Key]
"""What was found sound: path and checksum of the file, stream, columns. Threads may add to it.

Columns are places, or names where streams were read many at a time.
"""

Chunks: TypeAlias = pa.Table | Sequence[pa.RecordBatch]
"""Some chunks under one schema, in one piece or one by one."""


class Placed(NamedTuple):
    """A chunk, the index of its bundle in the segment, and when that was appended if it is known.

    The time is in nanoseconds since 1970.
    """

    bundle_index: int
    ingestion_ns: int | None
    batch: pa.RecordBatch


_LIMITS = LimitsConfig().for_reading()
_FEW = 4
"""From one chunk in so many on, to read the stream as one costs less than chunk by chunk."""


def read_piece(
    disk: Disk,
    piece: Piece,
    *,
    columns: Collection[str] | None,
    sound: Sound,
    verify: Verify = "lazy",
    apart: bool = False,
) -> Iterator[Chunks]:
    """Read the chunks of a piece, as views of the file: whole streams as tables, others one by one.

    With ``columns`` only those that are named, and no page of the others is touched. With ``apart``
    each chunk comes as a batch of its own, one without rows too, which a table does not show.
    Raises MissingError if the segment is gone.
    """
    part = piece.part
    source = _Source(disk, part, sound=sound, verify=verify)
    try:
        streams = [s for s in part.streams if piece.chunks is None or s.stream_id in piece.chunks]
        if len(streams) == 1:
            mask = None if piece.chunks is None else piece.chunks[streams[0].stream_id]
            if mask is None or mask.all():
                found = source.whole(streams[0], columns, apart=apart)
                if found is not None:
                    yield found
                    return
            elif int(mask.sum()) * _FEW >= len(mask):
                batches = source.batches(streams[0], columns)
                if batches is not None:
                    yield [batches[chunk] for chunk in np.flatnonzero(mask).tolist()]
                    return
        yield from _in_runs(source, piece, streams, columns=columns, apart=apart)
    finally:
        source.close()


def read_placed(
    disk: Disk, piece: Piece, *, columns: Collection[str] | None, verify: Verify = "lazy"
) -> Iterator[Placed]:
    """Read the chunks of a piece one by one, and say of each which bundle it is from."""
    part = piece.part
    source = _Source(disk, part, sound=set(), verify=verify)
    try:
        streams = [s for s in part.streams if piece.chunks is None or s.stream_id in piece.chunks]
        times = source.reader().manifest.ingestion_ns()
        for bundle_index, batch in _in_order(source, piece, streams, columns=columns):
            yield Placed(bundle_index, None if times is None else int(times[bundle_index]), batch)
    finally:
        source.close()


def _in_runs(
    source: _Source,
    piece: Piece,
    streams: Sequence[StreamEntry],
    *,
    columns: Collection[str] | None,
    apart: bool,
) -> Iterator[Chunks]:
    """Read several streams, or few chunks of one, in order of their bundles."""
    wanted = _Wanted(source, piece, streams, columns=columns, apart=apart)
    found = source.reader().manifest.chunks_of(streams[0].slot_id)
    _, stream_ids, chunks = found
    # A stream that is full is followed by the next, so what is of one lies together mostly.
    kin = np.array([wanted.kin.get(stream_id, -1) for stream_id in stream_ids.tolist()])
    apart_ids = np.where(kin < 0, stream_ids, -1)
    follows = (np.diff(chunks) == 1) | (kin[1:] >= 0)
    breaks = np.flatnonzero((np.diff(kin) != 0) | (np.diff(apart_ids) != 0) | ~follows) + 1
    for part in np.split(np.arange(len(chunks)), breaks) if len(chunks) else ():
        stream_id, first = int(stream_ids[part[0]]), int(chunks[part[0]])
        if stream_id in wanted.kin:
            found_here = [wanted.whole[each][0] for each in stream_ids[part].tolist()]
            all_shown = not apart and all(batch.num_rows for batch in found_here)
            yield pa.Table.from_batches(found_here) if all_shown else found_here
            continue
        batches = wanted.whole.get(stream_id)
        if batches is None:
            yield from ((batch,) for _, batch in wanted.each([column[part] for column in found]))
        elif len(part) == len(batches) and stream_id in wanted.tables:
            yield wanted.tables[stream_id]
        else:
            yield batches[first : first + len(part)]


def _in_order(
    source: _Source,
    piece: Piece,
    streams: Sequence[StreamEntry],
    *,
    columns: Collection[str] | None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    wanted = _Wanted(source, piece, streams, columns=columns)
    return wanted.each(source.reader().manifest.chunks_of(streams[0].slot_id))


class _Wanted:
    """The streams of a piece: those of which all is wanted are read at once."""

    def __init__(
        self,
        source: _Source,
        piece: Piece,
        streams: Sequence[StreamEntry],
        *,
        columns: Collection[str] | None,
        apart: bool = True,
    ) -> None:
        self._reader = source.reader()
        self._piece = piece
        self._places: dict[int, tuple[int, ...] | None] = {}
        self.tables: dict[int, pa.Table] = {}
        self.whole: dict[int, list[pa.RecordBatch]] = {}
        self.kin: dict[int, int] = {}
        """Streams that were read many at a time, and with which others."""
        all_of = [s for s in streams if piece.chunks is None or piece.chunks[s.stream_id].all()]
        for number, kin in enumerate(source.kin(all_of, columns)):
            for stream, batch in zip(kin.streams, kin.batches, strict=True):
                self.whole[stream.stream_id] = [batch]
                self.kin[stream.stream_id] = number
        all_ids = {stream.stream_id for stream in all_of}
        for stream in streams:
            stream_id, places = stream.stream_id, None
            if stream_id in self.kin:
                continue
            if columns is not None:
                places = _choose(self._reader.stream_schema(stream_id), columns)
            self._places[stream_id] = places
            if stream_id in all_ids:
                whole = source.whole(stream, columns, apart=apart)
                if isinstance(whole, pa.Table):
                    self.tables[stream_id], whole = whole, _shown(stream, whole)
                if whole is not None:
                    self.whole[stream_id] = whole

    def each(self, found: Sequence[Any]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Give what is wanted of these chunks (bundle index, stream, chunk), with the index."""
        chunks = self._piece.chunks
        for owner, stream_id, chunk in zip(*(column.tolist() for column in found), strict=True):
            if stream_id in self.whole:
                yield owner, self.whole[stream_id][chunk]
            elif stream_id in self._places and (chunks is None or chunks[stream_id][chunk]):
                places = self._places[stream_id]
                yield owner, self._reader.chunk(stream_id, chunk, columns=places)


def _shown(stream: StreamEntry, table: pa.Table) -> list[pa.RecordBatch] | None:
    """Give the chunks of a whole stream; None if one has no rows or columns: it is not shown."""
    batches = table.to_batches()
    return batches if batches and len(batches) == stream.chunk_count else None


def _choose(schema: pa.Schema, columns: Collection[str]) -> tuple[int, ...] | None:
    """Find the places of named columns; None if that is all of them.

    To Arrow no column means every column, so the first one stands in where none is there.
    """
    places = tuple(place for place, name in enumerate(schema.names) if name in columns)
    if len(places) == len(schema):
        return None
    return places or (0,)


class _Source:
    """One segment while it is read: by its tables, or without them where a stream needs none."""

    def __init__(self, disk: Disk, part: SlotPart, *, sound: Sound, verify: Verify) -> None:
        self._disk, self._part, self._sound, self._verify = disk, part, sound, verify
        self._opened: Any = None
        self._reader: SegmentReader | None = None
        self._data: memoryview | None = None
        self._place = disk.locate(part.segment.path)
        self._expected = (0, 0)

    def reader(self) -> SegmentReader:
        """Open the segment with its tables."""
        if self._reader is None:
            self._opened = open_segment(self._disk, self._part.segment)
            self._reader = self._opened.__enter__()
            check_same(self._part, self._reader.trailer.crc32, self._disk)
            if self._verify == "full" and not self._is_sound(-1, None):
                self._reader.verify()
                self._remember(-1, None)
        return self._reader

    def whole(
        self, stream: StreamEntry, columns: Collection[str] | None, *, apart: bool
    ) -> pa.Table | list[pa.RecordBatch] | None:
        """Read a whole stream; None if its chunks are to be read one by one."""
        if apart:
            return self.batches(stream, columns)
        table = self._read(stream, columns, as_table=True)
        return table if table is not None and table.num_columns else None

    def batches(
        self, stream: StreamEntry, columns: Collection[str] | None
    ) -> list[pa.RecordBatch] | None:
        """Read all chunks of a stream; None if they are to be read one by one."""
        found = self._read(stream, columns, as_table=False)
        if found is None:
            found = _shown(stream, self._read(stream, columns, as_table=True))
        return found if found and found[0].num_columns else None

    def _read(self, stream: StreamEntry, columns: Collection[str] | None, *, as_table: bool) -> Any:  # noqa: ANN401
        places = None
        if columns is not None:
            places = _choose(self._schema(stream), columns)
        sound = self._is_sound(stream.stream_id, places)
        # What was planned by was checked: all of a stream needs no more than its own checksum.
        if sound or (places is None and stream.crc32c is not None and self._verify == "lazy"):
            with located(self._place, base=stream.byte_offset):
                file = self._open(stream, places, validate=not sound)
                found = file.table() if as_table else file.batches()
        elif as_table:
            found = self.reader().table(stream.stream_id, columns=places)
        else:
            found = self.reader().batches(stream.stream_id, columns=places)
        if not sound and found is not None:
            self._remember(stream.stream_id, places)
        return found

    def kin(self, streams: Sequence[StreamEntry], columns: Collection[str] | None) -> Iterator[Kin]:
        """Read streams many at a time, as far as they are alike; the others are not given."""
        names = None if columns is None else tuple(sorted(columns))
        choose = None if columns is None else partial(_choose, columns=columns)
        index = None if columns is None else self.reader().index
        likely = [stream for stream in streams if may_be_alike(stream, index)]
        if len(likely) < FEW:
            return
        data = self._bytes(apart=False)
        for sound in (True, False):
            some = [s for s in likely if self._is_sound(s.stream_id, names) is sound]
            for stream in () if sound else some:
                self._expect(data, stream)
            options: dict[str, Any] = {"limits": _LIMITS, "choose": choose, "validate": not sound}
            for kin in read_kin(pa.py_buffer(data), some, **options):
                for stream in () if sound else kin.streams:
                    self._remember(stream.stream_id, names)
                yield kin

    def _schema(self, stream: StreamEntry) -> pa.Schema:
        if self._is_sound(stream.stream_id, None):
            return self._open(stream, None).schema
        return self.reader().stream_schema(stream.stream_id)

    def _is_sound(self, stream_id: int, places: tuple[int | str, ...] | None) -> bool:
        if self._verify == "off":
            return True
        return self._key(stream_id, places) in self._sound

    def _remember(self, stream_id: int, places: tuple[int | str, ...] | None) -> None:
        self._sound.add(self._key(stream_id, places))

    def _key(self, stream_id: int, places: tuple[int | str, ...] | None) -> Key:
        return self._place, self._part.checksum, stream_id, places

    def _open(
        self, stream: StreamEntry, places: tuple[int, ...] | None, *, validate: bool = False
    ) -> StreamFile:
        data = self._bytes(apart=places is not None)
        if validate or (self._reader is not None and places is None):
            self._expect(data, stream)
        buffer = pa.py_buffer(data)
        return StreamFile(buffer, stream, limits=_LIMITS, columns=places, validate=validate)

    def _bytes(self, *, apart: bool) -> memoryview:
        """Give the mapped file, which is that of the snapshot."""
        if self._data is None:
            self._data = None if self._reader is None else self._reader.mapped
        if self._data is None:
            data = self._map()
            if apart:
                read_apart(data)
            end = max(0, len(data) - TRAILER_BYTES)
            with located(self._place):
                trailer = decode_trailer(data[end:], file_bytes=len(data))
            check_same(self._part, trailer.crc32, self._disk)
            self._data = data
        return self._data

    def _expect(self, data: memoryview, stream: StreamEntry) -> None:
        """Say once of streams that lie side by side that they will be read, mostly all of them."""
        start, end = stream.byte_offset, stream.byte_offset + stream.byte_length
        if not self._expected[0] <= start <= end <= self._expected[1]:
            pieces = [(s.byte_offset, s.byte_offset + s.byte_length) for s in self._part.streams]
            first, last = min(pieces)[0], max(end for _, end in pieces)
            if 2 * sum(end - start for start, end in pieces) >= last - first:
                start, end = first, last
            read_along(data, start, end)
            self._expected = start, end

    def _map(self) -> memoryview:
        try:
            return self._disk.map(self._part.segment.path)
        except MissingError:
            with open_segment(self._disk, self._part.segment):  # Says it with advice.
                raise

    def close(self) -> None:
        """Let go of the file; tables that were read keep its map."""
        if self._opened is not None:
            self._opened.__exit__(None, None, None)
        self._opened = self._reader = self._data = None
