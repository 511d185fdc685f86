"""What goes into the open block: by which stream, and how far the block is."""

from __future__ import annotations

from collections.abc import Sequence

from quiver.chain.loading.outbox import Waiting
from quiver.chain.peers import Entries, Route, Stream, arrows_own

__all__ = ["Flow"]


class Flow:
    """Entries into one block after the other. Not safe for threads."""

    def __init__(self) -> None:
        """Go nowhere."""
        self.turn = 0
        """The how manieth block it is: what is told of another one is too late."""
        self.stream: Stream | None = None
        """None until it is open, and once it broke."""
        self.route: Route | None = None
        """None once nothing more may go into this block."""
        self.length = 0
        self.last: Waiting | None = None
        """What was sent last; None while the block is empty."""
        self.told = (0, 0)
        """Up to where the last node itself said that all is safe, and of which block."""

    def end(self) -> None:
        """Leave the block."""
        self.close()
        self.length, self.last = 0, None

    def begin(self, route: Route) -> None:
        """Go on in a new one, by a stream that is yet to be opened."""
        self.route = route
        self.turn += 1

    def close(self) -> None:
        """Close the stream, if there is one."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()

    def send(self, frame: Sequence[Waiting], stream: Stream, route: Route) -> None:
        """Send some as one frame; raises what broke the stream."""
        last = self.last = frame[-1]
        body = last.body if len(frame) == 1 else arrows_own(*(each.body for each in frame))
        whole = memoryview(body).cast("B")
        has_heard = len(frame) == 1 and self.told == (self.turn, self.length)
        entries = Entries(
            route.epoch, self.length, last.wal_seq, whole, own=body, has_heard=has_heard
        )
        self.length += len(body)
        stream.send(entries)
