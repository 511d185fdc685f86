"""Streams that are kept as they came: each payload becomes an Arrow file of its own, uncopied.

To unite dictionaries takes several times as long as to write the bytes. Where bundles come faster
than that, a segment is made of such streams. What they lack is what would have to be looked for:
bounds of columns and chunks, and the number of nulls. Small ones have no checksums of pages either.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from quiver.ipc import decode_own_streams
from quiver.ipc_around import FILE_HEAD, FileAround
from quiver.segment.body import KeptBodies
from quiver.segment.bounds import ColumnBounds
from quiver.segment.events import EventRanges, event_place, event_ranges
from quiver.segment.gather import Members
from quiver.segment.rest import Rest
from quiver.segment.stream import FinishedStreams
from quiver.segment.sums import Sums, sum_up

__all__ = ["PAGED_BYTES_MIN", "KeptPayloads"]

PAGED_BYTES_MIN: Final = 1 << 18
"""Of a smaller one a reader checks all, whatever it wants of it."""
_HEAD_SUMS: Final = sum_up(FILE_HEAD)


class KeptPayloads:
    """Payloads of one schema, some at a time, and what is to be put around each."""

    def __init__(self, schema: pa.Schema, event_column: str, rest: Rest) -> None:
        """Start without one."""
        self.schema = schema
        self.event_column = event_column
        self.members = Members.none()
        self.byte_count = 0
        self._place = event_place(schema, event_column)
        self._rest = rest
        self._around: FileAround | None = None
        self._is_plain = True
        self._tails: list[bytes] = []
        self._sums: list[Sums] = []
        """Of the files of the first payloads."""
        self._events: list[EventRanges] = []
        self._dated = 0

    def add(self, members: Members) -> None:
        """Take more payloads in, behind those that are there."""
        for mine, more in zip(self.members, members, strict=True):
            mine += more  # type: ignore[operator]  # noqa: PLW2901 Lists grow where they are.
        self.byte_count += sum(map(len, members.payloads))

    def prepare(self) -> None:
        """Find what is to be put around each so far, and all checksums."""
        self._put_around()
        payloads = self.members.payloads
        for place in range(len(self._sums), len(self._tails)):
            whole = sum_up(self._tails[place], sum_up(payloads[place], _HEAD_SUMS))
            self._sums.append(whole)
            self._rest()
        self._date()

    def finish(self) -> FinishedStreams | None:
        """Make a stream of each; None if one is not plainly one batch. May be called again."""
        self._put_around()
        if not self._is_plain:
            return None
        self._date()
        bundles, payloads, rows = self.members
        return FinishedStreams(
            self.schema,
            bundles,
            rows,
            EventRanges.joined(self._events),
            (None,) * len(self.schema),
            (ColumnBounds(),) * len(self.schema),
            KeptBodies(FILE_HEAD, payloads, self._tails, PAGED_BYTES_MIN, self._sums),
        )

    def _put_around(self) -> None:
        for payload in self.members.payloads[len(self._tails) :]:
            tail = None if self._around is None else self._around.tail(payload)
            if tail is None:
                self._around = FileAround.of(payload)
                tail = None if self._around is None else self._around.tail(payload)
            if tail is None:
                self._is_plain = False
                return
            self._tails.append(tail)
            self._rest()

    def _date(self) -> None:
        """Find the event times of what came since the last time."""
        payloads = self.members.payloads[self._dated :]
        if not payloads:
            return
        if self._place is None:
            self._events.append(EventRanges.unknown(len(payloads)))
        else:
            times = [batch.column(self._place) for batch in decode_own_streams(payloads)]
            self._events.append(event_ranges(times))
        self._dated += len(payloads)
