"""``Producer``: many threads produce, one sends, and memory has a bound.

::

    produce --> room --> gathering --(100 ms, 64 MiB, flush, close)--> sender --> handle
                 ^                                                        |
                 '---------------------- given back ----------------------'
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from secrets import token_bytes
from types import TracebackType
from typing import Final, Self

from quiver.clock import Clock, SystemClock
from quiver.disk import Bytes
from quiver.errors import ConfigError, InputError, WaitTimeoutError
from quiver.metrics import PRODUCER_CATALOGUE, Metrics
from quiver.ship.batch import (
    BLOCK_BYTES_MAX,
    COMPRESSIONS,
    RECORD_BYTES_MAX,
    Compression,
    Entropy,
)
from quiver.ship.producer.gathering import Call, Gathering, Load
from quiver.ship.producer.handle import Durable, Outcome, WriteHandle, forget_frames
from quiver.ship.producer.room import Room, closed
from quiver.ship.producer.sender import Sender
from quiver.ship.queue import Queue
from quiver.units import MILLISECOND, SECOND, parse_bytes, parse_duration

__all__ = ["Producer"]

_METADATA_MAX: Final = 1 << 20
_MEMORY_MIN: Final = 1 << 20
LATE_AFTER: Final = "5m"
"""How old an upload may be that is appended: below ``GRACE_MIN`` of the sweeper."""


class Producer:
    """Appends what many threads produce to a queue, in batches; close it, or use it with ``with``.

    What is produced must not change until it is durable: it is copied as it is sent, if at all. A
    copy of the small records of one batch is beside what ``memory`` counts. A batch is sent
    ``flush_interval`` after its first call, or when it has ``flush_size``; what waits and what is
    on its way has ``memory`` at most, twice the size unless said otherwise. ``late_after`` is how
    old an upload may be when it is appended, 5 minutes at most: a sweeper waits for longer.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        flush_interval: float | str = "100ms",
        flush_size: int | str = "64MiB",
        memory: int | str | None = None,
        compression: Compression = "none",
        late_after: float | str = LATE_AFTER,
        clock: Clock | None = None,
        entropy: Entropy = token_bytes,
        metrics: Metrics | None = None,
    ) -> None:
        """Start the thread that sends. Raises ConfigError."""
        size = parse_bytes(flush_size, key="flush_size")
        limit = max(2 * size, _MEMORY_MIN) if memory is None else parse_bytes(memory, key="memory")
        if not 0 < size <= limit:
            raise ConfigError(f"flush_size is {size:,} bytes and memory {limit:,}: it must be less")
        late_ns = parse_duration(late_after, key="late_after")
        if not 0 < late_ns <= parse_duration(LATE_AFTER):
            raise ConfigError(
                f"late_after is {late_after}: more than nothing, at most {LATE_AFTER}"
            )
        if compression not in COMPRESSIONS:
            raise ConfigError(f"compression is {compression!r}: none or zstd")
        self.metrics = metrics or Metrics(PRODUCER_CATALOGUE)
        self._clock = clock or SystemClock()
        interval_ns = parse_duration(flush_interval, key="flush_interval")
        self._gathering = Gathering(
            flush_size=size, interval_ns=interval_ns, block_max=BLOCK_BYTES_MAX
        )
        self._sender = Sender(
            queue,
            compression=compression,
            late_ns=late_ns,
            clock=self._clock,
            entropy=entropy,
            metrics=self.metrics,
        )
        self._turn = threading.Condition()
        self._room = Room(limit, self._clock, when_full=self._hasten)
        self._sending: Load | None = None
        self._closing = False
        self._owed: list[Outcome] = []
        """What a flush or a close was about that did not wait long enough."""
        self._thread = threading.Thread(target=self._run, name="quiver-producer", daemon=True)
        self._thread.start()

    # what callers do -----------------------------------------------------------------------------

    def produce(
        self, entries: Sequence[Bytes], metadata: bytes = b"", *, timeout: float | None = None
    ) -> WriteHandle:
        """Take records that stay together and in order, with one item of metadata for all of them.

        Blocks while there is no room, for ``timeout`` seconds at most, and raises CapacityError
        then; on an event loop say 0, and await an older handle before the next try. Raises
        InputError, ClosedError. Nothing is durable before the handle says so.
        """
        call = self._call(entries, metadata)
        if not self._thread.is_alive():
            raise closed()  # Also in a forked child, where nobody sends.
        try:
            waited = self._room.take(call.cost, timeout, call.share)
            outcome = self._gather(call)
        except BaseException:
            self._room.let_go(call.cost, call.share)
            with self._turn:
                self._turn.notify()  # It may be in a batch by now, of which nobody heard.
            raise
        if waited:
            self.metrics.add("quiver.ship.throttled_calls")
        return WriteHandle(outcome, call.time_ms)

    def _gather(self, call: Call) -> Outcome:
        with self._turn:
            if self._closing:
                raise closed()
            outcome = self._gathering.add(call, self._clock.monotonic_ns())
            if self._room.is_wanted:
                self._gathering.close_open()
            self._turn.notify()
            return outcome

    def _call(self, entries: Sequence[Bytes], metadata: bytes) -> Call:
        records = tuple(_record(entry, index) for index, entry in enumerate(entries))
        if not records:
            raise InputError("there is nothing to produce", hint="a call has one record or more")
        size = sum(map(len, records))
        metadata = bytes(metadata)
        if len(metadata) > _METADATA_MAX:
            raise InputError(
                f"metadata has {len(metadata):,} bytes, the most is {_METADATA_MAX:,}",
                hint="it is kept in the manifest, which every append writes anew",
            )
        time_ms = self._clock.wall_ns() // MILLISECOND
        call = Call(records, metadata, time_ms, size + len(metadata))
        if call.block_size > BLOCK_BYTES_MAX:
            raise InputError(
                f"a call of {call.block_size:,} bytes is more than a batch may have: "
                f"{BLOCK_BYTES_MAX:,}"
            )
        return call

    def flush(self, timeout: float | None = None) -> None:
        """Send all that was produced before, and wait until it is in the queue.

        Raises the first error of a batch that was sent for it, or WaitTimeoutError, ClosedError.
        """
        if not self._thread.is_alive():
            raise closed()
        with self._turn:
            outcomes = self._asked_for()
            self._gathering.close_open()
            self._turn.notify()
        self._await(outcomes, timeout)
        _raise_first(outcomes)

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end. Raises what ``flush`` raises; after a WaitTimeoutError ask again.

        In a forked child it does nothing: the parent sends what was produced.
        """
        if not self._thread.is_alive():
            outcomes, self._owed = self._owed, []
            _raise_first([outcome for outcome in outcomes if outcome.settled])
            return
        with self._turn:
            outcomes = self._asked_for()
            self._closing = True
            self._gathering.close_open()
            self._turn.notify()
        self._room.close()
        self._await(outcomes, timeout)
        self._thread.join()
        _raise_first(outcomes)

    def _pending(self) -> list[Outcome]:
        loads = [*([self._sending] if self._sending else []), *self._gathering.waiting()]
        return [load.outcome for load in loads if not load.outcome.settled]

    def _asked_for(self) -> list[Outcome]:
        """Give what waits, and what somebody asked for who did not wait for its end."""
        pending = self._pending()
        outcomes, self._owed = self._owed, []
        return [*outcomes, *(outcome for outcome in pending if outcome not in outcomes)]

    def _await(self, outcomes: Sequence[Outcome], timeout: float | None) -> None:
        try:
            self._wait_for(outcomes, timeout)
        except BaseException:  # Who asks again is told of those that failed meanwhile.
            with self._turn:
                self._owed += [each for each in outcomes if each not in self._owed]
            raise

    def _wait_for(self, outcomes: Sequence[Outcome], timeout: float | None) -> None:
        until = None if timeout is None else self._clock.monotonic_ns() + round(timeout * SECOND)
        for outcome in outcomes:
            rest = None if until is None else max(until - self._clock.monotonic_ns(), 0) / SECOND
            if not outcome.wait(rest):
                raise WaitTimeoutError(
                    f"what was produced is not in the queue after {timeout} s",
                    hint="it is still being sent: ask again",
                )

    def __enter__(self) -> Self:
        """Give the producer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    # what can be seen ----------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Memory of what waits and of what is on its way."""
        return self._room.used

    def gauges(self) -> Mapping[str, float]:
        """Give what there is now, by name of the metric."""
        return {"quiver.ship.waiting_bytes": self.waiting_bytes}

    @property
    def conflict_rate(self) -> float:
        """Conflicts by writes of the manifest so far, in percent."""
        return self._sender.tally.conflict_rate

    # the thread that sends -----------------------------------------------------------------------

    def _hasten(self) -> None:
        """Let nobody wait for room that only the interval would make."""
        with self._turn:
            self._gathering.close_open()
            self._turn.notify()

    def _run(self) -> None:
        while (load := self._next()) is not None:
            durable, error = self._send(load)
            self._room.give_back(load.cost)
            if durable is not None:
                load.outcome.succeed(durable)
            elif error is not None:
                forget_frames(error)
                load.outcome.fail(error)
            del load  # Its records, while this waits for more.

    def _next(self) -> Load | None:
        """Wait until a batch is due; None at the end."""
        with self._turn:
            self._sending = None
            while True:
                now_ns = self._clock.monotonic_ns()
                if (load := self._gathering.take(now_ns)) is not None:
                    self._sending = load
                    return load
                if self._closing:
                    return None
                rest_ns = self._gathering.rest_ns(now_ns)
                self._turn.wait(None if rest_ns is None else rest_ns / SECOND)

    def _send(self, load: Load) -> tuple[Durable | None, BaseException | None]:
        try:
            return self._sender.send(load), None
        except BaseException as error:  # noqa: BLE001 Whoever waits for it gets it.
            return None, error


def _raise_first(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        outcome.result()


def _record(entry: Bytes, index: int) -> bytes | memoryview:
    """View one record as bytes."""
    if isinstance(entry, bytes):
        return entry
    try:
        view = memoryview(entry).cast("B")
    except TypeError as error:
        kind = type(entry).__name__
        raise InputError(f"record {index} is no bytes in one piece: {kind}") from error
    if len(view) > RECORD_BYTES_MAX:
        raise InputError(f"record {index} has {len(view):,} bytes: too many for a batch")
    return view
