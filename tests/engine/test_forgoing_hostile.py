"""Who comes, goes or listens while a segment is about to be forgone, and what times it had."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from beside_kit import Beside
from outgoing_kit import QUIET, fill, send
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.engine import forgoing, sealed
from quiver.engine.fold import fold
from quiver.errors import InputError, OutOfSequenceError
from quiver.testing import ManualClock, MemoryDisk


def forgo(store: quiver.Store, is_over: Callable[[], bool] = lambda: True) -> bool:
    """Do without what is open, or sealed, as the scribe does."""
    core = store._core
    with core.lock:
        if core.sealed is None:
            sealed.seal(core)
        return forgoing.forgo(core, is_over=is_over, fold=fold)


def test_who_registered_in_another_process_before_gets_all_of_it() -> None:
    beside = Beside()
    store = beside.open()
    store.subscribe("a")
    reader = beside.subscribe("elsewhere")
    store.ack_early("a", [store.append(bundle(0))])
    assert not forgo(store)
    store.finalize()
    store.maintain()
    reader.refresh()
    handle = reader.poll()
    assert handle is not None
    with handle:
        assert handle.wal_seq == 0


@pytest.mark.usefixtures("as_another_thread")
def test_when_the_last_subscriber_goes_meanwhile_it_is_kept_for_those_to_come() -> None:
    store = on_memory(MemoryDisk())
    store.subscribe("a")
    store.subscribe("b")
    store.ack_early("b", [store.append(bundle(0))])

    def all_go() -> bool:
        for name in store.info().subscribers:
            store.unsubscribe(name)
        return False

    assert not forgo(store, all_go)
    store.finalize()
    assert numbers(store, "new") == [0]


@pytest.mark.usefixtures("as_another_thread")
def test_who_begins_to_listen_meanwhile_hears_of_it() -> None:
    store = on_memory(MemoryDisk())
    store.subscribe("a")
    store.ack_early("a", [store.append(bundle(0))])
    last = store.append(bundle(1))
    told: list[int] = []

    def listen() -> bool:
        store.on_finalize(lambda info: told.append(info.bundle_count))
        store.ack_early("a", [last])
        return False

    assert not forgo(store, listen)
    store.finalize()
    assert told == [2]


@pytest.mark.parametrize("rule", ["writer", "caller"])
def test_times_go_on_behind_those_of_what_was_forgone(rule: str) -> None:
    disk = MemoryDisk()

    def opened(wall_ns: int) -> quiver.Store:
        return quiver.open(
            "m",
            slots=SLOTS,
            core=0,
            disk=disk,
            clock=ManualClock(wall_ns=wall_ns),
            worker=False,
            config={"segment": {"time": rule}, "wal": {"reclaim_size": 1}},
        )

    store = opened(10_000)
    store.subscribe("a")
    for ns in (10_000, 10_050):
        store.ack_early("a", [store.append(bundle(0), time=ns if rule == "caller" else None)])
    last_ns = store._core.times.last_ns
    assert last_ns is not None
    assert forgo(store)
    sealed.try_reclaim(store._core)
    abandon(store)
    again = opened(1_000)
    if rule == "caller":
        with pytest.raises(OutOfSequenceError):
            again.append(bundle(1), time=last_ns - 1)
    else:
        again.append(bundle(1))
        assert again._core.times.last_ns == last_ns + 1


def test_a_number_that_was_never_given_cannot_be_acked() -> None:
    store = on_memory(MemoryDisk())
    store.subscribe("a")
    assert store.append(bundle(0)) == 0
    with pytest.raises(InputError):
        store.ack_early("a", [0, 1])
    store.append(bundle(1))
    store.ack_early("a", [0])
    assert not forgo(store)
    store.finalize()
    assert numbers(store, "a") == [1]


@pytest.mark.usefixtures("no_ticks")
def test_what_the_disk_refused_gives_its_number_without_an_ack(disk, open_gated) -> None:
    store = open_gated(wal=QUIET)
    store.subscribe("a")
    receipts = send(store, 0, 1)
    fill(disk, store, 1)
    store.ack_early("a", [0, 1])  # Too soon: they are not durable yet.
    with pytest.raises(quiver.CapacityError):
        receipts[1].wait()
    disk.heal()
    assert store.append(bundle(2)) == 1
    store.finalize()
    assert numbers(store, "a") == [2]
