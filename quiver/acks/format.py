"""Bytes of ack.log: a header of 64 bytes, then frames of 64 bytes, little-endian.

::

    header | frame | frame | frame | ...

    0      1      2            3       4               6        8            16      24     60
    kind | part | part_count | flags | subscriber_id | reason | record_seq | at_ns | body | crc32c

A record is one frame; only a long name takes more, one behind the other. All sizes
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

from quiver.acks.records import (
    Ack,
    DeadLetter,
    Dropped,
    Floor,
    Lease,
    Nack,
    Pause,
    Record,
    Register,
    Rename,
    Unregister,
)
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.payload import SEQ_MAX

__all__ = [
    "ACK_LAYOUT",
    "BODY_SIZE",
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
    "Frame",
    "decode_frame",
    "decode_header",
    "decode_record",
    "encode_header",
    "encode_record",
    "floor_fault",
    "name_fault",
]

MAGIC: Final = b"QUIVER\0A"
VERSION: Final = 1

HEADER_LAYOUT: Final = struct.Struct("<8sHHIQ36xI")
FRAME_LAYOUT: Final = struct.Struct("<BBBBHHQq36sI")
OUTCOME_LAYOUT: Final = struct.Struct("<QIIqQI")
ACK_LAYOUT: Final = struct.Struct("<BBBBHHQqQIIqQI")
"""The frame of an ack, with its body and without its checksum."""
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
KIND_PAUSE: Final = 7
KIND_DEAD_LETTER: Final = 8
KIND_LEASE: Final = 9
KIND_RENAME: Final = 10

PAUSED: Final = 1
"""Bit of a pause's flags: set to pause, clear to resume."""

NAME_BYTES_MAX: Final = 128
_NAME_ROOM: Final = 22
_NAME_MIDDLE: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_NAME_FIRST: Final = _NAME_MIDDLE - frozenset("._-")
_BUNDLES_MAX: Final = 1 << 32
_NO_BODY: Final = bytes(BODY_SIZE)

_Bodies: TypeAlias = tuple[int, int, list[bytes]]
"""Kind, reason, and the body of each frame."""


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
    if type(record) is Ack:  # Nearly all records are acks.
        return _encode_ack(record, record_seq)
    try:
        kind, reason, bodies = _BODIES[type(record)](record)
        flags = PAUSED if isinstance(record, Pause) and record.paused else 0
        subscriber_id = 0 if isinstance(record, Floor) else record.subscriber_id
        frames = []
        for part, body in enumerate(bodies):
            seq = record_seq + part
            place = kind, part, len(bodies), flags, subscriber_id
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


def floor_fault(next_segment_seq: int, next_wal_seq: int) -> str | None:
    """Say why nobody can go on from these numbers; None if everybody can."""
    if max(next_segment_seq, next_wal_seq) > SEQ_MAX + 1:
        return f"the floor is above {SEQ_MAX + 1}: segment {next_segment_seq}, {next_wal_seq}"
    return None


def _run_fault(first: int, count: int) -> str | None:
    if count < 1 or first + count > _BUNDLES_MAX:
        return f"bundles {first} to {first + count} are no run"
    return None


def _encode_ack(ack: Ack, record_seq: int) -> bytes:
    number, segment_seq, first, count, at_ns, lease = ack
    fault = _run_fault(first, count)
    if fault is not None:
        raise InputError(fault)
    try:
        frame = ACK_LAYOUT.pack(
            KIND_ACK, 0, 1, 0, number, 0, record_seq, at_ns, segment_seq, first, count, 0, lease, 0
        )
    except struct.error as error:
        raise InputError(f"{ack} does not fit into a record: {error}") from error
    return frame + _CRC.pack(crc32c(frame))


def _outcome_bodies(record: Dropped | DeadLetter) -> _Bodies:
    fault = _run_fault(record.bundle_first, record.bundle_count)
    if fault is not None:
        raise InputError(fault)
    place = record.segment_seq, record.bundle_first, record.bundle_count
    if isinstance(record, Dropped):
        return KIND_DROPPED, record.reason, [OUTCOME_LAYOUT.pack(*place, 0, 0, 0)]
    body = OUTCOME_LAYOUT.pack(*place, 0, record.lease, record.attempt)
    return KIND_DEAD_LETTER, record.reason, [body]


