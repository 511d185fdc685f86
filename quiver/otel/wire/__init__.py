"""Messages of protobuf, read and written many at a time: knows no message by name.

Reading goes level by level: ``read`` takes the ranges of all messages of one kind and gives their
fields as columns, the ranges of messages inside among them. Writing goes the same way back.
"""

from __future__ import annotations

from quiver.otel.wire.frames import frame, varint_bytes
from quiver.otel.wire.lone import DEPTH_MAX, fields_of, take_apart
from quiver.otel.wire.packed import Numbers, repeated_fixed64, repeated_varints
from quiver.otel.wire.reader import FEW, Level, fixed32, fixed64, read, span, varint
from quiver.otel.wire.source import Flags, Ints, Longs, Octets, Ranges, Source, malformed, whole
from quiver.otel.wire.texts import as_text, binaries, check_text, check_texts, last_texts
from quiver.otel.wire.varints import read_varints, short_sizes
from quiver.otel.wire.writer import Messages

__all__ = [
    "DEPTH_MAX",
    "FEW",
    "Flags",
    "Ints",
    "Level",
    "Longs",
    "Messages",
    "Numbers",
    "Octets",
    "Ranges",
    "Source",
    "as_text",
    "binaries",
    "check_text",
    "check_texts",
    "fields_of",
    "fixed32",
    "fixed64",
    "frame",
    "last_texts",
    "malformed",
    "read",
    "read_varints",
    "repeated_fixed64",
    "repeated_varints",
    "short_sizes",
    "span",
    "take_apart",
    "varint",
    "varint_bytes",
    "whole",
]
