"""A folder of a disk is a disk of its own, and is renamed as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from quiver.disk import Disk, FolderDisk, LocalDisk, write_new
from quiver.errors import LockedError, MissingError, StorageError
from quiver.testing import MemoryDisk


@pytest.fixture(params=["local", "memory"])
def disk(request, tmp_path: Path) -> Disk:
    return LocalDisk(tmp_path) if request.param == "local" else MemoryDisk()


def test_each_act_is_one_on_the_disk_below(disk) -> None:
    disk.make_dir("a")
    inside = FolderDisk(disk, "a")
    inside.make_dir("b")
    write_new(inside, "b/file", [b"bytes"], mode=0o440)
    assert bytes(disk.map("a/b/file")) == bytes(inside.map("b/file")) == b"bytes"
    assert inside.locate("b") == disk.locate("a/b")
    assert inside.locate("") == disk.locate("a")
    assert inside.stat("").is_file is False
    assert inside.stat("b/file").size == 5
    assert [entry.name for entry in inside.list_dir("")] == ["b"]
    inside.rename("b/file", "other")
    file = inside.open("other")
    assert (file.read(0, 9), file.path) == (b"bytes", "a/other")
    file.close()
    inside.unlink("other")
    assert disk.stat("a/other") is None
    lock = inside.lock("LOCK")
    with pytest.raises(LockedError):
        disk.lock("a/LOCK")
    lock.release()
    inside.sync_dir("")
    with pytest.raises(MissingError, match="a/absent"):
        inside.open("absent")


def test_the_folder_of_it_is_renamed_with_all_that_is_in_it(disk) -> None:
    for name in ("new", "new/inner", "taken", "taken/inner"):
        disk.make_dir(name)
    file = disk.create("new/inner/file")
    file.write(0, b"x")
    with pytest.raises(StorageError):
        disk.rename("new", "taken")
    disk.rename("new", "other")
    assert [entry.name for entry in disk.list_dir("")] == ["other", "taken"]
    assert bytes(disk.map("other/inner/file")) == b"x"
    file.close()


def test_only_a_real_disk_says_when_a_file_was_written_and_looks_are_equal(disk) -> None:
    disk.create("file").close()
    (entry,) = disk.list_dir("")
    found = disk.stat("file")
    assert entry == found
    assert entry.modified_ns == found.modified_ns
    assert (found.modified_ns > 0) == isinstance(disk, LocalDisk)
