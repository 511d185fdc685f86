"""Bytes of the files ``timeline`` and ``heartbeat``: how the times of one partition go on.

::

    magic (8) | version u16 | rule u8 | closed u8 | ordered_from u64 | least_ns i64 | crc32c u32
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from quiver.errors import DamagedEntry, InputError, TornEntry, VersionError

__all__ = ["TIMELINE_BYTES", "TIMELINE_MAGIC", "Saved", "decode_timeline", "encode_timeline"]

TIMELINE_MAGIC: Final = b"QUIVER\0H"
TIMELINE_VERSION: Final = 1
_LAYOUT: Final = struct.Struct("<8sHBBQq")
_CRC: Final = struct.Struct("<I")
TIMELINE_BYTES: Final = _LAYOUT.size + _CRC.size
_RULES: Final = ("clock", "writer", "caller")


class Saved(NamedTuple):
    """What a writer wrote down of the times of its partition."""

    rule: str
    """``clock``, ``writer`` or ``caller``: as ``segment.time`` was when it last appended."""
    closed: bool
    """Whether nobody writes it until this file says otherwise."""
    ordered_from: int
    """Segments of this number and later ones ascend in time, and lie behind all earlier ones."""
    least_ns: int
    """No bundle that comes later is older than this; says nothing with the rule ``clock``."""


def encode_timeline(saved: Saved) -> bytes:
    """Encode it; raises InputError if a reader would refuse the result."""
    if saved.rule not in _RULES or saved.least_ns < 0:
        raise InputError(f"these times make no sense: {saved}")
    rule = _RULES.index(saved.rule)
    try:
        body = _LAYOUT.pack(
            *(TIMELINE_MAGIC, TIMELINE_VERSION, rule, saved.closed),
            *(saved.ordered_from, saved.least_ns),
        )
    except struct.error as error:
        raise InputError(f"these times do not fit their format: {error}") from error
    return body + _CRC.pack(crc32c(body))


def decode_timeline(data: bytes) -> Saved:
    """Decode a whole file; raises DamageError or VersionError."""
    if len(data) < TIMELINE_BYTES:
        raise TornEntry("a timeline ends early", expected=TIMELINE_BYTES, found=len(data))
    body, (stored,) = data[: _LAYOUT.size], _CRC.unpack_from(data, _LAYOUT.size)
    magic, version, rule, closed, ordered_from, least_ns = _LAYOUT.unpack(body)
    if magic != TIMELINE_MAGIC:
        raise DamagedEntry("this is no timeline", expected=TIMELINE_MAGIC, found=magic)
    if (found := crc32c(body)) != stored:
        raise DamagedEntry(
            "the checksum of a timeline is wrong",
            expected=f"{stored:#010x}",
            found=f"{found:#010x}",
        )
    if version != TIMELINE_VERSION:
        raise VersionError(f"timeline of version {version}; this program knows {TIMELINE_VERSION}")
    if rule >= len(_RULES) or closed > 1 or least_ns < 0 or len(data) > TIMELINE_BYTES:
        raise DamagedEntry("a timeline makes no sense", found=(rule, closed, least_ns, len(data)))
    return Saved(_RULES[rule], bool(closed), ordered_from, least_ns)
