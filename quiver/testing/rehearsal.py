"""A real store driven step by step, with a mark for everything that it promises.

=================  ============================================================================
mark               what the store has promised from then on
=================  ============================================================================
``sent``           nothing yet; the bundle of this number may be there or not
``acknowledged``   the bundle and all before it survive a power cut
``skipped``        bundles ``first`` to below ``end`` are never there: damage took their numbers
``finalized``      this segment_seq was given out and is never given out again
``registering``    nothing yet; the subscriber may be there or not
``registered``     the subscriber gets every bundle that is not deleted yet, and all to come
``leaving``        nothing more to this subscriber, who may be there or not
``left``           the subscriber is not there any more
``acked``          the subscriber may have the bundle no more; it is said before the ack
``settled``        the subscriber does not get these bundles again, whatever happens
``rejecting``      the subscriber may have the bundle no more once a copy is there
``rejected``       a copy of the bundle is among the dead letters
``dropping``       of a source that is followed, these may be read once more
``begins``         a life, in a place where others may have been: it reads from no source so far
``follows``        each bundle is read from a source, and its state is there when it is
=================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast
from unittest import mock

import pyarrow as pa

from quiver.config import Config
from quiver.consumer import subscribe
from quiver.disk import Disk
from quiver.engine import Follower, Store
from quiver.engine import open as open_store
from quiver.engine.outgoing import write_waiting
from quiver.engine.scribe import look_ahead
from quiver.errors import QuiverError
from quiver.manifest import StoreManifest
from quiver.segment import SegmentReader
from quiver.segment.format import segment_name
from quiver.subscriber import BundleRun
from quiver.testing.manual_clock import ManualClock
from quiver.testing.meanwhile import BusyStage
from quiver.testing.subject import Loss, Stage

__all__ = ["SLOTS", "SOURCE", "SPLITS", "Rehearsal", "bundle_of"]

SLOTS = ("events", "notes")
SOURCE = "source"
SPLITS = ("s0", "s1", "s2")
"""Bundle n is read from the n-th, modulo their number, and its state is n."""


@lru_cache(maxsize=1024)
def bundle_of(number: int) -> dict[str, pa.RecordBatch]:
    """Make the bundle that is appended as number ``number``: values and slots follow from it."""
    events = pa.record_batch({"n": pa.array([number, number + 1, None], pa.int32())})
    if number % 3 == 0:
        return {"events": events}
    words = pa.array([f"w{number % 5}", "x"]).dictionary_encode()
    return {"events": events, "notes": pa.record_batch({"w": words})}


@contextmanager
def _known_ids() -> Iterator[None]:
    """Let a new store have an id that is no lot, so that equal lives leave equal bytes."""
    with mock.patch.object(StoreManifest, "new", lambda slots: StoreManifest("0" * 32, slots)):
        yield


def numbers_of(run: BundleRun, disk: Disk) -> list[int]:
    """Look up the numbers of the bundles of a run, past the store."""
    path = f"core_0/segments/{segment_name(run.segment_seq)}"
    with SegmentReader.open(disk, path) as reader:
        inside = range(run.bundle_first, run.bundle_first + len(run))
        return [reader.bundle_entry(index).wal_seq or 0 for index in inside]


@dataclass
class Rehearsal:
    """A store on a stage, driven step by step."""

    stage: Stage
    config: Config | Mapping[str, Any] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    sent: int = 0
    durable: int = 0
    """How many bundles the store has promised to keep, over a power cut."""
    unsettled: dict[str, list[int]] = field(default_factory=dict)
    """Bundles of each subscriber whose ack was taken and may still be lost."""
    follower: Follower | None = None
    """Who reads the source, if bundles are from one."""
    lets_wait: bool = False
    """Whether the entries of appends that are not waited for wait, though there is no worker."""
    store: Store = field(init=False)
    busy: BusyStage = field(init=False)

    def __post_init__(self) -> None:
        """Open the store."""
        self.busy = BusyStage(self.stage)
        self.stage.mark("begins")
        self.open()

    def open(self) -> None:
        """Open the store, or open it again after ``close`` or ``crash``.

        What it shows then is there for good: who feeds it goes on behind that.
        """
        self.busy.is_locked = lambda: True
        with _known_ids():
            self.store = open_store(
                "stage",
                slots=list(SLOTS),
                config=self.config,
                disk=cast("Stage", self.busy),
                clock=self.clock,
                worker=False,
            )
        self.busy.is_locked = self.store._core.lock._is_owned  # type: ignore[attr-defined]
        self.store._core.outgoing.enabled = self.lets_wait
        there = self.store.info().next_wal_seq
        first, end = self.store.recovery.lost_wal_seqs
        if first < end:
            self.stage.mark("skipped", first=first, end=end)
        if there < self.durable:
            raise Loss(f"{self.durable} bundles were acknowledged, {there} are there")
        self.sent = there
        self._acknowledge()
        if self.follower is not None:
            self.follow()

    def let_wait(self) -> None:
        """From now on leave the write of what is not waited for to others, for good."""
        self.lets_wait = self.store._core.outgoing.enabled = True

    def write_some(self) -> None:
        """Write what waits, as a worker does; nothing is acknowledged by that."""
        write_waiting(self.store._core)

    def follow(self) -> None:
        """From now on read each bundle from a source; before the first one, and for good."""
        self.stage.mark("follows")
        self.follower = self.store.follow(SOURCE)

    def register(self, *subscribers: str) -> None:
        """Register subscribers."""
        for name in subscribers:
            if name not in self.store.info().subscribers:
                self.stage.mark("registering", subscriber=name)
            self.store.subscribe(name)
            self.stage.mark("registered", subscriber=name)

    def unregister(self, subscriber: str) -> None:
        """Let a subscriber go."""
        self.stage.mark("leaving", subscriber=subscriber)
        self.unsettled.pop(subscriber, None)
        self.store.unsubscribe(subscriber)
        self.stage.mark("left", subscriber=subscriber)

    def look_ahead(self) -> None:
        """Prepare what is open, as the scribe does now and then in a store with a worker."""
        look_ahead(self.store._core)

    def append(self, count: int = 1, *, wait: bool = True) -> None:
        """Append the next bundles, and note each that was acknowledged.

        Of those that are waited for, every other one is by its receipt.
        """
        for _ in range(count):
            number = self.sent
            self.stage.mark("sent", number=number)
            self.sent = number + 1
            progress = None
            if self.follower is not None:
                progress = self.follower.at({SPLITS[number % len(SPLITS)]: str(number)})
            if wait and number % 2:
                self.store.append(bundle_of(number), progress=progress)
            else:
                receipt = self.store.append(bundle_of(number), wait=False, progress=progress)
                if wait:
                    receipt.wait()
            if wait and self.store.info().durability == "sync":
                self._acknowledge()

    def flush(self) -> None:
        """Sync, and note that everything sent so far is acknowledged."""
        self.store.flush()
        self._acknowledge()

    def finalize(self) -> None:
        """Finalize, and note the segment's number; what is sent meanwhile is not in it."""
        sent = self.sent
        info = self.store.finalize()
        if info is not None:
            self.stage.mark("finalized", segment_seq=info.segment_seq)
            self._acknowledge(sent)

    @contextmanager
    def meanwhile(self, act: Callable[[int], None]) -> Iterator[None]:
        """Do something at each moment in which a segment is written inside; it may be refused."""

        def survive(moment: int) -> None:
            try:
                # Before the bundle that is just being appended is taken, no other may be.
                if self.store.info().next_wal_seq == self.sent:
                    act(moment)
            except QuiverError:
                # A store that gave up is opened again by whoever wanted the segment.
                if not self.store.closed and self.store._core.broken is None:
                    self.sent = self.store.info().next_wal_seq

        self.busy.meanwhile = survive
        try:
            yield
        finally:
            self.busy.meanwhile = None

    @contextmanager
    def refusing(self, moment: int) -> Iterator[None]:
        """Let the disk refuse to go on with the next segment at this moment, before its sync."""
        self.busy.refused = moment
        try:
            yield
        finally:
            self.busy.refused = None

    def take(self, subscriber: str, count: int = 1_000_000, *, nack: bool = False) -> None:
        """Take and resolve bundles as a subscriber, and note each ack."""
        self.register(subscriber)
        subscription = self.store.subscribe(subscriber)
        for _ in range(count):
            handle = subscription.poll()
            if handle is None:
                return
            if nack:
                handle.nack()
                continue
            # The intention counts: an ack may be on the disk before the call returns.
            self.stage.mark("acked", subscriber=subscriber, number=handle.wal_seq)
            handle.ack()
            self.unsettled.setdefault(subscriber, []).append(handle.wal_seq or 0)

    def take_runs(self, subscriber: str, limit: int) -> None:
        """Take all there is as runs of up to ``limit`` bundles, and note each ack."""
        self.register(subscriber)
        subscription = self.store.subscribe(subscriber)
        while (run := subscription.poll_run(limit)) is not None:
            numbers = numbers_of(run, self.stage)
            for number in numbers:
                self.stage.mark("acked", subscriber=subscriber, number=number)
            run.ack()
            self.unsettled.setdefault(subscriber, []).extend(numbers)

    def reject(self, subscriber: str) -> None:
        """Let a subscriber give up its next bundle, and note that a copy is there."""
        self.register(subscriber)
        handle = self.store.subscribe(subscriber).poll()
        if handle is None:
            return
        number = handle.wal_seq or 0
        self.stage.mark("rejecting", subscriber=subscriber, number=number)
        handle.reject("never")
        self.stage.mark("rejected", number=number)
        self.unsettled.setdefault(subscriber, []).append(number)

    def reset(self, subscriber: str) -> None:
        """Let a subscriber start over with all that is still there."""
        self.stage.mark("leaving", subscriber=subscriber)
        self.unsettled.pop(subscriber, None)
        self.stage.mark("registering", subscriber=subscriber)
        self.store.reset(subscriber)
        self.stage.mark("registered", subscriber=subscriber)

    def beside(self, subscriber: str, count: int = 1_000_000, *, commit: bool = True) -> None:
        """Take and ack bundles in what could be another process, which may die before a commit."""
        self.stage.mark("registering", subscriber=subscriber)
        disk = cast("Stage", self.busy)
        consumer = subscribe("stage", subscriber, disk=disk, clock=self.clock, worker=False)
        self.stage.mark("registered", subscriber=subscriber)
        numbers = []
        for _ in range(count):
            handle = consumer.poll()
            if handle is None:
                break
            numbers.append(handle.wal_seq or 0)
            self.stage.mark("acked", subscriber=subscriber, number=numbers[-1])
            handle.ack()
        if commit:
            consumer.commit()
            self.stage.mark("settled", subscriber=subscriber, numbers=tuple(numbers))

    def maintain(self) -> None:
        """Let the store do its upkeep, and note all that is durable then."""
        self.store.maintain()
        self._settle()
        if self.store.info().durability != "segment":
            self._acknowledge()

    def close(self) -> None:
        """Close the store, and note that everything is durable then."""
        self.store.close()
        self._settle()
        self._acknowledge()

    def crash(self) -> None:
        """Forget the process: the lock is free again, and nothing is tidied up."""
        self.unsettled.clear()
        self.store._core.progress.let_go()
        self.store._core.held.release()
        self.store._closed = True

    def survive(self, act: Callable[[], None]) -> None:
        """Do something that the disk may refuse; a store that gives up is opened again."""
        try:
            act()
        except QuiverError:
            if self.store.closed or self.store._core.broken is not None:
                self.crash()
                self.open()
            self.sent = self.store.info().next_wal_seq

    def _acknowledge(self, sent: int | None = None) -> None:
        sent = self.sent if sent is None else sent
        if self.durable < sent:
            self.durable = sent
            self.stage.mark("acknowledged", number=sent - 1)

    def _settle(self) -> None:
        for subscriber, numbers in self.unsettled.items():
            self.stage.mark("settled", subscriber=subscriber, numbers=tuple(numbers))
        self.unsettled.clear()
