"""Silence, cut links, processes that stand still: what Flight itself does not notice."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from chain_wire_kit import BLOCK, CALM, PATIENCE, ROUTE, Told, entries
from memory_peer import MemoryPeer
from tcp_proxy import TcpProxy

from quiver.chain.peers import Route, SilentError
from quiver.chain.sealing import Sealed
from quiver.chain.wire import RemotePeer, Server, WireOptions
from quiver.chain.wire.outgoing import Outgoing
from quiver.chain.wire.watch import Watchdog
from quiver.errors import ClosedError, RemoteError
from quiver.testing.manual_clock import ManualClock

HASTY = WireOptions(heartbeat=0.02, silence=0.4, isolation=0.8, timeout=5.0)


@contextmanager
def behind_a_link(
    options: WireOptions = HASTY, *, server: WireOptions = HASTY
) -> Iterator[tuple[MemoryPeer, RemotePeer, TcpProxy]]:
    kept = MemoryPeer("a")
    with Server(kept, "127.0.0.1:0", options=server) as served, TcpProxy(served.address) as link:
        yield kept, RemotePeer("a", lambda: link.address, options=options), link


# the watchdog ------------------------------------------------------------------------------------


class Bark:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def test_who_is_silent_for_too_long_is_called_off_once():
    clock, first, second = ManualClock(), Bark(), Bark()
    dog = Watchdog(clock, every=0)
    watched = dog.watch(1.0, first)
    dog.watch(1.0, second)
    clock.step(0.9)
    watched.heard()
    dog.look()
    clock.step(0.2)
    dog.look()
    assert (first.times, second.times) == (0, 1)
    clock.step(9)
    dog.look()
    dog.look()
    assert (first.times, second.times) == (1, 1)


def test_nobody_is_called_off_while_one_is_busy_oneself_or_stopped_watching():
    clock, first, second = ManualClock(), Bark(), Bark()
    dog = Watchdog(clock, every=0)
    busy, stopped = dog.watch(1.0, first), dog.watch(1.0, second)
    stopped.stop()
    stopped.stop()
    with busy:
        clock.step(5)
        dog.look()
    dog.look()
    assert (first.times, second.times) == (0, 0)
    clock.step(1.1)
    dog.look()
    assert first.times == 1


def test_silence_is_looked_at_when_it_lasted_long_enough_and_not_somewhat_later():
    clock, bark = ManualClock(), Bark()
    dog = Watchdog(clock, every=60)
    watched = dog.watch(90, bark)
    assert dog.look() == 60
    clock.step(40)
    assert dog.look() == 50
    with watched:
        assert dog.look() == 60
    assert dog.look() == 60
    clock.step(89.99)
    assert dog.look() == pytest.approx(0.01)
    clock.step(0.011)
    assert dog.look() == 60
    assert bark.times == 1
    watched.stop()


def test_a_process_that_stood_still_blames_nobody():
    clock, bark = ManualClock(), Bark()
    dog = Watchdog(clock, every=60)
    watched = dog.watch(90, bark)
    clock.step(1000)
    dog.look()
    assert bark.times == 0
    clock.step(60)
    dog.look()
    clock.step(60)
    dog.look()
    assert bark.times == 1
    watched.stop()


# links -------------------------------------------------------------------------------------------


def test_heartbeats_keep_a_quiet_stream_alive():
    with behind_a_link() as (_, peer, _):
        told = Told()
        peer.prepare(ROUTE, "")
        stream = told.open(peer)
        quiet = threading.Event()
        assert not quiet.wait(1.0)  # More than twice as long as silence may last.
        stream.send(entries(0))
        told.wait(lambda: told.acks)
        assert not told.errors
        stream.close()


def test_a_cut_link_is_noticed_at_both_ends():
    with behind_a_link() as (kept, peer, link):
        told = Told()
        peer.prepare(ROUTE, "")
        stream = told.open(peer)
        stream.send(entries(0))
        told.wait(lambda: told.acks)
        link.cut()
        told.wait(lambda: told.errors)
        (error,) = told.errors
        assert isinstance(error, RemoteError)
        assert (error.retryable, error.path) == (True, "a")
        assert kept.streams[0].closed.wait(PATIENCE)
        with pytest.raises(RemoteError):
            stream.send(entries(5))
        link.heal()


@pytest.mark.parametrize("has_sent", [True, False], ids=["at work", "just opened"])
def test_a_link_that_is_cut_one_way_is_noticed_though_heartbeats_come_back(has_sent):
    with behind_a_link() as (_, peer, link):
        told = Told()
        peer.prepare(ROUTE, "")
        stream = told.open(peer)
        if has_sent:
            stream.send(entries(0))
            told.wait(lambda: told.acks)
        link.cut_there()
        stream.send(entries(5 * has_sent))
        told.wait(lambda: told.errors)
        assert isinstance(told.errors[0], SilentError)
        link.heal()


def test_a_node_that_does_not_open_in_time_is_given_up():
    options = WireOptions(heartbeat=0.02, silence=0.2, prompt=0.3)
    with behind_a_link(options) as (_, peer, link):
        peer.prepare(ROUTE, "")
        link.cut()
        with pytest.raises(SilentError) as caught:
            Told().open(peer)
        assert (caught.value.retryable, caught.value.path) == (True, "a")
        link.heal()


def test_a_link_that_is_cut_as_a_stream_begins_holds_up_nobody(monkeypatch):
    with behind_a_link() as (_, peer, link):
        begin = Outgoing.begin

        def cut(stream: Outgoing, *arguments, **named) -> None:
            link.cut()
            begin(stream, *arguments, **named)

        monkeypatch.setattr(Outgoing, "begin", cut)
        told = Told()
        peer.prepare(ROUTE, "")
        told.open(peer)  # It returns, and is watched.
        told.wait(lambda: told.errors)
        assert isinstance(told.errors[0], SilentError)
        link.heal()


def test_each_node_gives_up_on_the_next_before_it_is_given_up_itself(monkeypatch):
    limits = []

    def asked(peer: RemotePeer, *_: object, seconds: float) -> object:
        limits.append(seconds)
        raise RemoteError("it is enough to know how long this may take")

    monkeypatch.setattr(RemotePeer, "_ask", asked)
    chain = ("a", "b", "c")
    for name in chain:
        peer = RemotePeer(name, lambda: "nowhere:1", options=WireOptions(prompt=0.8))
        with pytest.raises(RemoteError):
            peer.stream(Route(BLOCK, 5, chain), acked=print, broken=print)
    assert limits[0] == 0.8
    assert limits == sorted(limits, reverse=True)
    assert len(set(limits)) == len(chain)


def test_a_call_through_a_cut_link_ends_in_time():
    options = WireOptions(timeout=0.3)
    with behind_a_link(options) as (_, peer, link):
        peer.status()
        link.cut()
        with pytest.raises(RemoteError) as caught:
            peer.status()
        assert caught.value.retryable
        link.heal()
        assert peer.status().name == "a"


def test_what_a_loader_waits_for_is_given_up_sooner_than_other_calls():
    with behind_a_link(WireOptions(prompt=0.3, timeout=PATIENCE)) as (_, peer, link):
        peer.prepare(ROUTE, "")
        link.cut()
        for call in (lambda: peer.fence(BLOCK, 2), lambda: peer.prepare(ROUTE, "")):
            begun = time.monotonic()
            with pytest.raises(RemoteError):
                call()
            assert time.monotonic() - begun < PATIENCE
        link.heal()


def test_a_reader_behind_a_cut_link_is_told():
    with behind_a_link() as (kept, peer, link):
        kept.prepare(ROUTE, "")
        kept.blocks[BLOCK].log += b"one"
        pieces = peer.read(BLOCK, 0, live=True)
        assert bytes(next(pieces)) == b"one"
        link.cut()
        with pytest.raises(RemoteError) as caught:
            list(pieces)
        assert caught.value.retryable
        link.heal()


def test_backpressure_is_no_silence():
    options = WireOptions(heartbeat=0.02, silence=0.3, window_bytes=20)
    with behind_a_link(options, server=options) as (kept, peer, _):
        told = Told()
        peer.prepare(ROUTE, "")
        stream = told.open(peer)
        kept.hold.clear()
        thread = threading.Thread(target=lambda: [stream.send(entries(n * 5)) for n in range(20)])
        thread.start()
        quiet = threading.Event()
        assert not quiet.wait(0.9)  # Three times as long as silence may last.
        assert not told.errors
        kept.hold.set()
        told.wait(lambda: told.acks and told.acks[-1].length == 100)
        thread.join()
        stream.close()


def test_an_isolated_tail_lets_readers_wait_no_longer_and_serves_what_it_has():
    with behind_a_link() as (_, peer, _):
        told = Told()
        peer.prepare(ROUTE, "")
        stream = told.open(peer)
        stream.send(entries(0))
        told.wait(lambda: told.acks)
        pieces = peer.read(BLOCK, 0, live=True)
        assert bytes(next(pieces)) == b"entry"
        stream.close()
        with pytest.raises(RemoteError, match="heard nothing") as caught:
            list(pieces)
        assert caught.value.retryable
        assert b"".join(peer.read(BLOCK, 0)) == b"entry"
        peer.cut(BLOCK, Sealed(5, 0, 0, 0, ("a",)))
        assert b"".join(peer.read(BLOCK, 0, live=True)) == b"entry"


def test_a_server_closes_though_a_link_is_cut():
    kept = MemoryPeer("a")
    server = Server(kept, "127.0.0.1:0", options=HASTY)
    with TcpProxy(server.address) as link:
        peer = RemotePeer("a", lambda: link.address, options=HASTY)
        told = Told()
        peer.prepare(ROUTE, "")
        told.open(peer)
        link.cut()
        server.close(seconds=0.5)
        told.wait(lambda: told.errors)


def _in_child(peer, answers) -> None:
    try:
        peer.status()
    except ClosedError as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_connection_that_came_by_fork_is_refused():
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    peer = RemotePeer("a", lambda: "127.0.0.1:1", options=CALM)  # Not used: no threads of gRPC.
    child = context.Process(target=_in_child, args=(peer, answers))
    child.start()
    child.join(PATIENCE)
    assert "connect after forking" in answers.get()


def test_streams_that_break_while_they_are_written_end_nothing_but_themselves():
    """Flight ends the process if one call is used both ways when its node goes away."""
    for _ in range(30):
        with behind_a_link() as (kept, peer, link):
            told = Told()
            peer.prepare(ROUTE, "")
            stream = told.open(peer)
            stream.send(entries(0, bytes(100_000)))
            kept.streams[0].broken(RemoteError("b is gone", path="b"))
            with suppress(RemoteError):  # It may have been told by then.
                stream.send(entries(100_000, bytes(100_000)))
            link.close()
            told.wait(lambda told=told: told.errors)
