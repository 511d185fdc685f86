"""A moment without memory, threads, descriptors or room ends nothing that others count on."""

from __future__ import annotations

import errno
import gc
import threading
from contextlib import closing, suppress

import pytest
from chain_wire_kit import CALM, PATIENCE, ROUTE, Told, entries
from chain_world import World
from cluster_kit import STEADY, Nodes, running
from copies_kit import BLOCK, LAYOUT, RULES, append, sealed
from copies_kit import ROUTE as COPIED
from held_files import files_held
from memory_peer import MemoryPeer

import quiver.chain.copies.copy as copying
from quiver.chain.copies import Copies
from quiver.chain.peers import BlockName, Route
from quiver.chain.rolling.roll import Phase
from quiver.chain.serving import ServedNode, sync_with_records
from quiver.chain.turns import Turn
from quiver.chain.wire import RemotePeer, Server
from quiver.chain.wire.outgoing import Outgoing
from quiver.chain.wire.watch import Watchdog
from quiver.chain.workers import ThreadWorkers
from quiver.clock import SystemClock
from quiver.disk import LocalDisk
from quiver.errors import (
    CapacityError,
    ClosedError,
    InputError,
    MissingError,
    RemoteError,
    StorageError,
)


@pytest.fixture
def told(monkeypatch):
    """What threads say that went on behind an error."""
    found = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


def once(act, error=MemoryError):
    """Have an act fail the first time."""
    calls = []

    def first(*args):
        calls.append(args)
        if len(calls) == 1:
            raise error("for a moment")
        return act(*args)

    return first


# threads -----------------------------------------------------------------------------------------


def test_a_worker_works_on_behind_an_error_outside_of_its_work(monkeypatch, told):
    done = threading.Event()
    monkeypatch.setattr(Turn, "run", once(Turn.run))
    worker = ThreadWorkers().start("works", done.set)
    worker.wake()
    assert done.wait(PATIENCE)
    worker.end()
    assert [each.exc_type for each in told] == [MemoryError]


def test_a_stream_whose_acks_cannot_be_read_is_broken(monkeypatch):
    """And not written to for ever, by who waits for room that no ack makes."""
    kept = MemoryPeer("a")
    monkeypatch.setattr(Outgoing, "_take", once(Outgoing._take))
    with Server(kept, "127.0.0.1:0", options=CALM) as server:
        peer = RemotePeer("a", lambda: server.address, options=CALM)
        peer.prepare(ROUTE, "layout")
        listener = Told()
        stream = listener.open(peer)
        with suppress(RemoteError):
            stream.send(entries(0))
        listener.wait(lambda: listener.errors)
        assert "reading of acks of a stopped: MemoryError" in str(listener.errors[0])


def test_who_is_told_that_a_stream_broke_is_told_though_it_cannot_be_called_off(monkeypatch):
    kept = MemoryPeer("a")

    def no_thread(_):
        raise RuntimeError("can't start new thread")

    with Server(kept, "127.0.0.1:0", options=CALM) as server:
        peer = RemotePeer("a", lambda: server.address, options=CALM)
        peer.prepare(ROUTE, "layout")
        listener = Told()
        stream = listener.open(peer)
        with monkeypatch.context() as patch:
            patch.setattr("quiver.chain.wire.outgoing.cancel_soon", no_thread)
            with pytest.raises(RuntimeError):
                stream._break(RemoteError("it broke"))
        assert [str(error) for error in listener.errors] == ["it broke"]
        stream._cancel()


def test_a_watchdog_looks_on_behind_an_error(monkeypatch, told):
    dog = Watchdog(SystemClock(), every=0.01)
    monkeypatch.setattr(dog, "look", once(dog.look))
    called = threading.Event()
    dog.watch(0.05, called.set)
    assert called.wait(PATIENCE)
    assert [each.exc_type for each in told] == [MemoryError]


# a closed shelf ----------------------------------------------------------------------------------


def test_r42_what_comes_behind_the_end_of_a_node_changes_nothing(tmp_path):
    """Another one may have its folder by then; and what is made anew has no entries."""
    shelf = Copies(LocalDisk(tmp_path), RULES)
    shelf.prepare(COPIED, LAYOUT)
    append(shelf, 0, 1, 2)
    shelf.close()
    for late in (
        lambda: shelf.prepare(COPIED, LAYOUT),
        lambda: shelf.drop(BLOCK),
        lambda: shelf[BLOCK],
    ):
        with pytest.raises(ClosedError):
            late()
    again = Copies(LocalDisk(tmp_path), RULES)
    assert again[BLOCK].holding.length
    assert again[BLOCK].fence(9).last_seq == 2
    again.close()


