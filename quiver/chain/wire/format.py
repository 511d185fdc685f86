"""The bytes that go between nodes: heads of frames, requests, answers. ``FORMAT.md`` is the spec.

::

    head of a frame   56 bytes with a checksum of their own; the body goes beside it
    message           top (16) | body | crc32c u32

Everything is little-endian, and all texts are UTF-8. Pure: bytes in, values out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import fields as fields_of
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from quiver.chain.peers.values import (
    BlockName,
    Damaged,
    Finished,
    Holding,
    NodeState,
    Route,
    Status,
)
from quiver.chain.sealing import Answer, Sealed
from quiver.chain.wire.messages import (
    Acks,
    Append,
    Condemn,
    Condemned,
    Cut,
    DamagedAsked,
    Damages,
    Done,
    Drop,
    DropCondemned,
    Fence,
    Fetch,
    Finish,
    Found,
    Frame,
    FrameKind,
    Keys,
    Message,
    MetaCas,
    MetaDelete,
    MetaGet,
    MetaKeys,
    Opened,
    Opening,
    Prepare,
    Put,
    Read,
    Segment,
    Settle,
    StatusAsked,
    StatusBehind,
    TailAcks,
    Verify,
)
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "BODY_BYTES_MAX",
    "ERROR_BYTES_MAX",
    "FRAME",
    "FRAME_BYTES",
    "HOLDINGS_MAX",
    "MESSAGE_BYTES_MAX",
    "TOP",
    "VERSION",
    "check_body",
    "check_length",
    "decode_frame",
    "decode_message",
    "encode_frame",
    "encode_message",
    "frame_of",
]

VERSION: Final = 4
FRAME: Final = struct.Struct("<8sHBBIQQQqI")
TOP: Final = struct.Struct("<8sHHI")
CRC: Final = struct.Struct("<I")
FRAME_BYTES: Final = FRAME.size + CRC.size

BODY_BYTES_MAX: Final = (256 << 20) + (1 << 20)
"""Of a frame: the largest entry, and what may stand before it."""
ERROR_BYTES_MAX: Final = 4096
MESSAGE_BYTES_MAX: Final = 16 << 20
HOLDINGS_MAX: Final = 60_000
"""Of a status: so many fit, whatever the partitions are called."""
TEXT_BYTES_MAX: Final = 1024
COUNT_MAX: Final = 1 << 18
NUMBER_MAX: Final = (1 << 63) - 1

_FRAME_KINDS: Final = {kind.value: kind for kind in FrameKind}
_BODY_BYTES_MAX: Final = dict.fromkeys((FrameKind.ENTRIES, FrameKind.NEXT), BODY_BYTES_MAX)
_BODY_BYTES_MAX[FrameKind.ERROR] = ERROR_BYTES_MAX
_FRAME_MAGIC: Final = b"QUIVER\0F"
_MESSAGE_MAGIC: Final = b"QUIVER\0M"
_STATES: Final = {
    NodeState.INITIALIZING: 1,
    NodeState.SYNCING: 2,
    NodeState.SERVING: 3,
    NodeState.DRAINING: 4,
}

# frames ------------------------------------------------------------------------------------------


def frame_of(frame: Frame, body: bytes | memoryview) -> Frame:
    """Give a frame with the length and the checksum of its body."""
    return frame._replace(body_len=len(body), body_crc=crc32c(body))


def encode_frame(frame: Frame) -> bytes:
    """Write the head of a frame; raises InputError for what may not be."""
    if fault := _faulty_frame(frame):
        raise InputError(f"a frame may not be like this: {fault}")
    kind, number, epoch, offset, last_seq, body_len, body_crc = frame
    fields = (kind, 0, body_len, number, epoch, offset, last_seq, body_crc)
    head = FRAME.pack(_FRAME_MAGIC, VERSION, *fields)
    return head + CRC.pack(crc32c(head))


def decode_frame(data: bytes | memoryview) -> Frame:
    """Read the head of a frame; raises TornEntry, DamagedEntry, VersionError."""
    if len(data) != FRAME_BYTES:
        raise TornEntry("a head has another length", expected=FRAME_BYTES, found=len(data))
    magic, version, kind, zero, body_len, number, epoch, offset, last_seq, body_crc = (
        FRAME.unpack_from(data)
    )
    _check_top(data, magic, _FRAME_MAGIC, version=version)
    if zero or kind not in _FRAME_KINDS:
        raise DamagedEntry("a frame is of no kind", found=kind)
    frame = Frame(_FRAME_KINDS[kind], number, epoch, offset, last_seq, body_len, body_crc)
    if fault := _faulty_frame(frame):
        raise DamagedEntry("a frame is impossible", found=fault)
    return frame


def check_body(frame: Frame, body: bytes | memoryview) -> None:
    """Raise DamagedEntry unless the body is the one that the head is about."""
    check_length(frame, body)
    if (crc := crc32c(body)) != frame.body_crc:
        raise DamagedEntry(
            "the checksum of a body is wrong",
            offset=frame.offset,
            expected=f"{frame.body_crc:#010x}",
            found=f"{crc:#010x}",
        )


def check_length(frame: Frame, body: bytes | memoryview) -> None:
    """Raise TornEntry unless the body is as long as the head says."""
    if len(body) != frame.body_len:
        raise TornEntry("a body has another length", expected=frame.body_len, found=len(body))


def _faulty_frame(frame: Frame) -> str:
    kind, number, epoch, offset, last_seq, body_len, body_crc = frame
    numbers = number, epoch, offset
    if min(*numbers, last_seq + 1) < 0 or max(*numbers, last_seq) > NUMBER_MAX:
        return "a number is out of range"
    most = _BODY_BYTES_MAX.get(kind, 0)
    if not bool(most) <= body_len <= most or (not body_len and body_crc):
        return f"a body of {body_len:,} bytes"
    return ""


# messages ----------------------------------------------------------------------------------------


def encode_message(message: Message) -> bytes:
    """Write a request or an answer; raises InputError for what may not be."""
    kind = _KIND_OF[type(message)]
    body = _SHAPES[kind].pack(message)
    whole = TOP.pack(_MESSAGE_MAGIC, VERSION, kind, len(body)) + body
    if len(whole) > MESSAGE_BYTES_MAX - CRC.size:
        raise InputError(f"a message of {len(whole):,} bytes, the most is {MESSAGE_BYTES_MAX:,}")
    return whole + CRC.pack(crc32c(whole))


def decode_message(data: bytes | memoryview) -> Message:
    """Read a request or an answer; raises TornEntry, DamagedEntry, VersionError."""
    least = TOP.size + CRC.size
    if not least <= len(data) <= MESSAGE_BYTES_MAX:
        expected = f"{least} to {MESSAGE_BYTES_MAX}"
        raise TornEntry("a message has an impossible length", expected=expected, found=len(data))
    magic, version, kind, length = TOP.unpack_from(data)
    if length != len(data) - least:
        raise TornEntry("a message has another length", expected=length + least, found=len(data))
    _check_top(data, magic, _MESSAGE_MAGIC, version=version)
    shape = _SHAPES.get(kind)
    if shape is None:
        raise DamagedEntry("a message is of no kind", found=kind)
    reader = _Reader(bytes(data[: -CRC.size]))
    found: Message = shape.take(reader)
    if reader.rest:
        raise DamagedEntry("a message has bytes too many", found=reader.rest)
    return found


def _check_top(data: bytes | memoryview, magic: bytes, wanted: bytes, *, version: int) -> None:
    if magic != wanted:
        raise DamagedEntry("it has another magic", expected=wanted, found=magic)
    (expected,) = CRC.unpack_from(data, len(data) - CRC.size)
    if (crc := crc32c(data[: -CRC.size])) != expected:
        raise DamagedEntry(
            "its checksum is wrong", expected=f"{expected:#010x}", found=f"{crc:#010x}"
        )
    if version != VERSION:
        raise VersionError(
            f"it is of version {version}, this Quiver speaks {VERSION}",
            hint="run the same Quiver on all nodes and clients",
        )


class _Reader:
    """Takes bytes from the front; whatever does not fit is damage."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = TOP.size

    @property
    def rest(self) -> int:
        return len(self._data) - self._at

    def take(self, length: int) -> bytes:
        if length > self.rest:
            raise DamagedEntry("a message ends early", expected=length, found=self.rest)
        self._at += length
        return self._data[self._at - length : self._at]


