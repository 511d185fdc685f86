"""A segment under another number: its streams as they are, its tables written anew.

For a segment that was built where nobody knew yet which numbers it would get. Streams say nothing
of numbers; the tables behind them do, and are small. The result is byte for byte what
``write_segment`` would have made of the same bundles.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from quiver.config import LimitsConfig
from quiver.disk import SEALED_MODE, Bytes, Disk, read_along, write_new
from quiver.errors import DamagedEntry
from quiver.segment.catalog import SegmentInfo, describe
from quiver.segment.contents import SegmentLabel
from quiver.segment.directory import encode_directory
from quiver.segment.format import Extension, Footer, encode_tail
from quiver.segment.manifest import encode_manifest
from quiver.segment.reader import SegmentReader
from quiver.segment.tables import located

__all__ = ["write_relabelled"]

_PIECE: Final = 2 << 20


def write_relabelled(
    disk: Disk,
    source: str,
    path: str,
    *,
    label: SegmentLabel,
    wal_seq_first: int,
    ingestion_ns: int,
    limits: LimitsConfig,
) -> SegmentInfo:
    """Copy the segment file ``source``, one of ours, to ``path`` under the numbers of ``label``.

    Its bundles get the ``wal_seq`` from ``wal_seq_first`` on and all the same ingestion time. When
    this returns the copy and its name survive a power cut. All bytes of the source are checked on
    the way; DamagedEntry if one is wrong, and there is no copy then.
    """
    data = disk.map(source)
    with SegmentReader(disk, source, data, limits=limits) as reader:
        new = _Numbers(label, wal_seq_first, ingestion_ns)
        with located(disk.locate(source)):
            parts = _Parts(data, reader, new=new, limits=limits)
            size = write_new(disk, path, parts, mode=SEALED_MODE)
        return describe(disk, path, parts.footer, file_bytes=size)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What becomes of a segment."""

    label: SegmentLabel
    wal_seq_first: int
    ingestion_ns: int


class _Parts:
    """The bytes of the new file, in order."""

    footer: Footer
    """There once all of them have been taken."""

    def __init__(
        self, data: memoryview, reader: SegmentReader, *, new: _Numbers, limits: LimitsConfig
    ) -> None:
        self._data = data
        self._reader = reader
        self._new = new
        self._limits = limits

    def __iter__(self) -> Iterator[Bytes]:
        data, start = self._data, self._reader.footer.directory_offset
        read_along(data, 0, len(data))
        crc = 0
        for offset in range(0, start, _PIECE):
            piece = data[offset : min(offset + _PIECE, start)]
            crc = zlib.crc32(piece, crc)
            yield piece
        expected = self._reader.trailer.crc32
        found = zlib.crc32(data[start:-4], crc)
        if found != expected:
            raise DamagedEntry(
                "a segment's checksum is wrong",
                expected=f"{expected:#010x}",
                found=f"{found:#010x}",
            )
        yield from self._end(start, crc)

    def _end(self, start: int, crc: int) -> list[Bytes]:
        """Write tables, footer and trailer for streams that end where the directory began."""
        new, old = self._new, self._reader.footer
        directory, manifest = memoryview(self._directory()), memoryview(self._manifest())
        extra = old.extension
        if extra is None:
            raise DamagedEntry("a segment of another writer cannot be numbered anew")
        index = self._data[extra.index_offset :][: extra.index_length]
        tables: list[Bytes] = [directory, manifest, index]
        for table in tables:
            crc = zlib.crc32(table, crc)
        manifest_at = start + len(directory)
        self.footer = replace(
            old,
            directory_offset=start,
            directory_length=len(directory),
            manifest_offset=manifest_at,
            manifest_length=len(manifest),
            extension=Extension(
                segment_seq=new.label.segment_seq,
                wal_seq_first=new.wal_seq_first,
                wal_seq_last=new.wal_seq_first + old.bundle_count - 1,
                wal_generation=new.label.wal_generation,
                wal_offset=new.label.wal_offset,
                ingestion_ns_min=new.ingestion_ns,
                ingestion_ns_max=new.ingestion_ns,
                directory_crc32c=crc32c(directory),
                manifest_crc32c=crc32c(manifest),
                index_offset=manifest_at + len(manifest),
                index_length=len(index),
                index_crc32c=extra.index_crc32c,
            ),
        )
        return [*tables, encode_tail(self.footer, crc)]

    def _directory(self) -> pa.Buffer:
        new, about = self._new, self._reader.about
        streams = [
            replace(
                stream,
                payload_type=new.label.slots[stream.slot_id].name,
                ingestion_ns_min=new.ingestion_ns,
                ingestion_ns_max=new.ingestion_ns,
            )
            for stream in self._reader.streams
        ]
        found = {slot_id: about.schema(slot_id, self._limits) for slot_id in about.schemas or {}}
        named = replace(
            about,
            store_id=new.label.store_id,
            core=new.label.core,
            segment_seq=new.label.segment_seq,
            slots=new.label.slots,
        )
        schemas = {slot_id: schema for slot_id, schema in found.items() if schema is not None}
        return encode_directory(streams, named, schemas)

    def _manifest(self) -> pa.Buffer:
        new, manifest = self._new, self._reader.manifest
        count = len(manifest)
        numbers = np.arange(new.wal_seq_first, new.wal_seq_first + count, dtype=np.uint64)
        times = np.full(count, new.ingestion_ns, np.int64)
        columns = manifest.columns()._replace(
            wal_seq=pa.array(numbers), ingestion_ns=pa.array(times)
        )
        return encode_manifest(manifest.references(), columns)
