"""Data and barriers of a source as one stream, with the state of every split at each barrier.

::

    send(barrier) --> [ barriers ] --.
                                      +--> next: a barrier first, if there is one
    splits -------> [ chunks   ] ----'

At a barrier, in this order: the states of all splits go to the disk under its epoch; it is handed
out; and only when something is asked for again, its mutations are carried out. So a chunk belongs
to the epoch of the barrier behind it, and an epoch whose chunks and barrier were committed
elsewhere is where to restart: what came after it comes again, from the same places.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

from quiver.clock import Clock
from quiver.errors import ClosedError, InputError, QuiverError
from quiver.events import Events
from quiver.source.acker import Acker
from quiver.source.barriers import AssignSplits, Barrier, BarrierPassed, Pause, Resume
from quiver.source.connector_source import ConnectorSource, SourceLimits
from quiver.source.format import SplitState
from quiver.source.lane import SourceChunk
from quiver.source.parser import Parser
from quiver.source.protocols import Connector, Split
from quiver.source.snapshots import Snapshots

__all__ = ["SourceExecutor", "SourceOptions", "SourceOutput"]

SourceOutput: TypeAlias = "SourceChunk | BarrierPassed"

_SILENT_INTERVALS: Final = 5
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How an executor reads.

    ``retry_delay`` is in seconds, ``retries_max`` how often in a row a retryable failure is met
    with readers made anew. With a ``barrier_interval``, in seconds, reading pauses by itself when
    none came for five of them, until the next one does. ``threads=False`` is for tests that step
    everything by hand.
    """

    columns: Sequence[str] | None = None
    parser: Parser | None = None
    limits: SourceLimits | None = None
    retry_delay: float = 1.0
    retries_max: int = 10
    barrier_interval: float | None = None
    threads: bool = True


