"""The streams that a node takes in, and which blocks it has heard of lately."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from quiver.chain.peers import BlockName, Peer, Route
from quiver.chain.wire.incoming import Incoming
from quiver.chain.wire.messages import Frame
from quiver.chain.wire.settings import WireOptions
from quiver.chain.wire.watch import Watchdog
from quiver.clock import Clock
from quiver.errors import MissingError, RemoteError
from quiver.units import SECOND

__all__ = ["Streams"]


class Streams:
    """Opened by a call, fed and answered by two more. Safe for many threads."""

    def __init__(self, peer: Peer, *, options: WireOptions, clock: Clock) -> None:
        self._peer = peer
        self._options = options
        every = min(options.heartbeat, options.silence) / 2
        self._watchdog = Watchdog(clock, every=every)
        self._lock = threading.Lock()
        self._begun = f"{peer.name}-{clock.wall_ns():x}"
        self._count = 0
        self._open: dict[str, Incoming] = {}
        self._last: dict[BlockName, Incoming] = {}
        self._is_ending = False

    def open(self, route: Route) -> str:
        """Open the stream of a block, and give its name."""
        self.check_open()
        stream = Incoming(route, self._peer.name, options=self._options)
        stream.open(self._peer, self._watchdog)
        with self._lock:
            self._count += 1
            name = f"{self._begun}-{self._count}"
            self._open = {each: kept for each, kept in self._open.items() if not kept.is_over}
            self._open[name] = stream
            self._last[route.block] = stream
            is_ending = self._is_ending
        if is_ending:  # Whoever ends did not see this one.
            stream.end(self._closing())
            self.check_open()
        return name

    def feed(self, name: str, reader: Any) -> None:  # noqa: ANN401
        """Take in what comes on a stream, until its end."""
        self._named(name).feed(reader)

    def acks(self, name: str) -> Iterator[tuple[Frame, bytes]]:
        """Give what goes back on a stream."""
        return self._named(name).acks()

    def forget(self, block: BlockName) -> None:
        """Forget when a block was last heard of: it is sealed, or gone."""
        with self._lock:
            self._last.pop(block, None)

    def check_heard(self, block: BlockName) -> None:
        """Raise if nobody has spoken of an open block for long: it may be sealed without us."""
        self.check_open()
        with self._lock:
            stream = self._last.get(block)
        if stream is None:
            return
        silent_ns = self._watchdog.now_ns() - stream.heard_ns
        if silent_ns > self._options.isolation * SECOND:
            raise RemoteError(
                f"{self._peer.name} has heard nothing of block {block.number} of "
                f"{block.partition} for {silent_ns / SECOND:.1f} seconds",
                path=self._peer.name,
                retryable=True,
                hint="it may be sealed elsewhere; read the partition's record",
            )

    def is_fed(self, block: BlockName) -> bool:
        """Whether somebody speaks of a block now."""
        with self._lock:
            stream = self._last.get(block)
        return stream is not None and not stream.is_over

    def check_open(self) -> None:
        """Raise if the node lets nobody in any more."""
        if self._is_ending:
            raise self._closing()

    def _closing(self) -> RemoteError:
        name = self._peer.name
        return RemoteError(f"{name} is closing", path=name, retryable=True)

    def end(self) -> int:
        """Let nobody in any more, and tell those who are; gives how many there were."""
        with self._lock:
            self._is_ending = True
            streams = [stream for stream in self._open.values() if not stream.is_over]
        for stream in streams:
            stream.end(self._closing())
        return len(streams)

    def _named(self, name: str) -> Incoming:
        with self._lock:
            stream = self._open.get(name)
        if stream is None:
            raise MissingError(f"{self._peer.name} has no stream {name!r:.80}", path=name)
        return stream
