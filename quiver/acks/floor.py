"""Read the floor alone, beside a writer and without mending: the numbers that are used up.

Floors only grow, and one is written at each finalize, so the last one in the log is soon found from
its end. The log is read before the checkpoint: a writer that folds one into the other in between
leaves the floor in one of the two that are read.
"""

from __future__ import annotations

import posixpath
from contextlib import closing
from typing import Final

from quiver.acks.copies import CHECKPOINT_FILE_BYTES_MAX, read_copies
from quiver.acks.format import (
    FRAME_SIZE,
    HEADER_SIZE,
    KIND_FLOOR,
    decode_frame,
    decode_header,
    decode_record,
)
from quiver.acks.opening import CHECKPOINT_NAME, LOG_BYTES_MAX, LOG_NAME
from quiver.acks.records import Floor
from quiver.disk import Disk
from quiver.errors import DamagedEntry, DamageError, MissingError, TornEntry

__all__ = ["read_floor"]

_HIDES: Final = 2
"""Frames in a row that must be damaged to hide a floor: each is written twice."""


def read_floor(disk: Disk, folder: str) -> tuple[Floor, DamageError | None]:
    """Give the highest floor of an acks folder, and the damage that may hide a higher one.

    Raises VersionError for files of a newer format. A torn end of the log is no damage.
    """
    log_path = posixpath.join(folder, LOG_NAME)
    checkpoint_path = posixpath.join(folder, CHECKPOINT_NAME)
    log = _read(disk, log_path, LOG_BYTES_MAX)
    data = _read(disk, checkpoint_path, CHECKPOINT_FILE_BYTES_MAX)
    checkpoint, faults = (None, []) if data is None else read_copies(data)
    known = Floor() if checkpoint is None else checkpoint.floor
    if log is None:
        return known, DamagedEntry("ack.log is missing", path=disk.locate(log_path))
    base_seq, wrong = _base_seq(log)
    found, hidden = _last_in(log)
    if hidden is not None:
        hidden = hidden.at(disk.locate(log_path))
    if found is not None or checkpoint is not None or hidden is not None:
        return _higher(known, found or known), hidden
    # No floor in the log: then a checkpoint has the last one, unless there never was any.
    if faults:
        return known, faults[0].at(disk.locate(checkpoint_path))
    if wrong is None and base_seq > 1:
        wrong = DamagedEntry(
            "the checkpoint is missing", expected=f"all up to record {base_seq - 1}", found="none"
        )
        return known, wrong.at(disk.locate(checkpoint_path))
    return known, None if wrong is None else wrong.at(disk.locate(log_path))


def _base_seq(log: bytes) -> tuple[int, DamageError | None]:
    try:
        return decode_header(log), None
    except DamageError as error:
        return 0, error


def _last_in(log: bytes) -> tuple[Floor | None, DamageError | None]:
    """Find the last floor of a log, and the damage that may hide a later one."""
    hidden: DamageError | None = None
    in_row = 0
    is_tail = True
    count = max(0, len(log) - HEADER_SIZE) // FRAME_SIZE
    for index in reversed(range(count)):
        offset = HEADER_SIZE + index * FRAME_SIZE
        try:
            frame = decode_frame(log[offset : offset + FRAME_SIZE])
            record = decode_record([frame]) if frame.kind == KIND_FLOOR else None
        except DamageError as error:
            if not (is_tail and isinstance(error, TornEntry)):
                in_row += 1
                hidden = error.at("", base=offset) if in_row >= _HIDES else hidden
            continue
        if isinstance(record, Floor):
            return record, hidden
        is_tail, in_row = False, 0
    return None, hidden


def _higher(one: Floor, other: Floor) -> Floor:
    segment_seq = max(one.next_segment_seq, other.next_segment_seq)
    return Floor(segment_seq, max(one.next_wal_seq, other.next_wal_seq))


def _read(disk: Disk, path: str, bytes_max: int) -> bytes | None:
    try:
        file = disk.open(path)
    except MissingError:
        return None
    with closing(file):
        return file.read(0, bytes_max)