class _Field(NamedTuple):
    """How one value is written and read."""

    pack: Callable[[Any], bytes]
    take: Callable[[_Reader], Any]


def _integer(code: str, low: int, high: int) -> _Field:
    layout = struct.Struct("<" + code)

    def pack(value: int) -> bytes:
        if not low <= value <= high:
            raise InputError(f"{value} is not within {low} to {high}")
        return layout.pack(value)

    def take(reader: _Reader) -> int:
        found: int = layout.unpack(reader.take(layout.size))[0]
        if not low <= found <= high:
            raise DamagedEntry("a number is out of range", found=found)
        return found

    return _Field(pack, take)


def _blob(length: _Field, most: int) -> _Field:
    def pack(data: bytes) -> bytes:
        if len(data) > most:
            raise InputError(f"{len(data):,} bytes, the most is {most:,}")
        return length.pack(len(data)) + data

    def take(reader: _Reader) -> bytes:
        size = length.take(reader)
        if size > most:
            raise DamagedEntry("a field is too long", expected=most, found=size)
        return reader.take(size)

    return _Field(pack, take)


_FLAG: Final = _integer("B", 0, 1)
_BYTE: Final = _integer("B", 0, 255)
_SHORT: Final = _integer("H", 0, (1 << 16) - 1)
_COUNT: Final = _integer("I", 0, COUNT_MAX)
_NUMBER: Final = _integer("Q", 0, NUMBER_MAX)
_SEQ: Final = _integer("q", -1, NUMBER_MAX)
_TIME: Final = _integer("q", -(1 << 63), NUMBER_MAX)
_BOOL: Final = _Field(_FLAG.pack, lambda reader: bool(_FLAG.take(reader)))
_DIGEST: Final = _blob(_BYTE, 32)
_DATA: Final = _blob(_integer("I", 0, (1 << 32) - 1), 1 << 20)


