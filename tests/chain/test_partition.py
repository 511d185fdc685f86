"""A partition's record where it is kept: races, pages, purges, and looking for a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count

import pytest
from record_kit import CHAIN, CountingMetadata, begun, claim_of, rolled, sealed_at

from quiver.chain.metadata import BucketMetadata
from quiver.chain.record import (
    KEPT_BLOCKS,
    PAGE_BLOCKS,
    Following,
    Open,
    Partition,
    claimed,
    committed,
    finished,
)
from quiver.errors import DamageError, FencedError, InputError, MissingError, RemoteError
from quiver.ship.objects import FolderBucket, MemoryBucket, UnclearError
from quiver.testing.manual_clock import ManualClock

BLOCKS = 1000
DIGEST = bytes(range(32))


def opened(metadata=None, name="core_0"):
    return Partition(metadata or CountingMetadata(), name, clock=ManualClock())


def filled(blocks=BLOCKS, metadata=None):
    """Fill a partition with blocks of ten nanoseconds each, by one put for many of them."""
    partition = opened(metadata)
    partition.create(rf=3)
    partition.change(begun)

    for _ in range(blocks // 200):
        partition.change(lambda record: rolls(record, 200))
    partition.change(lambda record: rolls(record, blocks % 200))
    return partition


def rolls(record, times):
    for _ in range(times):
        record = rolled(record)
    return record


@pytest.fixture(scope="module")
def many():
    return filled()


def test_rf_is_two_unless_said_and_stays_what_it_was():
    """R28: fixed when the partition is made."""
    partition = opened()
    assert partition.create().rf == 2
    assert partition.create(rf=3).rf == 2


def test_what_is_not_there_is_missing_and_what_is_no_name_is_refused():
    with pytest.raises(MissingError):
        opened().read()
    for name in ("", "a/b", "..", ".x", "a" * 101, "ä"):
        with pytest.raises(InputError, match="no name of a partition"):
            opened(name=name)


def test_all_blocks_come_back_in_order(many):
    record = many.read()
    assert len(record.pages) == 3
    assert [block.number for block in many.blocks(record)] == list(range(BLOCKS))
    assert [many.block(record, number).start for number in (0, 255, 256, 999)] == [
        *(1, 2551, 2561, 9991)
    ]
    for number in (BLOCKS, BLOCKS + 1):
        with pytest.raises(MissingError, match="no sealed block"):
            many.block(record, number)


def test_each_time_is_found_in_one_block(many):
    """R15: and behind the last block in the open one."""
    record = many.read()
    for time_ns in range(1, 10 * BLOCKS + 1):
        (found,) = many.find(record, time_ns)
        assert found.start <= time_ns <= found.end
    (found,) = many.find(record, 10 * BLOCKS + 1)
    assert isinstance(found, Open)
    assert many.find(record._replace(open=None), 10 * BLOCKS + 1) == []
    assert many.find(record, -5)[0].number == 0


def test_between_blocks_the_next_one_is_found():
    """R17."""
    partition = opened()
    partition.create()
    partition.change(lambda record: rolled(rolled(begun(record)), start=100))
    record = partition.read()
    assert [block.number for block in partition.find(record, 50)] == [1]
    assert [block.number for block in partition.find(record, 10)] == [0]
    assert [block.number for block in partition.find(record, 105)] == [1]


def test_a_run_that_was_parted_is_found_whole():
    """R16: also over three blocks, the last one open."""
    partition = opened()
    partition.create(is_rising=False)

    def run(record):
        record = rolled(begun(record))
        for _ in range(2):
            record = claimed(record, "loader")
            same = replace(sealed_at(record, start=10), end=10)
            following = Following("loader", CHAIN)
            record = committed(record, claim_of(record), same, following=following)
        return record

    record = partition.change(run)
    assert [block.number for block in partition.find(record, 10)] == [0, 1, 2, 3]
    assert [block.number for block in partition.find(record, 9)] == [0]
    assert [block.number for block in partition.find(record, 11)] == [3]


def test_a_roll_costs_the_same_however_many_blocks_there_are():
    """Bytes and puts when there are few blocks, and behind eight thousand."""
    metadata = CountingMetadata()
    partition = filled(PAGE_BLOCKS + KEPT_BLOCKS - 16, metadata)
    early = cost_of_rolls(partition, 32)
    partition.change(lambda record: rolls(record, PAGE_BLOCKS - 32))
    for _ in range(30):
        partition.change(lambda record: rolls(record, PAGE_BLOCKS))
    late = cost_of_rolls(partition, 32)
    assert early[0] == late[0] == 33  # A page is cut on the way.
    # What grows is a reference of 52 bytes for each page of 256 blocks.
    assert 0 <= late[1] - early[1] <= 32 * 31 * 52
    assert late[1] < 32 * 32_000


def cost_of_rolls(partition, times):
    metadata = partition._metadata
    puts, size = metadata.puts, metadata.bytes_put
    for _ in range(times):
        partition.change(rolled)
    return metadata.puts - puts, metadata.bytes_put - size


def test_looking_for_a_time_reads_the_record_and_one_page():
    metadata = CountingMetadata()
    filled(10_000, metadata)
    partition = opened(metadata)
    metadata.bytes_read = 0
    record = partition.read()
    (found,) = partition.find(record, 54_321)
    assert found.number == 5432
    assert metadata.bytes_read < 80_000


def test_a_block_in_a_page_is_amended_beside_it():
    partition = filled(600)
    record = partition.read()
    assert len(record.pages) == 2
    for number in (3, 590):
        partition.amend(number, lambda block: block._replace(locations=("node-x",)))
        partition.amend(number, lambda block: finished(block, rows=7, digest=DIGEST))
        block = partition.block(partition.read(), number)
        assert (block.locations, block.rows, block.digest) == (("node-x",), 7, DIGEST)
        same = partition.amend(number, lambda block: block)
        assert same == block
        with pytest.raises(InputError, match="finished already"):
            partition.amend(number, lambda block: finished(block, rows=8, digest=DIGEST))
        with pytest.raises(InputError, match="it may not"):
            partition.amend(number, lambda block: block._replace(length=1))
    assert partition.block(record, 4).locations == CHAIN
    assert partition.read().pages == record.pages


def test_a_purge_lets_go_of_whole_blocks_and_sticks():
    """R41: on the side of the metadata, whoever puts what was deleted there again."""
    partition = filled(600)
    partition.amend(3, lambda block: block._replace(locations=("node-x",)))
    metadata = partition._metadata
    saved = {key: metadata.get(key).data for key in metadata.keys("core_0/") if "rec" not in key}
    assert len(saved) == 3
    record = partition.purge(3001)
    assert record.purged_below == 300
    left = metadata.keys("core_0/")
    assert len(left) == 2  # The record, and the page that is purged in part.
    assert [block.number for block in partition.blocks(record)] == list(range(300, 600))
    assert partition.find(record, 5)[0].number == 300
    for number in (0, 3, 299):
        with pytest.raises(MissingError):
            partition.block(record, number)
        with pytest.raises(MissingError):
            partition.amend(number, lambda block: block)
    for key in saved.keys() - set(left):  # As one does who stood still all the while.
        metadata.cas(key, None, saved[key])
    assert partition.purge(5).purged_below == 300
    assert metadata.keys("core_0/") == left
    assert partition.purge(10**6).recent == ()
    assert partition.read().open.number == 600


def test_every_block_of_many_who_roll_is_there_once(tmp_path):
    """Two sealers at once, over and over: each epoch is one's, and no block is lost."""
    metadata = BucketMetadata(FolderBucket(str(tmp_path)))
    opened(metadata).create()
    opened(metadata).change(begun)
    names = count()
    threads, rounds = 3, 6
    barrier = threading.Barrier(threads)

    def run(_):
        partition = opened(metadata)
        barrier.wait(timeout=60)
        done = 0
        while done < rounds:
            by = f"sealer-{next(names)}"
            record = partition.change(lambda was, by=by: claimed(was, by, takes_over=True))
            claim = claim_of(record)
            try:
                partition.change(lambda was, claim=claim: end_it(was, claim))
            except FencedError:
                continue
            done += 1

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
    record = opened(metadata).read()
    assert [block.number for block in record.recent] == list(range(threads * rounds))
    epochs = [block.epoch for block in record.recent]
    assert sorted(set(epochs)) == epochs


