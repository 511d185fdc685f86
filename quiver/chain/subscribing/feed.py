"""What comes next: new blocks are taken, and of several partitions the earliest bundle is chosen.

Nodes and metadata are asked without the lock of the marks, so that outcomes do not wait for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from quiver.chain.subscribing.blocks import Blocks, Loaded
from quiver.chain.subscribing.log import SubscriberRules
from quiver.chain.subscribing.marks import Lane, Marks
from quiver.chain.subscribing.records import Acked, Record, Rejected, Taken
from quiver.clock import Clock
from quiver.errors import DamagedEntry, MissingError, QuiverError, RemoteError
from quiver.subscriber import Claim, oldest
from quiver.units import SECOND

__all__ = ["Feed", "Found"]

_LOOK_NS: Final = SECOND // 4
_JOIN_NS: Final = 5 * SECOND
_PATIENCE_NS: Final = 30 * SECOND
"""So long a partition that cannot be read is tried again before that is raised."""
_BLOCKS_MAX: Final = 256
"""So many blocks of a partition may have bundles without an outcome; then none is taken."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Found:
    """Bundles that were claimed, and are read."""

    lane: Lane
    claim: Claim
    loaded: Loaded
    bundles: Sequence[Mapping[str, pa.RecordBatch]]


class _Gap(MissingError):
    """Bundles were purged before they came: to try again does not help."""


@dataclass(slots=True, kw_only=True)
class _Tries:
    """When to look again, at what may fail for a while."""

    look_ns: int = 0
    failing_ns: int | None = None
    """Since when it cannot be read."""


@dataclass(slots=True)
class _Head(_Tries):
    """One partition on its way: what of it comes next, and when to look for more."""

    lane: Lane
    claim: Claim | None = None
    """Stays until somebody has it in hands."""
    token: int = 0
    """Of the last claim; one that is newer was never noted."""


