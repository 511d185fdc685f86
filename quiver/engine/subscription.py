"""One subscriber's view of a store: the next bundles, now or when there are some."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from quiver.engine import delivery
from quiver.engine.delivery import Found
from quiver.engine.desk import Desk
from quiver.engine.given import Given
from quiver.engine.listeners import Listener
from quiver.engine.passing import acked_from, next_segment, unreadable_between, waiting_between
from quiver.engine.start import Position
from quiver.engine.wanted import Wanted, skipped_runs
from quiver.errors import ClosedError, DamageError, InputError, StorageError, SubscriberError
from quiver.subscriber import BundleHandle, BundleRun, Claim
from quiver.units import SECOND, parse_duration

__all__ = ["Found", "Look", "Owner", "Subscription", "check_limit"]


class Owner(Protocol):
    """Whose subscription it is: a store, or a consumer of one that another process has."""

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        ...

    @property
    def inherited(self) -> bool:
        """Whether this is the copy that a forked child has."""
        ...

    def check_usable(self) -> None:
        """Raise unless it is open, and in this process."""
        ...

    def check_state(self) -> None:
        """Raise unless it is open, and nothing stopped it; the process is not looked at."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What one look for the next bundle came to."""

    found: Found | None = None
    rest_ns: int | None = None
    """How long to wait for a change before the next look; None without end."""
    is_over: bool = False
    """Whether to look no more: the time is up, or all is closed."""


