"""What the Rust Quiver writes beside its segments, as bytes; only read here, never written.

::

    log       header (38, or more) | entry | entry | ...
    header    magic[10] | version u16 | header_size u16 | layout hash[16] | position_start u64
    entry     entry_len u32 | head (25) | block | block | ... | crc32 u32
    head      type u8 | ingestion_ns i64 | sequence u64 | slot bitmap u64
    block     slot_id u16 | fingerprint[32] | row_count u32 | payload_len u32 | payload
    cursor    magic[8] | version u16 | size u16 | position u64 | crc32 u32
    progress  header (32) | entry | entry | ... | crc32 u32
    entry     segment_seq u64 | bundle_count u32 | word_count u16 | word u64 ...

Everything is little-endian, each checksum is CRC-32 as zlib has it. ``FORMAT.md`` is the page.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final, NamedTuple

from quiver.errors import DamagedEntry, TornEntry, VersionError
from quiver.payload import EncodedBundle, Payload
from quiver.slots import SLOTS_MAX

__all__ = [
    "BLOCK",
    "BUNDLE",
    "CURSOR",
    "CURSOR_BYTES_MAX",
    "ENTRY_BYTES_MAX",
    "ENTRY_BYTES_MIN",
    "ENTRY_OVERHEAD",
    "HEAD",
    "HEADER",
    "HEADER_BYTES",
    "LAYOUT",
    "LENGTH",
    "PROGRESS",
    "PROGRESS_BYTES_MAX",
    "PROGRESS_ENTRY",
    "Frame",
    "Header",
    "Progress",
    "SegmentProgress",
    "blocks_fit",
    "decode_bundle",
    "decode_cursor",
    "decode_header",
    "decode_progress",
    "frame_at",
    "frame_with_damaged_length",
]

HEADER: Final = struct.Struct("<10sHH16sQ")
LENGTH: Final = struct.Struct("<I")
HEAD: Final = struct.Struct("<BqQQ")
BLOCK: Final = struct.Struct("<H32sII")
CURSOR: Final = struct.Struct("<8sHHQI")
PROGRESS: Final = struct.Struct("<8sHHHQI6s")
PROGRESS_ENTRY: Final = struct.Struct("<QIH")
CRC: Final = struct.Struct("<I")

MAGIC: Final = b"QUIVER\0WAL"
CURSOR_MAGIC: Final = b"QUIVER\0T"
PROGRESS_MAGIC: Final = b"QUIVSUB\0"
LAYOUT: Final = b"QUIVER_SEGCFG\0\0\0"
"""Stands where a digest of the layout was meant to be; version 1 always writes this."""
VERSION: Final = 1
BUNDLE: Final = 0
"""The one entry type of version 1. Whatever else stands there is skipped by its length."""

HEADER_BYTES: Final = HEADER.size
ENTRY_OVERHEAD: Final = LENGTH.size + CRC.size
ENTRY_BYTES_MIN: Final = ENTRY_OVERHEAD + HEAD.size
ENTRY_BYTES_MAX: Final = 256 << 20
"""The longest ``entry_len`` that version 1 reads."""
CURSOR_BYTES_MAX: Final = 0xFFFF
PROGRESS_BYTES_MAX: Final = 256 << 20
PROGRESS_ENTRIES_MAX: Final = 1_000_000

_WORD_BITS: Final = 64
_WORD_BYTES: Final = 8


class Header(NamedTuple):
    """A log file's header; ``position_start`` is the place of its first entry in the whole log."""

    header_bytes: int
    layout: bytes
    position_start: int


class Frame(NamedTuple):
    """One checked entry: it lies in ``[offset, end)`` of the buffer it was read from."""

    offset: int
    end: int
    entry_type: int
    ingestion_ns: int
    sequence: int
    body: memoryview
    blocks: tuple[int, ...]
    """Where each block of a bundle begins in the body; in any order of slots."""


class SegmentProgress(NamedTuple):
    """Which bundles of a segment are resolved: runs (first, count), ascending and apart."""

    segment_seq: int
    bundle_count: int
    runs: tuple[tuple[int, int], ...]


class Progress(NamedTuple):
    """One subscriber's file. ``flags`` and ``oldest_incomplete`` are told and obeyed by nobody."""

    flags: int
    oldest_incomplete: int
    segments: tuple[SegmentProgress, ...]


def decode_header(data: bytes) -> Header:
    """Read a log file's header, of which ``data`` has the first 38 bytes.

    Raises TornEntry, DamagedEntry or, for another version, VersionError. The layout is given as it
    is: an entry says itself how it is laid out.
    """
    if len(data) < HEADER_BYTES:
        raise TornEntry("a log's header ends early", expected=HEADER_BYTES, found=len(data))
    magic, version, header_bytes, layout, start = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise DamagedEntry("a log's header has no magic", expected=MAGIC, found=magic)
    if version != VERSION:
        raise _newer("a log", version)
    if header_bytes < HEADER_BYTES:
        raise DamagedEntry(
            "a log's header has an impossible size",
            offset=12,
            expected=f"at least {HEADER_BYTES}",
            found=header_bytes,
        )
    return Header(header_bytes, layout, start)


