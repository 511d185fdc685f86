"""Bytes of acks/checkpoint: the state of every subscriber after one record, little-endian.

::

    header (64) | subscriber | subscriber | ... | crc32c

    a subscriber   fixed part (48) | name | segment ... | nack (32) ...
    a segment      fixed part (16) | run (8) ...

The file is small where acks come in order: a segment is one run then, and one that lies below the
subscriber's floor is not there at all. In version 1 the fixed part of a subscriber had 32 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from crc32c import crc32c

from quiver.acks.format import floor_fault, name_fault
from quiver.acks.records import Floor
from quiver.acks.states import (
    Cursor,
    NackState,
    SegmentState,
    is_ascending,
    nack_parts,
    read_nacks,
    read_segments,
    segment_parts,
    states_fault,
)
from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = [
    "CHECKPOINT_BYTES_MAX",
    "CHECKPOINT_LAYOUT",
    "CHECKPOINT_MAGIC",
    "CHECKPOINT_VERSION",
    "SUBSCRIBER_LAYOUT",
    "SUBSCRIBER_LAYOUT_1",
    "Checkpoint",
    "SubscriberState",
    "decode_checkpoint",
    "encode_checkpoint",
]

CHECKPOINT_MAGIC: Final = b"QUIVER\0C"
CHECKPOINT_VERSION: Final = 2
"""What is written; everything from 1 on is read."""
CHECKPOINT_BYTES_MAX: Final = 1 << 28

CHECKPOINT_LAYOUT: Final = struct.Struct("<8sHHIQQQQ16x")
SUBSCRIBER_LAYOUT: Final = struct.Struct("<HHHHQQIIqQ")
SUBSCRIBER_LAYOUT_1: Final = struct.Struct("<HHHHQQII")
_CRC: Final = struct.Struct("<I")

_PAUSED: Final = 1
_BYTES_MIN: Final = CHECKPOINT_LAYOUT.size + _CRC.size


@dataclass(frozen=True, slots=True)
class SubscriberState:
    """All about one subscriber; every segment below its floor is finished.

    ``last_seen_ns`` is when something of it was last recorded, 0 if that is not known.
    """

    subscriber_id: int
    name: str
    floor_segment_seq: int
    segments: tuple[SegmentState, ...] = ()
    nacks: tuple[NackState, ...] = ()
    lease: int = 0
    paused: bool = False
    last_seen_ns: int = 0
    dead_letter_count: int = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the records up to and including ``record_seq`` add up to."""

    record_seq: int = 0
    floor: Floor = field(default_factory=Floor)
    subscribers: tuple[SubscriberState, ...] = ()


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode a checkpoint; raises InputError if a reader would refuse the result."""
    fault = _fault(checkpoint)
    if fault is not None:
        raise InputError(f"the checkpoint makes no sense: {fault}")
    try:
        body = b"".join(_subscriber_parts(checkpoint.subscribers))
        file_bytes = _BYTES_MIN + len(body)
        floor = checkpoint.floor
        head = CHECKPOINT_LAYOUT.pack(
            CHECKPOINT_MAGIC,
            CHECKPOINT_VERSION,
            0,
            len(checkpoint.subscribers),
            checkpoint.record_seq,
            floor.next_segment_seq,
            floor.next_wal_seq,
            file_bytes,
        )
    except struct.error as error:
        raise InputError(f"the checkpoint does not fit its format: {error}") from error
    if file_bytes > CHECKPOINT_BYTES_MAX:
        raise InputError(
            f"the checkpoint would have {file_bytes:,} bytes, more than {CHECKPOINT_BYTES_MAX:,}",
            hint="too many gaps between acks; resolve or drop the oldest bundles",
        )
    return head + body + _CRC.pack(crc32c(body, crc32c(head)))


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Check and read a checkpoint; VersionError if it is of a newer format."""
    if len(data) < _BYTES_MIN:
        raise TornEntry("the checkpoint is short", expected=_BYTES_MIN, found=len(data))
    magic, version, _, subscriber_count, record_seq, segment_seq, wal_seq, file_bytes = (
        CHECKPOINT_LAYOUT.unpack_from(data)
    )
    if magic != CHECKPOINT_MAGIC:
        raise DamagedEntry("the checkpoint has no magic", expected=CHECKPOINT_MAGIC, found=magic)
    (stored,) = _CRC.unpack_from(data, len(data) - _CRC.size)
    actual = crc32c(memoryview(data)[: -_CRC.size])
    if stored != actual:
        kind = TornEntry if len(data) < file_bytes else DamagedEntry
        raise kind(
            "the checkpoint fails its checksum", expected=f"{stored:08x}", found=f"{actual:08x}"
        )
    if not 1 <= version <= CHECKPOINT_VERSION:
        raise VersionError(
            f"the checkpoint is of format {version}, this program reads 1 to {CHECKPOINT_VERSION}",
            hint="open the store with the version that wrote it, or a newer one",
        )
    if file_bytes != len(data):
        raise DamagedEntry("the checkpoint has another size", expected=file_bytes, found=len(data))
    stop = len(data) - _CRC.size
    cursor = Cursor(data, "the checkpoint", start=CHECKPOINT_LAYOUT.size, stop=stop)
    read = _read_subscriber_1 if version == 1 else _read_subscriber
    subscribers = tuple(read(cursor) for _ in range(subscriber_count))
    if cursor.left:
        raise DamagedEntry(
            "the checkpoint goes on after its last subscriber",
            offset=cursor.offset,
            found=cursor.left,
        )
    checkpoint = Checkpoint(record_seq, Floor(segment_seq, wal_seq), subscribers)
    fault = _fault(checkpoint)
    if fault is not None:
        raise DamagedEntry(f"the checkpoint makes no sense: {fault}")
    return checkpoint


