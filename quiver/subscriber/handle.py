"""Delivered bundles in the consumer's hands, and the ways they leave them.

===========================  ==========================================================
how                          what becomes of them
===========================  ==========================================================
``ack()``, or a ``with``     resolved; never delivered to this subscriber again
block that ends well
``nack()``, or a ``with``    delivered again after a while, as the next attempt; after
block that raises            ``subscriber.max_attempts`` of them set aside instead
``defer()``, or a ``with``   delivered again at once, as the same attempt
block left by an interrupt
``reject()``                 set aside as a dead letter; never delivered to this
                             subscriber again
nothing, handle collected    as ``defer``, with a ResourceWarning
===========================  ==========================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from quiver.errors import ClosedError, InputError, SubscriberError
from quiver.subscriber.member import Claim
from quiver.units import parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BundleHandle", "BundleRun", "Delivery", "Handle"]


class Delivery(Protocol):
    """What a handle asks of the store that it came from; called in the consumer's thread."""

    def read(self, claim: Claim, slot: str) -> pa.RecordBatch:
        """Give the batch of one slot of the claimed bundle."""
        ...

    def read_run(self, claim: Claim, slot: str) -> pa.Table:
        """Give what all claimed bundles have in one slot, a batch for each of them."""
        ...

    def read_each(self, claim: Claim) -> Iterator[Mapping[str, pa.RecordBatch]]:
        """Go through the claimed bundles."""
        ...

    def ack(self, claim: Claim) -> None:
        """Resolve the bundles; raises if that could not be written down."""
        ...

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        """Offer the bundles again after a while, or after the configured one if that is None."""
        ...

    def reject(self, claim: Claim, *, reason: str) -> None:
        """Set the bundles aside and resolve them; raises if that could not be done."""
        ...

    def defer(self, claim: Claim) -> None:
        """Offer the bundles again at once."""
        ...

    def defer_later(self, claim: Claim) -> None:
        """Note that they are to be deferred; a garbage collector calls, so take no lock."""
        ...


