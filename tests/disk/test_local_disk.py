"""LocalDisk: modes, links, errors with their path, holes."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys

import pytest

from quiver.disk import FILE_MODE, SEALED_MODE, LocalDisk, replace, write_new
from quiver.errors import CapacityError, MissingError, QuiverError, StorageError


@pytest.fixture
def disk(tmp_path):
    disk = LocalDisk(tmp_path / "store", create=True)
    yield disk
    disk.close()


def mode(disk: LocalDisk, path: str) -> int:
    return stat.S_IMODE(os.stat(disk.locate(path)).st_mode)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077, 0o777])
def test_modes_are_the_same_under_any_umask(tmp_path, umask: int) -> None:
    before = os.umask(umask)
    try:
        disk = LocalDisk(tmp_path / "store", create=True)
        disk.make_dir("core_0")
        write_new(disk, "core_0/a", [b"a"], mode=SEALED_MODE)
        replace(disk, "b", b"b")
        disk.lock("LOCK").release()
    finally:
        os.umask(before)
    assert mode(disk, "") == mode(disk, "core_0") == 0o700
    assert mode(disk, "core_0/a") == 0o440
    assert mode(disk, "b") == mode(disk, "LOCK") == FILE_MODE == 0o600
    disk.close()


def test_a_root_is_made_with_the_folders_above_it(tmp_path) -> None:
    disk = LocalDisk(tmp_path / "a" / "b" / "c", create=True)
    assert disk.root == str(tmp_path / "a" / "b" / "c")
    assert disk.list_dir("") == []
    again = LocalDisk(disk.root, create=True)
    assert repr(again) == f"LocalDisk({disk.root!r})"
    for one in (disk, disk, again):
        one.close()


def test_a_root_that_is_missing_or_no_folder_is_refused(tmp_path) -> None:
    with pytest.raises(MissingError, match=r"there is no folder .*/nothing"):
        LocalDisk(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "gone")
    for name in ("file", "dangling"):
        with pytest.raises(StorageError, match=f"{name} is not a folder .*a store is a folder"):
            LocalDisk(tmp_path / name, create=True)
    with pytest.raises(StorageError, match="is not a folder"):
        LocalDisk(tmp_path / "file" / "below")
    with pytest.raises(StorageError):
        LocalDisk(tmp_path / "file" / "below", create=True)


def test_an_existing_root_keeps_its_mode(tmp_path) -> None:
    (tmp_path / "shared").mkdir(mode=0o750)
    (tmp_path / "shared").chmod(0o750)
    disk = LocalDisk(tmp_path / "shared", create=True)
    assert mode(disk, "") == 0o750
    disk.close()


def test_links_are_never_followed(disk, tmp_path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    os.symlink(tmp_path / "victim", disk.locate("link"))
    os.symlink(tmp_path, disk.locate("folder"))
    for refused in (
        lambda: disk.open("link"),
        lambda: disk.open("link", writable=True),
        lambda: disk.map("link"),
        lambda: disk.create("link"),
        lambda: disk.lock("link"),
        lambda: disk.make_dir("folder"),
        lambda: disk.list_dir("folder"),
        lambda: disk.sync_dir("folder"),
    ):
        with pytest.raises(StorageError):
            refused()
    with pytest.raises(StorageError, match="links are not followed inside a store"):
        disk.open("link")
    assert not disk.stat("link").is_file
    replace(disk, "link", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert bytes(disk.map("link")) == b"new"


def test_a_link_planted_as_the_temporary_is_removed_and_not_followed(disk, tmp_path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    os.symlink(tmp_path / "victim", disk.locate("x.tmp"))
    replace(disk, "x", b"new")
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_what_is_no_regular_file_is_refused_at_once(disk) -> None:
    os.mkfifo(disk.locate("pipe"))
    disk.make_dir("folder")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        os.chdir(disk.root)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        for path in ("pipe", "folder", "socket"):
            assert not disk.stat(path).is_file
            for writable in (False, True):
                with pytest.raises(StorageError):
                    disk.open(path, writable=writable)
    with pytest.raises(StorageError):
        disk.make_dir("pipe")
    with pytest.raises(StorageError):
        disk.lock("pipe")


def test_what_is_missing_is_told_apart_and_named(disk) -> None:
    replace(disk, "file", b"x")
    for missing in (
        lambda: disk.open("no"),
        lambda: disk.map("no"),
        lambda: disk.unlink("no"),
        lambda: disk.rename("no", "other"),
        lambda: disk.list_dir("no"),
        lambda: disk.sync_dir("no"),
        lambda: disk.create("no/file"),
        lambda: disk.lock("no/LOCK"),
        lambda: disk.make_dir("no/folder"),
        lambda: disk.open("file/below"),
    ):
        with pytest.raises(MissingError, match=disk.root) as caught:
            missing()
        assert caught.value.path.startswith(disk.root)
        assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR)
    assert disk.stat("no") is None
    assert disk.stat("file/below") is None
    with pytest.raises(StorageError, match=r"File exists"):
        disk.create("file")


def test_acts_on_a_closed_file_are_refused(disk) -> None:
    file = disk.create("x")
    file.close()
    file.close()
    for act in (
        lambda: file.read(0, 1),
        lambda: file.write(0, b"x"),
        lambda: file.truncate(0),
        lambda: file.punch(0, 1),
        lambda: file.next_data(0),
        file.sync,
        file.size,
    ):
        with pytest.raises(QuiverError):
            act()


def test_a_map_outlives_the_name_and_a_new_file_of_that_name(disk) -> None:
    replace(disk, "x", b"old")
    view = disk.map("x")
    replace(disk, "x", b"new")
    disk.unlink("x")
    assert bytes(view) == b"old"
    assert view.readonly
    replace(disk, "empty", b"")
    assert bytes(disk.map("empty")) == b""


def test_reads_end_where_the_file_ends_and_writes_leave_zeros_between(disk) -> None:
    file = disk.create("x")
    file.write(5, memoryview(b"abcdef")[1:4])
    assert file.read(0, 100) == bytes(5) + b"bcd"
    assert file.read(6, 1) == b"c"
    assert file.read(8, 1) == b""
    file.truncate(2)
    assert file.size() == 2
    file.truncate(4)
    assert file.read(0, 9) == bytes(4)
    file.close()


def test_typed_buffers_are_written_by_their_bytes(disk) -> None:
    file = disk.create("x")
    file.write(0, memoryview(bytearray(8)).cast("Q"))
    assert file.size() == 8
    file.close()


def test_entries_come_in_order_of_name_with_their_sizes(disk) -> None:
    disk.make_dir("sub")
    for name in ("b", "a"):
        replace(disk, f"sub/{name}", name.encode() * 5000)
    assert [(entry.name, entry.size) for entry in disk.list_dir("sub")] == [
        ("a", 5000),
        ("b", 5000),
    ]
    assert [entry.is_file for entry in disk.list_dir("")] == [False]
    disk.make_dir("sub")


def test_punching_frees_blocks_or_says_that_it_cannot(disk) -> None:
    file = disk.create("x")
    file.write(0, b"x" * (1 << 20))
    file.sync()
    before = disk.stat("x").allocated
    assert file.punch(0, 0) is False
    punched = file.punch(0, 1 << 19)
    assert file.size() == 1 << 20
    if punched:
        assert disk.stat("x").allocated <= before - (1 << 19) + 4096
        assert file.read(0, 1 << 19) == bytes(1 << 19)
        assert file.next_data(0) == 1 << 19
    else:
        assert file.read(0, 4) == b"xxxx"
        assert file.next_data(0) == 0
    assert file.read(1 << 19, 4) == b"xxxx"
    assert file.next_data(1 << 20) is None
    file.close()


SHORT_WRITE = """
import resource, signal, sys
from quiver.disk import LocalDisk
from quiver.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
disk = LocalDisk(sys.argv[1])
file = disk.create("x")
file.write(0, b"a" * 900)
try:
    file.write(900, b"b" * 900)
