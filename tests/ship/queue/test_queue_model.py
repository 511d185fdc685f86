"""A queue under every mix of ours, of the other side, and of answers that get lost."""

from __future__ import annotations

import os

import pytest
from faulty_bucket import FaultyBucket
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from queue_kit import ForeignQueue

from quiver.errors import FencedError, MissingError, QuiverError
from quiver.ship.objects import Conflict, UnclearError
from quiver.ship.queue import (
    MANIFEST_KEY,
    Batch,
    Item,
    NewEntry,
    Queue,
    QueueOptions,
    Span,
)
from quiver.ship.queue import manifest as manifest_room
from quiver.ship.queue import queue as queue_room
from quiver.ship.queue.manifest import Manifest
from quiver.ship.queue.table import EMPTY
from quiver.testing import ManualClock

EXAMPLES = int(os.environ.get("QUIVER_MODEL_EXAMPLES", "60"))
STORE_ID = bytes(range(16))
FAULTS = st.lists(st.sampled_from(["lost", "repeated", "missed", "late", "refused"]), max_size=3)


class QueueMachine(RuleBasedStateMachine):
    """Two of ours append and take; somebody else does so too, as long as he can read it."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket = FaultyBucket("ingest")
        options = QueueOptions(page_entries=8)
        self.queues = [Queue(self.bucket, options=options, clock=ManualClock()) for _ in range(2)]
        self.racer = Queue(self.bucket, options=options, clock=ManualClock())
        self.waiting: list[tuple[int, str]] = []
        self.next = self.epoch = self.made = 0
        self.owner: tuple[Queue, int] | None = None
        self.marks: dict[tuple[bytes, int], int] = {}
        self.shipped = [0, 0, 0]
        self.holder = -1
        """The number of the entry that has the marks."""

    @precondition(lambda self: not self.bucket.meanwhile)
    @rule(dequeues=st.booleans(), later=st.booleans())
    def let_somebody_come_first(self, dequeues, later) -> None:
        """Just before the next put of anybody; a dequeue perhaps before the one after it."""
        self.bucket.meanwhile.append(self.dequeue_one if dequeues else self.append_one)
        if later and dequeues:
            self.bucket.meanwhile.append(lambda: None)

    def let_go_wrong(self, faults) -> None:
        """Not together with somebody who comes first: nobody could say whose entry is before."""
        if not self.bucket.meanwhile:
            self.bucket.faults.extend(faults)

    def append_one(self) -> None:
        new = NewEntry(self.location(), (), Batch(1, 2))
        assert self.racer.append(new) == [self.note(new.location)]
        self.holder = self.next - 1

    def dequeue_one(self) -> None:
        if self.owner and self.owner[1] == self.epoch and self.waiting:
            number, _ = self.waiting[0]
            self.racer.dequeue(number, epoch=self.epoch)
            self.take(number)

    def location(self) -> str:
        self.made += 1
        return f"ingest/{self.made}"

    def note(self, location: str) -> int:
        self.waiting.append((self.next, location))
        self.next += 1
        return self.next - 1

    def take(self, through: int) -> None:
        self.waiting = [entry for entry in self.waiting if entry[0] > through]
        if self.holder <= through:
            self.holder = self.next - 1

    @rule(who=st.integers(0, 1), count=st.integers(1, 5), faults=FAULTS)
    def append(self, who, count, faults) -> None:
        new = [NewEntry(self.location(), (Item(0, 1),), Batch(1, 2)) for _ in range(count)]
        self.let_go_wrong(faults)
        assert self.queues[who].append(*new) == [self.note(entry.location) for entry in new]
        self.holder = self.next - 1

    @rule(who=st.integers(0, 1), core=st.integers(0, 2), count=st.integers(1, 3), faults=FAULTS)
    def ship(self, who, core, count, faults) -> None:
        first = self.shipped[core]
        self.shipped[core] += count
        span = Span(STORE_ID, core, first, first + count - 1)
        new = NewEntry(self.location(), (), Batch(1, 2), [span])
        self.let_go_wrong(faults)
        assert self.queues[who].append(new) == [self.note(new.location)]
        self.marks[STORE_ID, core] = span.last
        self.holder = self.next - 1

    @precondition(lambda self: self.marks)
    @rule(who=st.integers(0, 1), data=st.data())
    def ship_again(self, who, data) -> None:
        (store_id, core), last = data.draw(st.sampled_from(sorted(self.marks.items())))
        new = NewEntry(self.location(), (), None, [Span(store_id, core, last, last)])
        assert self.queues[who].append(new) == [None]

    @rule(who=st.integers(0, 1), data=st.data(), faults=FAULTS)
    def start(self, who, data, faults) -> None:
        last = data.draw(st.none() | st.integers(0, self.next - 1)) if self.next else None
        self.let_go_wrong(faults)
        started = self.queues[who].start(last)
        if last is not None:
            self.take(last)
        assert started.epoch > self.epoch
        assert started.next_sequence == self.next
        self.owner, self.epoch = (self.queues[who], started.epoch), started.epoch

    @precondition(lambda self: self.owner and self.next)
    @rule(data=st.data(), faults=FAULTS)
    def dequeue(self, data, faults) -> None:
        through = data.draw(st.integers(0, self.next - 1))
        queue, epoch = self.owner
        gone = sum(number <= through for number, _ in self.waiting)
        if epoch == self.epoch:
            is_alone = not (faults or self.bucket.meanwhile)
            self.let_go_wrong(faults)
            assert queue.dequeue(through, epoch=epoch) in ([gone] if is_alone else range(gone + 1))
            self.take(through)
            return
        with pytest.raises(FencedError) as found:
            queue.dequeue(through, epoch=epoch)
        assert (found.value.epoch, found.value.current) == (epoch, self.epoch)

    def theirs(self) -> ForeignQueue | None:
        try:
            data = self.bucket.get(MANIFEST_KEY).data
        except MissingError:
            return ForeignQueue(None)
        return ForeignQueue(data) if data[-2] == 1 else None

    def put(self, theirs: ForeignQueue) -> None:
        self.bucket.put(MANIFEST_KEY, theirs.bytes())

    @rule(count=st.integers(1, 4))
    def they_append(self, count) -> None:
        if theirs := self.theirs():
            for _ in range(count):
                location = self.location()
                assert theirs.append(location, [(0, 5, b"theirs")]) == self.note(location)
            self.put(theirs)

    @precondition(lambda self: self.next)
    @rule(data=st.data())
    def they_dequeue(self, data) -> None:
        if theirs := self.theirs():
            through = data.draw(st.integers(0, self.next - 1))
            self.epoch = theirs.start()
            theirs.dequeue(through)
            self.put(theirs)
            self.waiting = [entry for entry in self.waiting if entry[0] > through]
            if self.holder <= through:  # Their dequeue takes the marks along.
                self.marks = {}

    @invariant()
    def what_is_read_is_what_waits(self) -> None:
        self.bucket.faults.clear()
        for queue in self.queues:
            view = queue.read()
            found = [(entry.sequence, entry.location) for entry in view.entries()]
            assert found == self.waiting
            assert (view.next_sequence, view.epoch) == (self.next, self.epoch)
            assert view.entry_count == len(found)
            assert view.marks == self.marks

    @invariant()
    def the_other_side_reads_it_too(self) -> None:
        if theirs := self.theirs():
            found = [(entry.sequence, entry.location) for entry in theirs.entries()]
            kept = [(e.sequence, e.location) for e in self.queues[0].read().entries(kept=True)]
            assert found == kept
            assert found[len(kept) - len(self.waiting) :] == self.waiting
            assert len(kept) - len(self.waiting) <= bool(self.marks)
            assert (theirs.next_sequence, theirs.epoch) == (self.next, self.epoch)


PROFILE = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    derandomize="QUIVER_MODEL_EXAMPLES" not in os.environ,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    print_blob=False,
)
TestQueueModel = QueueMachine.TestCase
TestQueueModel.settings = PROFILE


def never_found(*_, **__) -> dict[str, int]:
    return {}


def without_marks(manifest) -> tuple:
    return [manifest.area], 0


def gone_with_the_marks(manifest, gone) -> Manifest:
    footer = manifest.footer._replace(entry_count=manifest.footer.entry_count - len(gone))
    return manifest_room._made([manifest.area[gone[-1].end if gone else 0 :]], footer, EMPTY)


@pytest.mark.parametrize(
    "owner, name, defect",
    [
        (Queue, "_find", never_found),
        (Queue, "_check", lambda *_: None),
        (Manifest, "_plain_area", without_marks),
        (Manifest, "_without", gone_with_the_marks),
        (queue_room, "which_are_new", lambda _, entries: [True] * len(entries)),
    ],
)
def test_the_model_finds_a_defect_that_is_planted(monkeypatch, owner, name, defect) -> None:
    monkeypatch.setattr(owner, name, defect)
    with pytest.raises((AssertionError, QuiverError, pytest.fail.Exception)):
        run_state_machine_as_test(
            QueueMachine,
            settings=settings(
                PROFILE,
                max_examples=200,
                derandomize=True,
                phases=[Phase.generate],
                report_multiple_bugs=False,
            ),
        )


@pytest.mark.parametrize(
    "fault, is_in",
    [("lost", True), ("repeated", True), ("missed", False), ("late", True), ("refused", False)],
)
def test_the_store_of_this_test_does_what_its_faults_say(fault, is_in) -> None:
    bucket = FaultyBucket()
    bucket.faults.append(fault)
    kind = Conflict if fault in ("repeated", "refused") else UnclearError
    with pytest.raises(kind):
        bucket.put_if("x", b"x", None)
    bucket.arrive()
    assert [found.key for found in bucket.list("")] == ["x"] * is_in
