"""An intake that tells later: nobody is answered before, and no thread waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from one_sender import SENDERS
from receiver_kit import PATIENCE, Notebook, logs_request, plain_reading, served

from quiver.errors import CapacityError, StorageError
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted
from quiver.otel.receivers.answering import Answers
from quiver.otel.signals import Signal

LIGHT = replace(plain_reading, is_light=True)


class Swift(Notebook):
    """Keeps what begins until the test says what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[Sequence[Batch], Callable[[Exception | None], object]]] = []
        self.threads: list[str] = []
        self.waits: list[bool] = []
        self.is_roomy = self.is_ready = True
        self.looked = threading.Event()
        self.gather_seconds = 0.0
        self.is_full = False
        self.fault: Exception | None = None
        self.hastened = threading.Event()

    @property
    def has_room(self) -> bool:
        self.looked.set()
        return self.is_roomy

    def begin(self, batches, done, *, wait: bool = True) -> None:
        with self.changed:
            self.threads.append(threading.current_thread().name)
            self.waits.append(wait)
            if self.is_full and not wait:
                raise CapacityError("it is full")
            if self.error is not None:
                raise self.error
            self.begun.append((batches, done))
            self.changed.notify_all()

    def hasten(self) -> None:
        self.hastened.set()
        if self.fault is not None:
            raise self.fault

    def settle(self, count: int, error: Exception | None = None) -> None:
        """Wait until so many have begun, and say what became of all."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.begun) >= count, PATIENCE)
            told, self.begun = self.begun, []
        for batches, done in told:
            if error is None:
                Notebook.take(self, Signal.LOGS, batches)
            done(error)


@pytest.fixture(params=SENDERS)
def protocol(request) -> str:
    return request.param


@pytest.fixture
def pool():
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.mark.parametrize("reading", [LIGHT, plain_reading], ids=["light", "heavy"])
def test_nobody_is_answered_before_it_has_told(protocol, pool, reading) -> None:
    swift = Swift()
    with served(protocol, swift, reading=reading) as here:
        calls = [pool.submit(SENDERS[protocol], here, logs_request(text)) for text in "abc"]
        with swift.changed:
            assert swift.changed.wait_for(lambda: len(swift.begun) == 3, PATIENCE)
        assert not any(call.done() for call in calls)
        assert swift.hastened.wait(PATIENCE)
        assert here.desk.gauges()["quiver.receiver.waiting_requests"] == 3
        swift.settle(3)
        assert [call.result(PATIENCE) for call in calls] == ["200"] * 3
        assert sorted(swift.texts()) == list("abc")
        here_too = {name == "quiver-servers" for name in swift.threads}
        assert here_too == {reading is LIGHT}
        assert here.desk.gauges()["quiver.receiver.waiting_requests"] == 0


@pytest.mark.parametrize("reason", ["full", "busy"])
def test_who_would_wait_for_room_is_handed_to_a_thread(protocol, pool, reason) -> None:
    swift = Swift()
    swift.is_full, swift.is_ready = reason == "full", reason == "full"
    with served(protocol, swift, reading=LIGHT) as here:
        call = pool.submit(SENDERS[protocol], here, logs_request("a"))
        swift.settle(1)
        assert call.result(PATIENCE) == "200"
        assert swift.waits == ([False, True] if reason == "full" else [True])
        assert swift.threads[-1] != "quiver-servers"
        assert swift.texts() == ["a"]


def test_what_went_wrong_later_is_answered_and_so_is_what_did_at_once(protocol, pool) -> None:
    swift = Swift()
    with served(protocol, swift, reading=LIGHT) as here:
        call = pool.submit(SENDERS[protocol], here, logs_request("a"))
        swift.settle(1, StorageError("the disk is gone"))
        assert call.result(PATIENCE) == "later"
        swift.error = CapacityError("no room")
        assert SENDERS[protocol](here, logs_request("b")) == "later"
        assert sum(here.refused().values()) == 2
        assert swift.texts() == []


@pytest.mark.parametrize("reading", [LIGHT, plain_reading], ids=["light", "heavy"])
@pytest.mark.parametrize("fault", [CapacityError("no room"), ZeroDivisionError()], ids=repr)
def test_an_intake_that_raises_behind_its_word_is_told_of_and_answered_once(
    protocol, reading, fault
) -> None:
    class Late(Swift):
        def begin(self, batches, done, *, wait: bool = True) -> None:
            Notebook.take(self, Signal.LOGS, batches)
            done(None)
            raise fault

    swift = Late()
    with served(protocol, swift, reading=reading) as here:
        assert SENDERS[protocol](here, logs_request("a")) == "200"
        assert SENDERS[protocol](here, logs_request("b")) == "200"
        assert sum(here.refused().values()) == 0
    assert here.desk.events._lasting == {"receiver.failed"}  # Its threads have ended.
    assert swift.texts() == ["a", "b"]


def test_who_hastens_and_fails_is_answered_once_and_its_end_is_heard(protocol, pool) -> None:
    swift = Swift()
    swift.fault = StorageError("it is gone")
    with served(protocol, swift, reading=plain_reading) as here:
        assert SENDERS[protocol](here, logs_request("a")) == "later"
        swift.settle(1)
        swift.fault = None
        call = pool.submit(SENDERS[protocol], here, logs_request("b"))
        swift.settle(1)
        assert call.result(PATIENCE) == "200"
    assert swift.texts() == ["a", "b"]


def test_a_request_comes_in_when_there_is_room_for_it(protocol, pool) -> None:
    swift = Swift()
    swift.is_roomy = False
    with served(protocol, swift, reading=LIGHT) as here:
        call = pool.submit(SENDERS[protocol], here, logs_request("a"))
        assert swift.looked.wait(PATIENCE)
        assert not swift.begun
        swift.is_roomy = True
        swift.settle(1)
        assert call.result(PATIENCE) == "200"


def test_closing_waits_for_what_has_begun(protocol, pool) -> None:
    swift = Swift()
    with served(protocol, swift, reading=LIGHT) as here:
        call = pool.submit(SENDERS[protocol], here, logs_request("a"))
        with swift.changed:
            assert swift.changed.wait_for(lambda: len(swift.begun) == 1, PATIENCE)
        closing = pool.submit(here.servers.close)
        assert not closing.done()
        swift.settle(1)
        closing.result(PATIENCE)
        assert call.result(PATIENCE) in {"200", "gone"}
        assert swift.texts() == ["a"]


def test_who_waits_for_room_at_the_end_is_sent_away(protocol, pool) -> None:
    swift = Swift()
    swift.is_roomy = False
    with served(protocol, swift, reading=LIGHT) as here:
        call = pool.submit(SENDERS[protocol], here, logs_request("a"))
        assert swift.looked.wait(PATIENCE)
        pool.submit(here.servers.close).result(PATIENCE)
        assert call.result(PATIENCE) in {"later", "gone"}
        assert not swift.begun


def test_an_answer_that_comes_behind_the_end_of_its_loop_is_for_nobody() -> None:
    loop = asyncio.new_event_loop()
    answers, to = Answers(), loop.create_future()
    loop.close()
    answers.give(to, Accepted())
    answers.give(to, Accepted())
    assert not to.done()
