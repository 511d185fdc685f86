"""Bundles of any partitions that are kept by nodes, in order of time, live or not.

Each partition is followed by a thread of its own. A message comes when no partition can have one
before it: each shows its next one, or has come to its end, or is idle. Of a live partition that is
idle nobody says up to when nothing will come; what is older than ``idle_seconds`` is given all the
same then. So messages of one partition always come in order, and those of several do unless one was
under way for longer than that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from quiver.chain.reading.following import Followed, follow
from quiver.chain.reading.message import ChainMessage, ChainPosition
from quiver.clock import Clock
from quiver.errors import ClosedError, InputError, QuiverError, WaitTimeoutError
from quiver.units import parse_duration

__all__ = ["ChainCursor", "CursorRules"]

_AHEAD: Final = 64
"""Messages that are kept of a partition before their turn."""
_TIME_MIN: Final = -(1 << 63)
_TIME_MAX: Final = (1 << 63) - 1
_TICK: Final = 0.05


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
        if self.idle_seconds < 0:
            raise InputError("idle_seconds is below 0")


class ChainCursor:
    """Made by ``Cluster.cursor``. Not safe for several threads at once."""

    def __init__(
        self,
        partitions: Sequence[str],
        followed: Callable[[str], Followed],
        *,
        rules: CursorRules,
        clock: Clock,
    ) -> None:
        """Begin to read; ``followed`` says how each partition is reached."""
        if not partitions or len(set(partitions)) != len(partitions):
            raise InputError("partitions: none, or one of them twice")
        self._partitions = tuple(partitions)
        self._followed = followed
        self._rules = rules
        self._clock = clock
        self._position = {name: ChainPosition(*at) for name, at in rules.position.items()}
        self._changed = threading.Condition()
        self._is_closed = False
        self._lanes: dict[str, _Lane] = {}
        self._begin()

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
            with self._changed:
                if self._chosen() is None and not self._is_over():
                    self._changed.wait(_TICK)

    def poll(self) -> ChainMessage | None:
        """Give the next message if its turn has come, and wait for nothing.

        Raises what keeps a partition from being read, once; the cursor goes on behind it then.
        """
        with self._changed:
            if self._is_closed:
                raise ClosedError("the cursor is closed", hint="make another one")
            for lane in self._lanes.values():
                if lane.fault is not None and not lane.ready:
                    fault, lane.fault = lane.fault, None
                    raise fault
            chosen = self._chosen()
            if chosen is None:
                return None
            message = chosen.ready.popleft()
            self._changed.notify_all()
        self._position[message.partition] = ChainPosition(message.time_ns, message.wal_seq)
        return message

    @property
    def is_at_end(self) -> bool:
        """Whether nothing will come any more."""
        with self._changed:
            return self._is_over()

    def reset(self, time_ns: int) -> None:
        """Jump to a time, forward or back: what comes next is of this time or later."""
        self._stop()
        self._rules = replace(self._rules, start_ns=time_ns)
        self._position = {}
        self._begin()

    def __iter__(self) -> Iterator[ChainMessage]:
        """Go through all messages; a live cursor has no end."""
        while (message := self.next()) is not None:
            yield message

    def close(self) -> None:
        """Stop to read; a second call does nothing."""
        self._stop()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        """Use it for the length of a block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # inside --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        for name in self._partitions:
            asked = replace(self._followed(name), after=self._position.get(name))
            asked = replace(
                asked,
                start_ns=self._rules.start_ns,
                end_ns=self._rules.end_ns,
                live=self._rules.live,
            )
            lane = _Lane(self._changed)
            self._lanes[name] = lane
            lane.start(asked)

    def _stop(self) -> None:
        with self._changed:
            lanes, self._lanes = list(self._lanes.values()), {}
            for lane in lanes:
                lane.is_stopped = True
            self._changed.notify_all()

    def _is_over(self) -> bool:
        lanes = self._lanes.values()
        return all(lane.is_over and not lane.ready and lane.fault is None for lane in lanes)

    def _chosen(self) -> _Lane | None:
        """Find whose message is next, if its turn has come."""
        heads = [lane for lane in self._lanes.values() if lane.ready]
        if not heads:
            return None
        first = min(heads, key=lambda lane: lane.ready[0][:3])
        old = self._clock.wall_ns() - int(self._rules.idle_seconds * 1e9)
        is_old = first.ready[0].time_ns <= old
        for lane in self._lanes.values():
            if not lane.ready and not lane.is_over and not (lane.is_idle and is_old):
                return None
        return first


class _Lane:
    """One partition on its way to the cursor."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self.ready: deque[ChainMessage] = deque()
        self.fault: QuiverError | None = None
        self.is_idle = self.is_over = self.is_stopped = False

    def start(self, asked: Followed) -> None:
        threading.Thread(
            target=self._run, args=(asked,), name=f"quiver-cursor {asked.partition}", daemon=True
        ).start()

    def _run(self, asked: Followed) -> None:
        try:
            for message in follow(asked):
                with self._changed:
                    self._changed.wait_for(lambda: self.is_stopped or len(self.ready) < _AHEAD)
                    if self.is_stopped:
                        return
                    self.is_idle = message is None and asked.live  # Else it cannot be read.
                    if message is not None:
                        self.ready.append(message)
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
