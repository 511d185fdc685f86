"""Bytes of the file ``ages``: the store clock of one core, and which segments were there when.

::

    header (32) | mark (16) ... | crc32c (4)
"""

from __future__ import annotations

import itertools
import struct
from typing import Final

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError
from quiver.retention.age import Mark, Saved

__all__ = [
    "AGES_BYTES_MAX",
    "AGES_LAYOUT",
    "AGES_MAGIC",
    "AGES_VERSION",
    "MARKS_MAX",
    "MARK_LAYOUT",
    "TIME_NS_MAX",
    "decode_ages",
    "encode_ages",
]

AGES_MAGIC: Final = b"QUIVER\0G"
AGES_VERSION: Final = 1
AGES_LAYOUT: Final = struct.Struct("<8sHHIqq")
MARK_LAYOUT: Final = struct.Struct("<Qq")
_CRC: Final = struct.Struct("<I")
MARKS_MAX: Final = 4096
TIME_NS_MAX: Final = 1 << 62
"""More than a century either way, with room for as much again."""
AGES_BYTES_MAX: Final = AGES_LAYOUT.size + MARKS_MAX * MARK_LAYOUT.size + _CRC.size


def encode_ages(saved: Saved) -> bytes:
    """Encode it; raises InputError if a reader would refuse the result."""
    fault = _fault(saved)
    if fault:
        raise InputError(f"the ages make no sense: {fault}")
    try:
        head = AGES_LAYOUT.pack(
            AGES_MAGIC, AGES_VERSION, 0, len(saved.marks), saved.store_ns, saved.wall_ns
        )
        marks = b"".join(MARK_LAYOUT.pack(m.segment_seq, m.at_ns) for m in saved.marks)
    except struct.error as error:
        raise InputError(f"the ages do not fit their format: {error}") from error
    return head + marks + _CRC.pack(crc32c(head + marks))


def decode_ages(data: bytes) -> Saved:
    """Decode a whole file; raises DamageError or VersionError."""
    if len(data) < AGES_LAYOUT.size + _CRC.size:
        raise TornEntry(
            "the ages end early", expected=AGES_LAYOUT.size + _CRC.size, found=len(data)
        )
    body, (stored,) = data[: -_CRC.size], _CRC.unpack(data[-_CRC.size :])
    magic, version, _, count, store_ns, wall_ns = AGES_LAYOUT.unpack_from(body)
    if magic != AGES_MAGIC:
        raise DamagedEntry("these are no ages", expected=AGES_MAGIC, found=magic)
    if crc32c(body) != stored:
        raise DamagedEntry(
            "the checksum of the ages is wrong",
            expected=f"{stored:#010x}",
            found=f"{crc32c(body):#010x}",
        )
    if version != AGES_VERSION:
        raise VersionError(f"ages of version {version}; this program knows {AGES_VERSION}")
    if count > MARKS_MAX or len(body) != AGES_LAYOUT.size + count * MARK_LAYOUT.size:
        raise DamagedEntry("the ages have another number of marks", expected=count)
    saved = Saved(
        store_ns,
        wall_ns,
        tuple(Mark(*m) for m in MARK_LAYOUT.iter_unpack(body[AGES_LAYOUT.size :])),
    )
    fault = _fault(saved)
    if fault:
        raise DamagedEntry(f"the ages make no sense: {fault}")
    return saved


def _fault(saved: Saved) -> str:
    """Say what no writer would have written."""
    marks = saved.marks
    if len(marks) > MARKS_MAX:
        return f"there are {len(marks)} marks"
    if any(abs(ns) > TIME_NS_MAX for ns in (saved.store_ns, *(mark.at_ns for mark in marks))):
        return "a time is out of range"
    pairs = itertools.pairwise(marks)
    if any(a.segment_seq > b.segment_seq or a.at_ns > b.at_ns for a, b in pairs):
        return "the marks are not in order"
    return ""
