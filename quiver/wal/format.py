"""Bytes of the write-ahead log: file header and entry. ``FORMAT.md`` is the spec.

::

    file     header (30) | entry | entry | ...
    header   magic[10] | version u16 | kind u16 | layout digest[16]
    entry    entry_len u32 | head (25) | block | block | ... | crc32c u32
    head     type u8 | ingestion_ns i64 | wal_seq u64 | slot bitmap u64
    note     note_len u32 | note, behind the head of a bundle of type 2 and of no other
    block    payload_type_id u16 | fingerprint[32] | row_count u32 | payload_len u32 | payload

Everything is little-endian. ``entry_len`` counts head and blocks, and the checksum covers the same
bytes: the length itself is outside it. A frame is therefore believed only if its length is at
least 25, at most the limit, and exactly what its blocks add up to; otherwise 4 zero bytes, whose
checksum is 0 too, would be an endless row of valid entries.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, DamageError, TornEntry, VersionError
from quiver.payload import SEQ_MAX, EncodedBundle, Octets, Payload

__all__ = [
    "BEGIN_BYTES",
    "BLOCK",
    "BUNDLE",
    "BUNDLE_BYTES_MIN",
    "CHECKPOINT",
    "CHECKPOINT_BODY",
    "CRC_BYTES",
    "ENTRY_BYTES_MIN",
    "ENTRY_OVERHEAD",
    "GENERATION_MAX",
    "HEAD",
    "HEADER",
    "HEADER_BYTES",
    "LENGTH",
    "MAGIC",
    "NOTED",
    "NOTE_LENGTH",
    "REUSED",
    "VERSION",
    "Frame",
    "Place",
    "decode_bundle",
    "decode_checkpoint",
    "decode_header",
    "decode_stored",
    "encode_bundle",
    "encode_checkpoint",
    "encode_header",
    "encode_struck",
    "entry_bytes",
    "entry_parts",
    "frame_at",
    "frame_with_damaged_length",
]

HEADER: Final = struct.Struct("<10sHH16s")
LENGTH: Final = struct.Struct("<I")
HEAD: Final = struct.Struct("<BqQQ")
BLOCK: Final = struct.Struct("<H32sII")
CRC: Final = struct.Struct("<I")
NOTE_LENGTH: Final = struct.Struct("<I")

MAGIC: Final = b"QUIVER\0WAL"
VERSION: Final = 1
REUSED: Final = 0x4552
"""The kind of a file that was used before, "RE"; others have 0. No damaged byte makes it either."""
HEADER_BYTES: Final = HEADER.size
ENTRY_OVERHEAD: Final = LENGTH.size + CRC.size
ENTRY_BYTES_MIN: Final = ENTRY_OVERHEAD + HEAD.size
BUNDLE_BYTES_MIN: Final = ENTRY_BYTES_MIN + BLOCK.size

GENERATION_MAX: Final = 10**18
"""No log gets there; what names a later file is no sidecar of ours. Names have up to 19 digits."""

BUNDLE: Final = 0
CHECKPOINT: Final = 1
NOTED: Final = 2
"""Entry types. Whatever else stands there is skipped by its length."""
_NUMBERED: Final = (BUNDLE, CHECKPOINT, NOTED)
CHECKPOINT_BODY: Final = struct.Struct("<QQ")
_BEGIN: Final = struct.Struct(LENGTH.format + HEAD.format[1:])
BEGIN_BYTES: Final = _BEGIN.size
"""Before the first block of a bundle without a note."""
CRC_BYTES: Final = CRC.size
_NO_MASK: Final = (0,)


class Place(NamedTuple):
    """A byte of the log that stays where it is when files rotate: which file, where in it."""

    generation: int
    offset: int


class Frame(NamedTuple):
    """One checked entry: it lies in ``[offset, end)`` of the buffer it was read from."""

    offset: int
    end: int
    entry_type: int
    """BUNDLE also for one with a note."""
    ingestion_ns: int
    wal_seq: int
    slot_bitmap: int
    body: memoryview
    blocks: tuple[int, ...]
    """Where each block of a bundle begins in the body."""
    checksum: int
    """CRC32C of the body, as it is and as it should be."""
    note: memoryview | None = None


def encode_header(digest: bytes, *, kind: int = 0) -> bytes:
    """Write a file header for a layout digest of 16 bytes; ``kind`` is 0 or REUSED."""
    return HEADER.pack(MAGIC, VERSION, kind, digest)


def decode_header(data: bytes, digest: bytes) -> DamageError | None:
    """Check a file header against the layout digest of the store.

    Gives None if it is right and an error to report if it is damaged but the entries behind it
    can be trusted as far as their own checksums go: one wrong byte in an otherwise expected
    header, no magic at all, or nothing wrong but what is reserved. Another version or another
    layout differs in the digest, that is in many bytes: then VersionError is raised, and nothing
    in the file may be interpreted.
    """
    expected, other = encode_header(digest), encode_header(digest, kind=REUSED)
    if data in (expected, other):
        return None
    if len(data) < HEADER_BYTES:
        return TornEntry("a WAL header is too short", expected=HEADER_BYTES, found=len(data))
    wrong = min(sum(a != b for a, b in zip(data, h, strict=True)) for h in (expected, other))
    magic, version, _kind, found = HEADER.unpack(data)
    if wrong == 1 or magic != MAGIC or (version, found) == (VERSION, digest):
        return DamagedEntry("a WAL header is damaged", expected=expected.hex(), found=data.hex())
    if version != VERSION:
        raise VersionError(
            f"a WAL file has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    raise VersionError(
        f"a WAL file was written for layout {found.hex()}, this store has layout {digest.hex()}",
        hint="open it with the slots it was created with and finalize, then change them",
    )


def entry_bytes(payloads: tuple[Payload, ...], note: bytes | None = None) -> int:
    """Size of the entry that a bundle of these becomes."""
    size = ENTRY_BYTES_MIN + BLOCK.size * len(payloads)
    for payload in payloads:  # Each append asks: a generator takes longer than this.
        size += len(payload.data)
    return size if note is None else size + NOTE_LENGTH.size + len(note)


def encode_bundle(bundle: EncodedBundle) -> bytes:
    """Write a bundle as one entry; its payloads must be in ascending order of slot id."""
    return b"".join(entry_parts(bundle))


def entry_parts(bundle: EncodedBundle) -> list[Octets]:
    """Give the same as parts, which are to be written one after the other: payloads as they are.

    The first one has all that is before the first payload: each part costs as much as 2 KB of it.
    """
    wal_seq, ingestion_ns, payloads, note = bundle
    entry_type, before = BUNDLE, b""
    if note is not None:
        entry_type, before = NOTED, NOTE_LENGTH.pack(len(note)) + note
    bitmap, body_bytes = 0, HEAD.size + len(before) + BLOCK.size * len(payloads)
    parts: list[Octets] = []
    for slot_id, payload_type_id, fingerprint, row_count, data in payloads:
        size = len(data)
        bitmap |= 1 << slot_id
        body_bytes += size
        parts += (BLOCK.pack(payload_type_id, fingerprint, row_count, size), data)
    if parts:
        before += bytes(parts.pop(0))
    head = _BEGIN.pack(body_bytes, entry_type, ingestion_ns, wal_seq, bitmap) + before
    checksum = crc32c(head[LENGTH.size :])
    for part in parts:
        checksum = crc32c(part, checksum)
    return [head, *parts, CRC.pack(checksum)]


def complete_entry(entry: memoryview, bundle: EncodedBundle) -> None:
    """Write what is around the streams of a bundle without a note, which lie there already.

    Before each of them is room for its block, and before the first one for the head.
    """
    at, bitmap = BEGIN_BYTES, 0
    for slot_id, payload_type_id, fingerprint, row_count, data in bundle.payloads:
        BLOCK.pack_into(entry, at, payload_type_id, fingerprint, row_count, len(data))
        at += BLOCK.size + len(data)
        bitmap |= 1 << slot_id
    length = at - LENGTH.size
    _BEGIN.pack_into(entry, 0, length, BUNDLE, bundle.ingestion_ns, bundle.wal_seq, bitmap)
    CRC.pack_into(entry, at, crc32c(entry[LENGTH.size : at]))


def encode_checkpoint(wal_seq: int, truncated: Place) -> bytes:
    """Write the entry that says: all up to ``wal_seq`` is before this place.

    ``truncated`` is the first place of the log that was still needed when it was written.
    """
    body = HEAD.pack(CHECKPOINT, 0, wal_seq, 0)
    body += CHECKPOINT_BODY.pack(truncated.generation, truncated.offset)
    return LENGTH.pack(len(body)) + body + CRC.pack(crc32c(body))


def encode_struck(entry: bytes, truncated: Place) -> bytes:
    """Write a checkpoint that is as long as a good entry with a note, and takes its place."""
    body = entry[LENGTH.size : -CRC.size]
    mask = crc32c(body) ^ CRC.unpack(entry[-CRC.size :])[0]
    plain = encode_checkpoint(HEAD.unpack_from(body)[2], truncated)[LENGTH.size : -CRC.size]
    struck = plain.ljust(len(body), b"\0")
    return LENGTH.pack(len(body)) + struck + CRC.pack(crc32c(struck) ^ mask)


def decode_checkpoint(frame: Frame) -> Place:
    """Read the place in a checkpoint entry; its ``wal_seq`` is the frame's."""
    if len(frame.body) < HEAD.size + CHECKPOINT_BODY.size:
        raise DamagedEntry(
            "a checkpoint entry is too short",
            offset=frame.offset,
            expected=HEAD.size + CHECKPOINT_BODY.size,
            found=len(frame.body),
        )
    return Place(*CHECKPOINT_BODY.unpack_from(frame.body, HEAD.size))


