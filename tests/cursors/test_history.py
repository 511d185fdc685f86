"""A cursor gives what there is, in order of time, and reads little to find a time."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest
from cursor_kit import drain, fill, note, row
from store_kit import abandon

import quiver
from quiver.testing import ManualClock

SPREAD = {0: [[1, 5], [9, 12], [20]], 1: [[2], [3, 9]], 2: [[0, 0, 9, 30]]}
EVERYTHING = sorted((time, core) for core, blocks in SPREAD.items() for b in blocks for time in b)


@pytest.fixture(params=[True, False], ids=["all finished", "the last in the log"])
def spread(request, opener, path):
    for core, blocks in SPREAD.items():
        fill(opener(core), blocks, last=request.param)
    return path


def test_r1_r9_each_partition_reads_back_its_own_sequence(spread) -> None:
    for core, blocks in SPREAD.items():
        with quiver.cursor(spread, partitions=core) as cursor:
            assert drain(cursor) == [(time, core) for block in blocks for time in block]
            assert cursor.next() is None


@pytest.mark.parametrize(
    "partitions", [{0}, {0, 1, 2}, {0, 2}, [2], None], ids=["1", "123", "13", "3", "all"]
)
def test_r37_any_subset_is_merged_by_time_then_partition_then_number(spread, partitions) -> None:
    with quiver.cursor(spread, partitions=partitions) as cursor:
        messages = list(cursor)
    chosen = set(SPREAD) if partitions is None else set(partitions)
    keys = [message[:3] for message in messages]
    assert [key[:2] for key in keys] == [one for one in EVERYTHING if one[1] in chosen]
    assert keys == sorted(keys)


@pytest.mark.parametrize("start", [None, 0, 2, 9, 10, 30, 31])
@pytest.mark.parametrize("end", [None, 0, 9, 11, 30, 99])
def test_both_ends_of_a_range_are_included(spread, start, end) -> None:
    low, high = start or 0, 10**6 if end is None else end
    if low > high:
        with pytest.raises(quiver.InputError, match="both ends are included"):
            quiver.cursor(spread, start=start, end=end)
        return
    expected = [one for one in EVERYTHING if low <= one[0] <= high]
    with quiver.cursor(spread, start=start, end=end) as cursor:
        assert drain(cursor) == expected
    with quiver.cursor(spread, start=start, end=end, reverse=True) as cursor:
        assert drain(cursor) == expected[::-1]


def test_a_cursor_jumps_forward_and_back(spread) -> None:
    with quiver.cursor(spread) as cursor:
        for time in (9, 0, 31, 5):
            cursor.reset(time)
            assert drain(cursor) == [one for one in EVERYTHING if one[0] >= time]
    with quiver.cursor(spread, reverse=True) as cursor:
        for time in (9, 30, 1):
            cursor.reset(time)
            assert drain(cursor) == [one for one in EVERYTHING if one[0] <= time][::-1]


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_a_position_goes_on_where_it_was_whatever_was_finished_meanwhile(
    opener, path, reverse
) -> None:
    stores = [opener(core) for core in SPREAD]
    for store, blocks in zip(stores, SPREAD.values(), strict=True):
        fill(store, blocks, last=False)
    expected = EVERYTHING[::-1] if reverse else EVERYTHING
    for count in range(len(expected) + 1):
        with quiver.cursor(path, reverse=reverse) as cursor:
            before = [message[:2] for message in islice(cursor, count)]
            position = cursor.position
        assert before == expected[:count]
        if count == 4:
            for store in stores:
                store.finalize()
        with quiver.cursor(path, position=position, reverse=reverse) as cursor:
            assert drain(cursor) == expected[count:]


def test_what_is_finished_while_a_cursor_reads_comes_once(opener, path) -> None:
    store = opener()
    fill(store, [[1, 2], [3, 4, 5]], last=False)
    with quiver.cursor(path) as cursor:
        found = [next(cursor).time_ns for _ in range(3)]
        store.finalize()
        fill(store, [[6], [7]], last=False)
        found += [time for time, _ in drain(cursor)]
    assert found[:5] == [1, 2, 3, 4, 5]
    assert found == sorted(set(found))


def test_only_bundles_with_a_chosen_slot_come_and_only_that_slot(opener, path) -> None:
    store = opener()
    store.append(row(1), time=1)
    store.append(note(2), time=2)
    store.finalize()
    store.append({**row(3), **note(3)}, time=3)
    with quiver.cursor(path, slots="notes") as cursor:
        found = [(message.time_ns, list(message.bundle)) for message in cursor]
    assert found == [(2, ["notes"]), (3, ["notes"])]


def test_clocks_that_were_set_back_are_put_in_order(opener, path, clock: ManualClock) -> None:
    generator = random.Random(7)
    store = opener(rule="clock")
    times = []
    for number in range(60):
        clock.jump_to(generator.randrange(100, 140))
        times.append(clock.wall_ns())
        store.append(row(number))
        if generator.random() < 0.2:
            store.finalize()
    fill(opener(1), [[110, 110], [120, 150]], last=False)
    expected = sorted([(t, 0) for t in times] + [(t, 1) for t in (110, 110, 120, 150)])
    with quiver.cursor(path) as cursor:
        messages = list(cursor)
    assert [message[:2] for message in messages] == expected
    assert [m[:3] for m in messages] == sorted(m[:3] for m in messages)
    with quiver.cursor(path, reverse=True) as cursor:
        assert [message[:2] for message in cursor] == expected[::-1]
    with quiver.cursor(path, start=110, end=120) as cursor:
        assert [m[:2] for m in cursor] == [one for one in expected if 110 <= one[0] <= 120]


def test_a_store_that_changes_its_rule_stays_in_order(opener, path, clock: ManualClock) -> None:
    store = opener(rule="clock")
    for wall_ns in (50, 20, 40):
        clock.jump_to(wall_ns)
        store.append(row(wall_ns))
        store.finalize()
    store.append(row(30))
    store.close()
    store = opener(rule="writer")
    for number in range(3):
        store.append(row(number))
        store.finalize()
    store.append(row(9))
    with quiver.cursor(path) as cursor:
        assert [m.time_ns for m in cursor] == [20, 40, 40, 50, 51, 52, 53, 54]


@pytest.fixture
def many(opener, path):
    """Two hundred blocks of one bundle, at even times."""
    store = opener()
    for time in range(0, 400, 2):
        store.append(row(time), time=time)
        store.finalize()
    abandon(store)
    return path


def test_r17_a_seek_reads_the_ends_of_few_blocks(many) -> None:
    with quiver.cursor(many) as cursor:
        before = cursor.looked_up
        for time, expected in ((301, 302), (302, 302), (0, 0), (398, 398)):
            cursor.reset(time)
            found = cursor.next()
            assert found is not None
            assert found.time_ns == expected
        assert before <= 10
        assert cursor.looked_up <= 4 * 10
        (block,) = cursor.find_block(301)
        assert (block.start_ns, block.end_ns) == (302, 302)
        assert cursor.find_block(399) == ()
        assert cursor.find_block(5, partition=7) == ()


def test_r15_r16_a_run_that_was_cut_is_found_in_both_blocks(opener, path) -> None:
    fill(opener(), [[1, 5], [5, 5], [5, 7], [9]])
    with quiver.cursor(path) as cursor:
        drain(cursor)
        assert [b.segment_seq for b in cursor.find_block(5)] == [0, 1, 2]
        assert [b.segment_seq for b in cursor.find_block(8)] == [3]
        assert [b.segment_seq for b in cursor.find_block(7)] == [2]


def test_a_block_that_was_deleted_is_told_once_and_passed_over(opener, path) -> None:
    fill(opener(), [[1], [2], [3]])
    with quiver.cursor(path) as cursor:
        cursor.find_block(3)
        assert next(cursor).time_ns == 1
        for segment in (path / "core_0" / "segments").glob("*1.qseg"):
            segment.unlink()
        with pytest.raises(quiver.MissingError, match="deleted before the cursor"):
            cursor.next()
        assert drain(cursor) == [(3, 0)]


def test_what_was_deleted_outside_of_the_range_is_not_missed(opener, path) -> None:
    fill(opener(), [[1], [2], [3], [4]])
    with quiver.cursor(path, start=2, end=3) as cursor:
        cursor.find_block(4)
        for name in ("0", "3"):
            for segment in (path / "core_0" / "segments").glob(f"*{name}.qseg"):
                segment.unlink()
        assert drain(cursor) == [(2, 0), (3, 0)]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"live": True, "reverse": True}, "live"),
        ({"live": True, "end": 5}, "live"),
        ({"start": "soon"}, "start"),
        ({"partitions": ["core_0"]}, "partitions"),
        ({"position": {"a": 5}}, "position"),
        ({"slots": "nothing"}, "slot"),
    ],
    ids=["live reverse", "live end", "start", "partitions", "position", "slot"],
)
def test_what_makes_no_sense_is_refused(opener, path, options: dict[str, Any], message) -> None:
    opener()
    with pytest.raises(quiver.InputError, match=message):
        quiver.cursor(path, **options)


def test_a_cursor_that_was_closed_gives_nothing(opener, path) -> None:
    cursor = quiver.cursor(opener())
    assert cursor.partitions == (0,)
    cursor.close()
    cursor.close()
    with pytest.raises(quiver.ClosedError):
        cursor.poll()


def test_without_a_store_there_is_no_cursor(tmp_path) -> None:
    with pytest.raises(quiver.MissingError):
        quiver.cursor(tmp_path)
