"""Another slot table: what was there is there, and a crash leaves the old table or the new one."""

from __future__ import annotations

import pytest
from store_kit import SLOTS, abandon, bundle, on_memory

import quiver
from quiver.clock import SystemClock
from quiver.config import Config
from quiver.engine import cores, migration
from quiver.engine.migration import Changes, layout_of_log, migrate
from quiver.errors import DamagedEntry, InputError, LockedError, QuiverError, VersionError
from quiver.manifest import StoreManifest
from quiver.slots import Slot, SlotTable
from quiver.testing import ManualClock, MemoryDisk, Model, crash_images
from quiver.testing.acts import Rename
from quiver.wal.format import encode_header

RENAMED = Changes(add={"extra": None}, rename={"notes": "remarks"}, payload_types={"events": 7})
TABLE = SlotTable([Slot(0, "events", 7), Slot(1, "remarks", 1), Slot(2, "extra", 2)])


def change(disk: MemoryDisk, changes: Changes) -> tuple[SlotTable, SlotTable]:
    return migrate(disk, changes, config=Config(), clock=ManualClock())


def reopened(disk: MemoryDisk, **options: object) -> quiver.Store:
    return quiver.open("memory", disk=disk, clock=ManualClock(), worker=False, **options)


def life(core: int = 0, disk: MemoryDisk | None = None) -> MemoryDisk:
    """Leave two bundles in a segment and two in the log, as a killed writer does."""
    disk = disk or MemoryDisk()
    store = quiver.open(
        "memory", slots=SLOTS, disk=disk, clock=ManualClock(), worker=False, core=core
    )
    for number in range(4):
        store.append(bundle(number))
        if number == 1:
            store.finalize()
    abandon(store)
    return disk


def taken(store: quiver.Store) -> list[tuple[int, tuple[str, ...]]]:
    """Take and ack everything: the number of each bundle, and the names of its slots."""
    store.finalize()
    subscription = store.subscribe("reader")
    found = []
    while (handle := subscription.poll()) is not None:
        with handle:
            found.append((handle["events"].column("n")[0].as_py(), tuple(handle)))
    return found


def test_what_segments_and_log_held_is_delivered_under_the_new_names() -> None:
    disk = life()
    before, after = change(disk, RENAMED)
    assert before == SlotTable.of(SLOTS)
    assert after == TABLE
    store = reopened(disk, slots=TABLE)
    assert not store.recovery.damage
    assert taken(store) == [
        (number, ("events",) if number % 2 else ("events", "remarks")) for number in range(4)
    ]
    assert store.append({"extra": bundle(0)["events"]}) == 4


def test_the_store_is_then_refused_to_those_who_ask_for_the_old_table() -> None:
    disk = life()
    change(disk, RENAMED)
    with pytest.raises(VersionError) as caught:
        reopened(disk, slots=SLOTS)
    assert "--drop extra --type events=0 --rename remarks=notes" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (Changes(), "0 events 0, 1 notes 1"),
        (Changes(add={"a": 5, "b": None}), "0 events 0, 1 notes 1, 2 b 2, 5 a 5"),
        (Changes(drop=("events",), add={"a": None}), "0 a 0, 1 notes 1"),
        (Changes(rename={"events": "notes", "notes": "events"}), "0 notes 0, 1 events 1"),
        (Changes(rename={"events": "a"}, payload_types={"a": 9}), "0 a 9, 1 notes 1"),
        (Changes(rename={"events": "a"}, add={"events": None}), "0 a 0, 1 notes 1, 2 events 2"),
    ],
)
def test_changes_give_a_table(changes: Changes, expected: str) -> None:
    table = changes.apply(SlotTable.of(SLOTS))
    assert ", ".join(f"{s.slot_id} {s.name} {s.payload_type_id}" for s in table) == expected


@pytest.mark.parametrize(
    "changes",
    [
        Changes(drop=("nothing",)),
        Changes(rename={"nothing": "a"}),
        Changes(payload_types={"nothing": 1}),
        Changes(payload_types={"events": 1 << 16}),
        Changes(rename={"events": "notes"}),
        Changes(rename={"events": "two words"}),
        Changes(drop=("events",), rename={"events": "a"}),
        Changes(drop=("events", "notes")),
        Changes(add={"events": None}),
        Changes(add={"a": 1}),
        Changes(add={"a": 64}),
        Changes(add={f"s{n}": None for n in range(63)}),
    ],
    ids=str,
)
def test_changes_that_no_table_can_have_are_refused(changes: Changes) -> None:
    disk = life()
    before = disk.tree.digest()
    with pytest.raises(InputError):
        change(disk, changes)
    assert disk.tree.digest() == before


@pytest.mark.parametrize(
    "changes",
    [
        Changes(drop=("notes",)),
        Changes(drop=("notes",), add={"other": 1}),
        Changes(drop=("notes",), add={"notes": 5}),
    ],
    ids=["dropped", "its id given away", "moved"],
)
def test_a_slot_whose_data_is_in_segments_keeps_its_id(changes: Changes) -> None:
    disk = life()
    with pytest.raises(InputError, match="slot id 1 cannot be dropped as 'notes'") as caught:
        change(disk, changes)
    assert "rename it" in caught.value.hint
    store = reopened(disk, slots=SLOTS)
    assert [number for number, _ in taken(store)] == [0, 1, 2, 3]
    store.close()
    assert change(disk, changes)[1] == changes.apply(SlotTable.of(SLOTS))
    assert reopened(disk).info().next_wal_seq == 4


def test_every_core_is_migrated() -> None:
    disk = life(core=3, disk=life())
    change(disk, RENAMED)
    for core in (0, 3):
        store = reopened(disk, core=core, slots=TABLE)
        assert [number for number, _ in taken(store)] == [0, 1, 2, 3]


