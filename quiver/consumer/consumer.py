"""A subscriber in a process of its own: bundles of all cores of a store, without a lock on it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import Any, Self, TypeVar

from quiver.acks.opening import LOG_NAME
from quiver.clock import Clock, SystemClock
from quiver.config import Config
from quiver.consumer import lease
from quiver.consumer.follower import Follower
from quiver.consumer.keeper import Keeper
from quiver.consumer.positions import ack_before, first_open, is_known
from quiver.disk import Disk
from quiver.engine import delivery, lifecycle
from quiver.engine.core import core_folder, core_numbers
from quiver.engine.lifecycle import Lag
from quiver.engine.nested import is_mine, refusal
from quiver.engine.start import Position, Start, parse_start
from quiver.engine.subscription import Subscription, check_limit
from quiver.engine.wanted import wanted_of
from quiver.errors import ClosedError, DamageError, InputError, SubscriberError
from quiver.manifest import StoreManifest
from quiver.subscriber import BundleHandle, BundleRun, check_name
from quiver.units import SECOND, parse_duration

__all__ = ["Consumer"]

_Given = TypeVar("_Given", BundleHandle, BundleRun)


class Consumer:
    """Bundles for one named subscriber, of a store that another process writes, or nobody.

    The handles are those of ``Store.subscribe``. What was done with them is durable after
    ``commit``, or ``commit_interval`` later by itself; what was not when this process dies is
    delivered again. Several threads may take from one consumer. Use it as a context manager.
    """

    def __init__(
        self,
        disk: Disk,
        name: str,
        *,
        core: int | None,
        start: Start,
        options: Mapping[str, Any],
        config: Config,
        commit_interval: float | str,
        clock: Clock | None = None,
        keep: bool = True,
        let_go: Callable[[], None] | None = None,
    ) -> None:
        """Go on as the subscriber ``name``; use ``quiver.subscribe``."""
        check_name(name)
        parse_start(start)
        self.name = name
        self._disk, self._core, self._start = disk, core, start
        self._options, self._config = dict(options), config
        self._clock = clock or SystemClock()
        self._manifest = StoreManifest.read(disk)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._subscriptions: dict[int, Subscription] = {}
        self._followers: dict[int, Follower] = {}
        self._turn = 0
        self._closed = False
        self._owner = os.getpid()
        self._let_go = let_go
        interval_ns = parse_duration(commit_interval, key="commit_interval")
        self._keeper: Keeper | None = None
        if core is None and start != "earliest" and is_known(disk, name):
            self._start = "earliest"
        self._find_cores()
        self._start = "earliest"  # In a core that is made later nothing lies before.
        self._find_cores()  # One that was made meanwhile may have looked before we were there.
        if core is not None and core not in self._followers:
            raise InputError(f"core: the store has no core {core}", hint=f"{core_numbers(disk)}")
        if keep:
            self._keeper = Keeper(self, disk, interval_ns)

    def _find_cores(self) -> None:
        """Follow the cores that are there by now."""
        for number in core_numbers(self._disk):
            if number in self._followers or self._core not in (None, number):
                continue
            if self._disk.stat(f"{core_folder(number)}/acks/{LOG_NAME}") is None:
                continue  # It is about to be made.
            follower = Follower(
                self._disk,
                self._manifest,
                number,
                name=self.name,
                config=self._config,
                clock=self._clock,
                changed=self._changed,
                lock=self._lock,
            )
            wanted = wanted_of(follower, **self._options)  # Before anybody else has to stop.
            lease.take(follower, self._start)
            self._followers[number] = follower
            self._subscriptions[number] = Subscription(self, follower, self.name, wanted=wanted)

    def _forget_cores(self) -> None:
        """Let go of cores whose folder is gone: nothing is to be had or told there."""
        there = core_numbers(self._disk)
        for number in self._followers.keys() - set(there):
            self._followers.pop(number).close()
            del self._subscriptions[number]

    # take ----------------------------------------------------------------------------------------

    def poll(self) -> BundleHandle | None:
        """Claim the next bundle if one is ready; never waits."""
        return self._take(lambda subscription: subscription.poll())

    def poll_run(self, limit: int = 1000) -> BundleRun | None:
        """Claim up to ``limit`` bundles of one segment in a row; never waits."""
        check_limit(limit)
        return self._take(lambda subscription: subscription.poll_run(limit))

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        """Claim the next bundle, waiting until there is one; None if the timeout passes first.

        Without a timeout this waits until the consumer is closed, which gives None.
        """
        return self._wait(lambda subscription: subscription.poll(), timeout)

    def next_run(
        self, limit: int = 1000, *, timeout: float | str | None = None
    ) -> BundleRun | None:
        """Claim up to ``limit`` bundles in a row, waiting as ``next`` does."""
        check_limit(limit)
        return self._wait(lambda subscription: subscription.poll_run(limit), timeout)

    def _take(self, poll: Callable[[Subscription], _Given | None]) -> _Given | None:
        """Ask one core after the other, beginning behind the one that gave the last."""
        self.check_usable()
        with self._lock:
            subscriptions = [self._subscriptions[n] for n in sorted(self._subscriptions)]
            turn = self._turn
        for step in range(len(subscriptions)):
            at = (turn + step) % len(subscriptions)
            given = poll(subscriptions[at])
            if given is not None:
                self._turn = at + 1
                return given
        return None

    def _wait(
        self, poll: Callable[[Subscription], _Given | None], timeout: float | str | None
    ) -> _Given | None:
        limit_ns = None
        if timeout is not None:
            limit_ns = self._clock.monotonic_ns() + parse_duration(timeout, key="timeout")
        while not self._closed:
            with self._lock:
                seen = self._change_count
            try:
                given = self._take(poll)
            except ClosedError:
                if self._closed:
                    return None
                raise
            if given is not None:
                return given
            with self._lock:
                rest_ns = self._rest_ns(limit_ns)
                if rest_ns is not None and rest_ns <= 0 and limit_ns is not None:
                    if limit_ns <= self._clock.monotonic_ns():
                        return None
                elif self._change_count == seen and not self._closed:
                    self._changed.wait(None if rest_ns is None else rest_ns / SECOND)
        return None

    @property
    def _change_count(self) -> int:
        return sum(follower.change_count for follower in self._followers.values())

    def _rest_ns(self, limit_ns: int | None) -> int | None:
        """How long there is to wait: until the limit, or until a bundle may be tried again."""
        rests = [] if limit_ns is None else [limit_ns - self._clock.monotonic_ns()]
        for follower in self._followers.values():
            retry_at = follower.registry.next_retry_ns(self.name)
            if retry_at is not None:
                rests.append(max(retry_at - self._clock.wall_ns(), 0))
        return min(rests, default=None)

    def __iter__(self) -> Iterator[BundleHandle]:
        """Go through bundles as they come, until the consumer is closed."""
        while (handle := self.next()) is not None:
            yield handle

    # keep up -------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Look for new segments and cores now; it is done whenever a folder changes, too."""
        self.check_usable()
        with self._telling(), self._lock:
            self._find_cores()
            self._forget_cores()
            for follower in self._followers.values():
                self._guard(follower, lease.check)
                if follower.refresh():
                    follower.announce()

    def check_lease(self) -> None:
        """Raise SubscriberError if another process goes on as this subscriber; reads no segment."""
        self.check_usable()
        with self._telling(), self._lock:
            self._forget_cores()
            for follower in self._followers.values():
                self._guard(follower, lease.check)

    def commit(self) -> None:
        """Return once everything done so far survives a power cut, and a store may fold it in.

        Raises SubscriberError if another process goes on as this subscriber.
        """
        self.check_usable()
        with self._telling(), self._lock:
            self._commit()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell at the end what happened in any core, without the lock."""
        try:
            yield
        finally:
            for follower in list(self._followers.values()):
                follower.events.tell()

    def _commit(self) -> None:
        for follower in self._followers.values():
            delivery.release_forgotten(follower)
        for follower in self._followers.values():
            self._guard(follower, lease.commit)

    def _guard(self, follower: Follower, act: Callable[[Follower], None]) -> None:
        """Do something that tells whether the time here is over; if it is, that stays so."""
        try:
            act(follower)
        except SubscriberError as error:
            follower.failure = error
            follower.announce()
            raise

    @property
    def is_dirty(self) -> bool:
        """Whether there is something to commit, or to be given back."""
        followers = list(self._followers.values())
        return any(each.gathered.is_dirty or each.forgotten for each in followers)

    @property
    def keeper_failure(self) -> Exception | None:
        """What the last commit or look at the folders in the background raised; it is repeated."""
        return None if self._keeper is None else self._keeper.failure

    def lags(self) -> tuple[Lag, ...]:
        """Say how far behind the subscriber is in each core, in order of core."""
        self.check_usable()
        with self._lock:
            return tuple(
                lifecycle.lag_of(self._followers[n], self.name) for n in sorted(self._followers)
            )

    # by position ---------------------------------------------------------------------------------

    @property
    def store_id(self) -> str:
        """The id of the store, 32 hexadecimal digits."""
        return self._manifest.store_id

    @property
    def is_paused(self) -> bool:
        """Whether a store said in any core that nothing is to be handed out."""
        with self._lock:
            followers = list(self._followers.values())
        return any(each.registry.member(self.name).paused for each in followers)

    def positions(self) -> dict[int, Position]:
        """Say, for each core, which is the first bundle that has no outcome yet."""
        self.check_usable()
        with self._lock:
            return {n: first_open(f, self.name) for n, f in sorted(self._followers.items())}

    def waiting_between(self, core: int, first: Position, stop: Position) -> Position | None:
        """Find the first bundle of a core from ``first`` up to ``stop`` that has no outcome yet."""
        with self._lock:
            found = self._subscriptions.get(core)
            return None if found is None else found.waiting_between(core, first, stop)

    def unreadable_between(self, core: int, first: int, stop: int) -> DamageError | None:
        """Say why a segment of a core from ``first`` up to ``stop`` cannot be opened, if so."""
        with self._lock:
            found = self._subscriptions.get(core)
        return None if found is None else found.unreadable_between(core, first, stop)

    def acked_behind(
        self, places: Mapping[int, Position], slot: str
    ) -> tuple[int, Position] | None:
        """Find a bundle with an outcome, and rows in a slot, not before the place of its core."""
        with self._lock:
            some = list(self._subscriptions.values())
        return next((hit for each in some if (hit := each.acked_behind(places, slot))), None)

    def next_segment(self, core: int) -> int | None:
        """Say which number the next segment of a core has at least; None if that is not known."""
        with self._lock:
            found = self._subscriptions.get(core)
        return None if found is None else found.next_segment(core)

    def ack_before(self, positions: Mapping[int, Position]) -> int:
        """Ack everything before these positions, by core, whoever holds it; gives how much was new.

        When this returns that survives a power cut. What is behind stays as it is, and so does a
        core that is not named, or is gone. SubscriberError if another process goes on.
        """
        self.refresh()
        with self._telling(), self._lock:
            count = 0
            for number, position in positions.items():
                if number in self._followers:
                    count += ack_before(self._followers[number], self.name, position)
            self._commit()
        return count

    # close ---------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit, and let go of everything; a second call does nothing.

        What is in hands is delivered again to whoever comes next. Raises what the commit raises,
        after everything was let go of.
        """
        if self._closed or self.inherited:
            return
        is_kept = self._keeper is not None and self._keeper.is_current
        if is_mine(self._lock) and not is_kept:  # The keeper may wait for what this thread has.
            raise refusal()
        ended = nullcontext() if self._keeper is None else self._keeper.ended()
        with ended, self._telling(), self._lock:
            if self.closed:
                return  # Another thread was faster.
            self._closed = True
            try:
                if all(follower.failure is None for follower in self._followers.values()):
                    self._commit()
            finally:
                for follower in self._followers.values():
                    follower.close()
                self._changed.notify_all()
                if self._let_go is not None:
                    self._let_go()

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    @property
    def inherited(self) -> bool:
        """Whether this is the copy that a forked child has."""
        return os.getpid() != self._owner

    def check_usable(self) -> None:
        """Raise ClosedError after close or in a forked child, SubscriberError if it is over."""
        for follower in self._followers.values():
            follower.check_process()
        self.check_state()

    def check_state(self) -> None:
        """Do the same, but do not look at the process."""
        if self._closed:
            raise ClosedError("the subscription is closed", hint="subscribe again")
        for follower in self._followers.values():
            follower.check()

    def __enter__(self) -> Self:
        """Use the consumer for the length of a block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Name the subscriber and the store."""
        return f"Consumer({self.name!r} of {self._disk.locate('')!r})"
