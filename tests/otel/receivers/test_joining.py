"""Small requests that come together are read as one; each has the answer that it would have had."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_sender import SENDERS
from receiver_kit import PATIENCE, Notebook, logs_request, plain_reading, served

from quiver.errors import CapacityError, InputError, StorageError
from quiver.otel.receivers.joining import JOINED_MAX, is_framed
from quiver.otel.signals import Signal

BROKEN = b"\x0a\x03\x0a\x07x"
"""Framed, and nonsense within."""


class Reader:
    """Reads as protobuf does; the first call waits until the test lets it go."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.begun, self.may_go = threading.Event(), threading.Event()
        self.reading = replace(plain_reading, decode=self.decode, joins=True)

    def decode(self, signal, request):
        self.calls.append(request)
        self.begun.set()
        assert self.may_go.wait(PATIENCE)
        return plain_reading.decode(signal, request)


class Swift(Notebook):
    """Takes at once, unless it is full or told to fail."""

    has_room = is_ready = True
    gather_seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.late: Exception | None = None
        self.waits: list[bool] = []

    def begin(self, batches, done, *, wait: bool = True) -> None:
        self.waits.append(wait)
        if self.is_full and not wait:
            raise CapacityError("it is full")
        if self.late is None:
            self.take(Signal.LOGS, batches)
        done(self.late)

    def hasten(self) -> None:
        pass


@pytest.fixture(params=SENDERS)
def protocol(request) -> str:
    return request.param


@pytest.fixture
def sent(protocol):
    """Send one request, then others while it is read; give all answers and the desk."""

    def send(swift: Swift, *requests: bytes):
        reader = Reader()
        with served(protocol, swift, reading=reader.reading) as here, ThreadPoolExecutor() as pool:
            first = pool.submit(SENDERS[protocol], here, logs_request("first"))
            assert reader.begun.wait(PATIENCE)
            calls = [pool.submit(SENDERS[protocol], here, each) for each in requests]
            small = [each for each in requests if is_framed(each) and len(each) <= JOINED_MAX]
            joining = here.desk._joining
            while len(joining._waiting) < len(small):
                assert not first.done()
            reader.may_go.set()
            answers = [call.result(PATIENCE) for call in calls]
            assert first.result(PATIENCE) == ("later" if swift.late else "200")
            return answers, reader, here.desk

    return send


def test_what_comes_while_others_are_read_is_read_together(sent) -> None:
    swift = Swift()
    requests = [logs_request(text, text) for text in "abc"]
    answers, reader, desk = sent(swift, *requests)
    assert answers == ["200"] * 3
    assert len(reader.calls) == 2
    assert sorted(swift.texts()) == ["a", "a", "b", "b", "c", "c", "first"]
    counts = {name: value for (name, _), value in desk.metrics.read().items()}
    assert counts["quiver.receiver.requests"] == 4
    assert counts["quiver.receiver.items"] == 7
    whole = sum(map(len, requests)) + len(logs_request("first"))
    assert counts["quiver.receiver.bytes"] == whole
    assert desk.gauges()["quiver.receiver.waiting_requests"] == 0


def test_one_that_is_malformed_is_refused_alone(sent) -> None:
    swift = Swift()
    answers, reader, _ = sent(swift, logs_request("a"), BROKEN, logs_request("b"))
    assert [answer == "200" for answer in answers] == [True, False, True]
    assert answers[1] != "later"
    assert len(reader.calls) == 5  # The first, all of them at once, each by itself.
    assert sorted(swift.texts()) == ["a", "b", "first"]


def test_one_that_does_not_end_takes_nothing_of_the_next(sent) -> None:
    swift = Swift()
    cut = logs_request("cut short" * 9)[:-4]
    assert not is_framed(cut)
    answers, _, _ = sent(swift, cut, logs_request("a"))
    assert answers[1] == "200"
    assert answers[0] not in {"200", "later"}
    assert sorted(swift.texts()) == ["a", "first"]


def test_large_ones_are_read_by_themselves(sent) -> None:
    swift = Swift()
    large = logs_request("x" * JOINED_MAX)
    answers, reader, _ = sent(swift, large, logs_request("a"))
    assert answers == ["200"] * 2
    assert large in reader.calls


def test_where_there_is_no_room_each_waits_by_itself(sent) -> None:
    swift = Swift()
    swift.is_full = True
    answers, _, _ = sent(swift, logs_request("a"), logs_request("b"))
    assert answers == ["200"] * 2
    assert sorted(swift.waits) == [False, False, True, True, True]
    assert sorted(swift.texts()) == ["a", "b", "first"]


def test_what_goes_wrong_later_is_told_to_all(sent) -> None:
    swift = Swift()
    swift.late = StorageError("the disk is gone")
    answers, _, desk = sent(swift, logs_request("a"), logs_request("b"))
    assert answers == ["later"] * 2
    assert swift.texts() == []
    assert desk.gauges()["quiver.receiver.waiting_requests"] == 0


@given(st.lists(st.binary(max_size=40) | st.just(logs_request("a", "b")), max_size=3), st.data())
def test_what_is_framed_reads_the_same_in_front_of_anything(pieces, data) -> None:
    requests = [b"\x0a" + bytes([len(piece)]) + piece for piece in pieces]
    cuts = [data.draw(st.integers(0, len(each))) for each in requests]
    for whole, cut in zip(requests, cuts, strict=True):
        assert is_framed(whole)
        assert is_framed(whole[:cut]) == (cut in {0, len(whole)})
    behind = logs_request("behind")

    def texts(request: bytes) -> object:
        try:
            return [batch.items for batch in plain_reading.decode(Signal.LOGS, request)]
        except InputError:
            return None

    each = [texts(request) for request in requests]
    found = texts(b"".join([*requests, behind]))
    if None in each:
        assert found is None
    else:
        assert found == [sum(sum(counts) for counts in each) + 1]


@pytest.mark.parametrize(
    "request_",
    [
        b"\x0a",
        b"\x0a\x80",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x12\x00",
        b"\x0a\x00" * 65,
        b"\x0a\x05abc",
    ],
    ids=["no length", "half a length", "a long length", "another field", "many", "too short"],
)
def test_what_is_not_framed(request_) -> None:
    assert not is_framed(request_)
