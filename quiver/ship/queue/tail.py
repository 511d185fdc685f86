"""The tail of an entry: what ours say beyond the reference, where its readers do not look.

::

    tail      magic[4] | field ... | trailer
    field     kind u16 | size u32 | value         kinds that are unknown are kept and passed over
    trailer   entry_bytes u32 | tail_bytes u32 | crc32c u32 | magic[4]

The checksum is that of the whole entry up to itself, its size included. ``entry_bytes`` leads from
the end of the last entry to its start, so the newest is found without a walk. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import CapacityError, DamagedEntry
from quiver.ship.queue.format import COUNT_MAX, HEAD, U32, Footer, RawEntry

__all__ = [
    "MARKS_MAX",
    "Batch",
    "Mark",
    "Marks",
    "Tail",
    "decode_tail",
    "last_entry",
    "mark_list",
    "mark_map",
    "sound_tail",
    "with_tail",
]

MAGIC: Final = b"QVT1"
FIELD: Final = struct.Struct("<HI")
TRAILER: Final = struct.Struct("<III4s")
BATCH: Final = struct.Struct("<QI")
MARK: Final = struct.Struct("<16sHQ")
MARKS_MAX: Final = 16_384
"""Each is 26 bytes that every append writes again."""

_KIND_BATCH: Final = 1
_KIND_MARKS: Final = 2
_KIND_ACKED: Final = 3
_SIZE_MIN: Final = len(MAGIC) + TRAILER.size


class Batch(NamedTuple):
    """The object that an entry points to."""

    byte_count: int
    crc32c: int


class Mark(NamedTuple):
    """All segments of a core up to this one are in the queue, or were."""

    store_id: bytes
    core: int
    segment_seq: int


Marks = Mapping[tuple[bytes, int], int]
"""By store and core, the highest ``segment_seq`` that was appended."""


class Tail(NamedTuple):
    """What ours say of an entry."""

    batch: Batch | None = None
    marks: tuple[Mark, ...] = ()
    """Of the whole queue; only the newest entry has them."""
    is_acked: bool = False
    """The entry is dequeued and stays for its marks alone."""
    unknown: tuple[tuple[int, bytes], ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nothing in it is about the queue as a whole."""
        return not self.marks and not self.is_acked

    def plain(self) -> Tail:
        """Leave out what is about the queue as a whole."""
        return self._replace(marks=(), is_acked=False)


def mark_map(marks: Iterable[Mark]) -> dict[tuple[bytes, int], int]:
    """Give marks by store and core."""
    return {(mark.store_id, mark.core): mark.segment_seq for mark in marks}


def mark_list(marks: Marks) -> tuple[Mark, ...]:
    """Give marks in the order in which they are written; raises CapacityError for too many."""
    if len(marks) > MARKS_MAX:
        raise CapacityError(
            f"the queue would remember {len(marks):,} cores of stores, the most is {MARKS_MAX:,}",
            hint="ship to a new queue",
        )
    return tuple(Mark(*key, seq) for key, seq in sorted(marks.items()))


def with_tail(core: bytes | memoryview, tail: Tail | None) -> bytes:
    """Write an entry: ``core`` is what lies between its size and its tail."""
    fields = _encode_fields(tail) if tail is not None else b""
    tail_size = _SIZE_MIN + len(fields) if tail is not None else 0
    size = len(core) + tail_size
    if size > COUNT_MAX:
        raise CapacityError(f"an entry has {size:,} bytes, the most is {COUNT_MAX:,}")
    if tail is None:
        return b"".join((U32.pack(size), core))
    head = b"".join((U32.pack(size), core, MAGIC, fields, U32.pack(U32.size + size)))
    head += U32.pack(tail_size)
    return b"".join((head, U32.pack(crc32c(head)), MAGIC))


def _encode_fields(tail: Tail) -> bytes:
    fields: list[tuple[int, bytes]] = []
    if tail.batch is not None:
        fields.append((_KIND_BATCH, BATCH.pack(*tail.batch)))
    if tail.marks:
        fields.append((_KIND_MARKS, b"".join(MARK.pack(*mark) for mark in tail.marks)))
    if tail.is_acked:
        fields.append((_KIND_ACKED, b""))
    fields += tail.unknown
    return b"".join(FIELD.pack(kind, len(value)) + value for kind, value in fields)


