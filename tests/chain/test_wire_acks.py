"""Acks over the wire: from the tail itself, and back from node to node."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from chain_wire_kit import BLOCK, CALM, PATIENCE, ROUTE, Told, entries
from memory_peer import MemoryPeer
from pyarrow import flight

from quiver.chain.peers import Ack, BlockName
from quiver.chain.sealing import Sealed
from quiver.chain.wire import RemotePeer, Server, WireOptions, incoming
from quiver.chain.wire import server as server_module
from quiver.chain.wire.incoming import Incoming
from quiver.chain.wire.messages import Frame, FrameKind
from quiver.chain.wire.watch import Watchdog
from quiver.clock import SystemClock
from quiver.errors import ClosedError, FencedError, InputError, MissingError, RemoteError


@pytest.fixture
def kept() -> MemoryPeer:
    return MemoryPeer("a")


@pytest.fixture
def server(kept: MemoryPeer) -> Iterator[Server]:
    with Server(kept, "127.0.0.1:0", options=CALM) as server:
        yield server


@pytest.fixture
def peer(server: Server) -> RemotePeer:
    return RemotePeer("a", lambda: server.address, options=CALM)


def test_a_tail_says_over_the_wire_what_all_have_and_for_how_long(kept, peer):
    kept.prepare(ROUTE, "")
    acks = peer.acks(BLOCK, ROUTE.epoch)
    assert next(acks) == Ack(0, -1)
    told = Told()
    stream = told.open(peer)
    stream.send(entries(0))
    assert next(ack for ack in acks if ack.length) == Ack(5, 0)
    kept.fence(BLOCK, ROUTE.epoch + 1)
    with pytest.raises(FencedError):
        list(acks)
    again = peer.acks(BLOCK, ROUTE.epoch + 1)
    assert next(again) == Ack(5, 0)
    kept.cut(BLOCK, Sealed(5, 0, 0, 0, ("a",)))
    assert set(again) <= {Ack(5, 0)}
    with pytest.raises(MissingError):
        next(peer.acks(BlockName("core_0", 4), ROUTE.epoch))


def test_an_ack_that_comes_behind_one_of_more_is_not_told():
    stream = Incoming(ROUTE, "a", options=CALM)
    told = stream.acks()
    next(told)
    stream._acked(Ack(9, 1))
    stream._acked(Ack(5, 0))
    frame, _ = next(told)
    assert (frame.kind, frame.offset, frame.last_seq) == (FrameKind.ACK, 9, 1)


def test_a_node_that_ends_says_no_more_acks(kept, server, peer):
    kept.prepare(ROUTE, "")
    acks = peer.acks(BLOCK, ROUTE.epoch)
    next(acks)
    server.drain()
    with pytest.raises(RemoteError, match="is closing"):
        list(acks)


@pytest.mark.parametrize("chain", [("a",), ("a", "b"), ("b", "a", "c"), ("b", "a")], ids=str)
def test_small_acks_wait_for_more_at_a_tail_that_is_not_alone(monkeypatch, chain):
    monkeypatch.setattr(incoming, "_LINGER_SECONDS", PATIENCE)
    sender = "" if chain[0] == "a" else "b"
    stream = Incoming(ROUTE._replace(sender=sender, chain=chain), "a", options=CALM)
    told = stream.acks()
    assert next(told)[0].kind is FrameKind.HEARTBEAT
    stream._acked(Ack(10, 1))
    if chain == ("b", "a"):
        more = threading.Thread(target=lambda: stream._acked(Ack(1 << 20, 2)))
        more.start()  # Until then nothing is told.
        assert next(told)[0].offset == 1 << 20
        more.join()
    else:
        assert next(told)[0].offset == 10
    stream._acked(Ack((1 << 20) + 10, 3))
    stream.end(RemoteError("it ends", path="a"))  # And what waits goes before that.
    assert [frame.kind for frame, _ in told] == [FrameKind.ACK, FrameKind.ERROR]


def test_acks_that_a_loader_has_heard_wait_until_a_heartbeat_is_due(monkeypatch):
    """And no longer: then it may be that they are the only ones."""
    monkeypatch.setattr(incoming, "_LINGER_SECONDS", 1e-6)
    options = WireOptions(heartbeat=PATIENCE, silence=PATIENCE)
    route = ROUTE._replace(sender="b", chain=("b", "a"))
    stream = Incoming(route, "a", options=options)
    stream._stream = Swallows()
    told = stream.acks()
    assert next(told)[0].kind is FrameKind.HEARTBEAT

    def comes(kind, number):
        head = Frame(kind, BLOCK.number, 5, 5 * number, number)
        stream._pass_on(head, memoryview(b"entry"))
        stream._acked(Ack(5 * number + 5, number))

    comes(FrameKind.NEXT, 0)

    def more():
        while not stream._lingers:
            pass
        comes(FrameKind.NEXT, 1)
        comes(FrameKind.ENTRIES, 2)

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(more)
        assert next(told)[0].offset == 15
        sending.result(PATIENCE)
    comes(FrameKind.ENTRIES, 3)
    assert next(told)[0].offset == 20
    stream._options = WireOptions(heartbeat=0.01, silence=PATIENCE)
    comes(FrameKind.NEXT, 4)
    assert next(told)[0].offset == 25


def test_a_loader_is_told_at_once_unless_more_that_it_sent_is_not_safe_yet(monkeypatch):
    monkeypatch.setattr(incoming, "_LOADERS_SECONDS", PATIENCE)
    stream = Incoming(ROUTE, "a", options=CALM)
    stream._stream = Swallows()
    told = stream.acks()
    assert next(told)[0].kind is FrameKind.HEARTBEAT
    body = memoryview(bytes(1 << 20))
    for number in range(4):
        stream._pass_on(Frame(FrameKind.ENTRIES, BLOCK.number, 5, number << 20, number), body)
    stream._acked(Ack(1 << 20, 0))
    more = threading.Thread(target=lambda: stream._acked(Ack(2 << 20, 1)))
    more.start()
    assert next(told)[0].offset == 2 << 20  # Not each of them.
    more.join()
    stream._acked(Ack(3 << 20, 2))
    more = threading.Thread(target=lambda: stream._acked(Ack(4 << 20, 3)))
    more.start()
    assert next(told)[0].offset == 4 << 20  # There is no more: of that it is told at once.
    more.join()


class Swallows:
    """A stream that takes all."""

    def __init__(self):
        self.assured = []

    def send(self, _):
        pass

    def assure(self, length):
        self.assured.append(length)

    def close(self):
        pass


def test_a_tail_that_falls_silent_is_not_waited_for(kept, server, monkeypatch):
    peer = RemotePeer("a", lambda: server.address, options=WireOptions(silence=0.2))
    may_end = threading.Event()

    def acks(_, block, epoch, tell):
        del block, epoch, tell
        yield Ack(5, 0)
        may_end.wait(PATIENCE)

    monkeypatch.setattr(MemoryPeer, "acks", acks)
    said = peer.acks(BLOCK, ROUTE.epoch)
    assert next(said) == Ack(5, 0)
    with pytest.raises(RemoteError):
        next(said)
    may_end.set()


class Breaking:
    """A writer that breaks, and notes how it was ended."""

    def __init__(self, writer):
        self.writer, self.closed_by = writer, []

    def write_metadata(self, _):
        raise flight.FlightInternalError("it breaks", "nothing more")

    def close(self):
        self.closed_by.append(threading.current_thread().name)
        self.writer.close()


def test_a_write_that_breaks_is_told_once_and_ends_the_stream(server, kept):
    peer = RemotePeer("a", lambda: server.address, options=WireOptions(silence=1.0))
    told = Told()
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    stream._writer = breaking = Breaking(stream._writer)
    stream.send(entries(0))  # It was handed on; what became of it comes by ``broken``.
    told.wait(lambda: told.errors)
    assert len(told.errors) == 1
    assert isinstance(told.errors[0], RemoteError)
    with pytest.raises(RemoteError):
        stream.send(entries(5))
    with stream._changed:
        assert stream._changed.wait_for(lambda: breaking.closed_by, PATIENCE) or breaking.closed_by
    assert breaking.closed_by == ["quiver-stream"]
    assert bytes(kept.blocks[BLOCK].log) == b""


def test_an_answer_that_never_begins_is_not_waited_for(kept, monkeypatch):
    """Flight gives no call before its first message, and nothing can be cancelled until then."""
    may_answer = threading.Event()

    def late(honest):
        def act(*given):
            may_answer.wait(PATIENCE)
            return honest(*given)

        return act

    for name in ("do_get", "do_exchange"):
        monkeypatch.setattr(server_module._Flight, name, late(getattr(server_module._Flight, name)))
    with Server(kept, "127.0.0.1:0", options=CALM) as server:
        peer = RemotePeer("a", lambda: server.address, options=WireOptions(silence=0.2))
        kept.prepare(ROUTE, "")
        with pytest.raises(RemoteError, match="silent"):
            next(peer.acks(BLOCK, ROUTE.epoch))
        told = Told()
        stream = told.open(peer)
        told.wait(lambda: told.errors)
        assert isinstance(told.errors[0], RemoteError)
        stream.close()
        may_answer.set()


def test_what_a_stream_led_to_is_not_kept_behind_its_end(kept):
    stream = Incoming(ROUTE, "a", options=CALM)
    kept.prepare(ROUTE, "")
    stream.open(kept, Watchdog(SystemClock(), every=0))
    passage = stream._stream
    stream._finish()
    assert stream._stream is not passage
    with pytest.raises(ClosedError):
        stream._stream.send(entries(0))


def test_the_word_of_the_node_before_is_handed_on_and_a_loader_has_none_to_give():
    for sender in ("b", ""):
        stream = Incoming(ROUTE._replace(sender=sender, chain=("b", "a")), "a", options=CALM)
        stream._stream = Swallows()
        frame = Frame(FrameKind.SURE, BLOCK.number, 5, 70)
        if sender:
            stream._pass_on(frame, memoryview(b""))
            assert stream._stream.assured == [70]
        else:
            with pytest.raises(InputError, match="sure was sent down"):
                stream._pass_on(frame, memoryview(b""))
