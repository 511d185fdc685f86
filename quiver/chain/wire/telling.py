"""Acks that a tail tells a loader: by whoever synced, or by a thread that is there for it.

To wake that thread takes as long as to write an ack. But whoever syncs may wait for nobody, and a
write waits for room once much was not read. So he writes where the loader has heard of all before,
and there is room for one more; the thread does the rest, and what is to be said now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from quiver.chain.peers import Ack, Peer, arrows_own
from quiver.chain.wire.bodies import SCHEMA
from quiver.chain.wire.flights import FLIGHT_ERRORS
from quiver.chain.wire.format import encode_frame
from quiver.chain.wire.leaving import calling
from quiver.chain.wire.messages import Frame, FrameKind, TailAcks

__all__ = ["Telling"]


class Telling:
    """One call of Flight on which acks go out; its writer is nobody's once ``run`` has returned."""

    def __init__(self, asked: TailAcks, writer: Any) -> None:  # noqa: ANN401
        self._asked = asked
        self._writer = writer
        self._turn = threading.Lock()
        self._is_over = False
        self._in_flight = calling()  # For one thread at a time, as the writer is.

    def run(self, peer: Peer, check: Callable[[], None]) -> None:
        """Tell until the block or its epoch ends; ``check`` raises once it is to end sooner."""
        block, epoch = self._asked
        try:
            with calling():
                self._writer.begin(SCHEMA)
            with closing(peer.acks(block, epoch, self.tell)) as acks:
                for ack in acks:
                    check()
                    with self._turn:
                        self._write(ack)
        finally:
            with self._turn:
                self._is_over = True

    def tell(self, ack: Ack) -> bool:
        """Write it, as ``Tell`` has it; False while the other thread writes, and once it is over.

        Why it failed is found out by the other thread.
        """
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if not self._is_over:
                self._write(ack)
        except FLIGHT_ERRORS:
            self._is_over = True
        finally:
            self._turn.release()
        return not self._is_over

    def _write(self, ack: Ack) -> None:
        block, epoch = self._asked
        head = encode_frame(Frame(FrameKind.ACK, block.number, epoch, *ack))
        with self._in_flight:
            self._writer.write_metadata(arrows_own(head))
