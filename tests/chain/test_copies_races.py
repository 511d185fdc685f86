"""Copies that are fetched, dropped, fenced and cut at the same time, and drops on a full disk."""

from __future__ import annotations

import threading

import blake3
import pytest
from chain_wire_kit import PATIENCE
from copies_kit import BLOCK, append, copies, read, reopened, sealed

from quiver.chain.peers import BlockName, Finished
from quiver.errors import CapacityError, DamagedEntry, MissingError

DATA = bytes(range(256)) * 40
WANTED = Finished(3, blake3.blake3(DATA).digest(), len(DATA))


def test_a_segment_that_is_fetched_twice_at_once_is_kept_whole(shelf, disk):
    shelf.drop(BLOCK)
    first_began, second_began = threading.Event(), threading.Event()

    def first():
        yield DATA[:9]
        first_began.set()
        assert second_began.wait(PATIENCE)
        yield DATA[9:]

    def second():
        yield DATA[:9]
        second_began.set()
        thread.join(PATIENCE)
        assert b"".join(shelf[BLOCK].segment()) == DATA
        yield DATA[9:]

    thread = threading.Thread(target=lambda: shelf.keep(BLOCK, first(), WANTED))
    thread.start()
    assert first_began.wait(PATIENCE)
    shelf.keep(BLOCK, second(), WANTED)
    again = reopened(shelf, disk)
    assert b"".join(again[BLOCK].segment()) == DATA
    names = [each.name for each in disk.list_dir("core_0")]
    assert names == ["0000000000000003.copy", "0000000000000003.qseg", "floor"]


def test_a_fetch_that_fails_leaves_the_copy_that_is_there(shelf, disk):
    append(shelf, 1)
    sealed(shelf, 1)
    made = shelf[BLOCK].finish()
    was = b"".join(shelf[BLOCK].segment())
    with pytest.raises(DamagedEntry):
        shelf.keep(BLOCK, [DATA[:-1]], WANTED)
    assert b"".join(shelf[BLOCK].segment()) == was
    assert reopened(shelf, disk)[BLOCK].holding.finished == made


def test_a_log_that_was_not_cut_gives_way_to_the_segment_that_is_fetched(shelf, disk):
    append(shelf, 1)
    shelf.keep(BLOCK, [DATA], WANTED)
    for each in (shelf, reopened(shelf, disk)):
        with pytest.raises(MissingError, match="no log"):  # So readers ask for the segment.
            read(each)
        assert b"".join(each[BLOCK].segment()) == DATA
        assert each[BLOCK].holding.length == 0
    assert [e.name for e in disk.list_dir("core_0")] == [
        "0000000000000003.copy",
        "0000000000000003.qseg",
    ]


def test_what_is_dropped_while_it_is_fetched_is_whole_or_gone(shelf, disk):
    append(shelf, 1)

    def parts():
        yield DATA[:9]
        shelf.drop(BLOCK)
        yield DATA[9:]

    shelf.keep(BLOCK, parts(), WANTED)
    again = reopened(shelf, disk)
    assert not again.damaged
    assert b"".join(again[BLOCK].segment()) == DATA


def test_who_has_a_dropped_copy_in_hand_does_not_bring_it_back(shelf, disk):
    append(shelf, 1)
    copy = shelf[BLOCK]
    shelf.drop(BLOCK)
    with pytest.raises(MissingError):
        copy.fence(9)
    assert not copy.fetched(WANTED, lambda: pytest.fail("nothing is put"))
    again = reopened(shelf, disk)
    assert not again.damaged
    assert again.holdings() == ()


def test_a_sync_that_ends_behind_a_cut_leaves_no_mark_behind_the_end(shelf, disk):
    append(shelf, 1)
    append(shelf, 2, sync=False)
    copy = shelf[BLOCK]
    writer = copy._log._writer
    real = writer.sync

    def slow(offset=None):
        real(offset)
        writer.sync = real
        sealed(shelf, 1)

    writer.sync = slow
    copy.sync()
    data = read(shelf)
    shelf.close()
    again = copies(disk)
    assert not again.damaged
    assert read(again) == data


def test_a_full_disk_gets_room_by_a_drop(shelf, disk):
    append(shelf, 1)
    disk.fail(disk.act_count, error="ENOSPC")
    shelf.drop(BLOCK)
    assert [each.name for each in disk.list_dir("core_0")] == ["floor"]
    disk.fail(disk.act_count, error="ENOSPC")
    with pytest.raises(CapacityError):
        shelf.drop(BlockName("core_0", 9))


def test_a_drop_that_ends_halfway_on_a_full_disk_lets_nothing_in(shelf, disk):
    append(shelf, 1)
    shelf[BLOCK].shed()
    with pytest.raises(MissingError):
        read(shelf)
    again = reopened(shelf, disk)
    assert "log is gone" in str(again.damaged[BLOCK])
    again.drop(BLOCK)
    assert [each.name for each in disk.list_dir("core_0")] == ["floor"]