class Feed:
    """Chooses what comes next. Safe for many threads, of which one at a time chooses."""

    def __init__(
        self,
        blocks: Blocks,
        marks: Marks,
        *,
        rules: SubscriberRules,
        clock: Clock,
        join: Callable[[], Sequence[Record]],
        wanted: Sequence[str],
        write: Callable[[Sequence[Record]], None],
        take_in: Callable[[], None],
        lock: threading.Lock,
    ) -> None:
        """Take what knows blocks, and what writes down.

        ``write`` is called with the lock, and so is ``take_in``, which ends what broke off there.
        """
        self.gaps: list[tuple[str, int | None, int]] = []
        self.trouble: QuiverError | None = None
        self._blocks = blocks
        self._marks = marks
        self._fails_at_gaps = rules.gap == "error"
        self._clock = clock
        self._join = join
        self._wanted = frozenset(wanted)
        self._write = write
        self._take_in = take_in
        self._lock = lock
        self._choosing = threading.Lock()
        self._join_ns = clock.monotonic_ns()
        self._joining = _Tries()
        self._heads = {name: _Head(lane) for name, lane in marks.lanes.items() if self._has(name)}

    @property
    def lanes(self) -> list[str]:
        """The partitions of which bundles come."""
        return list(self._heads)

    def _has(self, name: str) -> bool:
        return not self._wanted or name in self._wanted

    def claim(self, limit: int, make: Callable[[Found], _T]) -> _T | None:
        """Claim what comes next, up to ``limit`` bundles in a row; None if there is nothing.

        Gives what ``make`` makes of it. Whatever breaks off before that, nothing stays claimed.
        """
        with self._choosing:
            try:
                return self._chosen(limit, make)
            except BaseException:
                self._give_back()
                raise

    def _chosen(self, limit: int, make: Callable[[Found], _T]) -> _T | None:
        self._look_for_partitions()
        ready = [head for head in list(self._heads.values()) if self._is_ready(head)]
        while ready:
            times = {id(head): self._time_ns(head) for head in ready}
            head = min(ready, key=lambda head: (times[id(head)], head.lane.partition))
            found = self._taken(head, limit)
            if found is not None:
                made = make(found)
                head.claim = None
                return made
            ready = [each for each in ready if each is not head or self._is_ready(each)]
        return None

    def _give_back(self) -> None:
        """Offer again what was claimed and is in nobody's hands."""
        with self._lock:
            self._take_in()
            for head in self._heads.values():
                member = head.lane.member
                for claim in list(member.claims.values()):
                    if claim is head.claim or claim.token > head.token:
                        member.release(claim)
                head.claim = None

    def _look_for_partitions(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if self._wanted or now_ns - self._join_ns < _JOIN_NS:
            return
        self._join_ns = now_ns
        try:
            records = self._join()
        except RemoteError as error:
            self._failed(self._joining, error)
            return
        if self._joining.failing_ns is not None:
            self._joining.failing_ns = self.trouble = None
        with self._lock:
            if records:
                self._write(records)
            for name, lane in self._marks.lanes.items():
                self._heads.setdefault(name, _Head(lane))

    # one partition -------------------------------------------------------------------------------

    def _is_ready(self, head: _Head) -> bool:
        """Claim the next bundle of a partition, if it has none claimed yet, and have it read."""
        lane = head.lane
        try:
            if head.claim is not None and head.claim.token not in lane.member.claims:
                head.claim = None  # It was resolved by other means.
            while head.claim is None:
                self._claim_next(head, 1)
                if head.claim is None and not self._take_block(head):
                    return False
            self._blocks.load(lane.partition, head.claim.segment_seq)
        except _Gap:
            raise
        except MissingError as error:
            if head.claim is not None:
                return self._purged(head, error)
            self._failed(head, error)  # It was purged just now, or it is not there yet.
            return False
        except RemoteError as error:
            self._failed(head, error)
            return False
        head.failing_ns = self.trouble = None
        return True

    def _claim_next(self, head: _Head, limit: int) -> None:
        """Claim what comes next of a partition, anew if something of it is claimed."""
        member = head.lane.member
        with self._lock:
            self._take_in()
            if head.claim is not None and head.claim.token in member.claims:
                member.release(head.claim)
            now_ns = self._clock.wall_ns()
            member.see(now_ns)
            head.claim = member.claim(now_ns, oldest, limit)
            if head.claim is not None:
                head.token = head.claim.token

    def _time_ns(self, head: _Head) -> int:
        claim = head.claim
        if claim is None:
            return 0
        loaded = self._blocks.load(head.lane.partition, claim.segment_seq)
        return loaded.time_ns(claim.bundle_index)

    def _taken(self, head: _Head, limit: int) -> Found | None:
        """Find what was claimed, more of it if asked; None if it cannot be read at all."""
        lane, claim = head.lane, head.claim
        if claim is None:
            return None
        loaded = self._blocks.load(lane.partition, claim.segment_seq)
        # One that stayed may be of more than is asked for now.
        if claim.count > limit or (limit > 1 and claim.attempt == 1):
            self._claim_next(head, limit)
            claim = head.claim
            if claim is None or claim.segment_seq != loaded.taken.block:
                return None  # An older one came back meanwhile.
        whole = range(claim.bundle_index, claim.bundle_index + claim.count)
        try:
            bundles = [loaded.bundle(index) for index in whole]
        except DamagedEntry as error:
            self._set_aside(lane, claim, loaded, error=error)
            head.claim = None
            return None
        return Found(lane, claim, loaded, bundles)

    def _set_aside(self, lane: Lane, claim: Claim, loaded: Loaded, *, error: DamagedEntry) -> None:
        """Give up one bundle that nobody can read; of several each comes alone."""
        with self._lock:
            self._take_in()
            if claim.count > 1:
                lane.member.set_apart(claim)
                return
            index = claim.bundle_index
            seq = loaded.reader.bundle_entry(index).wal_seq or 0
            place = lane.partition, claim.segment_seq, index, seq, loaded.time_ns(index)
            self._write([Rejected(*place, claim.attempt, error.message)])

    def _take_block(self, head: _Head) -> bool:
        """Take the next block, if there is one that may be heard of by now."""
        lane, now_ns = head.lane, self._clock.monotonic_ns()
        known = len(lane.member.progress.open_segments)
        if now_ns < head.look_ns or known >= _BLOCKS_MAX:
            return False
        found = self._blocks.next(lane.partition, lane.next_number)
        if found is None or found[1] is None:
            head.look_ns = now_ns + _LOOK_NS
            return False
        loaded = self._blocks.load(lane.partition, found[1].number)
        taken = loaded.taken
        is_behind = lane.next_seq is None and found[0].purged_below > lane.next_number
        if is_behind or lane.next_seq not in (None, taken.first_seq):
            self._gap(lane, lane.next_seq, taken.first_seq)
        records: list[Record] = [taken]
        if lane.start_ns is not None and (before := loaded.count_before(lane.start_ns)):
            records.append(Acked(lane.partition, taken.block, 0, before))
        with self._lock:
            self._write(records)
        return True

    # what is not to be had -----------------------------------------------------------------------

    def _gap(self, lane: Lane, wanted: int | None, found: int) -> None:
        if self._fails_at_gaps:
            which = f"before {found}" if wanted is None else f"{wanted} to {found - 1}"
            raise _Gap(
                f"bundles {which} of {lane.partition} were purged before they came",
                path=lane.partition,
                hint='gap="tell" goes on behind them',
            )
        self.gaps.append((lane.partition, wanted, found))

    def _purged(self, head: _Head, error: MissingError) -> bool:
        """Be done with a block that was purged, if it is told; raises what it is else."""
        lane, claim = head.lane, head.claim
        record = self._blocks.record(lane.partition)
        if claim is None or record is None or claim.segment_seq >= record.purged_below:
            raise error
        taken: Taken = lane.blocks[claim.segment_seq]
        with self._lock:
            self._take_in()
            lane.member.release(claim)
            head.claim = None
        self._gap(lane, taken.first_seq, taken.end_seq)
        with self._lock:
            self._write([Acked(lane.partition, taken.block, 0, taken.bundle_count)])
        return self._is_ready(head)

    def _failed(self, head: _Tries, error: RemoteError | MissingError) -> None:
        """Try again later, for a while."""
        now_ns = self._clock.monotonic_ns()
        self.trouble = error
        if head.failing_ns is None:
            head.failing_ns = now_ns
        head.look_ns = now_ns + _LOOK_NS
        is_over = isinstance(error, RemoteError) and not error.retryable
        if is_over or now_ns - head.failing_ns > _PATIENCE_NS:
            head.failing_ns = None
            raise error
