"""Files by many writers at once, under names of their own until they are whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quiver.disk import LocalDisk, fresh_name, process_id, remove_forgotten, write_aside
from quiver.disk.aside import ASIDE, FORGOTTEN_NS, is_aside
from quiver.errors import CapacityError, MissingError
from quiver.testing import MemoryDisk

NOW = 1_700_000_000_000_000_000


def test_it_is_synced_before_it_has_its_name_and_once() -> None:
    disk = MemoryDisk()
    disk.make_dir("a")
    file = write_aside(disk, "a", [b"12", memoryview(b"3")])
    (entry,) = disk.list_dir("a")
    assert is_aside(entry.name)
    assert not is_aside("x.tmp")
    assert not is_aside(f"{ASIDE}x")
    acts = [type(op).__name__ for op in disk.history.ops]
    assert acts == ["MakeDir", "Create", "Write", "Write", "Sync"]
    file.finish("a/x")
    assert [entry.name for entry in disk.list_dir("a")] == ["x"]
    assert bytes(disk.map("a/x")) == b"123"


def test_two_writers_never_share_a_name() -> None:
    disk = MemoryDisk()
    first, second = write_aside(disk, "", [b"1"]), write_aside(disk, "", [b"2"])
    assert len(disk.list_dir("")) == 2
    second.finish("x")
    first.finish("x")
    assert bytes(disk.map("x")) == b"1"
    assert len({fresh_name() for _ in range(1000)}) == 1000
    assert process_id() == os.getpid()


def test_a_write_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()

    def parts():
        yield b"1"
        raise CapacityError("full")

    with pytest.raises(CapacityError):
        write_aside(disk, "", parts())
    assert disk.list_dir("") == []


def test_what_is_forgotten_is_removed_and_nothing_else(tmp_path: Path) -> None:
    ages = {
        f"{ASIDE}old.tmp": FORGOTTEN_NS + 1,
        f"{ASIDE}young.tmp": FORGOTTEN_NS,
        f"{ASIDE}future.tmp": -FORGOTTEN_NS,
        "old.tmp": 2 * FORGOTTEN_NS,
        "old": 2 * FORGOTTEN_NS,
    }
    for name, age in ages.items():
        (tmp_path / name).write_bytes(b"1")
        os.utime(tmp_path / name, ns=(NOW - age, NOW - age))
    (tmp_path / f"{ASIDE}folder.tmp").mkdir()
    os.utime(tmp_path / f"{ASIDE}folder.tmp", ns=(0, 0))
    assert remove_forgotten(LocalDisk(tmp_path), "", now_ns=NOW) == 1
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*ages, f"{ASIDE}folder.tmp"} - {f"{ASIDE}old.tmp"}


def test_a_slow_writer_whose_file_was_removed_is_told() -> None:
    disk = MemoryDisk()
    file = write_aside(disk, "", [b"1"])
    assert remove_forgotten(disk, "", now_ns=2 * FORGOTTEN_NS) == 1  # This disk has no clock.
    with pytest.raises(MissingError):
        file.finish("x")
    file.discard()
    assert disk.list_dir("") == []
