"""The streams of a segment as columns: what the tables say of many is computed for all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.segment.builder import BuiltStreams
from quiver.segment.events import EventRanges
from quiver.segment.tables import Column

__all__ = ["Integers", "StreamColumns"]

Integers: TypeAlias = npt.NDArray[np.int64]

_INT64: Final = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """All streams, in order, and all of their chunks, stream by stream."""

    alike: Integers
    """Of each stream: the place of what it was built with."""
    chunk_counts: Integers
    """Of each stream: how many chunks it has, one at least."""
    bundles: Integers
    """Of each chunk: the index of its bundle."""
    rows: Integers
    """Of each chunk: how many it has."""
    events: EventRanges
    """Of each chunk."""

    @classmethod
    def of(cls, built: Sequence[BuiltStreams]) -> StreamColumns:
        """Put together what was built."""
        streams = [each.streams for each in built]
        counts = np.array([each.body.stream_count for each in streams], np.int64)
        alike = np.repeat(np.arange(len(built)), counts)
        chunks = np.array([len(each.bundles) for each in streams], np.int64)
        return cls(
            alike,
            (chunks // counts)[alike],
            _joined([each.bundles for each in streams]),
            _joined([each.rows for each in streams]),
            EventRanges.joined([EventRanges.unknown(0), *(each.events for each in streams)]),
        )

    @property
    def stream_ids(self) -> Integers:
        """Of each stream: its number."""
        return np.arange(len(self.alike))

    @property
    def starts(self) -> Integers:
        """Of each stream: the place of its first chunk."""
        found: Integers = np.cumsum(self.chunk_counts) - self.chunk_counts
        return found

    def of_chunks(self, values: Integers) -> Integers:
        """Give the value of each chunk's stream."""
        return np.repeat(values, self.chunk_counts)

    def least(self, values: Integers) -> Integers:
        """Give the least of each stream's chunks."""
        return np.minimum.reduceat(values, self.starts) if len(values) else values

    def greatest(self, values: Integers) -> Integers:
        """Give the greatest of each stream's chunks."""
        return np.maximum.reduceat(values, self.starts) if len(values) else values

    def row_counts(self) -> Integers:
        """Give how many rows each stream has."""
        return np.add.reduceat(self.rows, self.starts) if len(self.rows) else self.rows

    def event_spans(self) -> tuple[Column, Column]:
        """Give the least and the greatest time of event of each stream, null where it has none."""
        low, high, known = self.events
        has_none = self.greatest(known.astype(np.int64)) == 0
        return (
            _times(self.least(np.where(known, low, _INT64.max)), has_none),
            _times(self.greatest(np.where(known, high, _INT64.min)), has_none),
        )

    def event_spans_of_bundles(self, count: int) -> tuple[Column, Column]:
        """Give the same of each of so many bundles."""
        low, high = np.full(count, _INT64.max), np.full(count, _INT64.min)
        known = self.events.known
        places = self.bundles[known]
        np.minimum.at(low, places, self.events.low[known])
        np.maximum.at(high, places, self.events.high[known])
        has_none = np.ones(count, bool)
        has_none[places] = False
        # What stands under a null stays: equal bundles give equal files, whatever the release.
        return pa.array(low, mask=has_none), pa.array(high, mask=has_none)

    def chunk_rows(self) -> Column:
        """Give the rows of each stream's chunks, a list for each stream."""
        ends: Any = pa.array(np.append(0, np.cumsum(self.chunk_counts)).astype(np.int32))
        return pa.ListArray.from_arrays(ends, pa.array(self.rows.astype(np.uint64)))


def _times(values: Integers, has_none: npt.NDArray[np.bool_]) -> Column:
    return pa.array(np.where(has_none, 0, values), mask=has_none)


def _joined(parts: Sequence[Sequence[int]]) -> Integers:
    return np.concatenate([np.empty(0, np.int64), *(np.array(part, np.int64) for part in parts)])
