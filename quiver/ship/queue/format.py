"""The bytes of entries and of the footer, as OpenData's Buffer has them. ``FORMAT.md`` is the spec.

::

    footer   count u32 | next_sequence u64 | epoch u64 | version u16      the end of each manifest
    entry    size u32 | sequence u64 | name_len u16 | location | item_count u32 | item ... | tail
    item     start_index u32 | ingestion_time_ms i64 | payload_len u32 | payload

Everything is little-endian. ``size`` counts what follows it. The tail is ours (``tail``): readers
that do not know it go on behind ``size`` and never see it. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quiver.errors import DamagedEntry, InputError, TornEntry

__all__ = [
    "COUNT_MAX",
    "FOOTER",
    "HEAD",
    "ITEM",
    "LOCATION_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "SEQUENCE_MAX",
    "UNSTARTED",
    "VERSION",
    "Body",
    "Footer",
    "Item",
    "RawEntry",
    "decode_body",
    "decode_footer",
    "encode_body",
    "encode_footer",
    "next_epoch",
    "walk",
]

FOOTER: Final = struct.Struct("<IQQH")
HEAD: Final = struct.Struct("<IQ")
ITEM: Final = struct.Struct("<IqI")
U32: Final = struct.Struct("<I")
LOCATION: Final = struct.Struct("<H")
VERSION: Final = 1

COUNT_MAX: Final = (1 << 32) - 1
LOCATION_BYTES_MAX: Final = (1 << 16) - 1
PAYLOAD_BYTES_MAX: Final = (1 << 32) - 1
SEQUENCE_MAX: Final = (1 << 64) - 1
UNSTARTED: Final = (1 << 64) - 1
"""An epoch that no consumer ever has: the reference means by it that none was taken yet."""
SIZE_MIN: Final = 14
"""Of an entry with an empty location and no items, behind its size."""
_START_MAX: Final = (1 << 32) - 1
_TIME_MAX: Final = (1 << 63) - 1


class Footer(NamedTuple):
    """The end of a manifest."""

    entry_count: int = 0
    next_sequence: int = 0
    """The number that the next append gets."""
    epoch: int = 0
    version: int = VERSION


class Item(NamedTuple):
    """What one call of a producer put into a batch."""

    start_index: int
    """Of its first record; the last one is before the next item's first."""
    ingestion_time_ms: int
    payload: bytes = b""


class RawEntry(NamedTuple):
    """Where an entry lies, from its size to its end, and its number."""

    start: int
    end: int
    sequence: int


class Body(NamedTuple):
    """What the reference knows of an entry; ``end`` is the byte behind its items."""

    location: str
    items: tuple[Item, ...]
    end: int


def encode_footer(footer: Footer) -> bytes:
    """Write the 22 bytes at the end."""
    return FOOTER.pack(*footer)


def decode_footer(data: bytes | memoryview) -> Footer:
    """Read the end of a manifest, whatever its version is; raises TornEntry."""
    start = len(data) - FOOTER.size
    if start < 0:
        raise TornEntry("a manifest is too short", expected=FOOTER.size, found=len(data))
    return Footer(*FOOTER.unpack_from(data, start))


def next_epoch(epoch: int) -> int:
    """Give the epoch of the next consumer: after the largest comes 0."""
    return epoch + 1 if epoch + 1 < UNSTARTED else 0


def encode_body(sequence: int, location: str, items: Sequence[Item]) -> bytes:
    """Write an entry without size and tail; raises InputError."""
    name = location.encode()
    if len(name) > LOCATION_BYTES_MAX:
        text = f"a location has {len(name):,} bytes, the most is {LOCATION_BYTES_MAX:,}"
        raise InputError(text)
    if len(items) > COUNT_MAX:
        raise InputError(f"an entry has {len(items):,} items, the most is {COUNT_MAX:,}")
    parts = [HEAD.pack(0, sequence)[U32.size :], LOCATION.pack(len(name)), name]
    parts.append(U32.pack(len(items)))
    for item in items:
        _check_item(item)
        parts.append(ITEM.pack(item.start_index, item.ingestion_time_ms, len(item.payload)))
        parts.append(item.payload)
    return b"".join(parts)


