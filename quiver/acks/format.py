"""Bytes of ack.log: a header of 64 bytes, then frames of 64 bytes, little-endian.

::

    header | frame | frame | frame | ...

    0      1      2            3       4               6        8            16      24     60
    kind | part | part_count | flags | subscriber_id | reason | record_seq | at_ns | body | crc32c

A record is one frame; only a register with a long name takes more, one behind the other. All sizes
divide 512, so no frame lies across two sectors of a disk and a power cut leaves a frame whole or
blank. A blank frame is never valid, whatever checksum zeros may have: its kind would be 0.

What a reader does not know it skips: other kinds, and fields that are zero today.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "BODY_SIZE",
    "DROPPED_AGE",
    "DROPPED_DAMAGED",
    "DROPPED_OPERATOR",
    "DROPPED_SIZE",
    "FLOOR_LAYOUT",
    "FRAME_LAYOUT",
    "FRAME_SIZE",
    "HEADER_LAYOUT",
    "HEADER_SIZE",
    "MAGIC",
    "NAME_BYTES_MAX",
    "OUTCOME_LAYOUT",
    "REGISTER_LAYOUT",
    "VERSION",
    "Ack",
    "Dropped",
    "Floor",
    "Frame",
    "Nack",
    "Record",
    "Register",
    "Unregister",
    "decode_frame",
    "decode_header",
    "decode_record",
    "encode_header",
    "encode_record",
    "name_fault",
]

MAGIC: Final = b"QUIVER\0A"
VERSION: Final = 1

HEADER_LAYOUT: Final = struct.Struct("<8sHHIQ36xI")
FRAME_LAYOUT: Final = struct.Struct("<BBBBHHQq36sI")
OUTCOME_LAYOUT: Final = struct.Struct("<QIIqQI")
REGISTER_LAYOUT: Final = struct.Struct("<QIH22s")
FLOOR_LAYOUT: Final = struct.Struct("<QQ20x")
_CRC: Final = struct.Struct("<I")

HEADER_SIZE: Final = HEADER_LAYOUT.size
BODY_SIZE: Final = OUTCOME_LAYOUT.size
FRAME_SIZE: Final = FRAME_LAYOUT.size

KIND_ACK: Final = 1
KIND_NACK: Final = 2
KIND_DROPPED: Final = 3
KIND_REGISTER: Final = 4
KIND_UNREGISTER: Final = 5
KIND_FLOOR: Final = 6

DROPPED_SIZE: Final = 1
"""Why a bundle was dropped: the size cap, under ``drop_oldest``."""
DROPPED_AGE: Final = 2
DROPPED_DAMAGED: Final = 3
DROPPED_OPERATOR: Final = 4

NAME_BYTES_MAX: Final = 128
_NAME_ROOM: Final = 22
_NAME_MIDDLE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_NAME_FIRST: Final = _NAME_MIDDLE - frozenset("._-")
_BUNDLES_MAX: Final = 1 << 32
_NO_BODY: Final = bytes(BODY_SIZE)


@dataclass(frozen=True, slots=True)
class Ack:
    """A subscriber is done with bundles ``[bundle_first, bundle_first + bundle_count)``."""

    subscriber_id: int
    segment_seq: int
    bundle_first: int
    bundle_count: int
    at_ns: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """Bundles that a subscriber never gets, by the user's choice; resolves them as an ack does."""

    subscriber_id: int
    segment_seq: int
    bundle_first: int
    bundle_count: int
    at_ns: int
    reason: int = DROPPED_SIZE


@dataclass(frozen=True, slots=True)
class Nack:
    """Delivery number ``attempt`` of a bundle failed; it is not offered before a wall time."""

    subscriber_id: int
    segment_seq: int
    bundle_index: int
    attempt: int
    not_before_ns: int
    at_ns: int
    reason: int = 0
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Register:
    """A subscriber id starts, from nothing, and gets the bundles from a start position on."""

    subscriber_id: int
    name: str
    at_ns: int = 0
    start_segment_seq: int = 0
    start_bundle_index: int = 0


@dataclass(frozen=True, slots=True)
class Unregister:
    """A subscriber id ends and its state is forgotten."""

    subscriber_id: int
    at_ns: int = 0


@dataclass(frozen=True, slots=True)
class Floor:
    """The sequences below these two are used up for ever."""

    next_segment_seq: int = 0
    next_wal_seq: int = 0
    at_ns: int = 0


