"""Bundles of any partitions that are kept by nodes, in order of time, live or not.

Each partition is followed by a thread of its own. A message comes when no partition can have one
before it: each shows its next one, or has come to its end, or is idle. Of a live partition that is
idle nobody says up to when nothing will come; what is older than ``idle_seconds`` is given all the
same then, and so is what came here so long ago, for the clock here may be behind. So messages of
one partition always come in order, and those of several do unless one was under way for longer than
that. What cannot be read just now is not idle but waited for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from quiver.chain.reading.following import Followed, follow
from quiver.chain.reading.message import ChainMessage, ChainPosition, Silence
from quiver.clock import Clock
from quiver.disk import process_id
from quiver.errors import CapacityError, ClosedError, InputError, QuiverError, WaitTimeoutError
from quiver.units import SECOND, parse_duration

__all__ = ["ChainCursor", "CursorRules"]

_AHEAD: Final = 64
"""Messages that are kept of a partition before their turn."""
_TIME_MIN: Final = -(1 << 63)
_TIME_MAX: Final = (1 << 63) - 1
_TICK: Final = 0.05
_IDLE_MAX: Final = 366 * 86_400
"""Seconds."""


@dataclass(frozen=True, slots=True)
class CursorRules:
    """What a cursor is asked for; times in nanoseconds since 1970, both ends included."""

    start_ns: int = _TIME_MIN
    end_ns: int = _TIME_MAX
    live: bool = False
    idle_seconds: float = 2.0
    position: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check them."""
        if self.start_ns > self.end_ns:
            raise InputError("the range ends before it starts", hint="both ends are included")
        if not 0 <= self.idle_seconds <= _IDLE_MAX:
            raise InputError(
                f"idle_seconds: {self.idle_seconds!r:.40} is none of 0 to {_IDLE_MAX:,}"
            )


