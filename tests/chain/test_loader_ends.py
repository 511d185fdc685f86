"""Loaders that end in the midst of it: by a fork, by a stop, by metadata that refuse."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from chain_oracle import check_partition
from chain_world import World

from quiver.chain.loading import LoaderRules
from quiver.chain.loading.driver import Driver
from quiver.chain.loading.happenings import Opened, Wanted
from quiver.chain.loading.mailbox import Mailbox
from quiver.chain.loading.outbox import Waiting
from quiver.chain.peers import Ack
from quiver.chain.placing import Node
from quiver.errors import (
    CapacityError,
    ClosedError,
    InputError,
    RemoteError,
    StorageError,
    WaitTimeoutError,
)

BATCH = pa.record_batch({"n": [1]})


class Closable:
    is_closed = False

    def close(self):
        self.is_closed = True


def test_a_forked_child_is_told_instead_of_waiting_for_ever(loader, monkeypatch):
    receipt = loader.send({"events": BATCH}, timeout=0)
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)  # As in a child.
    for act in (
        lambda: loader.send({"events": BATCH}),
        receipt.wait,
        loader.flush,
        loader.wait_open,
        loader.close,
    ):
        with pytest.raises(ClosedError, match="by fork"):
            act()
    assert not receipt.is_replicated


def test_a_stream_that_is_opened_too_late_is_closed():
    box, early, late = Mailbox(), Closable(), Closable()
    box.put(Opened(1, early))
    box.put(Wanted())
    box.close()
    assert box.take() is None
    box.put(Opened(2, late))
    assert (early.is_closed, late.is_closed, box.take()) == (True, True, None)


def test_a_loader_that_stops_leaves_no_stream_open():
    for turns in range(60):
        world = World(turns)
        loader = world.loader()
        world.run(turns=turns)
        loader.abandon()
        world.run()
        assert loader._driver._flow.stream is None
        own = [pipe for pipe in world.pipes if pipe.viewer is loader.client]
        assert all(pipe.is_closed for pipe in own)


def test_a_loader_that_was_stopped_claims_nothing_more(world, loader):
    class Stopping:
        def send(self, entries):
            loader.abandon()
            raise ClosedError("the stream is closed")

        def close(self):
            pass

    assert world.run(lambda: loader._driver._flow.stream is not None)
    epoch = loader.record.epoch
    loader._driver._flow.stream = Stopping()
    loader.send({"events": BATCH}, timeout=0)
    world.run()
    record = world.partition().read()
    assert (record.epoch, record.sealing_by) == (epoch, "")


def test_metadata_whose_disk_refuses_for_a_while_do_not_end_a_loader(world, loader):
    real = world.metadata.cas

    def full(key, revision, data):
        raise StorageError("cannot write", errno=28)

    world.metadata.cas = full
    for _ in range(60):
        world.send(loader)
        world.run(turns=40)
    assert loader._driver.fault is None
    world.metadata.cas = real
    last = world.sent[-1]
    assert world.run(lambda: loader.acked_seq >= last.wal_seq, turns=20_000)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed, turns=20_000)
    world.run()
    check_partition(world)


def test_metadata_that_refuse_from_the_start_are_told(world):
    def refused(key):
        raise StorageError("permission denied", errno=13)

    world.metadata.get = refused
    loader = world.loader()
    world.run(turns=200)
    with pytest.raises(StorageError, match="permission"):
        loader.wait_open(0)
    assert not isinstance(loader._driver.fault, RemoteError)


@pytest.mark.parametrize(
    ("full", "said"),
    [(True, "all 4 that serve are more than 85% full"), (False, "none serves")],
    ids=["full", "none"],
)
def test_who_finds_no_room_says_whether_nodes_are_full_or_gone(world, full, said):
    found = [Node(name, 10, 100) for name in world.machines] if full else []
    world.nodes = lambda: found
    loader = world.loader()
    world.run(turns=200)
    with pytest.raises(WaitTimeoutError, match=said):
        loader.wait_open(0)
    with pytest.raises(CapacityError, match=said):
        world.send(loader)
    found[:] = [Node(name, 90, 100) for name in world.machines]
    assert world.run(lambda: loader.record is not None)
    sent = world.send(loader)
    assert world.run(lambda: loader.acked_seq >= sent.wal_seq, turns=20_000)
    with pytest.raises(WaitTimeoutError) as told:
        loader.wait_acked(sent.wal_seq + 1, 0)
    assert "that serve" not in str(told.value)
    assert "none serves" not in str(told.value)


@pytest.mark.parametrize("time_ns", [1 << 63, 1.5, "now"])
def test_times_that_are_none_are_refused(world, time_ns):
    loader = world.loader(is_rising=False)
    assert world.run(lambda: loader.record is not None)
    with pytest.raises(InputError, match="no time"):
        loader.send({"events": BATCH}, time_ns=time_ns, timeout=0)
    assert loader.send({"events": BATCH}, time_ns=(1 << 63) - 1, timeout=0).wal_seq == 0


def test_an_ack_wakes_the_driver_only_for_what_waits_for_it():
    woken = []
    driver = Driver("core_0", LoaderRules(), by="me", wake=lambda: woken.append(None))
    assert driver.hear(0, Ack(0, 1))
    assert driver.outbox.acked_seq == 1
    assert not woken
    assert not driver.hear(1, Ack(0, 2))  # Of another stream.
    driver.outbox.add(Waiting(2, 0, pa.py_buffer(b"entry")))
    driver.hear(0, Ack(0, 1))
    driver.outbox.take()
    driver._is_ending = True
    driver.hear(0, Ack(0, 2))
    assert len(woken) == 2


def test_an_end_waits_for_no_node_that_would_take_the_first_block():
    world = World(1, nodes=2)
    for machine in world.machines.values():
        machine.die()
    loader = world.loader()
    world.run(turns=300)
    assert world.partition().read().sealing_by == loader.by
    loader.end()
    assert world.run(lambda: loader._driver.is_closed, turns=5_000)
    record = world.partition().read()
    assert (record.sealing_by, record.writer, record.open) == ("", "", None)


def test_an_end_in_the_first_moment_ends_it_too():
    world = World(2, nodes=2)
    loader = world.loader()
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    assert world.partition().read().sealing_by == ""
