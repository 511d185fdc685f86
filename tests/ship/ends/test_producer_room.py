"""Memory has a bound and calls wait for it; handles can be awaited; closing and forking end it."""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from ends_kit import WAIT, Rig
from strikes import interrupt_once

from quiver.errors import CapacityError, ClosedError, InputError, RemoteError, WaitTimeoutError
from quiver.ship.producer.room import Room
from quiver.testing import ManualClock


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.close()


class Gate:
    """Holds batches at the store until it is opened."""

    def __init__(self, rig: Rig) -> None:
        self.arrived, self.opened = threading.Event(), threading.Event()
        rig.bucket.before = self

    def __call__(self, act: str, key: str) -> None:
        if act == "put" and key.endswith(".batch"):
            self.arrived.set()
            assert self.opened.wait(WAIT)


def refuse(act: str, key: str) -> None:
    raise RemoteError("refused")


def test_a_full_producer_refuses_who_does_not_wait_and_takes_more_later(rig) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1000, memory=3000)
    first = producer.produce([b"x" * 1500])
    assert gate.arrived.wait(WAIT)
    with pytest.raises(CapacityError) as refused:
        producer.produce([b"y" * 1500], timeout=0)
    assert refused.value.retryable
    assert producer.waiting_bytes >= 1500
    gate.opened.set()
    assert first.wait_durable(WAIT).sequence == 0
    assert producer.produce([b"y" * 1500], timeout=WAIT).wait_durable(WAIT).sequence == 1
    assert producer.waiting_bytes == 0


def test_what_is_on_its_way_counts_and_who_waits_gets_in_when_it_is_sent(rig) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1000, memory=3000)
    producer.produce([b"x" * 1500])
    assert gate.arrived.wait(WAIT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(producer.produce, [b"y" * 1500])
        assert not waiting.done()
        gate.opened.set()
        assert waiting.result(WAIT).wait_durable(WAIT).sequence == 1
    assert producer.metrics.read()["quiver.ship.throttled_calls", ""] == 1


def test_memory_is_never_over_its_bound_however_many_produce(rig) -> None:
    producer = rig.producer(flush_size=2000, memory=5000, flush_interval="1ms")
    seen = []
    rig.bucket.before = lambda act, key: seen.append(producer.waiting_bytes)

    def produce(name: int) -> None:
        for number in range(50):
            producer.produce([b"%d-%d" % (name, number) * 20])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(produce, range(4)))
    producer.flush(WAIT)
    assert max(seen) <= 5000
    consumer, found = rig.consumer(), []
    while (batch := consumer.next_batch()) is not None:
        found += [bytes(record)[: len(record) // 20] for record in batch.records]
    for name in range(4):  # All are there once, those of one thread in their order.
        mine = [record for record in found if record.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, number) for number in range(50)]


def test_a_call_that_never_fits_is_refused_at_once(rig) -> None:
    producer = rig.producer(flush_size=1000, memory=3000)
    with pytest.raises(InputError):
        producer.produce([b"x" * 3001])
    with pytest.raises(InputError):
        producer.produce([b""] * 1000)  # Records without bytes take memory too.


def test_who_waits_for_much_is_not_overtaken_by_who_wants_little() -> None:
    waits = threading.Event()
    room = Room(100, ManualClock(), when_full=waits.set)
    room.take(60, None)
    with ThreadPoolExecutor(1) as pool:
        large = pool.submit(room.take, 90, None)
        assert waits.wait(WAIT)
        with pytest.raises(CapacityError):
            room.take(10, 0)
        room.give_back(60)
        assert large.result(WAIT)
    room.take(10, 0)
    assert room.used == 100


def test_what_makes_room_for_who_waits_is_sent_at_once(rig) -> None:
    """Also if it came to be gathered only after somebody began to wait."""
    producer = rig.producer(flush_interval="1h", flush_size=1000, memory=3000)
    gather, began = producer._gather, threading.Event()
    waits = producer._room._when_full

    def wait_begins() -> None:
        waits()
        began.set()

    def late(call):
        producer._gather = gather
        with ThreadPoolExecutor(1) as pool:
            second.append(pool.submit(producer.produce, [b"y" * 800], timeout=WAIT))
            assert began.wait(WAIT)
            outcome = gather(call)
            assert second[0].result(WAIT)
        return outcome

    second = []
    producer._room._when_full = wait_begins
    producer._gather = late
    handle = producer.produce([b"x" * 10] * 30)
    assert handle.wait_durable(WAIT).sequence == 0


def test_who_waits_gives_up_in_time_and_lets_the_next_one_in() -> None:
    clock = ManualClock()
    waits = [threading.Event(), threading.Event()]
    room = Room(100, clock, when_full=lambda: next(e for e in waits if not e.is_set()).set())
    room.take(60, None)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(room.take, 90, 0.05)
        assert waits[0].wait(WAIT)
        small = pool.submit(room.take, 40, None)
        assert waits[1].wait(WAIT)
        clock.step("50ms")
        with pytest.raises(CapacityError):
            large.result(WAIT)
        assert small.result(WAIT)


def test_closing_sends_away_who_waits(rig) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1000, memory=3000)
    first = producer.produce([b"x" * 1500])
    assert gate.arrived.wait(WAIT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(producer.produce, [b"y" * 1500])
        with pytest.raises(WaitTimeoutError):
            producer.close(timeout=0)
        with pytest.raises(ClosedError):
            waiting.result(WAIT)
        assert not first.done  # It is still being sent, and closing again waits for that.
        gate.opened.set()
        producer.close(WAIT)
    assert first.sequence == 0


def test_a_call_that_came_too_late_leaves_no_memory_taken(rig) -> None:
    producer = rig.producer()
    gather = producer._gather

    def closed_meanwhile(call):
        producer.close(WAIT)
        return gather(call)

    producer._gather = closed_meanwhile
    with pytest.raises(ClosedError):
        producer.produce([b"x"])
    assert producer.waiting_bytes == 0


def test_a_flush_waits_for_what_is_on_its_way_and_says_when_it_does_not(rig) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1)
    handle = producer.produce([b"x"])
    assert gate.arrived.wait(WAIT)
    with pytest.raises(WaitTimeoutError):
        producer.flush(timeout=0)
    with pytest.raises(WaitTimeoutError):
        handle.wait_durable(timeout=0)
    gate.opened.set()
    producer.flush(WAIT)
    assert handle.done


