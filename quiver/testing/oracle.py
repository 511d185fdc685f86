"""Run a store on a recording disk, and judge what a crash left of it from outside.

A ``Rehearsal`` drives a real store on a ``MemoryDisk`` and notes with marks what it was told: this
append was acknowledged, that subscriber acked. ``judge`` opens an image of the disk after a crash
and compares what is there with what the marks promise:

1. opening succeeds, and a second time with the same result;
2. each acknowledged bundle is in exactly one segment, once, equal and in order, or every
   subscriber had acked it;
3. nothing else is there but bundles that were on their way, and none before them is missing;
4. what a subscriber has not acked is delivered to it;
5. numbers go on above all that were ever given out;
6. appends work and survive the next opening;
7. no unfinished file is left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from quiver.disk import TEMPORARY, Disk
from quiver.engine import Store
from quiver.engine import open as open_store
from quiver.errors import QuiverError
from quiver.segment import SegmentReader, parse_segment_name
from quiver.testing.acts import Mark
from quiver.testing.crash_images import Image
from quiver.testing.manual_clock import ManualClock
from quiver.testing.memory_disk import MemoryDisk

__all__ = ["SLOTS", "Loss", "Rehearsal", "bundle_of", "judge"]

SLOTS = ("events", "notes")


class Loss(AssertionError):
    """A promise was broken; the message says which and where."""


def bundle_of(number: int) -> dict[str, pa.RecordBatch]:
    """Make the bundle that is appended as number ``number``: values and slots follow from it."""
    events = pa.record_batch({"n": pa.array([number, number + 1, None], pa.int32())})
    if number % 3 == 0:
        return {"events": events}
    words = pa.array([f"w{number % 5}", "x"]).dictionary_encode()
    return {"events": events, "notes": pa.record_batch({"w": words})}


@dataclass
class Rehearsal:
    """A store on a recording disk, driven step by step."""

    config: Mapping[str, Any] = field(default_factory=dict)
    subscribers: tuple[str, ...] = ()
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    clock: ManualClock = field(default_factory=ManualClock)
    sent: int = 0
    store: Store = field(init=False)

    def __post_init__(self) -> None:
        """Open the store and register the subscribers."""
        self.open()
        for name in self.subscribers:
            self.store.subscribe(name)
            self.disk.mark("registered", subscriber=name)

    def open(self) -> None:
        """Open the store, or open it again."""
        self.store = open_store(
            "memory",
            slots=list(SLOTS),
            config=self.config,
            disk=self.disk,
            clock=self.clock,
            worker=False,
        )

    def append(self, count: int = 1, *, wait: bool = True) -> None:
        """Append the next bundles, and note each that was acknowledged."""
        for _ in range(count):
            number = self.sent
            self.disk.mark("sent", number=number)
            self.sent += 1
            receipt = self.store.append(bundle_of(number), wait=False)
            if wait:
                receipt.wait()
                self.disk.mark("acknowledged", number=number)

    def flush(self) -> None:
        """Sync, and note that everything sent so far is acknowledged."""
        self.store.flush()
        for number in range(self.sent):
            self.disk.mark("acknowledged", number=number)

    def finalize(self) -> None:
        """Finalize, and note the segment's number."""
        info = self.store.finalize()
        if info is not None:
            self.disk.mark("finalized", segment_seq=info.segment_seq)

    def take(self, subscriber: str, count: int = 1_000_000, *, nack: bool = False) -> None:
        """Take and resolve bundles as a subscriber, and note each ack."""
        subscription = self.store.subscribe(subscriber)
        for _ in range(count):
            handle = subscription.poll()
            if handle is None:
                return
            if nack:
                handle.nack()
                continue
            # The intention counts: an ack may be on the disk before the call returns.
            self.disk.mark("acked", subscriber=subscriber, number=handle.wal_seq)
            handle.ack()

    def crash(self) -> None:
        """Forget the process: the lock is free again, and nothing is tidied up."""
        self.disk.forget_locks()


def judge(
    image: Image, config: Mapping[str, Any], *, marks: tuple[Mark, ...] | None = None
) -> MemoryDisk:
    """Raise Loss unless the image keeps every promise; give the disk that was recovered on.

    The disk's history is that of the first opening alone, so that a crash inside the recovery can
    be enumerated from it; its images are judged by the ``marks`` of the life before.
    """
    first = image.disk()
    once = _state(_open(first, config))
    again = MemoryDisk(first.tree)
    rehearsal = _open(again, config)
    twice = _state(rehearsal)
    if once != twice:
        raise Loss(f"a second opening finds something else: {once}, then {twice}")
    promised = _Promises.of(image.marks if marks is None else marks)
    if rehearsal.store.recovery.damage and image.torn is None and promised.in_flight <= 1:
        raise Loss(f"a crash was taken for damage: {rehearsal.store.recovery.damage}")
    _judge_contents(rehearsal, promised)
    _judge_deliveries(rehearsal, promised)
    _judge_numbers(rehearsal, promised)
    _judge_appends(rehearsal, again, config)
    return first