def last_entry(area: memoryview, footer: Footer) -> RawEntry | None:
    """Find the last entry from the end of its area; None if that has no tail of ours.

    None also where the numbers of the first entry, the last one and the footer do not agree: then
    a walk tells damage from what others wrote.
    """
    if len(area) < HEAD.size + TRAILER.size:
        return None
    size, _, _, magic = TRAILER.unpack_from(area, len(area) - TRAILER.size)
    start = len(area) - size
    if magic != MAGIC or start < 0 or size < HEAD.size + _SIZE_MIN:
        return None
    length, sequence = HEAD.unpack_from(area, start)
    if length != size - U32.size or sequence + 1 != footer.next_sequence:
        return None
    if sequence - HEAD.unpack_from(area)[1] + 1 != footer.entry_count:
        return None
    return RawEntry(start, len(area), sequence)


def decode_tail(
    area: memoryview, raw: RawEntry, *, items_end: int, base: int = 0
) -> tuple[Tail, int] | None:
    """Read the tail of an entry, and where it begins; None if the entry has none of ours.

    It is known by how it begins behind the items and by how it ends, so no single flipped bit
    hides one. Raises DamagedEntry if there is one and its checksum or structure is wrong.
    """
    entry, extra = area[raw.start : raw.end], area[items_end : raw.end]
    begins = _begins(extra)
    ends = len(entry) >= _SIZE_MIN and bytes(entry[-len(MAGIC) :]) == MAGIC
    if ends and not extra:  # A payload of somebody else, or a length that grew over our tail.
        ends = TRAILER.unpack_from(entry, len(entry) - TRAILER.size)[0] == len(entry)
    if not (begins or ends):
        return None
    if not ends:
        raise DamagedEntry("the tail of an entry has no end", offset=base + raw.start)
    return sound_tail(area, raw, base=base)


def sound_tail(area: memoryview, raw: RawEntry, *, base: int = 0) -> tuple[Tail, int]:
    """Read the tail of an entry that is known to have one; raises DamagedEntry."""
    entry, at = area[raw.start : raw.end], base + raw.start
    entry_size, tail_size, expected, _ = TRAILER.unpack_from(entry, len(entry) - TRAILER.size)
    found = crc32c(entry[: -(U32.size + len(MAGIC))])
    if found != expected:
        raise DamagedEntry(
            "the checksum of an entry is wrong",
            offset=at,
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    start = len(entry) - tail_size
    fits = _SIZE_MIN <= tail_size <= len(entry) and _begins(entry[start:])
    if entry_size != len(entry) or not fits:
        raise DamagedEntry("the tail of an entry has wrong sizes", offset=at)
    fields = entry[start + len(MAGIC) : len(entry) - TRAILER.size]
    return _decode_fields(fields, at), raw.start + start


def _begins(data: memoryview) -> bool:
    return bytes(data[: len(MAGIC)]) == MAGIC


def _decode_fields(fields: memoryview, offset: int) -> Tail:
    tail = Tail()
    at = 0
    while at < len(fields):
        if len(fields) - at < FIELD.size:
            raise DamagedEntry("a field of a tail is cut", offset=offset)
        kind, size = FIELD.unpack_from(fields, at)
        at += FIELD.size
        if size > len(fields) - at:
            raise DamagedEntry("the value of a field of a tail is cut", offset=offset)
        tail = _with_field(tail, kind, bytes(fields[at : at + size]), offset=offset)
        at += size
    return tail


def _with_field(tail: Tail, kind: int, value: bytes, *, offset: int) -> Tail:
    if kind == _KIND_BATCH and len(value) == BATCH.size:
        return tail._replace(batch=Batch(*BATCH.unpack(value)))
    if kind == _KIND_MARKS and len(value) % MARK.size == 0:
        marks = tuple(Mark(*fields) for fields in MARK.iter_unpack(value))
        if len(mark_map(marks)) == len(marks):
            return tail._replace(marks=marks)
    elif kind == _KIND_ACKED and not value:
        return tail._replace(is_acked=True)
    elif kind not in (_KIND_BATCH, _KIND_MARKS, _KIND_ACKED):
        return tail._replace(unknown=(*tail.unknown, (kind, value)))
    raise DamagedEntry(
        f"a field of kind {kind} in a tail is wrong", offset=offset, found=len(value)
    )
