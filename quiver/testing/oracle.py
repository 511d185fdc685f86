"""Judge, from outside, what a crash left of a Quiver store.

What a ``Rehearsal`` marked is summed up as ``Facts``, and an image of the disk is held to them:

1. opening succeeds; no crash is taken for damage;
2. opening once more finds the same and leaves the same bytes: nothing grows with each crash;
3. each acknowledged bundle is in exactly one segment, equal and in order, or every subscriber had
   acked it;
4. nothing else is there but bundles that were on their way, and none before them is missing;
5. what a subscriber has not acked is delivered to it, in order, and what it is known to have acked
   is not; who left does not come back;
6. numbers go on above all that were ever promised;
7. appends work and survive the next opening;
8. no unfinished file is left over, and no end of a log that an opening has to cut once more;
9. the progress of a source says what is there, neither more nor less.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from quiver.disk import TEMPORARY, Disk
from quiver.errors import QuiverError
from quiver.segment import SegmentReader, parse_segment_name
from quiver.testing.acts import Mark
from quiver.testing.facts import Facts, Known
from quiver.testing.lives import LIVES, config_of, lead
from quiver.testing.lots import Names
from quiver.testing.memory_disk import MemoryDisk
from quiver.testing.progress import judge_progress, progress_of
from quiver.testing.rehearsal import SLOTS, Rehearsal, bundle_of
from quiver.testing.subject import Loss, Stage

__all__ = ["Facts", "QuiverSubject", "subject"]

_BY_LOT = 500_000
_READ_MAX = 10_000
_DEAD_LETTERS = "core_0/dead_letters"
_FOLDERS = ("", "core_0", "core_0/wal", "core_0/acks", "core_0/segments", "core_0/quarantine")


@dataclass(frozen=True, slots=True)
class State:
    """What an opening shows."""

    next_wal_seq: int
    next_segment_seq: int
    open_bundles: int
    segments: int
    progress: tuple[tuple[str, object], ...]
    """For each subscriber its open bundles."""
    damage: tuple[str, ...] = field(compare=False)
    sources: tuple[tuple[str, int], ...]
    """How far each split was read, as the store and a look from outside both say."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a recovered store holds and gives out."""

    numbers: tuple[int, ...]
    """Bundles in segments, in the order of these, each equal to what was appended."""
    delivered: dict[str, tuple[int, ...]]
    """What each subscriber got."""
    dead: frozenset[int]
    """Bundles among the dead letters, each equal to what was appended."""


