"""Requests of few senders: what is around their items is the same each time, and is read once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.otlp.containers import Part, read_parts
from quiver.otel.otlp.limits import Limits
from quiver.otel.wire import FEW, Ints, Ranges, Source, frame, span, take_apart

__all__ = ["read_request"]

_FRAME_BYTES_MAX: Final = 1 << 13
_FRAMES_MAX: Final = 64
_ONE: Final = frame(2, b"")


def read_request(source: Source, limits: Limits) -> Iterator[Part]:
    """Go through the items of a request, as ``read_parts`` does."""
    try:
        found = _few(source, limits)
    except InputError:
        found = None  # It is told where it lies in the request, and that by one place.
    return read_parts(source, limits) if found is None else iter(found)


def _few(source: Source, limits: Limits) -> list[Part] | None:
    """Read a request that is one batch of few scopes; None if it is none of these."""
    *ranges, _ = take_apart(source, 0, source.size, tag=span(1))
    if len(ranges[0]) > FEW:
        return None
    resources = [take_apart(source, *each, tag=span(2)) for each in zip(*ranges, strict=True)]
    if sum(len(each[0]) for each in resources) > FEW:
        return None
    starts, ends, counts, around = [], [], list[int](), list[bytes]()
    for *scopes, outer in resources:
        inside = [outer]
        for scope in zip(*scopes, strict=True):
            start, end, middle = take_apart(source, *scope, tag=span(2))
            if len(start):
                starts.append(np.frombuffer(start, np.int64))
                ends.append(np.frombuffer(end, np.int64))
                counts.append(len(start))
            inside.append(frame(2, middle + _ONE if len(start) else middle))
        around.append(frame(1, b"".join(inside)))
    request, total = b"".join(around), sum(counts)
    if len(request) > _FRAME_BYTES_MAX or total > min(limits.batch_items, limits.items):
        return None
    parts = _read_frame(request, limits)
    if not counts:
        return []
    items = Ranges(np.arange(total), np.concatenate(starts), np.concatenate(ends))
    return [_filled(parts[0], items, np.repeat(np.arange(len(counts)), counts))]


@lru_cache(_FRAMES_MAX)
def _read_frame(request: bytes, limits: Limits) -> tuple[Part, ...]:
    """Read a request that has one empty item in each scope that has any: one part, or none."""
    return tuple(read_parts(Source(request), limits))


def _filled(frame_: Part, items: Ranges, scope: Ints) -> Part:
    """Give a part with these items, each in the scope of that number."""
    rows = pa.array(scope, pa.int64())
    around = [(name, column.take(rows)) for name, column in frame_.around]
    ours = [(name, column.take(rows)) for name, column in frame_.ours]
    return Part(items, around, ours, dict(frame_.payloads))
