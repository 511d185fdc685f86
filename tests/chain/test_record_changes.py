"""What may become of a partition's record, and what may not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_kit import CHAIN, begun, claim_of, rolled, sealed_at

from quiver.chain.record import (
    KEPT_BLOCKS,
    PAGE_BLOCKS,
    Claim,
    Following,
    Record,
    abandoned,
    claimed,
    committed,
    decode_page,
    decode_record,
    encode_record,
    finished,
    paged,
    purged,
    with_block,
)
from quiver.errors import FencedError, InputError, LockedError, MissingError


def test_a_partition_has_one_writer_and_another_has_to_take_over():
    """R2: as far as the record goes."""
    record = begun()
    for held in (record, claimed(record, "loader")):
        with pytest.raises(LockedError, match="the partition is loader's"):
            claimed(held, "other")
    won = claimed(record, "other", takes_over=True)
    with pytest.raises(FencedError) as fenced:
        committed(won, Claim(record.epoch, "loader"), sealed_at(record), following=None)
    assert (fenced.value.epoch, fenced.value.current) == (1, 2)
    assert claimed(record, "loader").epoch == 2


def test_of_two_who_claim_the_last_one_alone_commits():
    first = claimed(begun(), "loader")
    second = claimed(first, "auditor", takes_over=True)
    with pytest.raises(FencedError):
        committed(second, claim_of(first), sealed_at(second), following=None)
    done = committed(second, claim_of(second), sealed_at(second), following=None)
    with pytest.raises(FencedError, match="auditor's any more"):
        committed(done, claim_of(second), sealed_at(second), following=None)


def test_a_block_has_an_end_when_it_is_sealed_and_the_next_begins_behind_it():
    """R13, R14, R15: start and end, and with times of the writer's none in common."""
    record = rolled(rolled(begun()))
    first, second = record.recent
    assert (first.start, first.end, first.last_seq) == (1, 10, 9)
    assert (second.start, second.end, second.last_seq) == (11, 20, 19)
    assert not second.continues
    assert record.open == (2, 21, CHAIN)
    with pytest.raises(InputError, match="before the end of the one before it, 21"):
        rolled(record, start=20)


def test_a_run_of_equal_times_that_a_fault_parts_is_marked():
    """R16: with the caller's times, a block may begin at the time at which one ended."""
    record = rolled(rolled(begun(is_rising=False)), start=10)
    assert [block.continues for block in record.recent] == [False, True]
    assert not rolled(record, start=20).recent[2].continues
    with pytest.raises(InputError, match="before the end"):
        rolled(record, start=9)


def test_a_block_that_ends_empty_is_dropped_and_its_number_is_not_used_again():
    record = rolled(rolled(begun()), length=0)
    assert [block.number for block in record.recent] == [0]
    assert record.open.number == 2
    assert (record.end, record.last_seq) == (10, 9)


def test_a_closed_partition_has_no_open_block_and_goes_on_behind_what_it_had():
    record = claimed(begun(), "loader")
    record = committed(record, claim_of(record), sealed_at(record), following=None)
    assert (record.open, record.writer, record.sealing_by) == (None, "", "")
    gone = purged(record, 1)
    assert gone.recent == ()
    again = begun(gone)
    assert again.open == (1, 11, CHAIN)
    assert again.last_seq == 9


def test_what_was_decided_has_to_be_of_an_open_block():
    record = claimed(begun(), "loader")
    with pytest.raises(InputError, match="no block that is open"):
        committed(record, claim_of(record), None, following=None)
    closed = claimed(Record(), "loader")
    with pytest.raises(InputError, match="no block that is open"):
        committed(closed, claim_of(closed), sealed_at(closed), following=None)
    with pytest.raises(InputError, match="no block is open"):
        abandoned(closed, claim_of(closed), following=None)


def test_a_block_of_which_nobody_is_left_is_given_up_by_an_act_that_is_kept():
    record = claimed(rolled(begun()), "admin", takes_over=True)
    record = abandoned(record, claim_of(record), following=None)
    lost = record.recent[-1]
    assert (lost.is_abandoned, lost.locations, lost.length, lost.last_seq) == (True, (), 0, 9)
    assert decode_record(encode_record(record)) == record
    with pytest.raises(FencedError):
        abandoned(record, Claim(2, "admin"), following=None)