def test_a_core_that_is_being_written_keeps_the_old_table() -> None:
    disk = life(core=3, disk=life())
    writer = reopened(disk, core=3)
    with pytest.raises(LockedError):
        change(disk, RENAMED)
    writer.append(bundle(4))
    assert reopened(disk).slots == SlotTable.of(SLOTS)


def test_a_damaged_core_keeps_the_old_table_and_is_left_as_it_is() -> None:
    disk = life()
    file = disk.open("core_0/wal/quiver.wal", writable=True)
    last = file.size() - 10
    file.write(last, bytes([file.read(last, 1)[0] ^ 1]))
    damaged = file.read(0, file.size())
    with pytest.raises(DamagedEntry):
        change(disk, RENAMED)
    assert file.read(0, file.size()) == damaged
    assert StoreManifest.read(disk).slots == SlotTable.of(SLOTS)


def test_without_a_change_nothing_is_written() -> None:
    disk = life()
    before = disk.tree.digest()
    assert change(disk, Changes())[1] == SlotTable.of(SLOTS)
    assert disk.tree.digest() == before


def check_crashes(model: Model) -> None:
    """Open what each crash leaves: one table or the other, and all bundles once."""
    disk = MemoryDisk(life(core=1, disk=life()).tree)
    change(disk, RENAMED)
    seen = set()
    for image in crash_images(disk.history, model=model, budget=600):
        left = MemoryDisk(image.tree)
        table = StoreManifest.read(left).slots
        seen.add(table)
        for core in (0, 1):
            store = reopened(left, core=core)
            assert store.slots == table, image.describe()
            assert image.torn or not store.recovery.damage, image.describe()
            assert [number for number, _ in taken(store)] == [0, 1, 2, 3], image.describe()
            assert store.append(bundle(1)) == 4
            abandon(store)
            assert reopened(left, core=core).info().open_bundles == 1
    assert seen == {SlotTable.of(SLOTS), TABLE}


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_crash_anywhere_leaves_the_old_table_or_the_new_one_and_every_bundle(
    model: Model,
) -> None:
    check_crashes(model)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(cores, "settle"), (migration, "_empty_log")],
    ids=["no opening settles", "the log is not emptied"],
)
def test_a_planted_defect_is_found(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, lambda *_: None)
    with pytest.raises((AssertionError, QuiverError)):
        check_crashes("posix")


@pytest.mark.parametrize("model", ["posix", "journaled"])
def test_a_broken_off_migration_is_finished_by_the_next_one(model: Model) -> None:
    disk = MemoryDisk(life(core=1, disk=life()).tree)
    change(disk, RENAMED)
    unfinished = 0
    for image in crash_images(disk.history, model=model, budget=300):
        if image.torn:
            continue  # A write that came through in parts may look like damage.
        left = MemoryDisk(image.tree)
        manifest = StoreManifest.read(left)
        unfinished += manifest.replaces is not None
        change(left, Changes(add={"last": 9}))
        table = Changes(add={"last": 9}).apply(manifest.slots)
        assert StoreManifest.read(left) == StoreManifest(manifest.store_id, table)
        for core in (0, 1):
            assert len(taken(reopened(left, core=core))) == 4
    assert unfinished > 10


def cut_behind_decision() -> MemoryDisk:
    """Give the store as a crash leaves it right behind the replacement of quiver.json."""
    disk = MemoryDisk(life().tree)
    change(disk, RENAMED)
    ops = disk.history.ops
    renames = [i for i, op in enumerate(ops) if isinstance(op, Rename) and op.name == "quiver.json"]
    (image,) = crash_images(disk.history, model="journaled", budget=1, points=[renames[0] + 2])
    return MemoryDisk(image.tree)


def test_behind_the_decision_the_log_of_the_old_layout_is_known_to_be_empty() -> None:
    disk = cut_behind_decision()
    manifest = StoreManifest.read(disk)
    assert manifest.slots == TABLE
    assert manifest.replaces == SlotTable.of(SLOTS).digest()
    assert layout_of_log(disk, 0, manifest) == manifest.replaces
    abandon(reopened(disk))
    assert layout_of_log(disk, 0, manifest) == TABLE.digest()


def test_behind_the_decision_a_log_that_holds_something_is_not_thrown_away() -> None:
    disk = cut_behind_decision()
    old = encode_header(SlotTable.of(SLOTS).digest())
    file = disk.open("core_0/wal/quiver.wal", writable=True)
    assert file.read(0, 100) == old
    file.write(len(old), b"something")
    with pytest.raises(VersionError):
        reopened(disk)
    assert file.size() == len(old) + 9


def test_numbers_go_on_where_they_were() -> None:
    disk = life()
    before = reopened(disk)
    info = before.info()
    abandon(before)
    change(disk, RENAMED)
    after = reopened(disk).info()
    assert after.next_wal_seq == info.next_wal_seq
    assert after.next_segment_seq == info.next_segment_seq + 1


def test_it_works_on_a_real_disk(opener, path) -> None:
    store = opener()
    store.append(bundle(0))
    abandon(store)
    from quiver.disk import LocalDisk

    disk = LocalDisk(path)
    migrate(disk, RENAMED, config=Config(), clock=SystemClock())
    disk.close()
    assert taken(opener(slots=TABLE)) == [(0, ("events", "remarks"))]


def test_the_memory_kit_opens_what_was_migrated_back() -> None:
    disk = life()
    change(disk, Changes(rename={"notes": "remarks"}))
    change(disk, Changes(rename={"remarks": "notes"}))
    assert [number for number, _ in taken(on_memory(disk))] == [0, 1, 2, 3]
