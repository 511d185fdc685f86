"""Who takes what a receiver brings: a store, processors, an exporter, or several of these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from quiver.engine import Receipt, Store
from quiver.errors import CapacityError, InputError, QuiverError
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Intake
from quiver.otel.signals import Signal

__all__ = ["Broadcast", "Follower", "Process", "Processed", "RoundRobin", "StoreIntake"]

Process: TypeAlias = Callable[[Batch], Sequence[Batch]]
"""What processors make of a batch: none of it, another one, or several."""


_GATHER_SECONDS: Final = 0.002
"""As long as a sync takes or so."""


class Follower(Protocol):
    """Whoever is told of bundles as soon as they are durable."""

    @property
    def has_room(self) -> bool:
        """Whether more is to be appended now, if that can wait."""

    @property
    def is_pressed(self) -> bool:
        """Whether the process is short of time."""

    def offer(self, wal_seq: int, batch: Batch) -> None:
        """Offer a bundle that was just appended and is durable; nothing waits."""


class StoreIntake:
    """Appends to a store, and returns when all of it survives a power cut."""

    def __init__(self, store: Store, *, wait_seconds: float) -> None:
        """``wait_seconds`` is how long to wait for room in a store that is full."""
        self._store = store
        self._wait_seconds = wait_seconds
        self.followers: tuple[Follower, ...] = ()

    def take(self, signal: Signal, batches: Sequence[Batch]) -> Accepted | None:  # noqa: ARG002 Each batch says it.
        """Return when all batches are durable; many callers share one sync.

        Raises what ``Store.append`` raises. Batches before the one that failed are stored then, and
        come twice when all are sent again.
        """
        receipts = self._append(batches, self._wait_seconds)
        for receipt in receipts:
            receipt.wait()
        self._offer(receipts, batches)
        return None

    @property
    def has_room(self) -> bool:
        """Whether more is to come now; else it may wait a little, so that exporters keep up."""
        return all(follower.has_room for follower in self.followers)

    @property
    def is_ready(self) -> bool:
        """Whether ``begin``, told not to wait, waits for nothing but a lock."""
        return self._store.is_ready

    def begin(
        self,
        batches: Sequence[Batch],
        done: Callable[[Exception | None], object],
        *,
        wait: bool = True,
    ) -> None:
        """Do the same, and return before; ``done`` is called, by the store, when all are durable.

        A batch is durable when those are that were appended after it, unless the disk refused it,
        and it is refused before those.
        """
        receipts = self._append(batches, self._wait_seconds if wait else 0.0)

        def tell(error: Exception | None) -> None:
            error = error or _refusal(receipts[:-1])
            try:
                if error is None:
                    self._offer(receipts, batches)
            finally:
                done(error)  # It is durable, whatever became of an offer.

        receipts[-1].call(tell)

    @property
    def gather_seconds(self) -> float:
        """Let a sync be for more of them where time is short."""
        return _GATHER_SECONDS if any(each.is_pressed for each in self.followers) else 0.0

    def hasten(self) -> None:
        """Have what was begun synced now."""
        self._store.hasten()

    def _append(self, batches: Sequence[Batch], seconds: float) -> list[Receipt]:
        return [self._store.append(each.bundle, wait=False, timeout=seconds) for each in batches]

    def _offer(self, receipts: Sequence[Receipt], batches: Sequence[Batch]) -> None:
        for receipt, batch in zip(receipts, batches, strict=True):
            for follower in self.followers:
                follower.offer(receipt.wal_seq, batch)


def _refusal(receipts: Sequence[Receipt]) -> QuiverError | None:
    """Say why one of these was refused, if a later one is durable; nothing is waited for then."""
    for receipt in receipts:
        try:
            receipt.wait()
        except QuiverError as error:
            return error
    return None


class Processed:
    """Hands on what processors leave; if that is nothing, all of it is taken."""

    def __init__(self, process: Process, target: Intake) -> None:
        self._process, self._target = process, target

    def take(self, signal: Signal, batches: Sequence[Batch]) -> Accepted | None:
        """Return when what is left is safe."""
        left = [each for batch in batches for each in self._process(batch)]
        return self._target.take(signal, left) if left else None


class Broadcast:
    """Hands everything to each target; returns when every one has it."""

    def __init__(self, targets: Sequence[Intake]) -> None:
        self._targets = tuple(targets)

    def take(self, signal: Signal, batches: Sequence[Batch]) -> Accepted | None:
        """Try all, also behind one that fails, whose error is raised then.

        One that may be gone on with when it is sent again goes above one that is for ever.
        """
        failed: list[QuiverError] = []
        rejected: Accepted | None = None
        for target in self._targets:
            try:
                told = target.take(signal, batches)
            except QuiverError as error:
                failed.append(error)
                continue
            if told is not None and (rejected is None or told.rejected > rejected.rejected):
                rejected = told
        failed.sort(key=lambda error: isinstance(error, InputError))
        if failed:
            raise failed[0]
        return rejected


class RoundRobin:
    """Hands each request to one target, the next one each time; returns when that has it."""

    def __init__(self, targets: Sequence[Intake]) -> None:
        self._targets = tuple(targets)
        self._lock = threading.Lock()
        self._next = 0

    def take(self, signal: Signal, batches: Sequence[Batch]) -> Accepted | None:
        """Go on to the following targets if one cannot take it now."""
        with self._lock:
            first, self._next = self._next, (self._next + 1) % len(self._targets)
        failed: QuiverError = CapacityError("there is nobody to hand it to")
        for step in range(len(self._targets)):
            target = self._targets[(first + step) % len(self._targets)]
            try:
                return target.take(signal, batches)
            except InputError:
                raise
            except QuiverError as error:
                failed = error
        raise failed
