"""Entries of a queue with their batches, in order; some of them are fetched ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from quiver.errors import DamageError, MissingError, QuiverError
from quiver.ship.consumer import Batch, CallRange, Descriptor, Fetcher
from quiver.ship.queue import Entry, QueueView
from quiver.ship.shipper.threads import begun_or_done

__all__ = ["Arrival", "arrivals"]

_ASSUMED_BYTES: Final = 64 << 20
"""Of a batch whose entry does not say how large it is."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One entry, and its batch, or why there is none: it is missing or damaged."""

    descriptor: Descriptor
    batch: Batch | None = None
    error: QuiverError | None = None


def arrivals(
    view: QueueView, fetcher: Fetcher, *, fetches: int, memory_bytes: int
) -> Generator[Arrival]:
    """Go through what waited when ``view`` was made.

    Up to ``fetches`` batches, and ``memory_bytes`` of them, are under way. Raises what says
    nothing of a batch: RemoteError, VersionError, CapacityError.
    """
    under: deque[tuple[Descriptor, Future[Batch]]] = deque()
    held = 0
    with ThreadPoolExecutor(fetches, "quiver-restore") as pool:
        try:
            for entry in view.entries():
                found = _descriptor(entry)
                size = found.byte_count or _ASSUMED_BYTES
                while under and (len(under) >= fetches or held + size > memory_bytes):
                    held -= under[0][0].byte_count or _ASSUMED_BYTES
                    yield _arrival(*under.popleft())
                under.append((found, begun_or_done(pool, fetcher.fetch, found)))
                held += size
            while under:
                yield _arrival(*under.popleft())
        finally:
            for _, future in under:
                future.cancel()


def _arrival(descriptor: Descriptor, future: Future[Batch]) -> Arrival:
    try:
        return Arrival(descriptor, future.result())
    except (DamageError, MissingError) as error:
        return Arrival(descriptor, error=error)


def _descriptor(entry: Entry) -> Descriptor:
    size, checksum = entry.batch or (None, None)
    calls = tuple(CallRange(*item) for item in entry.items)
    return Descriptor(entry.sequence, entry.location, calls, size, checksum)
