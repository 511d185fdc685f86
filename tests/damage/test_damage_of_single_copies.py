"""What is stored once and not told by anything else: numbers, names, the length of a footer."""

from __future__ import annotations

import pytest

from quiver.acks.format import FRAME_SIZE
from quiver.acks.records import Floor
from quiver.acks.replay import read_log
from quiver.config import Config
from quiver.payload import EncodedBundle, Payload
from quiver.testing import MemoryDisk
from quiver.testing.rehearsal import Rehearsal
from quiver.wal.format import HEADER_BYTES, frame_at

from .sound_store import CONFIG, FILES, SoundStore, sound_store
from .test_damage_sweep import flip
from .wreck import Yard

MANY_FILES = Config.of({"wal": {"rotate_size": 1500}})


def names(life: Rehearsal) -> list[str]:
    return [entry.name for entry in life.stage.list_dir("core_0/wal")]


def rehearsed(sound: SoundStore, kind: str, place: int) -> Rehearsal:
    disk = MemoryDisk(sound.tree)
    file = disk.open(FILES[kind], writable=True)
    file.write(place, bytes([file.read(place, 1)[0] ^ 0xFF]))
    return Rehearsal(disk, config=CONFIG)


def last_byte(sound: SoundStore) -> int:
    """Where the last byte of the last entry of the log is."""
    return max(r.end for r in sound.regions["active log"] if r.name == "entry") - 1


@pytest.mark.parametrize("kind", ["segment", "newest segment"])
def test_a_wrong_footer_length_is_damage_and_no_other_version(kind: str) -> None:
    yard = Yard(sound_store())
    (length,) = [r for r in yard.sound.regions[kind] if r.name == "footer length"]
    for place in range(length.start, length.end):
        for bit in range(8):
            yard.examine(flip(kind, yard.sound.data(kind), place, mask=1 << bit))


def test_the_number_of_a_last_entry_that_is_damaged_is_not_given_again() -> None:
    sound = sound_store()
    life = rehearsed(sound, "active log", last_byte(sound))
    assert life.store.recovery.damage
    assert life.store.info().next_wal_seq >= sound.sent
    for _ in range(2):
        life.crash()
        life.open()
        assert life.store.info().next_wal_seq >= sound.sent


def test_nor_once_the_damaged_end_is_given_back_with_its_file() -> None:
    sound = sound_store()
    life = rehearsed(sound, "active log", last_byte(sound))
    given = life.store.info().next_wal_seq
    life.finalize()
    life.crash()
    life.open()  # Nothing but the damaged end is left in the log, and it goes.
    assert [name for name in names(life) if name.startswith("quiver.wal")] == ["quiver.wal"]
    assert life.store.info().next_wal_seq >= given >= sound.sent
    life.crash()
    life.open()
    assert not life.store.recovery.damage
    assert life.store.info().next_wal_seq >= given


def test_a_bundle_that_no_one_can_decode_keeps_its_number() -> None:
    disk = MemoryDisk()
    life = Rehearsal(disk, config=Config.of({"wal": {"reclaim_size": 1}}))
    life.append(1)
    core = life.store._core
    alien = EncodedBundle(core.next_wal_seq, 0, (Payload(60, 60, bytes(32), 1, memoryview(b"x")),))
    core.log.append(alien)
    core.log.sync_all()
    life.finalize()
    for _ in range(3):
        life.crash()
        life.open()
        assert life.store.info().next_wal_seq == alien.wal_seq + 1


def test_a_file_of_the_log_that_is_gone_is_told() -> None:
    sound = sound_store()
    disk = MemoryDisk(sound.tree)
    life = Rehearsal(disk, config=MANY_FILES)
    life.append(9)
    rotated = [name for name in names(life) if name.startswith("quiver.wal.")]
    life.crash()
    disk.unlink(f"core_0/wal/{rotated[-2]}")
    life.open()
    (error,) = life.store.recovery.damage
    assert "bundles are missing from the log" in str(error)
    assert f"in core_0/wal/{rotated[-1]} at byte" in str(error).replace(disk.locate(""), "")


def test_a_rotated_file_that_ends_early_between_two_entries_is_told() -> None:
    sound = sound_store()
    disk = MemoryDisk(sound.tree)
    life = Rehearsal(disk, config=MANY_FILES)
    life.append(9)
    rotated = [name for name in names(life) if name.startswith("quiver.wal.")]
    life.crash()
    file = disk.open(f"core_0/wal/{rotated[-1]}", writable=True)
    first = frame_at(memoryview(file.read(0, file.size())), HEADER_BYTES, 1 << 20)
    file.truncate(first.end)
    life.open()
    (error,) = life.store.recovery.damage
    assert "bundles are missing from the log" in str(error)
    assert error.expected == f"wal_seq {first.wal_seq + 1}"


def test_a_damaged_sidecar_is_told_once_and_kept_in_quarantine() -> None:
    sound = sound_store()
    life = rehearsed(sound, "sidecar", 9)
    (error,) = life.store.recovery.damage
    assert error.path.endswith("truncate.offset")
    aside = [entry.name for entry in life.stage.list_dir("core_0/quarantine")]
    assert sum(name.startswith("truncate.offset.") for name in aside) == 2
    life.crash()
    life.open()
    assert not life.store.recovery.damage


def test_a_damaged_checkpoint_does_not_forget_a_subscriber() -> None:
    sound = sound_store()
    for place in (20, len(sound.data("checkpoint")) - 20):
        life = rehearsed(sound, "checkpoint", place)
        (error,) = life.store.recovery.damage
        assert error.path.endswith("checkpoint")
        assert {"a", "b"} <= set(life.store._core.registry.names())


@pytest.mark.parametrize("region", ["store_id", "event_time"])
def test_audit_names_a_manifest_with_a_wrong_byte(region: str) -> None:
    yard = Yard(sound_store())
    for found in yard.sound.regions["manifest"]:
        if found.name == region:
            data = yard.sound.data("manifest")
            for place in range(found.start, found.end):
                assert yard.examine(flip("manifest", data, place, mask=1)).audited


def test_a_damaged_register_does_not_let_go_what_its_subscriber_has_not_seen() -> None:
    sound = sound_store()
    life = rehearsed(sound, "ack.log", FRAME_SIZE + 20)
    life.clock.step("1h")
    life.take("a")
    life.store.maintain()
    found = []
    subscription = life.store.subscribe("b")
    while (handle := subscription.poll()) is not None:
        found.append(handle.wal_seq)
        handle.ack()
    assert set(found) >= sound.there - set(range(7, 10)) - sound.acked["b"]


def test_a_damaged_floor_does_not_let_numbers_begin_again() -> None:
    disk = MemoryDisk()
    config = Config.of({"wal": {"reclaim_size": 1}})
    life = Rehearsal(disk, config=config)
    life.register("a")
    for count in (3, 2):
        life.append(count)
        life.finalize()
    life.take("a")
    life.store.maintain()
    before = life.store.info()
    assert before.segments == 0
    life.crash()
    file = disk.open(FILES["ack.log"], writable=True)
    entries = read_log(file.read(0, file.size())).entries
    last = max(seq for seq, record in entries if isinstance(record, Floor))
    file.write(last * FRAME_SIZE + 20, b"\xff\xff")
    life.open()
    assert life.store.info().next_wal_seq == before.next_wal_seq