def _nack_bodies(record: Nack) -> _Bodies:
    place = record.segment_seq, record.bundle_index, 1
    body = OUTCOME_LAYOUT.pack(*place, record.not_before_ns, record.lease, record.attempt)
    return KIND_NACK, record.reason, [body]


def _register_bodies(record: Register) -> _Bodies:
    start = record.start_segment_seq, record.start_bundle_index
    return KIND_REGISTER, 0, _name_bodies(record.name, start)


def _name_bodies(name: str, start: tuple[int, int]) -> list[bytes]:
    fault = name_fault(name)
    if fault is not None:
        raise InputError(fault)
    data = name.encode("ascii")
    first = REGISTER_LAYOUT.pack(*start, len(data), data[:_NAME_ROOM])
    more = range(_NAME_ROOM, len(data), BODY_SIZE)
    return [first, *(data[offset : offset + BODY_SIZE] for offset in more)]


def _floor_bodies(floor: Floor) -> _Bodies:
    numbers = floor.next_segment_seq, floor.next_wal_seq
    fault = floor_fault(*numbers)
    if fault is not None:
        raise InputError(fault)
    return KIND_FLOOR, 0, [FLOOR_LAYOUT.pack(*numbers)]


_BODIES: Final[dict[type, Callable[..., _Bodies]]] = {
    Dropped: _outcome_bodies,
    DeadLetter: _outcome_bodies,
    Nack: _nack_bodies,
    Register: _register_bodies,
    Rename: lambda rename: (KIND_RENAME, 0, _name_bodies(rename.name, (0, 0))),
    Unregister: lambda _: (KIND_UNREGISTER, 0, [_NO_BODY]),
    Pause: lambda _: (KIND_PAUSE, 0, [_NO_BODY]),
    Lease: lambda lease: (KIND_LEASE, 0, [OUTCOME_LAYOUT.pack(0, 0, 0, 0, lease.lease, 0)]),
    Floor: _floor_bodies,
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
    if frame.kind == KIND_DEAD_LETTER:
        run = seq, first, count
        return DeadLetter(frame.subscriber_id, *run, frame.at_ns, attempt, frame.reason, lease)
    times = not_before_ns, frame.at_ns
    return Nack(frame.subscriber_id, seq, first, attempt, *times, frame.reason, lease)


def _decode_register(frames: Sequence[Frame]) -> Record:
    name, segment_seq, bundle_index = _decode_name(frames)
    return Register(frames[0].subscriber_id, name, frames[0].at_ns, segment_seq, bundle_index)


def _decode_rename(frames: Sequence[Frame]) -> Record:
    name, *_ = _decode_name(frames)
    return Rename(frames[0].subscriber_id, name, frames[0].at_ns)


def _decode_name(frames: Sequence[Frame]) -> tuple[str, int, int]:
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
    return name, segment_seq, bundle_index


def _decode_pause(frames: Sequence[Frame]) -> Record:
    frame = frames[0]
    return Pause(frame.subscriber_id, frame.at_ns, bool(frame.flags & PAUSED))


def _decode_lease(frames: Sequence[Frame]) -> Record:
    *_, lease, _ = OUTCOME_LAYOUT.unpack(frames[0].body)
    return Lease(frames[0].subscriber_id, lease, frames[0].at_ns)


def _decode_floor(frames: Sequence[Frame]) -> Record:
    next_segment_seq, next_wal_seq = FLOOR_LAYOUT.unpack(frames[0].body)
    fault = floor_fault(next_segment_seq, next_wal_seq)
    if fault is not None:
        raise DamagedEntry(fault)
    return Floor(next_segment_seq, next_wal_seq, frames[0].at_ns)


_DECODERS: Final[dict[int, Callable[[Sequence[Frame]], Record]]] = {
    KIND_ACK: _decode_outcome,
    KIND_NACK: _decode_outcome,
    KIND_DROPPED: _decode_outcome,
    KIND_REGISTER: _decode_register,
    KIND_UNREGISTER: lambda frames: Unregister(frames[0].subscriber_id, frames[0].at_ns),
    KIND_FLOOR: _decode_floor,
    KIND_PAUSE: _decode_pause,
    KIND_DEAD_LETTER: _decode_outcome,
    KIND_LEASE: _decode_lease,
    KIND_RENAME: _decode_rename,
}
