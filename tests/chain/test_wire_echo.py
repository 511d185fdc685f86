"""As of when a heartbeat counts, by how far its sender has heard."""

from __future__ import annotations

from typing import Any

import pytest
from chain_wire_kit import CALM, ROUTE

from quiver.chain.wire.echo import Echo
from quiver.chain.wire.incoming import Incoming
from quiver.chain.wire.messages import Frame, FrameKind
from quiver.testing.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def echo(clock) -> Echo:
    return Echo(clock.monotonic_ns)


def test_who_has_heard_all_that_was_sent_is_heard_now(clock, echo):
    clock.step(1)
    assert echo.heard(0) == clock.monotonic_ns()  # Nothing was.
    echo.sends(100, 100)
    clock.step(1)
    assert echo.heard(100) == clock.monotonic_ns()


def test_who_lacks_something_is_heard_as_of_when_that_was_sent(clock, echo):
    echo.sends(100, 100)
    echo.heard(100)
    clock.step(1)
    sent = clock.monotonic_ns()
    echo.sends(200, 100)
    clock.step(1)
    echo.sends(300, 200)  # It is the first of them that counts.
    assert echo.heard(100) == sent
    clock.step(1)
    assert echo.heard(199) == sent
    assert echo.heard(300) == clock.monotonic_ns()


def test_what_went_before_the_one_before_was_heard_is_waited_for_as_well(clock, echo):
    """The case of each entry, where acks linger at a tail."""
    echo.sends(100, 100)
    clock.step(1)
    echo.sends(200, 200)
    clock.step(1)
    sent = clock.monotonic_ns()
    echo.sends(300, 300)
    clock.step(1)
    assert echo.heard(100) == sent
    assert echo.heard(200) == sent
    assert echo.heard(300) == clock.monotonic_ns()


def test_what_may_wait_behind_much_on_a_slow_link_says_nothing(clock, echo):
    echo.sends(1 << 20, 1 << 20)
    clock.step(9)
    assert echo.heard(0) == clock.monotonic_ns()
    echo.sends((1 << 20) + 100, (64 << 10) + 1)
    assert echo.heard(0) == clock.monotonic_ns()
    sent = clock.monotonic_ns()
    echo.sends((1 << 20) + 200, 64 << 10)
    clock.step(9)
    assert echo.heard(0) == sent


def test_what_others_say_was_heard_is_waited_for_no_more(clock, echo):
    echo.sends(100, 100)
    clock.step(1)
    sent = clock.monotonic_ns()
    echo.sends(200, 100, is_next=True)
    clock.step(1)
    assert echo.heard(0) == sent
    echo.sends(300, 65 << 10, is_next=True)  # It says nothing of itself.
    assert echo.heard(200) == clock.monotonic_ns()


def test_a_heartbeat_says_how_far_it_heard_and_nothing_while_that_is_worked_on():
    stream = Incoming(ROUTE, "a", options=CALM)
    seen = []

    class Looks:
        def send(self, _: Any) -> None:
            seen.append(stream._heartbeat().offset)

    stream._stream = Looks()
    assert stream._heartbeat().offset == 1
    frame = Frame(FrameKind.ENTRIES, ROUTE.block.number, 5, 10, 0, 7)
    stream._pass_on(frame, memoryview(b"entries"))
    assert seen == [0]
    assert stream._heartbeat().offset == 10 + 7 + 1
