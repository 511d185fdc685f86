"""The messages of an OTAP stream: batches of Arrow payloads one way, a status of each the other.

Few fields, of protobuf's plainest kinds, so they are read and written here by hand. Views in, views
out: the Arrow bytes of a payload are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from quiver.errors import InputError

__all__ = [
    "MESSAGE_CHARS_MAX",
    "PAYLOADS_MAX",
    "SCHEMA_ID_BYTES_MAX",
    "ArrowPayload",
    "BatchRecords",
    "BatchStatus",
    "StatusCode",
    "decode_records",
    "decode_status",
    "encode_records",
    "encode_status",
]

PAYLOADS_MAX: Final = 64
SCHEMA_ID_BYTES_MAX: Final = 1 << 16
MESSAGE_CHARS_MAX: Final = 1024
"""How much of a status message is kept, and sent."""

_FIRST, _SECOND, _THIRD = 1, 2, 3
"""No message here has more fields that are of use."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10
_MORE: Final = 0x80
_U64: Final = (1 << 64) - 1
_I64_SIGN: Final = 1 << 63
_FIELD_MAX: Final = (1 << 29) - 1

_Value: TypeAlias = int | memoryview


class StatusCode(IntEnum):
    """What became of a batch; the numbers are those of gRPC."""

    OK = 0
    CANCELED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    ABORTED = 10
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class ArrowPayload:
    """Messages of one Arrow IPC stream, and which one: by payload type and schema."""

    schema_id: str
    kind: int
    record: memoryview | bytes


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """What a sender calls BatchArrowRecords: the payloads of one batch."""

    batch_id: int
    payloads: tuple[ArrowPayload, ...]


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The answer to one batch; ``code`` may be a number that nobody knows yet."""

    batch_id: int
    code: int
    message: str = ""


def decode_records(data: bytes | memoryview) -> BatchRecords:
    """Read a batch; raises InputError for what is no such message, or has too many payloads.

    Headers, and fields that are not known, are passed over.
    """
    batch_id = 0
    payloads: list[ArrowPayload] = []
    for number, value in _fields(memoryview(data)):
        if number == _FIRST:
            batch_id = _signed(_number(value))
        elif number == _SECOND:
            if len(payloads) == PAYLOADS_MAX:
                raise InputError(f"a batch has more than {PAYLOADS_MAX} Arrow payloads")
            payloads.append(_payload(_view(value)))
    return BatchRecords(batch_id, tuple(payloads))


def _payload(data: memoryview) -> ArrowPayload:
    schema_id, kind, record = memoryview(b""), 0, data[:0]
    for number, value in _fields(data):
        if number == _FIRST:
            schema_id = _view(value)
        elif number == _SECOND:
            kind = _number(value)
        elif number == _THIRD:
            record = _view(value)
    if len(schema_id) > SCHEMA_ID_BYTES_MAX:
        raise InputError(f"a schema id is longer than {SCHEMA_ID_BYTES_MAX} bytes")
    return ArrowPayload(_text(schema_id), kind, record)


def encode_records(records: BatchRecords) -> bytes:
    """Write a batch."""
    parts: list[bytes | memoryview] = [_varint_field(_FIRST, records.batch_id)]
    for payload in records.payloads:
        schema_id = payload.schema_id.encode()
        inside = (
            _head(_FIRST, len(schema_id)) + schema_id if schema_id else b"",
            _varint_field(_SECOND, payload.kind),
            _head(_THIRD, len(payload.record)),
        )
        parts.append(_head(_SECOND, sum(map(len, inside)) + len(payload.record)))
        parts += [*inside, payload.record]
    return b"".join(parts)


def decode_status(data: bytes | memoryview) -> BatchStatus:
    """Read an answer; raises InputError for what is none. A long message is cut."""
    batch_id, code, message = 0, 0, memoryview(b"")
    for number, value in _fields(memoryview(data)):
        if number == _FIRST:
            batch_id = _signed(_number(value))
        elif number == _SECOND:
            code = _number(value)
        elif number == _THIRD:
            message = _view(value)
    text = bytes(message[: 4 * MESSAGE_CHARS_MAX]).decode("utf-8", "replace")
    return BatchStatus(batch_id, code, text[:MESSAGE_CHARS_MAX])


def encode_status(status: BatchStatus) -> bytes:
    """Write an answer."""
    message = status.message[:MESSAGE_CHARS_MAX].encode("utf-8", "replace")
    return b"".join(
        (
            _varint_field(_FIRST, status.batch_id),
            _varint_field(_SECOND, status.code),
            _head(_THIRD, len(message)) + message if message else b"",
        )
    )


def _fields(data: memoryview) -> Iterator[tuple[int, _Value]]:
    """Go through the fields of one message: number, and the value of a varint or the bytes."""
    place = 0
    while place < len(data):
        start = place
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if not 0 < number <= _FIELD_MAX:
            raise InputError(f"a field of a message has no possible number, at byte {start}")
        if wire == _VARINT:
            found, place = _varint(data, place)
            yield number, found
            continue
        if wire == _BYTES:
            length, place = _varint(data, place)
        elif wire in _FIXED_BYTES:
            length = _FIXED_BYTES[wire]
        else:
            raise InputError(f"a field of a message has the unknown wire type {wire}")
        if length > len(data) - place:
            raise InputError(f"a message ends inside the field that begins at byte {start}")
        if wire == _BYTES:
            yield number, data[place : place + length]
        place += length


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if place + index >= len(data):
            raise InputError(f"a message ends inside the number at byte {place}")
        byte = data[place + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < _MORE:
            return value & _U64, place + index + 1
    raise InputError(f"a number of more than {_VARINT_BYTES_MAX} bytes begins at byte {place}")


def _number(value: _Value) -> int:
    if not isinstance(value, int):
        raise InputError("a message has bytes where a number is expected")
    return value


def _view(value: _Value) -> memoryview:
    if isinstance(value, int):
        raise InputError("a message has a number where bytes are expected")
    return value


def _text(data: memoryview) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise InputError("a schema id is not UTF-8") from error


def _signed(value: int) -> int:
    return value - (1 << 64) if value & _I64_SIGN else value


def _varint_field(number: int, value: int) -> bytes:
    """Write a number; nothing at all for 0, as protobuf has it."""
    return _written(number << 3 | _VARINT) + _written(value & _U64) if value else b""


def _head(number: int, length: int) -> bytes:
    return _written(number << 3 | _BYTES) + _written(length)


def _written(value: int) -> bytes:
    out = bytearray()
    while value >= _MORE:
        out.append(value & 0x7F | _MORE)
        value >>= 7
    out.append(value)
    return bytes(out)
