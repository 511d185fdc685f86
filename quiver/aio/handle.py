"""A delivered bundle in the hands of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from quiver.aio.call import ask, errand
from quiver.engine.worker import Worker
from quiver.subscriber import BundleHandle

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AsyncBundleHandle"]


class AsyncBundleHandle(Mapping[str, "pa.RecordBatch"]):
    """A read-only mapping from slot name to RecordBatch that wants an outcome, which is awaited.

    ``async with`` acks after a clean end, nacks after an exception, and defers if the task is
    cancelled. An outcome that was asked for is given, also if whoever waits for it is cancelled.
    Reading blocks nobody: the bundle was read and checked when it was claimed.
    """

    __slots__ = ("_handle", "_worker")

    def __init__(self, worker: Worker, handle: BundleHandle) -> None:
        self._worker = worker
        self._handle = handle

    @property
    def subscriber(self) -> str:
        """The name of the subscriber that has it."""
        return self._handle.subscriber

    @property
    def segment_seq(self) -> int:
        """The number of the segment that holds the bundle."""
        return self._handle.segment_seq

    @property
    def bundle_index(self) -> int:
        """The bundle's place in its segment, from 0."""
        return self._handle.bundle_index

    @property
    def wal_seq(self) -> int | None:
        """The number that append gave; None in segments of other writers."""
        return self._handle.wal_seq

    @property
    def ingestion_ns(self) -> int | None:
        """When it was appended, nanoseconds since 1970-01-01 UTC; None as for ``wal_seq``."""
        return self._handle.ingestion_ns

    @property
    def attempt(self) -> int:
        """Which delivery this is, from 1; it grows with every nack."""
        return self._handle.attempt

    @property
    def resolved(self) -> bool:
        """Whether the handle has its outcome."""
        return self._handle.resolved

    async def ack(self) -> None:
        """Say that the bundle is done with; written down when this returns."""
        await self._resolve(self._handle.ack)

    async def nack(self, retry_after: float | str | None = None, reason: str = "") -> None:
        """Say that it failed: the bundle comes again after ``retry_after``, seconds or ``"5s"``."""
        await self._resolve(lambda: self._handle.nack(retry_after, reason))

    async def reject(self, reason: str = "") -> None:
        """Say that it will never succeed: it is set aside, readable, and never delivered again."""
        await self._resolve(lambda: self._handle.reject(reason))

    async def defer(self) -> None:
        """Give the bundle back unharmed: it comes again at once, this attempt not counted."""
        await self._resolve(self._handle.defer)

    async def _resolve(self, act: Callable[[], None]) -> None:
        await ask(self._worker, act, binding=True)

    async def __aenter__(self) -> Self:
        """Start a block whose end is the outcome, unless one is given inside."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ack after a clean end, nack after an exception, defer after a cancellation."""
        if self.resolved:
            return
        if kind is None:
            await self.ack()
        elif issubclass(kind, Exception):
            await self.nack(reason=kind.__name__)
        else:
            # Nothing is awaited: whoever cancels once may well do it twice.
            errand(self._worker, self._handle.defer)

    def __getitem__(self, slot: str) -> pa.RecordBatch:
        """Give the batch of a slot; KeyError if the slot is absent."""
        return self._handle[slot]

    def __contains__(self, slot: object) -> bool:
        """Whether the slot is present."""
        return slot in self._handle

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the slots that are present."""
        return iter(self._handle)

    def __len__(self) -> int:
        """How many slots are present."""
        return len(self._handle)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Say which bundle it is, for whom, and what became of it."""
        return repr(self._handle)
