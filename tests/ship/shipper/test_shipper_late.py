"""Slept before the append, and killed behind it: the marks say what nobody has but the store."""

from __future__ import annotations

import pytest
from beside_kit import peek
from shipper_kit import NAME, Rig, arrived, entries, rot_stream, segment_path

from quiver.errors import DamageError, InputError
from quiver.ship.objects import own_key
from quiver.ship.queue import Queue
from quiver.ship.shipper import LeftOut, witness
from quiver.testing import Killed, MemoryDisk

COUNT = 6


def filled(*, damaged: bool = False) -> Rig:
    rig = Rig()
    with rig.open() as store:
        rig.fill(store, 2, 1, 2, 1)
    if damaged:
        rot_stream(rig, 2, 1)
    return rig


def ship_and_die(rig: Rig, **options) -> list[str]:
    """Sleep an hour between put and append, in which the objects are swept, and die behind it."""
    shipper = rig.shipper(**options)
    append = shipper._queue.append
    gone: list[str] = []

    def slow(*drafts):
        gone.extend(own_key(rig.bucket, draft.location) for draft in drafts)
        rig.bucket.delete(gone)
        rig.clock.step("1h")
        append(*drafts)
        raise Killed

    shipper._queue.append = slow
    with pytest.raises(Killed):
        shipper.run()
    rig.disk.forget_locks()
    return gone


def left(rig: Rig) -> list[int]:
    with rig.subscribe(NAME) as reader:
        return list(peek(reader))


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("batch_bytes", [1, 1 << 20])
@pytest.mark.parametrize("damaged", [False, True], ids=["sound", "damaged"])
def test_what_was_swept_before_its_append_is_put_back_by_the_next_run(
    damaged, batch_bytes, compression
) -> None:
    rig = filled(damaged=damaged)
    gone = ship_and_die(rig, batch_bytes=batch_bytes, compression=compression)
    tally = rig.ship(batch_bytes=batch_bytes)
    for key in gone:
        rig.bucket.get(key)
    assert arrived(rig.bucket) == [n for n in range(COUNT) if not (damaged and n == 4)]
    assert left(rig) == []
    assert tally.bundles_before > 0


def test_what_a_consumer_was_done_with_is_not_put_back() -> None:
    rig = filled()
    gone = ship_and_die(rig)
    queue = Queue(rig.bucket)
    queue.dequeue(0, epoch=queue.start().epoch)
    tally = rig.ship()
    assert tally.bundles_before == COUNT
    assert not [each for each in rig.bucket.list("") if each.key in gone]


def test_many_are_looked_up_together(monkeypatch) -> None:
    monkeypatch.setattr(witness, "_FEW", 0)
    rig = filled()
    assert ship_and_die(rig)
    rig.ship()
    assert arrived(rig.bucket) == list(range(COUNT))


def lost_for_good() -> Rig:
    """One of the segments that were in the object is gone, so it cannot be made as it was."""
    rig = filled()
    ship_and_die(rig)
    rig.disk.unlink(segment_path(0))
    return rig


def test_what_is_lost_for_good_is_set_aside_and_told_of() -> None:
    rig = lost_for_good()
    tally = rig.ship()
    assert tally.rejected_bundles == COUNT - 2
    assert {told.segment_seq for told in rig.told if isinstance(told, LeftOut)} == {1, 2, 3}
    assert left(rig) == []
    assert len(entries(rig.bucket)) == 1


def test_what_is_lost_for_good_stays_open_if_that_is_to_block() -> None:
    rig = lost_for_good()
    for _ in range(2):
        with pytest.raises(DamageError, match="swept before"):
            rig.ship(damaged="block")
    assert left(rig) == list(range(2, COUNT))


def test_another_segment_of_the_same_number_is_not_acked_for_it() -> None:
    """The store was put back from a backup, and goes on with numbers that the queue has seen."""
    rig = filled()
    backup = rig.disk.tree
    rig.disk = MemoryDisk(backup)
    rig.ship()
    with rig.open() as store:
        rig.fill(store, 1, 1)
    rig.ship()
    rig.disk = MemoryDisk(backup)
    rig.clock.step("1d")
    with rig.open() as store:
        rig.fill(store, 1, 1, 1)
    before = left(rig)
    with pytest.raises(InputError, match="another segment 4 of core 0"):
        rig.ship()
    assert left(rig) == before
