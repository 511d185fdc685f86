"""The one process of a streaming query that decides: where it is, what comes next, what is acked.

Spark keeps it for as long as a query runs, so what was learned of segments stays known.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from quiver.checkpoint import (
    Acker,
    CheckpointFolder,
    decode_offset,
    encode_offset,
    first_of,
    hold,
    write_note,
)
from quiver.clock import Clock
from quiver.disk import LocalDisk, Lock
from quiver.engine.numbers import core_folder, core_numbers
from quiver.engine.start import Start
from quiver.errors import ConfigError, SourceError
from quiver.events import Events
from quiver.manifest import StoreManifest
from quiver.scan import SegmentRef, SlotPart
from quiver.source.stores import Limits, Planner, Position, Positions, Span
from quiver.spark.stream_plan import Weighed, share_out, weigh
from quiver.spark.stream_query import StreamQuery
from quiver.spark.stream_read import check_schema

__all__ = ["StreamDriver"]


class StreamDriver:
    """Answers what Spark asks of a source. One thread at a time."""

    def __init__(self, query: StreamQuery, *, clock: Clock) -> None:
        """Open the store; with a subscriber, go on as it: from then on nobody else acks."""
        self._query, self._clock = query, clock
        self._disk = LocalDisk(query.path)
        self._events = Events(store=query.path)
        names = frozenset(query.stored.names)
        self._planner = Planner(
            self._disk,
            query.slot_id,
            clock=clock,
            needed=(lambda name: name in names) if query.is_fixed else (lambda _: True),
            fail_on_loss=query.fails_on_loss,
            on_loss=self._warn,
        )
        try:
            self._acker = self._begin()
        except BaseException:
            self._disk.close()
            raise
        self._lock: Lock | None = None
        self._initial: dict[int, Position] | None = None
        self._target: dict[int, Position] | None = None
        self._given: dict[int, Position] = {}

    def _begin(self) -> Acker | None:
        query, start = self._query, self._query.start
        if StoreManifest.read(self._disk).store_id != query.store_id:
            raise ConfigError(
                f"the store in {query.path} is another one than when the query was made",
                hint="load it again",
            )
        if not query.subscriber:
            return None
        if isinstance(start, Mapping):
            raise ConfigError(
                "startingSegment: a subscriber begins with one number in all cores",
                hint="such as 12; by core it is for queries without a subscriber",
            )
        if isinstance(start, int):
            self._check_reached(start)
        return Acker(query.note, query.checkpoint, start=start, clock=self._clock)

    def _check_reached(self, start: int) -> None:
        """Raise ConfigError if a core is not that far: it would not keep what comes before that."""
        with closing(CheckpointFolder(self._query.checkpoint)) as folder:
            is_begun = folder.is_begun
        for core, newest in self._planner.start("latest").items():
            if newest.segment_seq < start and not is_begun:
                raise ConfigError(
                    f"startingSegment: core_{core} is at segment {newest.segment_seq} only, and a "
                    f"subscriber that begins with {start} would lose what comes before that",
                    hint="begin with a number that all cores have reached, or with a time",
                )

    # what Spark asks -----------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """Say where a query without a checkpoint begins: where its subscriber is, if it has one."""
        if self._initial is None:
            newest = self._planner.start("latest")
            if self._acker is None:
                self._initial = self._planner.start(self._named())
            else:
                first = self._planner.start("earliest")
                self._initial = {
                    core: min(max(at, first.get(core, at)), newest.get(core, at))
                    for core, at in self._acker.positions().items()
                }
        return self._encode(self._initial, self._initial if self._acker is None else None)

    def _named(self) -> Start | Mapping[int, int]:
        """Give the start; ConfigError if it names cores that are not there."""
        start, cores = self._query.start, core_numbers(self._disk)
        unknown = sorted(set(start) - set(cores)) if isinstance(start, Mapping) else []
        if unknown:
            known = ", ".join(map(core_folder, cores)) or "none"
            raise ConfigError(
                f"startingSegment: core_{unknown[0]}: the store has no such core",
                hint=f"it has {known}; one that comes later is read from its first segment",
            )
        return start

    def aim(self) -> None:
        """Take what is finalized now as the end of the query."""
        self._target = self._planner.newest({})

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Say up to where the next batch goes; ``start`` itself if there is nothing new."""
        begin = self._decode(start)
        self._ack(begin)
        self._planner.forget(begin)
        if self._acker is not None and self._acker.is_paused:
            return self._encode(begin, first_of(start))
        limits = self._query.limits if is_limited else Limits()
        self._given = self._planner.latest(begin, limits, upto=self._target)
        return self._encode(self._given, first_of(start))

    def report(self) -> dict[str, Any]:
        """Say how far the store is, and how much of that is in no batch yet."""
        behind = self._planner.backlog(self._given)
        newest = self._planner.newest(self._given)
        told = {"bytes": behind.byte_count, "segments": behind.segments}
        return {"behind": told, **self._encode(newest)}

    def partitions(
        self, start: Mapping[str, Any], end: Mapping[str, Any]
    ) -> list[tuple[Span, ...]]:
        """Share out what lies between two offsets."""
        query = self._query
        if self._acker is not None:
            self._acker.check()
        weighed = self.weighed(start, end)
        self._given = self._given or self._decode(end)
        return share_out(weighed, bytes_max=query.bytes_max, count_min=query.count_min)

    def weighed(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Weighed]:
        """Give what lies between two offsets, and about how much that is."""
        begin, stop = self._decode(start), self._decode(end)
        first = first_of(end)
        if first is not None and first_of(start) == begin:
            begin = first  # The first batch; if it is done again, Spark asked anew where it begins.
        return weigh(list(self._planner.between(begin, stop)), self._look)

    def commit(self, end: Mapping[str, Any]) -> None:
        """Ack what is committed and on the disk by now; Spark says so one batch late."""
        self._ack(self._decode(end))
        if self._acker is not None and not self._acker.folder.is_begun:
            raise ConfigError(
                f"checkpointLocation: {self._acker.folder.path} has no batch, and Spark has "
                "committed one: nothing would ever be acked",
                hint="say what the writer of this query is told",
            )

    # ---------------------------------------------------------------------------------------------

    def _look(self, segment: SegmentRef) -> SlotPart | None:
        part = self._planner.part(segment)
        if part is not None and part.schema is not None:
            check_schema(part.schema, self._query, place=f"segment {segment.segment_seq}")
        return part

    def _ack(self, begin: Positions) -> None:
        """Ack what was committed before ``begin``, if anything was since it was done last."""
        if self._acker is None:
            return
        self._acker.check()
        self._leave_note()
        self._acker.reconcile(begin)

    def _leave_note(self) -> None:
        """Say in the checkpoint who acks from it, once Spark has made that."""
        disk = None if self._acker is None else self._acker.folder.disk
        if self._lock is None and disk is not None:
            self._lock = hold(disk, self._query.note)
            write_note(disk, self._query.note)

    def _warn(self, error: SourceError) -> None:
        if self._events.is_first(str(error)):
            self._events.warning("spark.rows_lost", split=error.split, error=error)
            self._events.tell()

    def _encode(self, positions: Positions, first: Positions | None = None) -> dict[str, Any]:
        query = self._query
        return encode_offset(positions, store_id=query.store_id, slot=query.slot, first=first)

    def _decode(self, offset: Mapping[str, Any]) -> dict[int, Position]:
        return decode_offset(offset, store_id=self._query.store_id, slot=self._query.slot)

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
        if self._acker is not None:
            self._acker.close()
        if self._lock is not None:
            self._lock.release()
        self._disk.close()
