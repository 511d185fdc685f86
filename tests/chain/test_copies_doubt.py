"""Segments that rot, files that cannot be read, and folders that were put back."""

from __future__ import annotations

import errno

import blake3
import pytest
from copies_kit import (
    BLOCK,
    LAYOUT,
    LOG,
    ROUTE,
    STATE,
    append,
    copies,
    entry,
    read,
    reopened,
    sealed,
)

from quiver.chain.copies import Generation
from quiver.chain.peers import BlockName
from quiver.errors import DamagedEntry, DamageError, MissingError, StorageError
from quiver.testing import MemoryDisk

SEGMENT = "core_0/0000000000000003.qseg"
ASIDE = "core_0/0000000000000003.aside"


@pytest.fixture
def shelf(shelf):
    append(shelf, 1, 2)
    return shelf


def settled(shelf):
    sealed(shelf, 1, 2)
    finished = shelf[BLOCK].finish()
    shelf[BLOCK].settle(finished)
    return finished, b"".join(shelf[BLOCK].segment())


def rot(disk, path=SEGMENT):
    file = disk.open(path, writable=True)
    file.write(file.size() // 2, bytes([file.read(file.size() // 2, 1)[0] ^ 1]))
    file.close()


def files(disk):
    return [each.name for each in disk.list_dir("core_0")]


def test_a_good_segment_is_read_piece_by_piece(shelf):
    finished, data = settled(shelf)
    told = []
    assert shelf.verify(BLOCK, told.append) == finished
    assert sum(told) == len(data)


def test_a_rotten_segment_is_set_aside_and_told_also_at_the_next_start(shelf, disk):
    finished, data = settled(shelf)
    rot(disk)
    with pytest.raises(DamagedEntry, match="rotten"):
        shelf.verify(BLOCK, lambda _: None)
    for each in (shelf, reopened(shelf, disk)):
        assert each.holdings() == ()
        assert isinstance(each.damaged[BLOCK], DamageError)
        with pytest.raises(DamageError):
            each[BLOCK].segment()
    assert files(disk) == ["0000000000000003.aside", "0000000000000003.copy"]
    again = reopened(shelf, disk)
    again.keep(BLOCK, [data], finished)
    assert not again.damaged
    assert files(disk) == ["0000000000000003.copy", "0000000000000003.qseg"]
    assert b"".join(reopened(again, disk)[BLOCK].segment()) == data


def test_a_rotten_segment_is_made_again_as_long_as_its_log_is_here(shelf, disk):
    sealed(shelf, 1, 2)
    finished = shelf[BLOCK].finish()
    rot(disk)
    with pytest.raises(DamagedEntry):
        shelf.verify(BLOCK, lambda _: None)
    assert shelf[BLOCK].holding.finished is None
    assert shelf[BLOCK].finish() == finished
    assert shelf.verify(BLOCK, lambda _: None) == finished


def test_what_was_replaced_while_it_was_read_is_not_set_aside(shelf, disk):
    settled(shelf)
    rot(disk)
    other = b"another segment" * 20
    wanted = shelf[BLOCK].holding.finished._replace(
        digest=blake3.blake3(other).digest(), size=len(other)
    )
    with pytest.raises(DamagedEntry):
        shelf.verify(BLOCK, lambda _: shelf.keep(BLOCK, [other], wanted))
    assert not shelf.damaged
    assert b"".join(shelf[BLOCK].segment()) == other


def test_what_is_not_finished_is_not_verified(shelf):
    with pytest.raises(MissingError):
        shelf.verify(BLOCK, lambda _: None)


def test_a_damaged_copy_is_dropped_with_all_that_was_set_aside(shelf, disk):
    settled(shelf)
    rot(disk)
    with pytest.raises(DamagedEntry):
        shelf.verify(BLOCK, lambda _: None)
    shelf.drop(BLOCK)
    assert files(disk) == ["floor"]


class Unreadable(MemoryDisk):
    """A disk that cannot read some files."""

    bad = frozenset()

    def refuse(self, path, number=errno.EIO):
        if path in self.bad:
            raise StorageError(f"cannot read {path}", path=path, errno=number)

    def open(self, path, *, writable=False):
        self.refuse(path)
        return super().open(path, writable=writable)

    def list_dir(self, path):
        self.refuse(path)
        return super().list_dir(path)


@pytest.mark.parametrize("path", [LOG, STATE], ids=["log", "state"])
def test_a_copy_that_cannot_be_read_is_told_and_the_others_are_served(path):
    disk = Unreadable()
    shelf = copies(disk)
    other = BlockName("core_0", 4)
    for block in (BLOCK, other):
        shelf.prepare(ROUTE._replace(block=block), LAYOUT)
        append(shelf, 1, route=ROUTE._replace(block=block))
    disk.bad = {path}
    again = reopened(shelf, disk)
    assert "cannot be read" in str(again.damaged[BLOCK])
    assert read(again, other) == entry(1)
    disk.bad = set()
    assert read(reopened(shelf, disk)) == entry(1)


def test_a_partition_that_cannot_be_listed_takes_no_new_blocks():
    disk = Unreadable()
    shelf = copies(disk)
    shelf.prepare(ROUTE, LAYOUT)
    disk.bad = {"core_0"}
    again = reopened(shelf, disk)
    assert "cannot be read" in str(again.faults[0])
    with pytest.raises(MissingError):
        again.prepare(ROUTE._replace(block=BlockName("core_0", 9)), LAYOUT)
    again.prepare(ROUTE._replace(block=BlockName("core_1", 9)), LAYOUT)


def test_logs_of_open_blocks_are_set_aside_when_the_folder_is_not_to_be_trusted(shelf, disk):
    cut = BlockName("core_0", 2)
    shelf.prepare(ROUTE._replace(block=cut), LAYOUT)
    append(shelf, 1, route=ROUTE._replace(block=cut))
    ends = sealed_of(shelf, cut)
    shelf.distrust("it is older than it should be")
    for each in (shelf, reopened(shelf, disk)):
        assert list(each.damaged) == [BLOCK]
        with pytest.raises(DamageError):
            each[BLOCK].fence(9)
        with pytest.raises(DamageError):
            each.prepare(ROUTE, LAYOUT)
        assert [held.name for held in each.holdings()] == [cut]
    assert ends.length == len(read(reopened(shelf, disk), cut))
    disk.rename(ASIDE, LOG)
    assert read(reopened(shelf, disk)) == entry(1) + entry(2)


def sealed_of(shelf, name):
    from quiver.chain.sealing import Sealed

    ends = Sealed(len(entry(1)), 1, 10, 10, ())
    shelf[name].cut(ends)
    return ends


def test_a_folder_is_behind_if_others_remember_more(disk):
    generation = Generation(disk)
    assert generation.number is None
    assert not generation.is_behind(99)  # Nothing is known of it.
    assert generation.rise(4) == 5
    assert generation.rise(4) == 6
    again = Generation(disk)
    assert again.number == 6
    assert not again.is_behind(6)
    assert again.is_behind(7)
    file = disk.open("generation", writable=True)
    file.write(16, b"\xff")
    damaged = Generation(disk)
    assert damaged.fault is not None
    assert not damaged.is_behind(99)


def test_it_is_on_the_disk_before_anybody_is_told(disk):
    generation = Generation(disk)
    generation.rise(1)
    disk.fail(disk.act_count)
    with pytest.raises(StorageError):
        generation.rise(1)
    assert generation.number == 2