def _text(raw: _Field) -> _Field:
    def pack(text: str) -> bytes:
        try:
            return raw.pack(text.encode())
        except UnicodeEncodeError as error:
            raise InputError(f"{text!r:.80} cannot be written as UTF-8") from error

    def take(reader: _Reader) -> str:
        try:
            found: str = raw.take(reader).decode()
        except UnicodeDecodeError as error:
            raise DamagedEntry("a text is no UTF-8") from error
        return found

    return _Field(pack, take)


_TEXT: Final = _text(_blob(_SHORT, TEXT_BYTES_MAX))
_LONG_TEXT: Final = _text(_blob(_COUNT, 1 << 16))


def _row(kind: Callable[..., Any], *fields: _Field) -> _Field:
    """Make a field of a tuple, or of a dataclass, whose fields these are."""

    def pack(value: Any) -> bytes:  # noqa: ANN401
        values = value if isinstance(value, tuple) else _values(value)
        return b"".join([field.pack(each) for field, each in zip(fields, values, strict=True)])

    return _Field(pack, lambda reader: kind(*[field.take(reader) for field in fields]))


def _values(value: Any) -> list[Any]:  # noqa: ANN401
    return [getattr(value, each.name) for each in fields_of(value)]


def _many(count: _Field, field: _Field) -> _Field:
    def pack(values: tuple[Any, ...]) -> bytes:
        return count.pack(len(values)) + b"".join([field.pack(value) for value in values])

    return _Field(
        pack, lambda reader: tuple([field.take(reader) for _ in range(count.take(reader))])
    )


