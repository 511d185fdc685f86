"""What left the log, or was deleted, while a cursor reads is told once, or comes from elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cursor_kit import drain, fill, row
from store_kit import abandon

import quiver
from quiver.cursors import partition
from quiver.engine import forgoing, sealed
from quiver.scan import open_log

SMALL_LOG = {"wal": {"reclaim_size": 1}}


def delete(path: Path, *numbers: int) -> None:
    for number in numbers:
        (path / "core_0" / "segments" / f"{number:016d}.qseg").unlink()


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_blocks_that_went_before_they_were_looked_at_are_told(opener, path, reverse) -> None:
    fill(opener(), [[time] for time in range(1, 21)])
    with quiver.cursor(path, reverse=reverse) as cursor:
        first = next(cursor).time_ns
        delete(path, *range(12, 15))
        found, told = [first], 0
        while told < 20:
            try:
                message = cursor.next()
            except quiver.MissingError:
                told += 1
                continue
            if message is None:
                break
            found.append(message.time_ns)
    expected = [time for time in range(1, 21) if not 13 <= time <= 15]
    assert found == (expected[::-1] if reverse else expected)
    assert told == 1


@pytest.fixture
def lean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no payload of the log in memory: each is read when it is its turn."""
    monkeypatch.setattr(open_log, "KEPT_BYTES_MAX", 0)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_what_left_the_log_comes_from_its_segment(opener, path, lean, reverse) -> None:
    store = opener(**SMALL_LOG)
    fill(store, [[1, 2, 3, 4]], last=False)
    with quiver.cursor(path, reverse=reverse) as cursor:
        found = [next(cursor).time_ns]
        store.finalize()
        store.maintain()
        found += [time for time, _ in drain(cursor)]
    assert found == ([4, 3, 2, 1] if reverse else [1, 2, 3, 4])


def test_what_left_the_log_and_has_no_segment_is_told_and_passed_over(opener, path, lean) -> None:
    store, other = opener(**SMALL_LOG), opener(1)
    store.subscribe("a")
    fill(store, [[1, 2, 3]], last=False)
    fill(other, [[2, 9]])
    with quiver.cursor(path) as cursor:
        assert next(cursor).time_ns == 1
        store.ack_early("a", [0, 1, 2])
        with store._core.lock:
            sealed.seal(store._core)
            assert forgoing.forgo(store._core)
            sealed.try_reclaim(store._core)
        store.append(row(9), time=9)
        with pytest.raises(quiver.MissingError, match="left the log"):
            cursor.poll()
        assert drain(cursor) == [(2, 1), (9, 0), (9, 1)]


def test_who_begins_while_it_is_looked_at_joins(opener, path, monkeypatch) -> None:
    busy, late = opener(0), opener(1)
    busy.append(row(1), time=1)
    honest = partition.take_core_snapshot
    waiting = [late]

    def look(disk, manifest, core, **options):
        if core == 1 and len(waiting) > 0:
            waiting.pop().append(row(2), time=2)
        return honest(disk, manifest, core, **options)

    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 0)]
        monkeypatch.setattr(partition, "take_core_snapshot", look)
        busy.append(row(3), time=3)
        found = drain(cursor)
        late.heartbeat(9)
        busy.heartbeat(9)
        assert found + drain(cursor) == [(2, 1), (3, 0)]


def test_a_live_cursor_reads_each_entry_of_the_log_once(opener, path, monkeypatch) -> None:
    seen = []
    honest = open_log._open_bundle

    def read(core, wal_file, entry, **options):
        seen.append(entry.frame.wal_seq)
        return honest(core, wal_file, entry, **options)

    monkeypatch.setattr(open_log, "_open_bundle", read)
    store = opener()
    store.append(row(0), time=0)
    with quiver.cursor(path, live=True) as cursor:
        for time in range(1, 40):
            assert drain(cursor) == [(time - 1, 0)]
            store.append(row(time), time=time)
            if time % 15 == 0:
                store.finalize()
        assert drain(cursor) == [(39, 0)]
        assert seen.count(38) == 1
        assert len(seen) <= 2 * 40
        cursor.reset(30)
        assert [time for time, _ in drain(cursor)] == [*range(30, 40)]


def test_an_entry_in_the_place_of_one_that_was_taken_comes(opener, path) -> None:
    store = opener()
    for time in (1, 5):
        store.append(row(time), time=time)
    with quiver.cursor(path, live=True) as cursor:
        assert drain(cursor) == [(1, 0), (5, 0)]
        seen = cursor._partitions[0]._seen
        assert seen is not None
        abandon(store)
        os.truncate(path / "core_0" / "wal" / "quiver.wal", seen.stored.offset)
        store = opener()
        for time in (6, 7):
            store.append(row(time), time=time)
        assert drain(cursor) == [(6, 0), (7, 0)]


def test_a_store_finds_blocks_of_its_own_core(opener) -> None:
    store, other = opener(1), opener(0)
    fill(store, [[1, 5], [9]])
    fill(other, [[7]])
    assert [(b.start_ns, b.end_ns) for b in store.find_block(3)] == [(1, 5)]
    assert [b.partition for b in store.find_block(6)] == [1]
    assert store.find_block(10) == ()