def _check_item(item: Item) -> None:
    if len(item.payload) > PAYLOAD_BYTES_MAX:
        text = f"a payload has {len(item.payload):,} bytes, the most is {PAYLOAD_BYTES_MAX:,}"
        raise InputError(text)
    if not 0 <= item.start_index <= _START_MAX:
        raise InputError(f"start_index {item.start_index} is not within 0..{_START_MAX}")
    if not -_TIME_MAX - 1 <= item.ingestion_time_ms <= _TIME_MAX:
        raise InputError(f"ingestion_time_ms {item.ingestion_time_ms} has no place in 64 bits")


def walk(
    area: memoryview, count: int, *, next_sequence: int = SEQUENCE_MAX, base: int = 0
) -> Iterator[RawEntry]:
    """Go through entries by their sizes; places are those in ``area``, errors count from ``base``.

    Raises TornEntry or DamagedEntry at the first that cannot be followed, and at the end for
    bytes that belong to no entry.
    """
    at, end, last = 0, len(area), -1
    for index in range(count):
        if end - at < U32.size:
            raise _cut("no room for the size of an entry", base + at, (U32.size, end - at))
        size: int = U32.unpack_from(area, at)[0]
        if size > end - at - U32.size:
            text = f"entry {index} is longer than the manifest"
            raise _cut(text, base + at, (size, end - at - U32.size))
        if size < SIZE_MIN:
            raise DamagedEntry(
                f"entry {index} is too short for its number and location",
                offset=base + at,
                expected=f"{SIZE_MIN} or more",
                found=size,
            )
        sequence: int = HEAD.unpack_from(area, at)[1]
        if not last < sequence < next_sequence:
            raise DamagedEntry(
                f"the number of entry {index} is not between those before and behind it",
                offset=base + at,
                expected=f"{last + 1} to {next_sequence - 1}",
                found=sequence,
            )
        last, start = sequence, at
        at += U32.size + size
        yield RawEntry(start, at, sequence)
    if at != end:
        raise DamagedEntry(
            "bytes in a manifest belong to no entry", offset=base + at, expected=at, found=end
        )


def decode_body(area: memoryview, raw: RawEntry, *, base: int = 0) -> Body:
    """Read what the reference knows of an entry; raises TornEntry, DamagedEntry."""
    at, end = raw.start + HEAD.size, raw.end
    name_size: int = LOCATION.unpack_from(area, at)[0]
    at += LOCATION.size
    if name_size + U32.size > end - at:
        raise DamagedEntry(
            "an entry is too short for its number and location",
            offset=base + raw.start,
            expected=f"{SIZE_MIN + name_size} or more",
            found=end - raw.start - U32.size,
        )
    try:
        location = str(area[at : at + name_size], "utf-8")
    except UnicodeDecodeError as error:
        raise DamagedEntry("a location is no UTF-8", offset=base + at) from error
    at += name_size
    count: int = U32.unpack_from(area, at)[0]
    at += U32.size
    items: list[Item] = []
    for index in range(count):
        if end - at < ITEM.size:
            raise _cut_item(index, base + at, end - at)
        start_index, time_ms, size = ITEM.unpack_from(area, at)
        at += ITEM.size
        if size > end - at:
            raise _cut(f"the payload of item {index} is cut", base + at, (size, end - at))
        items.append(Item(start_index, time_ms, bytes(area[at : at + size])))
        at += size
    return Body(location, tuple(items), at)


def _cut_item(index: int, at: int, left: int) -> TornEntry:
    """Say which field of an item has no room."""
    fields = ((4, "index"), (12, "time"), (ITEM.size, "payload length"))
    end, name = next(field for field in fields if left < field[0])
    return _cut(f"the {name} of item {index} is cut", at, (end, left))


def _cut(message: str, offset: int, sizes: tuple[int, int]) -> TornEntry:
    return TornEntry(message, offset=offset, expected=sizes[0], found=sizes[1])
