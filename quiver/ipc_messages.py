r"""How many bytes compressed Arrow messages would decode to, read from their metadata alone.

A body of 16 KiB may decode to 512 MiB, and pyarrow neither says so beforehand nor takes a limit.
So the metadata is read here first; nothing is decoded and nothing is allocated.

::

    stream    message | message | ... | end
    file      "ARROW1" 0 0 | messages | end | footer | footer length i32 | "ARROW1"
    message   [-1 i32] | metadata length i32 | metadata | body
    metadata  a Message: version, header (a RecordBatch or what holds one), body length
    body      buffers; of a compressed one the first 8 bytes are its decoded length, or -1

Metadata and footer are FlatBuffers: a table starts with the distance back to its vtable, whose
u16 entries, behind its own size and the table's, say where each field is; 0 means not there.
Arrow checks the same tables again with its own verifier, so that what is left unread here (types,
alignment, field nodes) is not taken on trust.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from quiver.errors import DamagedEntry
from quiver.ipc_plain import plain_messages

__all__ = [
    "Blocks",
    "MessagePlace",
    "batch_message",
    "file_blocks",
    "file_footer",
    "footer_schema",
    "message_schema",
    "stream_decoded_bytes",
    "stream_messages",
]

_U8: Final = struct.Struct("<B").unpack_from
_U16: Final = struct.Struct("<H").unpack_from
_I16: Final = struct.Struct("<h").unpack_from
_I32: Final = struct.Struct("<i").unpack_from
_U32: Final = struct.Struct("<I").unpack_from
_I64: Final = struct.Struct("<q").unpack_from
_BUFFER: Final = struct.Struct("<qq")
_BLOCK: Final = struct.Struct("<qi4xq")

_CONTINUATION: Final = -1
_FILE_MAGIC: Final = b"ARROW1"
_FILE_START: Final = 8
_FILE_END: Final = 10

# Fields by their place in Message.fbs and File.fbs.
_MESSAGE_FIELDS: Final = 5  # version, kind and table of the header, body length, custom metadata
_BATCH_FIELDS: Final = 4  # length, nodes, buffers, compression
_DICTIONARY_FIELDS: Final = 2  # id, data
_FOOTER_FIELDS: Final = 4  # version, schema, dictionaries, record batches
_VTABLE_HEAD: Final = 4
_VTABLE_ENTRIES: Final = tuple(struct.Struct(f"<{count}H").unpack_from for count in range(6))

_KIND_DICTIONARY, _KIND_BATCH = 2, 3
_VERSION_5: Final = 4
_NOT_COMPRESSED: Final = -1
_LENGTH_BYTES: Final = 8
_END: Final = b"\xff\xff\xff\xff\0\0\0\0"
_END_BYTES: Final = len(_END)
_ALIGNMENT: Final = 8


class _Message(NamedTuple):
    """The places of a message: of its fields, and of its body; an end has no metadata."""

    metadata: memoryview
    fields: list[int]
    body_start: int
    body_bytes: int


class MessagePlace(NamedTuple):
    """A message of a stream: where it starts, how long metadata and body are, what it holds.

    ``length_place`` is where its metadata says how long the body is, from its start; 0 if it
    does not.
    """

    start: int
    metadata_bytes: int
    body_bytes: int
    length_place: int
    is_batch: bool


@dataclass(frozen=True, slots=True)
class Blocks:
    """The messages of one kind that a file's footer lists, in ascending order of place."""

    data: memoryview
    table: memoryview

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.table) // _BLOCK.size

    def decoded_bytes(self, index: int) -> int:
        """Sum the decoded lengths of the compressed buffers of message ``0 <= index < count``.

        Raises DamagedEntry if it lies on the one before it: if messages were more than the file
        together, the work of reading it would have no bound.
        """
        try:
            offset, metadata_bytes, body_bytes = self._block(index)
            behind = sum(self._block(index - 1)) if index else _FILE_START
            if not behind <= offset <= len(self.data):
                raise DamagedEntry(
                    "a message of an Arrow file is out of place",
                    expected=f"{behind} to {len(self.data)}",
                    found=offset,
                )
            message = _message(self.data, offset)
            total = _decoded_bytes(self.data, message)
        except struct.error as error:
            raise DamagedEntry(
                f"message {index} of an Arrow file cannot be read: {error}"
            ) from error
        found = message.body_start - offset, message.body_bytes
        if found != (metadata_bytes, body_bytes):
            raise DamagedEntry(
                "an Arrow file's footer and its message disagree about lengths",
                offset=offset,
                expected=f"{metadata_bytes} and {body_bytes}",
                found=f"{found[0]} and {found[1]}",
            )
        return total

    def doubtful(self) -> list[int]:
        """List the messages that are not plainly uncompressed and where they should be.

        Of all others ``decoded_bytes`` is 0; they are found out together, which is much faster.
        """
        found: list[int] = np.flatnonzero(~plain_messages(self.data, self.table)).tolist()
        return found

    def place(self, index: int) -> tuple[int, int, int]:
        """Give where a message starts, and how long metadata and body are, as the footer says.

        Raises DamagedEntry if that is not inside the file.
        """
        offset, metadata_bytes, body_bytes = found = self._block(index)
        if min(found) < 0 or offset + metadata_bytes + body_bytes > len(self.data):
            raise DamagedEntry(
                f"message {index} of an Arrow file is not inside it",
                expected=f"within 0..{len(self.data)}",
                found=str(found),
            )
        return found

    def _block(self, index: int) -> tuple[int, int, int]:
        """Give where a message starts, and how long its metadata and its body are."""
        offset, metadata_bytes, body_bytes = _BLOCK.unpack_from(self.table, index * _BLOCK.size)
        return offset, metadata_bytes, body_bytes


