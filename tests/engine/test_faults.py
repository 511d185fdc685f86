"""A disk that fails: every act, once, with an error, a full disk or a short write."""

from __future__ import annotations

import errno

import pytest
from store_kit import bundle, numbers, on_memory

import quiver
from quiver.errors import StorageError
from quiver.testing import MemoryDisk, crash_images


def test_a_failed_finalize_keeps_the_bundles_and_is_tried_again() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    with pytest.raises(quiver.CapacityError):
        store.finalize()
    store.append(bundle(1))
    assert store.metrics()["quiver.segment.finalize_failures", ""] == 1
    assert not [e.name for e in disk.list_dir("core_0/segments")]
    assert store.info().open_bundles == 2
    disk.heal()
    info = store.finalize()
    assert (info.segment_seq, info.wal_seq_first, info.wal_seq_last) == (1, 1, 1)
    assert store.info().open_bundles == 0
    assert numbers(store) == [0, 1]


def test_an_append_that_crosses_the_threshold_succeeds_although_finalizing_fails() -> None:
    disk = MemoryDisk()
    store = on_memory(disk, segment={"target_size": 1500})
    disk.fail(lambda act: act.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    taken = []
    with pytest.raises(quiver.CapacityError):
        for n in range(100):
            store.append(bundle(n))
            taken.append(n)
    assert 2 < len(taken) < 10
    disk.heal()
    store.append(bundle(len(taken)))
    store.finalize()
    assert numbers(store) == [*taken, len(taken)]


def test_a_full_disk_refuses_the_append_and_takes_it_when_there_is_room() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    disk.fail(lambda act: type(act).__name__ == "Write", error="short", sticky=True)
    for _ in range(2):
        with pytest.raises(quiver.CapacityError):
            store.append(bundle(1))
    disk.heal()
    store.append(bundle(2))
    again = on_memory(MemoryDisk(disk.tree))
    again.finalize()
    assert numbers(again) == [0, 2]
    assert again.recovery.torn_tail is None


def test_a_failed_sync_poisons_the_store_until_it_is_opened_again() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    disk.fail(lambda act: type(act).__name__ == "Sync" and act.path.endswith("quiver.wal"))
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(1))
    for act in (lambda: store.append(bundle(2)), store.finalize, store.flush, store.maintain):
        with pytest.raises(quiver.PoisonedError, match="open it again"):
            act()
    again = on_memory(MemoryDisk(disk.tree))
    again.append(bundle(3))
    again.finalize()
    found = numbers(again)
    assert found[0] == 0
    assert found[-1] == 3


def test_a_segment_whose_name_may_not_be_durable_poisons_the_store() -> None:
    disk = MemoryDisk()
    store = on_memory(disk)
    store.append(bundle(0))
    disk.fail(lambda act: type(act).__name__ == "SyncDir" and act.path.endswith("segments"))
    with pytest.raises(StorageError):
        store.finalize()
    with pytest.raises(quiver.PoisonedError):
        store.append(bundle(1))
    again = on_memory(MemoryDisk(disk.tree))
    again.finalize()
    assert numbers(again) == [0]


class Crowded(MemoryDisk):
    """A disk on which nobody can open the folder of segments for a while."""

    no_descriptors = False

    def sync_dir(self, path: str) -> None:
        if self.no_descriptors and path.endswith("segments"):
            raise StorageError("too many open files", path=path, errno=errno.EMFILE)
        super().sync_dir(path)


def test_a_folder_that_cannot_be_opened_after_a_deletion_is_synced_later() -> None:
    disk = Crowded()
    store = on_memory(disk, acks={"max_size": 1})  # A checkpoint at each tick.
    store.subscribe("reader")
    for number in range(2):
        store.append(bundle(number))
        store.finalize()
    subscription = store.subscribe("reader", order="newest")
    subscription.poll().ack()
    disk.no_descriptors = True
    for _ in range(2):
        with pytest.raises(StorageError, match="too many open files"):
            store.maintain()
    assert store.info().segments == 1
    assert store.append(bundle(2)) == 2  # It goes on: no sync failed.
    history = disk.history
    for image in crash_images(history, model="posix", budget=50, points=[len(history.ops)]):
        again = on_memory(image.disk())
        again.finalize()
        assert numbers(again) == [0, 2]  # Not 1, though its segment may be there again.
    disk.no_descriptors = False
    store.maintain()
    history = disk.history
    for image in crash_images(history, model="posix", budget=50, points=[len(history.ops)]):
        assert [e.name for e in image.disk().list_dir("core_0/segments")] == [f"{0:016}.qseg"]
    store.close()


def test_every_act_may_fail_once_and_nothing_acknowledged_is_lost() -> None:
    """Fail each act of a life in turn, with an error and with a full disk, then open again."""
    for error in ("EIO", "ENOSPC", "short"):
        act, done = 0, False
        while not done:
            disk = MemoryDisk()
            fault = disk.fail(act, error=error)
            acknowledged = []
            try:
                store = on_memory(disk, wal={"rotate_size": 2500})
                store.subscribe("reader")
                for n in range(6):
                    store.append(bundle(n))
                    acknowledged.append(n)
                    if n % 2:
                        store.finalize()
                store.close()
            except quiver.QuiverError:
                pass
            done = fault.hits == 0
            again = on_memory(MemoryDisk(disk.tree))
            again.finalize()
            found = numbers(again)
            assert found == sorted(set(found)), f"act {act} {error}"
            assert set(acknowledged) <= set(found), f"act {act} {error}"
            act += 1
        assert act > 60
