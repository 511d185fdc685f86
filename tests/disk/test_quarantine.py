"""Damaged bytes are set aside durably, once, with their reason."""

from __future__ import annotations

import json

import pytest

from quiver.disk.quarantine import copy_range, save_bytes
from quiver.errors import CapacityError, DamagedEntry
from quiver.testing import MemoryDisk, crash_images

ERROR = DamagedEntry("bad checksum", path="wal/quiver.wal", offset=30, expected=1, found=2)


def test_a_range_is_copied_beside_its_reason() -> None:
    disk = MemoryDisk()
    file = disk.create("log")
    file.write(0, b"0123456789")
    copy_range(disk, "aside", "log.3", file=file, offset=3, end=7, error=ERROR)
    assert bytes(disk.map("aside/log.3")) == b"3456"
    assert json.loads(bytes(disk.map("aside/log.3.json"))) == {
        "reason": "bad checksum",
        "path": "wal/quiver.wal",
        "offset": 30,
        "bytes": 4,
        "expected": "1",
        "found": "2",
    }


def test_the_same_damage_is_kept_once() -> None:
    disk = MemoryDisk()
    save_bytes(disk, "aside", "x", data=[b"ab", b"c"], error=ERROR)
    acts = disk.act_count
    save_bytes(disk, "aside", "x", data=[b"other"], error=ERROR)
    assert disk.act_count == acts + 1, "the folder is synced again, and nothing is written"
    assert bytes(disk.map("aside/x")) == b"abc"


def test_the_copy_is_durable_when_it_returns() -> None:
    disk = MemoryDisk()
    save_bytes(disk, "aside", "x", data=[b"abc"], error=ERROR)
    history = disk.history
    images = list(crash_images(history, model="posix", points=[len(history.ops)]))
    assert len(images) == 1
    assert bytes(images[0].disk().map("aside/x")) == b"abc"


def test_a_copy_cut_short_by_a_crash_is_made_again() -> None:
    disk = MemoryDisk()
    save_bytes(disk, "aside", "x", data=[b"abc"], error=ERROR)
    for image in crash_images(disk.history, model="posix"):
        again = image.disk()
        save_bytes(again, "aside", "x", data=[b"abc"], error=ERROR)
        assert bytes(again.map("aside/x")) == b"abc"


def test_a_full_disk_is_told_and_nothing_half_is_left() -> None:
    disk = MemoryDisk(capacity=4096)
    with pytest.raises(CapacityError):
        save_bytes(disk, "aside", "x", data=[b"a" * 9000], error=ERROR)
    assert disk.list_dir("aside") == []