def end_it(record, claim):
    return committed(record, claim, sealed_at(record), following=Following(claim.by, CHAIN))


class Losing(CountingMetadata):
    """Loses answers of puts that were done."""

    lost = 0

    def cas(self, key, revision, data):
        kept = super().cas(key, revision, data)
        if self.lost:
            self.lost -= 1
            raise UnclearError("no answer", path=key, retryable=True)
        return kept


def test_a_change_whose_answer_is_lost_is_made_once():
    metadata = Losing()
    partition = opened(metadata)
    partition.create()
    metadata.lost = 1
    partition.change(begun)
    for _ in range(3):
        metadata.lost = 1
        partition.change(rolled)
    record = partition.read()
    assert [block.number for block in record.recent] == [0, 1, 2]
    assert record.epoch == 4


class Contended(CountingMetadata):
    """Somebody else is always faster."""

    is_contended = False

    def cas(self, key, revision, data):
        if self.is_contended:
            self.is_contended = False
            opened(self).change(lambda record: record._replace(change=record.change + 1))
            self.is_contended = True
        return super().cas(key, revision, data)


def test_who_is_always_too_late_is_told():
    metadata = Contended()
    partition = opened(metadata)
    partition.create()
    partition.change(begun)
    metadata.is_contended = True
    with pytest.raises(RemoteError, match="100 times in turn") as late:
        partition.change(rolled)
    assert late.value.retryable


def test_damage_is_told_with_its_place():
    metadata = BucketMetadata(MemoryBucket())
    partition = filled(600, metadata)
    page = next(key for key in metadata.keys("core_0/pages/"))
    for key in (page, "core_0/record"):
        kept = metadata.get(key)
        metadata.cas(key, kept.revision, kept.data[:50] + b"\xff" + kept.data[51:])
        with pytest.raises(DamageError, match="core_0"):
            list(opened(metadata).blocks(opened(metadata).read()))
        metadata.cas(key, metadata.get(key).revision, kept.data)
    partition.amend(3, lambda block: block._replace(locations=("x",)))
    metadata.cas(
        "core_0/amended/0000000000000004",
        None,
        metadata.get("core_0/amended/0000000000000003").data,
    )
    with pytest.raises(DamageError, match="of another block"):
        partition.block(partition.read(), 4)


def test_a_page_that_is_gone_is_never_told_as_blocks_that_are_not_there():
    partition = filled()
    record = partition.read()
    partition._metadata.delete(partition._metadata.keys("core_0/pages/")[0])
    fresh = opened(partition._metadata)
    for ask in (
        lambda: fresh.block(record, record.pages[0].first),
        lambda: list(fresh.blocks(record)),
        lambda: fresh.amend(record.pages[0].first, lambda block: block),
    ):
        with pytest.raises(RemoteError, match="record names it") as told:
            ask()
        assert told.value.retryable
