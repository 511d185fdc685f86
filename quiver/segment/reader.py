"""Read a segment in place: nothing of a stream is copied, and none is touched before it is asked.

=================  =============================================================================
when               what is checked
=================  =============================================================================
open               magic, lengths, the footer's CRC32C, both tables' CRC32C, each row of both
first touch        the stream's CRC32C, its schema and number of chunks
a few columns      instead: the CRC32C of each page that they lie on
each chunk, once   Arrow's full validation, unless this process wrote it; of a whole stream at once
verify             all of that for all streams, and the CRC-32 of the whole file
=================  =============================================================================

Another writer's file has no checksum but the last; there it is checked at open.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, get_args

import pyarrow as pa

from quiver.config import Compression, LimitsConfig
from quiver.disk import Disk, read_along, read_apart
from quiver.errors import ClosedError, DamagedEntry, DamageError, InputError, VersionError
from quiver.promote import union_schema
from quiver.segment.alike import FEW, Choose, Kin, may_be_alike, read_kin
from quiver.segment.bounds import agrees, column_bounds
from quiver.segment.catalog import Place, SegmentInfo, check_file, describe
from quiver.segment.directory import Description
from quiver.segment.format import TRAILER_BYTES, Footer, decode_footer, decode_trailer
from quiver.segment.glance import read_directory
from quiver.segment.index import Index
from quiver.segment.manifest import Manifest, Manifests
from quiver.segment.pages import page_checksums
from quiver.segment.stream_file import StreamFile, check_crc32c
from quiver.segment.tables import BundleEntry, StreamEntry, located
from quiver.slots import SlotTable

__all__ = ["SegmentReader"]

_DEFAULT_LIMITS: Final = LimitsConfig().for_reading()
_MANIFESTS: Final = Manifests()


class SegmentReader:
    """One mapped segment. Safe for several threads at once.

    Batches that it gives are views of the map and keep it alive: they outlive the reader, and also
    the file's name. ``slots`` and ``store_id`` are None in another writer's file. ``lost`` has the
    bundles, by index, that lack slots because damage took them: no longer what was appended.
    """

    def __init__(
        self,
        disk: Place,
        path: str,
        data: memoryview,
        *,
        limits: LimitsConfig = _DEFAULT_LIMITS,
        is_own: bool = False,
    ) -> None:
        """Read the end and the directory of a segment that ``disk`` mapped as ``data``."""
        self._place = disk.locate(path)
        self._limits = limits
        self._values = not is_own
        self._map: memoryview | None = data
        read_apart(data)  # Tables, headers and single columns; what is read whole says so.
        self._buffer: pa.Buffer | None = pa.py_buffer(data)
        self._files: dict[tuple[int, tuple[int, ...] | None], StreamFile] = {}
        self._schemas: dict[int, pa.Schema] = {}
        self._index: Index | None = None
        self._index_tried = False
        self._lock = threading.Lock()
        with located(self._place):
            end = max(0, len(data) - TRAILER_BYTES)
            self.trailer = decode_trailer(data[end:], file_bytes=len(data))
            start = end - self.trailer.footer_length
            try:
                with located("", base=start):
                    self.footer: Footer = decode_footer(data[start:end], offset=start)
            except VersionError:
                check_file(data, self.trailer)  # As in ``read_info``.
                raise
            self._manifest: Manifest | None = None
            self._read_tables(data, start)
            self.info: SegmentInfo = describe(disk, path, self.footer, file_bytes=len(data))

    def _read_tables(self, data: memoryview, end: int) -> None:
        footer, buffer = self.footer, pa.py_buffer(data)
        extra = footer.extension
        if extra is None:
            read_along(data, 0, len(data))
            check_file(data, self.trailer)
        directory = buffer.slice(footer.directory_offset, footer.directory_length)
        with located("", base=footer.directory_offset):
            streams, self._about = read_directory(directory.to_pybytes(), footer, end=end)
        if extra is not None and any(stream.crc32c is None for stream in streams):
            check_file(data, self.trailer)
        self.streams: tuple[StreamEntry, ...] = streams
        self._by_id = {stream.stream_id: stream for stream in streams}
        self.slots: SlotTable | None = self._about.slots
        self.store_id: str | None = self._about.store_id
        self.lost: Mapping[int, tuple[int, ...]] = self._about.lost

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        limits: LimitsConfig = _DEFAULT_LIMITS,
        lazy: bool = False,
        is_own: bool = False,
    ) -> Self:
        """Map a segment and check its end and its tables; the manifest later, if it is ``lazy``.

        Of one that this process wrote, ``is_own``, checksums alone are checked, and no values.

        Raises DamageError with the located path (TornEntry if the file ends early), VersionError
        for a newer format, or MissingError.
        """
        reader = cls(disk, path, disk.map(path), limits=limits, is_own=is_own)
        if not lazy:
            _ = reader.manifest
        return reader

    @property
    def manifest(self) -> Manifest:
        """The bundles of the segment; DamagedEntry if their table is wrong."""
        if self._manifest is None:
            footer = self.footer
            data = self._open_buffer().slice(footer.manifest_offset, footer.manifest_length)
            with located(self._place, base=footer.manifest_offset):
                if footer.extension is not None:
                    expected = footer.extension.manifest_crc32c
                    check_crc32c("the manifest's", data, expected)
                self._manifest = _MANIFESTS.read(data, footer.bundle_count, self.streams)
        return self._manifest

    @property
    def mapped(self) -> memoryview | None:
        """The whole file as it is mapped; None behind ``close``."""
        return self._map

    @property
    def about(self) -> Description:
        """What the directory says of the store."""
        return self._about

    @property
    def compression(self) -> Compression | None:
        """How streams were compressed when they were written; None if by something unknown."""
        known = [way for way in get_args(Compression) if way == self._about.compression]
        return known[0] if known else None

    @property
    def bundle_count(self) -> int:
        """How many bundles the segment holds."""
        return self.footer.bundle_count

    def bundle_entry(self, index: int) -> BundleEntry:
        """Say what the manifest knows of a bundle, ``0 <= index < bundle_count``."""
        self._check_index(index)
        return self.manifest.entry(index)

    def bundle(
        self, index: int, *, slots: Collection[int] | None = None
    ) -> dict[int, pa.RecordBatch]:
        """Read the batches of a bundle by slot id, ascending; with ``slots`` only those of them.

        Slots that the bundle does not fill are not in the result. Raises DamagedEntry if a stream
        that is needed is damaged.
        """
        self._check_index(index)
        refs = [r for r in self.manifest.refs(index) if slots is None or r.slot_id in slots]
        refs.sort(key=lambda ref: ref.slot_id)
        return {ref.slot_id: self.chunk(ref.stream_id, ref.chunk_index) for ref in refs}

    def chunk(
        self, stream_id: int, chunk_index: int, *, columns: Sequence[int] | None = None
    ) -> pa.RecordBatch:
        """Read one chunk of a stream; InputError if there is no such stream or chunk.

        With ``columns`` only those, by place and ascending, and no page of the others is touched.
        """
        entry = self._entry(stream_id)
        if not 0 <= chunk_index < entry.chunk_count:
            raise InputError(
                f"stream {stream_id} has no chunk {chunk_index}, only {entry.chunk_count}"
            )
        with self._lock, located(self._place, base=entry.byte_offset):
            # Arrow loads a file's dictionaries with its first batch, unguarded: hence the lock.
            return self._file(entry, columns).chunk(chunk_index)

    def stream_schema(self, stream_id: int) -> pa.Schema:
        """Give the schema of all chunks of a stream; no page of their values is touched."""
        entry = self._entry(stream_id)
        schema = self._schemas.get(stream_id)
        if schema is None:
            with self._lock, located(self._place, base=entry.byte_offset):
                schema = self._schemas[stream_id] = self._open_stream(entry, paged=True).schema
        return schema

    def table(self, stream_id: int, *, columns: Sequence[int] | None = None) -> pa.Table:
        """Read all chunks of a stream at once, as a table whose chunks they are, as views.

        With ``columns`` only those, as in ``chunk``.
        """
        entry = self._entry(stream_id)
        with self._lock, located(self._place, base=entry.byte_offset):
            return self._file(entry, columns).table()

    def batches(
        self, stream_id: int, *, columns: Sequence[int] | None = None
    ) -> list[pa.RecordBatch] | None:
        """Read all chunks of a stream at once, one by one; sooner than as a table.

        None where a table has to be made of them first.
        """
        entry = self._entry(stream_id)
        with self._lock, located(self._place, base=entry.byte_offset):
            return self._file(entry, columns).batches()

    def kin(self, stream_ids: Collection[int], *, choose: Choose | None = None) -> Iterator[Kin]:
        """Read streams of one chunk each many at a time, as far as they are alike and sound.

        Those that are not come by ``chunk`` or ``table``, which say what is wrong. ``choose`` says
        which columns are wanted of a schema.
        """
        buffer, index = self._open_buffer(), None if choose is None else self.index
        entries = map(self._entry, stream_ids)
        likely = [entry for entry in entries if may_be_alike(entry, index)]
        if len(likely) < FEW:
            return
        for entry in likely:
            if self._map is not None:
                read_along(self._map, entry.byte_offset, entry.byte_offset + entry.byte_length)
        yield from read_kin(buffer, likely, limits=self._limits, choose=choose, values=self._values)

    def representative_schemas(self) -> dict[int, pa.Schema]:
        """Give for each slot the schema that all of its streams fit, promoted where they differ.

        It comes from the directory, and where that has none from the streams themselves. Slots
        whose streams have no common schema are not in the result.
        """
        slot_ids = sorted({stream.slot_id for stream in self.streams})
        found = {slot_id: self.representative_schema(slot_id) for slot_id in slot_ids}
        return {slot_id: schema for slot_id, schema in found.items() if schema is not None}

    def representative_schema(self, slot_id: int) -> pa.Schema | None:
        """Give that of one slot; None if there is none, or nothing of the slot."""
        with located(self._place, base=self.footer.directory_offset):
            schema = self._about.schema(slot_id, self._limits)
        parts = [stream.stream_id for stream in self.streams if stream.slot_id == slot_id]
        if schema is not None or not parts:
            return schema
        try:
            return union_schema(self.stream_schema(stream_id) for stream_id in parts)
        except InputError:
            return None

    def verify(self) -> None:
        """Read everything there is and raise DamageError at the first thing that is wrong."""
        buffer = self._open_buffer()
        if self._map is not None:
            read_along(self._map, 0, len(self._map))
        with located(self._place):
            check_file(memoryview(buffer), self.trailer)
        self._read_index()
        for entry in self.streams:
            with self._lock, located(self._place, base=entry.byte_offset):
                table = self._open_stream(entry).stored_table()
                rows = table.num_rows
                if rows != entry.row_count:
                    raise DamagedEntry(
                        f"stream {entry.stream_id} and the directory disagree about its rows",
                        expected=entry.row_count,
                        found=rows,
                    )
                self._check_index_entry(entry, table)
        with located(self._place, base=self.footer.manifest_offset):
            self._check_ranges()

    def close(self) -> None:
        """Let go of the map; batches read before stay usable. A second call does nothing."""
        self._buffer = self._map = None
        self._files = {}

    def __enter__(self) -> Self:
        """Use the reader for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Say which file it is and what is in it."""
        return (
            f"SegmentReader({self._place!r}, {self.bundle_count} bundles, "
            f"{len(self.streams)} streams)"
        )

    def _open_buffer(self) -> pa.Buffer:
        if self._buffer is None:
            raise ClosedError(f"the reader of {self._place} is closed")
        return self._buffer

    def _check_index(self, index: int) -> None:
        if not 0 <= index < self.bundle_count:
            raise InputError(f"{self._place} has no bundle {index}, only {self.bundle_count}")

    def _entry(self, stream_id: int) -> StreamEntry:
        entry = self._by_id.get(stream_id)
        if entry is None:
            raise InputError(f"{self._place} has no stream {stream_id}")
        return entry

    def _file(self, entry: StreamEntry, columns: Sequence[int] | None = None) -> StreamFile:
        self._open_buffer()
        key = (entry.stream_id, None if columns is None else tuple(columns))
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._open_stream(entry, columns)
        return file

    def _open_stream(
        self, entry: StreamEntry, columns: Sequence[int] | None = None, *, paged: bool = False
    ) -> StreamFile:
        buffer = self._open_buffer()
        index = self.index if paged or columns is not None else None
        if index is None and self._map is not None:  # All of it is about to be checked.
            read_along(self._map, entry.byte_offset, entry.byte_offset + entry.byte_length)
        return StreamFile(
            buffer,
            entry,
            limits=self._limits,
            columns=columns,
            values=self._values,
            pages=None if index is None else index.page_checksums(entry.stream_id) or None,
        )

    @property
    def index(self) -> Index | None:
        """What lets a reader skip: page checksums and bounds; None if there is no sound index.

        A damaged one costs the skipping and no data: whole streams are read and checked instead.
        ``verify`` tells of it.
        """
        if self._index is None and not self._index_tried:
            self._index_tried = True
            with contextlib.suppress(DamageError):
                self._index = self._read_index()
        return self._index

    def _read_index(self) -> Index | None:
        extra = self.footer.extension
        if extra is None or not extra.index_length:
            return None
        data = self._open_buffer().slice(extra.index_offset, extra.index_length)
        with located(self._place, base=extra.index_offset):
            check_crc32c("the index's", data, extra.index_crc32c)
            return Index(data, [stream.stream_id for stream in self.streams])

    def _check_index_entry(self, entry: StreamEntry, table: pa.Table) -> None:
        """Hold what the index says of a stream against the stream."""
        index = self.index
        if index is None:
            return
        data = memoryview(self._open_buffer())[entry.byte_offset :][: entry.byte_length]
        pages = index.page_checksums(entry.stream_id)
        found = not pages or pages == page_checksums(data, entry.byte_offset)
        columns = index.columns(entry.stream_id, table.num_columns)
        rows = index.chunk_rows(entry).tolist()
        if table.num_columns:
            found &= rows == [len(chunk) for chunk in table.column(0).chunks]
        if not found or not all(map(agrees, columns, column_bounds(table))):
            raise DamagedEntry(f"the index does not describe stream {entry.stream_id}")

    def _check_ranges(self) -> None:
        """Hold what the footer says of the log against what the manifest says."""
        extra = self.footer.extension
        found = self.manifest.wal_seq_range()
        if extra is None or found is None:
            return
        if found != (extra.wal_seq_first, extra.wal_seq_last):
            raise DamagedEntry(
                "manifest and footer disagree about the log sequences",
                expected=f"{extra.wal_seq_first}..{extra.wal_seq_last}",
                found=f"{found[0]}..{found[1]}",
            )