class ChainCursor:
    """Made by ``Cluster.cursor``. Not safe for several threads at once.

    An exception of a signal handler comes before a message was given or behind that: ``position``
    says which, and what comes next is what follows that.
    """

    def __init__(
        self,
        partitions: Sequence[str],
        followed: Callable[[str], Followed],
        *,
        rules: CursorRules,
        clock: Clock,
    ) -> None:
        """Begin to read; ``followed`` says how each partition is reached.

        Raises CapacityError if there is no thread for one.
        """
        if not partitions or len(set(partitions)) != len(partitions):
            raise InputError("partitions: none, or one of them twice")
        self._process = process_id()
        self._partitions = tuple(partitions)
        self._followed = followed
        self._rules = rules
        self._clock = clock
        self._position = {name: ChainPosition(*at) for name, at in rules.position.items()}
        # A condition is entered in Python: an interrupt behind that would leave the lock taken.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_closed = False
        self._lanes: dict[str, _Lane] = {}
        self._begin(rules, self._position)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that it reads."""
        return self._partitions

    @property
    def position(self) -> dict[str, tuple[int, int]]:
        """Time and number of the last message of each partition, to go on behind: ``position=``."""
        return {name: tuple(at) for name, at in self._position.items()}  # type: ignore[misc]

    def next(self, timeout: float | str | None = None) -> ChainMessage | None:
        """Give the next message; None at the end of a cursor that is not live.

        Waits for one, up to ``timeout``: WaitTimeoutError then. Raises what ``poll`` does, too.
        """
        limit_ns = None if timeout is None else parse_duration(timeout)
        begun = self._clock.monotonic_ns()
        while True:
            message = self.poll()
            if message is not None or self.is_at_end:
                return message
            if limit_ns is not None and self._clock.monotonic_ns() - begun >= limit_ns:
                raise WaitTimeoutError("no message came in time", hint="ask again")
            try:
                with self._lock:
                    if self._chosen() is None and not self._is_over():
                        self._changed.wait(_TICK)
            except RuntimeError as error:  # An interrupt came while it had let go of the lock.
                raise error.__context__ or error from None

    def poll(self) -> ChainMessage | None:
        """Give the next message if its turn has come, and wait for nothing.

        Raises what keeps a partition from being read, once; the cursor goes on behind it then.
        """
        self._check_process()
        with self._lock:
            self._check_open()
            self._drop_given()
            faulty = self._faulty()
            chosen = None if faulty is not None else self._chosen()
            if chosen is not None:
                message = chosen.ready[0].message
                at = ChainPosition(message.time_ns, message.wal_seq)
        # From here on nothing is called, so no interrupt comes between noting it and giving it.
        if faulty is not None and (fault := faulty.fault) is not None:
            faulty.fault = None
            raise fault
        if chosen is None:
            return None
        self._position[message.partition] = at
        return message

    @property
    def is_at_end(self) -> bool:
        """Whether nothing will come any more."""
        self._check_process()
        with self._lock:
            self._drop_given()
            return self._is_over()

    def reset(self, time_ns: int) -> None:
        """Jump to a time, forward or back: what comes next is of this time or later.

        If that is refused, the cursor stays where it was.
        """
        self._check_process()
        self._check_open()
        self._begin(replace(self._rules, start_ns=time_ns), {})

    def __iter__(self) -> Iterator[ChainMessage]:
        """Go through all messages; a live cursor has no end."""
        while (message := self.next()) is not None:
            yield message

    def close(self) -> None:
        """Stop to read; a second call does nothing, nor does one in a forked child."""
        if process_id() != self._process:
            return
        with self._lock:
            self._is_closed = True
            self._end(self._lanes)
            self._lanes = {}

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # inside --------------------------------------------------------------------------------------

    def _check_process(self) -> None:
        if process_id() != self._process:
            raise ClosedError(
                "the cursor was made in another process and came here by fork",
                hint="make one after a fork, from its position",
            )

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the cursor is closed", hint="make another one")

    def _begin(self, rules: CursorRules, position: dict[str, ChainPosition]) -> None:
        """Read on from a position, and no more from where it was; all partitions, or none."""
        before = self._lanes
        lanes = {name: _Lane(self._changed, self._clock) for name in self._partitions}
        try:
            for name, lane in lanes.items():
                lane.start(
                    replace(
                        self._followed(name),
                        after=position.get(name),
                        start_ns=rules.start_ns,
                        end_ns=rules.end_ns,
                        live=rules.live,
                    )
                )
            self._rules, self._position, self._lanes = rules, position, lanes
        finally:
            self._end(before if self._lanes is lanes else lanes)

    def _end(self, lanes: Mapping[str, _Lane]) -> None:
        with self._lock:
            for lane in lanes.values():
                lane.is_stopped = True
            self._changed.notify_all()

    def _drop_given(self) -> None:
        """Let go of what was given: only the position says that it was."""
        for name, lane in self._lanes.items():
            if lane.ready:
                first = lane.ready[0].message
                if (first.time_ns, first.wal_seq) == self._position.get(name):
                    lane.ready.popleft()
                    self._changed.notify_all()

    def _faulty(self) -> _Lane | None:
        """Find one that ended by a fault that was not raised yet, once all before it was given."""
        lanes = self._lanes.values()
        return next((each for each in lanes if each.fault is not None and not each.ready), None)

    def _is_over(self) -> bool:
        lanes = self._lanes.values()
        return all(lane.is_over and not lane.ready and lane.fault is None for lane in lanes)

    def _chosen(self) -> _Lane | None:
        """Find whose message is next, if its turn has come."""
        heads = [lane for lane in self._lanes.values() if lane.ready]
        if not heads:
            return None
        first = min(heads, key=lambda lane: lane.ready[0].message[:3])
        message, came_ns = first.ready[0]
        idle_ns = int(self._rules.idle_seconds * SECOND)
        is_old = (
            message.time_ns <= self._clock.wall_ns() - idle_ns
            or came_ns <= self._clock.monotonic_ns() - idle_ns
        )
        for lane in self._lanes.values():
            if not lane.ready and not lane.is_over and not (lane.is_idle and is_old):
                return None
        return first


class _Ready(NamedTuple):
    """A message before its turn, and the monotonic time at which it came."""

    message: ChainMessage
    came_ns: int


class _Lane:
    """One partition on its way to the cursor."""

    def __init__(self, changed: threading.Condition, clock: Clock) -> None:
        self._changed = changed
        self._clock = clock
        self.ready: deque[_Ready] = deque()
        """The first one may have been given already."""
        self.fault: QuiverError | None = None
        self.is_idle = self.is_over = self.is_stopped = False

    def start(self, asked: Followed) -> None:
        """Begin to read; raises CapacityError if there is no thread for it."""
        name = f"quiver-cursor {asked.partition}"
        try:
            threading.Thread(target=self._run, args=(asked,), name=name, daemon=True).start()
        except RuntimeError as error:
            raise CapacityError(
                f"there is no thread to read {asked.partition}: {error}",
                hint="the process has too many; one cursor reads each partition by one",
            ) from error

    def _run(self, asked: Followed) -> None:
        try:
            for found in follow(asked):
                with self._changed:
                    self._changed.wait_for(lambda: self.is_stopped or len(self.ready) < _AHEAD)
                    if self.is_stopped:
                        return
                    if isinstance(found, Silence):
                        self.is_idle = asked.live and found is Silence.IDLE
                    else:
                        self.is_idle = False
                        self.ready.append(_Ready(found, self._clock.monotonic_ns()))
                    self._changed.notify_all()
        except QuiverError as error:
            self.fault = error
        except BaseException as error:  # Else it would look like the end of the partition.
            text = f"reading {asked.partition} stopped in the midst: {error!r:.200}"
            self.fault = ClosedError(text, hint="make another one, from its position")
            raise
        finally:
            with self._changed:
                self.is_over = True
                self._changed.notify_all()
