"""A node's copies: what is let in, what survives, what is read, and what is gone for good."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import blake3
import pytest
from copies_kit import (
    BLOCK,
    LAYOUT,
    LOG,
    ROUTE,
    all_of,
    append,
    copies,
    entry,
    frame,
    place,
    read,
    reopened,
    sealed,
)

from quiver.chain.copies import CopyRules, Extent
from quiver.chain.copies.format import LOG_BEGIN
from quiver.chain.peers import BlockName, Finished, Route
from quiver.chain.sealing import Answer, Sealed
from quiver.errors import (
    DamagedEntry,
    FencedError,
    InputError,
    MissingError,
)
from quiver.segment import open_bytes
from quiver.testing import MemoryDisk


def test_a_log_is_the_entries_as_they_came(shelf, disk):
    data = append(shelf, 1, 2, 5)
    file = disk.open(LOG)
    assert file.read(LOG_BEGIN, 1 << 20) == data
    assert read(shelf) == data
    first = len(entry(1))
    assert read(shelf, offset=first) == data[first:]
    again = reopened(shelf, disk)
    assert read(again) == data
    assert again.holdings() == shelf.holdings()


def test_r23_entries_of_a_block_without_room_are_refused(shelf):
    with pytest.raises(MissingError, match="block 4 of core_0"):
        shelf[BlockName("core_0", 4)]
    with pytest.raises(InputError, match="not in the chain"):
        shelf.prepare(ROUTE._replace(chain=("a", "c")), LAYOUT)
    with pytest.raises(InputError, match="for a, b, not in 5 for b"):
        shelf[BLOCK].begin(ROUTE._replace(chain=("b",)))


@pytest.mark.parametrize(
    "name",
    [BlockName("../up", 1), BlockName(".", 1), BlockName("", 1), BlockName("a/b", 1),
     BlockName("x" * 101, 1), BlockName("core_0", -1), BlockName("core_0", 1 << 63)],
    ids=["up", "dot", "nothing", "two", "long", "below", "above"],
)  # fmt: skip
def test_hostile_names_become_no_paths(shelf, name):
    for act in (
        lambda: shelf.prepare(ROUTE._replace(block=name), LAYOUT),
        lambda: shelf.drop(name),
        lambda: shelf.keep(name, [], Finished(1, bytes(32), 1)),
    ):
        with pytest.raises(InputError):
            act()


def test_hostile_room_is_not_made(shelf):
    other = ROUTE._replace(block=BlockName("core_0", 9))
    for layout in ("", "[]", "{}", "[[", "x" * 70_000):
        with pytest.raises(InputError):
            shelf.prepare(other, layout)
    for chain in (("b",) * 2, ("b", ""), (*tuple(f"n{i}" for i in range(16)), "b")):
        with pytest.raises(InputError):
            shelf.prepare(other._replace(chain=chain), LAYOUT)
    with pytest.raises(InputError):
        shelf.prepare(other._replace(epoch=1 << 63), LAYOUT)
    assert BlockName("core_0", 9) not in shelf


def test_room_may_be_made_again_until_a_stream_comes(shelf, disk):
    shelf.prepare(ROUTE._replace(chain=("b", "c")), LAYOUT)
    with pytest.raises(FencedError):
        shelf.prepare(ROUTE._replace(epoch=4), LAYOUT)
    shelf[BLOCK].begin(ROUTE._replace(chain=("b", "c")))
    with pytest.raises(InputError, match="not empty"):
        shelf.prepare(ROUTE, LAYOUT)
    assert reopened(shelf, disk)[BLOCK].state.chain == ("b", "c")


def test_only_what_belongs_there_is_appended(shelf):
    data = append(shelf, 1)
    copy = shelf[BLOCK]
    stream = copy.begin(ROUTE)
    good = frame(len(data), 2)
    bad = {
        "a gap": good._replace(offset=len(data) + 1),
        "twice": frame(0, 1),
        "another epoch": good._replace(epoch=6),
        "another number": good._replace(last_seq=3),
        "nothing": good._replace(body=memoryview(b"")),
        "half an entry": good._replace(body=good.body[:-1]),
        "a wrong byte": good._replace(body=memoryview(bytes(good.body)[:-1] + b"\0")),
        "an old number": frame(len(data), 1),
        "an old time": good._replace(body=memoryview(entry(2, 9))),
    }
    for each in bad.values():
        with pytest.raises(InputError):
            place(copy, stream, each)
    with pytest.raises(FencedError):
        place(copy, stream, good._replace(epoch=4))
    with pytest.raises(InputError):  # All of it, or nothing.
        place(copy, stream, good._replace(body=memoryview(bytes(good.body) * 2)))
    copy.begin(ROUTE)
    with pytest.raises(InputError, match="another stream"):
        place(copy, stream, good)
    assert read(shelf) == data


def test_no_entry_of_which_any_bit_is_wrong_is_appended(shelf):
    data = append(shelf, 1)
    copy = shelf[BLOCK]
    stream = copy.begin(ROUTE)
    good = frame(len(data), 2)
    for bit in range(8 * len(good.body)):
        body = bytearray(good.body)
        body[bit // 8] ^= 1 << bit % 8
        bad = good._replace(body=memoryview(body))
        with pytest.raises(InputError, match="no row of entries"):
            place(copy, stream, bad)
    assert read(shelf) == data
    place(copy, stream, good)


def test_a_block_does_not_outgrow_its_limit(disk):
    shelf = copies(disk, CopyRules("b", block_bytes_max=600))
    shelf.prepare(ROUTE, LAYOUT)
    append(shelf, 1)
    with pytest.raises(InputError, match="the most is 600"):
        append(shelf, 2, 3)
    with pytest.raises(InputError):
        CopyRules("b", entry_bytes_max=0)


def test_what_is_not_synced_is_not_visible(shelf):
    first = append(shelf, 1)
    rest = append(shelf, 2, sync=False)
    assert read(shelf) == first
    shelf[BLOCK].readers.show(shelf[BLOCK].sync())
    assert read(shelf) == first + rest


def test_r26_an_open_block_is_read_at_its_tail_alone(disk):
    shelf = copies(disk, CopyRules("a"))
    shelf.prepare(ROUTE, LAYOUT)
    data = append(shelf, 1)
    with pytest.raises(InputError, match="its tail is b"):
        read(shelf)
    sealed(shelf, 1)
    assert read(shelf) == data  # R29: a sealed one at any.


def test_a_live_reader_waits_until_the_block_is_cut(shelf):
    data = append(shelf, 1)
    reader = shelf[BLOCK].read(0, live=True, wait_seconds=0)
    assert next(reader) == data
    assert next(reader) == b""
    more = append(shelf, 2)
    assert next(reader) == more
    sealed(shelf, 1, 2)
    assert list(reader) == []
    with pytest.raises(InputError, match="before 1,000"):
        read(shelf, offset=1_000)


def test_a_live_reader_is_woken_by_a_sync_that_waits_for_nobody(shelf):
    first = append(shelf, 1)
    append(shelf, 2, sync=False)
    copy = shelf[BLOCK]
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(copy.visible, len(first), wait_seconds=600.0)
        while not copy.readers._waiting and not seen.done():
            pass
        copy.readers.show(copy.sync())
        assert seen.result(60)[0].last_seq == 2
        assert not copy.readers._waiting
        append(shelf, 3, sync=False)
        with copy._lock:  # As while somebody writes.
            pool.submit(lambda: copy.readers.show(copy.sync())).result(60)
        assert copy.visible(0)[0].last_seq == 3


def test_a_sync_shows_nothing_before_somebody_says_that_all_have_it(shelf):
    first = append(shelf, 1)
    append(shelf, 2, sync=False)
    copy = shelf[BLOCK]
    extent = copy.sync()
    assert all_of(copy.read(0, live=False, wait_seconds=0)) == first
    copy.readers.show(extent)
    copy.readers.show(Extent())  # A word that comes late takes nothing back.
    assert copy.visible(0) == (extent, False)


def test_the_last_entry_that_was_found_at_a_start_is_not_shown_unasked(shelf, disk):
    first = append(shelf, 1)
    append(shelf, 2)
    shelf = reopened(shelf, disk)
    copy = shelf[BLOCK]
    assert all_of(copy.read(0, live=False, wait_seconds=0)) == first
    found = copy.found_unsure()
    assert found.last_seq == 2
    copy.readers.show(found)
    assert copy.found_unsure() is None
    append(shelf, 3)
    assert copy.visible(0)[0].last_seq == 3


def test_a_fence_lets_nothing_more_in_and_says_what_there_is(shelf, disk):
    data = append(shelf, 1, 2)
    late = append(shelf, 3, sync=False)
    copy = shelf[BLOCK]
    stream = copy.begin(ROUTE)
    whole = len(data) + len(late)
    assert copy.fence(7) == copy.fence(7) == Answer("b", whole, 3, 10, 30)
    for epoch in (5, 6):
        with pytest.raises(FencedError):
            copy.fence(epoch)
    with pytest.raises(FencedError):
        place(copy, stream, frame(whole, 4))
    with pytest.raises(FencedError):
        copy.begin(ROUTE)
    with pytest.raises(FencedError):
        shelf.prepare(ROUTE, LAYOUT)
    again = reopened(shelf, disk, CopyRules("b", boot=b"2" * 16))
    assert again[BLOCK].fence(7) == Answer("b", whole, 3, 10, 30, is_rebooted=True)


def test_a_cut_takes_what_is_behind_it(shelf, disk):
    append(shelf, 1, 2, 3)
    shelf[BLOCK].fence(7)
    with pytest.raises(InputError, match="no entry"):
        shelf[BLOCK].cut(Sealed(5, 1, 10, 10, ()))
    with pytest.raises(InputError, match="another one"):
        shelf[BLOCK].cut(Sealed(len(entry(1)), 2, 10, 10, ()))
    ends = sealed(shelf, 1, 2)
    shelf[BLOCK].cut(ends)
    with pytest.raises(InputError, match="ends elsewhere"):
        sealed(shelf, 1)
    with pytest.raises(FencedError, match="was cut"):
        shelf[BLOCK].begin(ROUTE._replace(epoch=7))
    assert read(shelf) == entry(1) + entry(2)
    assert read(reopened(shelf, disk)) == entry(1) + entry(2)


def test_r18_a_copy_that_is_shorter_is_none(shelf):
    append(shelf, 1)
    with pytest.raises(InputError, match="no entry"):
        sealed(shelf, 1, 2)


def test_r22_a_segment_is_the_same_on_all_nodes(shelf, disk):
    append(shelf, 1, 2, 3)
    with pytest.raises(InputError, match="not cut"):
        shelf[BLOCK].finish()
    sealed(shelf, 1, 2)
    finished = shelf[BLOCK].finish()
    other = copies(rules=CopyRules("a"))
    other.prepare(ROUTE, LAYOUT)
    append(other, 1, 2)
    sealed(other, 1, 2)
    assert other[BLOCK].finish() == finished
    assert other[BLOCK].finish() == finished
    data = all_of(shelf[BLOCK].segment())
    assert (blake3.blake3(data).digest(), len(data), 4) == (
        finished.digest, finished.size, finished.rows,
    )  # fmt: skip
    reader = open_bytes(data, place="here")
    assert reader.bundle_count == 2
    assert reopened(shelf, disk)[BLOCK].holding.finished == finished


@pytest.mark.parametrize("number", [9, 10, 15, 16, 25, 26, 32, 255, 10**15, 10**16, (1 << 63) - 1])
def test_a_segment_of_any_number_is_made_and_found_again(disk, number):
    block = BlockName("core_0", number)
    route = ROUTE._replace(block=block)
    shelf = copies(disk)
    shelf.prepare(route, LAYOUT)
    length = len(append(shelf, 0, 1, route=route))
    shelf[block].cut(Sealed(length, 1, 0, 10, ()))
    finished = shelf[block].finish()
    shelf[block].settle(finished)
    again = reopened(shelf, disk)
    assert not again.faults
    assert [each.name for each in again.holdings()] == [block]
    reader = open_bytes(all_of(again[block].segment()), place="here")
    assert reader.bundle_count == 2


def test_r42_the_log_goes_when_all_have_the_segment(shelf, disk):
    data = append(shelf, 1)
    ends = sealed(shelf, 1)
    finished = shelf[BLOCK].finish()
    assert read(shelf) == data
    with pytest.raises(InputError, match="another segment"):
        shelf[BLOCK].settle(finished._replace(rows=9))
    shelf[BLOCK].settle(finished)
    shelf[BLOCK].settle(finished)
    assert disk.stat(LOG) is None
    with pytest.raises(MissingError, match="no log"):
        read(shelf)
    again = reopened(shelf, disk)
    assert again[BLOCK].fence(9) == Answer("b", ends.length, 1, 10, 10)
    assert all_of(again[BLOCK].segment()) == all_of(shelf[BLOCK].segment())


def test_r19_a_segment_may_be_copied_to_an_empty_node(shelf, disk):
    append(shelf, 1)
    sealed(shelf, 1)
    finished = shelf[BLOCK].finish()
    empty = MemoryDisk()
    other = copies(empty)
    other.keep(BLOCK, shelf[BLOCK].segment(), finished)
    assert all_of(reopened(other, empty)[BLOCK].segment()) == all_of(shelf[BLOCK].segment())
    assert [each.name for each in empty.list_dir("core_0")] == [
        "0000000000000003.copy", "0000000000000003.qseg",
    ]  # fmt: skip


def test_a_segment_that_is_another_one_is_not_kept(shelf):
    append(shelf, 1)
    sealed(shelf, 1)
    finished = shelf[BLOCK].finish()
    data = all_of(shelf[BLOCK].segment())
    disk = MemoryDisk()
    other = copies(disk)
    for parts in ([data[:-1]], [data[:-1], b"\0\0"], [data[:-1] + b"!"], []):
        with pytest.raises(DamagedEntry, match="not the one"):
            other.keep(BLOCK, parts, finished)
        assert disk.list_dir("core_0") == []
    assert other.holdings() == ()


def test_whoever_made_other_bytes_takes_those_of_another(shelf, disk):
    append(shelf, 1)
    sealed(shelf, 1)
    shelf[BLOCK].finish()
    other = Finished(1, blake3.blake3(b"other").digest(), 5)
    shelf.keep(BLOCK, [b"other"], other)
    shelf[BLOCK].settle(other)
    assert all_of(reopened(shelf, disk)[BLOCK].segment()) == b"other"


def test_r41_what_was_dropped_takes_no_late_entries(shelf, disk):
    append(shelf, 1)
    stream = shelf[BLOCK].begin(ROUTE)
    kept = shelf[BLOCK]
    shelf.drop(BLOCK)
    shelf.drop(BLOCK)
    with pytest.raises((MissingError, InputError)):
        place(kept, stream, frame(len(entry(1)), 2))
    again = reopened(shelf, disk)
    assert again.holdings() == ()
    for number, epoch in ((3, 5), (3, 9), (2, 9)):
        late = Route(BlockName("core_0", number), epoch, ("a", "b"))
        with pytest.raises(MissingError, match="was dropped"):
            again.prepare(late, LAYOUT)
    again.prepare(Route(BlockName("core_0", 4), 5, ("a", "b")), LAYOUT)
    again.prepare(Route(BlockName("core_1", 0), 5, ("a", "b")), LAYOUT)
    assert [each.name for each in disk.list_dir("core_0")] == [
        "0000000000000004.copy", "0000000000000004.log", "floor",
    ]  # fmt: skip


def test_a_dropped_block_may_be_brought_back_as_a_segment(shelf, disk):
    append(shelf, 1)
    sealed(shelf, 1)
    finished = shelf[BLOCK].finish()
    data = all_of(shelf[BLOCK].segment())
    shelf.drop(BLOCK)
    shelf.keep(BLOCK, [data], finished)
    assert all_of(reopened(shelf, disk)[BLOCK].segment()) == data