def stream_decoded_bytes(data: memoryview) -> int:
    """Sum the decoded lengths of all compressed buffers in an IPC stream, up to its end.

    ``data`` is bytes, one dimension. Raises DamagedEntry where messages cannot be followed.
    """
    total = offset = 0
    try:
        while offset < len(data):
            message = _message(data, offset)
            if not message.fields:
                break
            total += _decoded_bytes(data, message)
            offset = message.body_start + message.body_bytes
    except struct.error as error:
        raise DamagedEntry(f"an Arrow stream cannot be read: {error}", offset=offset) from error
    return total


def file_footer(data: memoryview) -> tuple[int, int]:
    """Find the bytes ``[start, end)`` of an IPC file's footer and of all that is behind it."""
    if bytes(data[-len(_FILE_MAGIC) :]) != _FILE_MAGIC:
        raise DamagedEntry("an Arrow file cannot be read: it does not end with its magic")
    end = len(data) - _FILE_END
    length = _I32(data, end)[0] if end >= 0 else 0
    if not 0 < length <= end - _FILE_START:
        raise DamagedEntry(
            "an Arrow file cannot be read: its footer has an impossible length",
            expected=f"1 to {end - _FILE_START}",
            found=length,
        )
    return end - length, len(data)


def file_blocks(data: memoryview) -> tuple[Blocks, Blocks]:
    """Find what the footer of an IPC file lists: dictionaries, and record batches."""
    start, end = file_footer(data)
    footer = data[start : end - _FILE_END]
    try:
        _, _, *places = _fields(footer, _U32(footer, 0)[0], _FOOTER_FIELDS)
        tables = [_vector(footer, place, _BLOCK.size) for place in places]
    except struct.error as error:
        raise DamagedEntry(f"an Arrow file's footer cannot be read: {error}") from error
    return Blocks(data, tables[0]), Blocks(data, tables[1])


def footer_schema(footer: memoryview) -> tuple[int, int]:
    """Find the metadata version that a footer states, and the place of its schema's table."""
    version, schema = _fields(footer, _U32(footer, 0)[0], 2)
    return _I16(footer, version)[0] if version else 0, _follow(footer, schema)


def batch_message(data: memoryview) -> tuple[int, int, int] | None:
    """Find the batch in a stream: where its message starts, and how long metadata and body are.

    None unless the stream is a schema, one uncompressed batch of metadata version 5, and the end.
    """
    try:
        schema = _message(data, 0)
        start = schema.body_start + schema.body_bytes
        message = _message(data, start)
        if not message.fields or _compressed_buffers(message):
            return None
        metadata, (version, kind, *_) = message.metadata, message.fields
        if not version or not kind:
            return None
        if _U8(metadata, kind)[0] != _KIND_BATCH or _I16(metadata, version)[0] != _VERSION_5:
            return None
    except (struct.error, DamagedEntry):
        return None
    if message.body_start + message.body_bytes + _END_BYTES != len(data):
        return None
    lengths = message.body_start - start, message.body_bytes
    if any(length % _ALIGNMENT for length in lengths):
        return None  # A file would refuse what comes behind it.
    return start, *lengths


def stream_messages(data: memoryview) -> list[MessagePlace] | None:
    """Find what is in a stream behind its schema: dictionaries, then one batch, then the end.

    None if it is anything else, if a body is compressed, or if metadata is not of version 5.
    """
    found: list[MessagePlace] = []
    try:
        schema = _message(data, 0)
        start = schema.body_start + schema.body_bytes
        while not found or not found[-1].is_batch:
            message = _message(data, start)
            if not message.fields or _compressed_buffers(message):
                return None
            metadata, (version, kind, _, length, _) = message.metadata, message.fields
            if not version or not kind or _I16(metadata, version)[0] != _VERSION_5:
                return None
            number = _U8(metadata, kind)[0]
            if number not in (_KIND_BATCH, _KIND_DICTIONARY):
                return None
            size = message.body_start - start
            place = size - len(metadata) + length if length else 0
            is_batch = number == _KIND_BATCH
            found.append(MessagePlace(start, size, message.body_bytes, place, is_batch))
            if size % _ALIGNMENT or message.body_bytes % _ALIGNMENT:
                return None  # A file would refuse what comes behind it.
            start = message.body_start + message.body_bytes
    except (struct.error, DamagedEntry):
        return None
    return found if bytes(data[start:]) == _END else None


