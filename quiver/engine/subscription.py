"""One subscriber's view of a store: the next bundle, now or when there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from quiver.bundle import RecordBundle
from quiver.engine import delivery
from quiver.engine.core import Core
from quiver.engine.listeners import Listener
from quiver.errors import ClosedError
from quiver.segment import BundleEntry
from quiver.subscriber import BundleHandle, Claim
from quiver.units import SECOND, parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.engine.store import Store

__all__ = ["Found", "Look", "Subscription"]

Found: TypeAlias = tuple[Claim, BundleEntry, RecordBundle]
"""A bundle that was claimed and read, on its way to whoever asked."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look for the next bundle came to."""

    found: Found | None = None
    rest_ns: int | None = None
    """How long to wait for a change before the next look; None without end."""
    is_over: bool = False
    """Whether to look no more: the time is up, or all is closed."""


class Subscription:
    """Bundles for one named subscriber, oldest first; each is claimed until it is resolved.

    Several threads may take from one subscription; a bundle goes to one of them. The position is
    the subscriber's, kept in the store: a new subscription under the same name goes on from there.
    """

    def __init__(self, store: Store, core: Core, name: str) -> None:
        self.name = name
        self._store = store
        self._core = core
        self._closed = False

    def poll(self) -> BundleHandle | None:
        """Claim the next bundle if one is ready; never waits."""
        found = self.claim()
        return None if found is None else self.hand_out(found)

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        """Claim the next bundle, waiting until there is one; None if the timeout passes first.

        ``timeout`` is seconds or a duration such as ``"250ms"``; without one this waits until the
        store is closed, which gives None.
        """
        if not self._store.closed:
            self._store.check_usable()  # Also because a forked child may find the lock taken.
        limit_ns = self.limit_ns(timeout)
        with self._core.lock:
            while True:
                look = self.look(limit_ns)
                if look.found is not None:
                    return self.hand_out(look.found)
                if look.is_over:
                    return None
                self._core.changed.wait(None if look.rest_ns is None else look.rest_ns / SECOND)

    def limit_ns(self, timeout: float | str | None) -> int | None:
        """Give the moment, on the monotonic clock, at which a timeout that begins now is over."""
        if timeout is None:
            return None
        return self._core.clock.monotonic_ns() + parse_duration(timeout, key="timeout")

    def look(self, limit_ns: int | None, listener: Listener | None = None) -> Look:
        """Claim the next bundle, or say how long to wait for one.

        If there is none yet, ``listener`` is called at each change from now on, until it is taken
        out with ``forget``; no change gets lost between the look and the waiting.
        """
        core = self._core
        with core.lock:
            if self._closed or self._store.closed:
                return Look(is_over=True)
            found = self.claim()
            if found is not None:
                return Look(found)
            rest_ns = None if limit_ns is None else limit_ns - core.clock.monotonic_ns()
            if rest_ns is not None and rest_ns <= 0:
                return Look(is_over=True)
            retry_at = core.registry.next_retry_ns(self.name)
            if retry_at is not None:
                until = max(retry_at - core.clock.wall_ns(), 0)
                rest_ns = until if rest_ns is None else min(rest_ns, until)
            if listener is not None:
                core.listeners.add(listener)
            return Look(rest_ns=rest_ns)

    def forget(self, listener: Listener) -> None:
        """Take a listener of ``look`` out; from any thread, without waiting."""
        self._core.listeners.discard(listener)

    def claim(self) -> Found | None:
        """Claim the next bundle if one is ready, without a handle that could get lost."""
        self._store.check_usable()
        with self._core.lock:
            self._core.check_open()
            if self._closed:
                raise ClosedError(f"the subscription {self.name!r} is closed")
            return delivery.next_claim(self._core, self.name)

    def hand_out(self, found: Found) -> BundleHandle:
        """Make the handle of a bundle that was claimed."""
        claim, entry, bundle = found
        return BundleHandle(
            claim,
            _Delivery(self._store, self._core, bundle),
            subscriber=self.name,
            slots=tuple(bundle),
            core=self._core.number,
            wal_seq=entry.wal_seq,
            ingestion_ns=entry.ingestion_ns,
        )

    def give_back_if_any(self, found: Found | None) -> None:
        """Offer a bundle again that was claimed and not handed out."""
        if found is None:
            return
        with self._core.lock:
            delivery.defer(self._core, found[0])

    def __iter__(self) -> Iterator[BundleHandle]:
        """Go through bundles as they come, until the store or this subscription is closed."""
        while (handle := self.next()) is not None:
            yield handle

    def close(self) -> None:
        """Stop taking bundles and wake whoever waits; the subscriber stays registered."""
        self._closed = True
        if not self._store.inherited:
            with self._core.lock:
                self._core.announce()

    def __repr__(self) -> str:
        """Name the subscriber."""
        return f"Subscription({self.name!r})"


class _Delivery:
    """What a handle asks of the store. The bundle was read, and so checked, when it was claimed."""

    def __init__(self, store: Store, core: Core, bundle: RecordBundle) -> None:
        self._store = store
        self._core = core
        self._bundle = bundle

    def read(self, claim: Claim, slot: str) -> pa.RecordBatch:  # noqa: ARG002
        return self._bundle[slot]

    def ack(self, claim: Claim) -> None:
        self._store.check_usable()
        with self._core.lock:
            self._core.check_open()
            delivery.ack(self._core, claim)

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        self._store.check_usable()
        with self._core.lock:
            self._core.check_open()
            delivery.nack(self._core, claim, retry_after_ns, reason=reason)

    def defer(self, claim: Claim) -> None:
        self._store.check_usable()
        with self._core.lock:
            self._core.check_open()
            delivery.defer(self._core, claim)

    def defer_later(self, claim: Claim) -> None:
        self._core.forgotten.append(claim)