class Handle:
    """A claim that wants an outcome, once: a second one raises SubscriberError.

    An outcome that raises was not given, unless the handle is ``resolved`` then.
    """

    __slots__ = ("__weakref__", "_delivery", "_outcome", "_slots", "claim", "core", "subscriber")

    def __init__(
        self,
        claim: Claim,
        delivery: Delivery,
        *,
        subscriber: str,
        slots: Sequence[str],
        core: int = 0,
    ) -> None:
        """Take over a claim; ``slots`` are the names of those that there are, in order.

        ``core`` is the number of the core whose segment has the bundles.
        """
        self._outcome: str | None = None
        self._delivery = delivery
        self._slots = tuple(slots)
        self.claim = claim
        self.subscriber = subscriber
        self.core = core

    @property
    def segment_seq(self) -> int:
        """The number of the segment that holds what was delivered."""
        return self.claim.segment_seq

    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1; it grows with every nack."""
        return self.claim.attempt

    @property
    def resolved(self) -> bool:
        """Whether the handle has its outcome."""
        return self._outcome is not None

    def ack(self) -> None:
        """Say that it is done with.

        It is written down when this returns, and survives a power cut from the next tick on; if
        one comes first it is delivered again.
        """
        self._check_open()
        self._delivery.ack(self.claim)
        self._outcome = "acked"

    def nack(self, retry_after: float | str | None = None, reason: str = "") -> None:
        """Say that it failed: it comes again after ``retry_after``, seconds or ``"5s"``.

        Without it the wait is the configured one, which doubles with each attempt.
        """
        self._check_open()
        _check_reason(reason)
        wait_ns = None if retry_after is None else parse_duration(retry_after, key="retry_after")
        self._delivery.nack(self.claim, retry_after_ns=wait_ns, reason=reason)
        self._outcome = "nacked"

    def reject(self, reason: str = "") -> None:
        """Say that it will never succeed: it is set aside, readable, and never delivered again.

        The copy and the reason survive a power cut when this returns.
        """
        self._check_open()
        _check_reason(reason)
        self._delivery.reject(self.claim, reason=reason)
        self._outcome = "rejected"

    def defer(self) -> None:
        """Give it back unharmed: it comes again at once, this attempt not counted.

        ClosedError if the store is closed: that gave it back.
        """
        self._check_open()
        try:
            self._delivery.defer(self.claim)
        except ClosedError:
            self._outcome = "deferred"
            raise
        self._outcome = "deferred"

    def __enter__(self) -> Self:
        """Start a block whose end is the outcome, unless one is given inside."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ack after a clean end, nack after an exception, defer after an interrupt."""
        if self.resolved:
            return
        if kind is None:
            self.ack()
        elif issubclass(kind, Exception):
            self.nack(reason=kind.__name__)
        else:
            self.defer()

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Say which bundles they are, for whom, and what became of them."""
        first, count = self.claim.bundle_index, self.claim.count
        what = f"bundle {first}" if count == 1 else f"bundles {first} to {first + count - 1}"
        return (
            f"<{what} of segment {self.segment_seq} for {self.subscriber!r}, "
            f"attempt {self.attempt}, {self._outcome or 'open'}>"
        )

    def __del__(self) -> None:
        """Give the bundles back if nobody did."""
        if getattr(self, "_outcome", "") is not None:
            return  # Resolved, or never made.
        self._delivery.defer_later(self.claim)
        text = f"{self!r} was lost without an outcome"
        warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def _check_open(self) -> None:
        if self._outcome is not None:
            raise SubscriberError(f"{self!r} has its outcome already")

    def _check_slot(self, slot: str) -> None:
        if slot not in self._slots:
            raise KeyError(slot)
        if self._outcome is not None:
            raise SubscriberError(
                f"slot {slot!r} of {self!r} was not read",
                hint="read what you need before the outcome; dict(handle) reads all",
            )


class BundleHandle(Handle, Mapping[str, "pa.RecordBatch"]):
    """One bundle: a read-only mapping from slot name to RecordBatch that wants an outcome.

    A batch is read when it is first asked for, zero-copy where the segment allows. What was read
    stays readable after the outcome; the rest does not, since the segment may be gone.
    """

    __slots__ = ("_batches", "ingestion_ns", "wal_seq")

    def __init__(
        self,
        claim: Claim,
        delivery: Delivery,
        *,
        subscriber: str,
        slots: Sequence[str],
        core: int = 0,
        wal_seq: int | None = None,
        ingestion_ns: int | None = None,
    ) -> None:
        """Take over a claim of one bundle; ``slots`` are the names of those present, in order."""
        super().__init__(claim, delivery, subscriber=subscriber, slots=slots, core=core)
        self._batches: dict[str, pa.RecordBatch] = {}
        self.wal_seq = wal_seq
        self.ingestion_ns = ingestion_ns

    @property
    def bundle_index(self) -> int:
        """The bundle's place in its segment, from 0."""
        return self.claim.bundle_index

    def __getitem__(self, slot: str) -> pa.RecordBatch:
        """Give the batch of a slot; KeyError if the slot is absent."""
        batch = self._batches.get(slot)
        if batch is None:
            self._check_slot(slot)
            batch = self._batches[slot] = self._delivery.read(self.claim, slot)
        return batch

    def __contains__(self, slot: object) -> bool:
        """Whether the slot is present; nothing is read."""
        return slot in self._slots

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the slots that are present; nothing is read."""
        return iter(self._slots)

    def __len__(self) -> int:
        """How many slots are present."""
        return len(self._slots)

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class BundleRun(Handle):
    """Bundles of one segment in a row, with one outcome for all of them.

    Iterating gives each bundle as a mapping from slot name to RecordBatch. The rules for what was
    read are those of ``BundleHandle``.
    """

    __slots__ = ()

    @property
    def bundle_first(self) -> int:
        """The place of the first bundle in its segment, from 0."""
        return self.claim.bundle_index

    def __len__(self) -> int:
        """How many bundles they are."""
        return self.claim.count

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots that may be asked for."""
        return self._slots

    def table(self, slot: str) -> pa.Table:
        """Give the rows of one slot of all bundles, in order; KeyError if there is no such slot.

        It is zero-copy where the segment allows. Where schemas differ, the table has the union of
        their columns, each of the widest type, as a scan has; columns with no common type give
        InputError: iterate over the bundles then. A slot that none of them has gives a table
        without columns.
        """
        self._check_slot(slot)
        return self._delivery.read_run(self.claim, slot)

    def __iter__(self) -> Iterator[Mapping[str, pa.RecordBatch]]:
        """Go through the bundles, in order."""
        if self._outcome is not None:
            raise SubscriberError(f"{self!r} has its outcome already")
        return self._delivery.read_each(self.claim)


def _check_reason(reason: object) -> None:
    if not isinstance(reason, str):
        raise InputError(f"reason: {reason!r} is not a text")
