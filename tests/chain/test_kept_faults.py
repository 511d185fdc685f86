"""Why a stream broke is kept as long as its block is open, and nothing of what came on it is."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from quiver.chain.node.passage import Passage
from quiver.chain.peers import Ack, BlockName, Entries, Route, without_frames
from quiver.chain.wire import incoming
from quiver.chain.wire.incoming import Incoming
from quiver.chain.wire.messages import Frame, FrameKind
from quiver.chain.wire.settings import WireOptions
from quiver.chain.wire.watch import Watchdog
from quiver.chain.workers import ThreadWorkers
from quiver.errors import InputError, QuiverError, RemoteError
from quiver.testing import ManualClock

ROUTE = Route(BlockName("p", 0), 1, ("n1",))


class Body(np.ndarray):
    """Bytes of which it can be known whether anybody has them."""


class Refusing:
    """A node, and its stream: it takes nothing."""

    name = "n1"

    def stream(self, *_, **__):
        return self

    def send(self, entries):
        try:
            raise ValueError(f"{len(entries.body)} bytes are too many")
        except ValueError as error:
            raise InputError("these entries are refused") from error

    def close(self):
        pass


def test_a_frame_that_was_refused_is_let_go(monkeypatch):
    body = np.zeros(1 << 16, np.uint8).view(Body)
    kept = weakref.ref(body)
    frames = [(Frame(FrameKind.ENTRIES, 0, 1, 0, 0), memoryview(body))]
    monkeypatch.setattr(incoming, "sent", lambda _: frames.pop())
    stream = Incoming(ROUTE, "n1", options=WireOptions())
    stream.open(Refusing(), Watchdog(ManualClock(), every=0))

    class Reader:
        def read_chunk(self):
            return None

    del body
    stream.feed(Reader())
    assert kept() is None
    told = list(stream.acks())
    assert [frame.kind for frame, _ in told] == [FrameKind.HEARTBEAT, FrameKind.ERROR]
    assert b"these entries are refused" in told[-1][1]


class Copy:
    """Takes a stream, and no entries."""

    def begin(self, _):
        return 1

    def look_at(self, entries):
        return [entries]

    def append(self, _, entries, found):
        raise InputError(f"{len(found)} entries are refused")


def test_a_passage_that_broke_keeps_nothing_of_what_broke_it():
    told: list[QuiverError] = []
    passage = Passage(
        Copy(), ROUTE, workers=ThreadWorkers(), acked=lambda _: None, broken=told.append
    )
    body = np.zeros(1 << 16, np.uint8).view(Body)
    kept = weakref.ref(body)
    with pytest.raises(InputError) as caught:
        passage.send(Entries(1, 0, 0, memoryview(body)))
    assert told == [caught.value]
    without_frames(caught.value)  # As whoever feeds it does in the end.
    del caught, body
    assert kept() is None
    passage.acked(Ack(0, -1))


def test_all_that_led_to_an_error_lets_go_as_well():
    def fail():
        try:
            raise ValueError("first")
        except ValueError:
            raise RemoteError("second", path="n") from None

    with pytest.raises(RemoteError) as caught:
        fail()
    error = caught.value
    error.__cause__ = error  # A circle, as nobody should make one.
    without_frames(error)
    assert error.__traceback__ is None
    assert error.__context__.__traceback__ is None
