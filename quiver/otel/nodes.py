"""What the nodes of a pipeline ask of each other: an intake takes batches in, an exporter gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from quiver.otel.batch import Batch
from quiver.otel.signals import Signal

__all__ = [
    "Accepted",
    "Delivered",
    "Exporter",
    "Gather",
    "Intake",
    "Outcome",
    "Place",
    "Refused",
    "Retry",
    "SwiftIntake",
]


class Intake(Protocol):
    """Where a receiver hands over what came. Safe to call from several threads."""

    def take(self, signal: Signal, batches: Sequence[Batch]) -> Accepted | None:
        """Return when all batches are safe; all of them may be sent again after any error.

        ``Accepted`` says that some of their items were rejected for ever, which the sender is told.
        Raises CapacityError if there is no room now, InputError if they can never be taken.
        """


@runtime_checkable
class SwiftIntake(Intake, Protocol):
    """One that need not be waited for."""

    @property
    def has_room(self) -> bool:
        """Whether more is to come now; who can wait a little for that does."""

    @property
    def is_ready(self) -> bool:
        """Whether ``begin`` without waiting takes no longer than its work."""

    def begin(
        self,
        batches: Sequence[Batch],
        done: Callable[[Exception | None], object],
        *,
        wait: bool = True,
    ) -> None:
        """Take batches, and have ``done`` called once: when all are safe, or with what is wrong.

        It may be called from any thread, before this returns too, but not if this raises. Raises
        as ``take`` does; if not told to ``wait``, at once where there is no room. Whoever began
        some calls ``hasten`` behind them.
        """

    @property
    def gather_seconds(self) -> float:
        """How long to wait for more before ``hasten``."""

    def hasten(self) -> None:
        """Have what was begun made safe now."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in a store a batch stands."""

    core: int
    segment_seq: int
    bundle_index: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """A batch on its way out; ``place`` is None if no store lies before the exporter."""

    batch: Batch
    place: Place | None
    attempt: int = 1
    ingestion_ns: int | None = None
    """When its store took it; None if none did."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The other side has it, but for ``rejected`` items that it will never take."""

    rejected: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """Not now: to be sent again, after so many seconds if the other side said so."""

    reason: str
    after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Never: the other side will not take it however often it is sent."""

    reason: str


Outcome: TypeAlias = Accepted | Retry | Refused


@dataclass(frozen=True, slots=True)
class Gather:
    """How much an exporter wants at once: it is called when one of these is reached."""

    batches: int = 1
    items: int = 1 << 62
    linger_seconds: float = 0.0
    needs_place: bool = False
    """Whether it has to know the place of each batch: then it gets it with its segment."""


class Exporter(Protocol):
    """Gives batches to somebody else. One thread calls it."""

    @property
    def gather(self) -> Gather:
        """How much it wants at once."""

    def export(self, delivered: Sequence[Delivered]) -> Sequence[Outcome]:
        """Send all, and say what became of each, in order; raises nothing that a retry mends."""

    def close(self) -> None:
        """Let go of connections; what was accepted stays accepted."""