def _read_subscriber(cursor: Cursor) -> SubscriberState:
    fixed = cursor.take_one(SUBSCRIBER_LAYOUT)
    *begin, last_seen_ns, dead_letter_count = fixed
    paused = bool(fixed[1] & _PAUSED)
    return _read_lists(cursor, begin, (paused, last_seen_ns, dead_letter_count))


def _read_subscriber_1(cursor: Cursor) -> SubscriberState:
    fixed = cursor.take_one(SUBSCRIBER_LAYOUT_1)
    return _read_lists(cursor, fixed, ())


def _read_lists(cursor: Cursor, fixed: Sequence[int], more: tuple[Any, ...]) -> SubscriberState:
    subscriber_id, _, name_bytes, _, floor, lease, segment_count, nack_count = fixed
    name = cursor.take(name_bytes).decode("latin-1")
    segments = read_segments(cursor, segment_count)
    nacks = read_nacks(cursor, nack_count)
    return SubscriberState(subscriber_id, name, floor, segments, nacks, lease, *more)


def _subscriber_parts(subscribers: Iterable[SubscriberState]) -> Iterator[bytes]:
    for state in subscribers:
        name = state.name.encode("ascii")
        yield SUBSCRIBER_LAYOUT.pack(
            state.subscriber_id,
            _PAUSED if state.paused else 0,
            len(name),
            0,
            state.floor_segment_seq,
            state.lease,
            len(state.segments),
            len(state.nacks),
            state.last_seen_ns,
            state.dead_letter_count,
        )
        yield name
        yield from segment_parts(state.segments)
        yield from nack_parts(state.nacks)


def _fault(checkpoint: Checkpoint) -> str | None:
    """Say what a reader could not make sense of: the writer refuses it as the reader does."""
    fault = floor_fault(checkpoint.floor.next_segment_seq, checkpoint.floor.next_wal_seq)
    if fault is not None:
        return fault
    if not is_ascending(state.subscriber_id for state in checkpoint.subscribers):
        return "subscriber ids do not ascend"
    names = {state.name for state in checkpoint.subscribers}
    if len(names) != len(checkpoint.subscribers):
        return "two subscribers share a name"
    for state in checkpoint.subscribers:
        fault = name_fault(state.name) or states_fault(state.segments, state.nacks)
        if fault is not None:
            return f"subscriber {state.subscriber_id}: {fault}"
    return None
