"""What the directory of a segment says, for who needs nothing else of it: read, and not mapped.

Mapping a file and touching its pages costs more than all the rest of it where there are thousands.
"""

from __future__ import annotations

import functools
import posixpath
from contextlib import closing
from typing import Final, NamedTuple, TypeAlias

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
_KEPT: Final = 1024
"""So many were decoded last and are not again: each slot is scanned by itself, and often. Of more
segments, one after the other, none would be there when it is its turn again."""
_KEPT_BYTES: Final = 8 << 20
"""They have no more bytes together, and take a fifth more: of many streams, fewer stay."""
_SLACK: Final = 16
"""Before they are counted again they may have this part of it more."""


_Decoded: TypeAlias = tuple[tuple[StreamEntry, ...], Description]


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


def read_directory(data: bytes, footer: Footer, *, end: int) -> _Decoded:
    """Check and decode the directory of a segment, as ``decode_directory``; seldom one twice."""
    return _DIRECTORIES.read(data, footer, end)


def _decoded(data: bytes, footer: Footer, end: int) -> _Decoded:
    directory = pa.py_buffer(data)
    if footer.extension is not None:
        check_crc32c("the directory's", directory, footer.extension.directory_crc32c)
    return decode_directory(directory, footer, end=end)


class _Directories:
    """Those that were decoded last, by all that they are decoded from.

    Safe for several threads, and without a lock: a process may be forked while one looks.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, Footer, int], _Decoded] = {}
        self._new_bytes = 0
        """About so many came since they were counted."""

    def read(self, data: bytes, footer: Footer, end: int) -> _Decoded:
        key = data, footer, end
        found = self._known.pop(key, None)
        is_new = found is None
        found = found or _decoded(data, footer, end)
        if len(data) <= _KEPT_BYTES:
            self._known[key] = found  # Last, as the one that was used last.
            if is_new:
                self._new_bytes += len(data)
                if self._new_bytes > _KEPT_BYTES // _SLACK or len(self._known) > _KEPT:
                    self._let_go()
        return found

    def _let_go(self) -> None:
        self._new_bytes = 0
        keys = list(self._known)
        count, byte_count = len(keys), sum(len(data) for data, *_ in keys)
        for oldest in keys:
            if count <= _KEPT - _KEPT // _SLACK and byte_count <= _KEPT_BYTES:
                return
            self._known.pop(oldest, None)
            count, byte_count = count - 1, byte_count - len(oldest[0])


_DIRECTORIES: Final = _Directories()