class Subscription:
    """Bundles for one named subscriber; each is claimed until it is resolved.

    Several threads may take from one subscription; a bundle goes to one of them. The position is
    the subscriber's, kept in the store: a new subscription under the same name goes on from there.
    """

    def __init__(self, store: Owner, core: Desk, name: str, *, wanted: Wanted) -> None:
        self.name = name
        self._store = store
        self._core = core
        self._wanted = wanted
        self._ahead: deque[Found] = deque()
        self._looked_through: set[int] = set()
        self._closed = False
        self._lease = core.registry.member(name).lease

    def poll(self) -> BundleHandle | None:
        """Claim the next bundle if one is ready; never waits."""
        found = self.claim()
        return None if found is None else self.hand_out(found)

    def poll_run(self, limit: int = 1000) -> BundleRun | None:
        """Claim up to ``limit`` bundles of one segment in a row, to be resolved together.

        A bundle that was nacked before comes alone. None if nothing is ready; never waits.
        """
        check_limit(limit)
        found = self.claim(limit=limit)
        return None if found is None else self._hand_out_run(found)

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        """Claim the next bundle, waiting until there is one; None if the timeout passes first.

        ``timeout`` is seconds or a duration such as ``"250ms"``; without one this waits until the
        store is closed, which gives None.
        """
        found = self._wait(timeout, limit=1)
        return None if found is None else self.hand_out(found)

    def next_run(
        self, limit: int = 1000, *, timeout: float | str | None = None
    ) -> BundleRun | None:
        """Claim up to ``limit`` bundles in a row, waiting as ``next`` does."""
        check_limit(limit)
        found = self._wait(timeout, limit=limit)
        return None if found is None else self._hand_out_run(found)

    def _wait(self, timeout: float | str | None, *, limit: int) -> Found | None:
        if not self._store.closed:
            self._store.check_usable()  # Also because a forked child may find the lock taken.
        limit_ns = self.limit_ns(timeout)
        core = self._core
        while True:
            with core.lock:
                seen = core.change_count
            look = self.look(limit_ns, limit=limit)
            if look.found is not None or look.is_over:
                return look.found
            with core.lock:
                # What changed since the look began may be what it missed.
                if core.change_count == seen:
                    core.changed.wait(None if look.rest_ns is None else look.rest_ns / SECOND)

    def limit_ns(self, timeout: float | str | None) -> int | None:
        """Give the moment, on the monotonic clock, at which a timeout that begins now is over."""
        if timeout is None:
            return None
        return self._core.clock.monotonic_ns() + parse_duration(timeout, key="timeout")

    def look(
        self, limit_ns: int | None, listener: Listener | None = None, *, limit: int = 1
    ) -> Look:
        """Claim the next bundle, or say how long to wait for one.

        If there is none yet, ``listener`` is called at each change from now on, until it is taken
        out with ``forget``; no change gets lost between the look and the waiting.
        """
        core = self._core
        if listener is not None:
            core.listeners.add(listener)
        try:
            found = None if self._is_over else self.claim(limit=limit)
        except BaseException as error:
            self._without(listener, Look())
            if isinstance(error, ClosedError) and self._is_over:
                return Look(is_over=True)
            raise
        if found is not None:
            return self._without(listener, Look(found))
        with core.lock:
            if self._is_over:
                return self._without(listener, Look(is_over=True))
            core.check()
            rest_ns = None if limit_ns is None else limit_ns - core.clock.monotonic_ns()
            if rest_ns is not None and rest_ns <= 0:
                return self._without(listener, Look(is_over=True))
            retry_at = core.registry.next_retry_ns(self.name)
            if retry_at is not None:
                until = max(retry_at - core.clock.wall_ns(), 0)
                rest_ns = until if rest_ns is None else min(rest_ns, until)
            return Look(rest_ns=rest_ns)

    def _without(self, listener: Listener | None, look: Look) -> Look:
        if listener is not None:
            self._core.listeners.discard(listener)
        return look

    @property
    def _is_over(self) -> bool:
        return self._closed or self._store.closed

    def forget(self, listener: Listener) -> None:
        """Take a listener of ``look`` out; from any thread, without waiting."""
        self._core.listeners.discard(listener)

    def claim(self, *, limit: int = 1) -> Found | None:
        """Claim what comes next if anything is ready, without a handle that could get lost."""
        self._store.check_usable()
        while True:
            with self._core.lock:
                self._check_open()
                if self._ahead and limit == 1:
                    return self._ahead.popleft()
                claim = self._claim(limit if limit > 1 else max(1, self._wanted.prefetch))
            if claim is None:
                return None
            found = self._read(claim)
            if found is not None:
                return found if claim.count <= limit else self._keep_ahead(found)

    def _claim(self, limit: int) -> Claim | None:
        self._give_back_ahead()  # A run is asked for: it begins with what was claimed ahead of it.
        return delivery.claim(self._core, self.name, order=self._wanted.order, limit=limit)

    def _read(self, claim: Claim) -> Found | None:
        """Read what was claimed, without the lock; None if it is not to be handed out."""
        core = self._core
        try:
            if self._wanted.slots is not None and self._skip(claim):
                return None
            return delivery.read(core, claim, slots=self._wanted.slots)
        except (DamageError, StorageError) as error:
            with core.lock:
                core.check_open()
                delivery.set_aside(core, claim, error)
            return None
        except BaseException:
            with core.lock:
                core.registry.release(claim)
            raise

    def _skip(self, claim: Claim) -> bool:
        """Resolve what of a segment has none of the wanted slots, when the segment is new.

        Says whether anything was; the claim is given back then.
        """
        core, seq, slots = self._core, claim.segment_seq, self._wanted.slots
        if slots is None or seq in self._looked_through:
            return False
        runs = skipped_runs(delivery.open_claimed(core, claim).reader, slots)
        with core.lock:
            self._check_open()
            if runs:
                delivery.skip(core, self.name, seq, runs=runs)
                core.registry.release(claim)
            self._looked_through = {s for s in self._looked_through if s in core.catalog} | {seq}
        return bool(runs)

    def _keep_ahead(self, found: Found) -> Found:
        """Take a run that was claimed ahead apart: the first bundle now, the others later."""
        core = self._core
        with core.lock:
            claims = core.registry.split(found.claim)
            read = [delivery.pick(core, found, claim) for claim in claims]
            self._ahead.extend(read[1:])
            return read[0]

    def _give_back_ahead(self) -> None:
        while self._ahead:
            self._core.registry.release(self._ahead.pop().claim)

    def hand_out(self, found: Found) -> BundleHandle:
        """Make the handle of a bundle that was claimed."""
        return BundleHandle(
            found.claim,
            Given(self._core, found, self._check_outcome, slots=self._wanted.slots),
            subscriber=self.name,
            slots=tuple(found.bundle),
            core=self._core.number,
            wal_seq=found.entry.wal_seq,
            ingestion_ns=found.entry.ingestion_ns,
        )

    def _hand_out_run(self, found: Found) -> BundleRun:
        table, slots = self._core.manifest.slots, self._wanted.slots
        return BundleRun(
            found.claim,
            Given(self._core, found, self._check_outcome, slots=slots),
            subscriber=self.name,
            slots=tuple(slot.name for slot in table if slots is None or slot.slot_id in slots),
            core=self._core.number,
        )

    def _check_outcome(self) -> None:
        """Raise unless an outcome can be given; needs the lock, so it is in the right process."""
        self._store.check_state()
        self._core.check_open()
        self.check_lease()

    @property
    def closed(self) -> bool:
        """Whether nothing more will come: it was closed, or the store was."""
        return self._is_over

    @property
    def is_paused(self) -> bool:
        """Whether nothing is to be handed out until the subscriber is resumed."""
        with self._core.lock:
            return self._core.registry.member(self.name).paused

    @property
    def store_id(self) -> str:
        """The id of the store, 32 hexadecimal digits."""
        return self._core.manifest.store_id

    def waiting_between(self, core: int, first: Position, stop: Position) -> Position | None:
        """Find the first bundle of a core from ``first`` up to ``stop`` that has no outcome yet."""
        with self._core.lock:
            if core != self._core.number:
                return None
            return waiting_between(self._core, self.name, first, stop=stop)

    def unreadable_between(self, core: int, first: int, stop: int) -> DamageError | None:
        """Say why a segment of a core from ``first`` up to ``stop`` cannot be opened, if so."""
        return unreadable_between(self._core, first, stop) if core == self._core.number else None

    def acked_behind(
        self, places: Mapping[int, Position], slot: str
    ) -> tuple[int, Position] | None:
        """Find a bundle with an outcome, and rows in a slot, not before the place of its core.

        Of those that are here still, and can be read.
        """
        number = self._core.number
        first = places.get(number, Position())
        slot_id = self._core.manifest.slots[slot].slot_id
        found = acked_from(self._core, self.name, first, slot_id=slot_id)
        return None if found is None else (number, found)

    def next_segment(self, core: int) -> int | None:
        """Say which number the next segment of a core has at least; None if that is not known."""
        return next_segment(self._core) if core == self._core.number else None

    def give_back_if_any(self, found: Found | None) -> None:
        """Offer a bundle again that was claimed and not handed out."""
        if found is None:
            return
        with self._core.lock:
            delivery.defer(self._core, found.claim)

    def __iter__(self) -> Iterator[BundleHandle]:
        """Go through bundles as they come, until the store or this subscription is closed."""
        while (handle := self.next()) is not None:
            yield handle

    def close(self) -> None:
        """Stop taking bundles and wake whoever waits; the subscriber stays registered."""
        self._closed = True
        if not self._store.inherited:
            with self._core.lock:
                self._give_back_ahead()
                self._core.announce()

    def _check_open(self) -> None:
        self._core.check_open()
        if self._closed:
            raise ClosedError(f"the subscription {self.name!r} is closed")
        self.check_lease()

    def check_lease(self) -> None:
        """Raise SubscriberError if another process goes on under this name; needs the lock."""
        if self._core.registry.member(self.name).lease != self._lease:
            raise SubscriberError(
                f"another process goes on as the subscriber {self.name!r}",
                hint="what was not acked is delivered there; subscribe again to take it back",
            )

    def __repr__(self) -> str:
        """Name the subscriber."""
        return f"Subscription({self.name!r})"


def check_limit(limit: object) -> None:
    """Raise InputError unless it is a number of bundles."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise InputError(f"limit: {limit!r} is no number of bundles")