class QuiverSubject:
    """Quiver as the harness sees it: the lives of ``lives.py``, and those by lot from ``seed``."""

    def __init__(self, *, by_lot: int = 0, seed: int = 0) -> None:
        """Offer the lives written by hand and ``by_lot`` more."""
        self.lives: Sequence[str] = Names(tuple(LIVES), by_lot, seed)
        self._read: dict[tuple[str, bytes], tuple[int, ...]] = {}

    def live(self, name: str, stage: Stage) -> None:
        """Lead one life, to its end or until the disk gives out."""
        lead(name, stage)

    def facts(self, marks: Sequence[Mark]) -> Facts:
        """Sum up what was promised by the time of the crash."""
        known = Known()
        for mark in marks:
            known.add(mark)
        return known.facts()

    def recover(self, disk: Disk, life: str) -> State:
        """Open what a crash left; raises Loss if that fails."""
        return _state(_open(disk, life))

    def observe(self, disk: Disk, life: str, state: Hashable) -> Seen:
        """Open once more, read all, deliver all, append; raises Loss for what is never right."""
        now = _open(disk, life)
        if _state(now) != state:
            raise Loss(f"a second opening finds something else: {state}, then {_state(now)}")
        _check_ends(now, disk)
        if isinstance(disk, MemoryDisk):
            now = _again(disk, now, life)
        now.store.finalize()
        numbers = self._numbers(disk)
        delivered = _deliver(now)
        self._append(now, disk, life)
        return Seen(tuple(numbers), delivered, frozenset(_dead_letters(disk)))

    def judge(self, facts: Facts, state: State, seen: Seen, *, torn: bool) -> None:
        """Raise Loss if a promise is not kept."""
        if state.damage and not torn:
            raise Loss(f"a crash was taken for damage: {'; '.join(state.damage)}")
        _judge_bundles(facts, seen, torn=torn)
        _judge_deliveries(facts, seen)
        judge_progress(facts, state.sources, frozenset(seen.numbers))
        if not facts.rejected <= seen.dead:
            gone = sorted(facts.rejected - seen.dead)
            raise Loss(f"no copy is left of bundles that were rejected: {gone}")
        for name, given_up in facts.given_up:
            lost = given_up - seen.dead - frozenset(seen.delivered.get(name, ()))
            if lost:
                raise Loss(f"{name} does not get {sorted(lost)}, and no copy was set aside")
        if state.next_wal_seq < facts.durable:
            raise Loss(f"wal_seq {state.next_wal_seq} would be used twice")
        if state.next_segment_seq <= facts.segment_seq:
            raise Loss(f"segment_seq {state.next_segment_seq} would be used twice")

    def _append(self, now: Rehearsal, disk: Disk, life: str) -> None:
        """Append, crash, open: the bundle is there, and no file that was never finished."""
        number = now.store.info().next_wal_seq
        if now.store.append(bundle_of(number)) != number:
            raise Loss(f"bundle {number} gets another number")
        if now.store.info().durability != "sync":
            now.store.flush()
        now.crash()
        last = _open(disk, life)
        last.store.finalize()
        if number not in self._numbers(disk):
            raise Loss(f"bundle {number}, appended after the recovery, is lost")
        last.crash()
        for folder in _FOLDERS:
            if disk.stat(folder) is None:
                continue
            litter = [e.name for e in disk.list_dir(folder) if e.name.endswith(TEMPORARY)]
            if litter:
                raise Loss(f"unfinished files are left in {folder}: {litter}")

    def _numbers(self, disk: Disk) -> list[int]:
        """Read every bundle of every segment, past the store: their numbers, values compared."""
        found: list[int] = []
        for entry in disk.list_dir("core_0/segments"):
            path = f"core_0/segments/{entry.name}"
            key = (path, bytes(disk.map(path)))
            if key not in self._read:
                if len(self._read) >= _READ_MAX:
                    self._read.clear()
                self._read[key] = tuple(_read_segment(disk, path))
            found += self._read[key]
        if found != sorted(set(found)):
            raise Loss(f"bundles are doubled or out of order: {found}")
        return found


def subject(seed: int) -> QuiverSubject:
    """Give Quiver with more lives by lot than any campaign gets through."""
    return QuiverSubject(by_lot=_BY_LOT, seed=seed)


def _dead_letters(disk: Disk) -> Iterator[int]:
    """Read what subscribers gave up, and see that each has its reason beside it."""
    if disk.stat(_DEAD_LETTERS) is None:
        return
    for folder in disk.list_dir(_DEAD_LETTERS):
        names = {entry.name for entry in disk.list_dir(f"{_DEAD_LETTERS}/{folder.name}")}
        for name in names:
            # Of two files that belong together the second may be missing after a crash.
            if name.endswith(".qseg") and f"{name}.json" in names:
                yield from _read_bundles(disk, f"{_DEAD_LETTERS}/{folder.name}/{name}")


def _read_segment(disk: Disk, path: str) -> Iterator[int]:
    """Read one segment and compare each of its bundles with what was appended."""
    if parse_segment_name(path.rsplit("/", 1)[-1]) is None:
        raise Loss(f"{path} is no name of a segment")
    yield from _read_bundles(disk, path)


