"""Copies whose files are torn, damaged or gone, and disks that fail."""

from __future__ import annotations

import pytest
from copies_kit import (
    BLOCK,
    LAYOUT,
    LOG,
    ROUTE,
    RULES,
    STATE,
    append,
    copies,
    entry,
    read,
    reopened,
    sealed,
)

from quiver.chain.copies import CopyRules
from quiver.chain.copies.format import LOG_BEGIN
from quiver.chain.peers import BlockName
from quiver.errors import (
    CapacityError,
    DamageError,
    LockedError,
    MissingError,
    PoisonedError,
)


def test_a_torn_end_is_cut_off(shelf, disk):
    data = append(shelf, 1, 2)
    append(shelf, 3, sync=False)
    file = disk.open(LOG, writable=True)
    file.truncate(file.size() - 1)
    again = reopened(shelf, disk)
    assert read(again) == data
    append(again, 3)
    assert read(again) == data + entry(3)


def test_what_was_synced_and_is_damaged_is_told_and_not_served(shelf, disk):
    append(shelf, 1)
    append(shelf, 2)
    append(shelf, 3)
    file = disk.open(LOG, writable=True)
    for offset, byte in ((LOG_BEGIN + 30, b"\xff"), (0, b"x")):
        was = file.read(offset, 1)
        file.write(offset, byte)
        for boot in (RULES.boot, b"2" * 16):
            again = reopened(shelf, disk, CopyRules("b", boot=boot))
            assert isinstance(again.damaged[BLOCK], DamageError)
            assert LOG in str(again.damaged[BLOCK])
            with pytest.raises(DamageError):
                again[BLOCK].fence(9)
            with pytest.raises(DamageError):
                again.prepare(ROUTE, LAYOUT)
            assert again.holdings() == ()
        file.write(offset, was)
    file.truncate(LOG_BEGIN + 3)
    assert "ends" in str(reopened(shelf, disk).damaged[BLOCK])
    again = reopened(shelf, disk)
    again.drop(BLOCK)
    assert [each.name for each in disk.list_dir("core_0")] == ["floor"]


def test_what_is_whole_and_wrong_is_no_torn_end_unless_the_power_was_gone(shelf, disk):
    data = append(shelf, 1)
    append(shelf, 2)  # What the last sync brought is behind the mark.
    file = disk.open(LOG, writable=True)
    file.write(file.size() - 1, b"!")
    assert BLOCK in reopened(shelf, disk).damaged
    again = reopened(shelf, disk, CopyRules("b", boot=b"2" * 16))
    assert read(again) == data


def test_both_marks_gone_is_damage(shelf, disk):
    append(shelf, 1)
    file = disk.open(LOG, writable=True)
    file.write(512, bytes(600))
    assert "both marks" in str(reopened(shelf, disk).damaged[BLOCK])


@pytest.mark.parametrize("path", [LOG, STATE], ids=["log", "state"])
def test_files_that_are_gone_or_wrong_are_told(shelf, disk, path):
    append(shelf, 1)
    disk.unlink(path)
    again = reopened(shelf, disk)
    if path == LOG:
        assert "log is gone" in str(again.damaged[BLOCK])
    else:  # As a drop, or a prepare, that was not finished.
        assert again.holdings() == ()
        assert disk.list_dir("core_0") == []


def test_a_state_of_another_block_and_a_segment_that_is_gone(shelf, disk):
    append(shelf, 1)
    sealed(shelf, 1)
    made = shelf[BLOCK].finish()
    disk.unlink("core_0/0000000000000003.qseg")
    shelf = reopened(shelf, disk)
    assert shelf[BLOCK].holding.finished is None
    assert shelf[BLOCK].finish() == made  # Of its log.
    shelf[BLOCK].settle(made)
    disk.unlink("core_0/0000000000000003.qseg")
    assert "segment is gone" in str(reopened(shelf, disk).damaged[BLOCK])
    disk.rename(STATE, "core_0/0000000000000004.copy")
    assert "another block" in str(reopened(shelf, disk).damaged[BlockName("core_0", 4)])


def test_a_damaged_floor_takes_no_new_blocks(shelf, disk):
    shelf.drop(BLOCK)
    file = disk.open("core_0/floor", writable=True)
    file.write(16, b"\x09")
    again = reopened(shelf, disk)
    assert "floor" in str(again.faults[0])
    with pytest.raises(MissingError):
        again.prepare(ROUTE._replace(block=BlockName("core_0", 99)), LAYOUT)


def test_a_failed_sync_is_the_last_act_on_a_copy(shelf, disk):
    data = append(shelf, 1)
    append(shelf, 2, sync=False)
    disk.fail(disk.act_count)
    with pytest.raises(PoisonedError):
        shelf[BLOCK].sync()
    for act in (lambda: shelf[BLOCK].fence(9), shelf[BLOCK].sync, lambda: read(shelf)):
        with pytest.raises(PoisonedError):
            act()
    assert read(reopened(shelf, disk, CopyRules("b", boot=b"2" * 16))) == data


def test_a_failed_write_takes_nothing_along(shelf, disk):
    data = append(shelf, 1)
    disk.fail(disk.act_count + 1, error="short")
    with pytest.raises(CapacityError):
        append(shelf, 2)
    assert read(shelf) == data
    append(shelf, 2)
    assert read(shelf) == data + entry(2)


def test_one_process_has_the_folder(shelf, disk):
    with pytest.raises(LockedError):
        copies(disk)
    append(shelf, 1)
    shelf.close()
    again = copies(disk)
    assert read(again) == entry(1)
    again.close()
