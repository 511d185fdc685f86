"""A log whose files are used again: opened another way, cut in an append, short of room."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from reuse_kit import ACTIVE, bytes_of, gone_round, opened, with_bytes
from wal_kit import bundle

from quiver.testing.memory_disk import MemoryDisk
from quiver.wal import Log
from quiver.wal.files import own_generation
from quiver.wal.names import RotatedFile, rotated_name
from quiver.wal.reuse import MARK_BYTES
from quiver.wal.spares import Spares

SECTOR = 512


def test_without_holes_a_file_that_was_used_before_goes_as_a_whole() -> None:
    disk, log = gone_round()
    places = [log.append(bundle(seq)) for seq in range(11, 14)]
    log.sync_all()
    log.close()
    log, _, _ = opened(disk, covered=10, reclaim="copy")
    log.truncate(places[1])
    assert opened(MemoryDisk(disk.tree), covered=12)[1] == [13]
    log.truncate(places[2])
    with closing(disk.open(ACTIVE)) as file:
        assert own_generation(file) is None


def large() -> tuple[MemoryDisk, Log, int]:
    """Give a log with much that is older behind its end, and the next number."""
    disk, log = gone_round(rotate_size=1 << 16)
    for first in (11, 17):
        for seq in range(first, first + 6):
            log.append(bundle(seq, 4000))
        log.sync_all()
        log.truncate(log.end)
    log.append(bundle(23))
    log.sync_all()
    return disk, log, 24


def sectors(data: bytearray, after: bytearray, span: range, kept: Callable[[int], bool]) -> bytes:
    """Give what a power cut leaves of a write: some of its sectors are there, of others none."""
    left = bytearray(data)
    for sector in filter(kept, range(span.start // SECTOR, span.stop // SECTOR + 1)):
        part = slice(sector * SECTOR, (sector + 1) * SECTOR)
        left[part] = after[part]
    return bytes(left)


@pytest.mark.parametrize("count", [1, 3])
def test_an_append_of_which_the_first_sectors_are_there_was_never_finished(count: int) -> None:
    disk, log, seq = large()
    before, start = bytes_of(disk), log.end.offset
    ends = [log.append(bundle(seq + n, 4000)).offset for n in range(count)]
    after = bytes_of(disk)
    assert len(after) == len(before), "the file grows, so that a part is a short file"
    last = (ends[-1] + MARK_BYTES - 1) // SECTOR
    for cut in range(start // SECTOR + 1, last + 1):
        twin = with_bytes(disk, sectors(before, after, range(start, ends[-1]), lambda n: n < cut))  # noqa: B023
        whole = sum(end <= cut * SECTOR for end in ends)
        again, found, replay = opened(twin, covered=23)
        assert (found, replay.damage) == (list(range(24, 24 + whole)), []), cut
        assert replay.last_seq == 23 + whole
        assert twin.stat("quarantine") is None, "what nobody needs was copied"
        again.append(bundle(24 + whole))
        again.sync_all()
        assert opened(MemoryDisk(twin.tree), covered=23)[1] == list(range(24, 25 + whole))


def test_one_whose_last_sector_is_there_may_have_been_acknowledged() -> None:
    disk, log, seq = large()
    before, start = bytes_of(disk), log.end.offset
    end = log.append(bundle(seq, 4000)).offset
    lost = start // SECTOR + 3
    data = sectors(before, bytes_of(disk), range(start, end), lambda n: n != lost)
    _, found, replay = opened(with_bytes(disk, data), covered=23)
    assert (found, len(replay.damage)) == ([], 1)
    assert seq <= replay.last_seq < seq + 100, "no more than these bytes is in doubt"


def test_zeros_where_an_entry_says_it_ends_may_have_been_its_mark() -> None:
    disk, log, seq = large()
    end = log.append(bundle(seq, 4000)).offset
    data = bytes_of(disk)
    data[end - 40 : end + MARK_BYTES] = bytes(40 + MARK_BYTES)
    _, found, replay = opened(with_bytes(disk, data), covered=23)
    assert (found, len(replay.damage)) == ([], 1)


def test_spares_go_before_an_append_is_refused() -> None:
    disk, log = gone_round()
    assert len(log._spares)
    disk.fail(disk.act_count, error="ENOSPC")
    log.append(bundle(11))
    log.sync_all()
    assert not len(log._spares)
    assert opened(MemoryDisk(disk.tree), covered=10)[1] == [11]


def test_who_is_short_of_room_keeps_nothing_older() -> None:
    disk, log, seq = large()
    log.squeeze()
    assert len(bytes_of(disk)) == log.end.offset + MARK_BYTES
    assert log.disk_bytes < log.end.offset + MARK_BYTES + 1
    log.append(bundle(seq, 4000))
    log.sync_all()
    _, found, replay = opened(MemoryDisk(disk.tree), covered=23)
    assert (found, replay.damage) == ([24], [])


def test_with_more_spares_than_are_kept_no_file_is_put_aside() -> None:
    disk = MemoryDisk()
    disk.make_dir("wal")
    files = [RotatedFile(generation, 10, 10) for generation in range(1, 6)]
    for old in files:
        disk.create(f"wal/{rotated_name(old.generation)}").close()
    spares = Spares(disk, "wal", bytes_max=100)
    first, second = spares.put_aside(files[:1]), spares.put_aside(files[1:3])
    spares.keep(first)
    spares.keep(second)  # Who deletes files lets others do so too.
    assert len(spares) == 3
    assert spares.put_aside(files[3:]) == []
