from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from bench.segment.pages import drop, resident
from quiver.disk import LocalDisk, fetch, fetch_ranges, let_go, mapping, read_along, read_apart
from quiver.disk.calls import advise
from quiver.testing import MemoryDisk

PAGE = mmap.PAGESIZE
SIZE = 4 << 20


@pytest.fixture
def cold(tmp_path: Path) -> Path:
    path = tmp_path / "cold"
    path.write_bytes(bytes(SIZE))
    drop([path])
    if resident(path):
        pytest.skip("this file system keeps everything in memory")
    return path


class Heard:
    """A map that remembers what the system is told of it."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.told: list[tuple[int, int, int]] = []

    def advise(self, address: int, length: int, advice: int) -> None:
        advise(address, length, advice)
        self.told.append((advice, address - self.view.obj.address, length))


@pytest.fixture
def heard(tmp_path: Path, monkeypatch) -> Heard:
    (tmp_path / "heard").write_bytes(bytes(SIZE + 100))
    found = Heard(LocalDisk(tmp_path).map("heard"))
    monkeypatch.setattr(mapping, "advise", found.advise)
    return found


def test_a_page_that_is_read_apart_is_read_alone(cold):
    view = LocalDisk(cold.parent).map(cold.name)
    read_apart(view)
    assert view[SIZE // 2] == 0
    assert resident(cold) == PAGE


def test_without_advice_the_pages_around_it_are_read_too(cold):
    view = LocalDisk(cold.parent).map(cold.name)
    assert view[SIZE // 2] == 0
    assert resident(cold) > PAGE


def test_what_is_fetched_is_read_and_nothing_else(cold):
    view = LocalDisk(cold.parent).map(cold.name)
    fetch_ranges(view, [(PAGE + 5, 3 * PAGE), (SIZE // 2 - 1, SIZE // 2 + 1)])
    for place in (PAGE, 3 * PAGE - 1, SIZE // 2 - 1, SIZE // 2):
        assert view[place] == 0
    assert resident(cold) == 4 * PAGE


def test_ranges_are_fetched_in_pieces_that_the_system_takes(heard):
    fetch_ranges(heard.view, [(5000, 300_000), (SIZE, SIZE + 10**6), (7, 7), (SIZE * 2, 1)])
    assert heard.told == [
        (mmap.MADV_WILLNEED, 4096, 131072),
        (mmap.MADV_WILLNEED, 135168, 131072),
        (mmap.MADV_WILLNEED, 266240, 33760),
        (mmap.MADV_WILLNEED, SIZE, 100),
    ]


def test_a_range_that_is_read_along_begins_at_a_page_and_ends_with_the_map(heard):
    view = heard.view
    read_apart(view)
    for start, end in ((100, 200), (PAGE + 1, SIZE * 2), (7, 7), (SIZE * 2, SIZE * 3)):
        read_along(view, start, end)
    assert heard.told == [
        (mmap.MADV_RANDOM, 0, SIZE + 100),
        (mmap.MADV_SEQUENTIAL, 0, 200),
        (mmap.MADV_SEQUENTIAL, PAGE, SIZE + 100 - PAGE),
    ]


def test_what_is_read_along_is_read_with_what_is_behind_it(cold):
    view = LocalDisk(cold.parent).map(cold.name)
    read_apart(view)
    read_along(view, SIZE // 2, SIZE)
    assert view[SIZE // 2] == 0
    assert resident(cold) > PAGE


def test_a_file_is_fetched_by_the_range_that_is_asked_for(cold, monkeypatch):
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda *advice: told.append(advice))
    file = LocalDisk(cold.parent).open(cold.name)
    fetch(file, 10, 20)
    assert told == [(file._descriptor, 10, 20, os.POSIX_FADV_WILLNEED)]
    file.close()


def test_advice_that_the_system_refuses_is_no_error(cold):
    disk = LocalDisk(cold.parent)
    file = disk.open(cold.name)
    file.close()
    fetch(file, 0, 10)  # There is no such file any more.


def test_a_disk_in_ram_needs_no_advice():
    disk = MemoryDisk()
    file = disk.create("a")
    file.write(0, bytes(100))
    fetch(file, 0, 100)
    view = disk.map("a")
    read_apart(view)
    read_along(view, 0, 100)
    fetch_ranges(view, [(0, 100)])
    let_go(view)
    assert bytes(view) == bytes(100)
