"""The bytes of a partition's record, of its pages, of what was amended. ``FORMAT.md`` is the spec.

::

    record   top (16) | head (56) | texts | open block | block ... | page reference ... | crc32c u32
    page     top (16) | block ... | crc32c u32
    amended  top (16) | change u64 | block | crc32c u32
    block    64 bytes | digest | location ...

Everything is little-endian, and all texts are UTF-8. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from quiver.chain.record.values import (
    NUMBER_MAX,
    PAGE_BLOCKS,
    Amended,
    Block,
    Open,
    PageRef,
    Record,
    faulty_block,
    faulty_blocks,
    faulty_record,
)
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "BLOCK",
    "HEAD",
    "OPEN",
    "REFERENCE",
    "TEXT_BYTES_MAX",
    "TOP",
    "VERSION",
    "decode_amended",
    "decode_page",
    "decode_record",
    "encode_amended",
    "encode_page",
    "encode_record",
]

VERSION: Final = 1
TOP: Final = struct.Struct("<8sHHI")
HEAD: Final = struct.Struct("<QQQQqqBBHI")
OPEN: Final = struct.Struct("<QqB")
BLOCK: Final = struct.Struct("<QQqqQqQBBBBI")
REFERENCE: Final = struct.Struct("<QQqqI16s")
CHANGE: Final = struct.Struct("<Q")
CRC: Final = struct.Struct("<I")

_RECORD: Final = b"QUIVER\0R"
_PAGE: Final = b"QUIVER\0B"
_AMENDED: Final = b"QUIVER\0A"
_CONTINUES: Final = 1
_ABANDONED: Final = 2
_IS_OPEN: Final = 1
_RISES: Final = 2

TEXT_BYTES_MAX: Final = 255


def encode_record(record: Record) -> bytes:
    """Write a record; raises InputError for what may not be."""
    if fault := faulty_record(record):
        raise InputError(f"a record may not be like this: {fault}")
    head = HEAD.pack(
        record.change,
        record.epoch,
        record.next_number,
        record.purged_below,
        record.end,
        record.last_seq,
        record.rf,
        _IS_OPEN * (record.open is not None) + _RISES * record.is_rising,
        len(record.recent),
        len(record.pages),
    )
    parts = [head, _text(record.writer), _text(record.sealing_by)]
    if record.open is not None:
        number, start, locations = record.open
        parts += [OPEN.pack(number, start, len(locations)), *map(_text, locations)]
    parts += [_block(block) for block in record.recent]
    parts += [REFERENCE.pack(*page) for page in record.pages]
    return _whole(_RECORD, b"".join(parts))


def decode_record(data: bytes | memoryview) -> Record:
    """Read a record; raises TornEntry, DamagedEntry, VersionError."""
    reader = _opened(data, _RECORD)
    change, epoch, next_number, below, end, last_seq, rf, flags, blocks, pages = reader.unpack(HEAD)
    writer, sealing_by = reader.text(), reader.text()
    opened = None
    if flags & _IS_OPEN:
        number, start, count = reader.unpack(OPEN)
        opened = Open(number, start, reader.texts(count))
    recent = tuple(reader.block() for _ in range(blocks))
    area = reader.take(pages * REFERENCE.size)
    record = Record(
        change,
        epoch,
        next_number,
        below,
        end,
        last_seq,
        rf,
        bool(flags & _RISES),
        writer,
        sealing_by,
        opened,
        recent,
        tuple(PageRef(*fields) for fields in REFERENCE.iter_unpack(area)),
    )
    fault = faulty_record(record) or ("flags" if flags > _IS_OPEN + _RISES else "")
    if fault or reader.rest:
        raise reader.damage("a record is impossible", found=fault or f"{reader.rest} bytes more")
    return record


def encode_page(blocks: Sequence[Block]) -> bytes:
    """Write a page; raises InputError."""
    if not 1 <= len(blocks) <= PAGE_BLOCKS:
        raise InputError(f"a page has {len(blocks):,} blocks, it may have 1 to {PAGE_BLOCKS}")
    if fault := faulty_blocks(blocks):
        raise InputError(f"a page may not be like this: {fault}")
    return _whole(_PAGE, b"".join(map(_block, blocks)))


def decode_page(data: bytes | memoryview) -> tuple[Block, ...]:
    """Read a page; raises TornEntry, DamagedEntry, VersionError."""
    reader = _opened(data, _PAGE)
    blocks: list[Block] = []
    while reader.rest and len(blocks) < PAGE_BLOCKS:
        blocks.append(reader.block())
    fault = faulty_blocks(blocks) if blocks else "it is empty"
    if fault or reader.rest:
        raise reader.damage("a page is impossible", found=fault or f"{reader.rest} bytes more")
    return tuple(blocks)


def encode_amended(amended: Amended) -> bytes:
    """Write what became of a block; raises InputError."""
    if not 1 <= amended.change <= NUMBER_MAX:
        raise InputError(f"change {amended.change} is not within 1..{NUMBER_MAX}")
    if fault := faulty_block(amended.block):
        raise InputError(f"a block may not be like this: {fault}")
    return _whole(_AMENDED, CHANGE.pack(amended.change) + _block(amended.block))


def decode_amended(data: bytes | memoryview) -> Amended:
    """Read what became of a block; raises TornEntry, DamagedEntry, VersionError."""
    reader = _opened(data, _AMENDED)
    (change,) = reader.unpack(CHANGE)
    block = reader.block()
    fault = faulty_block(block)
    if fault or reader.rest or not 1 <= change <= NUMBER_MAX:
        raise reader.damage("an amended block is impossible", found=fault or change)
    return Amended(change, block)


# bytes -------------------------------------------------------------------------------------------


def _whole(magic: bytes, body: bytes) -> bytes:
    data = TOP.pack(magic, VERSION, 0, len(body)) + body
    return data + CRC.pack(crc32c(data))


def _opened(data: bytes | memoryview, magic: bytes) -> _Reader:
    """Check what is around a body."""
    least = TOP.size + CRC.size
    if len(data) < least:
        raise TornEntry("it is too short", expected=least, found=len(data))
    found, version, zero, length = TOP.unpack_from(data)
    if found != magic:
        raise DamagedEntry("it has another magic", expected=magic, found=found)
    if length != len(data) - least:
        raise TornEntry("it has another length", expected=length + least, found=len(data))
    end = len(data) - CRC.size
    (expected,) = CRC.unpack_from(data, end)
    if (crc := crc32c(data[:end])) != expected:
        raise DamagedEntry(
            "its checksum is wrong", expected=f"{expected:#010x}", found=f"{crc:#010x}"
        )
    if version != VERSION:
        raise VersionError(
            f"it has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if zero:
        raise DamagedEntry("what must be zero is not", found=zero)
    return _Reader(bytes(data[:end]))


def _text(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{text!r:.80} cannot be written as UTF-8") from error
    if len(data) > TEXT_BYTES_MAX:
        raise InputError(f"{text!r:.80} has {len(data):,} bytes, the most is {TEXT_BYTES_MAX}")
    return bytes([len(data)]) + data


def _block(block: Block) -> bytes:
    fixed = BLOCK.pack(
        block.number,
        block.epoch,
        block.start,
        block.end,
        block.length,
        block.last_seq,
        block.rows,
        block.rf,
        _CONTINUES * block.continues + _ABANDONED * block.is_abandoned,
        len(block.digest),
        len(block.locations),
        0,
    )
    return b"".join([fixed, block.digest, *map(_text, block.locations)])


class _Reader:
    """Takes bytes from the front; whatever does not fit is damage."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = TOP.size
        self._known: dict[bytes, str] = {}
        self._before: tuple[int, bytes, tuple[str, ...]] = (0, b"", ())
        """How many locations the block before has, their bytes, and what they say."""

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise self.damage("it ends early", expected=length, found=self.rest)
        self._at += length
        return self._data[self._at - length : self._at]

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.take(layout.size))

    def text(self) -> str:
        """Read a text; names of locations come again and again."""
        raw = self.take(self.take(1)[0])
        known = self._known.get(raw)
        if known is None:
            try:
                known = self._known[raw] = raw.decode()
            except UnicodeDecodeError as error:
                raise self.damage("a text is no UTF-8") from error
        return known

    def texts(self, count: int) -> tuple[str, ...]:
        return tuple([self.text() for _ in range(count)])

    def block(self) -> Block:
        """Read a block; hundreds are read for one seek by time."""
        data, at = self._data, self._at
        if len(data) - at < BLOCK.size:
            raise self.damage("it ends early", expected=BLOCK.size, found=self.rest)
        number, epoch, start, end, length, last_seq, rows, rf, flags, digest_len, count, zero = (
            BLOCK.unpack_from(data, at)
        )
        self._at = at + BLOCK.size
        if zero or flags > _CONTINUES + _ABANDONED:
            raise self.damage("a block has flags that mean nothing", found=flags)
        digest = self.take(digest_len) if digest_len else b""
        before, raw, locations = self._before
        if count == before and data.startswith(raw, self._at):  # As nearly always.
            self._at += len(raw)
        else:
            locations = self._locations(count)
        return Block(
            number,
            epoch,
            start,
            end,
            length,
            last_seq,
            rf,
            locations,
            flags & _CONTINUES != 0,
            flags & _ABANDONED != 0,
            rows,
            digest,
        )

    def _locations(self, count: int) -> tuple[str, ...]:
        """Read locations that are not those of the block before."""
        begin = self._at
        found = self.texts(count)
        self._before = (count, self._data[begin : self._at], found)
        return found

    def damage(
        self, message: str, *, expected: object = None, found: object = None
    ) -> DamagedEntry:
        return DamagedEntry(message, offset=self._at, expected=expected, found=found)
