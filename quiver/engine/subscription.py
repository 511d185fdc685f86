"""One subscriber's view of a store: the next bundle, now or when there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from quiver.bundle import RecordBundle
from quiver.engine import delivery
from quiver.engine.core import Core
from quiver.errors import ClosedError
from quiver.subscriber import BundleHandle, Claim
from quiver.units import SECOND, parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from quiver.engine.store import Store

__all__ = ["Subscription"]


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
        self._store.check_usable()
        with self._core.lock:
            if self._closed:
                raise ClosedError(f"the subscription {self.name!r} is closed")
            found = delivery.next_claim(self._core, self.name)
        if found is None:
            return None
        claim, entry, bundle = found
        return BundleHandle(
            claim,
            _Delivery(self._store, self._core, bundle),
            subscriber=self.name,
            slots=tuple(bundle),
            wal_seq=entry.wal_seq,
            ingestion_ns=entry.ingestion_ns,
        )

    def next(self, timeout: float | str | None = None) -> BundleHandle | None:
        """Claim the next bundle, waiting until there is one; None if the timeout passes first.

        ``timeout`` is seconds or a duration such as ``"250ms"``; without one this waits until the
        store is closed, which gives None.
        """
        if not self._store.closed:
            self._store.check_usable()  # Also because a forked child may find the lock taken.
        clock = self._core.clock
        limit = None
        if timeout is not None:
            limit = clock.monotonic_ns() + parse_duration(timeout, key="timeout")
        with self._core.lock:
            while not self._closed and not self._store.closed:
                handle = self.poll()
                if handle is not None:
                    return handle
                rest = None if limit is None else limit - clock.monotonic_ns()
                if rest is not None and rest <= 0:
                    return None
                retry_at = self._core.registry.next_retry_ns(self.name)
                if retry_at is not None:
                    until = max(retry_at - clock.wall_ns(), 0)
                    rest = until if rest is None else min(rest, until)
                self._core.changed.wait(None if rest is None else rest / SECOND)
        return None

    def __iter__(self) -> Iterator[BundleHandle]:
        """Go through bundles as they come, until the store or this subscription is closed."""
        while (handle := self.next()) is not None:
            yield handle

    def close(self) -> None:
        """Stop taking bundles and wake whoever waits; the subscriber stays registered."""
        self._closed = True
        if not self._store.inherited:
            with self._core.lock:
                self._core.changed.notify_all()

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
            delivery.ack(self._core, claim)

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        self._store.check_usable()
        with self._core.lock:
            delivery.nack(self._core, claim, retry_after_ns, reason=reason)

    def defer(self, claim: Claim) -> None:
        self._store.check_usable()
        with self._core.lock:
            delivery.defer(self._core, claim)

    def defer_later(self, claim: Claim) -> None:
        self._core.forgotten.append(claim)
