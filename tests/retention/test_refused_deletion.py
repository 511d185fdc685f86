"""A disk that keeps a file it was told to delete: others go, and nothing is counted twice."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from store_kit import abandon, bundle, numbers, on_memory

import quiver
from quiver.testing import MemoryDisk
from quiver.testing.acts import Unlink

KNOBS: dict[str, Any] = {
    "segment": {"target_size": 8000, "max_open_duration": "1000h"},
    "limits": {"entry_bytes": 12_000},
    "wal": {"max_size": 30_000, "rotate_size": 15_000, "reclaim_size": 4096},
}


def knobs(policy: str = "backpressure") -> dict[str, Any]:
    return {**KNOBS, "retention": {"size_cap": 200_000, "size_cap_policy": policy}}


def refuse_first(disk: MemoryDisk, store: quiver.Store, *, sticky: bool) -> int:
    """Let the oldest segment stay, whoever deletes it, and give its number of bundles."""
    first = next(iter(store._core.catalog))
    disk.fail(lambda a: isinstance(a, Unlink) and a.path == first.path, sticky=sticky)
    return first.bundle_count


def test_a_segment_that_cannot_be_deleted_does_not_keep_the_others() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs())
    store.subscribe("reader")
    for number in range(100):
        store.append(bundle(number))
    store.finalize()
    assert len(numbers(store)) == 100
    there = store.info().segments
    assert there > 3
    refuse_first(disk, store, sticky=True)
    for _ in range(2):
        with pytest.raises(quiver.StorageError):
            store.maintain()
        assert store.info().segments == 1
        assert store.metrics()["quiver.retention.evicted_segments", "steady"] == there - 1
    disk.heal()
    assert store.maintain() == 1
    assert store.metrics()["quiver.retention.evicted_segments", "steady"] == there


@pytest.mark.parametrize("subscribers", [(), ("reader",)])
def test_a_segment_whose_deletion_is_tried_again_is_dropped_once(subscribers) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs("drop_oldest"))
    for name in subscribers:
        store.subscribe(name)
    for number in range(100):
        store.append(bundle(number))
    store.finalize()
    count = refuse_first(disk, store, sticky=False)
    with pytest.raises(quiver.StorageError):
        for number in range(100, 2000):
            store.append(bundle(number))
    store.maintain()
    store.append(bundle(number))
    assert store.metrics()["quiver.segment.dropped", "size"] == 1
    assert store.metrics()["quiver.segment.dropped_bundles", "size"] == count


@pytest.mark.parametrize("subscribers", [(), ("reader",)])
def test_what_cannot_be_deleted_is_no_reason_to_refuse_bundles(subscribers) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs("drop_oldest"))
    for name in subscribers:
        store.subscribe(name)
    for number in range(100):
        store.append(bundle(number))
    store.finalize()
    refuse_first(disk, store, sticky=True)
    refused = 0
    for number in range(300):
        try:
            store.append(bundle(number))
        except quiver.StorageError:
            refused += 1
    assert refused == 1
    assert store.metrics()["quiver.segment.dropped", "size"] > 3


def test_a_drop_that_a_signal_broke_off_stops_the_store() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **knobs("drop_oldest"))
    store.subscribe("reader")
    strike = mock.patch.object(store._core.registry, "drop", side_effect=KeyboardInterrupt)
    with strike, pytest.raises(KeyboardInterrupt):
        for number in range(2000):
            store.append(bundle(number))
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(number))
    abandon(store)
    store = on_memory(disk, **knobs("drop_oldest"))
    store.finalize()
    found = numbers(store)
    assert 0 < found[0] < number
    assert found == list(range(found[0], number))
