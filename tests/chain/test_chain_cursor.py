"""A cursor of a chain over partitions of which a test says what they show, and when."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from dataclasses import replace
from queue import SimpleQueue

import pytest
from chain_wire_kit import PATIENCE
from strikes import AGAIN, Struck, struck_by_alarms

from quiver.chain.reading import ChainCursor, ChainMessage, CursorRules, Silence
from quiver.chain.reading import cursor as cursor_room
from quiver.chain.reading.following import Followed
from quiver.errors import (
    CapacityError,
    ClosedError,
    InputError,
    RemoteError,
    WaitTimeoutError,
)
from quiver.testing import ManualClock
from quiver.units import SECOND

LIVE = CursorRules(live=True, idle_seconds=2.0)


class Lane:
    """What is said to one thread of a cursor, and that it has heard it."""

    def __init__(self) -> None:
        self.words, self.heard = SimpleQueue(), SimpleQueue()


class Said:
    """Says what comes of each partition, and waits until the cursor has heard it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.begun_ns = self.clock.wall_ns()
        self.lanes = defaultdict(list)

    def follow(self, asked):
        lane = asked.metadata
        while (word := lane.words.get()) is not None:
            yield word
            lane.heard.put(None)

    def say(self, name, *words):
        for word in words:
            self.lanes[name][-1].words.put(word)
            self.lanes[name][-1].heard.get(timeout=PATIENCE)

    def end(self, *names):
        for name in names:
            for lane in self.lanes[name]:
                lane.words.put(None)

    def message(self, name, number, *, after=0.0):
        """Give one of so many seconds behind the beginning."""
        at = self.begun_ns + int(after * SECOND) + number
        return ChainMessage(at, name, number, {})

    def cursor(self, *names, rules=LIVE):
        return ChainCursor(names, self.followed, rules=rules, clock=self.clock)

    def followed(self, name):
        self.lanes[name].append(Lane())
        return Followed(
            self.lanes[name][-1], None, self.clock, name, lambda: None, start_ns=0, end_ns=0
        )


@pytest.fixture
def said(monkeypatch):
    made = Said()
    monkeypatch.setattr(cursor_room, "follow", made.follow)
    return made


def reading() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("quiver-cursor")}


def joined(before: set[threading.Thread]) -> None:
    """Wait until all threads that were not there before are gone."""
    for each in reading() - before:
        each.join(PATIENCE)
    assert not reading() - before


# idle, or not to be read -------------------------------------------------------------------------


def test_a_partition_that_cannot_be_read_is_waited_for_however_old_another_ones_message_is(said):
    with said.cursor("A", "B") as cursor:
        first, earlier = said.message("A", 5), said.message("B", 1)
        said.say("A", first)
        said.say("B", Silence.UNKNOWN)
        said.clock.step("1h")
        assert cursor.poll() is None
        said.say("B", Silence.IDLE, Silence.UNKNOWN)  # It was idle, and nobody knows if it is.
        assert cursor.poll() is None
        said.say("B", earlier)
        assert cursor.poll() is earlier
        assert cursor.poll() is None
        said.say("B", Silence.IDLE)
        assert cursor.poll() is first
        said.end("A", "B")


def test_a_clock_that_is_behind_lets_a_message_go_once_it_was_there_for_so_long(said):
    with said.cursor("A", "B") as cursor:
        late = [said.message("A", number, after=60.0) for number in range(3)]
        said.say("A", *late[:2])
        said.say("B", Silence.IDLE)
        said.clock.step("1s")
        said.say("A", late[2])
        assert cursor.poll() is None
        said.clock.step("1s")
        assert [cursor.poll() for _ in range(3)] == [*late[:2], None]
        said.clock.step("1s")
        assert cursor.poll() is late[2]
        said.end("A", "B")


# interrupts --------------------------------------------------------------------------------------


def test_no_interrupt_skips_a_message_or_gives_it_twice_or_leaves_a_lock_taken(said):
    count = 40
    struck, found = 0, []  # So often since one was given, and what was.
    cursor = said.cursor("A", rules=CursorRules())
    said.say("A", *(said.message("A", number) for number in range(count)))
    said.end("A")
    with struck_by_alarms():
        while True:
            message = None
            try:
                # In the midst of the call: a little later each time, until the call is faster.
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + struck), AGAIN)
                message = cursor.poll()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Struck:
                struck += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if message is not None:
                struck = 0
                found.append(message.wal_seq)
                assert cursor.position == {"A": (message.time_ns, message.wal_seq)}
            elif cursor.is_at_end:
                break
    assert found == list(range(count))
    cursor.close()