def frame_at(
    buffer: memoryview, offset: int, entry_bytes_max: int, *, masks: tuple[int, ...] = _NO_MASK
) -> Frame:
    """Check the entry that starts at ``offset``; its body is a view of the buffer.

    Its checksum may be XORed with one of ``masks``, as in files that were used before (``reuse``).
    Raises TornEntry if the buffer ends before the entry does, DamagedEntry if its length cannot
    be right or its checksum or structure is wrong. ``.offset`` of the error is ``offset``.
    """
    rest = len(buffer) - offset
    if rest < LENGTH.size:
        raise TornEntry("an entry ends inside its length", offset=offset, expected=4, found=rest)
    (length,) = LENGTH.unpack_from(buffer, offset)
    if not HEAD.size <= length <= entry_bytes_max:
        raise DamagedEntry(
            "the length of an entry is impossible",
            offset=offset,
            expected=f"{HEAD.size} to {entry_bytes_max}",
            found=length,
        )
    if rest < length + ENTRY_OVERHEAD:
        raise TornEntry(
            "an entry ends early", offset=offset, expected=length + ENTRY_OVERHEAD, found=rest
        )
    return _checked(buffer, offset, length, masks=masks)


def frame_with_damaged_length(
    buffer: memoryview, offset: int, entry_bytes_max: int, *, masks: tuple[int, ...] = _NO_MASK
) -> Frame | None:
    """Find an entry whose length field alone is wrong, by adding up its blocks; else None.

    The length is the one field that no checksum covers, so the entry itself is as good as any.
    """
    if len(buffer) - offset < LENGTH.size + HEAD.size + CRC.size:
        return None
    start = offset + LENGTH.size
    entry_type, _, _, bitmap = HEAD.unpack_from(buffer, start)
    if entry_type not in (BUNDLE, NOTED):
        return None
    length = HEAD.size
    if entry_type == NOTED:  # Its length is no longer than the checksum that there is room for.
        length += NOTE_LENGTH.size + NOTE_LENGTH.unpack_from(buffer, start + length)[0]
    for _ in range(bitmap.bit_count()):
        if length + BLOCK.size > entry_bytes_max or start + length + BLOCK.size > len(buffer):
            return None
        length += BLOCK.size + BLOCK.unpack_from(buffer, start + length)[3]
    if length > entry_bytes_max or start + length + CRC.size > len(buffer):
        return None
    try:
        return _checked(buffer, offset, length, masks=masks)
    except DamagedEntry:
        return None


