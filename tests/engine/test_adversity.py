"""What goes wrong around a store: full disks, vanished files, lowered limits, many at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from held_files import held
from store_kit import SLOTS, abandon, bundle, numbers, on_memory

import quiver
from quiver.config import Config
from quiver.segment import OpenSegment
from quiver.testing import ManualClock, MemoryDisk
from quiver.testing.acts import Write

SMALL = {"wal": {"rotate_size": 3000, "reclaim_size": 1}}


@pytest.mark.parametrize("rows_key", ["rows", "columns", "entry_bytes", "nesting"])
def test_limits_that_were_lowered_since_turn_nothing_into_damage(opener, rows_key: str) -> None:
    deep = pa.array([[[1]], [[2, 3]]] * 40)
    wide = pa.record_batch({"n": pa.array(range(80)), "deep": deep})
    store = opener()
    for _ in range(2):
        store.append({"events": wide})
    store.finalize()
    store.append({"events": wide})
    abandon(store)
    lowered = {"rows": 10, "columns": 1, "entry_bytes": 500, "nesting": 1}
    again = opener({"limits": {rows_key: lowered[rows_key]}})
    again.finalize()
    with pytest.raises(quiver.InputError):
        again.append({"events": wide})
    taken = []
    while (handle := again.subscribe("reader").poll()) is not None:
        with handle:
            taken.append(handle["events"].equals(wide))
    assert taken == [True] * 3
    assert not again.recovery.damage


def test_a_damaged_segment_stays_until_a_copy_of_it_is_safe() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    path = store.finalize().path
    file = disk.open(path, writable=True)
    file.write(8, b"\xff" * 64)
    file.close()
    subscription = store.subscribe("reader")
    disk.fail(lambda act: "quarantine" in act.path, error="ENOSPC")
    with pytest.raises(quiver.CapacityError):
        subscription.poll()
    assert subscription.poll() is None
    store.maintain()
    assert disk.stat(path) is None
    assert disk.stat(f"core_0/quarantine/{path.rsplit('/', 1)[-1]}") is not None
    assert len(store.recovery.damage) == 1


def test_a_segment_that_is_gone_for_a_while_is_delivered_when_it_is_back(
    opener, path: Path, clock: ManualClock
) -> None:
    store = opener()
    store.append(bundle(0))
    store.finalize()
    segments = path / "core_0/segments"
    segments.rename(path / "elsewhere")
    subscription = store.subscribe("reader")
    assert subscription.poll() is None
    assert store.metrics()["quiver.segment.missing", ""] == 1
    (path / "elsewhere").rename(segments)
    store.maintain()
    clock.step("30s")
    assert numbers(store) == [0]


def test_a_lack_of_memory_is_not_taken_for_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    store.finalize()

    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    with monkeypatch.context() as patch:
        patch.setattr("quiver.ipc_file.check_batch", fail)
        for _ in range(2):
            with pytest.raises(quiver.CapacityError, match="memory"):
                store.subscribe("reader").poll()
    assert numbers(store) == [0]


@pytest.mark.parametrize("count", [1, 3])
def test_a_number_is_not_used_again_when_the_newest_segment_rots(count: int) -> None:
    disk = MemoryDisk()
    store = on_memory(disk, **SMALL)
    for n in range(3 * count):
        store.append(bundle(n))
        if n % 3 == 2:
            path = store.finalize().path
    abandon(store)
    size = disk.stat(path).size
    file = disk.open(path, writable=True)
    file.write(size - 20, b"\xff" * 8)
    file.close()
    again = on_memory(MemoryDisk(disk.tree), **SMALL)
    assert again.recovery.damage
    assert again.append(bundle(9)) == 3 * count


def test_an_append_without_a_log_succeeds_although_its_segment_cannot_be_written() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, wal={"durability": "segment"}, segment={"target_size": 1500})
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC")
    count = 0
    while store.metrics().get(("quiver.segment.finalize_failures", ""), 0) == 0:
        store.append(bundle(count))
        count += 1
    store.finalize()
    assert numbers(store) == list(range(count))


def test_writers_of_several_cores_agree_on_the_store_that_they_make(path: Path) -> None:
    ids, errors = [], []

    def create(core: int) -> None:
        try:
            with quiver.open(path, slots=SLOTS, core=core, worker=False) as store:
                ids.append(store.info().store_id)
        except quiver.QuiverError as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=(core,)) for core in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(ids) == 8
    assert len(set(ids)) == 1


def test_space_that_could_not_be_given_back_is_given_back_later() -> None:
    disk = MemoryDisk()
    limits = {"limits": {"entry_bytes": 3000}}
    store = on_memory(disk, wal={"rotate_size": 900, "max_chunks": 2, "max_size": 9000}, **limits)
    disk.fail(lambda act: "truncate.offset" in act.path, error="EIO", sticky=True)
    store.append(bundle(0))
    store.finalize()
    assert store.metrics()["quiver.wal.reclaim_failures", ""] == 1
    with pytest.raises(quiver.QuiverError):
        for n in range(1, 100):
            store.append(bundle(n))
            last = n
    disk.heal()
    store.append(bundle(last + 1))
    store.maintain()
    store.finalize()
    found = numbers(store)
    assert found == sorted(set(found))
    assert found[-1] == last + 1


def test_segments_go_although_finalizing_fails() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    store.finalize()
    assert numbers(store) == [0]
    store.append(bundle(1))
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    with pytest.raises(quiver.CapacityError):
        store.close()
    assert disk.list_dir("core_0/segments") == []


def test_a_store_opens_on_a_disk_without_room_for_a_segment() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    for n in range(8):
        store.append(bundle(n))
    abandon(store)
    disk.fail(
        lambda act: act.path.endswith(".qseg.tmp") and isinstance(act, Write),
        error="ENOSPC",
        sticky=True,
    )
    again = on_memory(disk, segment={"target_size": 1000})
    assert again.info().open_bundles == 8
    disk.heal()
    again.maintain()
    assert numbers(again) == list(range(8))


@pytest.mark.parametrize("victim", ["segments/0000000000000000.qseg", "wal/quiver.wal.1"])
def test_a_file_that_somebody_removed_does_not_stop_upkeep(opener, path: Path, victim: str) -> None:
    store = opener(SMALL)
    if "wal" in victim:
        for n in range(8):
            store.append(bundle(n))
    else:
        store.append(bundle(0))
        store.finalize()
        assert numbers(store) == [0]
        store.append(bundle(1))
    (path / "core_0" / victim).unlink()
    store.maintain()
    store.finalize()
    store.maintain()
    found = numbers(store)
    assert found[-1] in (1, 7)
    store.append(bundle(8))
    store.close()


@pytest.mark.parametrize(
    ("victim", "words"), [("wal/quiver.wal", "the log is missing"), ("acks/ack.log", "missing")]
)
def test_a_file_that_is_missing_at_an_opening_is_reported(
    opener, path: Path, victim: str, words: str
) -> None:
    store = opener(SMALL)
    for n in range(3):
        store.append(bundle(n))
    store.finalize()
    store.append(bundle(3))
    abandon(store)
    (path / "core_0" / victim).unlink()
    again = opener(SMALL)
    [damage] = again.recovery.damage
    assert words in str(damage)
    assert damage.path.endswith(victim)
    for _ in range(2):
        number = again.append(bundle(4))
        assert number >= 3
        abandon(again)
        again = opener(SMALL)
        assert not again.recovery.damage
    assert again.info().next_wal_seq == number + 1


def test_what_stops_the_worker_is_told_to_whoever_appends(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    struck = threading.Event()

    def due(*_: object) -> str | None:
        struck.set()
        raise MemoryError

    with quiver.open(path, slots=SLOTS) as store:
        monkeypatch.setattr(OpenSegment, "due", due)
        assert struck.wait(20)
        monkeypatch.undo()
        with pytest.raises(quiver.PoisonedError, match="MemoryError"):
            store.append(bundle(0))
        assert isinstance(store.worker_failure, (MemoryError, quiver.PoisonedError, type(None)))


def test_neither_a_store_nor_a_refused_opening_leaks_a_descriptor(path: Path) -> None:
    quiver.open(path, slots=SLOTS).close()
    before = held(path)
    with quiver.open(path):
        for _ in range(3):
            with pytest.raises(quiver.LockedError):
                quiver.open(path, core=0)
    for _ in range(3):
        with pytest.raises(quiver.VersionError):
            quiver.open(path, slots=["other"])
    assert not held(path) - before


def test_a_bundle_that_was_lost_wakes_whoever_waits(path: Path) -> None:
    with quiver.open(path, slots=SLOTS) as store:
        store.append(bundle(0))
        store.finalize()
        subscription = store.subscribe("reader")
        with pytest.warns(ResourceWarning):
            subscription.poll()
        handle = subscription.next("20s")
        assert handle is not None
        handle.ack()


def test_a_wall_clock_before_1970_gives_the_same_time_now_and_after_a_kill() -> None:
    disk = MemoryDisk()
    times = []
    for kill in (False, True):
        clock = ManualClock(wall_ns=-5)
        options = {"slots": SLOTS, "disk": disk, "clock": clock, "worker": False}
        store = quiver.open("memory", **options)
        store.append(bundle(0))
        if kill:
            abandon(store)
            store = quiver.open("memory", **options)
        store.finalize()
        with store.subscribe("reader").poll() as handle:
            times.append(handle.ingestion_ns)
        store.close()
    assert times == [0, 0]


def test_slots_are_named_by_name_alone() -> None:
    store = on_memory(MemoryDisk())
    with pytest.raises(quiver.InputError, match="0"):
        store.append({"events": bundle(0)["events"], 0: bundle(1)["events"]})
    assert store.append(bundle(0)) == 0


def test_a_nack_with_a_reason_that_is_no_text_is_refused_whole() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    store.finalize()
    with store.subscribe("reader").poll() as handle:
        acts = disk.act_count
        with pytest.raises(quiver.InputError, match="reason"):
            handle.nack("10s", reason=5)
        assert disk.act_count == acts
    assert numbers(store) == []


@pytest.mark.parametrize("path", [None, 5, b"p", "a\0b", ""])
def test_a_path_that_is_none_is_refused_before_anything_is_made(
    path: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(quiver.InputError):
        quiver.open(path, slots=SLOTS)
    assert list(tmp_path.iterdir()) == []


def test_waiting_ends_with_none_when_the_store_is_closed_already() -> None:
    store = on_memory(MemoryDisk())
    subscription = store.subscribe("reader")
    store.close()
    assert subscription.next() is None
    assert list(subscription) == []


def test_no_ack_log_grows_beyond_what_it_can_replay() -> None:
    with pytest.raises(quiver.ConfigError, match=r"acks\.max_size"):
        Config.of({"acks": {"max_size": "129MiB"}})
