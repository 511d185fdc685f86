"""Work on segments stops for a moment now and then, for as long as bundles come."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import quiver
from quiver.engine import open as open_store
from quiver.engine.manners import Manners
from quiver.testing.manual_clock import ManualClock
from quiver.units import MILLISECOND

BATCH = pa.record_batch({"n": list(range(2000))})


class Watched(ManualClock):
    """Notes who paused, and moves on by ``stride`` with each look."""

    def __init__(self, stride: int = 0) -> None:
        super().__init__()
        self.stride = stride
        self.pauses: list[str] = []

    def monotonic_ns(self) -> int:
        self.step(self.stride / 1_000_000_000)
        return super().monotonic_ns()

    def pause(self, seconds: float) -> None:
        assert 0 < seconds < 0.001
        self.pauses.append(threading.current_thread().name)


def test_it_stays_away_after_a_stretch_of_work_if_bundles_came():
    clock, came = Watched(), [0]
    manners = Manners(clock, lambda: came[0])
    came[0] += 1
    manners.rest()
    assert clock.pauses == []
    clock.step("1ms")
    manners.rest()
    assert len(clock.pauses) == 1
    manners.rest()
    assert len(clock.pauses) == 1


def test_it_goes_on_while_no_bundle_comes():
    clock, came = Watched(), [7]
    manners = Manners(clock, lambda: came[0])
    for _ in range(5):
        clock.step("10ms")
        manners.rest()
    assert clock.pauses == []


def test_each_thread_has_a_stretch_of_its_own():
    clock, came = Watched(), [0]
    manners = Manners(clock, lambda: came[0])

    def work():
        manners.rest()
        came[0] += 1
        clock.step("1ms")
        manners.rest()

    work()
    other = threading.Thread(target=work, name="other")
    other.start()
    other.join()
    manners.rest()
    assert clock.pauses == ["MainThread", "other", "MainThread"]


class Busy(Watched):
    """Has a bundle appended with each look at it while a segment is written."""

    store: quiver.Store | None = None

    def monotonic_ns(self) -> int:
        store, self.store = self.store, None
        if store is not None:
            if store._core.writer is not None:
                store.append({"a": BATCH})
            self.store = store
        return super().monotonic_ns()


@pytest.mark.parametrize("how", ["keep", "unite"])
@pytest.mark.usefixtures("as_another_thread")
def test_the_writing_of_a_segment_lets_appends_in(tmp_path, how):
    clock = Busy(MILLISECOND)
    config = {"segment": {"max_open_duration": "1h", "dictionaries": how}}
    with open_store(tmp_path, slots=["a"], config=config, clock=clock, worker=False) as store:
        for _ in range(3):
            store.append({"a": BATCH})
        store.finalize()
        assert clock.pauses == []
        for _ in range(3):
            store.append({"a": BATCH})
        clock.store = store
        store.finalize()
        clock.store = None
        assert clock.pauses != []
        count = store._core.next_wal_seq
    assert quiver.scan(tmp_path, slot="a").to_table().num_rows == count * len(BATCH)
