"""Little that is sent down a stream is written by whoever brings it, in order with all else."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from chain_wire_kit import PATIENCE, ROUTE
from pyarrow import flight
from strikes import Struck

from quiver.chain.peers import Ack, Entries, arrows_own
from quiver.chain.wire import WireOptions
from quiver.chain.wire.format import FRAME_BYTES, decode_frame
from quiver.chain.wire.messages import FrameKind
from quiver.chain.wire.outgoing import Outgoing
from quiver.errors import ClosedError, QuiverError, RemoteError

SMALL, LARGE = b"x" * 100, b"y" * 100_000


class Way:
    """The client of Flight, the writer and both readers of a stream in one, with nobody behind."""

    def __init__(self) -> None:
        self.wrote: list[tuple[str, int]] = []
        self.kinds: list[FrameKind] = []
        self.goes = threading.Event()
        self.goes.set()
        self.entered = threading.Event()
        self.ends = threading.Event()
        self.fault: Exception | None = None
        self.changed = threading.Condition()

    def do_exchange(self, *_: Any) -> tuple[Way, Way]:
        return self, self

    def do_get(self, *_: Any) -> Way:
        return self

    def begin(self, _: Any) -> None:
        pass

    def write_metadata(self, message: Any) -> None:
        self._write(memoryview(message)[:FRAME_BYTES])

    def write_with_metadata(self, _: Any, message: Any) -> None:
        self._write(memoryview(message))

    def _write(self, head: memoryview) -> None:
        frame = decode_frame(head)
        if frame.kind is FrameKind.HEARTBEAT:
            return
        self.entered.set()
        assert self.goes.wait(PATIENCE)
        if self.fault is not None:
            raise self.fault
        with self.changed:
            self.wrote.append((threading.current_thread().name, frame.offset))
            self.kinds.append(frame.kind)
            self.changed.notify_all()

    def read_chunk(self) -> Any:
        self.ends.wait(PATIENCE)
        raise StopIteration

    def cancel(self) -> None:
        self.ends.set()

    def close(self) -> None:
        self.ends.set()

    def await_count(self, count: int) -> list[tuple[str, int]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.wrote) >= count, PATIENCE)
            return list(self.wrote)


class Dog:
    """A watchdog that never calls anybody off."""

    def now_ns(self) -> int:
        return 0

    def watch(self, *_: Any) -> Dog:
        return self

    def stop(self) -> None:
        pass


@pytest.fixture
def way() -> Way:
    return Way()


@pytest.fixture
def told() -> list[QuiverError]:
    return []


@pytest.fixture
def stream(way, told):
    acks: list[Ack] = []
    options = WireOptions(heartbeat=0.01, silence=PATIENCE)
    made = Outgoing(ROUTE, "b", options=options, acked=acks.append, broken=told.append)
    made.begin("one", way, watchdog=Dog(), calls=flight.FlightCallOptions())
    yield made
    way.goes.set()
    made.close()
    way.ends.set()


def entries(offset: int, body: bytes, message: Any = None, *, has_heard: bool = False) -> Entries:
    body = memoryview(body)
    return Entries(ROUTE.epoch, offset, offset, body, message=message, has_heard=has_heard)


def test_who_brings_little_writes_it_and_who_brings_much_does_not(stream, way):
    own = threading.current_thread().name
    stream.send(entries(0, SMALL))
    assert way.wrote == [(own, 0)]
    stream.send(entries(100, LARGE))
    assert way.await_count(2)[1] == ("quiver-stream", 100)


def test_nobody_waits_for_a_writer_that_is_busy_and_the_order_stays(stream, way):
    way.goes.clear()
    first = threading.Thread(target=stream.send, args=(entries(0, SMALL),), name="first")
    first.start()
    assert way.entered.wait(PATIENCE)
    for offset in (100, 200, 300):
        stream.send(entries(offset, SMALL))  # It returns though nothing is written.
    assert not way.wrote
    way.goes.set()
    first.join(PATIENCE)
    assert way.await_count(2) == [("first", 0), ("quiver-stream", 100)]  # The rest as one frame.


def test_little_waits_for_what_was_there_before(stream, way):
    way.goes.clear()
    stream.send(entries(0, LARGE))
    assert way.entered.wait(PATIENCE)
    stream.send(entries(100_000, SMALL))
    way.goes.set()
    names = [name for name, _ in way.await_count(2)]
    assert names == ["quiver-stream", "quiver-stream"]


def test_while_much_is_under_way_little_waits_to_go_together(stream, way):
    for number in range(4):
        stream.send(entries(number * 100_000, LARGE))
        way.await_count(number + 1)
    stream.send(entries(400_000, SMALL))
    assert way.await_count(5)[4] == ("quiver-stream", 400_000)


def test_a_write_that_fails_is_told_by_the_stream_and_ends_it(stream, way, told):
    way.fault = flight.FlightUnavailableError("it is gone")
    stream.send(entries(0, SMALL))  # It was handed on.
    way.ends.set()  # The other call tells why, or that it ended.
    with stream._changed:
        assert stream._changed.wait_for(lambda: stream._fault is not None, PATIENCE)
    with pytest.raises(RemoteError):
        stream.send(entries(100, SMALL))
    assert len(told) == 1


@pytest.mark.parametrize("place", ["enter", "_write"])
def test_an_interrupt_of_who_writes_breaks_the_stream(stream, way, told, monkeypatch, place):
    def strike(*_):
        monkeypatch.undo()
        raise Struck

    class Strikes:
        __enter__ = __exit__ = strike

    name = place if place == "_write" else "_in_flight"
    monkeypatch.setattr(stream, name, strike if place == "_write" else Strikes())
    with pytest.raises(Struck):
        stream.send(entries(0, SMALL))
    with stream._changed:
        assert stream._changed.wait_for(lambda: stream._fault is not None, PATIENCE)
    assert way.ends.wait(PATIENCE)  # It was hung up.
    assert [str(each) for each in told] == [str(stream._fault)]
    assert "interrupted" in str(told[0])


def test_a_frame_goes_on_as_it_came(stream, way, monkeypatch):
    came = arrows_own(b"any head and body")
    went = []
    monkeypatch.setattr(way, "write_metadata", went.append)
    stream.send(entries(0, SMALL, message=came))
    assert went == [came]
    assert went[0] is came


def test_a_word_is_given_by_whoever_has_it(stream, way):
    own = threading.current_thread().name
    stream.send(entries(0, SMALL, has_heard=True))
    stream.assure(100)
    assert way.wrote == [(own, 0), (own, 100)]
    assert way.kinds == [FrameKind.NEXT, FrameKind.SURE]


def test_a_word_goes_behind_what_is_written_and_the_last_one_is_enough(stream, way):
    way.goes.clear()
    first = threading.Thread(target=stream.send, args=(entries(0, SMALL),), name="first")
    first.start()
    assert way.entered.wait(PATIENCE)
    for length in (10, 100, 50):
        stream.assure(length)  # Nobody waits for the writer.
    way.goes.set()
    first.join(PATIENCE)
    assert way.await_count(2) == [("first", 0), ("quiver-stream", 100)]
    stream.send(entries(100, SMALL))
    assert way.kinds == [FrameKind.ENTRIES, FrameKind.SURE, FrameKind.ENTRIES]


def test_what_is_not_sure_goes_in_no_frame_with_others(stream, way):
    way.goes.clear()
    stream.send(entries(0, LARGE))
    assert way.entered.wait(PATIENCE)
    for number, has_heard in enumerate([False, False, True, False]):
        stream.send(entries(100_000 + 100 * number, SMALL, has_heard=has_heard))
    way.goes.set()
    offsets = [offset for _, offset in way.await_count(4)]
    assert offsets == [0, 100_000, 100_200, 100_300]
    assert way.kinds[2] is FrameKind.NEXT


def test_a_word_that_cannot_be_written_ends_the_stream(stream, way, told):
    stream.send(entries(0, SMALL, has_heard=True))
    way.fault = flight.FlightUnavailableError("it is gone")
    stream.assure(100)
    way.ends.set()
    with stream._changed:
        assert stream._changed.wait_for(lambda: stream._fault is not None, PATIENCE)
    with pytest.raises(RemoteError):
        stream.assure(200)
    assert len(told) == 1


def test_no_word_is_given_on_a_stream_that_was_closed(stream, way):
    stream.close()
    with pytest.raises(ClosedError):
        stream.assure(100)
    assert way.wrote == []
