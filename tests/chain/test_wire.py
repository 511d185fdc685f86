"""A node over the wire is the node that it is: streams, calls, reading, and what breaks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pytest
from chain_wire_kit import BLOCK, CALM, PATIENCE, ROUTE, Told, entries
from memory_peer import MemoryPeer
from pyarrow import flight

from quiver.chain.peers import Ack, BlockName, Entries, Finished
from quiver.chain.sealing import Answer, Sealed
from quiver.chain.wire import RemotePeer, Server, WireOptions
from quiver.errors import (
    CapacityError,
    ClosedError,
    ConfigError,
    DamagedEntry,
    FencedError,
    InputError,
    MissingError,
    RemoteError,
)


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


# streams -----------------------------------------------------------------------------------------


def test_entries_arrive_in_order_and_acks_are_cumulative(kept, peer):
    told = Told()
    peer.prepare(ROUTE, "layout")
    assert kept.blocks[BLOCK].layout == "layout"
    stream = told.open(peer)
    bodies = [bytes([number]) * (number % 7 + 1) for number in range(200)]
    offset = 0
    for number, body in enumerate(bodies):
        stream.send(Entries(5, offset, number, memoryview(body)))
        offset += len(body)
    told.wait(lambda: told.acks and told.acks[-1] == Ack(offset, 199))
    stream.close()
    assert bytes(kept.blocks[BLOCK].log) == b"".join(bodies)
    assert told.acks == sorted(told.acks)
    assert not told.errors
    assert kept.streams[0].closed.wait(PATIENCE)


def test_entries_that_wait_go_as_one_frame(kept, peer):
    told = Told()
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    kept.hold.clear()
    for number in range(2000):
        stream.send(entries(number * 1000, bytes(1000)))
    kept.hold.set()
    told.wait(lambda: told.acks and told.acks[-1].length == 2_000_000)
    stream.close()
    alone = kept.sizes.count(1000)
    assert alone < 300  # While little is under way nothing waits for more.
    assert len(kept.sizes) - alone < 100
    assert max(kept.sizes) > 1 << 18
    assert max(kept.sizes) <= 1 << 20


def test_no_more_than_a_window_is_under_way_and_an_entry_larger_than_it_goes_alone(kept, server):
    options = WireOptions(silence=PATIENCE, window_bytes=1000)
    peer = RemotePeer("a", lambda: server.address, options=options)
    told = Told()
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    kept.hold.clear()
    stream.send(entries(0, bytes(5000)))
    passed = threading.Event()

    def send() -> None:
        stream.send(entries(5000, bytes(10)))
        passed.set()

    thread = threading.Thread(target=send)
    thread.start()
    assert not passed.is_set()
    assert not told.acks
    kept.hold.set()
    assert passed.wait(PATIENCE)
    told.wait(lambda: told.acks and told.acks[-1].length == 5010)
    stream.close()
    thread.join()


def test_r24_entries_flow_from_each_node_to_the_next_one_alone(server, kept):
    last = MemoryPeer("c")
    with Server(last, "127.0.0.1:0", options=CALM) as end:
        middle = MemoryPeer("b", lambda _: RemotePeer("c", lambda: end.address, options=CALM))
        with Server(middle, "127.0.0.1:0", options=CALM) as second:
            kept.peers = lambda _: RemotePeer("b", lambda: second.address, options=CALM)
            first = RemotePeer("a", lambda: server.address, options=CALM)
            route = ROUTE._replace(chain=("a", "b", "c"))
            for each in (kept, middle, last):
                each.prepare(route, "")
            told = Told()
            stream = told.open(first, route)
            for number in range(50):
                stream.send(entries(number * 5))
            told.wait(lambda: told.acks and told.acks[-1].length == 250)
            logs = {bytes(each.blocks[BLOCK].log) for each in (kept, middle, last)}
            assert logs == {b"entry" * 50}
            assert [len(each.streams) for each in (kept, middle, last)] == [1, 1, 1]
            stream.close()
            assert last.streams[0].closed.wait(PATIENCE)


def test_r23_whoever_is_not_the_first_refuses_a_loader_and_names_the_first(peer):
    route = ROUTE._replace(chain=("z", "a"))
    peer.prepare(route, "")
    with pytest.raises(InputError, match="z is"):
        Told().open(peer, route)


def test_an_unknown_block_is_not_opened(peer):
    with pytest.raises(MissingError):
        Told().open(peer)


def test_a_fence_ends_the_stream_and_says_which_epoch_holds(peer):
    told = Told()
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    stream.send(entries(0))
    told.wait(lambda: told.acks)
    assert peer.fence(BLOCK, 9) == Answer("a", 5, 0, 0, 9)
    stream.send(entries(5))
    told.wait(lambda: told.errors)
    (error,) = told.errors
    assert isinstance(error, FencedError)
    assert (error.epoch, error.current) == (5, 9)
    with pytest.raises(FencedError):
        stream.send(entries(10))


def test_r6_what_is_written_in_the_middle_is_refused_at_both_ends(peer):
    told = Told()
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    stream.send(entries(0))
    with pytest.raises(InputError):
        stream.send(entries(0))
    told.wait(lambda: told.acks)
    stream.close()
    again = Told()
    second = again.open(peer)
    second.send(entries(0))
    again.wait(lambda: again.errors)
    assert isinstance(again.errors[0], InputError)


def test_a_node_behind_that_breaks_is_named(server, kept):
    broken = RemoteError("node-b is gone", path="b", retryable=True)
    told = Told()
    peer = RemotePeer("a", lambda: server.address, options=CALM)
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    kept.streams[0].broken(broken)
    told.wait(lambda: told.errors)
    assert (told.errors[0].path, told.errors[0].retryable) == ("b", True)
    stream.close()


def test_a_node_that_closes_says_so(kept):
    server = Server(kept, "127.0.0.1:0", options=CALM)
    peer = RemotePeer("a", lambda: server.address, options=CALM)
    told = Told()
    peer.prepare(ROUTE, "")
    told.open(peer)
    server.close(seconds=PATIENCE)
    told.wait(lambda: told.errors)
    assert told.errors[0].retryable
    with pytest.raises(RemoteError) as caught:
        peer.status()
    assert (caught.value.retryable, caught.value.path) == (True, "a")


def test_a_closed_stream_tells_nothing_and_takes_nothing(kept, peer):
    told = Told()
    peer.prepare(ROUTE, "")
    stream = told.open(peer)
    stream.close()
    stream.close()
    with pytest.raises(ClosedError):
        stream.send(entries(0))
    assert kept.streams[0].closed.wait(PATIENCE)
    assert not told.errors


# calls and reading -------------------------------------------------------------------------------


def test_calls_reach_the_node_and_answers_come_back(kept, peer):
    kept.prepare(ROUTE, "")
    kept.blocks[BLOCK].log += b"entryentry"
    sealed = Sealed(5, 0, 1, 2, ("a",))
    peer.cut(BLOCK, sealed)
    assert kept.blocks[BLOCK].sealed == sealed
    made = peer.finish(BLOCK)
    assert made == Finished(1, b"d" * 32, 5)
    peer.settle(BLOCK, made)
    assert b"".join(peer.segment(BLOCK)) == b"entry"
    assert peer.status() == kept.status()
    other = MemoryPeer("b")
    kept.peers = {"b": other}.__getitem__
    other.prepare(ROUTE, "")
    peer.drop(BLOCK)
    assert not kept.blocks
    peer.fetch(BLOCK, "b", made)
    assert kept.blocks[BLOCK].finished == made


def test_errors_of_a_node_are_raised_as_what_they_are(kept, peer):
    def raising(error: Exception) -> Callable[..., object]:
        def act(*_: object) -> object:
            raise error

        return act

    for error, wanted in (
        (CapacityError("full", hint="wait"), CapacityError),
        (DamagedEntry("bad", path="x", offset=7), DamagedEntry),
        (MissingError("no", path="x"), MissingError),
        (ClosedError("over"), RemoteError),
        (OSError(28, "no space"), RemoteError),
        (KeyError("a bug"), RemoteError),
    ):
        kept.fence = raising(error)
        with pytest.raises(wanted) as caught:
            peer.fence(BLOCK, 9)
        assert type(caught.value) is wanted
        assert caught.value.hint == getattr(error, "hint", "")
        assert caught.value.retryable == isinstance(error, CapacityError | ClosedError)


def test_a_block_is_read_from_an_offset_on(kept, peer):
    kept.prepare(ROUTE, "")
    kept.blocks[BLOCK].log += bytes(range(256)) * 20_000
    found = b"".join(peer.read(BLOCK, 1_000))
    assert found == bytes(kept.blocks[BLOCK].log[1_000:])
    assert list(peer.read(BLOCK, len(kept.blocks[BLOCK].log))) == []
    with pytest.raises(MissingError):
        next(peer.read(BlockName("core_0", 4), 0))


def test_live_reading_waits_until_the_block_is_cut(kept, peer):
    kept.prepare(ROUTE, "")
    kept.blocks[BLOCK].log += b"one"
    pieces = peer.read(BLOCK, 0, live=True)
    assert bytes(next(pieces)) == b"one"
    assert bytes(next(pieces)) == b""
    with kept.changed:
        kept.blocks[BLOCK].log += b"two"
    assert b"".join(next(pieces) for _ in range(50)) in (b"two", b"")
    kept.cut(BLOCK, Sealed(6, 1, 0, 0, ("a",)))
    assert all(bytes(piece) in (b"", b"two") for piece in pieces)


def test_a_reader_that_goes_away_frees_the_node(kept, peer):
    kept.prepare(ROUTE, "")
    kept.blocks[BLOCK].log += bytes(5_000_000)
    pieces = peer.read(BLOCK, 0, live=True)
    next(pieces)
    pieces.close()
    assert peer.status().name == "a"


# reaching a node ---------------------------------------------------------------------------------


def test_a_node_that_is_not_there_is_a_remote_error_that_may_be_tried_again(kept):
    places = ["127.0.0.1:1"]
    peer = RemotePeer("a", lambda: places[-1], options=CALM)
    for act in (
        peer.status,
        lambda: Told().open(peer),
        lambda: list(peer.read(BLOCK, 0)),
    ):
        with pytest.raises(RemoteError) as caught:
            act()
        assert (caught.value.retryable, caught.value.path) == (True, "a")
    with Server(kept, "127.0.0.1:0", options=CALM) as server:
        places.append(server.address)
        assert peer.status().name == "a"


def test_a_node_that_comes_back_elsewhere_is_found(kept):
    places = []
    peer = RemotePeer("a", lambda: places[-1], options=CALM)
    for _ in range(3):
        with Server(kept, "127.0.0.1:0", options=CALM) as server:
            places.append(server.address)
            with pytest.raises(RemoteError) if len(places) > 1 else _nothing():
                peer.status()
            assert peer.status().name == "a"


def _nothing():
    from contextlib import nullcontext

    return nullcontext()


def test_another_node_at_the_address_of_one_answers_nothing_for_it(kept, server):
    kept.prepare(ROUTE, "layout")
    moved = RemotePeer("b", lambda: server.address, options=CALM)
    for call in (moved.status, lambda: moved.drop(BLOCK), lambda: moved.fence(BLOCK, 9)):
        with pytest.raises(RemoteError, match="a answers where b should be") as caught:
            call()
        assert caught.value.retryable
    assert BLOCK in kept.blocks
    assert RemotePeer("", lambda: server.address, options=CALM).status().name == "a"


def test_no_address_of_other_machines_without_tls(kept):
    for address in ("0.0.0.0:0", "example.org:0", "[::]:0"):
        with pytest.raises(ConfigError, match="no TLS") as caught:
            Server(kept, address)
        assert "127.0.0.1" in caught.value.hint


def _put(client, asked):
    writer, acks = client.do_put(asked, pa.schema([]))
    acks.read()
    writer.close()


def test_other_calls_of_flight_are_refused_in_words(server):
    client = flight.connect(f"grpc://{server.address}")
    asked = flight.FlightDescriptor.for_command(b"x")
    acts = [
        lambda: list(client.list_flights()),
        lambda: client.get_flight_info(asked),
        partial(_put, client, asked),
    ]
    for act in acts:
        with pytest.raises(flight.FlightError, match="is asked by actions") as caught:
            act()
        assert "Traceback" not in str(caught.value)


def test_a_token_opens_what_nothing_else_does(kept):
    options = WireOptions(silence=PATIENCE, token="s3cret")
    with Server(kept, "127.0.0.1:0", options=options) as server:
        assert RemotePeer("a", lambda: server.address, options=options).status().name == "a"
        for token in ("", "other"):
            wrong = WireOptions(silence=PATIENCE, token=token)
            peer = RemotePeer("a", lambda: server.address, options=wrong)
            for act in (peer.status, lambda p=peer: list(p.read(BLOCK, 0))):
                with pytest.raises(RemoteError) as caught:
                    act()
                assert not caught.value.retryable
                assert "token" in caught.value.message
    assert "s3cret" not in repr(options)


def test_a_port_that_is_taken_is_named(kept, server):
    with pytest.raises(RemoteError, match=server.address):
        Server(kept, server.address)
