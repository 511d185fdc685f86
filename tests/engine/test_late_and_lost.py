"""What once was lost: by late calls, by damage behind holes, by numbers that only a floor knew."""

from __future__ import annotations

import threading

import pytest

import quiver
from quiver.cli.audit import audit
from quiver.errors import CapacityError, ClosedError, DamagedEntry
from quiver.payload import EncodedBundle, Payload
from quiver.testing import MemoryDisk
from quiver.testing.rehearsal import SLOTS, bundle_of
from quiver.wal.format import encode_bundle

LOG = "core_0/wal/quiver.wal"
WAITING = {"segment": {"max_open_duration": "1h"}, "wal": {"reclaim_size": 1}}


def opened(disk: MemoryDisk, **sections: object) -> quiver.Store:
    config = {**WAITING, **sections}
    return quiver.open("x", slots=SLOTS, disk=disk, config=config, worker=False)


def kill(store: quiver.Store) -> None:
    store._core.held.release()
    store._closed = True


def holed(disk: MemoryDisk) -> int:
    """Leave a log that begins with a hole, with one acknowledged entry behind it; its place."""
    store = opened(disk)
    for number in range(4):
        store.append(bundle_of(number))
    store.finalize()
    start = store._core.log.end.offset
    assert disk.open(LOG).next_data(30) is None or disk.open(LOG).read(30, 1) == b"\0"
    store.append(bundle_of(4))
    kill(store)
    return start


@pytest.mark.parametrize("where", [0, 1, 2, 3, 5, 30, 200, -1])
def test_a_damaged_entry_behind_a_hole_is_no_unfinished_append(where: int) -> None:
    disk = MemoryDisk()
    start = holed(disk)
    file = disk.open(LOG, writable=True)
    place = start + where if where >= 0 else file.size() - 1
    before = file.read(start, file.size())
    file.write(place, bytes([file.read(place, 1)[0] ^ 0xFF]))
    damaged = file.read(start, file.size())
    file.close()
    seen = [found for found in audit(disk, lambda _: None) if found.station == "wal"]
    store = opened(disk)
    (error,) = store.recovery.damage
    assert error.offset == start
    assert [(found.kind, found.offset) for found in seen] == [("damage", start)]
    if store.recovery.replayed_bundles:
        assert where < 4, "only the length can be told from what is around it"
    else:
        aside = disk.open(f"core_0/quarantine/wal-1-{start}.bin")
        assert aside.read(0, aside.size()) == damaged != before
    assert store.info().next_wal_seq >= 5


def test_two_damages_behind_one_hole_are_both_kept() -> None:
    disk = MemoryDisk()
    kept = set()
    for _ in range(2):
        start = holed(disk)
        file = disk.open(LOG, writable=True)
        file.write(file.size() - 1, bytes([file.read(file.size() - 1, 1)[0] ^ 1]))
        kept.add(file.read(start, file.size()))
        file.close()
        kill(opened(disk))
    folder = "core_0/quarantine"
    names = [entry.name for entry in disk.list_dir(folder) if entry.name.endswith(".bin")]
    found = {bytes(disk.map(f"{folder}/{name}")) for name in names}
    assert found >= kept


@pytest.mark.usefixtures("as_another_thread")
def test_a_finalize_that_waited_for_a_close_does_nothing() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    for number in range(3):
        store.append(bundle_of(number))
    disk.fail(lambda op: op.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    raised: list[Exception] = []

    def late() -> None:
        try:
            store.finalize()
        except ClosedError as error:
            raised.append(error)

    with store._core.lock:
        thread = threading.Thread(target=late)
        thread.start()
        with pytest.raises(CapacityError):
            store.close()
        disk.heal()
        second = opened(disk)
        second.append(bundle_of(3))
        second.finalize()
    thread.join()
    assert len(raised) == 1
    kill(second)
    with opened(disk) as third:
        assert third.info().segments == 1
        assert not third.recovery.damage


def test_a_bundle_that_cannot_be_decoded_at_the_end_of_a_segment_leaves_no_gap() -> None:
    disk = MemoryDisk()
    store = opened(disk)
    for number in range(3):
        store.append(bundle_of(number))
    kill(store)
    alien = EncodedBundle(3, 0, (Payload(0, 0, bytes(32), 1, memoryview(b"no arrow")),))
    file = disk.open(LOG, writable=True)
    file.write(file.size(), encode_bundle(alien))
    file.write(file.size(), encode_bundle(EncodedBundle(4, 0, alien.payloads)))
    file.close()
    store = opened(disk, segment={"target_size": 1})
    store.finalize()
    kill(store)
    for policy in ("salvage", "strict"):
        store = opened(disk, recovery={"policy": policy})
        assert not store.recovery.damage
        assert store.info().next_wal_seq == 5
        kill(store)


def test_without_a_log_numbers_are_not_forgotten_with_the_newest_footer() -> None:
    disk = MemoryDisk()
    config = {"wal": {"durability": "segment"}}
    store = opened(disk, **config)
    for number in range(6):
        store.append(bundle_of(number))
        if number % 3 == 2:
            store.finalize()
    kill(store)
    path = "core_0/segments/0000000000000001.qseg"
    file = disk.open(path, writable=True)
    file.write(file.size() - 20, b"\xff\xff")
    file.close()
    store = opened(disk, **config)
    assert [type(error) for error in store.recovery.damage] == [DamagedEntry]
    assert store.info().next_wal_seq == 6
