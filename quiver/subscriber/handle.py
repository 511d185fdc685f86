"""A delivered bundle in the consumer's hands, and the four ways it leaves them.

===========================  ==========================================================
how                          what becomes of the bundle
===========================  ==========================================================
``ack()``, or a ``with``     resolved; never delivered to this subscriber again
block that ends well
``nack()``, or a ``with``    delivered again after a while, as the next attempt
block that raises
``defer()``, or a ``with``   delivered again at once, as the same attempt
block left by an interrupt
nothing, handle collected    as ``defer``, with a ResourceWarning
===========================  ==========================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from quiver.errors import InputError, SubscriberError
from quiver.subscriber.member import Claim
from quiver.units import parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BundleHandle", "Delivery"]


class Delivery(Protocol):
    """What a handle asks of the store that it came from; called in the consumer's thread."""

    def read(self, claim: Claim, slot: str) -> pa.RecordBatch:
        """Give the batch of one slot of the claimed bundle."""
        ...

    def ack(self, claim: Claim) -> None:
        """Resolve the bundle; raises if that could not be written down."""
        ...

    def nack(self, claim: Claim, *, retry_after_ns: int | None, reason: str) -> None:
        """Offer the bundle again after a while, or after the configured one if that is None."""
        ...

    def defer(self, claim: Claim) -> None:
        """Offer the bundle again at once."""
        ...

    def defer_later(self, claim: Claim) -> None:
        """Note that the bundle is to be deferred; a garbage collector calls, so take no lock."""
        ...


class BundleHandle(Mapping[str, "pa.RecordBatch"]):
    """A read-only mapping from slot name to RecordBatch that wants an outcome.

    A batch is read when it is first asked for, zero-copy where the segment allows. What was read
    stays readable after the outcome; the rest does not, since the segment may be gone. An outcome
    is given once: a second one raises SubscriberError. One that raises was not given.
    """

    __slots__ = (
        "_batches",
        "_delivery",
        "_outcome",
        "_slots",
        "claim",
        "core",
        "ingestion_ns",
        "subscriber",
        "wal_seq",
    )

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
        """Take over a claim; ``slots`` are the names of those present, in order.

        ``core`` is the number of the core whose segment has the bundle.
        """
        self._outcome: str | None = None
        self._delivery = delivery
        self._slots = tuple(slots)
        self._batches: dict[str, pa.RecordBatch] = {}
        self.claim = claim
        self.subscriber = subscriber
        self.core = core
        self.wal_seq = wal_seq
        self.ingestion_ns = ingestion_ns

    @property
    def segment_seq(self) -> int:
        """The number of the segment that holds the bundle."""
        return self.claim.segment_seq

    @property
    def bundle_index(self) -> int:
        """The bundle's place in its segment, from 0."""
        return self.claim.bundle_index

    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1; it grows with every nack."""
        return self.claim.attempt

    @property
    def resolved(self) -> bool:
        """Whether the handle has its outcome."""
        return self._outcome is not None

    def ack(self) -> None:
        """Say that the bundle is done with.

        It is written down when this returns, and survives a power cut from the next tick on; if
        one comes first the bundle is delivered again.
        """
        self._check_open()
        self._delivery.ack(self.claim)
        self._outcome = "acked"

    def nack(self, retry_after: float | str | None = None, reason: str = "") -> None:
        """Say that it failed: the bundle comes again after ``retry_after``, seconds or ``"5s"``.

        Without it the wait is the configured one, which doubles with each attempt.
        """
        self._check_open()
        if not isinstance(reason, str):
            raise InputError(f"reason: {reason!r} is not a text")
        wait_ns = None if retry_after is None else parse_duration(retry_after, key="retry_after")
        self._delivery.nack(self.claim, retry_after_ns=wait_ns, reason=reason)
        self._outcome = "nacked"

    def defer(self) -> None:
        """Give the bundle back unharmed: it comes again at once, this attempt not counted."""
        self._check_open()
        self._delivery.defer(self.claim)
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

    def __getitem__(self, slot: str) -> pa.RecordBatch:
        """Give the batch of a slot; KeyError if the slot is absent."""
        batch = self._batches.get(slot)
        if batch is None:
            if slot not in self._slots:
                raise KeyError(slot)
            if self.resolved:
                raise SubscriberError(
                    f"slot {slot!r} of {self!r} was not read",
                    hint="read what you need before the outcome; dict(handle) reads all",
                )
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

    def __repr__(self) -> str:
        """Say which bundle it is, for whom, and what became of it."""
        return (
            f"<bundle {self.bundle_index} of segment {self.segment_seq} for {self.subscriber!r}, "
            f"attempt {self.attempt}, {self._outcome or 'open'}>"
        )

    def __del__(self) -> None:
        """Give the bundle back if nobody did."""
        if getattr(self, "_outcome", "") is not None:
            return  # Resolved, or never made.
        self._delivery.defer_later(self.claim)
        text = f"{self!r} was lost without an outcome"
        warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def _check_open(self) -> None:
        if self.resolved:
            raise SubscriberError(f"{self!r} has its outcome already")
