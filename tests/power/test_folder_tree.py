from __future__ import annotations

import os

import pytest

from quiver.disk import LocalDisk
from quiver.errors import StorageError
from quiver.testing import MemoryDisk, crash_images
from quiver.testing.file_tree import BLOCK, Tree
from quiver.testing.lives import lead
from quiver.testing.real import read_tree


def test_a_folder_is_read_as_it_was_exported(tmp_path):
    disk = MemoryDisk()
    lead("rotate", disk)
    history = disk.history
    [image] = crash_images(history, model="posix", budget=1, points=[len(history.ops)])
    image.export(str(tmp_path / "out"))
    tree = read_tree(str(tmp_path / "out"))
    assert tree.digest() == image.tree.digest()
    assert [path for path, _ in tree.walk()] == [path for path, _ in image.tree.walk()]


def test_holes_stay_holes(tmp_path):
    disk = LocalDisk(tmp_path)
    file = disk.create("log", mode=0o440)
    file.write(5 * BLOCK, b"late")
    file.truncate(9 * BLOCK)
    file.sync()
    if file.next_data(0) != 5 * BLOCK:
        pytest.skip("this file system keeps no holes")
    file.close()
    disk.close()
    [blob] = read_tree(str(tmp_path)).blobs.values()
    assert blob.blocks == {5}
    assert bytes(blob.data) == bytes(5 * BLOCK) + b"late" + bytes(4 * BLOCK - 4)
    assert blob.mode == 0o440


def test_a_folder_that_is_not_there_is_an_empty_tree(tmp_path):
    assert read_tree(str(tmp_path / "nothing")).digest() == Tree().digest()


def test_what_no_store_makes_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe is neither a file nor a folder"):
        read_tree(str(tmp_path))
