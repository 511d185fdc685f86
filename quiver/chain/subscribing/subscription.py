"""One subscriber of partitions: the next bundles, claimed until they have an outcome.

Bundles come block by block, once a block is finished and has all its copies (R43): in order within
a partition, and of several the earliest first of what is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Self, TypeVar

from quiver.chain.subscribing.blocks import Blocks
from quiver.chain.subscribing.feed import Feed, Found
from quiver.chain.subscribing.format import LATEST_NS
from quiver.chain.subscribing.given import ChainHandle, ChainRun, Given
from quiver.chain.subscribing.log import AckLog, SubscriberRules
from quiver.chain.subscribing.marks import DeadLetter, Marks
from quiver.chain.subscribing.reach import Reach
from quiver.chain.subscribing.records import Acked, Nacked, Record, Rejected
from quiver.errors import CapacityError, ClosedError, InputError, QuiverError, SubscriberError
from quiver.units import SECOND, parse_duration

__all__ = ["ChainHandle", "ChainRun", "ChainSubscription"]

_LOOK_SECONDS: Final = 0.25
_LETTERS_MAX: Final = 10_000
_T = TypeVar("_T")


class ChainSubscription:
    """Made by ``Cluster.subscribe``. Safe for many threads: a bundle goes to one of them.

    Its marks and acks are a partition of their own, so that another process, on another machine,
    goes on under the same name; it fences this one, whose outcomes raise SubscriberError then.
    """

    def __init__(
        self,
        name: str,
        reach: Reach,
        *,
        log: AckLog,
        marks: Marks,
        rules: SubscriberRules,
        join: Callable[[], Sequence[Record]],
        wanted: Sequence[str],
    ) -> None:
        self.name = name
        self._clock = reach.clock
        self._log = log
        self._marks = marks
        self._rules = rules
        # Taken as it is, in C: an interrupt on the way into a condition leaves that taken.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._lost: list[Given] = []
        self._closed = False
        self._feed = Feed(
            Blocks(reach),
            marks,
            rules=rules,
            clock=reach.clock,
            join=join,
            wanted=wanted,
            write=self._write,
            take_in=log.take_in,
            lock=self._lock,
        )

    # taking --------------------------------------------------------------------------------------

    def poll(self) -> ChainHandle | None:
        """Claim the next bundle if one is ready; waits for nothing but nodes that are asked."""
        return self._claim(1, self._handle)

    def poll_run(self, limit: int = 1000) -> ChainRun | None:
        """Claim up to ``limit`` bundles of one block in a row, to be resolved together."""
        _check_limit(limit)
        return self._claim(limit, self._run)

    def next(self, timeout: float | str | None = None) -> ChainHandle | None:
        """Claim the next bundle, waiting until there is one; None if the timeout passes first.

        Without one it waits until the subscription is closed, which gives None. While it is paused
        nothing comes; whoever resumes it fences this one, which raises then. Raises what keeps
        a partition from being read for long, and MissingError for what was purged before it came.
        """
        return self._wait(timeout, lambda: self._claim(1, self._handle))

    def next_run(self, limit: int = 1000, *, timeout: float | str | None = None) -> ChainRun | None:
        """Claim up to ``limit`` bundles in a row, waiting as ``next`` does."""
        _check_limit(limit)
        return self._wait(timeout, lambda: self._claim(limit, self._run))

    def __iter__(self) -> Iterator[ChainHandle]:
        """Go through bundles as they come, until the subscription is closed."""
        while (handle := self.next()) is not None:
            yield handle

    def _wait(self, timeout: float | str | None, claim: Callable[[], _T | None]) -> _T | None:
        limit_ns = None
        if timeout is not None:
            limit_ns = self._clock.monotonic_ns() + parse_duration(timeout, key="timeout")
        while True:
            if self._is_over():
                return None
            try:
                found = claim()
            except ClosedError:
                if self._is_over():
                    return None
                raise
            if found is not None:
                return found
            rest = _LOOK_SECONDS
            if limit_ns is not None:
                left = (limit_ns - self._clock.monotonic_ns()) / SECOND
                if left <= 0:
                    return None
                rest = min(rest, left)
            self._pause(rest)

    def _pause(self, seconds: float) -> None:
        """Wait so long at most for something to happen."""
        try:
            with self._lock:
                if not self._is_over():
                    self._changed.wait(seconds)
        except RuntimeError as error:  # An interrupt came while the condition had let go of it.
            raise error.__context__ or error from None

    def _is_over(self) -> bool:
        return self._closed

    def _claim(self, limit: int, make: Callable[[Found], _T]) -> _T | None:
        self._check_open()
        self._take_back()
        self._log.check()
        self._log.tidy()
        return None if self._marks.is_paused else self._feed.claim(limit, make)

    def _take_back(self) -> None:
        """Offer what handles had that nobody has any more."""
        while self._lost:
            with suppress(IndexError, ValueError):  # Another thread was faster.
                lost = self._lost[0]
                self.defer(lost)
                self._lost.remove(lost)

    def _handle(self, found: Found) -> ChainHandle:
        given = Given(self, found)
        return ChainHandle(found, given, subscriber=self.name)

    def _run(self, found: Found) -> ChainRun:
        given = Given(self, found)
        return ChainRun(found, given, subscriber=self.name)

    # outcomes ------------------------------------------------------------------------------------

    def ack(self, given: Given) -> None:
        """Resolve what was claimed; handles call this."""
        lane, claim = given.found.lane, given.found.claim
        record = Acked(lane.partition, claim.segment_seq, claim.bundle_index, claim.count)
        self._settle(given, [record], outcome="acked")

    def reject(self, given: Given, *, reason: str) -> None:
        """Give up what was claimed; handles call this."""
        found = given.found
        lane, claim = found.lane, found.claim
        records = [
            Rejected(
                lane.partition,
                claim.segment_seq,
                index,
                found.loaded.reader.bundle_entry(index).wal_seq or 0,
                found.loaded.time_ns(index),
                claim.attempt,
                reason,
            )
            for index in range(claim.bundle_index, claim.bundle_index + claim.count)
        ]
        count = sum(len(each.letters) for each in self._marks.lanes.values())
        if count + len(records) > _LETTERS_MAX:
            raise CapacityError(
                f"{self.name} has {count:,} dead letters, and may have {_LETTERS_MAX:,}",
                hint="forget_dead_letters() lets go of them",
            )
        self._settle(given, records, outcome="rejected")

    def _settle(self, given: Given, records: Sequence[Acked | Rejected], *, outcome: str) -> None:
        lane, claim = given.found.lane, given.found.claim
        receipt = None
        with self._lock:
            if self._is_held(given):
                with self._log.writing(self._marks, records) as receipt:
                    given.written = outcome
                    lane.member.settle(claim)
                    lane.letters += [each for each in records if isinstance(each, Rejected)]
                    lane.tidy()
                self._log.keep_up(self._marks)
                self._changed.notify_all()
        if self._rules.waits or isinstance(records[0], Rejected):
            try:
                if receipt is None:  # It was written before; nobody knows in which bundle.
                    self._log.flush(self._rules.patience)
                self._log.wait(receipt)
            except SubscriberError:  # Another process goes on, and has what was written or not.
                given.written = ""
                raise
            except Exception:
                given.is_late = bool(given.written)
                raise
            self._log.tidy()

    def _is_held(self, given: Given) -> bool:
        """Whether it has no outcome yet, not even one that an interrupt came into."""
        self._check_open()
        self._log.mend(self._marks)
        return not given.written and given.found.lane.member.holds(given.found.claim)

    def nack(self, given: Given, *, retry_after_ns: int | None, reason: str) -> None:
        """Offer what was claimed again later, or give it up; handles call this."""
        lane, claim = given.found.lane, given.found.claim
        retry = self._rules.retry
        if 0 < retry.max_attempts <= claim.attempt:
            self.reject(given, reason=reason)
            return
        delay_ns = retry_after_ns
        if delay_ns is None:
            delay_ns = min(retry.retry_first << min(claim.attempt - 1, 32), retry.retry_max)
        with self._lock:
            if not self._is_held(given):
                return
            now_ns = self._clock.wall_ns()
            due_ns = min(now_ns + delay_ns, LATEST_NS)
            records = [
                Nacked(lane.partition, claim.segment_seq, index, claim.attempt, due_ns)
                for index in range(claim.bundle_index, claim.bundle_index + claim.count)
            ]
            with self._log.writing(self._marks, records):
                given.written = "nacked"
                lane.member.nack(claim, due_ns, at_ns=now_ns)
            self._log.keep_up(self._marks)
            self._changed.notify_all()

    def defer(self, given: Given) -> None:
        """Offer what was claimed again at once; handles call this."""
        member, claim = given.found.lane.member, given.found.claim
        with self._lock:
            self._log.take_in()
            if not self._closed and claim.token in member.claims:
                member.release(claim)
                self._changed.notify_all()

    def defer_later(self, given: Given) -> None:
        """Note that it is to be offered again; takes no lock."""
        self._lost.append(given)

    def flush(self, timeout: float | str | None = None) -> None:
        """Return once all copies have all outcomes that were given before."""
        with self._lock:
            self._log.mend(self._marks)
        self._log.flush(timeout)

    # looking -------------------------------------------------------------------------------------

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions of which bundles come now, sorted."""
        with self._lock:
            return tuple(sorted(self._feed.lanes))

    @property
    def gaps(self) -> list[tuple[str, int | None, int]]:
        """What was purged before it came: partition, the number that was due, the one that came.

        None is due where nobody knows which would have been the first.
        """
        return list(self._feed.gaps)

    @property
    def trouble(self) -> QuiverError | None:
        """What keeps a partition from being read just now; None if nothing does."""
        return self._feed.trouble

    def dead_letters(self) -> list[DeadLetter]:
        """Give what was given up, by partition; a cursor at its time gives the bundle."""
        with self._lock:
            self._log.take_in()
            return self._marks.letters()

    def forget_dead_letters(self) -> int:
        """Let go of them, so that their blocks may be purged; give how many they were."""
        with self._lock:
            self._check_open()
            self._log.take_in()
            count = len(self._marks.letters())
            marks = self._marks.snapshot()
            marks = marks._replace(lanes=tuple(each._replace(letters=()) for each in marks.lanes))
            forget = self._marks.forget_letters
            with self._log.writing(self._marks, [marks], acts=[forget]) as receipt:
                self._log.take_in()
        self._log.wait(receipt)
        return count

    # ending --------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._closed

    def close(self, timeout: float | str | None = None) -> None:
        """Wait until all outcomes are written, and let go of the name; what is claimed comes again.

        Raises SubscriberError if another process has it by now.
        """
        self._end()
        self._log.close(self._rules.patience if timeout is None else timeout)

    def abandon(self) -> None:
        """Stop at once, as if the process had died."""
        self._end()
        self._log.abandon()

    def _end(self) -> None:
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Name the subscriber."""
        return f"ChainSubscription({self.name!r})"

    def _write(self, records: Sequence[Record]) -> None:
        """Write down what came, without waiting, and take it in; its caller has the lock."""
        self._check_open()
        with self._log.writing(self._marks, records):
            self._log.take_in()
        self._log.keep_up(self._marks)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the subscription {self.name!r} is closed")


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit: {limit!r} is no number of bundles")
