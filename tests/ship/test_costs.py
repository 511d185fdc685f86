"""COSTS.md says what is counted, and what is counted is what a store is sent."""

from __future__ import annotations

from collections import Counter

import pytest
from fault_proxy import FaultProxy, Seen
from seaweed import options_for

from bench.ship import costs
from bench.ship.counting import PIECE, CountingBucket
from quiver.ship.objects import MemoryBucket, open_bucket
from quiver.ship.queue import NewEntry, Queue


def test_the_page_says_what_is_counted_now():
    assert costs.PAGE.read_text() == costs.written(), "python -m bench.ship.costs writes it anew"


def test_a_flush_is_two_puts_and_what_a_consumer_reads_is_two_gets():
    cost = costs.counted(50, 1, 10.0)
    assert 2 <= cost.producer_put / cost.batches < 2.1
    assert cost.consumer_put / cost.batches == pytest.approx(0.01)
    assert 2 <= cost.consumer_get / cost.batches < 2.1


@pytest.mark.parametrize("size, puts", [(0, 1), (64, 1), (65, 4), (128, 4), (129, 5)])
def test_a_large_put_is_counted_in_pieces(size, puts):
    bucket = CountingBucket(MemoryBucket(), piece=64)
    bucket.put("a", [bytes(size // 2), bytes(size - size // 2)])
    assert bucket.counts == {"PUT": puts}


def kind(seen: Seen) -> str:
    """Say as what a request is billed."""
    if seen.method == "DELETE" or (seen.method == "POST" and "?delete" in seen.path):
        return "DELETE"
    if seen.method == "GET":
        return "LIST" if "list-type=2" in seen.path else "GET"
    return "PUT"


def test_a_real_store_is_sent_as_many_requests_as_are_counted(seaweed, queue_url):
    with FaultProxy(seaweed.port) as proxy:
        bucket = CountingBucket(open_bucket(queue_url, options=options_for(proxy.endpoint)))
        queue = Queue(bucket)
        queue.append(NewEntry("a"))
        queue.append(NewEntry("b"))
        queue.read()
        Queue(bucket).start(0)
        for size in (1, PIECE, PIECE + 1):
            bucket.put("large", [bytes(size)])
        bucket.get("large")
        assert {found.key for found in bucket.list("")} == {"large", "manifest"}
        assert not bucket.delete(["large", "manifest"])
        sent = Counter(kind(seen) for seen in proxy.seen)
    assert sent == bucket.counts