def test_a_segment_that_is_made_behind_the_end_of_a_node_is_nobodys(tmp_path, monkeypatch):
    shelf = Copies(LocalDisk(tmp_path), RULES)
    shelf.prepare(COPIED, LAYOUT)
    append(shelf, 1, 2, 3)
    sealed(shelf, 1, 2, 3)
    honest, copy = copying.make_segment, shelf[BLOCK]

    def late(*args):
        monkeypatch.setattr(copying, "make_segment", honest)
        segment = honest(*args)
        shelf.close()
        with closing(Copies(LocalDisk(tmp_path), RULES)) as other:
            other[BLOCK].settle(other[BLOCK].finish())
        return segment

    monkeypatch.setattr(copying, "make_segment", late)
    with pytest.raises(ClosedError):
        copy.finish()
    with closing(Copies(LocalDisk(tmp_path), RULES)) as other:
        assert not other.damaged
        assert other[BLOCK].holding.finished


# metadata ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [StorageError, CapacityError])
@pytest.mark.parametrize("act", ["get", "cas"])
def test_a_loader_waits_for_metadata_whose_disk_refuses(error, act, monkeypatch):
    world = World(3, nodes=3, rf=2)
    loader = world.loader()
    assert world.run(lambda: loader.record is not None)
    for _ in range(5):
        world.send(loader)
    assert world.run(lambda: loader.acked_seq == 4)
    gone = loader.record.open.locations if act == "get" else loader.record.open.locations[:1]
    for name in gone:
        world.machines[name].die()
    if act == "get":
        phase = Phase.FENCING
        assert world.run(lambda: loader._driver._roll.phase is phase, turns=20_000)

    def refuse(*_):
        raise error("the disk of the metadata refuses")

    with monkeypatch.context() as patch:
        patch.setattr(world.metadata, act, refuse)
        world.run(lambda: loader._driver.fault is not None, turns=2_000)
    world.heal()
    world.send(loader)
    assert world.run(lambda: loader.acked_seq == 5, turns=20_000)
    assert loader._driver.fault is None


def test_a_node_that_ends_asks_for_no_more_records():
    world = World(4, nodes=2, rf=2)
    node = world.machines["a"].node
    for number in range(5):
        node.prepare(Route(BlockName(f"p{number}", 0), 1, ("a",)), LAYOUT)
    asked = []

    def away(key):
        asked.append(key)
        raise RemoteError("the metadata are away", retryable=True)

    world.metadata.get = away
    faults = sync_with_records(node, world.metadata, world.clock, is_over=lambda: len(asked) == 2)
    assert len(faults) == len(asked) == 2


# what cannot begin -------------------------------------------------------------------------------


@pytest.mark.parametrize("thread", ["quiver-sync", "quiver-scrub", "quiver-beat"])
def test_a_node_without_a_thread_lets_go_of_its_folder(tmp_path, monkeypatch, thread):
    real = threading.Thread.start

    def start(self):
        if self.name == thread:
            raise RuntimeError("can't start new thread")
        real(self)

    nodes = Nodes(tmp_path, STEADY)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="new thread"), made(nodes, "a") as node:
            node.start()
    with made(nodes, "a") as node:
        node.start()


def made(nodes, name, **more):
    return ServedNode(
        LocalDisk(str(nodes.folder / name), create=True),
        nodes.metadata,
        name,
        listen="127.0.0.1:0",
        room=lambda: (1 << 40, 1 << 41),
        clock=SystemClock(),
        options=STEADY,
        **more,
    )


@pytest.mark.parametrize("wrong", [{"capacity": -1}, {"host": "x" * 301}])
def test_a_node_that_cannot_be_made_lets_go_of_its_folder(tmp_path, wrong):
    nodes = Nodes(tmp_path, STEADY)
    with pytest.raises(InputError) as kept:
        made(nodes, "a", **wrong)
    made(nodes, "a").close()
    assert kept.value


def test_a_shelf_that_cannot_be_opened_keeps_no_file_open(tmp_path, monkeypatch):
    shelf = Copies(LocalDisk(tmp_path), RULES)
    for number in range(5):
        shelf.prepare(Route(BlockName("p", number), 1, ("a", "b")), LAYOUT)
    shelf.close()
    disk = LocalDisk(tmp_path)
    before = files_held(tmp_path)
    real = copying.BlockCopy.cut_again
    count = []

    def fail(self):
        count.append(1)
        if len(count) == 4:
            raise StorageError("too many open files", errno=errno.EMFILE)
        real(self)

    monkeypatch.setattr(copying.BlockCopy, "cut_again", fail)
    with pytest.raises(StorageError):
        Copies(disk, RULES)
    gc.collect()  # The one that was being opened is held by the error's calls alone.
    assert files_held(tmp_path) == before


def test_a_loader_that_cannot_be_made_leaves_no_thread(tmp_path, monkeypatch):
    with running(tmp_path, "a") as nodes, nodes.cluster() as cluster:
        before = set(threading.enumerate())

        def no_thread(*_):
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(ThreadWorkers, "spawn", no_thread)
            with pytest.raises(RuntimeError):
                cluster.loader("core_0", ["events"])
        gc.collect()
        for each in set(threading.enumerate()) - before:
            if each.name.startswith("quiver loader"):
                each.join(PATIENCE)
                assert not each.is_alive()
        with pytest.raises(MissingError):
            nodes.metadata.get("core_0/record")
