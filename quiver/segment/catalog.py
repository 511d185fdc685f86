"""Which segments there are, known from the ends of their files alone."""

from __future__ import annotations

import bisect
import posixpath
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import crc32c

from quiver.disk import Bytes, Disk, File, Stat, fetch
from quiver.errors import DamagedEntry, DamageError, InputError, MissingError, VersionError
from quiver.segment.format import (
    TRAILER_BYTES,
    Extension,
    Footer,
    Trailer,
    decode_footer,
    decode_trailer,
    parse_segment_name,
)
from quiver.segment.tables import located

__all__ = [
    "SEQ_UNKNOWN",
    "Catalog",
    "Place",
    "ProgressAt",
    "SegmentInfo",
    "Tail",
    "check_file",
    "describe",
    "read_info",
    "read_noted",
]

SEQ_UNKNOWN: Final = -1
"""The number of another writer's segment that is not named as segments are."""

_CHECKSUM_BYTES: Final = 4
_END_BYTES: Final = 512
"""What is read of a segment at first: its trailer and any footer of ours are in there."""
_OPEN_MAX: Final = 64
"""How many segments are open at a time."""


class Place(Protocol):
    """Where a segment is: what of a disk has to be known for one that is mapped already."""

    def locate(self, path: str) -> str:
        """Give the path that a person would use, for messages."""
        ...

    def stat(self, path: str) -> Stat | None:
        """Look at a path; None if there is nothing."""
        ...


