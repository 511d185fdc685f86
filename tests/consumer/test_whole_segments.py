"""A subscriber that takes whole segments: what is open, acks and rejections of parts of them."""

from __future__ import annotations

import pytest
from beside_kit import Beside, peek, take

from quiver.consumer import SegmentConsumer
from quiver.errors import ClosedError, SubscriberError


def follow(beside: Beside, name: str = "reader") -> SegmentConsumer:
    return SegmentConsumer(beside.disk, name, clock=beside.clock, keep=False)


def seen(consumer: SegmentConsumer, **after: int) -> list[tuple[int, tuple[tuple[int, int], ...]]]:
    found = consumer.pending({int(core[1:]): seq for core, seq in after.items()})
    return [(each.info.segment_seq, each.runs) for each in found]


def test_it_sees_finished_segments_in_order_and_what_is_open_of_them(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 3, 2)
        reader = beside.subscribe()
        take(reader)  # 0, 1 and so on are acked ...
        reader.commit()
        beside.fill(store, 2, 1)
        other = follow(beside, "other")
        assert seen(other) == [(0, ((0, 3),)), (1, ((0, 2),)), (2, ((0, 2),)), (3, ((0, 1),))]
        assert seen(other, c0=1) == [(2, ((0, 2),)), (3, ((0, 1),))]
        assert all(each.is_whole for each in other.pending({}))
        reader.close()
        assert seen(follow(beside)) == [(2, ((0, 2),)), (3, ((0, 1),))]


def test_parts_that_were_acked_are_no_part_of_what_is_open(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 5)
        reader = beside.subscribe()
        handles = [reader.poll() for _ in range(5)]
        for place in (0, 2, 3):
            handles[place].ack()
        for place in (1, 4):
            handles[place].defer()
        reader.close()
        consumer = follow(beside)
        (pending,) = consumer.pending({})
        assert pending.runs == ((1, 1), (4, 1))
        assert pending.bundle_count == 2
        assert not pending.is_whole


def test_acks_are_folded_in_and_segments_go(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 3, 2)
        consumer = follow(beside)
        assert consumer.ack(0, 0, ((0, 3),)) == 3
        assert consumer.ack(0, 0, ((0, 3),)) == 0
        assert consumer.ack(0, 1, ((1, 1),)) == 1
        assert consumer.passed(0, 0)
        assert not consumer.passed(0, 1)
        consumer.commit()
        store.maintain()
        assert store.info().segments == 1
        assert consumer.ack(0, 7, ((0, 1),)) == 0
        assert consumer.ack(5, 0, ((0, 1),)) == 0
        consumer.close()
        assert peek(store.subscribe("reader")) == [3]


def test_rejected_bundles_become_dead_letters_and_never_come_again(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 3)
        consumer = follow(beside)
        assert consumer.reject(0, 0, bundles=[2, 0], reason="not shipped: rotten") == 2
        assert consumer.reject(0, 0, bundles=[0], reason="again") == 0
        consumer.commit()
        consumer.close()
        assert seen(follow(beside)) == [(0, ((1, 1),))]  # Before the store has folded it in,
        store.maintain()
        assert seen(follow(beside)) == [(0, ((1, 1),))]  # and behind that.
        assert beside.disk.list_dir("core_0/dead_letters")
        assert peek(store.subscribe("reader")) == [1]


def test_a_segment_with_a_damaged_end_is_told_of(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 1, 1, 1)
    path = "core_0/segments/0000000000000001.qseg"
    data = bytearray(beside.disk.map(path))
    data[-20] ^= 1
    beside.disk.unlink(path)
    file = beside.disk.create(path)
    file.write(0, bytes(data))
    file.close()
    consumer = follow(beside)
    assert seen(consumer) == [(0, ((0, 1),)), (2, ((0, 1),))]
    ((core, seq, error),) = consumer.unreadable()
    assert (core, seq) == (0, 1)
    assert error.path.endswith("0000000000000001.qseg")


def test_what_comes_wakes_who_waits_and_a_follower_ends_it(beside) -> None:
    with beside.open() as store:
        consumer = follow(beside)
        before = consumer.change_count
        beside.fill(store, 1)
        consumer.refresh()
        assert consumer.change_count > before
        consumer.wait(before, 10**18)  # Returns at once: there is something new.
        follow(beside)
        with pytest.raises(SubscriberError, match="another process"):
            consumer.refresh()
        with pytest.raises(SubscriberError):
            consumer.pending({})


def test_a_closed_one_says_so(beside) -> None:
    with beside.open() as store:
        beside.fill(store, 1)
        consumer = follow(beside)
        consumer.close()
        with pytest.raises(ClosedError):
            consumer.pending({})
        with pytest.raises(ClosedError):
            consumer.wait(consumer.change_count, 10**18)
