"""Bundles that subscribers have before their segment is there, and segments that nobody needs."""

from __future__ import annotations

import threading

import pytest
from gated_disk import PATIENCE
from store_kit import abandon, bundle, numbers, on_memory

import quiver
from quiver.engine import forgoing, sealed
from quiver.errors import SubscriberError
from quiver.testing import MemoryDisk


def opened(*names: str, disk: MemoryDisk | None = None, **config: object) -> quiver.Store:
    """Open a store with four bundles in no segment yet, and subscribers to it."""
    store = on_memory(disk or MemoryDisk(), **config)
    for name in names:
        store.subscribe(name)
    for number in range(4):
        store.append(bundle(number))
    return store


def forgo(store: quiver.Store) -> bool:
    """Seal what is open, and do without its file if nobody needs it."""
    core = store._core
    with core.lock:
        if core.sealed is None:
            sealed.seal(core)
        return forgoing.forgo(core)


def test_a_segment_that_all_subscribers_have_already_is_not_written() -> None:
    disk = MemoryDisk()
    store = opened("a", "b", disk=disk)
    for name in "ab":
        assert store.ack_early(name, [0, 1, 2, 3]) == []
    assert forgo(store)
    assert store.metrics()["quiver.segment.forgone_segments", ""] == 1
    assert ("quiver.segment.finalized_segments", "") not in store.metrics()
    info = store.info()
    assert (info.open_bundles, info.segments, info.next_segment_seq) == (0, 0, 1)
    assert numbers(store, "a") == numbers(store, "b") == []
    store.append(bundle(4))
    abandon(store)
    again = on_memory(MemoryDisk(disk.tree))
    again.finalize()
    assert numbers(again, "a") == numbers(again, "b") == [4]


def test_what_one_of_them_does_not_have_becomes_a_segment_and_comes_to_that_one() -> None:
    store = opened("a", "b")
    store.ack_early("a", [0, 1, 2, 3])
    store.ack_early("b", [1, 3])
    assert not forgo(store)
    info = store.finalize()
    assert info is not None
    assert info.bundle_count == 4
    assert (store.lag("a").bundle_count, store.lag("b").bundle_count) == (0, 2)
    assert numbers(store, "b") == [0, 2]
    assert numbers(store, "a") == []
    assert store.maintain() == 1


def test_what_was_had_early_is_forgotten_by_a_kill_and_comes() -> None:
    disk = MemoryDisk()
    store = opened("a", disk=disk)
    store.ack_early("a", [0, 1, 2, 3])
    abandon(store)
    again = on_memory(MemoryDisk(disk.tree))
    again.finalize()
    assert numbers(again, "a") == [0, 1, 2, 3]


def test_it_is_too_late_for_what_has_its_segment_and_that_comes() -> None:
    store = opened("a")
    store.finalize()
    store.append(bundle(4))
    assert store.ack_early("a", [3, 4]) == [3]
    assert numbers(store, "a") == [0, 1, 2, 3]


def test_who_starts_over_gets_what_it_had_and_who_is_new_gets_all_of_it() -> None:
    store = opened("a")
    store.ack_early("a", [0, 1, 2, 3])
    store.reset("a")
    store.subscribe("late")
    assert not forgo(store)
    store.finalize()
    assert numbers(store, "a") == numbers(store, "late") == [0, 1, 2, 3]
    with pytest.raises(SubscriberError):
        store.ack_early("nobody", [4])


@pytest.mark.parametrize(
    "config",
    [{"retention": {"steady_state_headroom": "1MiB"}}, {"wal": {"durability": "segment"}}],
    ids=["headroom", "no log"],
)
def test_a_segment_that_is_wanted_all_the_same_is_written(config) -> None:
    store = opened("a", **config)
    store.ack_early("a", [0, 1, 2, 3])
    assert not forgo(store)


def test_whoever_wants_to_hear_of_segments_hears_of_each() -> None:
    store = opened("a")
    told: list[int] = []
    store.on_finalize(lambda info: told.append(info.bundle_count))
    store.ack_early("a", [0, 1, 2, 3])
    assert not forgo(store)
    store.finalize()
    assert told == [4]


def test_the_scribe_waits_for_who_is_about_to_have_it(open_gated) -> None:
    store = open_gated(segment={"target_size": 6000})
    store.subscribe("a")
    store.ack_early("a", [store.append(bundle(0))])
    gone = threading.Event()
    core = store._core
    store.listeners.add(lambda: gone.set() if core.covered_wal_seq >= 0 else None)
    last = 0
    while core.sealed is None and core.covered_wal_seq < 0:
        store.ack_early("a", [last])
        last = store.append(bundle(last + 1))
    store.ack_early("a", range(last + 1))
    assert gone.wait(PATIENCE)
    counted = store.metrics()
    written = counted.get(("quiver.segment.finalized_segments", ""), 0)
    assert written + counted.get(("quiver.segment.forgone_segments", ""), 0) == 1
    assert numbers(store, "a") == []


def test_a_receipt_calls_once_when_its_bundle_is_durable(open_gated, no_ticks) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    told: list[tuple[Exception | None, bool]] = []
    heard = threading.Event()
    receipt = store.append(bundle(0), wait=False)

    def hear(error: Exception | None) -> None:
        told.append((error, receipt.is_durable))
        heard.set()

    receipt.call(hear)
    assert not told
    store.hasten()
    assert heard.wait(PATIENCE)
    store.flush()
    receipt.call(hear)
    assert told == [(None, True), (None, True)]


def test_a_receipt_calls_with_what_went_wrong(open_gated, disk, no_ticks) -> None:
    store = open_gated(wal={"flush_interval": "1h"})
    told: list[Exception | None] = []
    heard = threading.Event()
    store.append(bundle(0), wait=False).call(lambda e: (told.append(e), heard.set()))
    disk.fail_syncs_of_the_log()
    store.hasten()
    assert heard.wait(PATIENCE)
    assert isinstance(told[0], quiver.errors.QuiverError)


def test_a_bundle_for_one_of_them_comes_to_nobody_else() -> None:
    store = opened("a", "b", "c")
    assert store.append_for("b", bundle(9)) == 4
    store.finalize()
    assert [numbers(store, name) for name in "abc"] == [[0, 1, 2, 3], [0, 1, 2, 3, 9], [0, 1, 2, 3]]
    with pytest.raises(SubscriberError, match="no subscriber"):
        store.append_for("d", bundle(9))


def test_a_kill_before_its_segment_brings_it_to_the_others_too() -> None:
    disk = MemoryDisk()
    store = opened("a", "b", disk=disk)
    store.append_for("b", bundle(9))
    store.flush()
    abandon(store)
    again = on_memory(MemoryDisk(disk.tree))
    again.finalize()
    assert [numbers(again, name)[-1] for name in "ab"] == [9, 9]


def test_of_little_nothing_is_prepared_once_all_have_some_of_it() -> None:
    store = opened("a", "b")
    core = store._core

    def is_kept_up(first: int = 0) -> bool:
        return forgoing.is_kept_up(core, core.open_segment, first)

    store.ack_early("a", [0])
    assert not is_kept_up()
    store.ack_early("b", [1])
    assert is_kept_up()
    assert not is_kept_up(2)  # Some was prepared, as nobody had it, and so is what came since.


def test_of_much_nothing_is_prepared_if_all_have_most_of_it() -> None:
    store = opened("a", segment={"target_size": 3000})
    core = store._core
    for wal_seq, kept_up in enumerate([False, False, True]):
        store.ack_early("a", [wal_seq])
        assert forgoing.is_kept_up(core, core.open_segment, 0) is kept_up
