"""A store and its model led through the same life, which Hypothesis makes up."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quiver.engine import Store
from quiver.engine import open as open_store
from quiver.errors import QuiverError
from quiver.segment import SegmentReader
from quiver.subscriber import BundleHandle
from quiver.testing import Loss, ManualClock, MemoryDisk, crash_images
from quiver.testing.acts import Act, Create, MakeDir, Write
from quiver.testing.file_tree import BLOCK
from quiver.testing.lives import TINY
from quiver.testing.rehearsal import SLOTS, bundle_of

from .store_model import Model

pytestmark = pytest.mark.filterwarnings("ignore:.*lost without an outcome:ResourceWarning")

EXAMPLES = int(os.environ.get("QUIVER_MODEL_EXAMPLES", "50"))
PROFILE = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    derandomize="QUIVER_MODEL_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    phases=[Phase.generate, Phase.shrink],
    print_blob=False,
)
HOUR_NS = 3600 * 10**9
IMAGES = 60
NAMES = st.sampled_from(["a", "b", "c"])
OUTCOMES = ["ack", "nack", "defer", "lose"]
WAITS = st.sampled_from([0, 1, 60])


def needs_room(act: Act) -> bool:
    return isinstance(act, Write | Create | MakeDir)


class StoreMachine(RuleBasedStateMachine):
    """One store on a disk in RAM, one user who does what comes, and the model of both."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.clock = ManualClock()
        self.model = Model()
        self.held: dict[str, list[BundleHandle]] = {}
        self.trouble = False
        """Whether the disk may refuse what it is asked for."""
        self.torn = False
        """Whether a power cut has left what no store can tell from damage."""
        self.unsure_names: set[str] = set()
        self.read: dict[tuple[str, int], list[int]] = {}
        self.store: Store = self._open()

    # opening and ending

    def _open(self) -> Store:
        return open_store(
            "model",
            slots=list(SLOTS),
            config=TINY,
            disk=self.disk,
            clock=self.clock,
            worker=False,
        )

    def _reopen(self, *, lossy: bool, torn: bool = False, most: int | None = None) -> None:
        """Open again; a disk in trouble may refuse it, and is healthy then."""
        self._let_go()
        self.torn |= torn
        try:
            self.store = self._open()
        except QuiverError:
            if not self.trouble:
                raise
            lossy = True  # A sync may have failed.
            self._heal()
            self.store = self._open()
        if self.store.recovery.damage and not self.torn:
            raise Loss(f"damage where there is none: {self.store.recovery.damage}")
        info = self.store.info()
        most = self.model.next if most is None else most
        lost = range(*self.store.recovery.lost_wal_seqs)
        if lost and not self.torn:
            raise Loss(f"numbers {lost} are lost where nothing was torn")
        self.model.reopened(info.next_wal_seq, lossy=lossy, torn=torn, most=most, lost=lost)
        for name in self.unsure_names:
            if name in info.subscribers:
                self.model.register(name)
            elif name in self.model.readers:
                self.model.unregister(name)
        self.unsure_names.clear()

    def _let_go(self) -> None:
        """Let the process die with all that it holds."""
        self.held.clear()
        if not self.store.closed:
            self.store._core.held.release()
            self.store._closed = True
        gc.collect(0)
        self.disk.forget_locks()

    def _heal(self) -> None:
        self.disk.heal()
        self.disk.capacity = None
        self.trouble = False

    def _try(self, act: Callable[[], Any], *, unsure: str = "") -> tuple[Any, bool]:
        """Do something; give what it gives and whether it was done.

        A healthy disk refuses nothing. A store that stopped is opened again.
        """
        try:
            return act(), True
        except QuiverError:
            if not self.trouble:
                raise
            if self.store.closed or self.store._core.broken is not None:
                self.unsure_names |= {unsure} - {""}
                self._reopen(lossy=True, most=self.model.next + 1)
            elif self.store.info().next_wal_seq != self.model.next:
                raise Loss("an append that was refused has been taken") from None
            return None, False

    # appending

    @rule(count=st.integers(1, 4), wait=st.booleans())
    def append(self, count: int, *, wait: bool) -> None:
        for _ in range(count):
            number = self.model.next
            receipt, done = self._try(lambda n=number: self.store.append(bundle_of(n), wait=False))
            if not done:
                return
            if receipt.wal_seq != number:
                raise Loss(f"bundle {number} is numbered {receipt.wal_seq}")
            self.model.next += 1
            if wait:
                if not self._try(receipt.wait)[1]:
                    return
                self.model.durable = self.model.next

    @rule()
    def flush(self) -> None:
        if self._try(self.store.flush)[1]:
            self.model.durable = self.model.next

    @rule()
    def finalize(self) -> None:
        info, done = self._try(self.store.finalize)
        if done and info is not None:
            self.model.durable = self.model.next
            if info.segment_seq <= self.model.segment_seq:
                raise Loss(f"segment_seq {info.segment_seq} is used twice")
            self.model.segment_seq = info.segment_seq

    @rule(count=st.integers(1, 4))
    def write_a_segment(self, count: int) -> None:
        self.append(count, wait=False)
        self.finalize()

    # reading

    @initialize(names=st.sets(NAMES, min_size=1), count=st.integers(0, 4))
    def begin(self, names: set[str], count: int) -> None:
        for name in sorted(names):
            self.subscribe(name)
        if count:
            self.write_a_segment(count)

    @rule(name=NAMES)
    def subscribe(self, name: str) -> None:
        _, done = self._try(lambda: self.store.subscribe(name), unsure=name)
        if done and name not in self.model.readers:
            self.model.register(name)
            self.model.sync_acks()

    @precondition(lambda self: self.model.readers)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        name = self._someone(data)
        if self._try(lambda: self.store.unsubscribe(name), unsure=name)[1]:
            self.model.unregister(name)
            self.model.sync_acks()
            self.held.pop(name, None)

    @precondition(lambda self: self.model.readers)
    @rule(data=st.data(), count=st.integers(1, 4), how=st.sampled_from([*OUTCOMES, "keep"]))
    def take(self, data: st.DataObject, count: int, how: str) -> None:
        name = self._someone(data)
        for _ in range(count):
            if not self._claim(name):
                return
            if how != "keep" and not self._resolve(name, self.held[name].pop(), how, wait=60):
                return

    def _claim(self, name: str) -> bool:
        """Take one bundle and keep its handle, which nothing else refers to then."""
        handle = self.store.subscribe(name).poll()
        self._look()
        now = self.clock.wall_ns()
        self.model.delivered(name, None if handle is None else handle.wal_seq, now)
        if handle is None:
            return False
        self.held.setdefault(name, []).append(handle)
        found = {slot: handle[slot].to_pylist() for slot in handle}
        expected = bundle_of(handle.wal_seq)
        if found != {slot: batch.to_pylist() for slot, batch in expected.items()}:
            raise Loss(f"{name} gets bundle {handle.wal_seq} as {found}")
        return True

    @precondition(lambda self: self.model.readers and not self.trouble)
    @rule()
    def all_catch_up(self) -> None:
        """Finish everything, so that segments are deleted."""
        for name in sorted(self.model.readers):
            while self._claim(name):
                self._resolve(name, self.held[name].pop(), "ack")
        self.maintain()

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), how=st.sampled_from(OUTCOMES), wait=WAITS)
    def resolve(self, data: st.DataObject, how: str, wait: int) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, held in self.held.items() if held)))
        place = data.draw(st.integers(0, len(self.held[name]) - 1))
        self._resolve(name, self.held[name].pop(place), how, wait=wait)

    def _resolve(self, name: str, handle: BundleHandle, how: str, *, wait: int = 0) -> bool:
        number = handle.wal_seq
        if how == "lose":
            self.model.given_back(name, number)
            return True
        reader = self.model.readers[name]
        reader.unsure.add(number)  # It may be written and the call fail all the same.
        act = (lambda: handle.nack(wait)) if how == "nack" else getattr(handle, how)
        if not self._try(act)[1]:
            self._give_up(name, handle)
            return False
        reader.unsure.discard(number)
        if how == "ack":
            self.model.acked(name, number)
        elif how == "nack":
            self.model.nacked(name, number, self.clock.wall_ns() + wait * 10**9)
        else:
            self.model.given_back(name, number)
        return True

    def _give_up(self, name: str, handle: BundleHandle) -> None:
        """Put back what a living store refused to write down."""
        reader = self.model.readers.get(name)
        if reader is not None and handle.wal_seq in reader.held:
            handle.defer()
            self.model.given_back(name, handle.wal_seq)
            reader.unsure.discard(handle.wal_seq)

    def _someone(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.model.readers)))

    # time

    @rule()
    def maintain(self) -> None:
        if self._try(self.store.maintain)[1]:
            self.model.tick()

    @rule(duration=st.sampled_from(["1ms", "1s", "1m", "1h", "back"]))
    def time_passes(self, duration: str) -> None:
        if duration == "back":
            self.clock.jump_to(self.clock.wall_ns() - HOUR_NS)
        else:
            self.clock.step(duration)

    # ends

    @rule(gently=st.booleans())
    def ends(self, *, gently: bool) -> None:
        if gently:
            self._close_and_open()
        else:
            self._reopen(lossy=bool(self.disk.given_up))

    def _close_and_open(self) -> None:
        try:
            self.store.close()
        except QuiverError:
            if not self.trouble:
                raise
            self._reopen(lossy=True)
        else:
            self.model.tick()
            self._reopen(lossy=False)

    @rule(data=st.data(), model=st.sampled_from(["posix", "journaled"]), seed=st.integers(0, 9))
    def power_cut(self, data: st.DataObject, model: str, seed: int) -> None:
        history = self.disk.history
        point = [len(history.ops)]
        images = list(crash_images(history, model=model, budget=IMAGES, seed=seed, points=point))
        image = images[data.draw(st.integers(0, len(images) - 1))]
        self._let_go()
        self.trouble = False
        self.disk = image.disk()
        self.read.clear()
        self._reopen(lossy=True, torn=image.torn_apart)

    # the disk

    @precondition(lambda self: not self.trouble)
    @rule(what=st.sampled_from(["full", "ENOSPC", "EIO"]), count=st.integers(0, 12))
    def the_disk_gets_into_trouble(self, what: str, count: int) -> None:
        self.trouble = True
        if what == "full":
            self.disk.capacity = self.disk.used() + count // 3 * BLOCK
        elif what == "ENOSPC":
            self.disk.fail(needs_room, error="ENOSPC", sticky=True)
        else:
            self.disk.fail(self.disk.act_count + count, error="EIO")

    @precondition(lambda self: self.trouble)
    @rule()
    def the_disk_is_mended(self) -> None:
        self._heal()

    # what is always so

    def _look(self) -> None:
        waiting = [b for part in self.store._core.waiting for b in part.bundles]
        self.model.finalized = waiting[0].wal_seq if waiting else self.model.next

    @invariant()
    def the_store_is_as_its_model(self) -> None:
        self._look()
        info = self.store.info()
        if info.next_wal_seq != self.model.next:
            raise Loss(f"{info.next_wal_seq} bundles are there, not {self.model.next}")
        if set(info.subscribers) != set(self.model.readers):
            raise Loss(f"{info.subscribers} are registered, not {sorted(self.model.readers)}")
        if info.next_segment_seq <= self.model.segment_seq:
            raise Loss(f"segment_seq {info.next_segment_seq} would be used twice")
        stored = [number for entry in self.store._core.catalog for number in self._numbers(entry)]
        if stored != sorted(set(stored)) or not set(stored) >= self.model.certain():
            raise Loss(f"segments hold {stored}, not {sorted(self.model.certain())}")

    def _numbers(self, info: Any) -> list[int]:
        key = info.path, info.file_bytes
        if key not in self.read:
            with SegmentReader.open(self.disk, info.path) as reader:
                entries = [reader.bundle_entry(index) for index in range(reader.bundle_count)]
            self.read[key] = [entry.wal_seq for entry in entries]
        return self.read[key]

    def teardown(self) -> None:
        """In the end every reader gets all that is left, also of a store that is opened afresh."""
        self._heal()
        if self.store.closed:
            return
        self.ends(gently=False)
        self.finalize()
        self.clock.step("1h")
        self.clock.step("1h")
        for name in self.model.readers:
            reader = self.store.subscribe(name)
            while (handle := reader.poll()) is not None:
                self._look()
                self.model.delivered(name, handle.wal_seq, self.clock.wall_ns())
                handle.ack()
                self.model.acked(name, handle.wal_seq)
            self.model.delivered(name, None, self.clock.wall_ns())
        self.store.close()


def test_a_store_does_what_its_model_says() -> None:
    run_state_machine_as_test(StoreMachine, settings=PROFILE)
