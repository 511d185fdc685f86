"""An inbox that grows is freed of what the store has, and of nothing that it may still lose."""

from __future__ import annotations

import pytest
from beside_kit import Beside, peek, take

from quiver.consumer import lease
from quiver.engine.fold import fold
from quiver.testing import MemoryDisk


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "_LARGE_BYTES", 0)


def test_what_the_store_has_is_not_said_again(beside: Beside) -> None:
    store = beside.open()
    store.subscribe("other")
    beside.fill(store, 3, 3, 3)
    consumer = beside.subscribe()
    for _ in range(3):
        consumer.poll_run(2).ack()
        consumer.poll_run(2).ack()
        consumer.commit()
        store.maintain()
    consumer.refresh()
    consumer._followers[0].gathered.is_dirty = True
    consumer.commit()
    consumer._followers[0].gathered.is_dirty = True
    consumer.commit()
    assert beside.inbox().segments == ()
    assert store.lag("reader").bundle_count == 0
    assert take(beside.subscribe()) == []


def test_what_is_not_said_again_survives_a_power_cut(beside: Beside) -> None:
    """The store folded it in and did not sync it yet when the consumer saw it there."""
    store = beside.open()
    store.subscribe("other")
    beside.fill(store, 4)
    consumer = beside.subscribe()
    store.maintain()
    consumer.poll_run(2).ack()
    consumer.commit()
    synced: list[str] = []
    honest = beside.disk.act

    def act(op):
        if type(op).__name__ == "Sync":
            synced.append(op.path)
        return honest(op)

    beside.disk.act = act
    with store._core.lock:
        assert fold(store._core) == 2
    assert not synced
    for _ in range(2):
        consumer._followers[0].gathered.is_dirty = True
        consumer.commit()
    assert beside.inbox().segments == ()
    assert "core_0/acks/ack.log" in synced
    beside.die(store)
    beside.disk = MemoryDisk(beside.disk.tree)
    assert peek(beside.open().subscribe("reader")) == [2, 3]