class SourceExecutor:
    """Runs the splits that barriers assign to it, from ``epoch`` of ``snapshots`` on.

    ``epoch`` is the last one whose output is safe elsewhere, 0 if none is: epochs behind it are
    forgotten. Nothing is read before the first barrier, which has to assign splits. One thread
    takes what comes out; any may send barriers, tell commits and close.
    """

    def __init__(
        self,
        connector: Connector,
        snapshots: Snapshots,
        *,
        epoch: int,
        clock: Clock,
        options: SourceOptions | None = None,
    ) -> None:
        """Go back to an epoch, durably; InputError if its states are not there."""
        self._connector = connector
        self._snapshots = snapshots
        self._clock = clock
        self._options = options or SourceOptions()
        self._bell = threading.Condition()
        self._events = Events(source=connector.name)
        self._source: ConnectorSource | None = None
        self._is_closed = False
        self._begin(epoch)
        self._acker = Acker(connector, self._events, threads=self._options.threads)

    def _begin(self, epoch: int) -> None:
        self._known: dict[str, SplitState] = dict(self._snapshots.restart(epoch))
        self._held: dict[str, Split] = {}
        self._epoch = epoch
        self._barriers: deque[Barrier] = deque()
        self._passed: Barrier | None = None
        self._awaits_first = True
        self._is_started = False
        self._is_paused = False
        self._failures = 0
        self._retry_ns = 0
        self._barrier_ns = self._clock.monotonic_ns()

    @property
    def states(self) -> dict[str, SplitState]:
        """Where each split is that is known here, behind all that was handed out."""
        with self._bell:
            return dict(self._known)

    @property
    def acker(self) -> Acker:
        """What tells the source of commits; its ``failure`` is the last one, or None."""
        return self._acker

    def send(self, barrier: Barrier) -> None:
        """Put a barrier into the channel; it comes out before any chunk that is not out yet.

        Raises InputError unless epochs rise and the first one assigns splits.
        """
        with self._bell:
            self._check_open()
            last = self._barriers[-1].epoch if self._barriers else self._epoch
            if barrier.epoch <= last:
                raise InputError(
                    f"epoch {barrier.epoch} does not follow {last}", hint="epochs rise"
                )
            if self._awaits_first and not any(
                isinstance(m, AssignSplits) for m in barrier.mutations
            ):
                raise InputError(
                    "the first barrier assigns no splits",
                    hint="Barrier(epoch, (AssignSplits(splits),)); with none, () waits for some",
                )
            self._awaits_first = False
            self._barriers.append(barrier)
            self._bell.notify_all()

    def next(self, timeout: float) -> SourceOutput | None:
        """Give what comes next, or None if nothing does within ``timeout`` seconds.

        A retryable failure of a split is met by making all readers anew, from what was handed
        out last. Any other is raised, as is one too many: then ``restart`` or close. A barrier
        whose states cannot be written stays first, and is tried again by the next call.
        """
        with self._events.telling():
            found = self._step()
            if found is None and timeout > 0:
                with self._bell:
                    if not self._has_news():
                        self._bell.wait(self._patience(timeout))
                found = self._step()
            return found

    def restart(self, epoch: int) -> None:
        """Go back to an epoch: all that came out behind it has to be thrown away by who has it.

        As after opening, the next barrier has to assign splits. Barriers in the channel and
        commits that the source was not told of are dropped.
        """
        with self._bell:
            self._check_open()
        self._acker.drop()
        self._stop_reading()
        with self._bell:
            self._begin(epoch)

    def commit(self, epoch: int) -> None:
        """Say that all that came out up to the barrier of this epoch is safe elsewhere, for good.

        The source is told so, by another thread. Raises InputError for an epoch that is not there.
        """
        with self._bell:
            self._check_open()
            if epoch <= self._snapshots.committed:
                return
            states = self._snapshots.commit(epoch)
        held = {name: split.state for name, split in states.items() if split.held}
        self._acker.post({name: state for name, state in held.items() if state is not None})

    def close(self) -> None:
        """Stop reading; what was not committed comes again. A second call does nothing."""
        with self._bell:
            self._is_closed = True
            self._bell.notify_all()
        self._acker.close()
        self._stop_reading()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _step(self) -> SourceOutput | None:
        with self._bell:
            self._check_open()
        self._carry_out()
        with self._bell:
            if self._barriers:
                return self._pass(self._barriers[0])
        return self._read() if self._may_read() else None

    def _pass(self, barrier: Barrier) -> BarrierPassed:
        """Write the states of its epoch, then let the barrier through."""
        states = {
            name: SplitState(split.state, barrier.epoch, held=True)
            if name in self._held
            else split._replace(held=False)
            for name, split in self._known.items()
        }
        self._snapshots.save(barrier.epoch, states)
        self._barriers.popleft()
        self._known = states
        self._epoch = barrier.epoch
        self._passed = barrier
        self._barrier_ns = self._clock.monotonic_ns()
        return BarrierPassed(barrier, dict(states))

    def _carry_out(self) -> None:
        """Do what the barrier said that was handed out last."""
        barrier, self._passed = self._passed, None
        if barrier is None:
            return
        for mutation in barrier.mutations:
            if isinstance(mutation, AssignSplits):
                self._assign(mutation, barrier.epoch)
            else:
                self._is_paused = isinstance(mutation, Pause)
                assert isinstance(mutation, Pause | Resume)  # noqa: S101 There are no others.

    def _assign(self, mutation: AssignSplits, epoch: int) -> None:
        wanted = {split.id: split for split in mutation.splits}
        is_changed = wanted.keys() != self._held.keys() or not self._is_started
        if is_changed:
            self._stop_reading()
        with self._bell:
            known = dict(self._known)
            for name in mutation.dropped - wanted.keys():
                known.pop(name, None)
            for name in wanted.keys() - self._held.keys():
                given = mutation.states.get(name, SplitState(None))
                own = known.get(name, SplitState(None, -1))
                newest = given if given.as_of > own.as_of else own
                known[name] = SplitState(newest.state, epoch, held=True)
            self._known = known
            self._held = wanted
            self._is_started = True

    def _has_news(self) -> bool:
        if self._barriers or self._is_closed:
            return True
        return self._source is not None and self._may_read() and self._source.is_ready()

    def _may_read(self) -> bool:
        now = self._clock.monotonic_ns()
        interval = self._options.barrier_interval
        if interval is not None and now - self._barrier_ns > _SILENT_INTERVALS * interval * _NS:
            return False
        return self._is_started and not self._is_paused and now >= self._retry_ns

    def _read(self) -> SourceChunk | None:
        try:
            if self._source is None:
                self._source = self._make_source()
            chunk = self._source.poll()
        except QuiverError as error:
            self._stop_reading()
            self._failures += 1
            if not error.retryable or self._failures > self._options.retries_max:
                raise
            self._retry_ns = self._clock.monotonic_ns() + int(self._options.retry_delay * _NS)
            self._events.warning("source.read_failed", error=error, failure_count=self._failures)
            return None
        if chunk is not None:
            self._failures = 0
            with self._bell:
                before = self._known[chunk.split]
                self._known[chunk.split] = before._replace(state=chunk.state)
        return chunk

    def _make_source(self) -> ConnectorSource:
        states = {
            name: state for name in self._held if (state := self._known[name].state) is not None
        }
        options = self._options
        return ConnectorSource(
            self._connector,
            [self._held[name] for name in sorted(self._held)],
            states=states,
            columns=options.columns,
            parser=options.parser,
            limits=options.limits,
            threads=options.threads,
            bell=self._bell,
        )

    def _stop_reading(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            source.close()  # Without the lock: its threads need it to end.

    def _patience(self, timeout: float) -> float:
        """Give how long to wait: no longer than until a retry is due."""
        due = (self._retry_ns - self._clock.monotonic_ns()) / _NS
        return min(timeout, due) if due > 0 else timeout

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the executor is closed", hint="make another one, from an epoch")