def _read_bundles(disk: Disk, path: str) -> Iterator[int]:
    try:
        with SegmentReader.open(disk, path) as reader:
            reader.verify()
            for index in range(reader.bundle_count):
                number = reader.bundle_entry(index).wal_seq
                if number is None:
                    raise Loss(f"a bundle in {path} has no number")
                batches = {SLOTS[slot]: batch for slot, batch in reader.bundle(index).items()}
                expected = bundle_of(number)
                if batches.keys() != expected.keys():
                    raise Loss(f"bundle {number} has other slots: {sorted(batches)}")
                for name, batch in batches.items():
                    if batch.to_pylist() != expected[name].to_pylist():
                        raise Loss(f"bundle {number} has other values in {name}")
                yield number
    except QuiverError as error:
        raise Loss(f"a segment cannot be read: {error}") from error


def _again(disk: MemoryDisk, now: Rehearsal, life: str) -> Rehearsal:
    """Crash and open once more: the same bytes are left, or a crash loop would fill the disk."""
    before = disk.tree.digest()
    now.crash()
    now = _open(disk, life)
    if disk.tree.digest() != before:
        raise Loss("one more crash and opening leaves other bytes")
    return now


def _check_ends(now: Rehearsal, disk: Disk) -> None:
    """Look behind the last entry and the last record of a store that was opened before."""
    torn = now.store.recovery.torn_tail
    if torn is not None:
        raise Loss(f"what one opening cut is there again: {torn}")
    outcomes = disk.stat("core_0/acks/ack.log")
    known = now.store.info().acks_bytes
    if outcomes is None or outcomes.size != known:
        raise Loss(f"ack.log is {outcomes}, and {known} bytes of it are known")


def _open(disk: Disk, life: str) -> Rehearsal:
    try:
        return Rehearsal(cast("Stage", disk), config=config_of(life))
    except Exception as error:
        raise Loss(f"opening failed: {type(error).__name__}: {error}") from error


def _state(now: Rehearsal) -> State:
    info, core = now.store.info(), now.store._core
    progress = tuple(
        (
            name,
            tuple(
                tuple(core.registry.progress(name).open_runs(segment.segment_seq))
                for segment in core.catalog
            ),
        )
        for name in info.subscribers
    )
    damage = tuple(map(str, now.store.recovery.damage))
    return State(
        info.next_wal_seq,
        info.next_segment_seq,
        info.open_bundles,
        info.segments,
        progress,
        damage,
        progress_of(now),
    )


def _deliver(now: Rehearsal) -> dict[str, tuple[int, ...]]:
    """Give every subscriber all that there is for it."""
    delivered = {}
    for name in now.store.info().subscribers:
        now.clock.step("1h")
        now.store.resume(name)
        subscription = now.store.subscribe(name)
        numbers = []
        while (handle := subscription.poll()) is not None:
            numbers.append(handle.wal_seq or 0)
            handle.ack()
        if numbers != sorted(set(numbers)):
            raise Loss(f"{name} gets bundles twice or out of order: {numbers}")
        delivered[name] = tuple(numbers)
    return delivered


def _judge_bundles(facts: Facts, seen: Seen, *, torn: bool) -> None:
    there = frozenset(seen.numbers)
    lost = frozenset(range(facts.durable)) - there - facts.done
    if lost:
        raise Loss(f"acknowledged bundles are lost: {sorted(lost)}")
    invented = there - frozenset(range(facts.sent))
    if invented:
        raise Loss(f"bundles that nobody sent: {sorted(invented)}")
    missing = frozenset(range(max(there, default=-1) + 1)) - there - facts.done
    if missing and not torn:
        raise Loss(f"the survivors are no prefix: {sorted(missing)} are missing")


def _judge_deliveries(facts: Facts, seen: Seen) -> None:
    for name, acked in facts.acked:
        if name not in seen.delivered:
            raise Loss(f"subscriber {name} is forgotten")
        got = frozenset(seen.delivered[name])
        withheld = frozenset(range(facts.durable)) - acked - got - facts.done
        if withheld:
            raise Loss(f"{name} never gets bundles {sorted(withheld)}")
    for name, settled in facts.settled:
        again = settled & frozenset(seen.delivered.get(name, ()))
        if again:
            raise Loss(f"{name} gets bundles again whose acks are durable: {sorted(again)}")
    back = facts.left & seen.delivered.keys()
    if back:
        raise Loss(f"subscribers who left are back: {sorted(back)}")