def _maybe(field: _Field) -> _Field:
    def pack(value: Any) -> bytes:  # noqa: ANN401
        return b"\0" if value is None else b"\1" + field.pack(value)

    return _Field(pack, lambda reader: field.take(reader) if _FLAG.take(reader) else None)


def _pack_state(state: NodeState) -> bytes:
    return bytes([_STATES[state]])


def _take_state(reader: _Reader) -> NodeState:
    found = reader.take(1)[0]
    for state, number in _STATES.items():
        if number == found:
            return state
    raise DamagedEntry("a node is in no state", found=found)


_NAMES: Final = _many(_integer("B", 0, 16), _TEXT)
_BLOCK: Final = _row(BlockName, _TEXT, _NUMBER)
_ROUTE: Final = _row(Route, _BLOCK, _NUMBER, _NAMES, _TEXT)
_SEGMENT: Final = _row(Finished, _NUMBER, _DIGEST, _NUMBER)
_SEALED: Final = _row(Sealed, _NUMBER, _SEQ, _TIME, _TIME, _NAMES)
_HOLDING: Final = _row(Holding, _BLOCK, _NUMBER, _NUMBER, _maybe(_SEGMENT))
_STATE: Final = _Field(_pack_state, _take_state)

_KINDS: Final[tuple[tuple[int, type, tuple[_Field, ...]], ...]] = (
    (1, Opening, (_ROUTE,)),
    (2, Read, (_BLOCK, _NUMBER, _BOOL)),
    (3, Segment, (_BLOCK,)),
    (4, Prepare, (_ROUTE, _LONG_TEXT)),
    (5, Fence, (_BLOCK, _NUMBER)),
    (6, Cut, (_BLOCK, _SEALED)),
    (7, Finish, (_BLOCK,)),
    (8, Settle, (_BLOCK, _SEGMENT)),
    (9, Fetch, (_BLOCK, _TEXT, _SEGMENT)),
    (10, Drop, (_BLOCK,)),
    (11, StatusAsked, ()),
    (12, MetaGet, (_TEXT,)),
    (13, MetaCas, (_TEXT, _TEXT, _DATA)),
    (14, MetaKeys, (_TEXT,)),
    (15, MetaDelete, (_TEXT,)),
    (16, Append, (_TEXT,)),
    (17, Acks, (_TEXT,)),
    (18, Condemn, (_BLOCK,)),
    (19, DropCondemned, (_BLOCK, _NUMBER)),
    (20, Verify, (_BLOCK,)),
    (21, DamagedAsked, ()),
    (22, StatusBehind, (_BLOCK,)),
    (23, TailAcks, (_BLOCK, _NUMBER)),
    (32, Done, ()),
    (33, Answer, (_TEXT, _NUMBER, _SEQ, _TIME, _TIME, _BOOL)),
    (34, Finished, (_NUMBER, _DIGEST, _NUMBER)),
    (35, Status, (_TEXT, _STATE, _NUMBER, _NUMBER, _many(_COUNT, _HOLDING))),
    (36, Found, (_DATA, _TEXT)),
    (37, Put, (_TEXT,)),
    (38, Keys, (_many(_COUNT, _TEXT),)),
    (39, Opened, (_TEXT,)),
    (40, Condemned, (_NUMBER,)),
    (41, Damages, (_many(_COUNT, _row(Damaged, _BLOCK, _TEXT)),)),
)
_SHAPES: Final = {number: _row(kind, *fields) for number, kind, fields in _KINDS}
_KIND_OF: Final = {kind: number for number, kind, _ in _KINDS}
