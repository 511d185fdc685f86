"""A small entry of who waits for each: sent by himself, and wherever he is interrupted, once."""

from __future__ import annotations

import signal
import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest
from chain_oracle import check_partition
from chain_world import World
from strikes import AGAIN, Struck, struck_by_alarms

from quiver.chain.loading import LoaderRules
from quiver.chain.loading.driver import Driver
from quiver.chain.loading.flow import Flow
from quiver.chain.loading.happenings import StreamBroke
from quiver.chain.loading.outbox import Outbox
from quiver.chain.loading.rules import REFUSALS_MAX
from quiver.chain.peers import Ack, BlockName, Route
from quiver.chain.workers import ThreadWorkers
from quiver.errors import InputError, RemoteError

LARGE = {"events": pa.record_batch({"n": list(range(10_000))})}
PATIENCE = 60


def lends(loader, *, is_free=True):
    """Have the worker be at work, or not."""

    def lend(act):
        if is_free:
            act()
        return is_free

    loader._worker.lend = lend


@pytest.fixture
def world():
    return World(3, soft_bytes=1 << 20, hard_bytes=1 << 21)


@pytest.fixture
def loader(world):
    made = world.loader()
    assert world.run(lambda: made._driver._flow.stream is not None)
    lends(made)
    return made


def test_one_that_comes_alone_is_under_way_when_send_returns(world, loader):
    world.send(loader)
    outbox = loader._driver.outbox
    assert (outbox.unsent_bytes, outbox.sent_bytes > 0) == (0, True)
    world.send(loader)  # It goes with what comes until that one is acknowledged.
    assert outbox.unsent_bytes
    assert world.run(lambda: loader.acked_seq == 1)


def test_a_large_one_and_one_whose_worker_is_at_work_are_left_to_him(world, loader):
    loader.send(LARGE)
    outbox = loader._driver.outbox
    assert (outbox.unsent_bytes > 0, outbox.sent_bytes) == (True, 0)
    assert world.run(lambda: loader.acked_seq == 0)
    lends(loader, is_free=False)
    loader.send({"events": LARGE["events"].slice(0, 1)})
    assert (outbox.unsent_bytes > 0, outbox.sent_bytes) == (True, 0)
    assert world.run(lambda: loader.acked_seq == 1)


def test_near_the_end_of_a_block_the_worker_sees_to_the_next_one(world, loader):
    loader._driver._flow.length = 1 << 20
    world.send(loader)
    assert loader._driver.outbox.unsent_bytes


def test_what_breaks_the_stream_meanwhile_is_told_to_the_worker(world, loader, monkeypatch):
    honest = Flow.send

    def refuse(self, frame, stream, route):
        monkeypatch.setattr(Flow, "send", honest)
        raise RemoteError("it is gone", retryable=True)

    monkeypatch.setattr(Flow, "send", refuse)
    world.send(loader)
    ended(world, loader)


def strike_in_take(self):
    """As between what ``take`` does."""
    self._sent.append(self._unsent[0])
    raise Struck


def strike_behind_take(self):
    self._sent.append(self._unsent.popleft())
    raise Struck


def strike_before(*_):
    raise Struck


def strike_behind(self, frame, stream, route, honest=Flow.send):
    honest(self, frame, stream, route)
    raise Struck


PLACES = [
    (Outbox, "take", strike_in_take),
    (Outbox, "take", strike_behind_take),
    (Flow, "send", strike_before),
    (Flow, "send", strike_behind),
]


@pytest.mark.parametrize("is_acked", [False, True], ids=["", "acked"])
@pytest.mark.parametrize(("kind", "name", "strike"), PLACES)
def test_wherever_it_strikes_each_is_in_once(world, loader, kind, name, strike, is_acked):
    before = world.send(loader)
    assert world.run(lambda: before.is_replicated)
    honest = getattr(kind, name)
    setattr(kind, name, strike)
    try:
        with pytest.raises(Struck):
            world.send(loader)
    finally:
        setattr(kind, name, honest)
    if is_acked and strike is strike_behind:
        assert world.run(lambda: loader.acked_seq == 1)
    world.sent.append(SimpleNamespace(wal_seq=1, time_ns=loader._time_ns, is_replicated=False))
    ended(world, loader)


def ended(world, loader):
    """Send once more, and find each entry once, in order, and nothing kept."""
    last = world.send(loader)
    assert world.run(lambda: last.is_replicated)
    outbox = loader._driver.outbox
    assert (outbox.kept_bytes, outbox.sent_bytes, outbox.unsent_bytes) == (0, 0, 0)
    loader.end()
    assert world.run(lambda: loader._driver.is_closed)
    check_partition(world)


def refused(driver):
    """Have the open block's stream refuse what it is sent."""
    driver._flow.begin(Route(BlockName("core_0", driver._flow.turn), 1, ("a",)))
    driver.post(StreamBroke(driver._flow.turn, InputError("no bundle")))


@pytest.mark.parametrize("is_acked", [False, True])
def test_who_is_refused_again_and_again_gives_up_unless_something_was_taken(is_acked):
    driver = Driver("core_0", LoaderRules(), by="me", wake=lambda: None)
    driver.tasks = SimpleNamespace(mend=lambda _: None)
    for number in range(REFUSALS_MAX):
        assert driver.fault is None
        refused(driver)
        if is_acked and number == REFUSALS_MAX // 2:
            driver._flow.length = 10
            driver.hear(driver._flow.turn, Ack(10, 1))
        driver.turn()
    assert (driver.fault is None) is is_acked


def test_no_interrupt_of_who_does_his_work_stops_a_worker():
    done = threading.Event()
    worker = ThreadWorkers().start("one", done.set)

    with struck_by_alarms():
        for number in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-4 + number * 1e-7, AGAIN)
                while True:
                    worker.lend(lambda: None)
            except Struck:
                done.clear()
                worker.wake()
                assert done.wait(PATIENCE)
    worker.end()
