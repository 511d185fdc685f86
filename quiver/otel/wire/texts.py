"""Ranges of a message as an Arrow column: the bytes are gathered by Arrow, not one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from quiver.otel.wire.reader import Level
from quiver.otel.wire.source import Ints, Source, malformed

__all__ = ["as_text", "binaries", "check_text", "check_texts", "last_texts"]


def binaries(source: Source, start: Ints, end: Ints) -> pa.Array[Any]:
    """Give these ranges as binary values; those that start at -1 are null."""
    absent = start < 0
    missing = bool(np.count_nonzero(absent))
    starts = start
    if missing:
        end = np.where(absent, 0, end)
        starts = np.where(absent, np.maximum.accumulate(end), start)
        end = np.maximum(starts, end)
    count = start.size
    if np.count_nonzero(starts[1:] < end[:-1]):  # Only where parts were put together.
        order = np.argsort(starts, kind="stable")
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        sorted_ = binaries(source, start[order], end[order])
        return sorted_.take(back)
    # Each range is followed by a gap: of these two, one is taken.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = end
    offsets[-1] = end[-1] if count else 0
    buffers = [None, pa.py_buffer(offsets.data), source.buffer]
    both = pa.Array.from_buffers(pa.binary(), 2 * count, buffers)
    taken = np.arange(0, 2 * count, 2)
    return both.take(pa.array(taken, pa.int64(), mask=absent) if missing else taken)


def as_text(values: pa.Array[Any], start: Ints) -> pa.Array[Any]:
    """Make text of binary values, which must be UTF-8; ``start`` is where each was in a message."""
    text = values.view(pa.string())  # A cast does the same, and takes 25 us before it begins.
    try:
        text.validate(full=True)
        return text
    except pa.ArrowInvalid:
        for value, at in zip(values, start, strict=True):
            check_text(value.as_py() or b"", int(at))
        raise


def last_texts(source: Source, level: Level, number: int) -> tuple[Ints, Ints]:
    """Give start and end of the last text of each message, -1 and -1 where there is none.

    Those that it takes the place of must be UTF-8 too; it is for the caller to look at the last.
    """
    ranges = level.ranges(number)
    start, end = level.last_range(number)
    if ranges.size > np.count_nonzero(start >= 0):
        check_texts(source, level, number)
    return start, end


def check_texts(source: Source, level: Level, number: int) -> None:
    """Raise InputError if any text of this field is not UTF-8."""
    ranges = level.ranges(number)
    as_text(binaries(source, ranges.start, ranges.end), ranges.start)


def check_text(text: bytes, at: int) -> None:
    """Raise InputError if this is not UTF-8; ``at`` is where it starts in a message."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise malformed(at + error.start, "a text is not UTF-8") from None