class ProgressAt(NamedTuple):
    """Where in a segment the progress of sources is, and its CRC32C."""

    offset: int
    length: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment file. What only an extended footer knows is None for another writer's file.

    ``wal_generation`` and ``wal_offset`` name the place in the log right behind the last entry
    that the segment covers; both sequences are included in what it covers.
    """

    segment_seq: int
    path: str
    file_bytes: int
    allocated_bytes: int
    bundle_count: int
    stream_count: int
    wal_seq_first: int | None = None
    wal_seq_last: int | None = None
    wal_generation: int | None = None
    wal_offset: int | None = None
    ingestion_ns_min: int | None = None
    ingestion_ns_max: int | None = None
    progress: ProgressAt | None = None
    """None if no bundle in it says how far its source was read."""


class Tail:
    """The end of a segment: its trailer, and how to read what stands before that.

    ``near`` bytes are read at once; of what lies in there, nothing is read a second time.
    """

    __slots__ = ("_data", "_file", "_first", "footer_offset", "trailer")

    def __init__(self, file: File, file_bytes: int, *, near: int) -> None:
        """Read it; raises DamageError if it is no end of a segment."""
        self._file = file
        self._first = max(0, file_bytes - near)
        self._data = file.read(self._first, file_bytes - self._first)
        self.trailer = decode_trailer(self._data[-TRAILER_BYTES:], file_bytes=file_bytes)
        self.footer_offset = file_bytes - TRAILER_BYTES - self.trailer.footer_length

    def read(self, offset: int, length: int) -> bytes:
        """Give bytes of the file; fewer only where it ends."""
        if offset < self._first:
            return self._file.read(offset, length)
        return self._data[offset - self._first :][:length]


def read_info(disk: Disk, path: str) -> SegmentInfo:
    """Read what a segment's footer says, in one small read; its streams stay unread.

    A footer without our extension has no checksum of its own: then the CRC-32 of the whole file is
    checked. Raises DamageError with the located path, VersionError, or MissingError.
    """
    with located(disk.locate(path)):
        file = disk.open(path)
        try:
            file_bytes = file.size()
            footer = _read_footer(disk, path, file, file_bytes=file_bytes)
        finally:
            file.close()
        return describe(disk, path, footer, file_bytes=file_bytes)


def _read_footer(disk: Disk, path: str, file: File, *, file_bytes: int) -> Footer:
    """Read the footer of the segment at ``path`` whose file is open; see ``read_info``."""
    tail = Tail(file, file_bytes, near=_END_BYTES)
    start, trailer = tail.footer_offset, tail.trailer
    body = tail.read(start, trailer.footer_length)
    try:
        footer = decode_footer(body, offset=start)
    except DamageError as error:
        raise error.at("", base=start) from error
    except VersionError:
        # A wrong footer length makes other bytes look like a footer of another version.
        check_file(disk.map(path), trailer)
        raise
    if footer.extension is None:
        check_file(disk.map(path), trailer)
    return footer


def check_file(data: Bytes, trailer: Trailer) -> None:
    """Raise DamagedEntry unless the CRC-32 of a whole file is the one in its trailer."""
    found = zlib.crc32(memoryview(data)[:-_CHECKSUM_BYTES])
    if found != trailer.crc32:
        raise DamagedEntry(
            "a segment's checksum is wrong",
            expected=f"{trailer.crc32:#010x}",
            found=f"{found:#010x}",
        )


def describe(disk: Place, path: str, footer: Footer, *, file_bytes: int) -> SegmentInfo:
    """Put together what footer, name and disk say; DamagedEntry if name and footer disagree."""
    stat = disk.stat(path)
    allocated = stat.allocated if stat else 0  # Deleted meanwhile: it takes no room any more.
    return _info(path, footer, file_bytes=file_bytes, allocated_bytes=allocated)


def _info(path: str, footer: Footer, *, file_bytes: int, allocated_bytes: int) -> SegmentInfo:
    named = parse_segment_name(posixpath.basename(path))
    extra = footer.extension
    if extra is None:
        return SegmentInfo(
            SEQ_UNKNOWN if named is None else named,
            path,
            file_bytes,
            allocated_bytes,
            footer.bundle_count,
            footer.stream_count,
        )
    if named is not None and named != extra.segment_seq:
        raise DamagedEntry(
            "a segment bears another one's name", expected=extra.segment_seq, found=named
        )
    return SegmentInfo(
        extra.segment_seq,
        path,
        file_bytes,
        allocated_bytes,
        footer.bundle_count,
        footer.stream_count,
        extra.wal_seq_first,
        extra.wal_seq_last,
        extra.wal_generation,
        extra.wal_offset,
        extra.ingestion_ns_min,
        extra.ingestion_ns_max,
        _progress_at(extra),
    )


def _progress_at(extra: Extension) -> ProgressAt | None:
    if not extra.progress_length:
        return None
    return ProgressAt(extra.progress_offset, extra.progress_length, extra.progress_crc32c)


def read_noted(disk: Disk, info: SegmentInfo, *, bytes_max: int) -> bytes:
    """Read what a segment says of the progress of sources; nothing if it says nothing.

    Raises DamagedEntry if that is not what was written, MissingError if the file is gone.
    """
    at = info.progress
    if at is None:
        return b""
    place = disk.locate(info.path)
    if at.length > bytes_max:
        raise DamagedEntry(
            "the progress in a segment is impossibly long",
            path=place,
            offset=at.offset,
            expected=f"at most {bytes_max}",
            found=at.length,
        )
    file = disk.open(info.path)
    try:
        data = file.read(at.offset, at.length)
    finally:
        file.close()
    found = crc32c.crc32c(data)
    if found != at.crc32c:
        raise DamagedEntry(
            "the checksum of the progress in a segment is wrong",
            path=place,
            offset=at.offset,
            expected=f"{at.crc32c:#010x}",
            found=f"{found:#010x}",
        )
    return data


def _read_some(
    disk: Disk, folder: str, entries: Sequence[Stat]
) -> Iterator[tuple[str, SegmentInfo | DamageError]]:
    """Read the infos of some segments of a listing; those that are gone meanwhile are left out.

    All of them are opened and asked for before the first is read, so that a disk with nothing in
    memory has many reads to do at a time.
    """
    files: list[tuple[Stat, str, File]] = []
    try:
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            with suppress(MissingError):
                files.append((entry, path, disk.open(path)))
                fetch(files[-1][2], max(0, entry.size - _END_BYTES), _END_BYTES)
        for entry, path, file in files:
            try:
                footer = _read_footer(disk, path, file, file_bytes=entry.size)
                info = _info(path, footer, file_bytes=entry.size, allocated_bytes=entry.allocated)
                yield path, info
            except DamageError as error:
                yield path, error.at(disk.locate(path))
            except MissingError:
                continue  # Another writer's file that was deleted before it was mapped.
    finally:
        for _, _, file in files:
            file.close()


class Catalog:
    """The segments of one folder in order of their numbers. Not safe for several threads at once.

    ``segment_bytes`` is the size of all their files together, ``allocated_bytes`` what they take.
    """

    def __init__(self) -> None:
        """Start without segments."""
        self._infos: dict[int, SegmentInfo] = {}
        self._seqs: list[int] = []
        self.segment_bytes = 0
        self.allocated_bytes = 0

    @classmethod
    def load(
        cls, disk: Disk, folder: str, *, listing: Sequence[Stat] | None = None
    ) -> tuple[Catalog, list[tuple[str, DamageError]]]:
        """Read the info of each segment in a folder, and list those that are damaged, by path.

        ``listing`` is what the folder has, for whoever has listed it already. Files whose names
        are not those of segments are left alone, and so is a segment that somebody deletes
        meanwhile. Raises VersionError for a segment of a newer format.
        """
        catalog, damage = cls(), []
        found = [
            entry
            for entry in (disk.list_dir(folder) if listing is None else listing)
            if entry.is_file and parse_segment_name(entry.name) is not None
        ]
        for first in range(0, len(found), _OPEN_MAX):
            for path, info in _read_some(disk, folder, found[first : first + _OPEN_MAX]):
                if isinstance(info, DamageError):
                    damage.append((path, info))
                else:
                    catalog.add(info)
        return catalog, damage

    def add(self, info: SegmentInfo) -> None:
        """Take a segment in; InputError if there is one of its number."""
        if info.segment_seq in self._infos:
            raise InputError(f"segment {info.segment_seq} is in the catalogue already")
        self._infos[info.segment_seq] = info
        bisect.insort(self._seqs, info.segment_seq)
        self.segment_bytes += info.file_bytes
        self.allocated_bytes += info.allocated_bytes

    def remove(self, segment_seq: int) -> SegmentInfo:
        """Forget a segment, and give what was known of it; InputError if there is none."""
        info = self.get(segment_seq)
        del self._infos[segment_seq]
        del self._seqs[bisect.bisect_left(self._seqs, segment_seq)]
        self.segment_bytes -= info.file_bytes
        self.allocated_bytes -= info.allocated_bytes
        return info

    def get(self, segment_seq: int) -> SegmentInfo:
        """Give one segment; InputError if there is none of that number."""
        info = self._infos.get(segment_seq)
        if info is None:
            raise InputError(f"there is no segment {segment_seq}")
        return info

    def __contains__(self, segment_seq: object) -> bool:
        """Whether there is a segment of that number."""
        return segment_seq in self._infos

    def __iter__(self) -> Iterator[SegmentInfo]:
        """Go through the segments in order of number; a copy, so both may change meanwhile."""
        return iter([self._infos[seq] for seq in self._seqs])

    def __len__(self) -> int:
        """How many segments there are."""
        return len(self._seqs)

    @property
    def newest_seq(self) -> int | None:
        """The highest number; None if there is no segment."""
        return self._seqs[-1] if self._seqs else None

    @property
    def covered_wal_seq(self) -> int | None:
        """The highest log sequence that a segment here holds; None if none says."""
        ends = [i.wal_seq_last for i in self._infos.values() if i.wal_seq_last is not None]
        return max(ends, default=None)
