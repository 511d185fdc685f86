"""Bytes of acks/inbox/<name>: what a subscriber in another process did, for the store to fold in.

::

    header (80) | name | segment ... | nack (32) ... | dead letter ... | crc32c

    a segment       fixed part (16) | run (8) ...
    a dead letter   fixed part (20) | text

It says all that the subscriber did and not what changed: the file is replaced as a whole, and to
fold it in twice is to fold it in once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from quiver.acks.format import name_fault
from quiver.acks.records import DEAD_REJECTED
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
    "DEAD_LETTER_LAYOUT",
    "INBOX_BYTES_MAX",
    "INBOX_LAYOUT",
    "INBOX_MAGIC",
    "INBOX_VERSION",
    "TEXT_BYTES_MAX",
    "DeadLetterState",
    "Inbox",
    "decode_inbox",
    "encode_inbox",
]

INBOX_MAGIC: Final = b"QUIVER\0I"
INBOX_VERSION: Final = 1
INBOX_BYTES_MAX: Final = 1 << 24
TEXT_BYTES_MAX: Final = 200

INBOX_LAYOUT: Final = struct.Struct("<8sHHHH16sIIIIQQqI4x")
DEAD_LETTER_LAYOUT: Final = struct.Struct("<QIIHH")
_CRC: Final = struct.Struct("<I")
_PAUSED: Final = 1
_STORE_ID_BYTES: Final = 16
_BYTES_MIN: Final = INBOX_LAYOUT.size + _CRC.size


@dataclass(frozen=True, slots=True)
class DeadLetterState:
    """A bundle that the subscriber gave up after ``attempt`` deliveries; ``text`` says why."""

    segment_seq: int
    bundle_index: int
    attempt: int = 0
    reason: int = DEAD_REJECTED
    text: str = ""


@dataclass(frozen=True, slots=True)
class Inbox:
    """All that a subscriber in another process did under one lease.

    ``store_id`` is that of the manifest, 32 hexadecimal digits. With ``subscriber_id`` 0 it asks
    to be registered from the start position on. ``segments`` have the acked bundles. ``paused`` is
    the one thing that the store says here, to the subscriber.
    """

    store_id: str
    name: str
    lease: int
    at_ns: int
    subscriber_id: int = 0
    start_segment_seq: int = 0
    start_bundle_index: int = 0
    segments: tuple[SegmentState, ...] = ()
    nacks: tuple[NackState, ...] = ()
    dead_letters: tuple[DeadLetterState, ...] = ()
    paused: bool = False


def encode_inbox(inbox: Inbox) -> bytes:
    """Encode an inbox; raises InputError if a reader would refuse the result."""
    fault = _fault(inbox)
    if fault is not None:
        raise InputError(f"the inbox makes no sense: {fault}")
    try:
        body = b"".join(_parts(inbox))
        file_bytes = _BYTES_MIN + len(body)
        head = INBOX_LAYOUT.pack(
            INBOX_MAGIC,
            INBOX_VERSION,
            _PAUSED if inbox.paused else 0,
            len(inbox.name),
            inbox.subscriber_id,
            bytes.fromhex(inbox.store_id),
            file_bytes,
            len(inbox.segments),
            len(inbox.nacks),
            len(inbox.dead_letters),
            inbox.lease,
            inbox.start_segment_seq,
            inbox.at_ns,
            inbox.start_bundle_index,
        )
    except struct.error as error:
        raise InputError(f"the inbox does not fit its format: {error}") from error
    if file_bytes > INBOX_BYTES_MAX:
        raise InputError(
            f"the inbox would have {file_bytes:,} bytes, more than {INBOX_BYTES_MAX:,}",
            hint="too many gaps between acks; resolve the oldest bundles first",
        )
    return head + body + _CRC.pack(crc32c(body, crc32c(head)))


def decode_inbox(data: bytes) -> Inbox:
    """Check and read an inbox; VersionError if it is of a newer format."""
    if len(data) < _BYTES_MIN:
        raise TornEntry("the inbox is short", expected=_BYTES_MIN, found=len(data))
    magic, version, flags, name_bytes, subscriber_id, store_id, file_bytes, *rest = (
        INBOX_LAYOUT.unpack_from(data)
    )
    if magic != INBOX_MAGIC:
        raise DamagedEntry("the inbox has no magic", expected=INBOX_MAGIC, found=magic)
    (stored,) = _CRC.unpack_from(data, len(data) - _CRC.size)
    actual = crc32c(memoryview(data)[: -_CRC.size])
    if stored != actual:
        kind = TornEntry if len(data) < file_bytes else DamagedEntry
        raise kind("the inbox fails its checksum", expected=f"{stored:08x}", found=f"{actual:08x}")
    if version != INBOX_VERSION:
        raise VersionError(
            f"the inbox is of format {version}, this program reads {INBOX_VERSION}",
            hint="let store and consumer be of the same version of Quiver",
        )
    if not file_bytes == len(data) <= INBOX_BYTES_MAX:
        raise DamagedEntry("the inbox has another size", expected=file_bytes, found=len(data))
    segment_count, nack_count, dead_letter_count, lease, start_seq, at_ns, start_index = rest
    stop = len(data) - _CRC.size
    cursor = Cursor(data, "the inbox", start=INBOX_LAYOUT.size, stop=stop)
    inbox = Inbox(
        store_id.hex(),
        cursor.take(name_bytes).decode("latin-1"),
        lease,
        at_ns,
        subscriber_id,
        start_seq,
        start_index,
        read_segments(cursor, segment_count),
        read_nacks(cursor, nack_count),
        tuple(_read_dead_letter(cursor) for _ in range(dead_letter_count)),
        paused=bool(flags & _PAUSED),
    )
    if cursor.left:
        raise DamagedEntry(
            "the inbox goes on after its last dead letter", offset=cursor.offset, found=cursor.left
        )
    fault = _fault(inbox)
    if fault is not None:
        raise DamagedEntry(f"the inbox makes no sense: {fault}")
    return inbox


def _read_dead_letter(cursor: Cursor) -> DeadLetterState:
    offset = cursor.offset
    segment_seq, bundle_index, attempt, reason, text_bytes = cursor.take_one(DEAD_LETTER_LAYOUT)
    text = cursor.take(text_bytes)
    try:
        return DeadLetterState(segment_seq, bundle_index, attempt, reason, text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise DamagedEntry("the text of a dead letter is not UTF-8", offset=offset) from error


def _parts(inbox: Inbox) -> Iterator[bytes]:
    yield inbox.name.encode("ascii")
    yield from segment_parts(inbox.segments)
    yield from nack_parts(inbox.nacks)
    for dead in inbox.dead_letters:
        text = dead.text.encode("utf-8")
        place = dead.segment_seq, dead.bundle_index
        yield DEAD_LETTER_LAYOUT.pack(*place, dead.attempt, dead.reason, len(text))
        yield text


def _fault(inbox: Inbox) -> str | None:
    """Say what a reader could not make sense of: the writer refuses it as the reader does."""
    if inbox.lease < 1:
        return f"no lease has the generation {inbox.lease}"
    return (
        _store_fault(inbox.store_id)
        or name_fault(inbox.name)
        or states_fault(inbox.segments, inbox.nacks)
        or _dead_letters_fault(inbox.dead_letters)
    )


def _store_fault(store_id: str) -> str | None:
    try:
        known = bytes.fromhex(store_id)
    except ValueError:
        known = b""
    if known.hex() != store_id or len(known) != _STORE_ID_BYTES:
        return f"{store_id!r} is not the id of a store"
    return None


def _dead_letters_fault(dead_letters: Sequence[DeadLetterState]) -> str | None:
    if not is_ascending((dead.segment_seq, dead.bundle_index) for dead in dead_letters):
        return "dead letters do not ascend"
    for dead in dead_letters:
        try:
            text_bytes = len(dead.text.encode("utf-8"))
        except UnicodeEncodeError:
            return "the text of a dead letter is no text"
        if text_bytes > TEXT_BYTES_MAX:
            return f"the text of a dead letter has {text_bytes} bytes"
    return None
