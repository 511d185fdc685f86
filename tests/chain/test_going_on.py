"""Threads that everybody counts on go on behind errors that nobody reckoned with."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest
from cluster_kit import running, value_of
from numbers_kit import PATIENCE, QUICK, load

from quiver.chain.membership import Members, register
from quiver.chain.metadata import BucketMetadata
from quiver.chain.peers import BlockName, Route
from quiver.chain.placing import AUDITOR, Lease
from quiver.chain.serving import AuditRules, Scrubbing, ScrubRules, serving
from quiver.chain.serving.auditing import Auditing
from quiver.chain.wire import RemotePeer, WireOptions
from quiver.chain.wire.carried import CarriedMetadata
from quiver.chain.wire.messages import Keys
from quiver.chain.wire.streams import Streams
from quiver.chain.wire.watch import Watchdog
from quiver.clock import SystemClock
from quiver.errors import RemoteError
from quiver.ship.objects import MemoryBucket


class Once:
    """Raises the first time that it is called, and says when it was called again."""

    def __init__(self, act):
        self.act, self.count, self.again = act, 0, threading.Event()

    def __call__(self, *arguments, **named):
        self.count += 1
        if self.count == 1:
            raise MemoryError("for a moment")
        self.again.set()
        return self.act(*arguments, **named)


@pytest.mark.parametrize("what", ["beat", "sync"])
def test_a_node_serves_on_behind_an_odd_error(tmp_path, monkeypatch, what):
    monkeypatch.setattr(register, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(serving, "_SYNC_SECONDS", 0.01)
    with running(tmp_path, "a") as nodes:
        served = nodes.served["a"]
        owner = served if what == "sync" else served._registration
        once = Once(getattr(owner, what))
        monkeypatch.setattr(owner, what, once)
        assert once.again.wait(PATIENCE)


def test_a_scrub_goes_on_behind_an_odd_error_and_says_so():
    class Holds:
        name = "a"
        holdings = Once(list)

    scrubbing = Scrubbing(Holds(), ScrubRules(every_seconds=0.01))
    scrubbing.start()
    assert Holds.holdings.again.wait(PATIENCE)
    scrubbing.stop()
    told = Scrubbing(Holds(), ScrubRules())
    Holds.holdings.count = 0
    told._over.wait = lambda _: told._over.set()
    told._run()
    assert [str(error) for error in told.faults] == [
        "a scrub of a stopped: MemoryError: for a moment"
    ]


def test_whoever_cannot_look_lets_go_of_the_lease(monkeypatch):
    class Passing(SystemClock):
        now = 10**12

        def monotonic_ns(self):
            return self.now

    class Named:
        name = "a"

    clock, metadata = Passing(), BucketMetadata(MemoryBucket())
    members = Members(metadata, clock=clock)
    auditing = Auditing(
        Named(),
        metadata,
        members,
        is_fed=lambda _: False,
        left=lambda: None,
        clock=clock,
        rules=AuditRules(),
    )
    auditing.watch()
    assert auditing.is_auditor

    def away():
        raise RemoteError("metadata are away", retryable=True)

    monkeypatch.setattr(members, "look", away)
    other = Lease(metadata, AUDITOR, "b", clock=clock)
    holders = []
    for _ in range(20):
        clock.now += 10**9
        with suppress(RemoteError):
            auditing.watch()
        holders.append((auditing.is_auditor, other.look()))
    assert (True, True) not in holders


def test_a_watchdog_without_a_thread_begins_with_the_next_who_is_watched(monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        monkeypatch.setattr(threading.Thread, "start", start)
        raise RuntimeError("can't start new thread")

    dog, silent = Watchdog(SystemClock(), every=0.01), threading.Event()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        dog.watch(0.01, pytest.fail)
    dog.watch(0.01, silent.set)
    assert silent.wait(PATIENCE)


def test_all_who_are_silent_are_called_off_though_one_call_fails(monkeypatch):
    told, silent = [], []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_type))
    dog = Watchdog(SystemClock(), every=0)

    def fail():
        raise MemoryError

    for act in (fail, lambda: silent.append(1), fail, lambda: silent.append(2)):
        dog.watch(0, act)
    while len(silent) < 2:
        dog.look()
    assert told == [MemoryError, MemoryError]


def test_two_threads_that_fail_with_one_node_ask_the_next_one(monkeypatch):
    both = threading.Barrier(2)

    class Dead:
        def ask(self, *_):
            both.wait(PATIENCE)
            raise RemoteError("refused", retryable=True)

    class Alive:
        def ask(self, *_):
            return Keys(("key",))

    metadata = CarriedMetadata([Dead(), Alive()], "quiver://x,y")
    behind, passed_on = threading.Barrier(2), metadata._next

    def pass_on(*arguments):
        passed_on(*arguments)
        behind.wait(PATIENCE)

    monkeypatch.setattr(metadata, "_next", pass_on)
    found = []
    threads = [threading.Thread(target=lambda: found.append(metadata.keys(""))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert found == [["key"], ["key"]]


def test_a_stream_that_is_opened_while_a_node_ends_is_told_so():
    class Node:
        name = "a"

        def stream(self, *_, **__):
            assert streams.end() == 0  # Of which nobody knows yet.
            return self

        def close(self):
            pass

    streams = Streams(Node(), options=WireOptions(), clock=SystemClock())
    block = BlockName("core_0", 0)
    with pytest.raises(RemoteError, match="is closing"):
        streams.open(Route(block, 1, ("a",)))
    assert "is closing" in str(streams._last[block]._fault)


def test_r37_nobody_overtakes_a_partition_that_cannot_be_read_for_a_moment(tmp_path, monkeypatch):
    with running(tmp_path, "a", "b", audit=QUICK) as nodes, nodes.cluster() as cluster:
        for number in range(6):
            load(cluster, "AB"[number % 2], [number])
        read, left = RemotePeer.read, [1, 2]

        def failing(self, block, offset, *, live=False):
            if block.partition == "A" and left:
                left.pop()
                raise RemoteError("away", path="a", retryable=True)
            return read(self, block, offset, live=live)

        monkeypatch.setattr(RemotePeer, "read", failing)
        with cluster.cursor(["A", "B"], idle_seconds=0) as cursor:
            assert [value_of(message) for message in cursor] == list(range(6))
