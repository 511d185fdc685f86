"""The rules of an executor, one by one; each step by hand, unless threads are what is tested."""

from __future__ import annotations

import threading

import pytest
from toy_source import ToySource, state_place, toy_state

from quiver.errors import CapacityError, ClosedError, InputError, SourceError, StorageError
from quiver.source import (
    AssignSplits,
    Barrier,
    BarrierPassed,
    Pause,
    Resume,
    Snapshots,
    SourceChunk,
    SourceExecutor,
    SourceOptions,
    Split,
    SplitState,
)
from quiver.testing import ManualClock, MemoryDisk


class Bench:
    """One executor over a toy source, with a disk and a clock of its own."""

    def __init__(self, rows: int = 6, history: int = 16, **options: object) -> None:
        self.source = ToySource({"a": range(rows), "b": range(100, 100 + rows)})
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        self.history = history
        self.options = SourceOptions(**{"threads": False, **options})
        self.run = self.open(0)

    def open(self, epoch: int) -> SourceExecutor:
        self.run = SourceExecutor(
            self.source,
            Snapshots(self.disk, connector="toy", history=self.history),
            epoch=epoch,
            clock=self.clock,
            options=self.options,
        )
        return self.run

    def assign(self, epoch: int, *names: str, **more: object) -> BarrierPassed:
        splits = tuple(Split(name) for name in names)
        return self.barrier(epoch, AssignSplits(splits, **more))

    def barrier(self, epoch: int, *mutations: object) -> BarrierPassed:
        self.run.send(Barrier(epoch, mutations))
        event = self.run.next(0)
        assert isinstance(event, BarrierPassed)
        assert event.barrier.epoch == epoch
        return event

    def read(self) -> list[int] | None:
        event = self.run.next(0)
        assert event is None or isinstance(event, SourceChunk)
        return None if event is None else event.batch["value"].to_pylist()

    def drain(self) -> list[int]:
        found = []
        for _ in range(1000):
            values = self.read()
            if values is None:
                return found
            found += values
        raise AssertionError("it never ends")


def test_nothing_is_read_before_the_first_barrier_and_that_has_to_assign_splits() -> None:
    bench = Bench()
    assert bench.read() is None
    with pytest.raises(InputError, match="assigns no splits"):
        bench.run.send(Barrier(1))
    assert bench.source.readers == []
    assert bench.assign(1, "a").states == {}
    assert bench.read() == [0, 1]


def test_without_splits_nothing_comes_and_barriers_still_pass() -> None:
    bench = Bench()
    bench.assign(1)
    for epoch in range(2, 5):
        assert bench.read() is None
        assert bench.barrier(epoch).states == {}


def test_a_barrier_comes_before_chunks_that_are_there() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.run.send(Barrier(2))
    bench.run.send(Barrier(3))
    events = [bench.run.next(0) for _ in range(3)]
    assert [getattr(event, "barrier", None) for event in events] == [Barrier(2), Barrier(3), None]
    assert isinstance(events[2], SourceChunk)


def test_epochs_rise_also_among_those_that_wait() -> None:
    bench = Bench()
    bench.assign(4, "a")
    for epoch in (0, 3, 4):
        with pytest.raises(InputError, match="does not follow 4"):
            bench.run.send(Barrier(epoch))
    bench.run.send(Barrier(7))
    with pytest.raises(InputError, match="does not follow 7"):
        bench.run.send(Barrier(6))


def test_a_split_is_where_the_barrier_says_and_it_is_on_disk_when_the_barrier_comes_out() -> None:
    bench = Bench()
    bench.assign(1, "a", "b")
    assert bench.read() == [0, 1]
    passed = bench.barrier(2)
    assert passed.states == {
        "a": SplitState(toy_state(2), 2, held=True),
        "b": SplitState(None, 2, held=True),
    }
    assert Snapshots(bench.disk, connector="toy").states_at(2) == passed.states


def test_mutations_are_carried_out_behind_their_barrier_only() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.source.readers == []
    assert bench.read() == [0, 1]
    assert set(bench.assign(2, "b").states) == {"a"}
    assert bench.read() == [100, 101]
    assert set(bench.barrier(3).states) == {"a", "b"}


