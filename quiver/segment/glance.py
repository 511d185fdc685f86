"""What the directory of a segment says, for who needs nothing else of it: read, and not mapped.

Mapping a file and touching its pages costs more than all the rest of it where there are thousands.
"""

from __future__ import annotations

import functools
import posixpath
from contextlib import closing
from typing import Final, NamedTuple

import pyarrow as pa

from quiver.disk import Disk
from quiver.errors import DamageError, VersionError
from quiver.segment.catalog import Tail
from quiver.segment.directory import Description, decode_directory
from quiver.segment.format import Footer, decode_footer, parse_segment_name
from quiver.segment.stream_file import check_crc32c
from quiver.segment.tables import StreamEntry

__all__ = ["Glance", "glance", "read_directory"]

_NEAR: Final = 1 << 14
"""What is read of a segment at first: of a small one, that is all its tables."""
_KEPT: Final = 64
"""So many were decoded last and are not again: each slot is scanned by itself, and often."""
_SMALL_BYTES: Final = 1 << 14
_KEPT_LARGE: Final = 8
"""Of larger ones, which have many streams, fewer are kept, and none that is very large."""
_LARGE_BYTES: Final = 1 << 18


class Glance(NamedTuple):
    """Footer and directory of a segment, both checked; ``checksum`` is that of the whole file."""

    footer: Footer
    streams: tuple[StreamEntry, ...]
    about: Description
    checksum: int


def glance(disk: Disk, path: str) -> Glance | None:
    """Read a segment's directory; None where ``SegmentReader`` has to look, and say what is wrong.

    That is anything damaged or of a newer version, and other writers' files, of which only the
    checksum of the whole protects the directory. Raises MissingError.
    """
    with closing(disk.open(path)) as file:
        try:
            tail = Tail(file, file.size(), near=_NEAR)
            end, trailer = tail.footer_offset, tail.trailer
            footer = _footer(tail.read(end, trailer.footer_length), end)
            named = parse_segment_name(posixpath.basename(path))
            if footer.extension is None or named not in (None, footer.extension.segment_seq):
                return None
            table = tail.read(footer.directory_offset, footer.directory_length)
            streams, about = read_directory(table, footer, end=end)
        except (DamageError, VersionError):
            return None
    if any(stream.crc32c is None for stream in streams):
        return None
    return Glance(footer, streams, about, trailer.crc32)


@functools.lru_cache(maxsize=_KEPT)
def _footer(data: bytes, end: int) -> Footer:
    return decode_footer(data, offset=end)


def read_directory(
    data: bytes, footer: Footer, *, end: int
) -> tuple[tuple[StreamEntry, ...], Description]:
    """Check and decode the directory of a segment, as ``decode_directory``; seldom one twice."""
    if len(data) > _LARGE_BYTES:
        return _decoded(data, footer, end)
    return (_small if len(data) <= _SMALL_BYTES else _large)(data, footer, end)


def _decoded(data: bytes, footer: Footer, end: int) -> tuple[tuple[StreamEntry, ...], Description]:
    directory = pa.py_buffer(data)
    if footer.extension is not None:
        check_crc32c("the directory's", directory, footer.extension.directory_crc32c)
    return decode_directory(directory, footer, end=end)


_small: Final = functools.lru_cache(maxsize=_KEPT)(_decoded)
_large: Final = functools.lru_cache(maxsize=_KEPT_LARGE)(_decoded)
