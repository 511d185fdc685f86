"""What ``repair`` says is lost, against what is: places where counting once went wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from store_kit import abandon, bundle, numbers, on_memory

from quiver.cli.holdings import Gap, take_holdings
from quiver.testing import MemoryDisk

WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}
LOG = "core_0/wal/quiver.wal"


def flip(disk: MemoryDisk, offset: int) -> None:
    file = disk.open(LOG, writable=True)
    offset %= file.size()
    file.write(offset, bytes([file.read(offset, 1)[0] ^ 1]))
    file.close()


def finalized() -> MemoryDisk:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING)
    for number in range(3):
        store.append(bundle(number))
    store.finalize()
    abandon(store)
    flip(disk, -100)
    return disk


def behind_a_hole() -> MemoryDisk:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, wal={"reclaim_size": 1})
    for number in range(5):
        store.append(bundle(number))
    store.finalize()
    start = store._core.log.end.offset
    store.append(bundle(5))
    abandon(store)
    file = disk.open(LOG, writable=True)
    file.write(start, bytes(120))
    file.close()
    return disk


def a_checkpoint() -> MemoryDisk:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, wal={"reclaim": "copy", "reclaim_size": 1})
    for number in range(3):
        store.append(bundle(number))
    store.finalize()
    abandon(store)
    flip(disk, -10)
    return disk


def a_file_cut_short() -> MemoryDisk:
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, wal={"rotate_size": 2500})
    for number in range(9):
        store.append(bundle(number))
    abandon(store)
    file = disk.open(f"{LOG}.2", writable=True)
    file.truncate(100)
    file.close()
    return disk


@pytest.mark.parametrize(
    ("make", "sent"), [(finalized, 3), (behind_a_hole, 6), (a_checkpoint, 3), (a_file_cut_short, 9)]
)
def test_what_is_said_to_be_lost_is_never_less_than_what_is(
    make: Callable[[], MemoryDisk], sent: int
) -> None:
    disk = make()
    (core,) = take_holdings(disk, {disk.locate(LOG)})
    said: set[int] = set()
    for gap in core.gaps:
        assert isinstance(gap, Gap)
        assert gap.count is not None
        said |= set(range(gap.first, gap.first + gap.count))
    store = on_memory(disk)
    assert store.recovery.damage
    store.finalize()
    lost = set(range(sent)) - set(numbers(store))
    assert lost <= said
    if all(gap.is_exact for gap in core.gaps):
        assert lost == said
    assert len(said - lost) < 10


def test_nothing_is_said_to_be_lost_where_nothing_is() -> None:
    for make in (finalized, a_checkpoint):
        (core,) = take_holdings(make(), set())
        assert core.gaps == []
