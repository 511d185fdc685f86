"""What tests of a wire share: a block, a patient wire, and who listens to a stream."""

from __future__ import annotations

import threading
from collections.abc import Callable

from quiver.chain.peers import Ack, BlockName, Entries, Peer, Route
from quiver.chain.wire import WireOptions
from quiver.errors import QuiverError

__all__ = ["BLOCK", "CALM", "PATIENCE", "ROUTE", "Told", "entries"]

BLOCK = BlockName("core_0", 3)
ROUTE = Route(BLOCK, 5, ("a",))
PATIENCE = 30.0
CALM = WireOptions(silence=PATIENCE, isolation=2 * PATIENCE, prompt=PATIENCE)
"""A machine that is busy for a second breaks nothing."""


class Told:
    """What a stream tells."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.acks: list[Ack] = []
        self.errors: list[QuiverError] = []

    def acked(self, ack: Ack) -> None:
        with self.changed:
            self.acks.append(ack)
            self.changed.notify_all()

    def broken(self, error: QuiverError) -> None:
        with self.changed:
            self.errors.append(error)
            self.changed.notify_all()

    def wait(self, until: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(until, PATIENCE)

    def open(self, peer: Peer, route: Route = ROUTE):
        return peer.stream(route, acked=self.acked, broken=self.broken)


def entries(offset: int, body: bytes = b"entry", *, epoch: int = 5) -> Entries:
    return Entries(epoch, offset, offset // len(body), memoryview(body))
