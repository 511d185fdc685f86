"""The kernel reports a failed writeback once and then forgets it: a store must not.

A sync here fails with ENOSPC from the block device, as on a disk of thin provisioning, or with EIO
when the whole disk is gone. What follows is the same for both: pages are clean and the bytes are
on no disk.
"""

from __future__ import annotations

import errno
import os

import pytest

from quiver.disk import LocalDisk
from quiver.disk.local_file import LocalFile
from quiver.errors import PoisonedError, QuiverError
from quiver.testing.acts import Mark
from quiver.testing.lives import config_of
from quiver.testing.oracle import QuiverSubject
from quiver.testing.real import Leftover, Power, Volume, WatchedDisk, read_tree
from quiver.testing.rehearsal import Rehearsal
from quiver.testing.subject import Loss

MANY = 120
"""Bundles that make a log so large that it needs blocks which nobody has set aside."""

BUNDLE_BYTES = 800

pytestmark = pytest.mark.root


def is_plain(life: str) -> bool:
    wal = config_of(life).wal
    return wal.durability == "sync" and wal.rotate_size > MANY * BUNDLE_BYTES


LIFE = next(name for n in range(1000) if is_plain(name := f"seed {n}"))
"""Its log is synced for each bundle and not rotated while it grows into new blocks."""


class Occupant:
    """A store on a volume."""

    def __init__(self, volume: Volume) -> None:
        self.volume = volume
        self.folder = volume.new_folder()
        self.marks: list[Mark] = []
        self.move_in()

    def move_in(self) -> None:
        disk = LocalDisk(self.folder, create=True)
        self.disk = WatchedDisk(disk, note=self.marks.append)
        self.disk.mark("life", name=LIFE)
        self.life = Rehearsal(self.disk, config=config_of(LIFE))

    def move_out(self) -> None:
        """Die without tidying up."""
        self.life.crash()
        self.disk.close()
        del self.life

    def reboot(self) -> Leftover:
        """Die, and let the power fail: what the page cache had is gone."""
        self.move_out()
        self.volume.shut_down(Power.NOTHING)
        self.volume.remount()
        return Leftover(LIFE, "a failed sync", tuple(self.marks), read_tree(self.folder))

    def fill(self) -> None:
        self.life.append(MANY)


def test_the_kernel_calls_the_second_sync_a_success_although_the_bytes_are_lost(cramped):
    folder = cramped.volume.new_folder()
    os.mkdir(folder)
    file = os.open(f"{folder}/log", os.O_RDWR | os.O_CREAT)
    try:
        os.fsync(file)
        cramped.cramp()
        data = b"promise " * (1 << 17)
        os.pwrite(file, data, 0)
        with pytest.raises(OSError) as caught:
            os.fdatasync(file)
        assert caught.value.errno in (errno.ENOSPC, errno.EIO)
        os.fdatasync(file)
        assert os.pread(file, len(data), 0) == data
    finally:
        os.close(file)
    cramped.relieve()
    cramped.volume.remount()
    with open(f"{folder}/log", "rb") as again:
        assert b"promise" not in again.read()


def test_a_store_whose_sync_failed_acknowledges_nothing_more(cramped):
    store = Occupant(cramped.volume)
    store.life.append(2)
    cramped.cramp()
    with pytest.raises(PoisonedError, match="cannot sync"):
        store.fill()
    durable = store.life.durable
    with pytest.raises(PoisonedError):
        store.life.append()
    cramped.relieve()
    with pytest.raises(PoisonedError):
        store.life.append()
    assert 2 <= store.life.durable == durable < MANY
    store.reboot().judge(QuiverSubject())


def test_a_store_that_is_opened_again_believes_the_disk_and_not_the_cache(cramped):
    store = Occupant(cramped.volume)
    cramped.cramp()
    with pytest.raises(PoisonedError):
        store.fill()
    durable = store.life.durable
    store.move_out()
    cramped.relieve()
    store.move_in()
    first, end = store.life.store.recovery.lost_wal_seqs
    assert (first if first < end else store.life.sent) == durable
    store.life.append(3)
    leftover = store.reboot()
    leftover.judge(QuiverSubject())
    assert max(mark["number"] for mark in leftover.marks if mark.label == "acknowledged") > durable


def test_a_store_that_syncs_a_second_time_is_found_out(cramped, monkeypatch):
    real = LocalFile.sync

    def sync_twice(file: LocalFile) -> None:
        try:
            real(file)
        except QuiverError:
            real(file)

    monkeypatch.setattr(LocalFile, "sync", sync_twice)
    store = Occupant(cramped.volume)
    cramped.cramp()
    store.fill()
    cramped.relieve()
    with pytest.raises(Loss, match="acknowledged bundles are lost"):
        store.reboot().judge(QuiverSubject())


def test_a_store_that_believes_the_cache_is_found_out(cramped, monkeypatch):
    monkeypatch.setattr(LocalFile, "settle", LocalFile.sync)
    store = Occupant(cramped.volume)
    cramped.cramp()
    with pytest.raises(PoisonedError):
        store.fill()
    durable = store.life.durable
    store.move_out()
    cramped.relieve()
    store.move_in()
    assert store.life.sent == durable + 1
    store.life.flush()
    with pytest.raises(Loss, match="acknowledged bundles are lost"):
        store.reboot().judge(QuiverSubject())


@pytest.mark.parametrize("power", Power)
def test_a_store_whose_disk_is_gone_says_so_each_time(volume, power):
    store = Occupant(volume)
    store.life.append(5)
    volume.shut_down(power)
    for _ in range(2):
        with pytest.raises(QuiverError) as caught:
            store.life.append()
        cause = caught.value.__cause__ or caught.value
        assert cause.errno == errno.EIO
    assert store.life.durable == 5
    store.move_out()
    volume.remount()
    leftover = Leftover(LIFE, "a dead disk", tuple(store.marks), read_tree(store.folder))
    leftover.judge(QuiverSubject())
