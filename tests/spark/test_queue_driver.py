"""The process of a streaming query that owns a queue's consuming end, asked without a JVM."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from spark_queue_kit import Depot, Machine, driver_of, log, taken

from quiver.errors import FencedError, InputError, SourceError
from quiver.ship.consumer import Consumer, DeadLetters
from quiver.ship.objects import MemoryBucket
from quiver.ship.queue import Queue
from quiver.source.stores import Limits
from quiver.spark.queue import acks
from quiver.spark.queue.offsets import decode_offset
from quiver.testing import ManualClock

STEPS_MAX = 20


@pytest.fixture
def depot() -> Depot:
    return Depot(MemoryBucket("queue"))


def latest(driver: Any, start: Any, *, is_limited: bool = True) -> Any:
    return driver.latest(start, is_limited=is_limited)


def test_a_batch_is_what_lies_between_two_offsets_and_the_same_again(depot: Depot) -> None:
    depot.logs(0, 1)
    depot.logs(2)
    driver = driver_of(depot.bucket)
    start = driver.initial()
    assert driver.initial() == start
    end = latest(driver, start)
    assert taken(driver, start, end) == [0, 1, 2]
    assert json.dumps(latest(driver, end)) == json.dumps(end)
    depot.logs(3)
    more = latest(driver, end)
    assert taken(driver, end, more) == [3]
    assert taken(driver_of(depot.bucket), start, end) == [0, 1, 2]
    assert depot.sequences == [0, 1, 2]


def test_offsets_are_the_same_text_whatever_order_they_are_made_in(depot: Depot) -> None:
    machines = [Machine() for _ in range(3)]
    for core in (2, 10, 1):
        depot.put(*(machine.segment(log(core), core=core) for machine in machines))
    driver = driver_of(depot.bucket)
    end = latest(driver, driver.initial())
    text = json.dumps(end)
    assert text == json.dumps(end, sort_keys=True)
    assert json.dumps(latest(driver, json.loads(text))) == text


@pytest.mark.parametrize(
    ("limits", "is_limited", "numbers"),
    [
        (Limits(), True, [0, 1, 2, 3, 4]),
        (Limits(segments_max=1), True, [0, 1]),
        (Limits(segments_max=3), True, [0, 1, 2]),
        (Limits(segments_max=3), False, [0, 1, 2, 3, 4]),
        (Limits(bytes_max=1), True, [0, 1]),
        (Limits(segments_max=9, bytes_max=64 << 20), True, [0, 1, 2]),
    ],
    ids=str,
)
def test_limits_hold_unless_all_is_asked_for(depot, limits, is_limited, numbers) -> None:
    machine = depot.machine
    depot.put(machine.segment(log(0)), machine.segment(log(1)))
    depot.logs(2)
    depot.logs(3, sized=False)  # Counts as 64 MiB.
    depot.logs(4)
    driver = driver_of(depot.bucket, limits=limits)
    start = driver.initial()
    assert taken(driver, start, latest(driver, start, is_limited=is_limited)) == numbers


def test_a_run_to_the_end_of_what_is_there_ends(depot: Depot) -> None:
    for number in range(4):
        depot.logs(number)
    driver = driver_of(depot.bucket, limits=Limits(segments_max=3))
    driver.aim()
    at = driver.initial()
    depot.logs(9)
    found: list[int] = []
    for _ in range(STEPS_MAX):
        end = latest(driver, at)
        if end == at:
            break
        found += taken(driver, at, end)
        at = end
    assert found == [0, 1, 2, 3]


def test_a_segment_that_comes_again_is_passed_over_also_when_the_first_is_gone(
    depot: Depot,
) -> None:
    one, two, three = (depot.machine.segment(log(number)) for number in (1, 2, 3))
    depot.put(one)
    depot.put(one, two)
    driver = driver_of(depot.bucket)
    start = driver.initial()
    first = latest(driver, start)
    assert taken(driver, start, first) == [1, 2]
    driver.commit(first)
    assert depot.sequences == []
    depot.put(two)
    depot.put(one, three, two)
    later = driver_of(depot.bucket)
    end = latest(later, first)
    assert taken(later, first, end) == [3]
    assert taken(driver_of(depot.bucket), first, end) == [3]


def test_two_cores_and_two_stores_are_told_apart(depot: Depot) -> None:
    other = Machine()
    depot.put(depot.machine.segment(log(1)), depot.machine.segment(log(2), core=1))
    depot.put(other.segment(log(3)))
    driver = driver_of(depot.bucket)
    start = driver.initial()
    end = latest(driver, start)
    assert taken(driver, start, end) == [1, 2, 3]
    offset = decode_offset(end, queue="memory:queue", slot="logs")
    own, others = depot.machine.store_id, other.store_id
    assert offset.seen == {f"{own}/core_0": 0, f"{own}/core_1": 0, f"{others}/core_0": 0}


def test_the_query_that_came_last_has_the_queue(depot: Depot) -> None:
    depot.logs(1)
    first = driver_of(depot.bucket)
    start = first.initial()
    end = latest(first, start)
    second = driver_of(depot.bucket)
    assert latest(second, start) == end
    for act in (
        lambda: latest(first, start),
        lambda: first.partitions(start, end),
        lambda: first.commit(end),
    ):
        with pytest.raises(FencedError, match="taken over memory:queue"):
            act()
    assert depot.sequences == [0]
    assert taken(second, start, end) == [1]
    second.commit(end)
    assert depot.sequences == []


def test_a_fence_is_seen_before_a_batch_is_planned_however_seldom_the_queue_is_asked(
    depot: Depot,
) -> None:
    depot.logs(1)
    first = driver_of(depot.bucket, poll_ns=10**12)
    start = first.initial()
    end = latest(first, start)
    driver_of(depot.bucket).initial()
    assert latest(first, start) == end
    with pytest.raises(FencedError):
        first.partitions(start, end)


def test_what_spark_has_not_said_is_not_acked(depot: Depot, monkeypatch) -> None:
    monkeypatch.setattr(acks, "sync_everything", lambda: None)
    depot.logs(1)
    first = driver_of(depot.bucket)
    start = first.initial()
    end = latest(first, start)
    depot.logs(2)
    again = driver_of(depot.bucket)
    more = latest(again, end)  # What is before the first batch of a process was committed.
    assert depot.sequences == [1]
    depot.logs(3)
    latest(again, more)
    assert depot.sequences == [1, 2]
    again.commit(more)
    assert depot.sequences == [2]


def test_who_consumes_sweeps_and_who_looks_does_not(depot: Depot) -> None:
    looker = driver_of(depot.bucket, consumes=False, sweeps=True)
    looker.initial()
    assert looker._sweeper is None
    owner = driver_of(depot.bucket, sweeps=True)
    owner.initial()
    assert owner._sweeper is not None
    for driver in (owner, looker):
        driver.close()
        driver.close()


def test_a_consumer_of_another_kind_fences_a_query_too(depot: Depot) -> None:
    depot.logs(1)
    driver = driver_of(depot.bucket)
    start = driver.initial()
    with Consumer.open(Queue(depot.bucket), sweep_interval=None), pytest.raises(FencedError):
        latest(driver, start)


def test_who_only_looks_fences_nobody_and_acks_nothing(depot: Depot) -> None:
    depot.logs(1)
    owner = driver_of(depot.bucket)
    start = owner.initial()
    looker = driver_of(depot.bucket, consumes=False)
    begin = looker.initial()
    end = latest(looker, begin)
    assert taken(looker, begin, end) == [1]
    looker.commit(end)
    assert depot.sequences == [0]
    assert latest(owner, start) == end
    owner.commit(end)
    assert depot.sequences == []
    with pytest.raises(SourceError, match="entry 0 of memory:queue went before"):
        taken(looker, begin, end)


def test_entries_that_went_are_an_error_or_passed_over(depot: Depot) -> None:
    for number in range(3):
        depot.logs(number)
    first = driver_of(depot.bucket)
    start = first.initial()
    queue = Queue(depot.bucket)
    queue.dequeue(1, epoch=queue.read().epoch)
    with pytest.raises(SourceError, match="entries 0 to 1 of memory:queue went"):
        latest(first, start)
    lenient = driver_of(depot.bucket, fails_on_loss=False)
    end = latest(lenient, start)
    assert taken(lenient, start, end) == [2]
    queue.dequeue(2, epoch=queue.read().epoch)
    assert taken(lenient, start, end) == []
    with pytest.raises(SourceError, match="entries 0 to 2"):
        driver_of(depot.bucket).partitions(start, end)


def test_another_queue_is_not_taken_from_who_has_it(depot: Depot) -> None:
    depot.logs(1)
    driver = driver_of(depot.bucket)
    end = latest(driver, driver.initial())
    fresh = Depot(MemoryBucket("queue"))
    fresh_driver = driver_of(fresh.bucket)
    with pytest.raises(SourceError, match="at entry 1 of memory:queue, and the next one there is"):
        latest(fresh_driver, end)
    with pytest.raises(InputError, match="of the queue memory:queue, and the query reads"):
        latest(driver_of(MemoryBucket("elsewhere")), end)
    assert fresh.queue.read().epoch == 0


def test_a_query_may_begin_with_what_comes(depot: Depot) -> None:
    depot.logs(1)
    driver = driver_of(depot.bucket, start="latest")
    start = driver.initial()
    assert latest(driver, start) == start
    depot.logs(2)
    assert taken(driver, start, latest(driver, start)) == [2]


def test_a_query_that_begins_with_a_time_keeps_to_it(depot: Depot) -> None:
    machine = depot.machine
    depot.logs(1)
    since = machine.clock.wall_ns() + 10**9
    with machine.opened() as store:
        store.append(log(2))
        machine.clock.step("1s")
        store.append(log(3))
        store.finalize()
    depot.put(machine.newest())
    driver = driver_of(depot.bucket, since_ns=since)
    start = driver.initial()
    end = latest(driver, start)
    assert taken(driver, start, end) == [3]
    later = driver_of(depot.bucket, since_ns=None)
    assert taken(later, start, end) == [3]
    assert start["since"] == end["since"] == since


def test_the_queue_is_asked_now_and_then_only(depot: Depot) -> None:
    depot.logs(1)
    clock = ManualClock()
    driver = driver_of(depot.bucket, clock=clock, poll_ns=10**9)
    at = latest(driver, driver.initial())
    depot.logs(2)
    assert latest(driver, at) == at
    clock.step("1s")
    assert latest(driver, at) != at


def test_progress_says_how_far_the_query_is_behind(depot: Depot) -> None:
    for number in range(3):
        depot.logs(number)
    driver = driver_of(depot.bucket, limits=Limits(segments_max=1))
    start = driver.initial()
    latest(driver, start)
    report = driver.report()
    sizes = [entry.batch.byte_count for entry in depot.queue.read().entries() if entry.batch]
    assert report["behind"] == {"batches": 2, "bytes": sum(sizes[1:])}
    assert report["sequence"] == 3
    json.dumps(report)


def test_a_dead_batch_ends_the_query_or_goes_to_the_dead_letters(depot: Depot) -> None:
    depot.logs(1)
    gone = depot.logs(2)
    damaged = depot.logs(3)
    depot.bucket.delete([gone])
    depot.bucket.put(damaged, bytes(depot.bucket.get(damaged).data)[:-9])
    driver = driver_of(depot.bucket)
    start = driver.initial()
    end = latest(driver, start)
    with pytest.raises(SourceError, match=f"entry 1 of memory:queue, queue/{gone}, is gone"):
        taken(driver, start, end)
    assert not list(DeadLetters(depot.bucket).list())
    lenient = driver_of(depot.bucket, fails_on_loss=False)
    assert taken(lenient, start, end) == [1]
    assert taken(lenient, start, end) == [1]
    assert [letter.sequence for letter in DeadLetters(depot.bucket).list()] == [1, 2]
    looker = driver_of(depot.bucket, fails_on_loss=False, consumes=False)
    other = depot.logs(4)
    depot.bucket.delete([other])
    assert taken(looker, end, latest(looker, end)) == []
    assert [letter.sequence for letter in DeadLetters(depot.bucket).list()] == [1, 2]


def test_a_task_of_a_query_that_was_fenced_makes_no_dead_letter(depot: Depot) -> None:
    key = depot.logs(1)
    driver = driver_of(depot.bucket, fails_on_loss=False)
    start = driver.initial()
    (share,) = driver.partitions(start, latest(driver, start))
    driver_of(depot.bucket).initial()
    depot.bucket.delete([key])
    with pytest.raises(FencedError):
        list(driver._query.recipe.read(share))
    assert not list(DeadLetters(depot.bucket).list())


def test_records_that_are_no_segments_end_the_query(depot: Depot) -> None:
    depot.logs(1)
    driver = driver_of(depot.bucket)
    at = latest(driver, driver.initial())
    depot.put((b"about", b"one"))
    with pytest.raises(InputError, match="entry 1 of memory:queue has records that are no"):
        latest(driver, at)


def test_pages_of_a_long_queue_are_read_as_well() -> None:
    from quiver.ship.queue import QueueOptions

    depot = Depot(MemoryBucket("queue"))
    depot.queue = Queue(depot.bucket, options=QueueOptions(page_entries=8))
    for number in range(30):
        depot.put(depot.machine.segment({"logs": pa.record_batch({"n": [number]})}))
    assert depot.queue.read().pages
    driver = driver_of(depot.bucket, limits=Limits(segments_max=7))
    start = at = driver.initial()
    found: list[int] = []
    for _ in range(STEPS_MAX):
        end = latest(driver, at)
        if end == at:
            break
        found += taken(driver, at, end)
        driver.commit(at)
        at = end
    assert found == list(range(30))
    assert start["sequence"] == 0
    assert driver.report()["behind"] == {"batches": 0, "bytes": 0}
