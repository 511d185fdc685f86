"""Batches that are durable and in no segment yet: offered, sent, and known by ``wal_seq`` later.

A subscription gives a bundle when its segment is finished. Who appended it may offer it before,
once its append has returned. What is sent this way is noted here, and settled when the bundle comes
out of its segment; a crash in between delivers it again. An offer is never a promise: what is not
taken of it, or not accepted by the other side, comes by the subscription.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from quiver.otel.batch import Batch
from quiver.otel.delivery.policy import Policy
from quiver.otel.nodes import Accepted, Refused

__all__ = ["Ahead"]

_SETTLED_MAX: Final = 1 << 17
"""Outcomes that are remembered; more than a segment ever has bundles by default."""


class Ahead:
    """The offers of one delivery, from any thread, and the outcomes of those that were sent."""

    def __init__(self, policy: Policy) -> None:
        """Begin with none."""
        self._policy = policy
        self._lock = threading.Lock()
        self._offers: OrderedDict[int, tuple[Batch, int]] = OrderedDict()
        self._bytes = 0
        self._missed_seq = 0
        self._settled: OrderedDict[int, Accepted | Refused] = OrderedDict()

    def offer(self, wal_seq: int, batch: Batch | None) -> None:
        """Take an offer if there is room; without a batch nobody wants it now. Both are missed."""
        parts = [] if batch is None else batch.bundle.values()
        size = sum(each.get_total_buffer_size() for each in parts)  # ``nbytes`` takes much longer.
        with self._lock:
            if (
                batch is None
                or len(self._offers) >= self._policy.offers_max
                or self._bytes + size > self._policy.offers_bytes
            ):
                self._missed_seq = max(self._missed_seq, wal_seq)
                return
            self._offers[wal_seq] = batch, size
            self._bytes += size

    def take_missed(self) -> bool:
        """Say whether any was missed that did not come by the subscription since, and forget it."""
        with self._lock:
            missed, self._missed_seq = self._missed_seq, 0
        return missed > 0

    def take(self) -> tuple[int, Batch] | None:
        """Take the oldest offer."""
        with self._lock:
            if not self._offers:
                return None
            wal_seq, (batch, size) = self._offers.popitem(last=False)
            self._bytes -= size
            return wal_seq, batch

    def withdraw(self, wal_seq: int) -> None:
        """Forget an offer: the bundle came by the subscription."""
        with self._lock:
            _, size = self._offers.pop(wal_seq, (None, 0))
            self._bytes -= size
            if wal_seq >= self._missed_seq:
                self._missed_seq = 0

    def clear(self) -> None:
        """Forget all offers."""
        with self._lock:
            self._offers.clear()
            self._bytes = 0

    def __len__(self) -> int:
        """How many offers wait."""
        return len(self._offers)

    def settle(self, wal_seq: int, outcome: Accepted | Refused) -> None:
        """Note what became of one that was sent."""
        self._settled[wal_seq] = outcome
        if len(self._settled) > _SETTLED_MAX:
            self._settled.popitem(last=False)

    def settled(self, wal_seq: int) -> Accepted | Refused | None:
        """Give what became of a bundle that comes now, and forget it."""
        return self._settled.pop(wal_seq, None)