Record: TypeAlias = Ack | Nack | Dropped | Register | Unregister | Floor


@dataclass(frozen=True, slots=True)
class Frame:
    """One checked frame, its body not yet read."""

    kind: int
    part: int
    part_count: int
    flags: int
    subscriber_id: int
    reason: int
    record_seq: int
    at_ns: int
    body: bytes


def encode_header(base_seq: int) -> bytes:
    """Encode the header of a log whose records all have a ``record_seq`` of at least this."""
    body = HEADER_LAYOUT.pack(MAGIC, VERSION, 0, 0, base_seq, 0)[: -_CRC.size]
    return body + _CRC.pack(crc32c(body))


def decode_header(data: bytes) -> int:
    """Check a log's header and give its ``base_seq``; VersionError if it is of a newer format."""
    if len(data) < HEADER_SIZE:
        raise TornEntry("the header of ack.log is short", expected=HEADER_SIZE, found=len(data))
    magic, version, _, _, base_seq, stored = HEADER_LAYOUT.unpack_from(data)
    if magic != MAGIC:
        raise DamagedEntry("the header of ack.log has no magic", expected=MAGIC, found=magic)
    actual = crc32c(data[: HEADER_SIZE - _CRC.size])
    if actual != stored:
        raise DamagedEntry(
            "the header of ack.log fails its checksum",
            expected=f"{stored:08x}",
            found=f"{actual:08x}",
        )
    if version != VERSION:
        raise VersionError(
            f"ack.log is of format {version}, this program reads {VERSION}",
            hint="open the store with the version that wrote it, or a newer one",
        )
    return int(base_seq)


def encode_record(record: Record, record_seq: int) -> bytes:
    """Encode a record as whole frames, of which the first has ``record_seq``, each next one more.

    Raises InputError if a value does not fit, or makes no sense to a reader.
    """
    try:
        kind, reason, bodies = _BODIES[type(record)](record)
        subscriber_id = 0 if isinstance(record, Floor) else record.subscriber_id
        frames = []
        for part, body in enumerate(bodies):
            seq = record_seq + part
            place = kind, part, len(bodies), 0, subscriber_id
            frame = FRAME_LAYOUT.pack(*place, reason, seq, record.at_ns, body, 0)[: -_CRC.size]
            frames += [frame, _CRC.pack(crc32c(frame))]
    except struct.error as error:
        raise InputError(f"{record} does not fit into a record: {error}") from error
    return b"".join(frames)


def decode_frame(data: bytes | memoryview) -> Frame:
    """Check one frame; TornEntry if it is short or blank, DamagedEntry if it is wrong."""
    raw = bytes(data[:FRAME_SIZE])
    if len(raw) < FRAME_SIZE:
        raise TornEntry("the frame is short", expected=FRAME_SIZE, found=len(raw))
    (stored,) = _CRC.unpack_from(raw, FRAME_SIZE - _CRC.size)
    actual = crc32c(raw[: -_CRC.size])
    if stored == 0 != actual:
        raise TornEntry("the frame was never filled in to its end")
    if stored != actual:
        raise DamagedEntry(
            "the frame fails its checksum", expected=f"{stored:08x}", found=f"{actual:08x}"
        )
    frame = Frame(*FRAME_LAYOUT.unpack(raw)[:-1])
    if frame.kind == 0:
        raise DamagedEntry("the frame has no kind", expected="1 to 255", found=0)
    if frame.part >= frame.part_count:
        raise DamagedEntry(
            "the frame is no part of its record",
            expected=f"below {frame.part_count}",
            found=frame.part,
        )
    return frame


def decode_record(frames: Sequence[Frame]) -> Record | None:
    """Read the record in its frames, complete and in order; None if its kind is not known."""
    decode = _DECODERS.get(frames[0].kind)
    return None if decode is None else decode(frames)


def name_fault(name: str) -> str | None:
    """Say what is wrong with a subscriber's name; None if nothing is."""
    if not 1 <= len(name) <= NAME_BYTES_MAX:
        return f"a name has 1 to {NAME_BYTES_MAX} characters, not {len(name)}"
    if name[0] not in _NAME_FIRST or not _NAME_MIDDLE.issuperset(name) or ".." in name:
        return (
            "a name is letters, digits and . - _, starts with one of the first two, and has no .."
        )
    return None