def message_schema(data: memoryview) -> tuple[memoryview, int, int]:
    """Find the schema in the first message: all metadata, its version, and the schema's table."""
    message = _message(data, 0)
    version, _, header, *_ = message.fields
    number = _I16(message.metadata, version)[0] if version else 0
    return message.metadata, number, _follow(message.metadata, header)


def _message(data: memoryview, offset: int) -> _Message:
    """Read the prefix of the message at ``offset`` and see that all of it is there."""
    (length,) = _I32(data, offset)
    start = offset + 4
    if length == _CONTINUATION:
        (length,) = _I32(data, start)
        start += 4
    if length == 0:
        return _Message(data[:0], [], start, 0)
    body_start = start + length
    if length < 0 or body_start > len(data):
        raise DamagedEntry(
            "an Arrow message cannot be read: its metadata does not end inside its data",
            offset=offset,
            expected=f"at most {len(data) - start} bytes",
            found=length,
        )
    metadata = data[start:body_start]
    fields = _fields(metadata, _U32(metadata, 0)[0], _MESSAGE_FIELDS)
    body_bytes = _I64(metadata, fields[3])[0] if fields[3] else 0
    if not 0 <= body_bytes <= len(data) - body_start:
        raise DamagedEntry(
            "an Arrow message cannot be read: its body does not end inside its data",
            offset=offset,
            expected=f"at most {len(data) - body_start} bytes",
            found=body_bytes,
        )
    return _Message(metadata, fields, body_start, body_bytes)


def _decoded_bytes(data: memoryview, message: _Message) -> int:
    """Sum the decoded lengths of the compressed buffers of one message; 0 if it has none."""
    buffers = _compressed_buffers(message)
    if not buffers:
        return 0
    body = data[message.body_start : message.body_start + message.body_bytes]
    total = 0
    for offset, length in _BUFFER.iter_unpack(buffers):
        if length == 0:
            continue
        fits = offset >= 0 and _LENGTH_BYTES <= length <= len(body) - offset
        decoded = _I64(body, offset)[0] if fits else None
        if decoded is None or decoded < _NOT_COMPRESSED:
            raise DamagedEntry(
                "a compressed buffer of an Arrow message has impossible lengths",
                expected=f"within {len(body)} bytes",
                found=f"{length} bytes at {offset} that decode to {decoded}",
            )
        total += length - _LENGTH_BYTES if decoded == _NOT_COMPRESSED else decoded
    return total


def _compressed_buffers(message: _Message) -> memoryview | None:
    """Find the buffers of a message with a compressed body; None if it is not compressed.

    Arrow 0.17 said so in the custom metadata of a version 4 message, and Arrow still looks there.
    Rather than to read that too, version 4 with any custom metadata is refused.
    """
    if not message.fields:
        return None
    metadata, (version, kind, header, _, custom) = message.metadata, message.fields
    number = _U8(metadata, kind)[0] if kind else 0
    if number not in (_KIND_BATCH, _KIND_DICTIONARY):
        return None
    batch = _follow(metadata, header)
    if number == _KIND_DICTIONARY:
        batch = _follow(metadata, _fields(metadata, batch, _DICTIONARY_FIELDS)[1])
    _, _, buffers, compression = _fields(metadata, batch, _BATCH_FIELDS)
    if compression:
        return _vector(metadata, buffers, _BUFFER.size)
    if custom and (not version or _I16(metadata, version)[0] < _VERSION_5):
        raise DamagedEntry(
            "an Arrow message may be compressed in a way that is not supported",
            expected="metadata version 5, or no custom metadata",
        )
    return None


def _fields(metadata: memoryview, table: int, count: int) -> list[int]:
    """Find the places of the first fields of a table; 0 for each that it does not have."""
    vtable = table - _I32(metadata, table)[0]
    if vtable < 0:
        raise struct.error("a vtable lies before its data")
    known = max(0, min((_U16(metadata, vtable)[0] - _VTABLE_HEAD) // 2, count))
    places = [
        table + offset if offset else 0
        for offset in _VTABLE_ENTRIES[known](metadata, vtable + _VTABLE_HEAD)
    ]
    return places + [0] * (count - known) if known < count else places


def _follow(metadata: memoryview, place: int) -> int:
    """Find the table that a field refers to."""
    if not place:
        raise struct.error("a table is missing")
    return place + _U32(metadata, place)[0]


def _vector(metadata: memoryview, place: int, item_bytes: int) -> memoryview:
    """Give the bytes of a vector of structs, without its count; none if ``place`` is 0."""
    if not place:
        return metadata[:0]
    start = place + _U32(metadata, place)[0]
    length = _U32(metadata, start)[0] * item_bytes
    items = metadata[start + 4 : start + 4 + length]
    if len(items) != length:
        raise struct.error("a vector ends behind its data")
    return items
