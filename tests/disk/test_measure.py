"""How much room a folder takes, while somebody deletes from it."""

from __future__ import annotations

from unittest import mock

from quiver.disk import folder_bytes
from quiver.errors import MissingError
from quiver.testing import MemoryDisk


def filled() -> MemoryDisk:
    disk = MemoryDisk()
    for folder in ("a", "a/b", "a/c"):
        disk.make_dir(folder)
    for path, size in (("a/x", 1), ("a/b/y", 5000), ("a/c/z", 4096)):
        file = disk.create(path)
        file.write(0, bytes(size))
        file.close()
    return disk


def test_all_below_a_folder_counts_in_blocks() -> None:
    disk = filled()
    assert folder_bytes(disk, "a") == 4 * 4096
    assert folder_bytes(disk, "a/b") == 2 * 4096
    assert folder_bytes(disk, "none") == 0


def test_what_goes_while_it_is_looked_at_counts_as_gone() -> None:
    disk = filled()
    honest = disk.list_dir

    def list_dir(path: str) -> object:
        if path == "a/b":
            raise MissingError("gone", path=path)
        return honest(path)

    with mock.patch.object(disk, "list_dir", list_dir):
        assert folder_bytes(disk, "a") == 2 * 4096
