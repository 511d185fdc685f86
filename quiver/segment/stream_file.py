"""One stream of a mapped segment as an Arrow file, checked as far as it is about to be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import crc32c
import pyarrow as pa

from quiver.config import LimitsConfig
from quiver.errors import DamagedEntry
from quiver.ipc_file import ArrowFile
from quiver.schemas import same_schema
from quiver.segment.dictionaries import other_types, read_declared, restore, restore_table
from quiver.segment.pages import PageChecks
from quiver.segment.tables import StreamEntry

__all__ = ["StreamFile", "check_crc32c"]


class StreamFile:
    """The chunks of one stream, under the schema that was declared; errors count from its start.

    With ``pages``, the checksums of its pages, those are checked as they are needed; without, the
    whole stream is checked when it is opened. Without ``validate`` nothing is: only for a stream
    that was found good before; without ``values`` no value is, as in ``ArrowFile``. With
    ``columns`` only those, by place, are given.
    """

    def __init__(
        self,
        data: pa.Buffer,
        entry: StreamEntry,
        *,
        limits: LimitsConfig,
        columns: Sequence[int] | None = None,
        pages: bytes | None = None,
        validate: bool = True,
        values: bool = True,
    ) -> None:
        """Open a stream of the segment ``data``; DamagedEntry if it is not what ``entry`` says."""
        part = data.slice(entry.byte_offset, entry.byte_length)
        check = None
        if validate and pages is not None:
            check = PageChecks(memoryview(part), entry.byte_offset, pages).check
        elif validate and entry.crc32c is not None:
            check_crc32c(f"stream {entry.stream_id}'s", part, entry.crc32c)
        self._file = ArrowFile(
            part, limits=limits, columns=columns, validate=validate, values=values, check=check
        )
        if self._file.chunk_count != entry.chunk_count:
            raise DamagedEntry(
                f"stream {entry.stream_id} and the directory disagree about its chunks",
                expected=entry.chunk_count,
                found=self._file.chunk_count,
            )
        self.schema: pa.Schema = self._file.schema
        self._declared: pa.Schema | None = None
        self._other: list[int] = []
        if entry.declared_schema is not None:
            self.schema = read_declared(
                entry.declared_schema, self._file.schema, limits, validate=validate
            )
            self._declared = _select(self.schema, columns)
            stored = _select(self._file.schema, columns)
            if same_schema(stored, self._declared):
                self._declared = None
            else:
                self._other = other_types(stored, self._declared)

    def chunk(self, index: int) -> pa.RecordBatch:
        """Read one chunk, as it was appended."""
        batch = self._file.chunk(index)
        return batch if self._declared is None else restore(batch, self._declared, self._other)

    def table(self) -> pa.Table:
        """Read all chunks at once, as a table whose chunks they are."""
        table = self._file.table()
        return table if self._declared is None else restore_table(table, self._declared)

    def batches(self) -> list[pa.RecordBatch] | None:
        """Read all chunks at once, one by one; None if each has to be made as it was appended."""
        return self._file.batches() if self._declared is None else None

    def stored_table(self) -> pa.Table:
        """Read all chunks under the schema that they are stored with."""
        return self._file.table()


def _select(schema: pa.Schema, columns: Sequence[int] | None) -> pa.Schema:
    if columns is None:
        return schema
    metadata: Any = schema.metadata
    return pa.schema([schema.field(place) for place in columns], metadata)


def check_crc32c(whose: str, data: pa.Buffer, expected: int) -> None:
    """Raise DamagedEntry unless the CRC32C of ``data`` is the expected one."""
    found = crc32c.crc32c(memoryview(data))
    if found != expected:
        raise DamagedEntry(
            f"{whose} checksum is wrong", expected=f"{expected:#010x}", found=f"{found:#010x}"
        )
