"""Requests of few senders: what is around their items is the same each time, and is read once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.otlp.containers import Part, read_parts
from quiver.otel.otlp.frames import read_frame
from quiver.otel.otlp.limits import Limits
from quiver.otel.wire import FEW, Ranges, Source, frame, span, take_apart

__all__ = ["read_request"]

_FRAME_BYTES_MAX: Final = 1 << 13
_FRAMES_MAX: Final = 64
_FILLED_MAX: Final = 1 << 10
"""So many rows are kept for the next request: SDKs send as many as they may in each."""
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
    if not counts:
        _read_frame(request, limits)
        return []
    items = Ranges(np.arange(total), np.concatenate(starts), np.concatenate(ends))
    fill = _filled if total <= _FILLED_MAX else _filled.__wrapped__
    part = fill(request, tuple(counts), limits)
    return [Part(items, part.around, part.ours, dict(part.payloads))]


@lru_cache(_FRAMES_MAX)
def _read_frame(request: bytes, limits: Limits) -> tuple[Part, ...]:
    """Read a request that has one empty item in each scope that has any: one part, or none."""
    source = Source(request)
    part = read_frame(source, limits)
    return tuple(read_parts(source, limits)) if part is None else (part,)


@lru_cache(_FRAMES_MAX)
def _filled(request: bytes, counts: tuple[int, ...], limits: Limits) -> Part:
    """Give what is around items if there are so many in each scope: without the items."""
    [part] = _read_frame(request, limits)
    rows = pa.array(np.repeat(np.arange(len(counts)), counts), pa.int64())
    around = [(name, column.take(rows)) for name, column in part.around]
    ours = [(name, column.take(rows)) for name, column in part.ours]
    return Part(part.items, around, ours, part.payloads)
