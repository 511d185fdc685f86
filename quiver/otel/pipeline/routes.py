"""Who takes what a receiver brings: a store, processors, an exporter, or several of these."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from quiver.engine import Store
from quiver.errors import CapacityError, InputError, QuiverError
from quiver.otel.batch import Batch
from quiver.otel.nodes import Accepted, Intake
from quiver.otel.signals import Signal

__all__ = ["Broadcast", "Follower", "Process", "Processed", "RoundRobin", "StoreIntake"]

Process: TypeAlias = Callable[[Batch], Sequence[Batch]]
"""What processors make of a batch: none of it, another one, or several."""


class Follower(Protocol):
    """Whoever is told of bundles as soon as they are durable."""

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
        receipts = [
            self._store.append(batch.bundle, wait=False, timeout=self._wait_seconds)
            for batch in batches
        ]
        for receipt in receipts:
            receipt.wait()
        for receipt, batch in zip(receipts, batches, strict=True):
            for follower in self.followers:
                follower.offer(receipt.wal_seq, batch)
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
