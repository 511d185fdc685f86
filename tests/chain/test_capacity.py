"""Nodes with a limit: a partition is larger than any of them, and none goes beyond its own."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from contextlib import suppress

import pytest
from cluster_kit import STEADY, Nodes, row, value_of

from quiver.chain.loading import LoaderRules
from quiver.chain.node.quota import Quota
from quiver.chain.record import Partition
from quiver.chain.serving import AuditRules
from quiver.clock import SystemClock
from quiver.errors import CapacityError, InputError

PATIENCE = 60.0
CAPACITY = 1_500_000
SIZE = 10_000


def disk_use(folder) -> int:
    size = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # It was deleted just now.
                size += os.path.getsize(os.path.join(at, name))
    return size


@pytest.fixture
def nodes(tmp_path):
    nodes = Nodes(tmp_path, STEADY)
    nodes.audit = AuditRules(every_seconds=0.2)
    nodes.capacities = dict.fromkeys("abcd", CAPACITY)
    try:
        for name in "abcd":
            nodes.start(name)
        yield nodes
    finally:
        nodes.close()


def test_r20_a_partition_that_no_disk_could_hold_spreads_over_the_nodes(nodes):
    """Two copies of two megabytes on four nodes of one and a half: accepted, and none is over."""
    count = 200
    used: Counter[str] = Counter()
    with nodes.cluster() as cluster:
        rules = LoaderRules(rf=2, soft_bytes=100_000, window_bytes=50_000)
        loader = cluster.loader("core_0", ["events"], rules=rules)
        for number in range(count):
            receipt = loader.send(row(number, SIZE), timeout=PATIENCE)
            if number % 5 == 0:
                receipt.wait(PATIENCE)
            for name in nodes.served:
                used[name] = max(used[name], disk_use(nodes.folder / name))
        loader.close(timeout=PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(count))
        begun = time.monotonic()
        while {len(each.locations) for each in blocks_of(nodes)} != {2}:
            # A full node may have left a block with one copy; it comes when logs have gone.
            assert time.monotonic() - begun < PATIENCE, blocks_of(nodes)
            nodes.served["a"].auditing.audit()
    assert count * SIZE > CAPACITY
    assert max(disk_use(nodes.folder / name) for name in "abcd") <= CAPACITY
    assert max(used.values()) <= CAPACITY, used
    blocks = blocks_of(nodes)
    assert {len(set(each.locations)) for each in blocks} == {2}
    assert {name for each in blocks for name in each.locations} == set("abcd")


def test_when_all_are_full_whoever_writes_waits_and_a_node_that_joins_takes_it(nodes):
    for name in "cd":
        nodes.stop(name)
    with nodes.cluster() as cluster:
        rules = LoaderRules(rf=2, soft_bytes=100_000, buffer_bytes=400_000)
        loader = cluster.loader("core_0", ["events"], rules=rules)
        receipts = []
        with pytest.raises(CapacityError, match="wait to be acknowledged"):
            receipts.extend(
                loader.send(row(number, SIZE), timeout=2) for number in itertools.count()
            )
        assert all(disk_use(nodes.folder / name) <= CAPACITY for name in "ab")
        nodes.start("c")
        nodes.start("d")
        for receipt in receipts:
            receipt.wait(PATIENCE)
        loader.close(timeout=PATIENCE)
        with cluster.cursor("core_0") as cursor:
            assert [value_of(each) for each in cursor] == list(range(len(receipts)))


def blocks_of(nodes):
    partition = Partition(nodes.metadata, "core_0", clock=SystemClock())
    return list(partition.blocks_now(partition.read()))


def quota(taken=0, capacity=1_000_000):
    held = [taken]
    return Quota(capacity, lambda: held[0], lambda: (1 << 40, 1 << 41)), held


def test_no_room_is_made_where_it_is_nearly_full_and_what_is_begun_goes_on_to_the_end():
    limit, held = quota(100_000)
    limit.check_begin()
    assert limit.room() == (900_000, 1_000_000)
    held[0] = 860_000
    with pytest.raises(CapacityError, match="860,000 of 1,000,000 bytes"):
        limit.check_begin()
    limit.take(20_000)  # Twice that: it becomes a segment.
    limit.take(20_000)
    with pytest.raises(CapacityError):
        limit.take(80_000)
    with limit.keep(140_000):
        pass
    with pytest.raises(CapacityError), limit.keep(140_001):
        pass
    held[0] = 2_000_000
    assert limit.room() == (0, 1_000_000)


def test_entries_have_no_room_any_more_that_segments_took_or_are_about_to_take():
    limit, held = quota()
    limit.take(10_000)  # From here on it was known that 980,000 are left.
    held[0] = 20_000
    with limit.keep(600_000):
        with pytest.raises(CapacityError), limit.keep(400_000):
            pass
        with pytest.raises(CapacityError):
            limit.take(200_000)
        limit.take(100_000)
        held[0] += 200_000
    held[0] += 600_000
    limit.take(90_000)
    held[0] += 180_000
    with pytest.raises(CapacityError):
        limit.take(10_000)


def test_a_log_counts_twice_and_a_segment_once(nodes):
    node = nodes.served["a"].node
    with nodes.cluster() as cluster:
        nodes.stop("b")
        loader = cluster.loader("core_0", ["events"], rules=LoaderRules(rf=3))
        loader.send(row(0, 50_000), timeout=PATIENCE).wait(PATIENCE)
        assert 100_000 < CAPACITY - node.room()[0] < 120_000
        loader.close(timeout=PATIENCE)
        begun = time.monotonic()
        while CAPACITY - node.room()[0] > 70_000:
            assert time.monotonic() - begun < PATIENCE
            node.status()
        (block,) = blocks_of(nodes)
        assert block.digest


def test_without_a_limit_it_is_the_disk():
    limit, _ = quota(1 << 50, capacity=0)
    assert limit.room() == (1 << 40, 1 << 41)
    limit.check_begin()
    limit.take(1 << 60)
    with limit.keep(1 << 60):
        pass
    small, _ = quota(capacity=1 << 60)
    assert small.room() == (1 << 40, 1 << 41)
    with pytest.raises(InputError):
        quota(capacity=-1)
