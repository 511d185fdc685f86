"""The data of a metric: one of five kinds of messages, each with points of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from quiver.errors import InputError
from quiver.otel.otlp.entries import Reading, Request, Writing
from quiver.otel.otlp.nested import Below
from quiver.otel.wire import Flags, Ints, Level, Messages, Ranges, read, span, varint

__all__ = ["Data", "Kind"]

_POINTS, _TEMPORALITY, _MONOTONIC = 1, 2, 3
_TYPE: Final = "metric_type"
_AGGREGATION: Final = "aggregation_temporality"
_IS_MONOTONIC: Final = "is_monotonic"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of metric: the number of its field, its number in OTAP, and its points."""

    number: int
    metric_type: int
    points: Below
    is_aggregated: bool = False
    """It says over which time it is aggregated."""
    is_sum: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """The data of metrics, of which each has one kind, or none."""

    kinds: Sequence[Kind]

    def tags(self) -> Iterable[int]:
        """Tell the tags of all kinds."""
        return [span(kind.number) for kind in self.kinds]

    def read(self, reading: Reading) -> None:
        """Add which kind each is, what it says of all its points, and these."""
        level, request = reading.level, reading.request
        types = np.zeros(level.count, np.uint8)
        temporality = np.zeros(level.count, np.int32)
        monotonic = np.zeros(level.count, np.bool_)
        points: dict[str, list[Ranges]] = {}
        for kind in self.kinds:
            parts, outdone = self._parts(level, kind)
            _check(request, kind, outdone)
            if not parts.size:
                continue
            tags = [span(_POINTS), varint(_TEMPORALITY), varint(_MONOTONIC)]
            found = read(request.source, parts, tags, count=level.count)
            mine = np.unique(parts.owner)
            types[mine] = kind.metric_type
            if kind.is_aggregated:
                told = found.last(varint(_TEMPORALITY)).astype(np.uint32).view(np.int32)
                temporality[mine] = told[mine]
            if kind.is_sum:
                monotonic[mine] = found.last(varint(_MONOTONIC))[mine] != 0
            points.setdefault(kind.points.table.slot, []).append(found.ranges(_POINTS))
        self._add(reading, types, (temporality, monotonic))
        for kind in self.kinds:
            ranges = points.pop(kind.points.table.slot, [])
            if ranges:
                kind.points.read_ranges(request, _united(ranges))

    def write(self, writing: Writing) -> None:
        """Add a message of its kind to each metric that has one."""
        if _TYPE not in writing.rows:
            raise InputError(f"metrics without the column {_TYPE!r}: nobody knows their points")
        types = writing.rows.numbers(_TYPE, pa.uint8())
        known = np.isin(types, [0, *(kind.metric_type for kind in self.kinds)])
        if not known.all():
            raise InputError(f"OTAP has no metric of the type {int(types[~known][0])}")
        for kind in self.kinds:
            of_kind = types == kind.metric_type
            if of_kind.any():
                rows = writing.rows.take(np.flatnonzero(of_kind))
                below = Writing(rows, writing.payloads, Messages(rows.count))
                kind.points.write(below)
                self._tell(below, kind)
                writing.messages.children(kind.number, below.messages, of_kind.astype(np.int64))

    def _parts(self, level: Level, kind: Kind) -> tuple[Ranges, Ranges]:
        """Give the parts of messages of a kind, and those behind which another kind came."""
        parts = level.ranges(kind.number)
        last = np.full(level.count, -1, np.int64)
        for other in self.kinds:
            if other.number != kind.number and span(other.number) in level:
                np.maximum(last, level.last_at(span(other.number)), out=last)
        counts = parts.start > last[parts.owner]
        return _some(parts, counts), _some(parts, ~counts)

    def _add(
        self, reading: Reading, types: np.ndarray, told: tuple[np.ndarray, np.ndarray]
    ) -> None:
        temporality, monotonic = told
        reading.columns.add(_TYPE, pa.array(types), nullable=False)
        aggregated = [kind.metric_type for kind in self.kinds if kind.is_aggregated]
        sums = [kind.metric_type for kind in self.kinds if kind.is_sum]
        for name, values, where in (
            (_AGGREGATION, temporality, aggregated),
            (_IS_MONOTONIC, monotonic, sums),
        ):
            absent = ~np.isin(types, where)
            if not absent.all():
                reading.columns.add(name, pa.array(values, mask=absent))

    def _tell(self, writing: Writing, kind: Kind) -> None:
        """Add what a metric says of all its points."""
        rows, messages = writing.rows, writing.messages
        if kind.is_aggregated:
            told = rows.numbers(_AGGREGATION, pa.int32()).astype(np.int64).view(np.uint64)
            messages.varint(_TEMPORALITY, told, told != 0)
        if kind.is_sum:
            monotonic = rows.numbers(_IS_MONOTONIC, pa.bool_()).astype(np.uint64)
            messages.varint(_MONOTONIC, monotonic, monotonic != 0)


def _check(request: Request, kind: Kind, parts: Ranges) -> None:
    """Read what counts no more, which must be well-formed as well, and keep nothing of it."""
    if parts.size:
        found = read(request.source, parts.each_its_own(), [span(_POINTS)], count=parts.size)
        unkept = Request(request.source, request.limits)
        kind.points.read_ranges(unkept, found.ranges(_POINTS))


def _some(ranges: Ranges, where: Flags) -> Ranges:
    return Ranges(ranges.owner[where], ranges.start[where], ranges.end[where])


def _united(ranges: Sequence[Ranges]) -> Ranges:
    """Put ranges of several kinds that share a table in the order of their parents."""
    if len(ranges) == 1:
        return ranges[0]
    owner: Ints = np.concatenate([each.owner for each in ranges])
    order = np.argsort(owner, kind="stable")
    start = np.concatenate([each.start for each in ranges])
    end = np.concatenate([each.end for each in ranges])
    return Ranges(owner[order], start[order], end[order])
