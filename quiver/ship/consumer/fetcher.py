"""Reads the batch of a descriptor and checks it. Has no state, and goes into other processes.

It never looks at the manifest: it does not see a fence, and to fetch twice is wasteful, no more.
"""

from __future__ import annotations

import contextlib
from typing import Final

from crc32c import crc32c

from quiver.clock import Clock, SystemClock
from quiver.disk import Bytes
from quiver.errors import (
    CapacityError,
    DamagedEntry,
    DamageError,
    InputError,
    MissingError,
    VersionError,
)
from quiver.events import Events
from quiver.metrics import Metrics
from quiver.ship.batch import BLOCK_BYTES_MAX, decode_batch
from quiver.ship.consumer.dead_letters import DeadLetters
from quiver.ship.consumer.values import Batch, CallRange, Descriptor
from quiver.ship.objects import Bucket, own_key
from quiver.units import MILLISECOND

__all__ = ["POISON", "Fetcher"]

POISON: Final = (DamageError, MissingError, VersionError, CapacityError, InputError)
"""What a batch is whose next fetch would fail as well; a store that cannot be reached is not."""


class Fetcher:
    """Fetches batches from one bucket, in any thread; a copy of it in another process too."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        block_bytes_max: int = BLOCK_BYTES_MAX,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._bucket = bucket
        self._block_bytes_max = block_bytes_max
        self._clock = clock or SystemClock()
        self._metrics = metrics

    def fetch(self, descriptor: Descriptor) -> Batch:
        """Read the batch. Raises MissingError, DamageError, VersionError, RemoteError.

        What looks damaged is read once more before that is said.
        """
        begun_ns = self._clock.monotonic_ns()
        try:
            batch = self._read(descriptor)
        except DamageError:
            batch = self._read(descriptor)
        if self._metrics is not None:
            self._metrics.observe("quiver.ship.fetch", self._clock.monotonic_ns() - begun_ns)
            self._metrics.add("quiver.ship.collected_batches")
            self._metrics.add("quiver.ship.collected_records", len(batch.records))
            self._metrics.add("quiver.ship.collected_bytes", batch.byte_count)
        return batch

    def fetch_or_set_aside(self, descriptor: Descriptor) -> Batch | None:
        """Read the batch; one that is missing or damaged becomes a dead letter, and this None."""
        try:
            return self.fetch(descriptor)
        except POISON as error:
            self.set_aside(descriptor, error)
            return None

    def set_aside(self, descriptor: Descriptor, error: Exception) -> str:
        """Make a dead letter of an entry for good, and give its key."""
        data: Bytes | None = None
        with contextlib.suppress(MissingError, InputError):  # Then nothing could be kept.
            data = self._bucket.read(own_key(self._bucket, descriptor.location))
        time_ms = self._clock.wall_ns() // MILLISECOND
        letters = DeadLetters(self._bucket)
        key = letters.add(descriptor, error, time_ms=time_ms, data=data)
        if self._metrics is not None:
            self._metrics.add("quiver.ship.dead_letters")
        events = Events(queue=self._bucket.place)
        events.warning("ship.dead_letter", sequence=descriptor.sequence, key=key, error=error)
        events.tell()
        return key

    def _read(self, descriptor: Descriptor) -> Batch:
        location = descriptor.location
        data = memoryview(self._bucket.read(own_key(self._bucket, location))).cast("B")
        _check(descriptor, data)
        try:
            records = decode_batch(data, block_bytes_max=self._block_bytes_max)
        except DamageError as error:
            raise error.at(location) from None
        calls = descriptor.calls
        starts = [call.start for call in calls]
        if starts != sorted(starts) or (starts and starts[-1] > len(records)):
            raise DamagedEntry(
                "calls of an entry do not fit its batch",
                path=location,
                expected=f"in order, within {len(records)} records",
                found=starts[-1],
            )
        kept, fewer = _without(records, calls, frozenset(descriptor.repeats))
        return Batch(descriptor.sequence, location, kept, fewer, len(data))

    def __getstate__(self) -> tuple[Bucket, int]:
        """Travel with the bucket, which opens itself where it arrives."""
        return self._bucket, self._block_bytes_max

    def __setstate__(self, state: tuple[Bucket, int]) -> None:
        """Arrive: clock and counters are those of this process."""
        self._bucket, self._block_bytes_max = state
        self._clock, self._metrics = SystemClock(), None

    def __repr__(self) -> str:
        """Say where it reads."""
        return f"Fetcher({self._bucket.place!r})"


def _check(descriptor: Descriptor, data: memoryview) -> None:
    """Hold the object to what its entry says."""
    if descriptor.byte_count is not None and len(data) != descriptor.byte_count:
        raise DamagedEntry(
            "the size of a batch is wrong",
            path=descriptor.location,
            expected=descriptor.byte_count,
            found=len(data),
        )
    if descriptor.crc32c is not None and (found := crc32c(data)) != descriptor.crc32c:
        raise DamagedEntry(
            "the checksum of a batch is wrong",
            path=descriptor.location,
            expected=f"{descriptor.crc32c:#010x}",
            found=f"{found:#010x}",
        )


def _without(
    records: list[memoryview], calls: tuple[CallRange, ...], repeats: frozenset[int]
) -> tuple[list[memoryview], tuple[CallRange, ...]]:
    """Leave out what was delivered before; records before the first call belong to none."""
    if not repeats:
        return records, calls
    kept = records[: calls[0].start]
    fewer = []
    for index, call in enumerate(calls):
        end = calls[index + 1].start if index + 1 < len(calls) else len(records)
        if index not in repeats:
            fewer.append(CallRange(len(kept), call.ingestion_time_ms, call.metadata))
            kept += records[call.start : end]
    return kept, tuple(fewer)
