"""Progress where something is damaged, gone, repaired, adopted or in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver
from quiver.errors import CapacityError, DamageError, LockedError
from quiver.progress import HERE_NAME, LOST_NAME, PROGRESS_NAME
from quiver.testing import ManualClock, MemoryDisk
from tests.kit.follow_kit import FILE, ROWS, damage, killed, opened


def states_everywhere(disk: MemoryDisk) -> quiver.Store:
    """Leave one state in the file, a newer one in a segment, the newest in the log."""
    store = opened(disk)
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1", "f": "1"}))
    store.finalize()
    disk.fail(lambda act: act.path.startswith(FILE), error="EIO", sticky=True)
    store.append({"s": ROWS}, progress=follower.at({"a": "2", "g": "2"}))
    store.finalize()
    store.append({"s": ROWS}, progress=follower.at({"a": "3", "l": "3"}))
    disk.heal()
    killed(store)
    return store


def test_each_state_is_found_where_it_is(disk) -> None:
    states_everywhere(disk)
    assert opened(disk).progress("in") == {"a": "3", "f": "1", "g": "2", "l": "3"}


@pytest.mark.parametrize("at", [0, 50])
def test_one_damaged_copy_of_the_file_costs_nothing_and_is_mended(disk, at) -> None:
    states_everywhere(disk)
    damage(disk, FILE, at)
    store = opened(disk)
    assert len(store.recovery.damage) == 1
    assert store.progress("in") == {"a": "3", "f": "1", "g": "2", "l": "3"}
    assert any(e.name.startswith("progress.") for e in disk.list_dir("core_0/quarantine"))
    store.close()
    assert opened(disk).recovery.damage == []


def test_a_file_that_is_gone_for_good_is_made_of_what_the_segments_know(disk) -> None:
    states_everywhere(disk)
    size = disk.stat(FILE).size
    for at in (0, size // 2):
        damage(disk, FILE, at)
    store = opened(disk)
    assert "no magic" in str(store.recovery.damage[0])
    assert store.progress("in") == {"a": "3", "f": "1", "g": "2", "l": "3"}


@pytest.mark.parametrize("name", [PROGRESS_NAME, HERE_NAME, LOST_NAME])
def test_what_was_never_finished_is_gone_behind_the_next_opening(disk, name: str) -> None:
    """Also if nothing is to be written in its place."""
    states_everywhere(disk)
    opened(disk).close()
    disk.create(f"core_0/{name}.tmp").write(0, b"half of")
    store = opened(disk)
    assert store.recovery.damage == []
    assert not [e.name for e in disk.list_dir("core_0") if e.name.endswith(".tmp")]
    assert store.progress("in") == {"a": "3", "f": "1", "g": "2", "l": "3"}


def test_damage_to_the_file_is_refused_under_strict(disk) -> None:
    states_everywhere(disk)
    damage(disk, FILE, 0)
    with pytest.raises(DamageError, match="magic"):
        opened(disk, recovery={"policy": "strict"})
    assert opened(disk).progress("in") == {"a": "3", "f": "1", "g": "2", "l": "3"}


def test_a_damaged_entry_takes_its_state_with_it(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    ends = []
    for n in range(3):
        store.append({"s": ROWS}, progress=follower.at({"a": str(n), f"only {n}": "x"}))
        ends.append(disk.stat("core_0/wal/quiver.wal").size)
    killed(store)
    damage(disk, "core_0/wal/quiver.wal", ends[0] + 60)
    store = opened(disk)
    assert store.recovery.replayed_bundles == 2
    assert store.progress("in") == {"a": "2", "only 0": "x", "only 2": "x"}


def test_an_entry_that_rots_before_it_is_a_segment_takes_its_state_with_it(disk) -> None:
    store = opened(disk)
    follower = store.follow("in")
    for n in range(2):
        store.append({"s": ROWS}, progress=follower.at({"a": str(n)}))
    killed(store)
    store = opened(disk)
    damage(disk, "core_0/wal/quiver.wal", disk.stat("core_0/wal/quiver.wal").size - 20)
    store.finalize()
    assert len(store.recovery.damage) == 1
    assert store.progress("in") == {"a": "0"}


def test_a_damaged_table_of_a_segment_is_told_and_what_the_log_knows_counts(disk) -> None:
    states_everywhere(disk)
    info = next(i for i in opened(disk)._core.catalog if i.segment_seq == 1)
    disk.forget_locks()
    damage(disk, info.path, info.progress.offset + 4)
    store = opened(disk)
    assert "progress in a segment" in str(store.recovery.damage[0])
    with pytest.raises(DamageError, match="is lost"):  # Of "g" nothing else tells.
        store.follow("in")
    assert store.follow("in", begin_anew=True).states == {"a": "3", "f": "1", "l": "3"}


def test_a_rebuilt_segment_knows_its_states_again(disk) -> None:
    store = opened(disk, wal={"reclaim_size": "1GiB"})
    follower = store.follow("in")
    for n in range(3):
        store.append({"s": ROWS}, progress=follower.at({"a": str(n)}))
        store.finalize()
    killed(store)
    path = "core_0/segments/0000000000000001.qseg"
    damage(disk, path, disk.stat(path).size - 10)
    disk.unlink(FILE)
    store = opened(disk)
    assert store.recovery.rebuilt_segments == 1
    assert [info.progress is not None for info in store._core.catalog] == [True] * 3
    assert store.progress("in") == {"a": "2"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    return tmp_path / "store"


def test_repair_keeps_what_is_known_of_sources(folder: Path) -> None:
    from quiver.clock import SystemClock
    from quiver.config import Config
    from quiver.disk import LocalDisk
    from quiver.engine.salvage import salvage

    with quiver.open(folder, slots=["s"], core=0) as store, store.follow("in") as follower:
        for n in range(2):
            store.append({"s": ROWS}, progress=follower.at({"a": str(n)}))
            store.finalize()
    segment = folder / "core_0/segments/0000000000000001.qseg"
    segment.chmod(0o600)
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    progress = folder / "core_0/progress"
    progress.write_bytes(b"x" + progress.read_bytes()[1:])
    disk = LocalDisk(folder)
    salvage(disk, config=Config.of({}), clock=SystemClock())
    disk.close()
    assert quiver.read_progress(folder, "in") == {"a": "1"}
    with quiver.open(folder) as store:
        assert store.recovery.damage == []
        assert store.progress("in") == {"a": "1"}


def test_adopting_a_core_keeps_its_states(folder: Path) -> None:
    store = quiver.open(folder, slots=["s"], core=0, worker=False)
    follower = store.follow("in")
    store.append({"s": ROWS}, progress=follower.at({"a": "1"}))
    killed(store)
    assert [adopted.core for adopted in quiver.adopt(folder)] == [0]
    assert (folder / "core_0/progress").exists()
    assert quiver.read_progress(folder, "in") == {"a": "1"}


def test_the_same_awaited(folder: Path) -> None:
    async def main() -> None:
        async with quiver.aio.open(folder, slots=["s"]) as store:
            follower = await store.follow("in")
            for n in range(3):
                await store.append({"s": ROWS}, progress=follower.at({"a": str(n)}))
            receipt = await store.append(
                {"s": ROWS}, wait=False, progress=follower.at({"b": "last"})
            )
            await receipt
            assert await store.progress("in") == {"a": "2", "b": "last"}
            with pytest.raises(LockedError):
                await store.follow("in")
            await store.unfollow(follower)
            assert (await store.follow("in")).epoch == 2

    asyncio.run(main())
    assert quiver.read_progress(folder, "in") == {"a": "2", "b": "last"}


# Nothing tells any more how far a source was read ---------------------------------------------


def read_in_parts(disk: MemoryDisk) -> None:
    """Follow a source, and delete the segments and the log that knew how far it was read."""
    store = opened(disk, wal={"reclaim_size": 1})
    done = store.subscribe("done")
    follower = store.follow("in")
    for n in range(3):
        store.append({"s": ROWS}, progress=follower.at({"a": str(n)}))
        store.finalize()
        with done.poll():
            pass
    store.maintain()
    store.close()
    assert not [e for e in disk.list_dir("core_0/segments") if e.name.endswith(".qseg")]


def spoil(disk: MemoryDisk) -> None:
    for at in (0, disk.stat(FILE).size // 2):
        damage(disk, FILE, at)


def take_away(disk: MemoryDisk) -> None:
    disk.unlink(FILE)


@pytest.mark.parametrize("lose", [spoil, take_away])
def test_a_source_whose_progress_is_gone_is_not_read_from_its_start_unasked(disk, lose) -> None:
    read_in_parts(disk)
    lose(disk)
    for _ in range(2):  # It is not forgotten when the file was written anew.
        store = opened(disk)
        store.append({"s": ROWS})
        with pytest.raises(DamageError, match=r"source 'in' was read is lost.*begin_anew"):
            store.follow("in")
        with pytest.raises(DamageError, match="is lost"):
            store.progress("in")
        store.close()
    store = opened(disk, core=1)
    with pytest.raises(DamageError, match="is lost"):
        store.follow("in")


def test_a_file_that_is_gone_is_reported_and_costs_nothing_while_segments_know(disk) -> None:
    states_everywhere(disk)
    disk.unlink(FILE)
    store = opened(disk)
    assert "is gone" in str(store.recovery.damage[0])
    assert store.progress("in") == {"a": "3", "f": "1", "g": "2", "l": "3"}
    store.maintain()
    store.close()
    assert opened(disk).recovery.damage == []


def test_a_file_that_never_was_is_not_missed(disk) -> None:
    store = opened(disk)
    store.append({"s": ROWS})
    store.finalize()
    store.close()
    assert opened(disk).recovery.damage == []
    assert disk.stat(f"{FILE}.here") is None


def test_a_file_without_its_mark_gets_it(disk) -> None:
    read_in_parts(disk)
    disk.unlink(f"{FILE}.here")
    store = opened(disk)
    store.maintain()
    assert store.recovery.damage == []
    assert disk.stat(f"{FILE}.here") is not None


def test_who_accepts_a_loss_begins_anew_and_is_not_asked_again(disk) -> None:
    read_in_parts(disk)
    spoil(disk)
    store = opened(disk)
    with store.follow("in", begin_anew=True) as follower:
        assert dict(follower.states) == {}
        store.append({"s": ROWS}, progress=follower.at({"a": "7"}))
    store.close()
    for core in (0, 1):
        store = opened(disk, core=core)
        assert dict(store.follow("in").states) == {"a": "7"}
        with pytest.raises(DamageError, match="is lost"):
            store.follow("another")
        store.close()
    spoil(disk)  # Another loss has to be accepted by itself.
    with pytest.raises(DamageError, match="is lost"):
        opened(disk).follow("in")


def test_a_loss_is_written_down_before_the_file_looks_sound_again(disk) -> None:
    read_in_parts(disk)
    spoil(disk)
    lost = f"{FILE}.lost"
    disk.fail(lambda act: act.path.startswith(lost), error="ENOSPC", sticky=True)
    store = opened(disk)
    with pytest.raises(DamageError, match="is lost"):
        store.follow("in")
    with pytest.raises(CapacityError):
        store.follow("in", begin_anew=True)
    killed(store)
    disk.heal()
    with pytest.raises(DamageError, match="quiver gc"):
        opened(disk, core=1).follow("in")
    store = opened(disk)
    store.maintain()
    killed(store)
    disk.forget_locks()
    damage(disk, lost, 5)  # What was lost cannot be read; that something was still can.
    store = opened(disk)
    with pytest.raises(DamageError, match="cannot be read any more"):
        store.follow("in")
    assert store.follow("in", begin_anew=True).states == {}


def test_a_segment_that_lost_states_is_a_loss_also_once_it_was_repaired(disk) -> None:
    from quiver.config import Config
    from quiver.engine.salvage import salvage

    states_everywhere(disk)
    info = next(i for i in opened(disk)._core.catalog if i.segment_seq == 1)
    disk.forget_locks()
    damage(disk, info.path, info.progress.offset + 4)
    assert salvage(disk, config=Config.of({}), clock=ManualClock())
    with pytest.raises(DamageError, match="progress in a segment"):
        opened(disk).follow("in")
