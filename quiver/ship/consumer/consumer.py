"""``Consumer``: the one reader of a queue. Whoever opens the next one fences it.

::

    with Consumer.open(queue, last_acked=stored, delivered=lately) as consumer:
        while (batch := consumer.next_batch()) is not None:
            with database.transaction() as t:         # all of it, or nothing:
                t.write(batch.records)                # exactly once, whatever happens
                t.store(batch.sequence, after=stored)  # refused if another one has stored
                t.keep(Delivered(batch.sequence, batch.location))
            consumer.ack(batch.sequence)
            stored = batch.sequence

``after`` is for a process that slept while the next one took over: the queue fences it at its next
look, and the transaction that it woke up in has to. ``lately`` is what was kept last, a thousand of
them or so: an entry whose producer got no answer comes again if it was dequeued before he looked
for it. Without them that is known until a restart.

Where batches are fetched by others, ``next_descriptors`` says which, ``fetcher`` is what they fetch
with, and ``ack_through`` acks all that are done at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from quiver.clock import Clock, SystemClock
from quiver.errors import ClosedError, ConfigError
from quiver.metrics import CONSUMER_CATALOGUE, Metrics
from quiver.ship.consumer.ahead import Ahead
from quiver.ship.consumer.cursors import Cursors
from quiver.ship.consumer.fetcher import Fetcher
from quiver.ship.consumer.identity import identity_of
from quiver.ship.consumer.values import Batch, Descriptor
from quiver.ship.consumer.window import WINDOW, Delivered, Window
from quiver.ship.counting import WriteTally
from quiver.ship.queue import Queue
from quiver.ship.sweeper import GRACE, INTERVAL, Sweeper, SweeperTask
from quiver.units import MILLISECOND, SECOND, parse_duration

__all__ = ["Consumer", "Policy"]

Policy: TypeAlias = Literal["block", "skip"]
"""What becomes of a batch that is missing or damaged: its error comes again and again, or it
becomes a dead letter and is passed over."""

_DEQUEUE_EVERY: Final = 100


class Consumer:
    """The reading end of a queue, for one process at a time; safe to use from several threads."""

    def __init__(
        self,
        queue: Queue,
        *,
        epoch: int,
        tally: WriteTally,
        last_acked: int | None,
        on_poison: Policy,
        known: Iterable[Delivered],
        window: int,
        dequeue_every: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """Take what ``open`` made; that is for everybody else."""
        self.metrics = metrics
        self._queue, self._clock = queue, clock
        self._epoch, self._tally = epoch, tally
        self._dequeue_every = dequeue_every
        self._cursors = Cursors(last_acked)
        self._window = Window(window, known)
        self._fetcher = Fetcher(queue.bucket, clock=clock, metrics=metrics)
        self._ahead = Ahead(
            queue,
            epoch=epoch,
            cursors=self._cursors,
            window=self._window,
            fetcher=self._fetcher,
            skips=on_poison == "skip",
            metrics=metrics,
        )
        self._turn = threading.RLock()
        self._closed = False
        self._newest_ms: int | None = None
        self._dequeued: int | None = None
        self._task: SweeperTask | None = None

    @classmethod
    def open(
        cls,
        queue: Queue,
        last_acked: int | None = None,
        *,
        on_poison: Policy = "block",
        delivered: Iterable[Delivered] = (),
        window: int = WINDOW,
        dequeue_every: int = _DEQUEUE_EVERY,
        sweep_interval: float | str | None = INTERVAL,
        sweep_grace: float | str = GRACE,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> Self:
        """Fence whoever read before, and go on behind ``last_acked``, the sequence you stored.

        Without one it begins with what is there, and what was acked since the last dequeue comes
        again. ``delivered`` is what ``delivered_through`` gave, if you stored that too. Raises
        InputError for a sequence that the queue never gave, ConfigError, RemoteError.
        """
        if on_poison not in ("block", "skip"):
            raise ConfigError(f"on_poison is {on_poison!r}: block or skip")
        if dequeue_every < 1 or window < 1:
            raise ConfigError("dequeue_every and window are 1 or more")
        clock = clock or SystemClock()
        interval_ns = None
        if sweep_interval is not None:
            interval_ns = parse_duration(sweep_interval, key="sweep_interval")
        grace_ns = parse_duration(sweep_grace, key="sweep_grace")
        metrics = metrics or Metrics(CONSUMER_CATALOGUE)
        sweeper = None
        if interval_ns is not None:
            own = Queue(queue.bucket, options=queue.options, clock=clock)  # Nobody waits for it.
            sweeper = Sweeper(own, grace_ns=grace_ns, clock=clock, metrics=metrics)
        tally = WriteTally(queue.counters, metrics, "consumer")
        epoch = queue.start(last_acked).epoch
        tally.note()
        consumer = cls(
            queue,
            epoch=epoch,
            tally=tally,
            last_acked=last_acked,
            on_poison=on_poison,
            known=delivered,
            window=window,
            dequeue_every=dequeue_every,
            clock=clock,
            metrics=metrics,
        )
        if sweeper is not None and interval_ns is not None:
            sweeper.epoch = epoch
            consumer._task = SweeperTask(sweeper, interval_ns=interval_ns, clock=clock)
        return consumer

    # batches -------------------------------------------------------------------------------------

    def next_batch(self) -> Batch | None:
        """Give the next batch; None if the queue has no more. Needs no ack in between.

        Raises FencedError, and what a fetch raises; then the next call gives the same batch.
        """
        with self._turn:
            self._check_open()
            for descriptor in self._ahead.descriptors():
                batch = self._ahead.deliver(descriptor)
                passed = self._cursors.last_passed
                if batch is None:
                    self._cursors.pass_over(descriptor.sequence)
                    continue
                try:
                    self._hand_out(descriptor)
                    self._note_time(descriptor)
                    return batch
                except BaseException:  # Else whoever acks a later one would ack this, unread.
                    self._cursors.take_back(passed)
                    raise
            return None

    def next_descriptors(self, count: int) -> list[Descriptor]:
        """Say where the next batches are, ``count`` at most, with one look at the manifest.

        They are handed out: only a new consumer gives them again. Raises FencedError.
        """
        found: list[Descriptor] = []
        if count <= 0:
            return found
        with self._turn:
            self._check_open()
            passed = self._cursors.last_passed
            try:
                for descriptor in self._ahead.descriptors():
                    self._hand_out(descriptor)
                    found.append(descriptor)
                    if len(found) == count:
                        break
            except BaseException:  # Else whoever acks later ones would ack these, unread.
                self._cursors.take_back(passed)
                raise
        self.metrics.add("quiver.ship.descriptors", len(found))
        return found

    def fetcher(self) -> Fetcher:
        """Give what reads the batches of descriptors, in any thread, or pickled in any process."""
        return self._fetcher

    def fetch(self, descriptor: Descriptor) -> Batch:
        """Read the batch of a descriptor here, and count it for the lag."""
        batch = self._fetcher.fetch(descriptor)
        with self._turn:
            self._note_time(descriptor)
        return batch

    def _hand_out(self, descriptor: Descriptor) -> None:
        self._cursors.hand_out(descriptor.sequence)
        found = [identity_of(call.metadata) for call in descriptor.calls]
        identities = tuple(each for each in found if each is not None)
        self._window.note(Delivered(descriptor.sequence, descriptor.location, identities))
        if descriptor.repeats:
            self.metrics.add("quiver.ship.repeats", len(descriptor.repeats))

    def _note_time(self, descriptor: Descriptor) -> None:
        if descriptor.calls:
            self._newest_ms = descriptor.calls[-1].ingestion_time_ms

    # acks ----------------------------------------------------------------------------------------

    def ack(self, sequence: int) -> None:
        """Ack the oldest batch that is handed out; each hundredth removes entries from the queue.

        Raises InputError for any other, and FencedError; then nothing has changed.
        """
        with self._turn:
            self._check_open()
            self._cursors.check_ack(sequence)
            if self._cursors.pending_count + 1 >= self._dequeue_every:
                self._dequeue(sequence)
            self._ack_through(sequence)

    def ack_through(self, sequence: int) -> None:
        """Ack a batch and all that were handed out before it, and remove them from the queue.

        Raises InputError for what is not handed out or acked already, and what the removal raises;
        then nothing has changed.
        """
        with self._turn:
            self._check_open()
            self._cursors.check_ack_through(sequence)
            self._dequeue(sequence)
            self._ack_through(sequence)

    def flush(self) -> None:
        """Remove from the queue what is acked."""
        with self._turn:
            self._check_open()
            self._flush()

    def _flush(self) -> None:
        last_acked = self._cursors.last_acked
        if last_acked is not None and self._cursors.pending_count:
            self._dequeue(last_acked)

    def _ack_through(self, sequence: int) -> None:
        self.metrics.add("quiver.ship.acks", self._cursors.ack_through(sequence))
        if self._dequeued == sequence:
            self._cursors.pending_count = 0

    def _dequeue(self, through: int) -> None:
        try:
            removed = self._queue.dequeue(through, epoch=self._epoch)
        finally:
            self._tally.note()
        self._ahead.length = max(self._ahead.length - removed, 0)
        self._dequeued = through
        self._cursors.pending_count = 0

    def close(self) -> None:
        """Remove what is acked, end the sweeper, and give no more; a second call does nothing."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            try:
                self._flush()
            finally:
                if self._task is not None:
                    self._task.stop()

    def __enter__(self) -> Self:
        """Give the consumer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the consumer is closed", hint="open a new one")

    # what can be seen ----------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The number of this consumer; a higher one fences it."""
        return self._epoch

    @property
    def last_acked(self) -> int | None:
        """The last sequence that was acked, or given at the opening."""
        return self._cursors.last_acked

    def delivered_through(self, sequence: int | None) -> tuple[Delivered, ...]:
        """Give what was delivered lately up to a sequence, to be stored in one transaction with it.

        A batch that is in the queue twice is then known as a repeat after a restart too.
        """
        with self._turn:
            return self._window.through(sequence)

    @property
    def lag_seconds(self) -> float:
        """Age of the newest record in the batch that was read last; 0 before the first."""
        if self._newest_ms is None:
            return 0.0
        return max(self._clock.wall_ns() - self._newest_ms * MILLISECOND, 0) / SECOND

    @property
    def queue_length(self) -> int:
        """Entries in the manifest at the last look, with those that are acked and still there."""
        return self._ahead.length

    def gauges(self) -> Mapping[str, float]:
        """Give what there is now, by name of the metric."""
        return {
            "quiver.ship.lag": self.lag_seconds,
            "quiver.ship.queue_length": self.queue_length,
        }

    @property
    def sweeper(self) -> SweeperTask | None:
        """What deletes what nobody points to; None if it was not wanted."""
        return self._task
