"""A segment whose end is damaged comes back from the log, whole and in its place, or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from store_kit import abandon, bundle, numbers, on_memory

import quiver
from quiver.errors import CapacityError, DamageError, VersionError
from quiver.segment import SegmentReader
from quiver.testing import MemoryDisk
from quiver.testing.campaign import MODELS
from quiver.testing.crash_images import crash_images

WAITING = {"target_size": "1GiB", "max_open_duration": "1h"}


def path_of(segment_seq: int) -> str:
    return f"core_0/segments/{segment_seq:016d}.qseg"


def finalized(*counts: int, tail: int = 0, **config: Any) -> MemoryDisk:
    """A killed store with a segment of each of these many bundles, and some in the log alone."""
    disk = MemoryDisk()
    store = on_memory(disk, segment=WAITING, **config)
    store.subscribe("reader")
    sent = 0
    for count in counts:
        for _ in range(count):
            store.append(bundle(sent))
            sent += 1
        store.finalize()
    for _ in range(tail):
        store.append(bundle(sent))
        sent += 1
    abandon(store)
    return disk


def break_end(disk: MemoryDisk, segment_seq: int) -> bytes:
    file = disk.open(path_of(segment_seq), writable=True)
    place = file.size() - 20
    file.write(place, bytes([file.read(place, 1)[0] ^ 1]))
    data = file.read(0, file.size())
    file.close()
    return data


def opened(disk: MemoryDisk, **config: Any) -> quiver.Store:
    return on_memory(disk, **{"segment": WAITING, **config})


@pytest.mark.parametrize("tail", [0, 3])
@pytest.mark.parametrize("victims", [[0], [1], [2], [0, 2]])
def test_it_comes_back_from_the_log_in_its_place(victims: list[int], tail: int) -> None:
    disk = finalized(3, 2, 4, tail=tail)
    broken = {seq: break_end(disk, seq) for seq in victims}
    store = opened(disk)
    assert store.recovery.rebuilt_segments == len(victims) == len(store.recovery.damage)
    assert store.recovery.replayed_bundles == tail
    assert store.info().segments == 3
    for seq, data in broken.items():
        assert bytes(disk.map(f"core_0/quarantine/{seq:016d}.qseg")) == data
    assert store.append(bundle(9 + tail)) == 9 + tail
    store.finalize()
    assert numbers(store) == list(range(10 + tail))
    store.close()
    again = opened(disk)
    assert (again.recovery.damage, again.recovery.rebuilt_segments) == ([], 0)


def test_it_comes_back_as_the_store_writes_segments_now() -> None:
    disk = finalized(3)
    break_end(disk, 0)
    store = opened(disk, segment={**WAITING, "compression": "zstd", "dictionary_cardinality": 2})
    assert store.recovery.rebuilt_segments == 1
    with SegmentReader.open(disk, path_of(0)) as reader:
        assert reader.compression == "zstd"
        reader.verify()
    assert numbers(store) == [0, 1, 2]


def test_outcomes_still_fit_what_comes_back() -> None:
    disk = finalized(4)
    store = opened(disk)
    subscription = store.subscribe("reader")
    first, second, third = (subscription.poll() for _ in range(3))
    assert first is not None and second is not None and third is not None  # noqa: PT018
    third.ack()
    first.ack()
    second.defer()
    store.maintain()
    abandon(store)
    break_end(disk, 0)
    again = opened(disk)
    assert again.recovery.rebuilt_segments == 1
    assert numbers(again) == [1, 3]


@pytest.mark.parametrize(
    ("counts", "victims", "kept"),
    [
        ((2, 2, 2), [1, 2], [0, 1]),  # The second ends nobody knows where.
        ((2, 2, 2, 2), [1, 2], [0, 1, 6, 7]),
    ],
)
def test_nothing_is_made_up_where_neighbours_are_gone_too(
    counts: tuple[int, ...], victims: list[int], kept: list[int]
) -> None:
    disk = finalized(*counts)
    for seq in victims:
        break_end(disk, seq)
    store = opened(disk)
    assert store.recovery.rebuilt_segments == 0
    assert len(store.recovery.damage) == len(victims)
    assert numbers(store) == kept
    assert store.append(bundle(sum(counts))) == sum(counts)


def test_a_log_that_was_given_back_brings_nothing_back() -> None:
    disk = finalized(3, wal={"reclaim_size": 1})
    break_end(disk, 0)
    store = opened(disk)
    assert store.recovery.rebuilt_segments == 0
    assert numbers(store) == []
    assert store.append(bundle(3)) == 3


def test_what_was_deleted_since_never_comes_back() -> None:
    disk = finalized(2, 2)
    store = opened(disk)
    assert numbers(store) == [0, 1, 2, 3]
    store.maintain()
    assert store.info().segments == 0
    store.append(bundle(4))
    store.finalize()
    abandon(store)
    break_end(disk, 2)
    again = opened(disk)
    # Its beginning is not known: the segment before it is gone.
    assert again.recovery.rebuilt_segments == 0
    assert numbers(again) == []


def test_a_log_of_another_layout_is_not_interpreted() -> None:
    disk = finalized(3)
    data = break_end(disk, 0)
    file = disk.open("core_0/wal/quiver.wal", writable=True)
    file.write(14, bytes(reversed(file.read(14, 16))))
    file.close()
    with pytest.raises(VersionError):
        opened(disk)
    assert disk.stat(path_of(0)) is None
    assert bytes(disk.map(f"core_0/quarantine/{0:016d}.qseg")) == data


def test_strict_refuses_it_and_changes_nothing() -> None:
    disk = finalized(2)
    break_end(disk, 0)
    before = disk.tree.digest()
    with pytest.raises(DamageError):
        opened(disk, recovery={"policy": "strict"})
    assert disk.tree.digest() == before


def test_a_full_disk_refuses_the_opening_and_keeps_all() -> None:
    disk = finalized(3)
    break_end(disk, 0)
    disk.fail(lambda op: op.path.endswith(".qseg.tmp"), error="ENOSPC", sticky=True)
    for _ in range(2):
        with pytest.raises(CapacityError):
            opened(disk)
        disk.forget_locks()
    disk.heal()
    store = opened(disk)
    assert store.recovery.rebuilt_segments == 1
    assert numbers(store) == [0, 1, 2]


def test_a_crash_at_any_act_of_it_loses_nothing() -> None:
    disk = finalized(3, 2, tail=1)
    break_end(disk, 1)
    for image in _images(disk):
        store = opened(image)
        store.finalize()
        assert numbers(store) == [0, 1, 2, 3, 4, 5]


def _images(disk: MemoryDisk) -> list[MemoryDisk]:
    start = MemoryDisk(disk.tree)
    abandon(opened(start))
    found = [
        image.disk()
        for model in MODELS
        for image in crash_images(start.history, model=model, budget=120, seed=1)
    ]
    assert len(found) > 40
    return found
