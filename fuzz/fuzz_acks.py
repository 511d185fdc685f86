"""The acks folder: any two files open, say what they hold, and hold the same the next time.

::

    flags u8 | cut u32 | body          body = ack.log, cut bytes | checkpoint
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

from crc32c import crc32c

from quiver.acks.checkpoint import CHECKPOINT_LAYOUT, decode_checkpoint, encode_checkpoint
from quiver.acks.copies import encode_copies, read_copies
from quiver.acks.format import (
    FRAME_SIZE,
    HEADER_SIZE,
    Frame,
    decode_frame,
    decode_header,
    decode_record,
    encode_header,
    encode_record,
)
from quiver.acks.inbox import INBOX_LAYOUT, decode_inbox, encode_inbox
from quiver.acks.log import AckLog
from quiver.acks.opening import CHECKPOINT_NAME, LOG_NAME, Replay
from quiver.acks.records import Ack, Record
from quiver.errors import DamageError, VersionError
from quiver.testing import MemoryDisk

REPAIR, NO_LOG, NO_CHECKPOINT = 1, 2, 4
INPUT = struct.Struct("<BI")
FOLDER, QUARANTINE = "acks", "quarantine"
SEQ_MAX = (1 << 64) - 1
PROBE = Ack(1, 42, 0, 1, 0)


def one_input(data: bytes) -> None:
    if len(data) < INPUT.size:
        return
    flags, cut = INPUT.unpack_from(data)
    log, state = data[INPUT.size :][:cut], data[INPUT.size :][cut:]
    if flags & REPAIR:
        log, state = repaired_log(log), repaired_checkpoint(state)
    check_header(log)
    check_frames(log[HEADER_SIZE:])
    check_checkpoint(state)
    check_inbox(repaired_inbox(state) if flags & REPAIR else state)
    files = {}
    if not flags & NO_LOG:
        files[LOG_NAME] = log
    if not flags & NO_CHECKPOINT:
        files[CHECKPOINT_NAME] = state
    check_folder(files)


def sealed(data: bytes) -> bytes:
    """Make the last 4 bytes the checksum of those before them."""
    return data[:-4] + struct.pack("<I", crc32c(data[:-4]))


def repaired_log(data: bytes) -> bytes:
    """Give header and frames their checksums."""
    cuts = range(0, len(data), FRAME_SIZE)
    parts = (data[offset : offset + FRAME_SIZE] for offset in cuts)
    return b"".join(sealed(part) if len(part) == FRAME_SIZE else part for part in parts)


def repaired_checkpoint(data: bytes) -> bytes:
    """Give a checkpoint its size, its checksum and its second copy."""
    if len(data) < CHECKPOINT_LAYOUT.size + 4:
        return data
    *start, _ = CHECKPOINT_LAYOUT.unpack_from(data)
    head = CHECKPOINT_LAYOUT.pack(*start, len(data))
    return 2 * sealed(head + data[CHECKPOINT_LAYOUT.size :])


def check_header(data: bytes) -> None:
    try:
        base_seq = decode_header(data)
    except (DamageError, VersionError):
        return
    assert decode_header(encode_header(base_seq)) == base_seq


def check_frames(data: bytes) -> None:
    """Each record that can be read can be written, and is then read as the same."""
    frames: list[Frame] = []
    for offset in range(0, len(data), FRAME_SIZE):
        try:
            frame = decode_frame(data[offset : offset + FRAME_SIZE])
        except DamageError:
            continue
        frames = [frame] if frame.part == 0 else [*frames, frame]
        if frames[0].part == 0 and len(frames) == frames[0].part_count:
            check_record(frames)


def check_record(frames: Sequence[Frame]) -> None:
    try:
        record = decode_record(frames)
    except DamageError:
        return
    if record is not None:
        assert decoded(encode_record(record, 1)) == record


def decoded(data: bytes) -> Record | None:
    cuts = range(0, len(data), FRAME_SIZE)
    return decode_record([decode_frame(data[offset : offset + FRAME_SIZE]) for offset in cuts])


def check_checkpoint(data: bytes) -> None:
    with contextlib.suppress(VersionError):
        sound, damage = read_copies(data)
        assert (sound is None) <= bool(damage)
        assert sound is None or read_copies(encode_copies(sound)) == (sound, [])
    try:
        checkpoint = decode_checkpoint(data[: len(data) // 2])
    except (DamageError, VersionError):
        return
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


def repaired_inbox(data: bytes) -> bytes:
    """Give an inbox its size and its checksum."""
    if len(data) < INBOX_LAYOUT.size + 4:
        return data
    fields = list(INBOX_LAYOUT.unpack_from(data))
    fields[6] = len(data) & 0xFFFF_FFFF
    return sealed(INBOX_LAYOUT.pack(*fields) + data[INBOX_LAYOUT.size :])


def check_inbox(data: bytes) -> None:
    try:
        inbox = decode_inbox(data)
    except (DamageError, VersionError):
        return
    assert decode_inbox(encode_inbox(inbox)) == inbox


def contents(disk: MemoryDisk) -> dict[str, bytes]:
    return {f.name: bytes(disk.map(f"{FOLDER}/{f.name}")) for f in disk.list_dir(FOLDER)}


def opened(disk: MemoryDisk) -> tuple[AckLog, Replay]:
    return AckLog.open(disk, FOLDER, QUARANTINE)


def check_folder(files: dict[str, bytes]) -> None:
    """A second opening finds no damage and the same records; an append is there in a third."""
    disk = MemoryDisk()
    disk.make_dir(FOLDER)
    for name, data in files.items():
        file = disk.create(f"{FOLDER}/{name}")
        file.write(0, data)
        file.close()
    try:
        log, first = opened(disk)
    except VersionError:
        assert contents(disk) == files
        return
    log.close()
    log, second = opened(disk)
    assert second.damage == []
    assert second.torn_bytes == 0
    assert second.records == first.records
    assert first.checkpoint is None or second.checkpoint is not None
    if log.record_seq < SEQ_MAX:
        log.append([PROBE])
        log.sync()
    seq = log.record_seq
    log.close()
    log, third = opened(disk)
    log.close()
    assert log.record_seq == seq
    assert third.damage == []
    assert seq == SEQ_MAX or third.records == [*first.records, PROBE]