def test_a_split_that_stays_goes_on_whatever_the_assignment_says_of_it() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    readers = len(bench.source.readers)
    bench.assign(2, "a", states={"a": SplitState(toy_state(0), 99)})
    assert bench.read() == [2, 3]
    assert len(bench.source.readers) == readers


def test_a_split_that_comes_begins_where_the_newest_state_says() -> None:
    bench = Bench()
    bench.assign(1, "a", states={"a": SplitState(toy_state(4), 0)})
    assert bench.read() == [4, 5]
    bench.assign(2, "b")
    assert bench.read() == [100, 101]
    bench.assign(3, "a", "b", states={"a": SplitState(toy_state(1), 1)})
    assert bench.run.next(0).split == "b", "a is at its end: what it did here is newer"
    bench.assign(4, "b")
    assert bench.read() is not None
    bench.assign(5, "a", states={"a": SplitState(toy_state(3), 5)})
    assert bench.read() == [3, 4], "another executor was further"


def test_a_split_that_only_goes_may_come_back_and_a_dropped_one_begins_anew() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.assign(2)
    assert bench.barrier(3).states["a"] == SplitState(toy_state(2), 2, held=False)
    bench.assign(4, "a")
    assert bench.read() == [2, 3]
    bench.assign(5, dropped=frozenset({"a"}))
    assert "a" not in bench.barrier(6).states
    bench.assign(7, "a")
    assert bench.read() == [0, 1]


def test_after_a_crash_it_goes_on_from_the_chosen_epoch_and_forgets_those_behind_it() -> None:
    bench = Bench()
    bench.assign(1, "a")
    seen = {1: [0, 1], 2: [2, 3], 3: [4, 5]}
    for epoch, values in seen.items():
        assert bench.read() == values
        bench.barrier(epoch + 1)
    bench.open(3)
    assert Snapshots(bench.disk, connector="toy").epochs == [1, 2, 3]
    bench.assign(4, "a", states={"a": SplitState(toy_state(0), 0)})
    assert bench.read() == [4, 5]
    bench.run.restart(2)
    bench.assign(3, "a")
    assert bench.drain() == [2, 3, 4, 5]
    with pytest.raises(InputError, match=r"epoch 9 is not in .*known are 0, 1, 2, 3"):
        bench.run.restart(9)
    bench.open(0)
    bench.assign(1, "a")
    assert bench.drain() == [0, 1, 2, 3, 4, 5]


def test_an_assigned_start_is_written_at_the_next_barrier_though_no_row_came() -> None:
    bench = Bench(rows=0)
    bench.assign(1, "a", states={"a": SplitState(toy_state(0))})
    bench.barrier(2)
    bench.open(2)
    bench.assign(3, "a", states={"a": SplitState(toy_state(5))})
    bench.source.feed("a", range(9))
    assert bench.read() == [0, 1]


def test_a_retryable_failure_is_met_with_new_readers_after_a_while() -> None:
    bench = Bench(retries_max=2)
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.source.failing["a"] = SourceError("no answer", retryable=True)
    assert bench.read() is None
    assert bench.source.readers[0].is_closed
    bench.clock.step(0.5)
    assert bench.read() is None
    bench.clock.step(0.6)
    assert bench.read() == [2, 3]
    for _ in range(2):
        bench.source.failing["a"] = SourceError("no answer", retryable=True)
        assert bench.read() is None
        bench.clock.step(1.1)
    bench.source.failing["a"] = SourceError("no answer", retryable=True)
    with pytest.raises(SourceError, match="no answer"):
        bench.read()
    assert bench.drain() == [4, 5]


def test_a_failure_that_lasts_is_raised_and_barriers_still_pass() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.source.failing["a"] = SourceError("it is not what it was")
    with pytest.raises(SourceError, match="not what it was"):
        bench.run.next(0)
    assert bench.barrier(2).states["a"].state == toy_state(2)


def test_pause_and_resume_come_with_barriers() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.barrier(2, Pause())
    assert bench.read() is None
    bench.barrier(3)
    assert bench.read() is None
    bench.barrier(4, Resume())
    assert bench.read() == [2, 3]


def test_it_pauses_by_itself_when_barriers_stay_out_and_an_explicit_pause_outlasts_that() -> None:
    bench = Bench(rows=20, barrier_interval=2.0)
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.clock.step(10)
    assert bench.read() == [2, 3]
    bench.clock.step(0.1)
    assert bench.read() is None
    bench.barrier(2)
    assert bench.read() == [4, 5]
    bench.barrier(3, Pause())
    bench.clock.step(11)
    bench.barrier(4)
    assert bench.read() is None


