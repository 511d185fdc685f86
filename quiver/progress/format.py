"""The bytes of progress: a note, a table of notes, the file. ``FORMAT.md`` is the spec.

::

    note    version u8 | lag u8 | source_len u16 | split_count u32 | epoch u64 | source | split ...
    split   id_len u16 | state_len u32 | id | state
    table   record | record | ...
    record  wal_seq u64 | note_len u32 | note
    file    copy | the same copy again
    copy    head (48) | table | crc32c u32
    head    magic[8] | version u16 | zero u16 | core u32 | store_id[16] | wal_seq | table_len

Everything is little-endian, and all texts are UTF-8. Notes and tables have no checksum of their
own: they stand inside of something that has one. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "COPY_BYTES_MAX",
    "EPOCH_MAX",
    "FORGOTTEN",
    "HEAD",
    "LAGGING",
    "LAG_MAX",
    "MAGIC",
    "NOTE",
    "RECORD",
    "SOURCE_BYTES_MAX",
    "SPLIT",
    "SPLIT_BYTES_MAX",
    "STATE_BYTES_MAX",
    "TABLE_BYTES_MAX",
    "VERSION",
    "Content",
    "Note",
    "decode_copy",
    "decode_note",
    "decode_table",
    "encode_copy",
    "encode_note",
    "encode_table",
    "with_lag",
]

MAGIC: Final = b"QUIVER\0P"
VERSION: Final = 1
LAGGING: Final = 2
"""The version of a note with a lag."""
LAG_MAX: Final = 255
"""So many bundles or more."""
NOTE: Final = struct.Struct("<BBHIQ")
SPLIT: Final = struct.Struct("<HI")
RECORD: Final = struct.Struct("<QI")
HEAD: Final = struct.Struct("<8sHHI16sqQ")
CRC: Final = struct.Struct("<I")

FORGOTTEN: Final = 0xFFFF_FFFF
"""The length of a state that is none: the split is as if it never had one."""
SOURCE_BYTES_MAX: Final = 1024
SPLIT_BYTES_MAX: Final = 1024
STATE_BYTES_MAX: Final = 1 << 20
TABLE_BYTES_MAX: Final = 16 << 20
"""All states of a core, and so of a note."""
COPY_BYTES_MAX: Final = HEAD.size + TABLE_BYTES_MAX + CRC.size
EPOCH_MAX: Final = 10**18
"""No source has so many followers, one after the other."""


class Note(NamedTuple):
    """What one bundle says of its source: by whom it was read, and how far in which splits."""

    source: str
    epoch: int
    states: Mapping[str, str | None]
    """By the id of the split; None takes back what was known of it."""
    lag: int = 0
    """How many bundles right before this one were not known to be durable when it was written."""


class Content(NamedTuple):
    """What one copy of the file says: a table, and the last wal_seq that it takes into account."""

    wal_seq: int
    notes: list[tuple[int, Note]]


def encode_note(note: Note) -> bytes:
    """Write a note; raises InputError for what is no text, empty, or too long."""
    source = _text(note.source, "the name of a source", SOURCE_BYTES_MAX)
    if not 1 <= note.epoch <= EPOCH_MAX:
        raise InputError(f"epoch {note.epoch} is not within 1..{EPOCH_MAX}")
    if not note.states:
        raise InputError("progress has no split", hint="give the state of one at least")
    rows = []
    for split, state in note.states.items():
        name = _text(split, "the id of a split", SPLIT_BYTES_MAX)
        text = b"" if state is None else _text(state, "a state", STATE_BYTES_MAX)
        rows.append((name, FORGOTTEN if state is None else len(text), text))
    rows.sort()
    parts = [NOTE.pack(VERSION, 0, len(source), len(rows), note.epoch), source]
    for name, length, text in rows:
        parts += (SPLIT.pack(len(name), length), name, text)
    data = b"".join(parts)
    if len(data) + RECORD.size > TABLE_BYTES_MAX:
        raise InputError(
            f"the states of one bundle take {len(data):,} bytes, the limit is {TABLE_BYTES_MAX:,}"
        )
    return with_lag(data, note.lag)


def with_lag(data: bytes, lag: int) -> bytes:
    """Say in a note how many bundles before its own are not known to be durable."""
    version = LAGGING if lag else VERSION
    return bytes((version, min(lag, LAG_MAX))) + data[2:]


def _text(value: object, what: str, bytes_max: int) -> bytes:
    if not isinstance(value, str):
        raise InputError(f"{what} is {value!r}, not a text")
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{what} {value!r} cannot be written as UTF-8") from error
    if not 1 <= len(data) <= bytes_max:
        raise InputError(f"{what} has {len(data):,} bytes, it may have 1 to {bytes_max:,}")
    return data


def decode_note(data: bytes | memoryview) -> Note:
    """Read a note; raises DamagedEntry, or VersionError for a newer format."""
    reader = _Reader(data)
    version, lag, source_len, count, epoch = reader.unpack(NOTE)
    if version not in (VERSION, LAGGING):
        raise VersionError(
            f"a note has format version {version}, this Quiver reads {VERSION} and {LAGGING}",
            hint="install a newer Quiver",
        )
    source = reader.text(source_len, SOURCE_BYTES_MAX)
    if bool(lag) != (version == LAGGING) or not 1 <= epoch <= EPOCH_MAX or not count:
        raise reader.damage("the head of a note is impossible", found=(lag, epoch, count))
    states: dict[str, str | None] = {}
    last = b""
    for _ in range(count):
        id_len, state_len = reader.unpack(SPLIT)
        split = reader.text(id_len, SPLIT_BYTES_MAX)
        if split.encode() <= last:
            raise reader.damage("the splits of a note are out of order", found=split)
        last = split.encode()
        states[split] = None
        if state_len != FORGOTTEN:
            states[split] = reader.text(state_len, STATE_BYTES_MAX)
    if reader.rest:
        raise reader.damage("a note is longer than it says", found=reader.rest)
    return Note(source, epoch, states, lag)


def encode_table(notes: Iterable[tuple[int, Note]]) -> bytes:
    """Write notes, each with the wal_seq of its bundle."""
    parts: list[bytes] = []
    for wal_seq, note in notes:
        data = encode_note(note)
        parts += (RECORD.pack(wal_seq, len(data)), data)
    return b"".join(parts)


def decode_table(data: bytes | memoryview) -> list[tuple[int, Note]]:
    """Read a table; raises DamagedEntry, or VersionError for a newer format."""
    reader = _Reader(data)
    notes = []
    while reader.rest:
        wal_seq, length = reader.unpack(RECORD)
        notes.append((wal_seq, decode_note(reader.take(length))))
    return notes


def encode_copy(table: bytes, wal_seq: int, *, core: int, store_id: bytes) -> bytes:
    """Write one copy of the file; ``store_id`` has 16 bytes."""
    body = HEAD.pack(MAGIC, VERSION, 0, core, store_id, wal_seq, len(table)) + table
    return body + CRC.pack(crc32c(body))


def decode_copy(data: bytes | memoryview, *, core: int, store_id: bytes) -> tuple[Content, int]:
    """Read the copy that ``data`` begins with, and how long it is.

    Raises TornEntry or DamagedEntry if it is not sound, or of another core, VersionError if it is
    of a newer format.
    """
    if len(data) < HEAD.size + CRC.size:
        raise TornEntry("the progress is too short", expected=HEAD.size + CRC.size, found=len(data))
    magic, version, zero, number, owner, wal_seq, length = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise DamagedEntry("the progress has no magic", expected=MAGIC, found=magic)
    end = HEAD.size + length
    if length > TABLE_BYTES_MAX or end + CRC.size > len(data):
        raise TornEntry("the progress ends early", expected=end + CRC.size, found=len(data))
    (expected,) = CRC.unpack_from(data, end)
    found = crc32c(data[:end])
    if found != expected:
        raise DamagedEntry(
            "the checksum of the progress is wrong",
            expected=f"{expected:#010x}",
            found=f"{found:#010x}",
        )
    if version != VERSION:
        raise VersionError(
            f"the progress has format version {version}, this Quiver reads {VERSION}",
            hint="install a newer Quiver",
        )
    if (number, owner) != (core, store_id) or zero:
        raise DamagedEntry("the progress is of another core", expected=core, found=number)
    return Content(wal_seq, decode_table(data[HEAD.size : end])), end + CRC.size


class _Reader:
    """Takes bytes from the front; whatever does not fit is damage."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> memoryview:
        if length > self.rest:
            raise self.damage("progress ends early", expected=length, found=self.rest)
        self._at += length
        return self._data[self._at - length : self._at]

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        return layout.unpack(self.take(layout.size))

    def text(self, length: int, bytes_max: int) -> str:
        if not 1 <= length <= bytes_max:
            raise self.damage("a text has an impossible length", found=length)
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise self.damage("a text is no UTF-8") from error

    def damage(
        self, message: str, *, expected: object = None, found: object = None
    ) -> DamagedEntry:
        return DamagedEntry(message, offset=self._at, expected=expected, found=found)
