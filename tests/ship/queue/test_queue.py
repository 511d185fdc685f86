"""What a queue promises to those who append and to the one who takes, on a store in memory."""

from __future__ import annotations

import pytest

from quiver.errors import CapacityError, FencedError, InputError, MissingError
from quiver.ship.objects import MemoryBucket
from quiver.ship.queue import (
    MANIFEST_KEY,
    Batch,
    Item,
    NewEntry,
    Queue,
    QueueOptions,
    Span,
)
from quiver.testing import ManualClock

STORE = bytes(range(16))
ITEMS = (Item(0, 1_700_000_000_000, b"m"),)


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket("ingest")


def queue_on(bucket, **options) -> Queue:
    return Queue(bucket, options=QueueOptions(**options), clock=ManualClock())


def new(number: int, *spans: Span) -> NewEntry:
    return NewEntry(f"ingest/{number}.batch", ITEMS, Batch(100, number), spans)


def shipped(first: int, last: int | None = None, core: int = 0) -> NewEntry:
    return new(first + 1000 * core, Span(STORE, core, first, first if last is None else last))


def numbers(queue: Queue, after: int | None = None) -> list[int]:
    return [entry.sequence for entry in queue.read().entries(after)]


def test_appends_get_consecutive_numbers_and_are_read_in_order(bucket) -> None:
    queue = queue_on(bucket)
    assert queue.append(new(0)) == [0]
    assert queue.append(new(1), new(2)) == [1, 2]
    first, *_, last = queue.read().entries()
    assert (first.sequence, first.location, first.items, first.batch) == (0, *new(0)[:3])
    assert last == first._replace(sequence=2, location="ingest/2.batch", batch=Batch(100, 2))
    assert [e.sequence for e in queue.read().entries(0, limit=1)] == [1]


def test_an_append_to_what_was_just_written_reads_nothing(bucket) -> None:
    class Counting(MemoryBucket):
        gets = 0

        def get(self, key):
            self.gets += 1
            return super().get(key)

    counted = Counting()
    queue = queue_on(counted)
    for number in range(5):
        queue.append(new(number))
    assert counted.gets == 1


def test_two_who_append_in_turn_lose_and_double_nothing(bucket) -> None:
    queues = [queue_on(bucket), queue_on(bucket)]
    for number in range(10):
        assert queues[number % 2].append(new(number)) == [number]
    assert [e.location for e in queues[0].read().entries()] == [new(n).location for n in range(10)]
    assert queues[1].counters.conflicts > 0


def test_scenario_27_the_first_consumer_gets_epoch_1_and_the_next_one_2(bucket) -> None:
    assert queue_on(bucket).start() == (1, 0, 0)
    assert bucket.get(MANIFEST_KEY).data == bytes(12) + b"\1" + bytes(7) + b"\1\0"
    assert queue_on(bucket).start().epoch == 2


def test_scenario_28_whoever_was_before_is_fenced(bucket) -> None:
    one, two = queue_on(bucket), queue_on(bucket)
    one.append(new(0), new(1))
    old = one.start().epoch
    assert one.read(epoch=old).entry_count == 2
    assert two.start().epoch == 2
    for act in (lambda: one.read(epoch=old), lambda: one.dequeue(0, epoch=old)):
        with pytest.raises(FencedError) as found:
            act()
        assert (found.value.epoch, found.value.current) == (1, 2)
    assert numbers(one) == [0, 1]


def test_scenario_32_numbers_go_on_after_a_dequeue(bucket) -> None:
    queue = queue_on(bucket)
    queue.append(new(0), new(1))
    epoch = queue.start().epoch
    assert queue.dequeue(1, epoch=epoch) == 2
    assert numbers(queue) == []
    assert queue.append(new(2)) == [2]
    assert queue.dequeue(1, epoch=epoch) == 0


def test_a_consumer_goes_on_behind_what_it_has_stored(bucket) -> None:
    queue = queue_on(bucket)
    queue.append(*map(new, range(5)))
    assert queue_on(bucket).start(2) == (1, 5, 3)
    assert numbers(queue) == [3, 4]


@pytest.mark.parametrize("stored", [0, 3, 10])
def test_a_number_that_the_queue_never_gave_is_refused(bucket, stored) -> None:
    queue = queue_on(bucket)
    if stored:
        queue.append(*map(new, range(3)))
    with pytest.raises(InputError, match=f"entry {stored} is not in the queue yet"):
        queue.start(stored)
    assert queue.read().epoch == 0


