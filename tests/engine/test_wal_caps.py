"""The log is bounded: by bytes and by files, whatever comes, and nothing is lost at the bounds."""

from __future__ import annotations

import pytest

import quiver
from quiver.config import Config
from quiver.errors import CapacityError, InputError
from quiver.testing import MemoryDisk
from quiver.testing.rehearsal import SLOTS, bundle_of

WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}
ONE_A_FILE = {
    "wal": {"rotate_size": 1, "max_chunks": 4},
    "segment": WAITING,
}
FEW_BYTES = {
    "wal": {"max_size": 20_000, "rotate_size": 6_000},
    "segment": WAITING,
    "limits": {"entry_bytes": 20_000},
}


def opened(disk: MemoryDisk, config: object) -> quiver.Store:
    return quiver.open("x", slots=SLOTS, disk=disk, config=Config.of(config), worker=False)


def wal_files(disk: MemoryDisk) -> list[str]:
    names = [entry.name for entry in disk.list_dir("core_0/wal")]
    return [name for name in names if name.startswith("quiver.wal")]


def wal_bytes(disk: MemoryDisk) -> int:
    return sum(entry.size for entry in disk.list_dir("core_0/wal"))


def delivered(store: quiver.Store) -> list[int]:
    store.finalize()
    subscription = store.subscribe("reader")
    found = []
    while (handle := subscription.poll()) is not None:
        number = handle.wal_seq
        assert handle["events"].to_pylist() == bundle_of(number)["events"].to_pylist()
        found.append(number)
        handle.ack()
    return found


def test_there_is_never_one_file_more_than_the_cap(capsys: object) -> None:
    disk = MemoryDisk()
    store = opened(disk, ONE_A_FILE)
    most = 0
    for number in range(30):
        store.append(bundle_of(number))
        most = max(most, len(wal_files(disk)))
    assert most == 4
    assert store.info().segments >= 5
    assert delivered(store) == list(range(30))


@pytest.mark.parametrize("disk_kind", ["holes", "no holes"])
def test_the_log_never_holds_more_bytes_than_its_cap(disk_kind: str) -> None:
    disk = MemoryDisk(punch_supported=disk_kind == "holes")
    store = opened(disk, FEW_BYTES)
    for number in range(120):
        store.append(bundle_of(number))
        assert store.info().wal_bytes <= 20_000
        assert wal_bytes(disk) <= 20_000 + 6_000 + 2_000
    assert store.info().segments >= 3
    assert delivered(store) == list(range(120))


def test_an_entry_larger_than_a_file_has_one_of_its_own() -> None:
    disk = MemoryDisk()
    store = opened(disk, {"wal": {"rotate_size": 100}, "segment": WAITING})
    for number in range(3):
        store.append(bundle_of(number))
    assert len(wal_files(disk)) == 3
    assert delivered(store) == [0, 1, 2]


def test_an_entry_above_the_limit_is_refused_and_nothing_is_written() -> None:
    disk = MemoryDisk()
    store = opened(disk, {"limits": {"entry_bytes": 500}, "segment": WAITING})
    before = disk.tree.digest()
    with pytest.raises(InputError, match=r"limits\.entry_bytes"):
        store.append(bundle_of(1))
    assert disk.tree.digest() == before
    assert store.info().next_wal_seq == 0


def test_a_cap_that_the_largest_entry_would_break_is_no_config() -> None:
    with pytest.raises(quiver.ConfigError, match=r"wal\.max_size"):
        Config.of({"wal": {"max_size": 1000}, "limits": {"entry_bytes": 1001}})


@pytest.mark.parametrize("config", [ONE_A_FILE, FEW_BYTES], ids=["files", "bytes"])
def test_at_a_cap_with_a_disk_that_takes_no_segment_appends_are_refused(config: object) -> None:
    disk = MemoryDisk()
    store = opened(disk, config)
    fault = disk.fail(lambda op: op.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    taken = 0
    with pytest.raises(CapacityError):
        for number in range(200):
            store.append(bundle_of(number))
            taken += 1
    assert 0 < taken < 200
    assert fault.hits > 0
    assert len(wal_files(disk)) <= Config.of(config).wal.max_chunks
    for _ in range(2):
        with pytest.raises(CapacityError):
            store.append(bundle_of(taken))
    disk.heal()
    assert store.append(bundle_of(taken)) == taken
    assert delivered(store) == list(range(taken + 1))


def test_a_log_that_is_full_is_opened_again_and_takes_the_next_append() -> None:
    disk = MemoryDisk()
    store = opened(disk, ONE_A_FILE)
    for number in range(4):
        store.append(bundle_of(number))
    store._core.held.release()
    disk.forget_locks()
    store = opened(disk, ONE_A_FILE)
    assert store.recovery.replayed_bundles == 4
    for number in range(4, 9):
        assert store.append(bundle_of(number)) == number
        assert len(wal_files(disk)) <= 4
    assert delivered(store) == list(range(9))
