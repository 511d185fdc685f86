"""A lock that is waited for: as soon as it is free, and not beyond the time given."""

import os

import pytest

from quiver.disk import LocalDisk, lock_within
from quiver.errors import LockedError


class Time:
    """A clock that goes when somebody pauses, and does something at a moment."""

    def __init__(self, *, at=float("inf"), act=lambda: None):
        self.now = 100.0
        self.pauses = []
        self._at = at
        self._act = act

    def __call__(self):
        return self.now

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds
        if self.now >= self._at:
            self._act()


@pytest.fixture
def disk(tmp_path):
    disk = LocalDisk(tmp_path / "store", create=True)
    yield disk
    disk.close()


def test_a_lock_that_is_free_is_taken_at_once(disk):
    clock = Time()
    lock_within(disk, "lock", 0, now=clock, pause=clock.pause).release()
    assert clock.pauses == []


def test_a_lock_is_asked_for_until_the_time_is_over(disk):
    held = disk.lock("lock")
    clock = Time()
    with pytest.raises(LockedError):
        lock_within(disk, "lock", 1.0, now=clock, pause=clock.pause)
    assert sum(clock.pauses) == pytest.approx(1.0)
    assert clock.pauses[:3] == [0.001, 0.002, 0.004]
    assert max(clock.pauses) == 0.05
    held.release()


def test_no_time_is_one_try(disk):
    held = disk.lock("lock")
    clock = Time()
    with pytest.raises(LockedError):
        lock_within(disk, "lock", 0, now=clock, pause=clock.pause)
    assert clock.pauses == []
    held.release()


def test_a_lock_that_becomes_free_is_taken(disk):
    clock = Time(at=100.1, act=disk.lock("lock").release)
    lock_within(disk, "lock", 5, now=clock, pause=clock.pause).release()
    assert sum(clock.pauses) < 0.2


def test_a_look_tells_links_from_files_and_folders(disk):
    disk.create("file").close()
    disk.make_dir("folder")
    os.symlink("file", disk.locate("link"))
    found = {entry.name: (entry.is_file, entry.is_link) for entry in disk.list_dir("")}
    assert found == {"file": (True, False), "folder": (False, False), "link": (False, True)}
