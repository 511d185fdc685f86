"""Batches that are durable and in no segment yet: offered, sent, and known by ``wal_seq`` later.

A subscription gives a bundle when its segment is finished. Who appended it may offer it before,
once its append has returned. What is accepted this way the store is told, and does not give again;
what is refused, or accepted when its segment was just there, is noted here and settled when the
bundle comes. A crash before its segment is due delivers it again. An offer is never a promise: what
is not taken of it, or not accepted by the other side, comes by the subscription.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from quiver.clock import Clock
from quiver.otel.batch import Batch
from quiver.otel.delivery.policy import Policy
from quiver.otel.delivery.pressure import Pressure
from quiver.otel.nodes import Accepted, Outcome, Refused

__all__ = ["Ahead", "Early"]

Early: TypeAlias = Callable[[Sequence[int]], Sequence[int]]
"""Says that bundles arrived, by ``wal_seq``; gives those that have a segment by now, and come."""

_NEAR: Final = 1 / 8
"""Of all the room there is: what is above may wait, for appends are under way as well."""
_SETTLED_MAX: Final = 1 << 17
"""Outcomes that are remembered; more than a segment ever has bundles by default."""


class Ahead:
    """The offers of one delivery, from any thread, and the outcomes of those that were sent."""

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        *,
        early: Early | None = None,
        pressure: Pressure | None = None,
    ) -> None:
        """Begin with none; ``early`` is told what was accepted, else it is noted here."""
        self._policy, self._clock = policy, clock
        self._early, self._pressure = early, pressure
        self._taken_ns = 0
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

    @property
    def is_pressed(self) -> bool:
        """Whether the process is short of time."""
        return self._pressure is not None and self._pressure.is_high

    @property
    def has_room(self) -> bool:
        """Whether appends leave enough time to send what was offered; so if none of it is taken."""
        policy = self._policy
        count_max, bytes_max = policy.offers_max * _NEAR, policy.offers_bytes * _NEAR
        if (len(self._offers) < count_max and self._bytes < bytes_max) or not self.is_pressed:
            return True
        return self._clock.monotonic_ns() - self._taken_ns > policy.offers_wait

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
            self._taken_ns = self._clock.monotonic_ns()
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

    def settle(self, outcomes: Mapping[int, Outcome]) -> None:
        """Note what became of some that were sent."""
        taken = [seq for seq, outcome in outcomes.items() if isinstance(outcome, Accepted)]
        late = taken if self._early is None or not taken else self._early(taken)
        for seq, outcome in outcomes.items():
            if isinstance(outcome, Refused) or (isinstance(outcome, Accepted) and seq in late):
                self._settled[seq] = outcome
                if len(self._settled) > _SETTLED_MAX:
                    self._settled.popitem(last=False)

    def settled(self, wal_seq: int) -> Accepted | Refused | None:
        """Give what became of a bundle that comes now, and forget it."""
        return self._settled.pop(wal_seq, None)