def _checked(buffer: memoryview, offset: int, length: int, *, masks: tuple[int, ...]) -> Frame:
    start = offset + LENGTH.size
    body = buffer[start : start + length]
    (expected,) = CRC.unpack_from(buffer, start + length)
    if (found := crc32c(body)) ^ expected not in masks:
        raise DamagedEntry(
            "the checksum of an entry is wrong",
            offset=offset,
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    return _parsed(body, offset, found)


def _parsed(body: memoryview, offset: int, checksum: int) -> Frame:
    entry_type, ingestion_ns, wal_seq, bitmap = HEAD.unpack_from(body)
    if wal_seq > SEQ_MAX and entry_type in _NUMBERED:
        raise DamagedEntry(
            "the number of an entry is impossible",
            offset=offset,
            expected=f"at most {SEQ_MAX}",
            found=wal_seq,
        )
    end = offset + len(body) + ENTRY_OVERHEAD
    note: memoryview | None = None
    blocks: tuple[int, ...] = ()
    if entry_type == BUNDLE:
        blocks = _block_offsets(body, bitmap, HEAD.size, offset=offset)
    elif entry_type == NOTED:
        entry_type, note = BUNDLE, _note(body, offset)
        first = HEAD.size + NOTE_LENGTH.size + len(note)
        blocks = _block_offsets(body, bitmap, first, offset=offset)
    return Frame(
        offset, end, entry_type, ingestion_ns, wal_seq, bitmap, body, blocks, checksum, note
    )


def _note(body: memoryview, offset: int) -> memoryview:
    """Give the note of an entry; raises DamagedEntry if it ends behind the entry."""
    start = HEAD.size + NOTE_LENGTH.size
    length = NOTE_LENGTH.unpack_from(body, HEAD.size)[0] if len(body) >= start else len(body)
    if start + length > len(body):
        raise DamagedEntry(
            "the note of an entry ends behind it",
            offset=offset,
            expected=f"at most {max(len(body) - start, 0)}",
            found=length,
        )
    return body[start : start + length]


def _block_offsets(body: memoryview, bitmap: int, first: int, *, offset: int) -> tuple[int, ...]:
    """Where each block starts in the body; raises DamagedEntry unless they fill it exactly."""
    offsets = []
    end, size = first, len(body)
    for _ in range(bitmap.bit_count()):
        offsets.append(end)
        if end + BLOCK.size <= size:
            end += BLOCK.unpack_from(body, end)[3]
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
    return tuple(offsets)


def decode_bundle(frame: Frame) -> EncodedBundle:
    """Read a bundle out of a checked frame; payloads are views of its body.

    A time before 1970 reads as 1970.
    """
    payloads = []
    bitmap = frame.slot_bitmap
    for offset in frame.blocks:
        slot_id = (bitmap & -bitmap).bit_length() - 1
        bitmap &= bitmap - 1
        type_id, fingerprint, rows, length = BLOCK.unpack_from(frame.body, offset)
        start = offset + BLOCK.size
        data = frame.body[start : start + length]
        payloads.append(Payload(slot_id, type_id, fingerprint, rows, data))
    note = None if frame.note is None else bytes(frame.note)
    return EncodedBundle(frame.wal_seq, max(frame.ingestion_ns, 0), tuple(payloads), note)


def decode_stored(body: bytes | memoryview, checksum: int) -> EncodedBundle:
    """Read a bundle out of the body of an entry that was good when it had this checksum.

    Raises DamagedEntry if it has another one now.
    """
    found = crc32c(body)
    if found != checksum:
        raise DamagedEntry(
            "an entry of the log is no longer what was recovered",
            expected=f"{checksum:#010x}",
            found=f"{found:#010x}",
        )
    return decode_bundle(_parsed(memoryview(body), 0, checksum))
