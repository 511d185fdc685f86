"""A node on the wire: any peer, served over Arrow Flight."""

from __future__ import annotations

import hmac
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Final, Self

import pyarrow as pa
from pyarrow import flight

from quiver.addresses import parse_address
from quiver.chain.metadata import Metadata
from quiver.chain.peers import BlockName, Peer, arrows_own
from quiver.chain.wire.answering import Desk
from quiver.chain.wire.bodies import SCHEMA, with_body
from quiver.chain.wire.client import ACTION
from quiver.chain.wire.flights import as_flight
from quiver.chain.wire.format import decode_message, encode_message
from quiver.chain.wire.messages import (
    Acks,
    Append,
    Cut,
    Drop,
    DropCondemned,
    Frame,
    FrameKind,
    Opened,
    Opening,
    Read,
    Segment,
    TailAcks,
)
from quiver.chain.wire.settings import WireOptions, check_listening
from quiver.chain.wire.streams import Streams
from quiver.chain.wire.telling import Telling
from quiver.clock import Clock, SystemClock
from quiver.errors import InputError, RemoteError

__all__ = ["Server"]

_PIECE_BYTES: Final = 1 << 20


class Server:
    """Serves a peer until it is closed. To be made after a fork, not before."""

    def __init__(
        self,
        peer: Peer,
        address: str,
        *,
        options: WireOptions | None = None,
        metadata: Metadata | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Listen on ``HOST:PORT``, port 0: any; with ``metadata`` clients reach that as well.

        Raises ConfigError for an address of other machines without TLS, and for certificates.
        """
        self._options = options or WireOptions()
        host, port = parse_address(address)
        check_listening(host, self._options.tls)
        self._host = host
        self._streams = Streams(peer, options=self._options, clock=clock or SystemClock())
        door = _Door(peer, Desk(peer, metadata), self._streams)
        self._flight = _listening(door, host, port, options=self._options)
        # What nobody closes ends with the process: Flight waits for all calls then, for ever.
        weakref.finalize(self, self._streams.end)

    @property
    def address(self) -> str:
        """Where it listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._flight.port}"

    def is_fed(self, block: BlockName) -> bool:
        """Whether a stream of a block comes in: a loader writes to it, or the node before does."""
        return self._streams.is_fed(block)

    def drain(self) -> int:
        """Let no streams and waiting readers in, and tell those who are; calls are answered yet.

        Gives how many streams were told.
        """
        return self._streams.end()

    def close(self, *, seconds: float = 2.0) -> None:
        """Tell all streams that it ends, and stop; waits no longer than this for those it told."""
        self._streams.end()
        waiter = threading.Thread(target=self._flight.shutdown, name="quiver-end", daemon=True)
        waiter.start()
        waiter.join(seconds)

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


class _Door:
    """What is done for each call."""

    def __init__(self, peer: Peer, desk: Desk, streams: Streams) -> None:
        self.peer = peer
        self._desk = desk
        self._streams = streams

    def exchange(self, descriptor: Any, reader: Any, writer: Any) -> None:  # noqa: ANN401
        """Take in what comes on a stream, or tell acks of a block."""
        asked = decode_message(descriptor.command or b"")
        match asked:
            case Append(stream):
                self._streams.feed(stream, reader)
            case TailAcks():
                Telling(asked, writer).run(self.peer, self._streams.check_open)
            case _:
                raise InputError("entries are sent on a stream that was opened")

    def read(self, ticket: bytes) -> Iterator[tuple[pa.RecordBatch, pa.Buffer]]:
        """Give frames: of entries, of a segment, or what comes back on a stream."""
        asked = decode_message(ticket)
        match asked:
            case Read(block, offset, live):
                pieces = self._entries(block, offset, live=live)
            case Segment(block):
                pieces = _cut_up(self.peer.segment(block))
                offset = 0
            case Acks(stream):
                for frame, body in self._streams.acks(stream):
                    yield with_body(frame, body)
                return
            case _:
                raise InputError("what is read is a block, its segment, or acks")
        for piece in pieces:
            kind = FrameKind.ENTRIES if piece else FrameKind.HEARTBEAT
            yield with_body(Frame(kind, block.number, 0, offset), piece)
            offset += len(piece)
        yield with_body(Frame(FrameKind.ACK, block.number, 0, offset))

    def _entries(self, block: BlockName, offset: int, *, live: bool) -> Iterator[memoryview]:
        for piece in self.peer.read(block, offset, live=live):
            if live:
                self._streams.check_heard(block)
            yield piece

    def act(self, body: bytes) -> bytes:
        """Answer a call."""
        asked = decode_message(body)
        if isinstance(asked, Opening):
            return encode_message(Opened(self._streams.open(asked.route)))
        answer = self._desk.answer(asked)
        if isinstance(asked, Cut | Drop | DropCondemned):
            self._streams.forget(asked.block)
        return encode_message(answer)