@pytest.mark.parametrize("act", ["flush", "close"])
def test_who_did_not_wait_long_enough_is_told_of_a_failure_when_he_asks_again(rig, act) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1)
    handle = producer.produce([b"x"])
    assert gate.arrived.wait(WAIT)
    with pytest.raises(WaitTimeoutError):
        getattr(producer, act)(timeout=0)
    rig.bucket.after = refuse
    gate.opened.set()
    with pytest.raises(RemoteError):
        handle.wait_durable(WAIT)
    if act == "close":
        producer._thread.join(WAIT)
    with pytest.raises(RemoteError):
        getattr(producer, act)(WAIT)
    getattr(producer, act)(WAIT)


def test_who_is_interrupted_before_he_waits_stands_in_nobodys_way() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    room = Room(10, ManualClock(), when_full=interrupted)
    room.take(10, None)
    with pytest.raises(KeyboardInterrupt):
        room.take(1, None)
    room.give_back(10)
    assert not room.take(1, 0)


@pytest.mark.parametrize("behind", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(
    ("place", "step"), [("_room", "take"), ("_gathering", "add"), ("_turn", "notify")]
)
def test_room_is_given_back_once_wherever_a_call_is_interrupted(
    rig, monkeypatch, place, step, behind
) -> None:
    producer = rig.producer(flush_interval="1h", memory="1MiB", flush_size="1MiB")
    producer.flush(WAIT)  # Its thread waits for what comes.
    owner = getattr(producer, place)
    interrupt_once(monkeypatch, owner, step, behind=behind)
    with pytest.raises(KeyboardInterrupt):
        producer.produce([bytes(600_000)])
    producer.flush(WAIT)
    assert producer.waiting_bytes == 0
    producer.produce([bytes(600_000)], timeout=0)
    producer.flush(WAIT)
    assert producer.waiting_bytes == 0


def test_a_batch_is_sent_though_who_began_it_was_interrupted(rig, monkeypatch) -> None:
    producer = rig.producer(flush_size=1)
    notify = producer._turn.notify

    def interrupted() -> None:
        monkeypatch.setattr(producer._turn, "notify", notify)
        raise KeyboardInterrupt

    sent = threading.Event()
    rig.bucket.after = lambda act, _: sent.set() if act == "put_if" else None
    monkeypatch.setattr(producer._turn, "notify", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.produce([b"x"])
    assert sent.wait(WAIT)


def test_awaiting_lets_the_loop_go_on(rig) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1)

    async def main() -> list[int]:
        handles = [producer.produce([b"x"]), producer.produce([b"y"])]
        first = asyncio.ensure_future(_sequence(handles[0]))
        second = asyncio.ensure_future(_sequence(handles[1]))
        cancelled = asyncio.ensure_future(_sequence(handles[1]))
        await asyncio.sleep(0)
        assert not first.done()
        cancelled.cancel()
        gate.opened.set()
        found = [await first, await second, await _sequence(handles[0])]
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        return found

    assert asyncio.run(main()) == [0, 1, 0]


def test_a_forked_child_sends_nothing_and_waits_for_nothing(rig) -> None:
    producer = rig.producer(flush_interval="1h")
    handle = producer.produce([b"x"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Threads and a fork: that is the test.
        child = os.fork()
    if child == 0:
        try:
            producer.close()
            with pytest.raises(ClosedError):
                producer.produce([b"y"])
            with pytest.raises(ClosedError):
                producer.flush()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    producer.flush(WAIT)
    assert handle.sequence == 0


async def _sequence(handle) -> int:
    return (await handle).sequence


def test_a_loop_that_is_gone_is_no_matter(rig) -> None:
    gate = Gate(rig)
    producer = rig.producer(flush_size=1)
    handle = producer.produce([b"x"])
    loop = asyncio.new_event_loop()
    task = loop.create_task(_sequence(handle))
    loop.run_until_complete(asyncio.sleep(0))
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    gate.opened.set()
    assert handle.wait_durable(WAIT).sequence == 0
