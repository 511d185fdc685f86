"""The one process of a streaming query that decides: it owns the consuming end of the queue.

It fences whoever had it before as soon as Spark asks for something, and is fenced itself by the
next: that is seen at each trigger, before each batch is planned, and at each ack. What is planned
stays in the queue until Spark has committed it, so a batch that is done again finds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quiver.clock import Clock
from quiver.errors import FencedError, SourceError
from quiver.events import Events
from quiver.ship.queue import Entry, Queue, QueueView
from quiver.ship.shipper import ShippedSegment
from quiver.ship.sweeper import GRACE, INTERVAL, Sweeper, SweeperTask
from quiver.source.stores import Limits
from quiver.spark.queue.acks import Acks, CheckpointAcks, acks_of
from quiver.spark.queue.entries import Sieve, descriptor_of
from quiver.spark.queue.memory import remember
from quiver.spark.queue.offsets import Offset, decode_offset, encode_offset
from quiver.spark.queue.query import QueueQuery
from quiver.spark.queue.shares import Share, share_out, size_of
from quiver.units import parse_duration

__all__ = ["QueueDriver"]


class QueueDriver:
    """Answers what Spark asks of a source. One thread at a time."""

    def __init__(self, query: QueueQuery, *, clock: Clock) -> None:
        """Ask nothing of the queue yet: it is somebody else's until Spark wants something."""
        self._query, self._clock = query, clock
        self._queue = Queue(query.bucket, clock=clock)
        self._events = Events(store=query.place)
        self._acks: Acks | None = None
        self._epoch: int | None = None
        self._sweeper: SweeperTask | None = None
        self._seen: tuple[int, QueueView] | None = None
        self._initial: Offset | None = None
        self._target: int | None = None
        self._given: Offset | None = None
        self._is_remembered = False

    # what Spark asks -----------------------------------------------------------------------------

    def initial(self) -> dict[str, Any]:
        """Say where a query without a checkpoint begins."""
        if self._initial is None:
            self._take_over(None).unsure()
            view = self._look()
            query, sequence = self._query, view.next_sequence
            if query.start == "earliest":
                waiting = next(view.entries(limit=1), None)
                sequence = view.next_sequence if waiting is None else waiting.sequence
            self._initial = Offset(sequence, sequence, since_ns=query.since_ns)
        return self._encode(self._initial)

    def aim(self) -> None:
        """Take what is there now as the end of the query."""
        self._target = self._look(now=True).next_sequence

    def latest(self, start: Mapping[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Say up to where the next batch goes; ``start`` itself if there is nothing new."""
        begin = self._decode(start)
        acks = self._take_over(begin)
        view = self._look()
        self._remember()
        acks.note(begin)
        limits = self._query.limits if is_limited else Limits()
        self._given = self._end(view, begin, limits)
        return self._encode(self._given)

    def report(self) -> dict[str, Any]:
        """Say how long the queue is, and how much of that is in no batch yet."""
        view = self._look()
        given = view.next_sequence if self._given is None else self._given.sequence
        pages = [page for page in view.pages if page.last >= given]
        line = view.entries(max([given - 1, *(page.last for page in pages)]))
        behind = {
            "batches": max(0, view.next_sequence - given),
            "bytes": sum(page.batch_bytes for page in pages)
            + sum(size_of(descriptor_of(entry)) for entry in line),
        }
        return {"behind": behind, "queue": self._query.place, "sequence": view.next_sequence}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Share]:
        """Share out what lies between two offsets."""
        query, stop = self._query, self._decode(end)
        begin = self._decode(start).before(stop)
        self._take_over(begin).unsure()
        view = self._look(now=True)
        sieve = self._sieve(begin)
        found = []
        for entry in self._between(view, begin.sequence, stop.sequence):
            seen = sieve.look(entry)
            sieve.let_through(seen)
            if seen.descriptor is not None:
                found.append(seen.descriptor)
        self._given = self._given or stop
        return [
            Share(descriptors, begin.since_ns, epoch=self._epoch)
            for descriptors in share_out(
                found, bytes_max=query.bytes_max, count_min=query.count_min
            )
        ]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Ack what is committed and durable by now; Spark says so one batch late."""
        offset = self._decode(end)
        self._take_over(offset).committed(offset)

    # ---------------------------------------------------------------------------------------------

    def _take_over(self, begin: Offset | None) -> Acks:
        """Become the consumer, at the first call.

        A queue that the query was not told of is not taken from whoever has it.
        """
        if self._acks is not None:
            return self._acks
        query = self._query
        if begin is not None:
            self._check_known(self._queue.read(), begin)
        if query.consumes:
            self._epoch = self._queue.start().epoch
        self._acks = acks_of(query, self._queue, epoch=self._epoch, clock=self._clock)
        if self._epoch is not None and query.sweeps:
            sweeper = Sweeper(
                self._queue,
                grace_ns=parse_duration(GRACE),
                clock=self._clock,
                epoch=self._epoch,
            )
            self._sweeper = SweeperTask(
                sweeper, interval_ns=parse_duration(INTERVAL), clock=self._clock
            )
        self._seen = None  # It was looked at as somebody else's.
        return self._acks

    def _check_known(self, view: QueueView, begin: Offset) -> None:
        if begin.sequence > view.next_sequence:
            raise SourceError(
                f"the checkpoint is at entry {begin.sequence} of {self._query.place}, and the "
                f"next one there is {view.next_sequence}",
                split=self._query.place,
                hint="it is another queue than before, or its manifest was lost: begin anew with "
                "an empty checkpoint",
            )

    def _look(self, *, now: bool = False) -> QueueView:
        """Read the queue, at most so often unless it is to be ``now``. Raises FencedError."""
        now_ns = self._clock.monotonic_ns()
        if now or self._seen is None or now_ns - self._seen[0] >= self._query.poll_ns:
            try:
                self._seen = now_ns, self._queue.read(epoch=self._epoch)
            except FencedError as error:
                raise self._fenced(error) from error
        return self._seen[1]

    def _fenced(self, error: FencedError) -> FencedError:
        return FencedError(
            f"another query or consumer has taken over {self._query.place}: this one has ended",
            epoch=error.epoch,
            current=error.current,
            hint="a queue has one consumer, the one that came last; consume=false only looks",
        )

    def _end(self, view: QueueView, begin: Offset, limits: Limits) -> Offset:
        """Say where a batch ends that begins there; a batch has one entry at least, if any is."""
        upto = view.next_sequence if self._target is None else self._target
        if begin.sequence >= upto:
            return begin
        sieve, end = self._sieve(begin), begin.sequence
        segments = size = 0
        for entry in self._between(view, begin.sequence, upto):
            seen = sieve.look(entry)
            if seen.descriptor is not None:
                more, bigger = segments + seen.wanted_count, size + size_of(seen.descriptor)
                if segments and (
                    (limits.segments_max is not None and more > limits.segments_max)
                    or (limits.bytes_max is not None and bigger > limits.bytes_max)
                ):
                    return begin.to(end, sieve.seen)
                segments, size = more, bigger
            sieve.let_through(seen)
            end = entry.sequence + 1
        return begin.to(upto, sieve.seen)

    def _between(self, view: QueueView, first: int, stop: int) -> Iterator[Entry]:
        """Go through entries ``[first, stop)``; raises SourceError where some are gone."""
        expected = first
        for entry in view.entries(first - 1):
            if entry.sequence >= stop:
                break
            if entry.sequence > expected:
                self._lost(expected, entry.sequence - 1)
            expected = entry.sequence + 1
            yield entry
        if expected < stop:
            self._lost(expected, stop - 1)

    def _lost(self, first: int, last: int) -> None:
        which = f"entry {first}" if first == last else f"entries {first} to {last}"
        error = SourceError(
            f"{which} of {self._query.place} went before the query read them",
            split=self._query.place,
            hint="another consumer took them, or the checkpoint is an old one; go on with what is "
            "left: failOnDataLoss=false",
        )
        if self._query.fails_on_loss:
            raise error
        if self._events.is_first(str(error)):
            self._events.warning("spark.rows_lost", split=error.split, error=error)
            self._events.tell()

    def _sieve(self, begin: Offset) -> Sieve:
        query = self._query
        is_segments, known = bool(query.slot), query.known

        def is_wanted(segment: ShippedSegment) -> bool:
            timely = begin.since_ns is None or segment.last_ns >= begin.since_ns
            return timely and (known is None or known.may_have(segment))

        return Sieve(begin.seen, place=query.place, is_wanted=is_wanted, has_segments=is_segments)

    def _remember(self) -> None:
        """Keep the columns in the checkpoint, once Spark has made that."""
        query, acks = self._query, self._acks
        if self._is_remembered or query.schema is None or not isinstance(acks, CheckpointAcks):
            return
        disk = acks.folder.disk
        if disk is not None:
            remember(disk, query.schema, queue=query.place, slot=query.slot)
            self._is_remembered = True

    def _encode(self, offset: Offset) -> dict[str, Any]:
        return encode_offset(offset, queue=self._query.place, slot=self._query.slot)

    def _decode(self, offset: Mapping[str, Any]) -> Offset:
        return decode_offset(offset, queue=self._query.place, slot=self._query.slot)

    def close(self) -> None:
        """Let go of everything; a second call does nothing."""
        if self._sweeper is not None:
            self._sweeper.stop()
        if self._acks is not None:
            self._acks.close()
