"""The index: what a scan needs to leave parts of a segment unread. One row for each stream.

It is read only by who asks for few columns or few rows; opening a segment leaves it alone. Lists
have one item for each column of the stream, null where nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.arrays import integers, truths
from quiver.errors import DamagedEntry
from quiver.ipc import encode_file
from quiver.segment.bounds import Bounds, ColumnBounds
from quiver.segment.pages import PAGE_BYTES
from quiver.segment.tables import Column, StreamEntry, need_column, read_table

__all__ = ["Index", "encode_index"]

_BYTES_LIST: Final = pa.list_(pa.binary())
_ROWS: Final = pa.list_(pa.uint64())
_BOUNDS: Final = ("column_min", "column_max", "chunk_min", "chunk_max")
_PAGE_KEY: Final = b"quiver.page_bytes"
_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    ("stream_id", pa.uint32()),
    ("page_crc32c", pa.large_binary()),
    ("chunk_rows", _ROWS),
    *((name, _BYTES_LIST) for name in _BOUNDS),
)
_SCHEMA: Final = pa.schema(
    [pa.field(name, kind, nullable=False) for name, kind in _COLUMNS],
    metadata={_PAGE_KEY: b"%d" % PAGE_BYTES},
)


def encode_index(
    page_checksums: Sequence[bytes],
    chunk_rows: Column,
    *,
    bounds: Sequence[tuple[ColumnBounds, ...]],
    alike: npt.NDArray[np.int64],
) -> pa.Buffer:
    """Write the index, one row for each stream: checksums of its pages, the rows of its chunks.

    And the bounds of its columns, which streams alike share: those that ``alike`` has the place of.
    """
    found = [_bounds(columns) for columns in bounds]
    arrays = [
        pa.array(np.arange(len(alike), dtype=np.uint32)),
        pa.array(page_checksums, pa.large_binary()),
        chunk_rows,
        *(pa.array([each[which] for each in found], _BYTES_LIST).take(alike) for which in range(4)),
    ]
    return encode_file(_SCHEMA, [pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)])


def _bounds(columns: Sequence[ColumnBounds]) -> list[list[bytes | None]]:
    """Give the least and the greatest of each column's stream, then of its chunks."""
    streams = ([_end(column.stream, end) for column in columns] for end in (0, 1))
    chunks = ([_end(column.chunks, end) for column in columns] for end in (0, 1))
    return [*streams, *chunks]


def _end(bounds: Bounds | None, end: int) -> bytes | None:
    return None if bounds is None else bounds[end]


class Index:
    """The index of one segment, kept as columns that view the file."""

    def __init__(self, data: pa.Buffer, stream_ids: Sequence[int]) -> None:
        """Read it; DamagedEntry unless it has one row for each of these streams, in order."""
        batch = read_table(data, len(stream_ids), schema=_SCHEMA)
        found = need_column(batch, "stream_id", pa.uint32()).to_pylist()
        if found != list(stream_ids):
            raise DamagedEntry("index and directory list other streams")
        page_bytes = (batch.schema.metadata or {}).get(_PAGE_KEY)
        if page_bytes != b"%d" % PAGE_BYTES:
            raise DamagedEntry(
                "an index has pages of another size", expected=PAGE_BYTES, found=str(page_bytes)
            )
        self._rows = {stream_id: row for row, stream_id in enumerate(found)}
        self._pages = need_column(batch, "page_crc32c", pa.large_binary())
        self._chunk_rows = need_column(batch, "chunk_rows", _ROWS)
        self._bounds = [need_column(batch, name, _BYTES_LIST) for name in _BOUNDS]

    def page_checksums(self, stream_id: int) -> bytes:
        """Give the checksums of a stream's pages, one after the other."""
        return bytes(self._pages[self._rows[stream_id]].as_buffer())

    def chunk_rows(self, entry: StreamEntry) -> npt.NDArray[np.int64]:
        """Give the rows of each chunk of a stream; DamagedEntry if it has another number."""
        values = self._chunk_rows[self._rows[entry.stream_id]].values
        found = integers(values)
        impossible = values.null_count or (found < 0).any() or (found > entry.row_count).any()
        if impossible or (len(found), int(found.sum())) != (entry.chunk_count, entry.row_count):
            raise DamagedEntry(
                f"the index has other chunks than stream {entry.stream_id}",
                expected=f"{entry.chunk_count} with {entry.row_count} rows",
                found=f"{len(found)} with {int(found.sum())} rows",
            )
        return found

    def bounded(self) -> set[int]:
        """Give the ids of the streams that have a bound of any column."""
        has = np.zeros(len(self._rows), bool)
        for column in self._bounds:
            owners = np.repeat(np.arange(len(has)), np.diff(column.offsets))
            has[owners[truths(column.flatten().is_valid())]] = True
        return {stream_id for stream_id, row in self._rows.items() if has[row]}

    def columns(self, stream_id: int, count: int) -> list[ColumnBounds]:
        """Give the bounds of a stream's ``count`` columns; DamagedEntry if it has others."""
        row = self._rows[stream_id]
        lists = [column[row].as_py() for column in self._bounds]
        if any(len(values) != count for values in lists):
            raise DamagedEntry(
                f"the index has bounds of other columns than stream {stream_id}",
                expected=count,
                found=str([len(values) for values in lists]),
            )
        return [
            ColumnBounds(_both(low, high), _both(chunk_low, chunk_high))
            for low, high, chunk_low, chunk_high in zip(*lists, strict=True)
        ]


def _both(low: bytes | None, high: bytes | None) -> Bounds | None:
    return None if low is None or high is None else (low, high)
