"""Listens to the last node of a chain, which tells what all have.

By a call both ways, of which only what comes back is used: so the node has a writer that any of its
threads may use, and not a generator that one thread goes through.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from typing import Any

from pyarrow import flight

from quiver.chain.peers import Ack
from quiver.chain.wire.bodies import sent
from quiver.chain.wire.first import opened
from quiver.chain.wire.flights import FLIGHT_ERRORS, as_quiver
from quiver.chain.wire.format import encode_message
from quiver.chain.wire.leaving import calling, cancel_soon
from quiver.chain.wire.messages import FrameKind, TailAcks
from quiver.chain.wire.watch import Watchdog
from quiver.errors import DamagedEntry, RemoteError

__all__ = ["listen"]


class _Call:
    """A call both ways that only one side speaks on."""

    def __init__(self, writer: Any, reader: Any) -> None:  # noqa: ANN401
        self.read_chunk = reader.read_chunk
        self._cancel = reader.cancel
        self._writer = writer
        self.is_silent = False

    def fall_silent(self) -> None:
        """Cancel it, for nothing came."""
        self.is_silent = True
        cancel_soon(self)

    def cancel(self) -> None:
        """Have whoever reads come back."""
        self._cancel()

    def end(self) -> None:
        """Let go of it: a writer that was not closed waits for its node when it goes."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._cancel()
            with suppress(*FLIGHT_ERRORS):  # Of what it was cancelled for.
                writer.close()


def listen(
    client: flight.FlightClient,
    asked: TailAcks,
    calls: flight.FlightCallOptions,
    *,
    node: str,
    limit: float,
    watchdog: Watchdog,
) -> Generator[Ack, None, None]:
    """Give acks until the other side ends, or says nothing for ``limit`` seconds."""
    way = flight.FlightDescriptor.for_command(encode_message(asked))
    try:
        call = opened(lambda: _Call(*client.do_exchange(way, calls)), limit)
    except FLIGHT_ERRORS as error:
        raise as_quiver(error, node) from error
    silent = f"{node} was silent for {limit:g} seconds"
    if call is None:
        raise RemoteError(silent, path=node, retryable=True)
    watched = watchdog.watch(limit, call.fall_silent)
    try:
        with calling(call.cancel):  # All of it: also to let go of it, behind a read that ended.
            try:
                while True:
                    frame, _ = sent(call.read_chunk())
                    if frame.kind is not FrameKind.ACK or frame.number != asked.block.number:
                        raise DamagedEntry(f"{node} says something else than acks", path=node)
                    with watched:  # While the caller works, nobody is to be heard.
                        yield Ack(frame.offset, frame.last_seq)
            except StopIteration:
                return
            except FLIGHT_ERRORS as error:
                if call.is_silent:
                    raise RemoteError(silent, path=node, retryable=True) from error
                raise as_quiver(error, node) from error
            finally:
                call.end()
    finally:
        watched.stop()
        call.end()  # Of a process that ends just now, which let nobody in.