def frame_at(buffer: memoryview, offset: int) -> Frame:
    """Check the entry that starts at ``offset``; its body is a view of the buffer.

    Raises TornEntry if the buffer ends before the entry does, DamagedEntry if its length cannot be
    right or its checksum or structure is wrong.
    """
    rest = len(buffer) - offset
    if rest < LENGTH.size:
        raise TornEntry("an entry ends inside its length", offset=offset, expected=4, found=rest)
    (length,) = LENGTH.unpack_from(buffer, offset)
    if not HEAD.size <= length <= ENTRY_BYTES_MAX:
        raise DamagedEntry(
            "the length of an entry is impossible",
            offset=offset,
            expected=f"{HEAD.size} to {ENTRY_BYTES_MAX}",
            found=length,
        )
    if rest < length + ENTRY_OVERHEAD:
        raise TornEntry(
            "an entry ends early", offset=offset, expected=length + ENTRY_OVERHEAD, found=rest
        )
    return _checked(buffer, offset, length)


def frame_with_damaged_length(buffer: memoryview, offset: int) -> Frame | None:
    """Find an entry whose length alone is wrong, by adding up its blocks; else None.

    The length is the one field that no checksum covers, so the entry itself is as good as any.
    """
    start = offset + LENGTH.size
    length = _added_up(buffer, start)
    if length is None or buffer[start] != BUNDLE or start + length + CRC.size > len(buffer):
        return None
    try:
        return _checked(buffer, offset, length)
    except DamagedEntry:
        return None


def blocks_fit(buffer: memoryview, offset: int) -> bool:
    """Whether the blocks of a bundle at ``offset`` add up to its length; no byte is checksummed."""
    if len(buffer) - offset < ENTRY_BYTES_MIN:
        return False
    (length,) = LENGTH.unpack_from(buffer, offset)
    return _added_up(buffer, offset + LENGTH.size) == length


def _added_up(buffer: memoryview, start: int) -> int | None:
    """Give the length that the blocks behind a head come to; None if they leave the buffer."""
    if start + HEAD.size + CRC.size > len(buffer):
        return None
    bitmap = HEAD.unpack_from(buffer, start)[3]
    length = HEAD.size
    for _ in range(bitmap.bit_count()):
        if length + BLOCK.size > ENTRY_BYTES_MAX or start + length + BLOCK.size > len(buffer):
            return None
        length += BLOCK.size + BLOCK.unpack_from(buffer, start + length)[3]
    return length if length <= ENTRY_BYTES_MAX else None


def _checked(buffer: memoryview, offset: int, length: int) -> Frame:
    start = offset + LENGTH.size
    body = buffer[start : start + length]
    (expected,) = CRC.unpack_from(buffer, start + length)
    _check_sum("an entry", body, expected, offset=offset)
    entry_type, ingestion_ns, sequence, bitmap = HEAD.unpack_from(body)
    blocks = _blocks(body, bitmap.bit_count(), offset) if entry_type == BUNDLE else ()
    end = offset + length + ENTRY_OVERHEAD
    return Frame(offset, end, entry_type, ingestion_ns, sequence, body, blocks)


def _blocks(body: memoryview, count: int, offset: int) -> tuple[int, ...]:
    """Where each block starts; DamagedEntry unless they fill the body and each is of another slot.

    The bitmap only says how many there are: they come in the order in which they were given.
    """
    places: list[int] = []
    slots: set[int] = set()
    end, size = HEAD.size, len(body)
    for _ in range(count):
        places.append(end)
        if end + BLOCK.size <= size:
            slot_id, _, _, length = BLOCK.unpack_from(body, end)
            if slot_id >= SLOTS_MAX or slot_id in slots:
                raise DamagedEntry(
                    "a block of an entry is of an impossible slot",
                    offset=offset + LENGTH.size + end,
                    expected=f"another one, below {SLOTS_MAX}",
                    found=slot_id,
                )
            slots.add(slot_id)
            end += length
        end += BLOCK.size
        if end > size:
            break
    if end != size:
        raise DamagedEntry(
            "the blocks of an entry do not add up to its length",
            offset=offset,
            expected=size,
            found=end,
        )
    return tuple(places)


def decode_bundle(frame: Frame) -> EncodedBundle:
    """Read a bundle out of a checked frame; payloads, by slot id, are views of its body.

    ``wal_seq`` is the other log's sequence, payload type ids are slot ids, and a time before 1970
    reads as 1970.
    """
    payloads = []
    for offset in frame.blocks:
        slot_id, fingerprint, rows, length = BLOCK.unpack_from(frame.body, offset)
        start = offset + BLOCK.size
        data = frame.body[start : start + length]
        payloads.append(Payload(slot_id, slot_id, fingerprint, rows, data))
    payloads.sort(key=lambda payload: payload.slot_id)
    return EncodedBundle(frame.sequence, max(frame.ingestion_ns, 0), tuple(payloads))


