"""A cap that several stores share by way of the ledger, on one disk."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

import quiver
from quiver.engine.budget import Shared, budget_of, leave_behind
from quiver.engine.numbers import core_bytes
from quiver.ledger import LEDGER_NAME, read_ledger
from quiver.testing import ManualClock, MemoryDisk

MIB = 1 << 20
CAP = 16 * MIB
OPTIONS: dict[str, Any] = {
    "wal": {"max_size": "8MiB"},
    "segment": {"target_size": "2MiB"},
    "limits": {"entry_bytes": "4MiB"},
    "retention": {"size_cap": CAP, "coordination": "shared"},
}
QUANTUM = MIB // 2


def opened(disk: MemoryDisk, **options: Any) -> quiver.Store:
    settings: dict[str, Any] = {"slots": ["events"], "clock": ManualClock(), "worker": False}
    return quiver.open("memory", disk=disk, **({"config": OPTIONS} | settings | options))


def budget(store: quiver.Store) -> Shared:
    found = store._core.budget
    assert isinstance(found, Shared)
    return found


def two() -> tuple[MemoryDisk, Shared, Shared]:
    disk = MemoryDisk()
    first, second = budget(opened(disk)), budget(opened(disk))
    return disk, first, second


def test_one_core_gets_what_the_other_leaves() -> None:
    _, first, second = two()
    first.tick(0)
    second.tick(2 * MIB)
    assert first.allowed(0, 14 * MIB) == 14 * MIB
    assert first.allowed(14 * MIB, 1) == 14 * MIB
    assert second.allowed(2 * MIB, 1) == 2 * MIB


def test_a_cap_that_is_static_holds_for_each_part() -> None:
    disk = MemoryDisk()
    static = {**OPTIONS, "retention": {"size_cap": 2 * CAP}}
    stores = [opened(disk, config=static), opened(disk, config=static)]
    for store in stores:
        store.maintain()
        assert store._core.budget.allowed(0, 1) == CAP


def test_who_needs_room_is_heard() -> None:
    _, first, second = two()
    first.tick(0)
    second.tick(0)
    assert first.allowed(0, CAP) == CAP
    assert not first.tick(CAP, spare_bytes=MIB)
    assert second.allowed(0, MIB) == 0
    assert not second.may_drop
    assert first.tick(CAP, spare_bytes=MIB)
    assert first.tick(CAP - MIB)
    second.tick(0)
    assert second.allowed(0, MIB) == MIB
    assert second.may_drop
    assert not first.tick(CAP - MIB)


def test_a_core_without_a_record_counts_with_its_folder() -> None:
    disk, first, second = two()
    second.tick(0)
    with closing(disk.create("core_1/segments/some")) as file:
        file.write(0, b"x" * MIB)
    disk.unlink(LEDGER_NAME)
    taken = core_bytes(disk, 1) + QUANTUM
    assert taken > MIB
    assert first.allowed(0, CAP - taken) == CAP - taken
    first.tick(0)
    assert first.allowed(0, CAP - taken + 1) == QUANTUM


@pytest.mark.parametrize(
    "spoil", ["folder", "newer"], ids=["a folder in its place", "a newer version"]
)
def test_with_a_ledger_of_no_use_the_cap_is_divided(
    spoil: str, caplog: pytest.LogCaptureFixture
) -> None:
    import struct

    from crc32c import crc32c

    disk, first, second = two()
    first.tick(0)
    if spoil == "folder":
        disk.unlink(LEDGER_NAME)
        disk.make_dir(LEDGER_NAME)
    else:
        with closing(disk.open(LEDGER_NAME, writable=True)) as file:
            header = bytearray(file.read(0, 64))
            header[8] = 9
            file.write(0, bytes(header[:60]) + struct.pack("<I", crc32c(bytes(header[:60]))))
    for budget in (first, second):
        budget.tick(1)
        assert budget.allowed(0, 14 * MIB) == CAP // 2
        assert budget.may_drop
        # Nothing has to go because of it: what is there may stay, and others leave room or not.
        assert budget.allowed(13 * MIB, 1) == 13 * MIB
        assert budget.allowed(2 * CAP, 1) == CAP
    with closing(disk.create("core_1/segments/some")) as file:
        file.write(0, b"x" * 10 * MIB)
    first.tick(0)
    assert first.allowed(0, 14 * MIB) == CAP - core_bytes(disk, 1)
    events = [r for r in caplog.records if r.message == "retention.ledger_failed"]
    assert len(events) == 2
    first.close()
    first.close()


def test_it_is_used_again_once_it_can_be() -> None:
    disk, first, second = two()
    second.tick(0)
    disk.unlink(LEDGER_NAME)
    disk.make_dir(LEDGER_NAME)
    first.tick(0)
    assert first.allowed(0, 10 * MIB) == CAP // 2
    assert first.allowed(14 * MIB, 1) == 14 * MIB
    disk.tree.folders[0].pop(LEDGER_NAME)
    second.tick(0)
    first.tick(0)
    assert first.allowed(0, 14 * MIB) == 14 * MIB


def test_a_closed_store_counts_with_what_it_left() -> None:
    disk = MemoryDisk()
    stores = [opened(disk), opened(disk)]
    budget(stores[1]).allowed(0, 8 * MIB)
    budget(stores[1]).tick(MIB)
    stores[1].close()
    store_id = bytes.fromhex(stores[0].info().store_id)
    record = read_ledger(disk, [1], store_id=store_id)[1]
    assert record.charge == record.held
    assert record.wanted == 0
    leave_behind(disk, 1, store_id=stores[0].info().store_id)
    assert read_ledger(disk, [1], store_id=store_id)[1].held == core_bytes(disk, 1)


def test_what_was_claimed_stays_when_the_ledger_goes() -> None:
    disk, first, _ = two()
    assert first.allowed(0, 12 * MIB) == 12 * MIB
    disk.unlink(LEDGER_NAME)
    disk.make_dir(LEDGER_NAME)
    assert first.allowed(12 * MIB, 2 * MIB) == 12 * MIB
    assert first.allowed(MIB, 1) == 12 * MIB


def test_a_core_with_a_number_beyond_the_ledger_is_left_out() -> None:
    disk = MemoryDisk()
    with opened(disk) as store:
        store.maintain()
        before = bytes(disk.map(LEDGER_NAME))
        disk.make_dir("core_5000")
        leave_behind(disk, 5000, store_id=store.info().store_id)
        assert bytes(disk.map(LEDGER_NAME)) == before


def test_without_a_cap_there_is_no_ledger() -> None:
    disk = MemoryDisk()
    config = {"retention": {"coordination": "shared"}}
    with opened(disk, config=config) as store:
        store.maintain()
        leave_behind(disk, 0, store_id=store.info().store_id)
        made = budget_of(disk, 0, quiver.Config.of(config), store_id=store.info().store_id)
        assert not isinstance(made, Shared)
    assert disk.stat(LEDGER_NAME) is None


def test_nothing_of_the_ledger_is_synced() -> None:
    disk, first, second = two()
    before = disk.act_count
    first.tick(0)
    second.tick(0)
    first.allowed(0, MIB)
    acts = disk.history.ops[before:]
    assert acts
    assert not [act for act in acts if "Sync" in type(act).__name__]
