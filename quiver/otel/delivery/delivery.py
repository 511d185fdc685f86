"""From a subscription of a store to an exporter: each bundle until it is acked or set aside.

::

    claim -> processors -> gather -> export -> accepted: ack
                                            -> not now:  nack, for longer each time
                                            -> never:    reject, a dead letter of the store

An outcome is written down behind the answer and never before, so whatever ends the process, what
was not answered comes again. When nothing of a call was taken, nothing is sent for a while: so a
receiver that is down gets a few batches each time, in their order, while one batch that alone fails
waits for itself and lets others by.

Bundles that are durable may be offered before their segment is finished: see ``ahead``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from quiver.bundle import RecordBundle
from quiver.clock import Clock
from quiver.engine import Subscription
from quiver.errors import (
    CapacityError,
    ClosedError,
    DamageError,
    InputError,
    PoisonedError,
    QuiverError,
    StorageError,
)
from quiver.metrics import Metrics
from quiver.otel.batch import Batch, of_bundle
from quiver.otel.delivery.ahead import Ahead, Early
from quiver.otel.delivery.item import Item
from quiver.otel.delivery.policy import Gate, Policy
from quiver.otel.delivery.pressure import Pressure
from quiver.otel.delivery.report import Report
from quiver.otel.nodes import Accepted, Delivered, Exporter, Outcome, Refused, Retry
from quiver.subscriber import BundleHandle
from quiver.units import SECOND

__all__ = ["Convert", "Delivery"]

Convert: TypeAlias = Callable[[Batch], Batch | None]
"""What processors make of a batch; None if nothing is left of it."""


class Delivery:
    """Gives all bundles of one subscriber to one exporter; ``run`` is for a thread of its own."""

    def __init__(
        self,
        subscription: Subscription,
        exporter: Exporter,
        *,
        clock: Clock,
        convert: Convert | None = None,
        finish: Callable[[], object] | None = None,
        early: Early | None = None,
        pressure: Pressure | None = None,
        policy: Policy | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Take both over; the exporter is closed at the end, the store is not.

        ``finish`` makes segments of all that is durable: it is called when there is nothing else to
        send, and there was no room for an offer since. ``early`` tells the store what was accepted
        before its segment is there, so that it does not come again; without it that is noted here.
        """
        self.name = subscription.name
        self.report = Report(self.name, metrics)
        self.failure: QuiverError | None = None
        self._subscription = subscription
        self._exporter = exporter
        self._clock = clock
        self._convert = convert
        self._finish = finish
        self._policy = policy or Policy()
        self._gate = Gate(self._policy, self.name)
        self._ahead = Ahead(self._policy, clock, early=early, pressure=pressure)
        self._items: list[Item] = []
        self._item_count = 0
        self._begun_ns = 0
        self._owed: deque[tuple[Item, Outcome]] = deque()
        self._bell = threading.Event()
        self._until_ns: int | None = None
        self._is_over = False
        self._is_empty = False
        self._retry_rest_ns: int | None = None

    # from other threads --------------------------------------------------------------------------

    def offer(self, wal_seq: int, batch: Batch) -> None:
        """Offer a bundle that was just appended and is durable; nothing waits."""
        if self._exporter.gather.needs_place or self._until_ns is not None:
            return
        self._ahead.offer(wal_seq, None if self.is_blocked else batch)
        self._bell.set()

    @property
    def is_pressed(self) -> bool:
        """Whether the process is short of time."""
        return self._ahead.is_pressed

    @property
    def has_room(self) -> bool:
        """Whether appends leave enough time to send what was offered; so if it is held up."""
        return self._ahead.has_room or self.is_blocked or self._until_ns is not None

    def stop(self, seconds: float = 0.0) -> None:
        """Let ``run`` end when all that there is was delivered, or after so long.

        A call that is under way then is waited for. May be called again, with less time.
        """
        self._until_ns = self._clock.monotonic_ns() + int(seconds * SECOND)
        self._bell.set()

    @property
    def is_blocked(self) -> bool:
        """Whether nothing is sent just now, because nothing was taken before."""
        return self._gate.rest_ns(self._clock.monotonic_ns()) > 0

    @property
    def held_batches(self) -> int:
        """How many batches are in hand."""
        return len(self._items) + len(self._owed)

    @property
    def offered_batches(self) -> int:
        """How many batches wait that are durable and in no segment yet."""
        return len(self._ahead)

    # the loop ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Deliver until ``stop``, or until the store is closed; then close the exporter.

        ``failure`` is what made an end of it, if it was not asked for.
        """
        try:
            while not self._is_over:
                self._bell.clear()
                rest = self.step()
                if not self._is_over and (rest is None or rest > 0):
                    self._bell.wait(rest)
        except PoisonedError as error:
            self.failure = error
            self.report.failed(error)
        except ClosedError:
            pass  # The store is closed: what is in hand comes again.
        except QuiverError as error:
            self.failure = error
            self.report.failed(error)
        except Exception as error:
            self.failure = QuiverError(f"a fault of quiver's own: {type(error).__name__}")
            self.report.failed(self.failure)
            raise
        finally:
            self.close()

    def step(self) -> float | None:
        """Do what can be done now; give the seconds until there may be more, None without end."""
        now = self._clock.monotonic_ns()
        if self._is_late(now):
            self._is_over = True
            return 0.0
        if self._owed and not self._write_down():
            return self._rest()
        if not self._gate.rest_ns(now):
            self._gather()
        if self._items and self._is_due(now):
            self._send()
            return 0.0
        if self._until_ns is not None and self._is_empty and self._retry_rest_ns is None:
            self._is_over = not self._owed
        return self._rest()

    def _is_late(self, now: int) -> bool:
        return self._until_ns is not None and now >= self._until_ns

    def _rest(self) -> float | None:
        now = self._clock.monotonic_ns()  # What was done meanwhile may have taken long.
        rests = [] if self._until_ns is None else [self._until_ns - now]
        if (closed_ns := self._gate.rest_ns(now)) > 0:
            rests.append(closed_ns)
        elif self._items:
            rests.append(self._begun_ns + self._linger_ns - now)
        elif self._retry_rest_ns is not None:
            rests.append(self._retry_rest_ns)
        return max(min(rests), 0) / SECOND if rests else None

    @property
    def _linger_ns(self) -> int:
        return int(self._exporter.gather.linger_seconds * SECOND)

    def _is_due(self, now: int) -> bool:
        gather = self._exporter.gather
        return (
            len(self._items) >= gather.batches
            or self._item_count >= gather.items
            or (self._is_empty and now - self._begun_ns >= self._linger_ns)
            or (self._is_empty and self._until_ns is not None)
        )

    # take ----------------------------------------------------------------------------------------

    def _gather(self) -> None:
        gather = self._exporter.gather
        self._is_empty, self._retry_rest_ns = False, None
        while len(self._items) < gather.batches and self._item_count < gather.items:
            try:
                look = self._subscription.look(None, self._bell.set)
            except (CapacityError, StorageError) as error:  # It tells when it will not pass.
                self.report.unread(error)
                self._gate.fail(self._clock.monotonic_ns())
                return
            if look.is_over:
                self._is_over = self._is_empty = True
                return
            if look.found is not None:
                self._arrive(self._subscription.hand_out(look.found))
            elif self._take_offers() or self._have_finished():
                pass
            else:
                self._is_empty, self._retry_rest_ns = True, look.rest_ns
                return
            now = self._clock.monotonic_ns()
            if self._gate.rest_ns(now) or self._owed or self._is_late(now):
                return

    def _arrive(self, handle: BundleHandle) -> None:
        """Take a bundle in hand, unless it was sent before it came out of its segment."""
        seq = handle.wal_seq
        item = Item(handle, seq)
        if seq is not None:
            sent = self._ahead.settled(seq)
            if sent is not None:
                self._settle(item, sent)
                return
            self._ahead.withdraw(seq)
            for other in self._items:
                if other.handle is None and other.wal_seq == seq:
                    other.handle = handle
                    return
        try:
            batch = of_bundle(RecordBundle({name: handle[name] for name in handle}))
        except InputError as error:
            self._refuse(item, None, str(error))
            return
        self._take(item, batch)

    def _take_offers(self) -> bool:
        """Take bundles that were offered, as many as fit; says whether there was one."""
        if not len(self._ahead):
            return False
        if self._until_ns is not None or self._subscription.is_paused:
            self._ahead.clear()
            return False
        gather = self._exporter.gather
        while len(self._items) < gather.batches and self._item_count < gather.items:
            offer = None if self._owed else self._ahead.take()
            if offer is None:
                break
            self._take(Item(None, offer[0]), offer[1])
        return True

    def _have_finished(self) -> bool:
        """Have segments made of what there was no room for, once; says whether that was done."""
        if self._finish is None or self._items or self._until_ns is not None:
            return False
        if self._subscription.is_paused or not self._ahead.take_missed():
            return False
        try:
            self._finish()
        except (CapacityError, StorageError) as error:  # They come when the store has made them.
            self.report.unread(error)
            return False
        return True

    def _take(self, item: Item, batch: Batch) -> None:
        try:
            left = batch if self._convert is None else self._convert(batch)
        except InputError as error:
            self._refuse(item, batch, f"it cannot be processed: {error}")
            return
        except Exception as error:  # noqa: BLE001 A processor that fails must not end the others.
            self._settle(item, Retry(f"it was not processed: {type(error).__name__}"))
            self._gate.fail(self._clock.monotonic_ns())
            return
        count = 0 if left is None else left.items
        self.report.dropped(batch, batch.items - count)
        if left is None or not count:
            self._settle(item, Accepted())
            return
        item.batch = left
        if not self._items:
            self._begun_ns = self._clock.monotonic_ns()
        self._items.append(item)
        self._item_count += count

    # send ----------------------------------------------------------------------------------------

    def _send(self) -> None:
        items, self._items, self._item_count = self._items, [], 0
        self._is_empty = False
        delivered = [
            Delivered(item.batch, item.place, item.attempt, item.ingestion_ns)
            for item in items
            if item.batch is not None
        ]
        begun = self._clock.monotonic_ns()
        outcomes = self._export(delivered)
        now = self._clock.monotonic_ns()
        self.report.told(delivered, outcomes, took_ns=now - begun)
        later = [outcome for outcome in outcomes if isinstance(outcome, Retry)]
        if len(later) == len(outcomes):
            self._gate.fail(now, max((each.after_seconds or 0.0 for each in later), default=0.0))
        else:
            self._gate.succeed()
        told = list(zip(items, outcomes, strict=True))
        self._owed.extend(each for each in told if each[0].handle is not None)
        ahead = {item.wal_seq or 0: outcome for item, outcome in told if item.handle is None}
        self.report.went_ahead(sum(isinstance(each, Accepted) for each in ahead.values()))
        self._ahead.settle(ahead)
        self._write_down()

    def _export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        try:
            outcomes = self._exporter.export(delivered)
        except QuiverError as error:
            return [Retry(str(error))] * len(delivered)
        except Exception as error:  # noqa: BLE001 What is in hand is not lost by a fault of ours.
            return [Retry(f"the exporter failed: {type(error).__name__}")] * len(delivered)
        if len(outcomes) != len(delivered):
            return [Retry("the exporter did not say what became of each")] * len(delivered)
        return outcomes

    def _refuse(self, item: Item, batch: Batch | None, reason: str) -> None:
        """Set a batch aside that was never sent."""
        refused = Refused(reason)
        self.report.refused(batch, refused)
        self._settle(item, refused)

    def _settle(self, item: Item, outcome: Outcome) -> None:
        """Write down what became of a batch, or note it until it comes out of its segment."""
        if item.handle is None:
            self._ahead.settle({item.wal_seq or 0: outcome})
        else:
            self._owed.append((item, outcome))
            if len(self._owed) == 1:
                self._write_down()

    def _write_down(self) -> bool:
        """Write outcomes into the store; False if it has no room, and it is tried again later."""
        while self._owed:
            item, outcome = self._owed[0]
            try:
                self._write_one(item, outcome)
            except (CapacityError, StorageError) as error:
                self.report.owes(error)
                self._gate.fail(self._clock.monotonic_ns())
                return False
            self._owed.popleft()
        return True

    def _write_one(self, item: Item, outcome: Outcome) -> None:
        handle = item.handle
        if handle is None or handle.resolved:
            return
        if isinstance(outcome, Accepted):
            handle.ack()
        elif isinstance(outcome, Refused):
            try:
                handle.reject(outcome.reason)
            except DamageError as error:  # Whoever claims it next meets that, and sets it aside.
                handle.nack(self._policy.retry_first / SECOND, f"{outcome.reason}; {error}")
        else:
            key = f"{self.name} {item.place} {handle.attempt}"
            wait_ns = self._policy.delay_ns(handle.attempt, outcome.after_seconds, key=key)
            handle.nack(wait_ns / SECOND, outcome.reason)

    def close(self) -> None:
        """Give back what is in hand, and close the exporter; ``run`` does it at its end."""
        self._subscription.forget(self._bell.set)
        held = [item for item, _ in self._owed] + self._items
        self._items, self._item_count = [], 0
        self._owed.clear()
        self._ahead.clear()
        for item in held:
            if item.handle is not None and not item.handle.resolved:
                try:
                    item.handle.defer()
                except QuiverError:  # Of a store that is closed, which gave it back itself.
                    continue
        self._exporter.close()
