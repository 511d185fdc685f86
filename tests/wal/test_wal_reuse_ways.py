"""A log whose files were used again, opened with another way to give back."""

from __future__ import annotations

from contextlib import closing

from reuse_kit import ACTIVE, gone_round, opened
from wal_kit import bundle

from quiver.testing.memory_disk import MemoryDisk
from quiver.wal.files import own_generation


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
