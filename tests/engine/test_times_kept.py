"""What is promised of times holds whatever is forgone, refused, full, or at the end of time."""

from __future__ import annotations

import pytest
from store_kit import SLOTS, abandon, bundle, on_memory

import quiver
from quiver.engine import forgoing, ingest, sealed
from quiver.engine.timekeeping import keep_times, read_timeline
from quiver.errors import CapacityError
from quiver.testing import ManualClock, MemoryDisk
from quiver.timeline import TIME_MAX, TIMELINE_BYTES

START = ManualClock().wall_ns()
WRITER = {"segment": {"time": "writer"}}
CALLER = {"segment": {"time": "caller"}}


def times(store: quiver.Store) -> list[int]:
    with store.cursor() as cursor:
        return [message.time_ns for message in cursor]


def least_ns(store: quiver.Store) -> int:
    """Give what readers rely on."""
    saved = read_timeline(store._core.disk, store._core.folder)
    assert saved is not None
    return saved.least_ns


def last_ns(store: quiver.Store) -> int:
    found = store._core.times.last_ns
    assert found is not None
    return found


def test_the_rule_holds_behind_a_segment_that_was_never_written(clock) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **WRITER)
    store.subscribe("a")
    store.append(bundle(1))
    store.ack_early("a", [0])
    with store._core.lock:
        sealed.seal(store._core)
        assert forgoing.forgo(store._core)
        sealed.try_reclaim(store._core)
    abandon(store)
    clock.jump_to(1)
    again = quiver.open("memory", core=0, disk=disk, clock=clock, worker=False, config=WRITER)
    again.append(bundle(2))
    assert last_ns(again) == START + 1


@pytest.mark.usefixtures("as_another_thread")
def test_what_waits_and_may_be_refused_is_no_promise() -> None:
    store = quiver.open(
        "m", slots=SLOTS, disk=MemoryDisk(), config=CALLER, clock=ManualClock(), core=0
    )
    store.append(bundle(1), time=5)
    core = store._core
    with core.lock:
        receipt = store.append(bundle(2), time=9, wait=False)
        keep_times(core)
        assert receipt.wal_seq < core.next_wal_seq
        assert not core.outgoing
    store.append(bundle(3), time=9)
    store.close()


def test_a_heartbeat_of_an_earlier_rule_promises_nothing(opener, clock) -> None:
    store = opener(WRITER)
    store.append(bundle(1))
    clock.step("1h")
    store.heartbeat()
    store.close()
    clock.jump_to(START)
    store = opener()
    store.append(bundle(2))
    store.close()
    store = opener(WRITER)
    store.append(bundle(3))
    assert least_ns(store) <= last_ns(store)


@pytest.mark.parametrize("given", [TIME_MAX, TIME_MAX - 1])
def test_the_end_of_time_may_be_promised_and_given(opener, given) -> None:
    store = opener(CALLER)
    assert store.heartbeat(given) == TIME_MAX - 1
    store.append(bundle(1), time=TIME_MAX)
    store.close()
    store = opener(CALLER)
    with pytest.raises(quiver.OutOfSequenceError):
        store.append(bundle(2), time=TIME_MAX - 1)
    store.append(bundle(3), time=TIME_MAX)


def test_a_writer_at_the_end_of_time_is_told_and_may_close(opener) -> None:
    store = opener(CALLER)
    store.append(bundle(1), time=TIME_MAX)
    store.close()
    store = opener(WRITER)
    for _ in range(2):
        with pytest.raises(CapacityError, match="used up"):
            store.append(bundle(2))
        store.maintain()
    store.finalize()
    store.close()


def test_a_clock_behind_the_end_of_time_is_told(opener, clock) -> None:
    store = opener(WRITER)
    store.append(bundle(1))
    clock.jump_to(TIME_MAX + 10)
    with pytest.raises(CapacityError, match="used up"):
        store.append(bundle(2))
    store.maintain()
    store.close()


def test_what_stands_in_for_a_timeline_on_a_full_disk_has_its_room(opener, path) -> None:
    store = opener(CALLER)
    store.append(bundle(1), time=5)
    assert (path / "core_0" / "heartbeat").stat().st_size == TIMELINE_BYTES


@pytest.mark.parametrize("options", [{}, CALLER], ids=["options of nobody", "the caller's"])
def test_a_dead_letter_that_comes_again_leaves_the_times_to_the_caller(opener, options) -> None:
    store = opener(CALLER)
    store.subscribe("a")
    for time in (5, 9):
        store.append(bundle(time), time=time)
    store.close()
    store = opener(options)
    store.append_for("a", bundle(1))
    store.finalize()
    assert last_ns(store) == 9
    store.append_for("a", bundle(2))
    store.close()
    store = opener(CALLER)
    store.append(bundle(3), time=9)
    store.append(bundle(4), time=10)
    store.finalize()
    assert times(store) == [5, 9, 9, 9, 9, 10]


def test_a_dead_letter_of_a_writer_comes_behind_all_others(opener, clock) -> None:
    store = opener(WRITER)
    store.subscribe("a")
    store.append(bundle(1))
    store.close()
    clock.jump_to(START - 10)
    store = opener()
    store.append_for("a", bundle(2))
    store.finalize()
    store.close()
    store = opener(WRITER)
    store.append(bundle(3))
    store.finalize()
    assert times(store) == [START, START + 1, START + 2]


@pytest.mark.usefixtures("as_another_thread")
def test_an_append_while_a_dead_letter_waits_for_room_in_memory(opener, monkeypatch) -> None:
    store = opener(CALLER)
    store.subscribe("a")
    store.append(bundle(1), time=5)
    taken = ingest.take

    def overtaken(core, payloads, **given):
        monkeypatch.setattr(ingest, "take", taken)
        store.append(bundle(2), time=7)
        return taken(core, payloads, **given)

    monkeypatch.setattr(ingest, "take", overtaken)
    store.append_for("a", bundle(3))
    store.finalize()
    assert times(store) == [5, 7, 7]
