"""One batch on its way: its bytes, its name, its upload, and its entry in the queue.

A sweeper deletes what nobody names once it is older than the grace. So an upload that took long
is not appended: it goes up again under a name of now. And after an append that came late the batch
is looked for, and put again if it is gone, while its bytes are still here.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from quiver.clock import Clock
from quiver.errors import RemoteError
from quiver.metrics import Metrics
from quiver.ship.batch import Compression, EncodedBatch, Entropy, encode_batch, mint_name
from quiver.ship.counting import WriteTally
from quiver.ship.objects import UnclearError, root_key
from quiver.ship.producer.gathering import Load
from quiver.ship.producer.handle import Durable
from quiver.ship.queue import Batch, NewEntry, Queue

__all__ = ["Sender"]

_UPLOADS_MAX: Final = 3


class _Moment(NamedTuple):
    wall_ns: int
    monotonic_ns: int


class Sender:
    """Sends batches one after the other; used by one thread."""

    def __init__(
        self,
        queue: Queue,
        *,
        compression: Compression,
        late_ns: int,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
    ) -> None:
        self._queue, self._bucket = queue, queue.bucket
        self._compression: Compression = compression
        self._late_ns = late_ns
        self._clock, self._entropy, self._metrics = clock, entropy, metrics
        self.tally = WriteTally(queue.counters, metrics, "producer")

    def send(self, load: Load) -> Durable:
        """Make a batch durable and give its place in the queue.

        Raises UnclearError if nobody knows whether it is in, and any other error if it is not.
        """
        begun_ns = self._clock.monotonic_ns()
        try:
            return self._send(load, begun_ns)
        except BaseException:
            self._metrics.add("quiver.ship.flush_failures")
            raise
        finally:
            self.tally.note()

    def _send(self, load: Load, begun_ns: int) -> Durable:
        records = load.records()
        encoded = encode_batch(records, compression=self._compression)
        key, named = self._upload(encoded)
        location = root_key(self._bucket, key)
        entry = NewEntry(location, load.items(), Batch(encoded.byte_count, encoded.crc32c))
        try:
            sequence = self._append(entry)
        except UnclearError:
            if self._is_late(named):  # Should it be in, let it not hold up who consumes.
                with suppress(RemoteError):
                    self._put_if_gone(key, encoded)
            raise
        if self._is_late(named):
            self._see_that_it_is_there(key, encoded)
        took_ns = self._clock.monotonic_ns() - begun_ns
        self._metrics.observe("quiver.ship.flush", took_ns)
        self._metrics.add("quiver.ship.flushed_batches")
        self._metrics.add("quiver.ship.flushed_records", len(records))
        self._metrics.add("quiver.ship.flushed_bytes", load.size)
        self._metrics.add("quiver.ship.written_bytes", encoded.byte_count)
        return Durable(sequence, location)

    def _append(self, entry: NewEntry) -> int:
        (sequence,) = self._queue.append(entry)
        if sequence is None:
            raise AssertionError("an entry without segments was left out")
        return sequence

    def _upload(self, encoded: EncodedBatch) -> tuple[str, _Moment]:
        """Put the batch, and give its key and when that was minted."""
        for _ in range(_UPLOADS_MAX):
            named = self._now()
            key = mint_name(named.wall_ns, self._entropy)
            try:
                self._bucket.write(key, encoded.parts)
            except UnclearError as error:
                raise _not_in(error) from error
            if not self._is_late(named):
                return key, named
            self._metrics.add("quiver.ship.late_uploads")
        raise RemoteError(
            f"a batch of {encoded.byte_count:,} bytes could not be put in time, "
            f"{_UPLOADS_MAX} times",
            path=self._bucket.place,
            retryable=True,
            hint="it is not in the queue; make flush_size smaller",
        )

    def _now(self) -> _Moment:
        return _Moment(self._clock.wall_ns(), self._clock.monotonic_ns())

    def _is_late(self, named: _Moment) -> bool:
        """Whether too much time has passed by either clock: one of them stands while we sleep."""
        now = self._now()
        passed = (now.wall_ns - named.wall_ns, now.monotonic_ns - named.monotonic_ns)
        return max(passed) > self._late_ns

    def _see_that_it_is_there(self, key: str, encoded: EncodedBatch) -> None:
        """Put a batch again which a sweeper may have deleted before it was named."""
        try:
            self._put_if_gone(key, encoded)
        except RemoteError as error:
            raise UnclearError(
                f"a batch came late into the queue, and nobody knows if it is still there: "
                f"{error.message}",
                path=self._bucket.place,
                retryable=True,
                hint="produce it again; it may then be in the queue twice",
            ) from error

    def _put_if_gone(self, key: str, encoded: EncodedBatch) -> None:
        if not any(each.key == key for each in self._bucket.list(key)):
            self._bucket.write(key, encoded.parts)


def _not_in(error: UnclearError) -> RemoteError:
    """Say that a batch whose upload is unclear is not in the queue, for nothing names it."""
    return RemoteError(
        f"a batch could not be put: {error.message}",
        path=error.path,
        retryable=True,
        hint="it is not in the queue: produce it again",
    )