except StorageError as error:
    print(error.errno, file.size())
file.truncate(900)
file.write(900, b"c" * 100)
print(file.read(895, 200).decode()[:10], file.size())
"""


def test_a_write_that_ends_short_raises_and_can_be_taken_back(disk) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT_WRITE, disk.root],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split("\n")[:2] == [f"{errno.EFBIG} 1000", "aaaaaccccc 1000"]


@pytest.fixture
def small_mount(tmp_path):
    """Mount a tmpfs of 256 KiB; skipped, and said so, where that is not allowed."""
    place = tmp_path / "mount"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,nr_inodes=20", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        assert os.path.ismount(place), "never fill a disk that is not the small one"
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.root
def test_a_full_file_system_is_a_capacity_error_and_room_makes_it_work_again(small_mount) -> None:
    disk = LocalDisk(small_mount)
    replace(disk, "kept", b"old")
    file = disk.create("x")
    with pytest.raises(CapacityError, match=r"No space left .*free space on this file system"):
        file.write(0, bytes(512 << 10))
    assert file.size() < 512 << 10, "a prefix was written"
    with pytest.raises(CapacityError):
        replace(disk, "kept", b"n" * 8192)
    assert bytes(disk.map("kept")) == b"old"
    file.truncate(0)
    replace(disk, "kept", b"n" * 8192)
    assert disk.stat("kept").size == 8192
    file.close()
    disk.close()


@pytest.mark.root
def test_a_file_system_without_inodes_is_a_capacity_error(small_mount) -> None:
    disk = LocalDisk(small_mount)
    with pytest.raises(CapacityError, match="cannot create"):
        for number in range(30):
            disk.create(f"x{number}").close()
    assert len(disk.list_dir("")) < 30
    disk.close()
