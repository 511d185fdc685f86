"""Who holds a lock is found out without taking it."""

from __future__ import annotations

import os

import pytest

from quiver.disk import LocalDisk, lock_holders
from quiver.disk.holder import LOCKS
from quiver.testing import MemoryDisk

needs_locks = pytest.mark.skipif(not os.path.exists(LOCKS), reason=f"there is no {LOCKS}")


@pytest.fixture
def disk(tmp_path):
    disk = LocalDisk(tmp_path)
    yield disk
    disk.close()


def line(place, *, kind="FLOCK", mode="WRITE", pid=7, device=None) -> str:
    found = os.stat(place)
    major, minor = device or (os.major(found.st_dev), os.minor(found.st_dev))
    return f"1: {kind}  ADVISORY  {mode} {pid} {major:02x}:{minor:02x}:{found.st_ino} 0 EOF\n"


@needs_locks
def test_a_lock_of_this_process_is_seen_until_it_is_released(disk) -> None:
    lock = disk.lock("LOCK")
    disk.lock("free").release()
    assert lock_holders(disk, ["LOCK", "free", "none"]) == {"LOCK": os.getpid()}
    lock.release()
    assert lock_holders(disk, ["LOCK", "free"]) == {}


@needs_locks
def test_looking_keeps_nobody_out(disk) -> None:
    disk.lock("LOCK").release()
    assert lock_holders(disk, ["LOCK"]) == {}
    disk.lock("LOCK").release()  # LockedError if a look had left anything behind.


@pytest.mark.parametrize(
    "other", [{"kind": "POSIX"}, {"mode": "READ"}, {"pid": "x"}, {"device": (250, 99)}]
)
def test_other_lines_do_not_count(disk, tmp_path, other) -> None:
    (tmp_path / "LOCK").write_text("8\n")
    (tmp_path / "locks").write_text(line(tmp_path / "LOCK", **other) + "odd\n")
    assert lock_holders(disk, ["LOCK"], locks=str(tmp_path / "locks")) == {}


def test_one_that_waits_does_not_hold_it(disk, tmp_path) -> None:
    (tmp_path / "LOCK").touch()
    waits = line(tmp_path / "LOCK", pid=9).replace("1: ", "1: -> ")
    (tmp_path / "locks").write_text(waits)
    assert lock_holders(disk, ["LOCK"], locks=str(tmp_path / "locks")) == {}


def test_under_another_device_the_file_itself_says_whose_it_is(disk, tmp_path) -> None:
    (tmp_path / "LOCK").write_text("7\n")
    (tmp_path / "locks").write_text(line(tmp_path / "LOCK", device=(250, 99)))
    assert lock_holders(disk, ["LOCK"], locks=str(tmp_path / "locks")) == {"LOCK": 7}


def test_a_lock_file_that_is_none_is_not_opened(disk, tmp_path) -> None:
    os.mkfifo(tmp_path / "LOCK")
    (tmp_path / "locks").write_text(line(tmp_path / "LOCK", device=(250, 99)))
    assert lock_holders(disk, ["LOCK"], locks=str(tmp_path / "locks")) == {}


def test_nobody_knows_where_the_system_does_not_tell(disk, tmp_path) -> None:
    assert lock_holders(disk, ["LOCK"], locks=str(tmp_path / "none")) is None
    assert lock_holders(MemoryDisk(), ["LOCK"]) is None