def test_the_source_is_told_of_a_commit_and_of_nothing_before_it() -> None:
    bench = Bench()
    bench.assign(1, "a", "b")
    assert bench.read() == [0, 1]
    bench.barrier(2)
    bench.drain()
    assert bench.source.acked == []
    bench.run.commit(2)
    assert bench.run.acker.pending == {"a": toy_state(2)}
    assert bench.run.acker.tell()
    assert bench.source.acked == [{"a": toy_state(2)}]
    bench.run.commit(2)
    assert bench.run.acker.pending == {}
    with pytest.raises(InputError, match="epoch 5 is not in"):
        bench.run.commit(5)


def test_an_ack_that_fails_is_kept_and_dropped_by_a_restart_or_a_close() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.barrier(2)
    bench.source.refusal = SourceError("not now")
    bench.run.commit(2)
    assert not bench.run.acker.tell()
    assert str(bench.run.acker.failure) == "not now"
    assert bench.run.acker.pending
    bench.run.restart(2)
    assert bench.run.acker.pending == {}
    bench.assign(3, "a")
    assert bench.read() == [2, 3]
    bench.barrier(4)
    bench.run.commit(4)
    bench.run.close()
    assert bench.run.acker.pending == {}
    bench.source.refusal = None
    assert bench.run.acker.tell()
    assert bench.source.acked == []


def test_epochs_that_nobody_commits_stop_the_barriers_and_a_commit_lets_them_on() -> None:
    bench = Bench(history=3)
    bench.assign(1, "a")
    for epoch in (2, 3, 4):
        bench.barrier(epoch)
    bench.run.send(Barrier(5))
    for _ in range(2):
        with pytest.raises(CapacityError, match="none of them is committed"):
            bench.run.next(0)
    bench.run.commit(3)
    event = bench.run.next(0)
    assert isinstance(event, BarrierPassed)
    assert Snapshots(bench.disk, connector="toy", history=3).epochs == [3, 4, 5]
    assert Snapshots(bench.disk, connector="toy").committed == 3


def test_a_barrier_that_cannot_be_written_stays_first() -> None:
    bench = Bench()
    bench.assign(1, "a")
    assert bench.read() == [0, 1]
    bench.run.send(Barrier(2))
    bench.disk.fail(lambda act: "epochs" in getattr(act, "path", ""), error="EIO", sticky=True)
    with pytest.raises(StorageError):
        bench.run.next(0)
    bench.disk.heal()
    event = bench.run.next(0)
    assert isinstance(event, BarrierPassed)
    assert event.states["a"].state == toy_state(2)
    assert bench.read() == [2, 3]


def test_after_close_nothing_is_taken_and_nothing_waits() -> None:
    bench = Bench()
    bench.run.close()
    bench.run.close()
    for act in (
        lambda: bench.run.next(0),
        lambda: bench.run.send(Barrier(1)),
        lambda: bench.run.restart(0),
        lambda: bench.run.commit(1),
    ):
        with pytest.raises(ClosedError):
            act()


def test_with_threads_a_barrier_wakes_who_waits_and_all_rows_come_once() -> None:
    bench = Bench(rows=50, threads=True)
    with bench.run as run:
        bench.run.send(Barrier(1, (AssignSplits((Split("a"), Split("b"))),)))
        found: list[int] = []
        epochs: list[int] = []
        for _ in range(1000):
            event = run.next(10)
            if isinstance(event, SourceChunk):
                found += event.batch["value"].to_pylist()
            elif event is not None:
                epochs.append(event.barrier.epoch)
            if len(found) == 100:
                break
        assert sorted(found) == [*range(50), *range(100, 150)]
        assert epochs == [1]
        sender = threading.Timer(0, lambda: run.send(Barrier(2)))
        sender.start()
        event = run.next(60) or run.next(60)
        assert event.states["a"].state == toy_state(50)
        sender.join()
        run.commit(2)
        for _ in range(1000):
            if bench.source.acked:
                break
            threading.Event().wait(0.01)
        assert {s: state_place(t) for s, t in bench.source.acked[0].items()} == {"a": 50, "b": 50}
