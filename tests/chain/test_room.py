"""Zeros ahead of a log: what they are for, and that they are never taken for anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from copies_kit import (
    BLOCK,
    LAYOUT,
    LOG,
    ROUTE,
    RULES,
    append,
    copies,
    entry,
    place,
    read,
    reopened,
    sealed,
)

from quiver.chain.copies import CopyRules
from quiver.chain.copies.format import LOG_BEGIN
from quiver.chain.node.passage import Passage
from quiver.chain.peers import Ack, Entries
from quiver.chain.workers import ThreadWorkers
from quiver.disk import LocalDisk
from quiver.errors import CapacityError, DamagedEntry, PoisonedError, QuiverError, StorageError
from quiver.testing.memory_file import MemoryFile

LARGE = 70_000
"""Rows of an entry that is no small one."""


def log_bytes(disk) -> bytes:
    file = disk.open(LOG)
    return file.read(0, file.size())


def put(disk, data: bytes) -> None:
    """Put a log in the place of the one that is there."""
    file = disk.open(LOG, writable=True)
    file.truncate(0)
    file.write(0, data)
    file.sync()


def test_small_entries_find_room_that_was_synced_before_they_came(shelf, disk):
    append(shelf, 1)
    shelf[BLOCK].make_room()
    shelf[BLOCK].readers.show(shelf[BLOCK].sync())
    size = disk.open(LOG).size()
    assert size >= LOG_BEGIN + (64 << 10)
    data = entry(1)
    for seq in range(2, 60):
        data += append(shelf, seq)
        shelf[BLOCK].make_room()
    assert disk.open(LOG).size() == size
    assert read(shelf) == data
    again = reopened(shelf, disk)
    assert read(again) == data
    assert disk.open(LOG).size() == LOG_BEGIN + len(data)
    assert not again.damaged


def test_there_is_always_room_for_a_small_entry_and_never_much(shelf, disk):
    end = LOG_BEGIN
    for seq in range(1, 40):
        end += len(append(shelf, seq, rows=1000))
        shelf[BLOCK].make_room()
        assert 64 << 10 <= disk.open(LOG).size() - end < 192 << 10


def test_entries_that_go_beyond_the_room_are_where_they_should_be(shelf, disk):
    data = append(shelf, 1)
    shelf[BLOCK].make_room()
    copy = shelf[BLOCK]
    body = entry(2, rows=LARGE)
    place(copy, copy.begin(ROUTE), Entries(ROUTE.epoch, len(data), 2, memoryview(body)))
    copy.make_room()
    copy.readers.show(copy.sync())
    assert read(shelf) == data + body
    assert read(reopened(shelf, disk)) == data + body


@pytest.mark.parametrize("boot", [RULES.boot, b"2" * 16])
def test_a_write_that_was_killed_at_any_byte_is_cut_off(shelf, disk, boot):
    kept = append(shelf, 1, 2)
    shelf[BLOCK].make_room()
    shelf[BLOCK].readers.show(shelf[BLOCK].sync())
    before = log_bytes(disk)
    last = entry(3)
    begin = LOG_BEGIN + len(kept)
    for count in range(len(last) - 3):
        whole = bytearray(before)
        whole[begin : begin + count] = last[:count]
        put(disk, bytes(whole))
        again = reopened(shelf, disk, CopyRules("b", boot=boot))
        assert not again.damaged, count
        assert read(again) == kept
        assert disk.open(LOG).size() == begin


def test_an_entry_that_is_wrong_is_damage_also_with_room_behind(shelf, disk):
    kept = append(shelf, 1, 2)
    append(shelf, 3)
    shelf[BLOCK].make_room()
    shelf[BLOCK].readers.show(shelf[BLOCK].sync())
    before = log_bytes(disk)
    begin, last = LOG_BEGIN + len(kept), entry(3)
    for at in range(4, len(last)):
        whole = bytearray(before)
        whole[begin + at] ^= 0xFF
        put(disk, bytes(whole))
        again = reopened(shelf, disk)
        assert isinstance(again.damaged[BLOCK], DamagedEntry), at
        assert log_bytes(disk) == bytes(whole)


def test_zeros_where_something_was_synced_are_no_room(shelf, disk):
    kept = append(shelf, 1)
    append(shelf, 2)
    append(shelf, 3)  # From here on it is marked that the second one was synced.
    shelf[BLOCK].make_room()
    shelf[BLOCK].readers.show(shelf[BLOCK].sync())
    whole = bytearray(log_bytes(disk))
    begin = LOG_BEGIN + len(kept)
    whole[begin:] = bytes(len(whole) - begin)
    put(disk, bytes(whole))
    again = reopened(shelf, disk)
    assert BLOCK in again.damaged


def test_room_is_given_back_when_a_block_is_cut(shelf, disk):
    data = append(shelf, 1, 2)
    copy = shelf[BLOCK]
    copy.make_room()
    copy.fence(ROUTE.epoch + 1)
    sealed(shelf, 1, 2)
    assert disk.open(LOG).size() == LOG_BEGIN + len(data)
    copy.make_room()  # Nothing comes any more.
    assert disk.open(LOG).size() == LOG_BEGIN + len(data)


def test_a_disk_that_has_no_room_ahead_takes_entries_all_the_same(shelf, disk, monkeypatch):
    data = append(shelf, 1)
    write = MemoryFile.write
    asked = []

    def full(file: Any, offset: int, given: Any) -> None:
        if len(given) > 100_000:
            asked.append(offset)
            write(file, offset, given[:5000])
            raise CapacityError("no space left")
        write(file, offset, given)

    monkeypatch.setattr(MemoryFile, "write", full)
    copy = shelf[BLOCK]
    copy.make_room()
    data += append(shelf, 2)
    copy.make_room()
    assert asked == [LOG_BEGIN + len(entry(1)), LOG_BEGIN + len(data)]
    data += append(shelf, 3)
    assert read(shelf) == data
    assert read(reopened(shelf, disk)) == data


def test_room_that_was_cut_off_with_an_entry_is_not_counted_on(shelf, disk, monkeypatch):
    data = append(shelf, 1)
    copy = shelf[BLOCK]
    copy.make_room()
    with monkeypatch.context() as patch:
        patch.setattr(
            "quiver.wal.writer.write_parts", raising(StorageError("it fails", path="x", errno=5))
        )
        body = entry(2)
        with pytest.raises(StorageError):
            place(copy, copy.begin(ROUTE), Entries(ROUTE.epoch, len(data), 2, memoryview(body)))
    assert disk.open(LOG).size() == LOG_BEGIN + len(data)
    copy.make_room()
    assert disk.open(LOG).size() > LOG_BEGIN + len(data) + (64 << 10)
    data += append(shelf, 2)
    assert read(shelf) == data


def raising(error: QuiverError) -> Callable[..., None]:
    def act(*_: object, **__: object) -> None:
        raise error

    return act


def test_room_that_does_not_come_to_the_disk_is_a_sync_that_failed(tmp_path, monkeypatch):
    shelf = copies(LocalDisk(tmp_path))  # type: ignore[arg-type]
    shelf.prepare(ROUTE, LAYOUT)
    data = append(shelf, 1)
    copy = shelf[BLOCK]
    monkeypatch.setattr(
        "quiver.disk.local_file.LocalFile.write_back",
        raising(StorageError("it fails", path="x", errno=5)),
    )
    told: list[QuiverError] = []
    passage = Passage(
        copy, ROUTE, workers=ThreadWorkers(), acked=lambda _: None, broken=told.append
    )
    with pytest.raises(PoisonedError):
        copy.make_room()
    with pytest.raises(PoisonedError):
        passage.send(Entries(ROUTE.epoch, len(data), 2, memoryview(entry(2))))
    assert [type(error) for error in told] == [PoisonedError]
    shelf.close()


def test_little_that_comes_alone_gets_room_and_much_does_not(shelf, disk):
    acks: list[Ack] = []
    passage = Passage(
        shelf[BLOCK], ROUTE, workers=ThreadWorkers(), acked=acks.append, broken=lambda _: None
    )
    large, small = entry(1, rows=LARGE), entry(2)
    passage.send(Entries(ROUTE.epoch, 0, 1, memoryview(large)))
    assert disk.open(LOG).size() == LOG_BEGIN + len(large)
    passage.send(Entries(ROUTE.epoch, len(large), 2, memoryview(small)))
    assert disk.open(LOG).size() > LOG_BEGIN + len(large) + len(small)
    passage.close()
