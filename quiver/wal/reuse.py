"""Bytes of a log file that was used before: behind its end lies what was there at that time.

::

    file       header of kind "RE" | beginning | the same again | entry | ... | mark | older bytes
    beginning  an entry: a checkpoint that names the generation of its file as well
    mark       0 u32 | wal_seq u64 | crc32c u32 | tag u32

Every checksum in such a file is XORed with the mask of its generation, so that nothing older in it
can pass for an entry of now, not even a log file that somebody appended as data. The mark is where
the entries end: it tells the last ``wal_seq``, and the next entry is written over it. As long as
its last bytes, the tag, are there, that was not finished.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from quiver.disk import Bytes
from quiver.payload import SEQ_MAX
from quiver.wal.format import (
    CHECKPOINT,
    GENERATION_MAX,
    HEAD,
    HEADER,
    HEADER_BYTES,
    LENGTH,
    MAGIC,
    REUSED,
    VERSION,
    Place,
    encode_header,
)

__all__ = [
    "BEGINNING_BYTES",
    "FIRST",
    "MARK_BYTES",
    "dressed",
    "encode_beginning",
    "encode_mark",
    "generation_in",
    "has_tag",
    "is_reused",
    "mark_in",
    "mask_of",
    "masks_of",
    "split",
    "tag_of",
]

_PLAIN: Final = HEADER.pack(MAGIC, VERSION, 0, b"")[:14]
"""How the header of a file begins that was not used before."""
_FACTOR: Final = 0x9E3779B1
_CRC: Final = struct.Struct("<I")
_BODY: Final = struct.Struct("<QQQ")
_BODY_BYTES: Final = HEAD.size + _BODY.size
BEGINNING_BYTES: Final = LENGTH.size + _BODY_BYTES + _CRC.size
FIRST: Final = HEADER_BYTES + 2 * BEGINNING_BYTES
"""Where the first bundle of such a file is."""
MARK: Final = struct.Struct("<IQII")
MARK_BYTES: Final = MARK.size
_CHECKED: Final = struct.calcsize("<IQ")
_TAG: Final = struct.Struct("<I")
_ALL_BITS: Final = 0xFFFFFFFF


def mask_of(generation: int) -> int:
    """Give what the checksums of a generation are XORed with, which is never 0.

    Neighbours for billions of files have others. It is no checksum itself, or a damaged generation
    in a beginning could cancel out with that of its bytes.
    """
    return generation * _FACTOR & _ALL_BITS or 1


def encode_beginning(digest: bytes, generation: int, last_seq: int, *, truncated: Place) -> bytes:
    """Write all that such a file begins with, and the mark: it has no entry yet."""
    mask = mask_of(generation)
    body = HEAD.pack(CHECKPOINT, 0, last_seq, 0) + _BODY.pack(*truncated, generation)
    entry = LENGTH.pack(len(body)) + body + _CRC.pack(crc32c(body) ^ mask)
    return encode_header(digest, kind=REUSED) + entry + entry + encode_mark(last_seq, mask)


def generation_in(head: bytes) -> int | None:
    """Read the generation that a file says it is of; None for one that was not used before.

    The beginning is there twice, so that no damaged byte can make a file unreadable.
    """
    for start in range(HEADER_BYTES, FIRST, BEGINNING_BYTES):
        data = head[start : start + BEGINNING_BYTES]
        if len(data) < BEGINNING_BYTES:
            break
        # The length is outside the checksum, and is not needed.
        body = data[LENGTH.size : -_CRC.size]
        generation = _BODY.unpack_from(body, HEAD.size)[2]
        (stored,) = _CRC.unpack(data[-_CRC.size :])
        if not 1 <= generation <= GENERATION_MAX or body[0] != CHECKPOINT:
            continue
        if crc32c(body) ^ mask_of(generation) == stored:
            return int(generation)
    return None


def is_reused(head: bytes) -> bool:
    """Whether the header of a file says that it was used before."""
    return HEADER.unpack(head)[2] == REUSED if len(head) == HEADER_BYTES else False


def masks_of(head: bytes, generation: int | None) -> tuple[int, ...]:
    """Say which masks the checksums of a file may have: mostly one, 0 if it was not used before.

    Where its beginning is damaged, ``generation`` is what the file's name and others tell.
    """
    own = generation_in(head)
    if own is not None:
        return (mask_of(own),)
    if generation is None or head.startswith(_PLAIN):
        return (0,)
    return (0, mask_of(generation))


def encode_mark(wal_seq: int, mask: int) -> bytes:
    """Write the end: the last entry before it has this number."""
    head = MARK.pack(0, wal_seq, 0, 0)[:_CHECKED]
    return MARK.pack(0, wal_seq, crc32c(head) ^ mask, mask ^ _ALL_BITS)


def mark_in(data: bytes | memoryview, mask: int) -> int | None:
    """Read the ``wal_seq`` in a mark; None if there is no mark of this mask."""
    if len(data) < MARK_BYTES:
        return None
    length, wal_seq, stored, _ = MARK.unpack_from(data)
    good = length == 0 and wal_seq <= SEQ_MAX and crc32c(data[:_CHECKED]) ^ mask == stored
    return int(wal_seq) if good else None


def tag_of(mask: int) -> bytes:
    """Give the last bytes of a mark."""
    return _TAG.pack(mask ^ _ALL_BITS)


def has_tag(data: bytes | memoryview, mask: int) -> bool:
    """Whether there is a mark, or one that an entry was begun to be written over."""
    return data[MARK_BYTES - _TAG.size : MARK_BYTES] == tag_of(mask)


def dressed(parts: Sequence[Bytes], mask: int) -> list[Bytes]:
    """Give the parts of an entry with the checksum that it has under a mask; it is the end."""
    *before, last = parts
    (checksum,) = _CRC.unpack_from(last, len(last) - _CRC.size)
    return [*before, bytes(last[: -_CRC.size]) + _CRC.pack(checksum ^ mask)]


def split(
    parts: Sequence[Bytes],
) -> tuple[bytes, list[Bytes]]:
    """Part what an entry writes over the mark before it from the rest."""
    head, behind = bytes(parts[0]), 1
    if len(head) < MARK_BYTES:
        head, behind = head + bytes(parts[1]), 2
    return head[:MARK_BYTES], [memoryview(head)[MARK_BYTES:], *parts[behind:]]
