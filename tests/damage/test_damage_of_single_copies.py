"""What is stored once and not told by anything else: numbers, names, the length of a footer."""

from __future__ import annotations

import pytest

from quiver.acks.format import FRAME_SIZE, Floor
from quiver.acks.replay import read_log
from quiver.config import Config
from quiver.testing import MemoryDisk
from quiver.testing.rehearsal import Rehearsal

from .sound_store import CONFIG, FILES, SoundStore, sound_store
from .test_damage_sweep import flip
from .wreck import Yard


def rehearsed(sound: SoundStore, kind: str, place: int) -> Rehearsal:
    disk = MemoryDisk(sound.tree)
    file = disk.open(FILES[kind], writable=True)
    file.write(place, bytes([file.read(place, 1)[0] ^ 0xFF]))
    return Rehearsal(disk, config=CONFIG)


@pytest.mark.parametrize("kind", ["segment", "newest segment"])
def test_a_wrong_footer_length_is_damage_and_no_other_version(kind: str) -> None:
    yard = Yard(sound_store())
    (length,) = [r for r in yard.sound.regions[kind] if r.name == "footer length"]
    for place in range(length.start, length.end):
        for bit in range(8):
            yard.examine(flip(kind, yard.sound.data(kind), place, mask=1 << bit))


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
