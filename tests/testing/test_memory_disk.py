"""MemoryDisk keeps the promises of the Disk protocol, fills up, and fails when told to."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from quiver.disk import FILE_MODE, replace
from quiver.errors import CapacityError, LockedError, MissingError, StorageError
from quiver.testing import ManualClock, Mark, MemoryDisk
from quiver.testing.acts import Create, Rename, Sync, Unlink, Write


def test_history_names_every_act_in_order() -> None:
    disk = MemoryDisk()
    disk.make_dir("a")
    replace(disk, "a/x", b"12345")
    disk.mark("done", number=1)
    file = disk.open("a/x", writable=True)
    file.punch(0, 2)
    file.truncate(3)
    disk.unlink("a/x")
    assert [str(op) for op in disk.history.ops] == [
        "make folder a",
        "create a/x.tmp mode 0600",
        "write a/x.tmp [0, 5)",
        "sync a/x.tmp",
        "rename a/x.tmp to a/x",
        "sync folder a",
        "mark done number=1",
        "punch a/x [0, 2)",
        "truncate a/x to 3",
        "unlink a/x",
    ]
    assert disk.act_count == 9


def test_unlinked_file_stays_readable_while_it_is_open_and_then_frees_its_room() -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    file.write(0, b"x" * 5000)
    view = disk.map("x")
    disk.unlink("x")
    assert disk.stat("x") is None
    assert file.read(4998, 10) == b"xx"
    assert disk.used() == 8192
    file.close()
    file.close()
    assert disk.used() == 0
    assert view[4999] == ord("x")


def test_map_keeps_the_bytes_of_its_moment() -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    file.write(0, b"old")
    view = disk.map("x")
    file.write(0, b"new and longer")
    assert bytes(view) == b"old"


def test_replaced_file_gives_its_room_back() -> None:
    disk = MemoryDisk()
    replace(disk, "x", b"1" * 5000)
    replace(disk, "x", b"2")
    assert disk.used() == 4096


def test_full_disk_takes_the_prefix_that_fits_and_says_so() -> None:
    disk = MemoryDisk(capacity=8192)
    file = disk.create("x")
    with pytest.raises(CapacityError) as caught:
        file.write(100, b"y" * 10_000)
    assert caught.value.retryable
    assert file.size() == 8192
    file.truncate(100)
    file.write(100, b"fits")
    assert file.read(100, 4) == b"fits"


def test_full_disk_lets_bytes_be_overwritten_and_freed() -> None:
    disk = MemoryDisk(capacity=4096)
    file = disk.create("x")
    file.write(0, bytes(4096))
    file.write(10, b"over")
    with pytest.raises(CapacityError):
        file.write(4096, b"y")
    assert file.size() == 4096
    file.punch(0, 4096)
    disk.create("z").write(0, b"now there is room")


def test_holes_are_zeros_that_take_no_room() -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    file.write(3 * 4096, b"end")
    assert disk.stat("x").allocated == 4096
    assert file.next_data(0) == 3 * 4096
    file.write(0, b"a" * 8192)
    assert file.punch(100, 4096)
    assert disk.stat("x").allocated == 3 * 4096, "no whole block is covered"
    assert file.punch(0, 8192)
    assert file.read(0, 10) == bytes(10)
    assert file.next_data(5) == 3 * 4096
    assert file.next_data(3 * 4096 + 1) == 3 * 4096 + 1
    assert file.next_data(file.size()) is None
    assert file.size() == 3 * 4096 + 3


def test_disk_without_punching_says_so_and_leaves_the_bytes() -> None:
    disk = MemoryDisk(punch_supported=False)
    file = disk.create("x")
    file.write(0, b"a" * 4096)
    assert file.punch(0, 4096) is False
    assert file.read(0, 1) == b"a"


def test_failing_write_leaves_nothing_and_works_again() -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    fault = disk.fail(1)
    with pytest.raises(StorageError) as caught:
        file.write(0, b"1234")
    assert caught.value.errno == errno.EIO
    assert caught.value.path == "memory:/x"
    assert (file.size(), fault.hits) == (0, 1)
    file.write(0, b"1234")
    assert file.size() == 4


def test_short_write_leaves_half_and_reports_a_full_disk() -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    disk.fail(lambda op: isinstance(op, Write), error="short")
    with pytest.raises(CapacityError):
        file.write(0, b"1234")
    assert file.read(0, 10) == b"12"


def test_sticky_fault_goes_on_until_it_is_healed() -> None:
    disk = MemoryDisk()
    fault = disk.fail(1, error="ENOSPC", sticky=True)
    disk.create("x")
    for name in "abc":
        with pytest.raises(CapacityError):
            disk.create(name)
    assert fault.hits == 3
    disk.heal()
    disk.create("a")


@pytest.mark.parametrize("kind", [Create, Rename, Unlink, Sync])
def test_fault_by_predicate_fails_that_act_and_changes_nothing(kind: type) -> None:
    disk = MemoryDisk()
    file = disk.create("x")
    disk.fail(lambda op: isinstance(op, kind))
    with pytest.raises(StorageError):
        {
            Create: lambda: disk.create("y"),
            Rename: lambda: disk.rename("x", "y"),
            Unlink: lambda: disk.unlink("x"),
            Sync: file.sync,
        }[kind]()
    assert [entry.name for entry in disk.list_dir("")] == ["x"]


def test_each_act_of_a_replace_may_fail_and_the_name_keeps_old_or_new() -> None:
    plain = MemoryDisk()
    replace(plain, "x", b"new")
    for number in range(plain.act_count):
        for kind in ("EIO", "ENOSPC", "short"):
            disk = MemoryDisk()
            replace(disk, "x", b"old")
            renamed = sum(isinstance(op, Rename) for op in disk.history.ops)
            disk.fail(disk.act_count + number, error=kind)
            with pytest.raises((StorageError, CapacityError)):
                replace(disk, "x", b"new")
            renamed = sum(isinstance(op, Rename) for op in disk.history.ops) - renamed
            assert bytes(disk.map("x")) == (b"new" if renamed else b"old")
            assert [entry.name for entry in disk.list_dir("")] == ["x"], "no litter"


def test_replace_after_a_crash_gets_rid_of_the_left_over_temporary() -> None:
    disk = MemoryDisk()
    disk.create("x.tmp", mode=0o400).write(0, b"half")
    replace(disk, "x", b"new")
    assert [entry.name for entry in disk.list_dir("")] == ["x"]
    assert disk.mode("x") == FILE_MODE


def test_lock_is_refused_while_held_and_free_again_after_release_or_crash() -> None:
    disk = MemoryDisk()
    held = disk.lock("LOCK")
    with pytest.raises(LockedError) as caught:
        disk.lock("LOCK")
    assert caught.value.pid == os.getpid()
    MemoryDisk(disk.tree).lock("LOCK")
    held.release()
    second = disk.lock("LOCK")
    held.release()
    with pytest.raises(LockedError):
        disk.lock("LOCK")
    second.release()


def test_what_is_missing_taken_or_closed_is_refused_with_its_path() -> None:
    disk = MemoryDisk()
    disk.create("x").close()
    disk.make_dir("a")
    for missing in (
        lambda: disk.open("y"),
        lambda: disk.map("y"),
        lambda: disk.unlink("y"),
        lambda: disk.rename("y", "z"),
        lambda: disk.create("b/x"),
        lambda: disk.list_dir("b"),
        lambda: disk.sync_dir("b"),
        lambda: disk.make_dir("b/c"),
    ):
        with pytest.raises(MissingError, match="memory:/"):
            missing()
    closed = disk.open("x", writable=True)
    closed.close()
    for refused in (
        lambda: disk.create("x"),
        lambda: disk.make_dir("x"),
        lambda: disk.open("a"),
        lambda: disk.unlink("a"),
        lambda: disk.rename("x", "a"),
        lambda: disk.open("x").write(0, b"1"),
        lambda: closed.write(0, b"1"),
        closed.size,
        closed.sync,
    ):
        with pytest.raises(StorageError):
            refused()
    disk.make_dir("a")


def test_threads_lose_no_act() -> None:
    disk = MemoryDisk()

    def work(name: str) -> None:
        file = disk.create(name)
        for number in range(200):
            file.write(number, b"x")
        file.sync()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert disk.act_count == len(disk.history.ops) == 4 * 202
    assert [entry.size for entry in disk.list_dir("")] == [200] * 4


def test_mark_keeps_its_facts() -> None:
    disk = MemoryDisk()
    disk.mark("acked", wal_seq=3, subscriber="a")
    assert disk.history.ops == (Mark("acked", (("subscriber", "a"), ("wal_seq", 3))),)
    assert disk.act_count == 0


def test_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(wall_ns=1_000, monotonic_ns=5)
    assert (clock.wall_ns(), clock.monotonic_ns()) == (1_000, 5)
    clock.step("1ms")
    assert (clock.wall_ns(), clock.monotonic_ns()) == (1_001_000, 1_000_005)
    clock.jump_to(7)
    assert (clock.wall_ns(), clock.monotonic_ns()) == (7, 1_000_005)