def decode_cursor(data: bytes) -> int:
    """Read the first position of the log that is still needed.

    A later version may be longer; its checksum is the last 4 of the bytes that it says it has.
    """
    if len(data) < CURSOR.size:
        raise TornEntry("the cursor ends early", expected=CURSOR.size, found=len(data))
    magic, version, size, position, _ = CURSOR.unpack_from(data)
    if magic != CURSOR_MAGIC:
        raise DamagedEntry("the cursor has no magic", expected=CURSOR_MAGIC, found=magic)
    if size < CURSOR.size or (version <= VERSION and size != CURSOR.size):
        raise DamagedEntry(
            "the cursor has an impossible size", offset=10, expected=CURSOR.size, found=size
        )
    if size > len(data):
        raise TornEntry("the cursor ends early", expected=size, found=len(data))
    (expected,) = CRC.unpack_from(data, size - CRC.size)
    _check_sum("the cursor", data[: size - CRC.size], expected, offset=0)
    if version < VERSION:
        raise DamagedEntry("the cursor has no version", offset=8, expected=VERSION, found=version)
    return int(position)


def decode_progress(data: bytes) -> Progress:
    """Read a subscriber's file; nothing is allocated for what its bytes do not hold.

    Bits beyond a segment's bundles mean nothing, nor do bytes behind the last entry. Raises
    TornEntry, DamagedEntry or, for another version, VersionError.
    """
    least = PROGRESS.size + CRC.size
    if len(data) < least:
        raise TornEntry("the progress file ends early", expected=least, found=len(data))
    magic, version, header_bytes, flags, oldest, count, _ = PROGRESS.unpack_from(data)
    if magic != PROGRESS_MAGIC:
        raise DamagedEntry("the progress file has no magic", expected=PROGRESS_MAGIC, found=magic)
    end = len(data) - CRC.size
    _check_sum("the progress file", memoryview(data)[:end], CRC.unpack_from(data, end)[0], offset=0)
    if version != VERSION:
        raise _newer("the progress file", version)
    if not PROGRESS.size <= header_bytes <= end:
        raise DamagedEntry(
            "the progress file's header has an impossible size",
            offset=10,
            expected=f"{PROGRESS.size} to {end}",
            found=header_bytes,
        )
    most = min(PROGRESS_ENTRIES_MAX, (end - header_bytes) // PROGRESS_ENTRY.size)
    if count > most:
        raise DamagedEntry(
            "the progress file speaks of more segments than it has room for",
            offset=22,
            expected=f"at most {most}",
            found=count,
        )
    segments: dict[int, SegmentProgress] = {}
    offset = header_bytes
    for _ in range(count):
        segment, behind = _segment_progress(data, offset, end)
        if segment.segment_seq in segments:
            raise DamagedEntry(
                "the progress file has a segment twice",
                offset=offset,
                expected="each once",
                found=segment.segment_seq,
            )
        segments[segment.segment_seq] = segment
        offset = behind
    return Progress(flags, oldest, tuple(segments.values()))


def _segment_progress(data: bytes, offset: int, end: int) -> tuple[SegmentProgress, int]:
    """Read one entry of a progress file; give it and where the next one begins."""
    start = offset + PROGRESS_ENTRY.size
    if start > end:
        raise DamagedEntry(
            "an entry of the progress file ends early", offset=offset, expected=start, found=end
        )
    segment_seq, bundle_count, word_count = PROGRESS_ENTRY.unpack_from(data, offset)
    wanted = -(-bundle_count // _WORD_BITS)
    stop = start + _WORD_BYTES * word_count
    if word_count != wanted or stop > end:
        raise DamagedEntry(
            f"the progress of segment {segment_seq} has a bitmap of another size",
            offset=offset,
            expected=f"{wanted} words before byte {end}",
            found=f"{word_count} words up to byte {stop}",
        )
    runs = _runs(data[start:stop], bundle_count)
    return SegmentProgress(segment_seq, bundle_count, runs), stop


def _runs(words: bytes, count: int) -> tuple[tuple[int, int], ...]:
    """Turn a bitmap, lowest bit first, into runs of set bits below ``count``."""
    if not count:
        return ()
    bits = int.from_bytes(words, "little") & ((1 << count) - 1)
    text = f"{bits:0{count}b}"[::-1]
    return tuple((found.start(), found.end() - found.start()) for found in re.finditer("1+", text))


def _check_sum(whose: str, data: bytes | memoryview, expected: int, *, offset: int) -> None:
    found = zlib.crc32(data)
    if found != expected:
        raise DamagedEntry(
            f"the checksum of {whose} is wrong",
            offset=offset,
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )


def _newer(what: str, version: int) -> VersionError:
    return VersionError(
        f"{what} of the Rust Quiver has format version {version}, this Quiver reads {VERSION}",
        hint="import it with a newer Quiver",
    )
