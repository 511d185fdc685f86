"""Read a segment in place: nothing of a stream is copied, and none is touched before it is asked.

=================  =============================================================================
when               what is checked
=================  =============================================================================
open               magic, lengths, the footer's CRC32C, both tables' CRC32C, each row of both
first touch        the stream's CRC32C, its schema and number of chunks
each chunk         Arrow's own full validation
verify             all of that for all streams, and the CRC-32 of the whole file
=================  =============================================================================

Another writer's file has no checksum but the last; there it is checked at open.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Final, Self

import crc32c
import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.disk import Disk
from quiver.errors import ClosedError, DamagedEntry, InputError, VersionError
from quiver.ipc import ArrowFile
from quiver.promote import union_schema
from quiver.segment.catalog import SegmentInfo, check_file, describe
from quiver.segment.directory import decode_directory
from quiver.segment.format import TRAILER_BYTES, Footer, decode_footer, decode_trailer
from quiver.segment.manifest import Manifest
from quiver.segment.tables import BundleEntry, StreamEntry, located
from quiver.slots import SlotTable

__all__ = ["SegmentReader"]

_DEFAULT_LIMITS: Final = LimitsConfig().for_reading()


class SegmentReader:
    """One mapped segment. Safe for several threads at once.

    Batches that it gives are views of the map and keep it alive: they outlive the reader, and also
    the file's name. ``slots`` and ``store_id`` are None in another writer's file. ``lost`` has the
    bundles, by index, that lack slots because damage took them: no longer what was appended.
    """

    def __init__(
        self, disk: Disk, path: str, data: memoryview, *, limits: LimitsConfig = _DEFAULT_LIMITS
    ) -> None:
        """Read the end and the tables of a segment that ``disk`` mapped as ``data``."""
        self._place = disk.locate(path)
        self._limits = limits
        self._buffer: pa.Buffer | None = pa.py_buffer(data)
        self._files: dict[int, ArrowFile] = {}
        self._lock = threading.Lock()
        with located(self._place):
            end = max(0, len(data) - TRAILER_BYTES)
            self._trailer = decode_trailer(data[end:], file_bytes=len(data))
            start = end - self._trailer.footer_length
            try:
                with located("", base=start):
                    self.footer: Footer = decode_footer(data[start:end], offset=start)
            except VersionError:
                check_file(data, self._trailer)  # As in ``read_info``.
                raise
            self._read_tables(data, start)
            self.info: SegmentInfo = describe(disk, path, self.footer, file_bytes=len(data))

    def _read_tables(self, data: memoryview, end: int) -> None:
        footer, buffer = self.footer, pa.py_buffer(data)
        extra = footer.extension
        if extra is None:
            check_file(data, self._trailer)
        directory = buffer.slice(footer.directory_offset, footer.directory_length)
        manifest = buffer.slice(footer.manifest_offset, footer.manifest_length)
        with located("", base=footer.directory_offset):
            if extra is not None:
                _check_crc32c("the directory's", directory, extra.directory_crc32c)
            streams, self._about = decode_directory(directory, footer, end=end)
        with located("", base=footer.manifest_offset):
            if extra is not None:
                _check_crc32c("the manifest's", manifest, extra.manifest_crc32c)
            self._manifest = Manifest(manifest, footer.bundle_count, streams)
        if extra is not None and any(stream.crc32c is None for stream in streams):
            check_file(data, self._trailer)
        self.streams: tuple[StreamEntry, ...] = streams
        self._by_id = {stream.stream_id: stream for stream in streams}
        self.slots: SlotTable | None = self._about.slots
        self.store_id: str | None = self._about.store_id
        self.lost: Mapping[int, tuple[int, ...]] = self._about.lost

    @classmethod
    def open(cls, disk: Disk, path: str, *, limits: LimitsConfig = _DEFAULT_LIMITS) -> Self:
        """Map a segment and check its end and its tables.

        Raises DamageError with the located path (TornEntry if the file ends early), VersionError
        for a newer format, or MissingError.
        """
        return cls(disk, path, disk.map(path), limits=limits)

    @property
    def bundle_count(self) -> int:
        """How many bundles the segment holds."""
        return self.footer.bundle_count

    def bundle_entry(self, index: int) -> BundleEntry:
        """Say what the manifest knows of a bundle, ``0 <= index < bundle_count``."""
        self._check_index(index)
        return self._manifest.entry(index)

    def bundle(
        self, index: int, *, slots: Collection[int] | None = None
    ) -> dict[int, pa.RecordBatch]:
        """Read the batches of a bundle by slot id, ascending; with ``slots`` only those of them.

        Slots that the bundle does not fill are not in the result. Raises DamagedEntry if a stream
        that is needed is damaged.
        """
        self._check_index(index)
        refs = [r for r in self._manifest.refs(index) if slots is None or r.slot_id in slots]
        refs.sort(key=lambda ref: ref.slot_id)
        return {ref.slot_id: self.chunk(ref.stream_id, ref.chunk_index) for ref in refs}

    def chunk(self, stream_id: int, chunk_index: int) -> pa.RecordBatch:
        """Read one chunk of a stream; InputError if there is no such stream or chunk."""
        entry = self._entry(stream_id)
        if not 0 <= chunk_index < entry.chunk_count:
            raise InputError(
                f"stream {stream_id} has no chunk {chunk_index}, only {entry.chunk_count}"
            )
        with self._lock, located(self._place, base=entry.byte_offset):
            # Arrow loads a file's dictionaries with its first batch, unguarded: hence the lock.
            return self._file(entry).chunk(chunk_index)

    def stream_schema(self, stream_id: int) -> pa.Schema:
        """Give the schema of all chunks of a stream."""
        entry = self._entry(stream_id)
        with self._lock, located(self._place, base=entry.byte_offset):
            return self._file(entry).schema

    def representative_schemas(self) -> dict[int, pa.Schema]:
        """Give for each slot the schema that all of its streams fit, promoted where they differ.

        It comes from the directory, and where that has none from the streams themselves. Slots
        whose streams have no common schema are not in the result.
        """
        found: dict[int, pa.Schema] = {}
        for slot_id in sorted({stream.slot_id for stream in self.streams}):
            with located(self._place, base=self.footer.directory_offset):
                schema = self._about.schema(slot_id, self._limits)
            if schema is None:
                parts = [
                    self.stream_schema(s.stream_id) for s in self.streams if s.slot_id == slot_id
                ]
                try:
                    schema = union_schema(parts)
                except InputError:
                    continue
            found[slot_id] = schema
        return found

    def verify(self) -> None:
        """Read everything there is and raise DamageError at the first thing that is wrong."""
        buffer = self._open_buffer()
        with located(self._place):
            check_file(memoryview(buffer), self._trailer)
        for entry in self.streams:
            with self._lock, located(self._place, base=entry.byte_offset):
                file = self._open_stream(entry)
                rows = sum(chunk.num_rows for chunk in file.chunks())
                if rows != entry.row_count:
                    raise DamagedEntry(
                        f"stream {entry.stream_id} and the directory disagree about its rows",
                        expected=entry.row_count,
                        found=rows,
                    )
        with located(self._place, base=self.footer.manifest_offset):
            self._check_ranges()

    def close(self) -> None:
        """Let go of the map; batches read before stay usable. A second call does nothing."""
        self._buffer = None
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

    def _file(self, entry: StreamEntry) -> ArrowFile:
        self._open_buffer()
        file = self._files.get(entry.stream_id)
        if file is None:
            file = self._files[entry.stream_id] = self._open_stream(entry)
        return file

    def _open_stream(self, entry: StreamEntry) -> ArrowFile:
        data = self._open_buffer().slice(entry.byte_offset, entry.byte_length)
        if entry.crc32c is not None:
            _check_crc32c(f"stream {entry.stream_id}'s", data, entry.crc32c)
        file = ArrowFile(data, limits=self._limits)
        if file.chunk_count != entry.chunk_count:
            raise DamagedEntry(
                f"stream {entry.stream_id} and the directory disagree about its chunks",
                expected=entry.chunk_count,
                found=file.chunk_count,
            )
        return file

    def _check_ranges(self) -> None:
        """Hold what the footer says of the log against what the manifest says."""
        extra = self.footer.extension
        found = self._manifest.wal_seq_range()
        if extra is None or found is None:
            return
        if found != (extra.wal_seq_first, extra.wal_seq_last):
            raise DamagedEntry(
                "manifest and footer disagree about the log sequences",
                expected=f"{extra.wal_seq_first}..{extra.wal_seq_last}",
                found=f"{found[0]}..{found[1]}",
            )


def _check_crc32c(whose: str, data: pa.Buffer, expected: int) -> None:
    found = crc32c.crc32c(memoryview(data))
    if found != expected:
        raise DamagedEntry(
            f"{whose} checksum is wrong", expected=f"{expected:#010x}", found=f"{found:#010x}"
        )