@pytest.mark.parametrize("step", ["_drop_given", "_chosen", "_faulty", "_is_over"])
def test_an_interrupt_of_a_step_comes_before_a_message_was_given(said, monkeypatch, step):
    cursor = said.cursor("A", rules=CursorRules())
    sent = [said.message("A", number) for number in range(3)]
    said.say("A", *sent)
    said.end("A")
    found = [cursor.next(PATIENCE)]
    real = getattr(ChainCursor, step)

    def interrupted(self):
        monkeypatch.setattr(ChainCursor, step, real)
        real(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(ChainCursor, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        while (message := cursor.next(PATIENCE)) is not None:
            found.append(message)
    while (message := cursor.next(PATIENCE)) is not None:
        found.append(message)
    assert found == sent
    cursor.close()


def test_an_interrupt_of_a_wait_is_told_as_what_it_is(said, monkeypatch):
    cursor = said.cursor("A")

    def interrupted(_):
        cursor._lock.release()  # As a condition lets go of it while it waits.
        raise KeyboardInterrupt

    monkeypatch.setattr(cursor._changed, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cursor.next(PATIENCE)
    monkeypatch.undo()
    cursor.close()


def test_an_interrupt_of_a_fault_that_is_raised_does_not_lose_it(said, monkeypatch):
    monkeypatch.setattr(cursor_room, "follow", failing)
    before = reading()
    cursor = said.cursor("A", rules=CursorRules())
    joined(before)
    real = ChainCursor._faulty

    def interrupted(self):
        monkeypatch.setattr(ChainCursor, "_faulty", real)
        real(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(ChainCursor, "_faulty", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cursor.poll()
    with pytest.raises(RemoteError):
        cursor.poll()
    assert cursor.next() is None
    cursor.close()


def failing(asked):
    yield from ()
    raise RemoteError(f"nobody has {asked.partition}", retryable=True)


# what is refused ---------------------------------------------------------------------------------


def test_a_reset_that_is_refused_leaves_it_where_it_was(said):
    rules = replace(LIVE, end_ns=said.begun_ns + SECOND)
    with said.cursor("A", rules=rules) as cursor:
        sent = [said.message("A", number) for number in range(2)]
        said.say("A", *sent)
        assert cursor.next(PATIENCE) is sent[0]
        with pytest.raises(InputError, match="ends before it starts"):
            cursor.reset(said.begun_ns + 2 * SECOND)
        assert not cursor.is_at_end
        assert cursor.position == {"A": (sent[0].time_ns, 0)}
        assert cursor.next(PATIENCE) is sent[1]
        said.end("A")


def test_a_cursor_that_was_closed_is_not_reset(said):
    before = reading()
    cursor = said.cursor("A")
    said.end("A")
    cursor.close()
    joined(before)
    with pytest.raises(ClosedError):
        cursor.reset(0)
    assert reading() == before


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), -1.0, 1e300])
def test_a_time_to_wait_that_is_none_is_refused_at_once(seconds):
    with pytest.raises(InputError, match="idle_seconds"):
        CursorRules(idle_seconds=seconds)


@pytest.mark.parametrize("is_reset", [False, True], ids=["made", "reset"])
def test_without_a_thread_for_the_second_partition_none_is_left_for_the_first(
    said, monkeypatch, is_reset
):
    before = reading()
    cursor = said.cursor("A", "B") if is_reset else None
    kept = reading()
    real = threading.Thread.start

    def start(self):
        if self.name == "quiver-cursor B":
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(CapacityError, match="no thread to read B"):
        cursor.reset(0) if cursor is not None else said.cursor("A", "B")
    said.lanes["A"][-1].words.put(Silence.IDLE)  # A thread that is stopped ends there.
    joined(kept)
    assert reading() == kept
    said.end("A", "B")
    if cursor is not None:
        cursor.close()
    joined(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nobody forks here")
def test_a_forked_child_is_told_so_and_ends_nothing(said):
    with said.cursor("A") as cursor:
        said.say("A", said.message("A", 0), said.message("A", 1))
        assert cursor.next(PATIENCE).wal_seq == 0
        child = os.fork()
        if not child:
            told = 0
            for act in (cursor.next, cursor.poll, lambda: cursor.reset(0)):
                try:
                    act()
                except ClosedError:
                    told += 1
            cursor.close()
            os._exit(told)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert cursor.next(PATIENCE).wal_seq == 1
        with pytest.raises(WaitTimeoutError):
            cursor.next(0)
        said.end("A")
