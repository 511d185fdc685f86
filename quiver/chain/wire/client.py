"""A node that is reached over a wire, as the peer that it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, Final, TypeVar

from pyarrow import flight

from quiver.chain.peers import (
    Ack,
    BlockName,
    Damaged,
    Finished,
    Route,
    SilentError,
    Status,
    Stream,
    Tell,
)
from quiver.chain.sealing import Answer, Sealed
from quiver.chain.wire.bodies import taken
from quiver.chain.wire.first import opened
from quiver.chain.wire.flights import FLIGHT_ERRORS, as_quiver
from quiver.chain.wire.format import HOLDINGS_MAX, decode_message, encode_message
from quiver.chain.wire.leaving import calling, cancel_soon
from quiver.chain.wire.listening import listen
from quiver.chain.wire.messages import (
    Condemn,
    Condemned,
    Cut,
    DamagedAsked,
    Damages,
    Done,
    Drop,
    DropCondemned,
    Fence,
    Fetch,
    Finish,
    Frame,
    FrameKind,
    Message,
    Opened,
    Opening,
    Prepare,
    Read,
    Segment,
    Settle,
    StatusAsked,
    StatusBehind,
    TailAcks,
    Verify,
)
from quiver.chain.wire.outgoing import Outgoing
from quiver.chain.wire.owner import Owner
from quiver.chain.wire.settings import WireOptions
from quiver.chain.wire.watch import Watchdog
from quiver.clock import SystemClock
from quiver.errors import DamagedEntry, DamageError, QuiverError, RemoteError

__all__ = ["ACTION", "RemotePeer"]

ACTION: Final = "quiver"
"""Of all calls, and behind a stroke the node that is meant; what it is stands in its body."""

_CHANNEL: Final[list[tuple[str, int | str]]] = [
    ("grpc.use_local_subchannel_pool", 1),  # Else a new client waits out the old one's back-off.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.min_reconnect_backoff_ms", 1500),  # To connect may take so long: more than a stream.
]
_SOONER: Final = 0.875
"""So much sooner each node gives up on the next than the one before it does, who hears it then."""
_T = TypeVar("_T")


class RemotePeer:
    """A node over Arrow Flight. Safe for many threads; to be made after a fork, not before.

    ``locate`` gives ``HOST:PORT`` whenever a connection is made, since a node may come back at
    another address. An empty name takes whoever is there; with TLS a name has to stand in the
    node's certificate.
    """

    def __init__(
        self,
        name: str,
        locate: Callable[[], str],
        *,
        options: WireOptions | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        """Take a name and who knows the address; nobody is asked yet."""
        self._name = name
        self._locate = locate
        self._options = options or WireOptions()
        every = min(self._options.heartbeat, self._options.silence) / 2
        self._watchdog = watchdog or Watchdog(SystemClock(), every=every)
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._owner = Owner()

    @property
    def name(self) -> str:
        """The node's name in records."""
        return self._name

    def prepare(self, route: Route, layout: str) -> None:
        """Make room for a block, durably."""
        self.ask(Prepare(route, layout), Done, seconds=self._options.prompt)

    def stream(
        self,
        route: Route,
        *,
        acked: Callable[[Ack], None],
        broken: Callable[[QuiverError], None],
    ) -> Stream:
        """Open the stream of a block; returns when the node has opened it."""
        told = self._told
        stream = Outgoing(route, told, options=self._options, acked=acked, broken=broken)
        place = route.chain.index(self._name) if self._name in route.chain else 0
        seconds = self._options.prompt * _SOONER**place
        client = self._connect()
        try:
            # Over the connection that the stream will have: to begin on another one has no limit.
            opened = self._ask(client, Opening(route), Opened, seconds=seconds)
        except RemoteError as error:
            if not isinstance(error.__cause__, flight.FlightTimedOutError):
                raise
            raise SilentError(str(error), path=told, retryable=True) from error.__cause__
        calls = flight.FlightCallOptions(**self._calls)
        stream.begin(opened.stream, client, watchdog=self._watchdog, calls=calls)
        return stream

    def fence(self, block: BlockName, epoch: int) -> Answer:
        """Promise durably to let no smaller epoch in, and say what there is."""
        return self.ask(Fence(block, epoch), Answer, seconds=self._options.prompt)

    def cut(self, block: BlockName, sealed: Sealed) -> None:
        """Cut the copy to where the record says that the block ends."""
        self.ask(Cut(block, sealed), Done)

    def finish(self, block: BlockName) -> Finished:
        """Make the segment of a block that was cut."""
        return self.ask(Finish(block), Finished, seconds=self._options.copy_timeout)

    def settle(self, block: BlockName, finished: Finished) -> None:
        """Let go of the log: all locations have the finished segment."""
        self.ask(Settle(block, finished), Done, seconds=self._options.copy_timeout)

    def read(self, block: BlockName, offset: int, *, live: bool = False) -> Iterator[memoryview]:
        """Read whole entries from an offset on, some at a time."""
        limit = self._options.silence if live else self._options.timeout
        return self._pieces(Read(block, offset, live), offset, limit)

    def acks(
        self,
        block: BlockName,
        epoch: int,
        tell: Tell | None = None,  # noqa: ARG002 Whoever syncs is there, and this is here.
    ) -> Generator[Ack, None, None]:
        """Say what all locations of an open block have, as its tail."""
        named: dict[str, Any] = {"limit": self._options.silence, "watchdog": self._watchdog}
        calls = flight.FlightCallOptions(**self._calls)
        return listen(self._connect(), TailAcks(block, epoch), calls, node=self._told, **named)

    def segment(self, block: BlockName) -> Iterator[bytes]:
        """Read the finished segment, a piece at a time."""
        return map(bytes, self._pieces(Segment(block), 0, self._options.timeout))

    def fetch(self, block: BlockName, source: str, finished: Finished) -> None:
        """Copy a finished segment from another node."""
        seconds = self._options.copy_timeout
        self.ask(Fetch(block, source, finished), Done, seconds=seconds)

    def verify(self, block: BlockName) -> Finished:
        """Read a finished segment anew."""
        return self.ask(Verify(block), Finished, seconds=self._options.copy_timeout)

    def condemn(self, block: BlockName) -> int:
        """Give what a copy can be dropped with as long as nobody wants it again."""
        return self.ask(Condemn(block), Condemned).token

    def drop(self, block: BlockName, condemned: int = 0) -> None:
        """Delete what there is of a block."""
        self.ask(DropCondemned(block, condemned) if condemned else Drop(block), Done)

    def status(self) -> Status:
        """Say what there is."""
        found = page = self.ask(StatusAsked(), Status)
        holdings = list(found.holdings)
        while len(page.holdings) >= HOLDINGS_MAX:
            page = self.ask(StatusBehind(holdings[-1].name), Status)
            holdings += page.holdings
        return found._replace(holdings=tuple(holdings))

    def damaged(self) -> tuple[Damaged, ...]:
        """Say which copies are damaged; a thousand at most."""
        return self.ask(DamagedAsked(), Damages).copies

    def close(self) -> None:
        """Let go of the connection; the next call makes another one."""
        self._forget(self._client)

    # calls ---------------------------------------------------------------------------------------

    def ask(self, message: Message, kind: type[_T], *, seconds: float = 0.0) -> _T:
        """Ask for something, and give the answer, which is of this kind."""
        self._owner.check()
        client = self._kept()
        return self._ask(client, message, kind, seconds=seconds or self._options.timeout)

    def _ask(
        self, client: flight.FlightClient, message: Message, kind: type[_T], *, seconds: float
    ) -> _T:
        request = encode_message(message)
        options = flight.FlightCallOptions(timeout=seconds, **self._calls)
        try:
            action = flight.Action(f"{ACTION}/{self._name}" if self._name else ACTION, request)
            with calling():
                results = [each.body.to_pybytes() for each in client.do_action(action, options)]
        except FLIGHT_ERRORS as error:
            self._forget(client)
            raise as_quiver(error, self._told) from error
        try:
            answers = [decode_message(each) for each in results]
        except DamageError as error:
            raise error.at(self._told) from error
        if len(answers) != 1 or not isinstance(answers[0], kind):
            raise DamagedEntry(f"{self._told} answers something else", path=self._told)
        return answers[0]

    def _pieces(self, asked: Read | Segment, offset: int, limit: float) -> Iterator[memoryview]:
        """Read pieces until the frame that says that all was sent."""
        for frame, body in self._frames(asked, limit):
            if frame.offset != offset:
                raise DamagedEntry(
                    "a piece is of another place", expected=offset, found=frame.offset
                )
            if frame.kind is FrameKind.ACK:
                return
            offset += len(body)
            yield body
        text = f"{self._told} stopped in the middle"
        raise RemoteError(text, path=self._told, retryable=True)

    def _frames(self, asked: Read | Segment, limit: float) -> Iterator[tuple[Frame, memoryview]]:
        """Read frames until the other side ends; who stops sooner cancels the call."""
        client = self._connect()
        options = flight.FlightCallOptions(**self._calls)
        ticket = flight.Ticket(encode_message(asked))
        try:
            reader: Any = opened(lambda: client.do_get(ticket, options), limit)
        except FLIGHT_ERRORS as error:
            raise as_quiver(error, self._told) from error
        if reader is None:
            text = f"{self._told} was silent for {limit:g} seconds"
            raise RemoteError(text, path=self._told, retryable=True)
        watched = self._watchdog.watch(limit, partial(cancel_soon, reader))
        is_over = False
        in_flight = calling(reader.cancel)
        try:
            while True:
                with in_flight:
                    frame, body = taken(reader.read_chunk())
                if frame.number != asked.block.number:
                    raise DamagedEntry("a frame is of another block", found=frame.number)
                is_over = frame.kind is FrameKind.ACK
                with watched:  # While the caller works, nobody is to be heard.
                    yield frame, body
        except StopIteration:
            is_over = True
        except FLIGHT_ERRORS as error:
            raise as_quiver(error, self._told) from error
        finally:
            watched.stop()
            if not is_over:
                cancel_soon(reader)

    # connections ---------------------------------------------------------------------------------

    @property
    def _told(self) -> str:
        return self._name or "the node"

    @property
    def _calls(self) -> dict[str, Any]:
        token = self._options.token
        return {"headers": [(b"authorization", f"Bearer {token}".encode())]} if token else {}

    def _kept(self) -> flight.FlightClient:
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            return self._client

    def _forget(self, client: flight.FlightClient | None) -> None:
        with self._lock:
            if self._client is client:
                self._client = None

    def _connect(self) -> flight.FlightClient:
        self._owner.check()
        try:
            address = self._locate()
            with calling():
                return self._connected(address)
        except FLIGHT_ERRORS as error:  # Of an address that is none.
            raise as_quiver(error, self._told) from error

    def _connected(self, address: str) -> flight.FlightClient:
        tls = self._options.tls
        if tls is None:
            return flight.FlightClient(f"grpc+tcp://{address}", generic_options=_CHANNEL)
        named: dict[str, Any] = {"override_hostname": self._name} if self._name else {}
        if tls.certificate:
            named |= {"cert_chain": tls.certificate, "private_key": tls.key}
        if tls.ca:
            named["tls_root_certs"] = tls.ca
        return flight.FlightClient(f"grpc+tls://{address}", generic_options=_CHANNEL, **named)