def test_scenario_67_a_manifest_that_goes_away_in_use_is_noticed(bucket) -> None:
    one, two = queue_on(bucket), queue_on(bucket)
    one.append(new(0), new(1))
    epoch = two.start().epoch
    bucket.delete([MANIFEST_KEY])
    for act in (lambda: one.append(new(2)), one.read, lambda: two.dequeue(0, epoch=epoch)):
        with pytest.raises(MissingError, match="is gone"):
            act()
    queue_on(bucket).append(new(5))
    for act in (lambda: one.append(new(2)), two.read):
        with pytest.raises(MissingError, match="its next number is 1, it was 2"):
            act()
    assert [e.location for e in queue_on(bucket).read().entries()] == [new(5).location]


def test_marks_come_with_the_entry_and_what_they_say_is_left_out(bucket) -> None:
    queue = queue_on(bucket)
    assert queue.append(shipped(0, 3), shipped(7, core=2)) == [0, 1]
    assert queue.append(shipped(0, 3)) == [None]
    assert queue_on(bucket).append(shipped(2, 3), shipped(4, 9)) == [None, 2]
    assert queue.read().marks == {(STORE, 0): 9, (STORE, 2): 7}
    assert numbers(queue) == [0, 1, 2]


def test_half_of_what_the_queue_has_had_is_refused_whole(bucket) -> None:
    queue = queue_on(bucket)
    queue.append(shipped(0, 3))
    both = new(5, Span(STORE, 0, 2, 3), Span(STORE, 1, 0, 0))
    for bad in (shipped(3, 4), both, shipped(5, 4), shipped(6, 7)):
        with pytest.raises(InputError):
            queue.append(shipped(8), bad)
    assert queue.read().marks == {(STORE, 0): 3}
    assert numbers(queue) == [0]


def test_marks_outlive_what_is_dequeued_and_nobody_gets_it_again(bucket) -> None:
    queue = queue_on(bucket)
    queue.append(*map(shipped, range(4)))
    epoch = queue.start().epoch
    assert queue.dequeue(3, epoch=epoch) == 4
    assert queue.dequeue(3, epoch=epoch) == 0
    view = queue_on(bucket).read()
    assert (view.entry_count, list(view.entries()), view.marks) == (0, [], {(STORE, 0): 3})
    assert [e.sequence for e in view.entries(kept=True)] == [3]
    assert queue.append(shipped(3)) == [None]
    assert queue.append(shipped(4)) == [4]
    assert [e.sequence for e in queue.read().entries(kept=True)] == [4]
    assert queue.read().marks == {(STORE, 0): 4}


def test_pages_take_the_oldest_and_give_them_back_in_order(bucket) -> None:
    queue = queue_on(bucket, page_entries=16)
    for number in range(100):
        assert queue.append(shipped(number)) == [number]
    view = queue.read()
    assert len(view.pages) == 8
    assert view.manifest.footer.version == 2
    assert numbers(queue) == list(range(100))
    assert numbers(queue, 40) == list(range(41, 100))
    epoch = queue.start(20).epoch
    assert numbers(queue) == list(range(21, 100))
    assert queue.dequeue(94, epoch=epoch) == 74
    assert queue.read().entry_count == 5
    assert queue.dequeue(97, epoch=epoch) == 3
    assert (queue.read().pages, queue.read().manifest.footer.version) == ((), 1)
    assert queue.dequeue(99, epoch=epoch) == 2
    assert queue.read().marks == {(STORE, 0): 99}


def test_pages_can_be_turned_off(bucket) -> None:
    queue = queue_on(bucket, page_entries=0, page_bytes=8)
    queue.append(*map(new, range(100)))
    queue.append(new(100))
    assert (queue.read().pages, queue.read().manifest.footer.version) == ((), 1)


def test_a_queue_that_is_full_takes_nothing(bucket) -> None:
    queue = queue_on(bucket, entries_max=3, bytes_max=350)
    queue.append(new(0), new(1))
    with pytest.raises(CapacityError, match="4 entries would wait"):
        queue.append(new(2), new(3))
    assert queue.append(NewEntry("big", (), Batch(150, 0))) == [2]
    epoch = queue.start(0).epoch
    with pytest.raises(CapacityError, match="351 bytes would wait"):
        queue.append(NewEntry("bigger", (), Batch(101, 0)))
    queue.dequeue(1, epoch=epoch)
    assert queue.append(NewEntry("bigger", (), Batch(101, 0))) == [3]


@pytest.mark.parametrize("bad", [[], [new(1), new(1)]])
def test_an_append_of_nothing_or_of_one_place_twice_is_refused(bucket, bad) -> None:
    with pytest.raises(InputError):
        queue_on(bucket).append(*bad)


@pytest.mark.parametrize(
    "bad",
    [
        {"entries_max": 0},
        {"bytes_max": -1},
        {"page_entries": 7},
        {"page_entries": -1},
        {"page_bytes": 1},
        {"retry_seconds": -1},
    ],
)
def test_options_that_make_no_sense_are_refused(bad) -> None:
    with pytest.raises(InputError):
        QueueOptions(**bad)