def _run_fault(first: int, count: int) -> str | None:
    if count < 1 or first + count > _BUNDLES_MAX:
        return f"bundles {first} to {first + count} are no run"
    return None


def _outcome_bodies(record: Ack | Dropped) -> tuple[int, int, list[bytes]]:
    fault = _run_fault(record.bundle_first, record.bundle_count)
    if fault is not None:
        raise InputError(fault)
    kind, reason, lease = KIND_ACK, 0, 0
    if isinstance(record, Ack):
        lease = record.lease
    else:
        kind, reason = KIND_DROPPED, record.reason
    first, count = record.bundle_first, record.bundle_count
    return kind, reason, [OUTCOME_LAYOUT.pack(record.segment_seq, first, count, 0, lease, 0)]


def _nack_bodies(record: Nack) -> tuple[int, int, list[bytes]]:
    place = record.segment_seq, record.bundle_index, 1
    body = OUTCOME_LAYOUT.pack(*place, record.not_before_ns, record.lease, record.attempt)
    return KIND_NACK, record.reason, [body]


def _register_bodies(record: Register) -> tuple[int, int, list[bytes]]:
    fault = name_fault(record.name)
    if fault is not None:
        raise InputError(fault)
    name = record.name.encode("ascii")
    start = record.start_segment_seq, record.start_bundle_index
    bodies = [REGISTER_LAYOUT.pack(*start, len(name), name[:_NAME_ROOM])]
    more = range(_NAME_ROOM, len(name), BODY_SIZE)
    bodies += [name[offset : offset + BODY_SIZE] for offset in more]
    return KIND_REGISTER, 0, bodies


_BODIES: Final[dict[type, Callable[..., tuple[int, int, list[bytes]]]]] = {
    Ack: _outcome_bodies,
    Dropped: _outcome_bodies,
    Nack: _nack_bodies,
    Register: _register_bodies,
    Unregister: lambda _: (KIND_UNREGISTER, 0, [_NO_BODY]),
    Floor: lambda floor: (
        KIND_FLOOR,
        0,
        [FLOOR_LAYOUT.pack(floor.next_segment_seq, floor.next_wal_seq)],
    ),
}


def _decode_outcome(frames: Sequence[Frame]) -> Record:
    frame = frames[0]
    seq, first, count, not_before_ns, lease, attempt = OUTCOME_LAYOUT.unpack(frame.body)
    fault = _run_fault(first, count)
    if fault is not None:
        raise DamagedEntry(fault)
    if frame.kind == KIND_ACK:
        return Ack(frame.subscriber_id, seq, first, count, frame.at_ns, lease)
    if frame.kind == KIND_DROPPED:
        return Dropped(frame.subscriber_id, seq, first, count, frame.at_ns, frame.reason)
    times = not_before_ns, frame.at_ns
    return Nack(frame.subscriber_id, seq, first, attempt, *times, frame.reason, lease)


def _decode_register(frames: Sequence[Frame]) -> Record:
    segment_seq, bundle_index, name_bytes, start = REGISTER_LAYOUT.unpack(frames[0].body)
    stored = start + b"".join(frame.body for frame in frames[1:])
    if name_bytes > len(stored):
        raise DamagedEntry(
            "the name is longer than its record", expected=name_bytes, found=len(stored)
        )
    name = stored[:name_bytes].decode("latin-1")
    fault = name_fault(name)
    if fault is not None:
        raise DamagedEntry(fault)
    return Register(frames[0].subscriber_id, name, frames[0].at_ns, segment_seq, bundle_index)


def _decode_floor(frames: Sequence[Frame]) -> Record:
    next_segment_seq, next_wal_seq = FLOOR_LAYOUT.unpack(frames[0].body)
    return Floor(next_segment_seq, next_wal_seq, frames[0].at_ns)


_DECODERS: Final[dict[int, Callable[[Sequence[Frame]], Record]]] = {
    KIND_ACK: _decode_outcome,
    KIND_NACK: _decode_outcome,
    KIND_DROPPED: _decode_outcome,
    KIND_REGISTER: _decode_register,
    KIND_UNREGISTER: lambda frames: Unregister(frames[0].subscriber_id, frames[0].at_ns),
    KIND_FLOOR: _decode_floor,
}
