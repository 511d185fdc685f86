"""What an interrupt leaves of a loader wherever it strikes in `send`: no number is given twice."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager

import pyarrow as pa
import pytest
from chain_oracle import check_partition
from chain_world import World
from strikes import AGAIN, Struck, struck_by_alarms

from quiver.chain.loading import drafts
from quiver.chain.loading.outbox import Outbox
from quiver.chain.loading.sending import SendingTurn
from quiver.errors import CapacityError, WaitTimeoutError

BUNDLE = {"events": pa.record_batch({"n": [1]})}


@pytest.mark.parametrize("place", ["before", "counted", "added", "numbered"])
def test_no_number_is_given_twice_wherever_it_strikes(world, loader, monkeypatch, place):
    assert loader.send(BUNDLE, timeout=0).wal_seq == 0
    honest, wake = Outbox.add, loader._wake

    def add(self, waiting):
        monkeypatch.setattr(Outbox, "add", honest)
        if place == "counted":
            self.unsent_bytes += len(waiting.body)
        elif place == "added":
            honest(self, waiting)
        raise Struck

    def struck_wake():
        monkeypatch.setattr(loader, "_wake", wake)
        raise Struck

    if place == "numbered":
        monkeypatch.setattr(loader, "_wake", struck_wake)
        monkeypatch.setattr(loader, "_mend", lambda: None)
    else:
        monkeypatch.setattr(Outbox, "add", add)
    with pytest.raises(Struck):
        loader.send(BUNDLE, timeout=0)
    monkeypatch.undo()
    is_in = place in ("added", "numbered")
    receipts = [loader.send(BUNDLE, timeout=0) for _ in range(2)]
    assert [receipt.wal_seq for receipt in receipts] == ([2, 3] if is_in else [1, 2])
    assert world.run(lambda: receipts[-1].is_replicated)
    outbox = loader._driver.outbox
    assert (outbox.kept_bytes, outbox.sent_bytes, outbox.unsent_bytes) == (0, 0, 0)


@contextmanager
def handled_by(handler):
    """Have SIGUSR1 do something."""
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_does_not_send_out_of_the_midst_of_sending(loader, monkeypatch):
    said = []
    honest = drafts.arrows_own

    def handler(*_):
        said.append("struck")
        for act in (lambda: loader.send(BUNDLE), loader.flush):
            with pytest.raises(CapacityError, match="in the middle of sending"):
                act()
        said.append("refused")

    def strike(*parts):
        monkeypatch.setattr(drafts, "arrows_own", honest)
        os.kill(os.getpid(), signal.SIGUSR1)
        return honest(*parts)

    with handled_by(handler):
        monkeypatch.setattr(drafts, "arrows_own", strike)
        assert loader.send(BUNDLE, timeout=0).wal_seq == 0
    assert said == ["struck", "refused"]
    assert loader.send(BUNDLE, timeout=0).wal_seq == 1


def test_who_waits_for_another_thread_waits_no_longer_than_it_says(loader):
    turn: SendingTurn = loader._turn
    taken, over = threading.Event(), threading.Event()

    def hold():
        taken.set()
        over.wait(60)

    thread = threading.Thread(target=turn.run, args=(hold, None))
    receipt = loader.send(BUNDLE, timeout=0)
    thread.start()
    try:
        assert taken.wait(60)
        with pytest.raises(CapacityError, match="another thread"):
            loader.send(BUNDLE, timeout=0)
        with pytest.raises(WaitTimeoutError):  # It waits for what was sent, and for nobody's turn.
            loader.flush(0)
    finally:
        over.set()
        thread.join()
    assert loader.send(BUNDLE, timeout=0).wal_seq == receipt.wal_seq + 1


def test_no_interrupt_leaves_the_turn_to_a_thread_that_sends_no_more():
    """It did behind the acquiring, at the first interrupt or at one of some hundreds."""
    turn = SendingTurn("p")
    others: list[bool] = []

    def look():
        turn.run(lambda: others.append(True), 0)

    with struck_by_alarms():
        for number in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 2e-4 + number * 1e-7, AGAIN)
                while True:
                    turn.run(lambda: None, 5)
                    turn.run_if_free(lambda: None)
            except Struck:
                thread = threading.Thread(target=look)
                thread.start()
                thread.join()
    assert len(others) == 300


def test_what_is_raised_while_sending_is_raised_as_it_is():
    turn = SendingTurn("p")

    def fail():
        raise RuntimeError("of its own")

    for run in (
        lambda: turn.run(fail, 1),
        lambda: turn.run(fail, None),
        lambda: turn.run_if_free(fail),
    ):
        with pytest.raises(RuntimeError, match="of its own"):
            run()
    for seconds in range(40):
        assert turn.run(lambda given=seconds: given, seconds) == seconds


def test_a_signal_handler_may_wait_wherever_it_strikes(loader, monkeypatch):
    """Also while its thread has the lock of what it waits for."""
    receipt = loader.send(BUNDLE, timeout=0)
    honest, said = Outbox.add, []

    def handler(*_):
        with pytest.raises(WaitTimeoutError):
            receipt.wait(0)
        said.append("waited")

    def add(self, waiting):
        os.kill(os.getpid(), signal.SIGUSR1)
        honest(self, waiting)

    with handled_by(handler):
        monkeypatch.setattr(Outbox, "add", add)
        assert loader.send(BUNDLE, timeout=0).wal_seq == 1
    assert said == ["waited"]


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_signal_handler_waits_for_nothing_that_it_keeps_from_happening(
    loader, monkeypatch, timeout
):
    """Its thread does the worker's work, who has others to send."""
    receipt = loader.send(BUNDLE, timeout=0)
    said = []

    def handler(*_):
        with pytest.raises(CapacityError, match="in the middle of sending"):
            receipt.wait(timeout)
        with pytest.raises(WaitTimeoutError):
            receipt.wait(0.01)
        said.append("told")

    def lend(_act):
        os.kill(os.getpid(), signal.SIGUSR1)
        return False

    with handled_by(handler):
        monkeypatch.setattr(loader._worker, "lend", lend)
        assert loader.send(BUNDLE, timeout=0).wal_seq == 1
    assert said == ["told"]


def test_a_run_of_one_time_ends_at_the_hard_limit_of_a_block():
    world = World(5)
    loader = world.loader(is_rising=False, soft_bytes=2_000, hard_bytes=4_000)
    assert world.run(lambda: loader.record is not None)
    for time_ns in (*[7] * 60, 8):
        last = world.send(loader, time_ns=time_ns)
    assert world.run(lambda: last.is_replicated, turns=20_000)
    assert loader.record.next_number > 2
    loader.end()
    assert world.run(lambda: loader._driver.is_closed, turns=20_000)
    check_partition(world)
