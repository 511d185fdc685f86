"""Texts that every row has: gathered at once, and looked at as one piece of bytes."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quiver.otel.otlp.columns import words
from quiver.otel.wire import Ints, Ranges, Source, binaries, short_sizes, span

__all__ = ["come_again", "plain_texts", "read_texts", "text_ranges"]

_SAMPLE: Final = 64
_STRING: Final = span(1)


def text_ranges(source: Source, at: Ints, end: Ints) -> Ints | None:
    """Give where texts start whose lengths stand there; None if one does not end as it should."""
    sizes = short_sizes(source, at)
    if sizes is None or (sizes[1] + sizes[0]).tobytes() != end.tobytes():
        return None
    return sizes[1]


def plain_texts(
    source: Source, start: Ints, end: Ints
) -> tuple[NDArray[np.int32], pa.Buffer] | None:
    """Give ranges as offsets and bytes of a column; None if they are no text, or do not ascend."""
    if np.count_nonzero(start[1:] < end[:-1]):
        return None
    values = binaries(source, start, end)
    _, offsets, data = cast("tuple[Any, pa.Buffer, pa.Buffer | None]", values.buffers())
    octets = pa.py_buffer(b"") if data is None else data
    if not octets.to_pybytes().isascii():
        try:
            values.view(pa.string()).validate(full=True)
        except pa.ArrowInvalid:
            return None
    return np.frombuffer(memoryview(offsets), np.int32)[: start.size + 1], octets


def come_again(source: Source, start: Ints, end: Ints, *, each: int = 1) -> bool:
    """Whether a sample of texts has so few different ones that looking at all is worth it.

    ``each`` of them are of one item, one behind the other.
    """
    step = max(start.size // _SAMPLE, 1)
    while math.gcd(step, each) > 1:  # Not always the same of an item.
        step += 1
    data, some = source.data, zip(start[::step].tolist(), end[::step].tolist(), strict=True)
    told = [data[low:high] for low, high in some]
    return 2 * len(set(told)) <= len(told)


def read_texts(source: Source, parts: Ranges) -> pa.Array[Any] | None:
    """Give the texts of so many AnyValues; None if they are not one text each."""
    count = parts.size
    if source.octets[parts.start].tobytes() != bytes([_STRING]) * count:
        return None
    if parts.owner.tobytes() != _numbers(count).tobytes():
        return None
    start = text_ranges(source, parts.start + 1, parts.end)
    found = None if start is None else plain_texts(source, start, parts.end)
    if start is None or found is None:
        return None
    buffers = [None, pa.py_buffer(found[0].data), found[1]]
    if come_again(source, start, parts.end):
        values = pa.Array.from_buffers(pa.binary(), count, buffers, 0)
        return words(values, start, least=16)
    return pa.Array.from_buffers(pa.string(), count, buffers, 0)


@lru_cache(16)
def _numbers(count: int) -> Ints:
    return np.arange(count)
