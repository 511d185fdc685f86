"""A pause reaches whoever takes bundles in another process, and an inbox holds up nobody."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
from beside_kit import FOLDER, Beside, take

import quiver
from quiver.acks.letterbox import holding
from quiver.testing import ManualClock


def test_pausing_stops_a_consumer_that_comes_then(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 1)
    store.subscribe("reader")
    store.pause("reader")
    assert beside.subscribe().poll() is None
    store.resume("reader")
    assert take(beside.subscribe()) == [0]


def test_a_pause_and_its_end_reach_a_consumer_that_goes_on(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 4)
    consumer = beside.subscribe()
    handle = consumer.poll()
    store.maintain()
    store.pause("reader")
    store.maintain()
    before = consumer._change_count
    consumer.refresh()
    assert consumer._change_count > before
    assert (consumer.poll(), consumer.lags()[0].is_paused) == (None, True)
    handle.ack()  # What it has in hands it may bring to an end.
    consumer.commit()
    assert beside.inbox().paused
    store.maintain()
    assert (store.lag("reader").bundle_count, beside.inbox().paused) == (3, True)
    store.resume("reader")
    store.maintain()
    assert not beside.inbox().paused
    consumer.refresh()
    assert take(consumer) == [1, 2, 3]
    consumer.commit()
    assert store.maintain() == 1


def test_a_commit_follows_a_pause_and_does_not_undo_it(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 2)
    consumer = beside.subscribe()
    store.maintain()
    consumer.poll().ack()
    store.pause("reader")
    store.maintain()
    consumer.commit()
    assert consumer.poll() is None
    assert beside.inbox().paused
    store.close()
    assert beside.subscribe().poll() is None


def test_a_pause_waits_for_whoever_is_at_the_inbox(beside: Beside) -> None:
    store = beside.open()
    beside.fill(store, 1)
    consumer = beside.subscribe()
    store.maintain()
    store.pause("reader")
    beside.clock.step("1h")
    with holding(beside.disk, FOLDER, "reader"):
        store.maintain()
        assert not beside.inbox().paused
    store.maintain()
    assert beside.inbox().paused
    consumer.refresh()
    assert consumer.poll() is None


def test_a_pause_is_told_in_an_inbox_that_has_no_more_to_tell(tmp_path: Path) -> None:
    clock = ManualClock(wall_ns=time.time_ns())
    config = {"clock": clock, "worker": False}
    with quiver.open(tmp_path / "s", slots=["x"], **config) as store:
        store.append({"x": pa.table({"n": [1]})})
        store.finalize()
        with quiver.subscribe(tmp_path / "s", "reader", **config) as consumer:
            clock.step("1h")
            store.maintain()
            assert "reader" in store._core.folded
            for paused in (True, False):
                (store.pause if paused else store.resume)("reader")
                store.maintain()
                consumer.refresh()
                assert consumer.lags()[0].is_paused == paused
