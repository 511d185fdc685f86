"""Ranges of event time: of each chunk of a stream, found for many chunks at once.

A time without zone counts as UTC. One beyond what 64 bits of nanoseconds hold (years 1677 to 2262)
counts as the nearest that they do, so that a search by range still finds the chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.arrays import truths
from quiver.segment.tables import Column

__all__ = ["EventRanges", "event_place", "event_ranges"]

_FACTORS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NS_MIN: Final = -(1 << 63)
_NS_MAX: Final = (1 << 63) - 1


class EventRanges(NamedTuple):
    """Least and greatest time of each chunk in nanoseconds since 1970, both included.

    Where ``known`` is False a chunk has no time, and the other two say nothing.
    """

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[EventRanges]) -> EventRanges:
        """Put those of chunks that follow each other together."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @classmethod
    def unknown(cls, count: int) -> EventRanges:
        """Give those of chunks without event time."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, bool))


def event_place(schema: pa.Schema, name: str) -> int | None:
    """Find the column of event time; None if there is none, or it is no timestamp, or not alone."""
    places = schema.get_all_field_indices(name) if name else []
    if len(places) != 1 or not pa.types.is_timestamp(schema.types[places[0]]):
        return None
    return int(places[0])


def event_ranges(chunks: Sequence[Column]) -> EventRanges:
    """Find the range of each chunk of a timestamp column."""
    lengths = np.array([len(chunk) for chunk in chunks], np.int64)
    found = EventRanges.unknown(len(chunks))
    if not lengths.sum():
        return found
    whole = pa.concat_arrays(chunks)
    values = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset :][: len(whole)]
    starts = np.concatenate(([0], np.cumsum(lengths[lengths > 0])[:-1]))
    filled = np.flatnonzero(lengths)
    low = high = values
    found.known[filled] = True
    if whole.null_count:
        valid = truths(whole.is_valid())
        low, high = np.where(valid, values, _NS_MAX), np.where(valid, values, _NS_MIN)
        found.known[filled] = np.logical_or.reduceat(valid, starts)
    factor = _FACTORS[whole.type.unit]
    found.low[filled] = _nanoseconds(np.minimum.reduceat(low, starts), factor)
    found.high[filled] = _nanoseconds(np.maximum.reduceat(high, starts), factor)
    return found


def _nanoseconds(times: npt.NDArray[np.int64], factor: int) -> npt.NDArray[np.int64]:
    low, high = -(-_NS_MIN // factor), _NS_MAX // factor
    within = np.clip(times, low, high) * factor
    return np.where(times < low, _NS_MIN, np.where(times > high, _NS_MAX, within))
