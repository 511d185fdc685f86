"""Scenario 57: many append at once, on each store; ``make bench-ship`` lets 8 x 1,000 of them."""

from __future__ import annotations

import pytest
from race_kit import RacerError, check, race, race_of_threads

from quiver.ship.objects import MemoryBucket, open_bucket
from quiver.ship.queue import Queue

PROCESSES, APPENDS = 4, 50
PAGES = pytest.mark.parametrize("page_entries", [0, 16])


@PAGES
def test_scenario_57_in_memory(page_entries):
    bucket = MemoryBucket()
    racers = race_of_threads(
        lambda: bucket.at("ingest"), threads=8, appends=APPENDS, page_entries=page_entries
    )
    queue = Queue(bucket.at("ingest"))
    check(queue, racers)
    assert bool(queue.read().pages) is bool(page_entries)


def test_scenario_57_in_a_folder(tmp_path):
    url = str(tmp_path / "ingest")
    racers = race(url, processes=PROCESSES, appends=APPENDS, page_entries=16)
    queue = Queue(open_bucket(url))
    check(queue, racers)
    assert queue.read().pages


def test_scenario_57_in_a_real_store(seaweed, queue_url):
    racers = race(
        queue_url,
        seaweed.options,
        processes=PROCESSES,
        appends=APPENDS,
        page_entries=16,
    )
    queue = Queue(open_bucket(queue_url, options=seaweed.options))
    check(queue, racers)
    assert queue.read().pages


def test_what_is_lost_doubled_or_told_wrong_is_seen():
    bucket = MemoryBucket()
    racers = race_of_threads(lambda: bucket.at("a"), threads=2, appends=3)
    check(Queue(bucket.at("a")), racers)
    one, two = racers
    swapped = one._replace(sequences=two.sequences), two._replace(sequences=one.sequences)
    backwards = one._replace(names=one.names[::-1], sequences=one.sequences[::-1])
    for wrong in ([one], [one, one], [*swapped], [backwards, two]):
        with pytest.raises(RacerError):
            check(Queue(bucket.at("a")), list(wrong))
    queue = Queue(bucket.at("a"))
    queue.dequeue(0, epoch=queue.start().epoch)
    with pytest.raises(RacerError):
        check(queue, racers)
