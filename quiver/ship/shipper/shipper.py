"""``Shipper``: a subscriber that puts finished segments into a queue, each once.

::

    1  a segment with open bundles, of each core in order      a crash before the next step leaves
    2  at or below the queue's mark of its core: acked         it open; the mark acks it next time
    3  read, checked, put with others as one batch             an object that nobody names
    4  what is damaged is rejected, durably                    the rest of it open
    5  appended, with the marks, in one conditional write      it open; the mark acks it next time
    6  acked                                                   nothing

Reading and putting are done by several threads, ahead of 4 to 6, which are done in order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Final

from quiver.clock import Clock, SystemClock
from quiver.config import Config
from quiver.consumer import Pending, SegmentConsumer
from quiver.disk import Disk
from quiver.errors import CapacityError, DamageError, InputError, RemoteError
from quiver.manifest import StoreManifest
from quiver.metrics import PRODUCER_CATALOGUE, Metrics
from quiver.ship.batch import Entropy
from quiver.ship.counting import WriteTally
from quiver.ship.objects import UnclearError
from quiver.ship.queue import Queue
from quiver.ship.shipper.cargo import Packer
from quiver.ship.shipper.loading import Loaded, Loader
from quiver.ship.shipper.options import ShipOptions
from quiver.ship.shipper.telling import Ahead, LeftOut, Shipment, Tally, Told, Trouble
from quiver.ship.shipper.threads import begun_or_done
from quiver.ship.shipper.underway import Under, Way
from quiver.ship.shipper.witness import Place, put_back_lost
from quiver.units import SECOND

__all__ = ["Shipper"]

_LOOK_NS: Final = SECOND // 4
"""So long nobody looks whether it is to stop."""
_TOGETHER: Final = 16
"""Entries that are appended at once, if their batches are there."""
_READERS: Final = 2
"""Segments of one batch that are read at a time, where more than one thread is wanted."""
_BATCH_SEGMENTS: Final = 1000
_FAILURES_MAX: Final = 5
_PAUSE_FIRST: Final = 0.25
_PAUSE_MAX: Final = 30.0
_LOST: Final = "its object was swept before it was appended, and cannot be made again as it was"
_LATE: Final = "not shipped: it came when later segments were in the queue"


class Shipper:
    """Ships one store, as one of its subscribers. ``run`` is for one thread, ``stop`` for any."""

    def __init__(
        self,
        disk: Disk,
        queue: Queue,
        name: str,
        *,
        options: ShipOptions | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        entropy: Entropy = secrets.token_bytes,
        watch: Callable[[Told], object] | None = None,
        keep: bool = True,
    ) -> None:
        """Ship as the subscriber ``name``; ``watch`` is told what happens, from ``run``.

        Raises MissingError if there is no store, InputError for what it has no slots of.
        """
        self.tally = Tally()
        self.metrics = Metrics(PRODUCER_CATALOGUE)
        self._writes = WriteTally(queue.counters, self.metrics, "producer")
        self._disk, self._queue, self._name = disk, queue, name
        self._options = options or ShipOptions()
        self._config = config or Config()
        self._clock = clock or SystemClock()
        self._entropy = entropy
        self._watch = watch or (lambda _: None)
        self._keep = keep
        self._stopping = False
        self._way: Way | None = None
        self._manifest = StoreManifest.read(disk)
        self._store_id = bytes.fromhex(self._manifest.store_id)
        self._packer = Packer(
            disk,
            self._manifest,
            config=self._config,
            slots=self._options.slots,
            damaged=self._options.damaged,
        )

    def gauges(self) -> Mapping[str, float]:
        """Give what there is now, by name of the metric."""
        return {"quiver.ship.waiting_bytes": 0 if self._way is None else self._way.byte_count}

    def stop(self) -> None:
        """Begin nothing more: ``run`` returns once all that is under way is in the queue."""
        self._stopping = True

    def run(self, *, follow: bool = False) -> Tally:
        """Ship what there is, or with ``follow`` all that comes until ``stop``.

        While the queue cannot be reached this tries again, with ``follow`` without end. Raises
        DamageError where that is to block, RemoteError, CapacityError, and SubscriberError if
        another process goes on as the subscriber; what is in the queue then, or comes to be, is
        acked by the next run.
        """
        loader = Loader(
            self._packer,
            self._queue.bucket,
            compression=self._options.compression,
            clock=self._clock,
            entropy=self._entropy,
            readers=min(self._options.uploads, _READERS),
        )
        with (
            closing(self._subscribe(keep=self._keep and follow)) as consumer,
            ThreadPoolExecutor(self._options.uploads, "quiver-ship") as pool,
        ):
            way = self._way = Way(consumer, pool, loader)
            self._watch(Ahead(sum(each.info.file_bytes for each in consumer.pending({}))))
            try:
                self._go(way, follow=follow)
            finally:
                way.abandon()
        return self.tally

    def _subscribe(self, *, keep: bool) -> SegmentConsumer:
        return SegmentConsumer(
            self._disk,
            self._name,
            start=self._options.start,
            config=self._config,
            clock=self._clock,
            keep=keep,
        )

    def _go(self, way: Way, *, follow: bool) -> None:
        failures, is_begun = 0, False
        while True:
            seen, done = way.consumer.change_count, self.tally.append_count
            try:
                if not is_begun:
                    self._begin(way)
                    is_begun = True
                is_any = self._round(way)
            except (RemoteError, CapacityError) as error:
                failures = 1 if self.tally.append_count > done else failures + 1
                may_pass = error.retryable or isinstance(error, UnclearError)
                if not may_pass or self._stopping or (failures > _FAILURES_MAX and not follow):
                    raise
                self._watch(Trouble(error))
                way.start_over()
                is_begun = False
                self._pause(failures)
                continue
            failures = 0
            if self._stopping or not follow:
                return
            if not is_any:
                way.consumer.wait(seen, _LOOK_NS)

    def _begin(self, way: Way) -> None:
        """Learn what the queue has; all that is open is looked at anew."""
        marks = self._queue.read().marks
        mine = {core: seq for (store, core), seq in marks.items() if store == self._store_id}
        way.marks = mine
        way.taken.clear()

    def _pause(self, failures: int) -> None:
        """Wait, twice as long each time, a moment at a time: it may be told to stop."""
        seconds = min(_PAUSE_FIRST * 2 ** min(failures - 1, 10), _PAUSE_MAX)
        for _ in range(max(round(seconds / _PAUSE_FIRST), 1)):
            if not self._stopping:
                self._clock.pause(_PAUSE_FIRST)

    def _round(self, way: Way) -> bool:
        """Ship what there is by now; says whether there was anything."""
        way.consumer.refresh()
        is_any = False
        for batch in self._batches(way):
            is_any = True
            self._launch(way, batch)
        while way.under:
            self._land(way)
        error = way.error or way.blocked
        if error is not None:
            raise error
        return is_any

    def _batches(self, way: Way) -> Iterator[list[Pending]]:
        """Go through what is to be shipped, some segments at a time; acks what is in already."""
        batch: list[Pending] = []
        byte_count = 0
        for pending in self._pending(way):
            size = pending.info.file_bytes
            full = byte_count + size > self._options.batch_bytes
            if batch and (full or len(batch) >= _BATCH_SEGMENTS):
                yield batch
                batch, byte_count = [], 0
            if self._stopping or way.error is not None:
                self.tally.is_cut_short = self._stopping
                return  # What was gathered is taken up by the next run.
            batch.append(pending)
            byte_count += size
        if batch:
            yield batch

    def _pending(self, way: Way) -> Iterator[Pending]:
        consumer = way.consumer
        self.tally.is_paused = consumer.is_paused
        if self.tally.is_paused:
            return
        unreadable = consumer.unreadable()
        there = consumer.pending(way.taken)
        lost = self._lost(way, there)
        for pending in there:
            core, seq = pending.core, pending.info.segment_seq
            for other, number, error in unreadable:
                if other == core and number < seq:
                    self._pass_by(way, core, number, error=error)
            if way.blocked is not None:
                return
            way.taken[core] = seq
            if seq > way.marks.get(core, -1):
                yield pending
            elif (core, seq) in lost or consumer.passed(core, seq):
                reason = _LOST if (core, seq) in lost else _LATE
                self._reject(way, pending, _indexes(pending), reason=reason)
            else:
                self.tally.bundles_before += consumer.ack(core, seq, pending.runs)
        for core, number, error in unreadable:
            self._pass_by(way, core, number, error=error)
        if consumer.is_dirty:
            consumer.commit()

    def _lost(self, way: Way, there: Sequence[Pending]) -> Collection[Place]:
        """Look for what the marks say is in the queue, before it is acked; gives what is lost."""
        had = [
            each
            for each in there
            if each.info.segment_seq <= way.marks.get(each.core, -1)
            and not way.consumer.passed(each.core, each.info.segment_seq)
        ]
        if not had:
            return ()
        lost = put_back_lost(self._queue, way.loader, had, store_id=self._store_id)
        if lost and self._options.damaged == "block":
            raise next(iter(lost.values()))
        return lost

    def _pass_by(self, way: Way, core: int, number: int, *, error: DamageError) -> None:
        """Go on behind a segment of which nobody knows what it holds, if that is allowed."""
        is_old = number <= max(way.taken.get(core, -1), way.marks.get(core, -1))
        if is_old or (core, number) in way.told:
            return
        if self._options.damaged == "block":
            error.hint = error.hint or "quiver repair makes it sound, as far as it can be"
            way.blocked = way.blocked or error
            return
        way.told.add((core, number))
        self.tally.unreadable_segments += 1
        self._watch(LeftOut(core, number, None, str(error)))

    def _reject(self, way: Way, pending: Pending, bundles: Sequence[int], *, reason: str) -> None:
        core, seq = pending.core, pending.info.segment_seq
        count = way.consumer.reject(core, seq, bundles=bundles, reason=reason)
        self.tally.rejected_bundles += count
        self._watch(LeftOut(core, seq, count, reason))

    def _launch(self, way: Way, batch: Sequence[Pending]) -> None:
        """Have a batch made and put, once there is room for it."""
        size = sum(pending.info.file_bytes for pending in batch)
        while way.under and (
            len(way.under) >= self._options.uploads
            or way.byte_count + size > self._options.memory_bytes
        ):
            self._land(way)
        if way.error is None:
            way.under.append(Under(begun_or_done(way.pool, way.loader.load, batch), batch, size))

    def _land(self, way: Way) -> None:
        """Append the oldest batch under way, with those behind it that are there, and ack."""
        together = [self._result(way, way.under.popleft())]
        while (
            way.under
            and len(together) < _TOGETHER
            and way.under[0].future.done()
            and not _stands_alone(together[-1])
        ):
            after = self._result(way, way.under.popleft())
            if _stands_alone(after):
                self._append(way, together)
                together = []
            together.append(after)
        self._append(way, together)
        last = together[-1]
        while last.rest and last.error is None:
            last = way.loader.load(last.rest)
            self._append(way, [last])
        if last.error is not None:
            way.error = last.error
            way.abandon()

    def _result(self, way: Way, under: Under) -> Loaded:
        """Wait for a batch; one whose object may be garbage soon is put under another name."""
        loaded = under.future.result()
        if loaded.is_late(self._clock):
            self.metrics.add("quiver.ship.late_uploads")
            return way.loader.load(under.pending)
        return loaded

    def _append(self, way: Way, together: Sequence[Loaded]) -> None:
        for loaded in together:
            for cargo in loaded.cargo:
                if cargo.rejected:
                    self._reject(way, cargo.pending, cargo.rejected, reason=cargo.reason)
        if way.consumer.is_dirty:
            way.consumer.commit()  # Whatever is left out is so for good before the rest goes.
        way.consumer.check_lease()
        numbers = self._put_in_line(together)
        for loaded in together:
            if loaded.is_late(self._clock):  # The append took long: nobody acks what may be gone.
                way.loader.put_back(loaded)
        for loaded in together:
            number = numbers.get(loaded.entry.location) if loaded.entry is not None else None
            self._ack(way, loaded, number)
        way.consumer.commit()

    def _put_in_line(self, together: Sequence[Loaded]) -> dict[str, int | None]:
        entries = [loaded.entry for loaded in together if loaded.entry is not None]
        if not entries:
            return {}
        try:
            numbers = self._queue.append(*entries)
        except RemoteError:
            self.metrics.add("quiver.ship.flush_failures", len(entries))
            raise
        except InputError as error:
            # Somebody else ships this store too, and has come in between with a part of it.
            raise RemoteError(
                f"another process ships the same store: {error.message}",
                path=self._queue.place,
                retryable=True,
                hint="one of them is enough; the marks of the queue keep each segment there once",
            ) from error
        finally:
            self._writes.note()
        self.tally.append_count += 1
        return dict(zip((entry.location for entry in entries), numbers, strict=True))

    def _ack(self, way: Way, loaded: Loaded, number: int | None) -> None:
        """Ack what is in the queue, and what has nothing to go there."""
        for cargo in loaded.cargo:
            pending = cargo.pending
            if cargo.is_gone:
                continue
            count = way.consumer.ack(pending.core, pending.info.segment_seq, pending.runs)
            if cargo.segment is None:
                self.tally.bundles_unwanted += count
            elif number is None:
                self.tally.bundles_before += count
            else:
                self.tally.bundle_count += cargo.segment.bundle_count
                self.tally.bundles_unwanted += max(count - cargo.segment.bundle_count, 0)
        if loaded.entry is not None and number is not None:
            shipment = Shipment.of(loaded, number)
            self.tally.add(shipment)
            self._count(shipment, loaded.put_ns)
            self._watch(shipment)

    def _count(self, shipment: Shipment, put_ns: int) -> None:
        """Count an entry as a producer counts its own."""
        self.metrics.add("quiver.ship.flushed_batches")
        self.metrics.add("quiver.ship.flushed_records", shipment.segment_count)
        self.metrics.add("quiver.ship.flushed_bytes", shipment.record_bytes)
        self.metrics.add("quiver.ship.written_bytes", shipment.batch_bytes)
        self.metrics.observe("quiver.ship.flush", self._clock.monotonic_ns() - put_ns)


def _stands_alone(loaded: Loaded) -> bool:
    """Whether what is before it must have its outcome first, or nothing may come behind it."""
    return loaded.has_rejected or bool(loaded.rest) or loaded.error is not None


def _indexes(pending: Pending) -> list[int]:
    return [index for first, count in pending.runs for index in range(first, first + count)]
