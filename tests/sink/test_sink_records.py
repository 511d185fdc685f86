"""What tells that a batch is in may be damaged: nobody lets the batch in twice because of that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sink_kit import CLOCK, batch, let_in, opened, rows, stage

from quiver.disk import remove
from quiver.engine import intake
from quiver.errors import DamageError
from quiver.sink import Job, tidy
from quiver.testing import MemoryDisk

RECORD = "sinks/sink.json"
JOURNAL = "core_0/intake.json"


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    with opened(disk) as store:
        store.append({"events": batch(0)})
    return disk


def write(disk: MemoryDisk, batch_id: int, sink: str = "sink") -> bool:
    """Write a batch, as often as somebody likes; whether it was in."""
    job = Job(f"run-{batch_id}", sink, batch_id)
    return let_in(disk, job, stage(disk, job, "a", [batch_id])).is_repeated


def decided(disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a commit right behind its decision."""
    with monkeypatch.context() as patch:
        patch.setattr(intake, "settle_intake", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write(disk, 1)
    disk.forget_locks()
    assert disk.stat(JOURNAL) is not None


def one_byte(disk: MemoryDisk, path: str, place: int) -> None:
    file = disk.open(path, writable=True)
    file.write(place, bytes([file.read(place, 1)[0] ^ 1]))
    file.close()


def cut(disk: MemoryDisk, path: str, length: int) -> None:
    file = disk.open(path, writable=True)
    file.truncate(length)
    file.close()


def harms(disk: MemoryDisk, path: str) -> list[Callable[[MemoryDisk], None]]:
    """Give what one flipped byte or one cut may do without both copies being hit."""
    size = disk.stat(path).size
    flips = [lambda disk, at=at: one_byte(disk, path, at) for at in range(0, size, 11)]
    return flips + [lambda disk, n=n: cut(disk, path, n) for n in range(size // 2, size, 41)]


def test_any_byte_of_a_record_may_rot_and_the_batch_is_still_known(disk) -> None:
    write(disk, 1)
    for harm in harms(disk, RECORD):
        harmed = MemoryDisk(disk.tree.copy())
        harm(harmed)
        assert write(harmed, 1)
        assert not write(harmed, 2)
        assert write(harmed, 2)
        assert rows(harmed) == [0, 1, 2]


def test_any_byte_of_a_decision_may_rot_and_the_batch_is_still_known(disk, monkeypatch) -> None:
    decided(disk, monkeypatch)
    for number, harm in enumerate(harms(disk, JOURNAL)):
        harmed = MemoryDisk(disk.tree.copy())
        harm(harmed)
        if number % 2:
            with opened(harmed) as store:
                assert len(store.recovery.damage) <= 1
        assert write(harmed, 1)
        assert rows(harmed) == [0, 1]


def test_damage_to_one_copy_of_a_decision_is_refused_under_strict(disk, monkeypatch) -> None:
    decided(disk, monkeypatch)
    one_byte(disk, JOURNAL, 3)
    with pytest.raises(DamageError, match="one of its two copies"):
        opened(disk, recovery={"policy": "strict"})
    with opened(disk) as store:
        assert "one of its two copies" in str(store.recovery.damage[0])
    assert write(disk, 1)


def test_a_record_without_a_sound_copy_stops_its_sink(disk) -> None:
    write(disk, 1)
    cut(disk, RECORD, 20)
    with pytest.raises(DamageError, match="cannot be read"):
        write(disk, 1)
    assert rows(disk) == [0, 1]


def test_a_record_of_one_copy_is_read_as_well(disk) -> None:
    write(disk, 1)
    cut(disk, RECORD, disk.stat(RECORD).size // 2)
    assert write(disk, 1)


def test_a_decision_that_nobody_can_read_lets_no_sink_forget(disk, monkeypatch) -> None:
    write(disk, 7, "calm")
    decided(disk, monkeypatch)
    cut(disk, JOURNAL, 9)
    with pytest.raises(DamageError):  # Nobody knows what is in, until the core is opened.
        write(disk, 1)
    assert tidy(disk, clock=CLOCK, grace_ns=-1).removed_count == 0  # They tell whose it may be.
    with opened(disk) as store:
        assert len(store.recovery.damage) == 1
    assert rows(disk) == [0, 7, 1]
    with pytest.raises(DamageError, match="last batch of sink sink is in is not known"):
        write(disk, 1)
    assert write(disk, 7, "calm")
    assert not write(disk, 8, "calm")
    assert rows(disk) == [0, 7, 1, 8]
    remove(disk, "sinks/sink.doubt")  # Somebody looked, and wants the batch again.
    assert not write(disk, 1)
    assert rows(disk) == [0, 7, 1, 8, 1]