@dataclass(slots=True)
class _Promises:
    sent: int
    acknowledged: set[int]
    finalized: int
    acked: dict[str, set[int]]

    @classmethod
    def of(cls, marks: tuple[Mark, ...]) -> _Promises:
        promised = cls(0, set(), -1, {})
        for mark in marks:
            if mark.label == "sent":
                promised.sent = max(promised.sent, _int(mark["number"]) + 1)
            elif mark.label == "acknowledged":
                promised.acknowledged.add(_int(mark["number"]))
            elif mark.label == "finalized":
                promised.finalized = max(promised.finalized, _int(mark["segment_seq"]))
            elif mark.label == "registered":
                promised.acked.setdefault(str(mark["subscriber"]), set())
            elif mark.label == "acked":
                promised.acked[str(mark["subscriber"])].add(_int(mark["number"]))
        return promised

    @property
    def in_flight(self) -> int:
        """How many bundles were sent and not acknowledged: their bytes may come in any order."""
        return self.sent - len(self.acknowledged)

    def deletable(self) -> set[int]:
        """Bundles that every subscriber acked, so that they may be gone."""
        return set.intersection(*self.acked.values()) if self.acked else set()


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(value)
    return value


def _open(disk: MemoryDisk, config: Mapping[str, Any]) -> Rehearsal:
    try:
        return Rehearsal(config=config, disk=disk)
    except Exception as error:
        raise Loss(f"opening failed: {type(error).__name__}: {error}") from error


def _state(rehearsal: Rehearsal) -> tuple[object, ...]:
    info = rehearsal.store.info()
    return (
        info.next_wal_seq,
        info.next_segment_seq,
        info.open_bundles,
        info.segments,
        info.subscribers,
    )


def _bundles(disk: Disk) -> Iterator[tuple[int, int, dict[str, pa.RecordBatch]]]:
    """Read every bundle of every segment, past the store: (segment_seq, wal_seq, batches)."""
    for entry in disk.list_dir("core_0/segments"):
        if entry.name.endswith(TEMPORARY):
            raise Loss(f"an unfinished file is left: {entry.name}")
        segment_seq = parse_segment_name(entry.name)
        with SegmentReader.open(disk, f"core_0/segments/{entry.name}") as reader:
            reader.verify()
            for index in range(reader.bundle_count):
                wal_seq = reader.bundle_entry(index).wal_seq
                batches = reader.bundle(index)
                named = {SLOTS[slot]: batch for slot, batch in batches.items()}
                yield _int(segment_seq), _int(wal_seq), named


def _judge_contents(rehearsal: Rehearsal, promised: _Promises) -> None:
    rehearsal.store.finalize()
    found: list[int] = []
    try:
        bundles = list(_bundles(rehearsal.disk))
    except QuiverError as error:
        raise Loss(f"a segment cannot be read: {error}") from error
    for _, number, batches in bundles:
        expected = bundle_of(number)
        for name in expected.keys() | batches.keys():
            if name not in batches or name not in expected:
                raise Loss(f"bundle {number} has other slots: {sorted(batches)}")
            if batches[name].to_pylist() != expected[name].to_pylist():
                raise Loss(f"bundle {number} has other values in {name}")
        found.append(number)
    if found != sorted(set(found)):
        raise Loss(f"bundles are doubled or out of order: {found}")
    lost = promised.acknowledged - set(found) - promised.deletable()
    if lost:
        raise Loss(f"acknowledged bundles are lost: {sorted(lost)}")
    invented = set(found) - set(range(promised.sent))
    if invented:
        raise Loss(f"bundles that nobody sent: {sorted(invented)}")
    missing = set(range(max(found, default=-1) + 1)) - set(found) - promised.deletable()
    if missing and promised.in_flight <= 1:
        raise Loss(f"the survivors are no prefix: {sorted(missing)} are missing")


def _judge_deliveries(rehearsal: Rehearsal, promised: _Promises) -> None:
    for name, acked in promised.acked.items():
        if name not in rehearsal.store.info().subscribers:
            raise Loss(f"subscriber {name} is forgotten")
        rehearsal.clock.step("1h")
        subscription = rehearsal.store.subscribe(name)
        delivered = set()
        while (handle := subscription.poll()) is not None:
            delivered.add(handle.wal_seq)
            handle.ack()
        withheld = promised.acknowledged - acked - delivered
        if withheld:
            raise Loss(f"{name} never gets bundles {sorted(withheld)}")


def _judge_numbers(rehearsal: Rehearsal, promised: _Promises) -> None:
    info = rehearsal.store.info()
    if info.next_wal_seq <= max(promised.acknowledged, default=-1):
        raise Loss(f"wal_seq {info.next_wal_seq} would be used twice")
    if info.next_segment_seq <= promised.finalized:
        raise Loss(f"segment_seq {info.next_segment_seq} would be used twice")


def _judge_appends(rehearsal: Rehearsal, disk: MemoryDisk, config: Mapping[str, Any]) -> None:
    number = rehearsal.store.info().next_wal_seq
    rehearsal.store.append(bundle_of(number))
    rehearsal.crash()
    last = _open(MemoryDisk(disk.tree), config)
    last.store.finalize()
    if number not in {wal_seq for _, wal_seq, _ in _bundles(last.disk)}:
        raise Loss(f"bundle {number}, appended after the recovery, is lost")
    for folder in ("", "core_0", "core_0/wal", "core_0/acks", "core_0/segments"):
        litter = [e.name for e in last.disk.list_dir(folder) if e.name.endswith(TEMPORARY)]
        if litter:
            raise Loss(f"unfinished files are left in {folder}: {litter}")