def test_a_purge_sticks_whatever_comes_later():
    """R41: the mark never goes back, and no act brings a block back."""
    record = purged(rolled(rolled(rolled(begun()))), 2)
    assert [block.number for block in record.recent] == [2]
    assert purged(record, 1) is record
    assert purged(record, 2) is record
    after = rolled(record)
    assert [block.number for block in after.recent] == [2, 3]
    assert after.purged_below == 2
    with pytest.raises(MissingError):
        with_block(after, rolled(begun()).recent[0])
    with pytest.raises(InputError, match="block 4 is not sealed"):
        purged(after, 5)
    assert purged(after, 4).recent == ()


def test_the_copies_of_a_block_may_change_and_it_may_not():
    block = rolled(begun()).recent[0]
    record = rolled(begun())
    moved = with_block(record, block._replace(locations=("node-x",)))
    assert moved.recent[0].locations == ("node-x",)
    assert moved.change == record.change + 1
    for other in (
        block._replace(length=99),
        block._replace(end=11),
        block._replace(rows=5),
        block._replace(locations=()),
        block._replace(epoch=1),
    ):
        with pytest.raises(InputError):
            encode_record(with_block(with_block(record, finished(block, rows=1, digest=D)), other))


D = bytes(range(32))


def test_a_block_is_finished_once():
    block = rolled(begun()).recent[0]
    done = finished(block, rows=7, digest=D)
    assert finished(done, rows=7, digest=D) == done
    for rows, digest in ((8, D), (7, bytes(32))):
        with pytest.raises(InputError, match="finished already"):
            finished(done, rows=rows, digest=digest)
    with pytest.raises(InputError, match="has 3 bytes"):
        finished(block, rows=7, digest=b"abc")


def test_pages_are_cut_when_there_are_many_blocks_and_twice_the_same():
    record = begun()
    while len(record.recent) < KEPT_BLOCKS + PAGE_BLOCKS - 1:
        record = rolled(record)
    assert paged(record) == (record, {})
    record = rolled(record)
    after, pages = paged(record)
    assert paged(record) == (after, pages)
    ((page, data),) = pages.items()
    assert decode_page(data) == record.recent[:PAGE_BLOCKS]
    assert (page.first, page.last, page.block_count) == (0, PAGE_BLOCKS - 1, PAGE_BLOCKS)
    assert after.pages == (page,)
    assert after.recent == record.recent[PAGE_BLOCKS:]
    assert purged(after, PAGE_BLOCKS - 1).pages == (page,)
    assert purged(after, PAGE_BLOCKS).pages == ()


@given(st.lists(st.sampled_from(["roll", "empty", "close", "purge", "take over", "abandon"])))
def test_no_number_is_used_twice_and_nothing_goes_back(acts):
    """R14: whatever happens, blocks are in order of numbers, times and sequences."""
    record = begun()
    used = [record.open.number]
    for act in acts:
        before = record
        record = step(record, act)
        assert decode_record(encode_record(record)) == record
        assert record.change > before.change or record == before
        assert record.epoch >= before.epoch
        assert record.end >= before.end
        assert record.last_seq >= before.last_seq
        assert record.purged_below >= before.purged_below
        if record.open and record.open != before.open:
            used.append(record.open.number)
        blocks = record.recent
        assert all(a.end < b.start or b.is_abandoned for a, b in pairwise(blocks))
    assert len(set(used)) == len(used)


def step(record: Record, act: str) -> Record:
    if record.open is None:
        return begun(record)
    if act == "purge":
        return purged(record, record.open.number)
    if act == "roll":
        return rolled(record)
    if act == "empty":
        return rolled(record, length=0)
    record = claimed(record, f"{act} {record.epoch}", takes_over=True)
    claim = claim_of(record)
    if act == "abandon":
        return abandoned(record, claim, following=None)
    following = None if act == "close" else Following("loader", CHAIN)
    return committed(record, claim, sealed_at(record), following=following)
