"""Streams of one chunk each, read many at a time: what a segment in a hurry is made of (``kept``).

Whatever is found wrong with one of them, or is not plain, is left out: ``stream_file`` reads it by
itself, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from crc32c import crc32c

from quiver.config import LimitsConfig
from quiver.ipc_alike import FEW, Choose, read_alike
from quiver.segment.index import Index
from quiver.segment.tables import StreamEntry

__all__ = ["FEW", "TOGETHER", "Choose", "Kin", "may_be_alike", "read_kin"]

TOGETHER: Final = 64
"""So many at a time: what they have in common is looked at once."""


class Kin(NamedTuple):
    """Streams of one schema, and the one batch of each; only these columns, by place."""

    streams: list[StreamEntry]
    batches: list[pa.RecordBatch]
    columns: tuple[int, ...] | None


def may_be_alike(stream: StreamEntry, index: Index | None = None) -> bool:
    """Whether a stream may be read with others, and so checked as a whole.

    With the ``index`` not one whose pages have checksums: of that a few columns are read alone.
    """
    return (
        stream.chunk_count == 1
        and stream.crc32c is not None
        and stream.declared_schema is None
        and (index is None or not index.page_checksums(stream.stream_id))
    )


def read_kin(
    data: pa.Buffer,
    streams: Iterable[StreamEntry],
    *,
    limits: LimitsConfig,
    choose: Choose | None = None,
    validate: bool = True,
    values: bool = True,
) -> Iterator[Kin]:
    """Read streams of a segment that ``may_be_alike``; what is not so, or not sound, is not given.

    ``choose`` says which columns are wanted. Without ``validate`` nothing is checked: only for
    streams that were found good before; without ``values`` no value is, as in ``ArrowFile``.
    """
    ordered = sorted(streams, key=_offset)
    for first in range(0, len(ordered), TOGETHER):
        some: Sequence[StreamEntry] = ordered[first : first + TOGETHER]
        if validate:
            some = [stream for stream in some if _is_whole(data, stream)]
        files = [(s.byte_offset, s.byte_offset + s.byte_length) for s in some]
        for found in read_alike(
            data, files, limits=limits, choose=choose, validate=validate, values=values
        ):
            yield Kin([some[place] for place in found.places], found.batches, found.columns)


def _offset(stream: StreamEntry) -> int:
    return stream.byte_offset


def _is_whole(data: pa.Buffer, stream: StreamEntry) -> bool:
    part = data.slice(stream.byte_offset, stream.byte_length)
    return crc32c(memoryview(part)) == stream.crc32c