def _cut_up(data: Iterable[bytes]) -> Iterator[memoryview]:
    for whole in data:
        for at in range(0, len(whole), _PIECE_BYTES):
            yield memoryview(whole)[at : at + _PIECE_BYTES]


class _Flight(flight.FlightServerBase):
    """What Flight calls; each error leaves as one that the other side can read."""

    def __init__(self, door: _Door, location: str, **named: Any) -> None:  # noqa: ANN401
        self._door = door
        super().__init__(location, **named)

    def do_exchange(self, _context: Any, *way: Any) -> None:  # noqa: ANN401
        try:
            self._door.exchange(*way)
        except Exception as error:
            raise as_flight(error, self._door.peer.name) from error

    def do_get(self, _context: Any, ticket: Any) -> flight.FlightDataStream:  # noqa: ANN401
        return flight.GeneratorStream(SCHEMA, self._told(ticket.ticket))

    def _told(self, ticket: bytes) -> Iterator[Any]:
        try:
            yield from self._door.read(ticket)
        except Exception as error:
            raise as_flight(error, self._door.peer.name) from error

    def do_action(self, _context: Any, action: Any) -> list[Any]:  # noqa: ANN401
        try:
            _check_meant(action.type, self._door.peer.name)
            answer = self._door.act(action.body.to_pybytes())
        except Exception as error:
            raise as_flight(error, self._door.peer.name) from error
        return [flight.Result(arrows_own(answer))]

    def _refuse(self, *_: Any) -> Any:  # noqa: ANN401
        text = "a node of a chain is asked by actions, tickets, and streams both ways"
        raise as_flight(InputError(text), self._door.peer.name)

    do_put: Any = _refuse
    list_flights: Any = _refuse
    get_flight_info: Any = _refuse

    def list_actions(self, _context: Any) -> list[Any]:  # noqa: ANN401
        return [(ACTION, "a call between nodes of a chain")]


def _check_meant(action: str, name: str) -> None:
    """Raise RemoteError if a call is another node's, which was at this address before."""
    kind, _, meant = action.partition("/")
    if kind != ACTION:
        raise InputError(f"there is no action {action!r:.60}")
    if meant not in ("", name):
        raise RemoteError(
            f"{name} answers where {meant:.60} should be",
            path=meant[:60],
            retryable=True,
            hint="it took the address of a node that is gone",
        )


class _Token(flight.ServerMiddlewareFactory):
    """Lets in who has the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, _info: Any, headers: dict[str, list[Any]]) -> None:  # noqa: ANN401
        given = headers.get("authorization", [""])[0]
        found = given if isinstance(given, bytes) else str(given).encode()
        if not hmac.compare_digest(found, self._wanted):
            raise flight.FlightUnauthenticatedError("another token, or none")


def _listening(door: _Door, host: str, port: int, *, options: WireOptions) -> _Flight:
    named: dict[str, Any] = {}
    tls = options.tls
    if tls is not None:
        named["tls_certificates"] = [(tls.certificate, tls.key)]
        if tls.ca:
            named |= {"verify_client": True, "root_certificates": tls.ca}
    if options.token:
        named["middleware"] = {"token": _Token(options.token)}
    scheme = "grpc+tls" if tls is not None else "grpc+tcp"
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return _Flight(door, f"{scheme}://{place}", **named)
    except (pa.ArrowException, OSError) as error:
        said = str(error).partition("\n")[0]
        raise RemoteError(f"cannot listen on {place}: {said}", path=place) from error
