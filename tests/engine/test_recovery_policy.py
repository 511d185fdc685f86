"""``recovery.policy``: strict refuses what is damaged and leaves it alone; salvage goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import quiver
from quiver.engine import RecoveryProgress
from quiver.errors import DamageError
from quiver.testing import MemoryDisk
from quiver.testing.rehearsal import SLOTS, Rehearsal

STRICT = {"recovery": {"policy": "strict"}}
FILES = {
    "log": "core_0/wal/quiver.wal",
    "sidecar": "core_0/wal/truncate.offset",
    "ack.log": "core_0/acks/ack.log",
    "segment": "core_0/segments/0000000000000000.qseg",
}


@pytest.fixture
def disk() -> MemoryDisk:
    """A store with a segment, acks, a sidecar, and three bundles that are in the log alone."""
    disk = MemoryDisk()
    life = Rehearsal(disk)
    life.register("a")
    life.append(2)
    life.finalize()
    life.take("a", 1)
    life.append(3)
    life.store._core.acks.sync()
    life.crash()
    disk.forget_locks()
    return disk


def flip(disk: MemoryDisk, path: str, offset: int) -> None:
    file = disk.open(path, writable=True)
    place = offset % file.size()
    file.write(place, bytes([file.read(place, 1)[0] ^ 0xFF]))
    file.close()


def opened(disk: MemoryDisk, config: object = None, **options: object) -> quiver.Store:
    return quiver.open("x", slots=SLOTS, disk=disk, config=config, worker=False, **options)


def remove(disk: MemoryDisk, path: str) -> None:
    disk.unlink(path)


DAMAGE: dict[str, Callable[[MemoryDisk], None]] = {
    "an entry": lambda disk: flip(disk, FILES["log"], -200),
    "the last entry": lambda disk: flip(disk, FILES["log"], -1),
    "a header of the log": lambda disk: flip(disk, FILES["log"], 3),
    "the sidecar": lambda disk: flip(disk, FILES["sidecar"], 20),
    "a record": lambda disk: flip(disk, FILES["ack.log"], 80),
    "a footer": lambda disk: flip(disk, FILES["segment"], -20),
    "the log, gone": lambda disk: remove(disk, FILES["log"]),
    "ack.log, gone": lambda disk: remove(disk, FILES["ack.log"]),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_strict_refuses_damage_by_name_and_changes_nothing(disk: MemoryDisk, what: str) -> None:
    DAMAGE[what](disk)
    before = disk.tree.digest()
    for _ in range(2):
        with pytest.raises(DamageError) as caught:
            opened(disk, STRICT)
        assert disk.locate("") in caught.value.path
        assert disk.tree.digest() == before
        disk.lock("core_0/LOCK").release()
    store = opened(disk)
    assert [error.message for error in store.recovery.damage]
    store.close()


@pytest.mark.parametrize("what", ["the sidecar", "a record", "a footer", "an entry"])
def test_after_a_salvage_strict_opens(disk: MemoryDisk, what: str) -> None:
    DAMAGE[what](disk)
    opened(disk).close()
    opened(disk, STRICT).close()


def test_a_damaged_sidecar_stays_where_it_is_on_a_full_disk(disk: MemoryDisk) -> None:
    DAMAGE["the sidecar"](disk)
    disk.fail(lambda op: "quarantine" in op.path, error="ENOSPC", sticky=True)
    with opened(disk) as store:
        assert len(store.recovery.damage) == 1
        assert store.recovery.replayed_bundles == 3


def test_what_a_crash_leaves_is_no_damage(disk: MemoryDisk) -> None:
    file = disk.open(FILES["log"], writable=True)
    file.write(file.size(), b"\x40\0\0\0\0")
    file.close()
    with opened(disk, STRICT) as store:
        assert store.recovery.torn_tail is not None
        assert store.recovery.replayed_bundles == 3


def test_a_bundle_that_cannot_be_decoded_is_refused_by_strict(disk: MemoryDisk) -> None:
    from quiver.payload import EncodedBundle, Payload
    from quiver.wal.format import encode_bundle

    file = disk.open(FILES["log"], writable=True)
    alien = EncodedBundle(5, 0, (Payload(0, 0, bytes(32), 1, memoryview(b"no arrow")),))
    file.write(file.size(), encode_bundle(alien))
    file.close()
    with pytest.raises(DamageError, match="bundle 5 cannot be decoded"):
        opened(disk, STRICT)
    with opened(disk) as store:
        store.finalize()
        assert len(store.recovery.damage) == 1


def test_a_recovery_says_how_far_it_is() -> None:
    disk = MemoryDisk()
    config = {"segment": {"target_size": "64MiB", "max_open_duration": "1h"}}
    store = quiver.open("x", slots=["s"], disk=disk, config=config, worker=False)
    import pyarrow as pa

    for _ in range(60):
        store.append({"s": pa.table({"b": [b"x" * (700 << 10)]})})
    store._core.held.release()
    told: list[RecoveryProgress] = []
    again = quiver.open("x", disk=disk, config=config, worker=False, progress=told.append)
    assert again.recovery.replayed_bundles == 60
    again.close()
    assert [found.done_bytes for found in told] == sorted(found.done_bytes for found in told)
    assert len(told) >= 4
    assert told[-1].done_bytes == told[-1].total_bytes > 60 * (700 << 10)
    assert told[-1].bundles == 60
    assert 0 < told[0].bundles < 60


def test_a_store_without_a_log_to_read_is_told_once() -> None:
    told: list[RecoveryProgress] = []
    quiver.open("x", slots=["s"], disk=MemoryDisk(), worker=False, progress=told.append).close()
    assert told == [RecoveryProgress(0, 0, 0)]
