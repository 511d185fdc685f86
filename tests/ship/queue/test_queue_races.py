"""Lost answers, refusals, silence, and others who come first: what an append makes of them."""

from __future__ import annotations

import pytest
from faulty_bucket import FaultyBucket

from quiver.errors import CapacityError, FencedError, RemoteError
from quiver.ship.objects import FolderBucket, UnclearError
from quiver.ship.queue import MANIFEST_KEY, PAGE, Batch, Item, NewEntry, Queue, QueueOptions, Span
from quiver.testing import ManualClock, MemoryDisk

STORE_ID = bytes(range(16))


class PassingClock(ManualClock):
    """Pauses pass at once, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.step(seconds)


@pytest.fixture
def bucket() -> FaultyBucket:
    return FaultyBucket("ingest")


@pytest.fixture
def clock() -> PassingClock:
    return PassingClock()


def queue_on(bucket, clock, **options) -> Queue:
    return Queue(bucket, options=QueueOptions(**options), clock=clock)


def new(number: int) -> NewEntry:
    return NewEntry(f"ingest/{number}.batch", (), Batch(1, 2))


def locations(bucket) -> list[str]:
    return [entry.location for entry in Queue(bucket).read().entries()]


@pytest.mark.parametrize("fault", ["lost", "repeated", "missed", "late", "refused"])
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("before", [0, 2])
def test_scenario_59_whatever_becomes_of_the_answer_there_is_one_entry(
    bucket, clock, fault, times, before
) -> None:
    queue = queue_on(bucket, clock)
    for number in range(before):
        queue.append(new(number))
    bucket.faults.extend([fault] * times)
    assert queue.append(new(before)) == [before]
    assert locations(bucket) == [new(number).location for number in range(before + 1)]
    assert queue.append(new(before + 1)) == [before + 1]


def test_scenario_60_a_store_that_refuses_for_ever_is_given_up(bucket, clock) -> None:
    queue = queue_on(bucket, clock)
    queue.append(new(0))
    bucket.faults.extend(["refused"] * 1000)
    with pytest.raises(RemoteError, match="refuses the change though") as found:
        queue.append(new(1))
    assert not isinstance(found.value, UnclearError)
    assert found.value.retryable
    assert bucket.calls.count("put_if") < 20
    assert len(clock.pauses) > 5
    bucket.faults.clear()
    assert locations(bucket) == [new(0).location]


def test_a_store_that_is_silent_is_given_up_and_nobody_knows(bucket, clock) -> None:
    queue = queue_on(bucket, clock)
    queue.append(new(0))
    bucket.faults.extend(["missed"] * 1000)
    with pytest.raises(UnclearError, match="nobody knows whether it was done"):
        queue.append(new(1))
    assert bucket.calls.count("put_if") < 20
    assert clock.pauses[-1] > 8 * clock.pauses[0]
    assert max(clock.pauses) <= 5


@pytest.mark.parametrize("before", [0, 1])
def test_a_folder_that_is_full_says_so_and_has_nothing_of_it(clock, before) -> None:
    act, fault = 0, None
    while fault is None or fault.hits:
        disk = MemoryDisk()
        bucket = FolderBucket("/queue", disk=disk, clock=clock)
        queue = queue_on(bucket, clock)
        for number in range(before):
            queue.append(new(number))
        fault = disk.fail(disk.act_count + act, error="ENOSPC")
        try:
            queue.append(new(before))
        except UnclearError as error:
            assert "after a power cut" in error.message  # noqa: PT017 It is seldom raised.
        except CapacityError:
            assert len(locations(bucket)) == before
            queue.append(new(before))
        disk.heal()
        assert locations(bucket) == [new(number).location for number in range(before + 1)]
        act += 1
    assert act > 4


@pytest.mark.parametrize("fault", ["lost", "missed"])
def test_behind_a_try_without_an_answer_a_full_store_does_not_say_what_became_of_it(
    bucket, clock, monkeypatch, fault
) -> None:
    queue = queue_on(bucket, clock)
    queue.append(new(0))
    put_if, calls = bucket.put_if, []

    def full(*values, **named):
        calls.append(values)
        if len(calls) > 1:
            raise CapacityError("no space left")
        return put_if(*values, **named)

    monkeypatch.setattr(bucket, "put_if", full)
    bucket.faults.append(fault)
    if fault == "missed":
        with pytest.raises(UnclearError, match="no space left"):
            queue.append(new(1))
    else:
        assert queue.append(new(1)) == [1]


@pytest.mark.parametrize("fault", ["lost", "missed", "late"])
def test_what_nobody_knew_of_may_be_appended_again_and_is_in_once(bucket, clock, fault) -> None:
    queue = queue_on(bucket, clock, retry_seconds=0)
    bucket.faults.append(fault)
    with pytest.raises(UnclearError):
        queue.append(new(0), new(1))
    bucket.arrive()
    there = len(locations(bucket))
    assert there == (0 if fault == "missed" else 2)
    assert queue.append(new(2)) == [there]
    expected = [1, 2, 3] if fault == "missed" else [0, 1, 3]
    assert queue.append(new(0), new(1), new(3)) == expected
    assert sorted(locations(bucket)) == [new(number).location for number in range(4)]


def test_what_was_appended_and_taken_before_the_answer_came_is_known_by_its_marks(
    bucket, clock
) -> None:
    queue, other = queue_on(bucket, clock), queue_on(bucket, clock)
    queue.append(new(0))
    epoch = other.start().epoch
    span = Span(STORE_ID, 0, 5, 9)

    def take_all() -> None:
        other.append(new(7))
        other.dequeue(other.read().next_sequence - 1, epoch=epoch)

    queue.read()
    bucket.faults.append("lost")
    entry = NewEntry("ingest/1.batch", (), Batch(1, 2), [span])
    original = bucket.get

    def get(key):
        bucket.get = original
        take_all()
        return original(key)

    bucket.get = get
    assert queue.append(entry) == [None]
    assert locations(bucket) == []
    assert queue.read().marks == {(STORE_ID, 0): 9}


def test_scenario_58_an_append_that_meets_a_new_consumer_and_a_dequeue_goes_in_behind(
    bucket, clock
) -> None:
    queue, other = queue_on(bucket, clock), queue_on(bucket, clock)
    queue.append(new(0), new(1))
    bucket.meanwhile.append(lambda: other.start(0))
    assert queue.append(new(2)) == [2]
    assert locations(bucket) == [new(1).location, new(2).location]
    assert other.read().epoch == 1
    bucket.meanwhile.append(lambda: other.append(new(3)))
    assert other.start().epoch == 2
    assert locations(bucket) == [new(n).location for n in (1, 2, 3)]


def test_a_dequeue_that_meets_a_new_consumer_is_fenced_and_removes_nothing(bucket, clock) -> None:
    one, two = queue_on(bucket, clock), queue_on(bucket, clock)
    one.append(new(0), new(1))
    epoch = one.start().epoch
    bucket.meanwhile.append(two.start)
    with pytest.raises(FencedError):
        one.dequeue(1, epoch=epoch)
    assert len(locations(bucket)) == 2


def test_what_was_last_seen_is_looked_at_again_before_anything_is_refused(bucket, clock) -> None:
    one, two = (queue_on(bucket, clock, entries_max=2) for _ in range(2))
    one.append(new(0), new(1))
    epoch = two.start(0).epoch
    assert one.append(new(2)) == [2]
    with pytest.raises(CapacityError):
        one.append(new(3))
    assert two.read(epoch=epoch).entry_count == 2
    newer = one.start().epoch
    assert one.dequeue(1, epoch=newer) == 1
    with pytest.raises(FencedError):
        two.dequeue(0, epoch=epoch)


def test_a_page_whose_entries_were_taken_meanwhile_is_not_named(bucket, clock) -> None:
    queue, other = queue_on(bucket, clock, page_entries=8), queue_on(bucket, clock)
    queue.append(*map(new, range(7)))
    epoch = other.start().epoch
    queue.read()
    bucket.meanwhile[:] = [lambda: other.dequeue(0, epoch=epoch), lambda: None]
    assert queue.append(new(7)) == [7]
    assert (queue.counters.pages, queue.counters.page_failures) == (0, 0)
    assert [e.sequence for e in other.read().entries()] == list(range(1, 8))
    assert [found.key.endswith(PAGE) for found in bucket.list("0")] == [True]


@pytest.mark.parametrize("fault", ["lost", "repeated", "missed", "late", "refused"])
def test_a_page_is_named_once_whatever_becomes_of_the_answer(bucket, clock, fault) -> None:
    queue = queue_on(bucket, clock, page_entries=8)
    queue.append(*map(new, range(7)))
    bucket.meanwhile.extend([lambda: bucket.faults.append(fault), lambda: None])
    bucket.faults.clear()
    assert queue.append(new(7)) == [7]
    assert locations(bucket) == [new(number).location for number in range(8)]
    assert (queue.counters.pages, len(queue.read().pages)) == (1, 1)


def test_a_page_that_cannot_be_put_costs_no_append(bucket, clock) -> None:
    queue = queue_on(bucket, clock, page_entries=8)
    queue.append(*map(new, range(7)))

    def put(key, data):
        raise RemoteError("no right to put", path=key)

    bucket.put = put
    assert queue.append(new(7)) == [7]
    assert (queue.counters.pages, queue.counters.page_failures) == (0, 1)
    del bucket.put
    assert queue.append(new(8)) == [8]
    assert queue.counters.pages == 1
    assert locations(bucket) == [new(number).location for number in range(9)]


@pytest.mark.parametrize("fault", ["missed", "lost"])
def test_if_nobody_can_look_whether_it_is_in_that_is_said(bucket, clock, fault) -> None:
    queue = queue_on(bucket, clock)
    queue.append(new(0))
    real = bucket.get

    def get(key):
        raise RemoteError("no right to read any more", path=key)

    bucket.get = get
    bucket.faults.append(fault)
    with pytest.raises(UnclearError, match="not find out whether it was done: no right to read"):
        queue.append(new(1))
    bucket.get = real
    assert queue.append(new(1)) == [1]
    assert locations(bucket) == [new(0).location, new(1).location]


def test_a_store_that_clearly_says_no_leaves_no_doubt(bucket, clock) -> None:
    def put_if(key, data, tag, **_):
        raise RemoteError("no right to write", path=key)

    bucket.put_if = put_if
    with pytest.raises(RemoteError, match="no right to write") as found:
        queue_on(bucket, clock).append(new(0))
    assert not isinstance(found.value, UnclearError)
    assert clock.pauses == []


def test_what_was_interrupted_may_be_appended_again(bucket, clock) -> None:
    queue = queue_on(bucket, clock)
    real = bucket.put_if

    def put_if(key, data, tag, **_):
        bucket.put_if = real
        real(key, data, tag)
        raise KeyboardInterrupt

    bucket.put_if = put_if
    with pytest.raises(KeyboardInterrupt):
        queue.append(new(0))
    assert queue.append(new(0)) == [0]
    assert locations(bucket) == [new(0).location]


def test_not_all_doubts_are_kept_for_ever(bucket, clock, monkeypatch) -> None:
    monkeypatch.setattr("quiver.ship.queue.queue._DOUBTS_MAX", 2)
    queue = queue_on(bucket, clock, retry_seconds=0)
    for number in range(4):
        bucket.faults.append("missed")
        with pytest.raises(UnclearError):
            queue.append(new(number))
    assert list(queue._doubts) == [new(2).location, new(3).location]


def test_entries_that_are_long_go_into_pages_though_they_are_few(bucket, clock) -> None:
    queue = queue_on(bucket, clock, page_bytes=4000)
    for number in range(40):
        items = [Item(n, 1, bytes(20)) for n in range(10)]
        queue.append(NewEntry(new(number).location, items, Batch(1, 2)))
        assert len(queue.read().manifest.area) < 4500
    assert locations(bucket) == [new(number).location for number in range(40)]


def test_one_error_that_no_retry_mends_is_raised_at_once(bucket, clock) -> None:
    def get(key):
        raise RemoteError("no right to read", path=key)

    bucket.get = get
    for act in (lambda: queue_on(bucket, clock).append(new(0)), queue_on(bucket, clock).read):
        with pytest.raises(RemoteError, match="no right to read"):
            act()
    assert clock.pauses == []


def test_reads_are_tried_again_and_given_up(bucket, clock) -> None:
    queue = queue_on(bucket, clock)
    queue.append(new(0))
    real, failures = bucket.get_if_changed, [3]

    def get_if_changed(key, tag):
        failures[0] -= 1
        if failures[0] >= 0:
            raise RemoteError("busy", path=key, retryable=True)
        return real(key, tag)

    bucket.get_if_changed = get_if_changed
    assert queue.read().entry_count == 1
    assert (queue.counters.faults, len(clock.pauses)) == (3, 3)
    failures[0] = 1000
    with pytest.raises(RemoteError, match="cannot read memory:ingest/manifest after 11 tries"):
        queue.read()


def test_nothing_is_transferred_for_what_is_as_it_was(bucket, clock) -> None:
    queue = queue_on(bucket, clock)
    queue.append(new(0))
    queue.read()
    assert bucket.calls == ["get", "put_if", "get_if_changed"]
    assert bucket.get(MANIFEST_KEY).data == queue.read().manifest.data
