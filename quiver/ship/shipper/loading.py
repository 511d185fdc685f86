"""Segments that go out together: made ready, joined into one batch, and put into the bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from quiver.clock import Clock
from quiver.consumer import Pending
from quiver.disk import Bytes
from quiver.errors import DamagedEntry, MissingError, QuiverError
from quiver.ship.batch import (
    BLOCK_BYTES_MAX,
    COMPRESSIONS,
    Compression,
    Entropy,
    encode_batch,
    encode_parts,
    mint_name,
    sum_parts,
)
from quiver.ship.objects import Bucket, own_key, root_key
from quiver.ship.queue import Batch, Entry, Item, NewEntry, Span
from quiver.ship.shipper.cargo import Cargo, Packer
from quiver.ship.shipper.format import ShippedSegment, encode_payload
from quiver.ship.shipper.threads import begun
from quiver.units import MILLISECOND, SECOND

__all__ = ["Loaded", "Loader"]

_LENGTH_BYTES: Final = 4
"""Before each record of a batch."""
_LATE_NS: Final = 300 * SECOND
"""Less than any sweeper waits, by as much as an append may take."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of segments that were to go out together, or of the first of them.

    ``entry`` is None if nothing of them is to be appended. A segment with bundles that are to be
    rejected is the first of its batch, so that all that is older has its outcome before: it is in
    ``rest`` otherwise, with all behind it.
    """

    cargo: tuple[Cargo, ...]
    entry: NewEntry | None
    put_ns: int
    """When the put began, by the clock that never goes back."""
    put_wall_ns: int
    """And by the other one: the first stands still while a machine sleeps."""
    rest: tuple[Pending, ...] = ()
    error: QuiverError | None = None
    """Why the first of ``rest`` cannot be had."""

    def is_late(self, clock: Clock) -> bool:
        """Whether its object is so old that a sweeper may take it soon, if nobody names it."""
        ages = clock.monotonic_ns() - self.put_ns, clock.wall_ns() - self.put_wall_ns
        return max(ages) > _LATE_NS

    @property
    def has_rejected(self) -> bool:
        """Whether bundles of it are to be rejected before it is appended."""
        return any(cargo.rejected for cargo in self.cargo)


class Loader:
    """Makes batches and puts them, in any thread."""

    def __init__(
        self,
        packer: Packer,
        bucket: Bucket,
        *,
        compression: Compression,
        clock: Clock,
        entropy: Entropy,
        readers: int = 1,
    ) -> None:
        """Read ``readers`` segments of a batch at a time."""
        self._packer, self._bucket, self._readers = packer, bucket, readers
        self._compression: Compression = compression
        self._clock, self._entropy = clock, entropy

    def load(self, pending: Sequence[Pending]) -> Loaded:
        """Make segments ready and put them as one object; raises RemoteError, UnclearError."""
        cargo, error = self._pack(pending)
        records = [each.record for each in cargo if each.segment is not None]
        put_ns, put_wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        entry = None
        if records:
            parts = encode_parts(records, compression=self._compression_of(records))
            name = mint_name(self._clock.wall_ns(), self._entropy)
            batch = self._put(name, parts)
            entry = NewEntry(root_key(self._bucket, name), self._items(cargo), batch, _spans(cargo))
        for each in cargo:
            each.let_go()
        rest = tuple(pending[len(cargo) :])
        return Loaded(tuple(cargo), entry, put_ns, put_wall_ns, rest, error)

    def _put(self, name: str, parts: Sequence[Bytes]) -> Batch:
        """Put an object and say what it is: the checksum is made while the bucket is waited for."""
        if self._readers == 1:
            batch = Batch(*sum_parts(parts))
            self._bucket.write(name, parts)
            return batch
        with ThreadPoolExecutor(1, "quiver-sum") as pool:
            summed = begun(partial(pool.submit, sum_parts, parts))
            self._bucket.write(name, parts)
            return Batch(*(sum_parts(parts) if summed is None else summed.result()))

    def _compression_of(self, records: Sequence[memoryview | bytes]) -> Compression:
        """Leave as it is what nobody would decompress, because it gets too large by that."""
        size = sum(len(record) + _LENGTH_BYTES for record in records)
        return self._compression if size <= BLOCK_BYTES_MAX else "none"

    def put_back(self, loaded: Loaded) -> None:
        """See that the object of an entry that came late is there, or put it there once more.

        It is named now, so it stays. Raises DamagedEntry if it cannot be made as it was.
        """
        entry = loaded.entry
        if entry is None or entry.batch is None:
            return
        try:
            self._bucket.get(own_key(self._bucket, entry.location))
        except MissingError:
            self.make_again(entry, [each.pending for each in loaded.cargo])

    def make_again(self, entry: NewEntry | Entry, pending: Sequence[Pending]) -> None:
        """Put the object of an entry that is lost; raises DamagedEntry if it cannot be as it was.

        How it was compressed nobody has written down.
        """
        cargo, _ = self._pack(pending)
        records = [each.record for each in cargo if each.segment is not None]
        for compression in COMPRESSIONS if records else ():
            encoded = encode_batch(records, compression=compression)
            if (encoded.byte_count, encoded.crc32c) == entry.batch:
                self._bucket.write(own_key(self._bucket, entry.location), encoded.parts)
                return
        raise DamagedEntry(
            "an object was swept before it was appended, and its segments are gone",
            path=entry.location,
            hint="sweepers wait too short a time, or a clock is wrong",
        )

    def _pack(self, pending: Sequence[Pending]) -> tuple[list[Cargo], QuiverError | None]:
        if self._readers == 1 or len(pending) == 1:
            return _taken(map(self._made, pending))
        # Checksums let go of the interpreter, and whoever puts one object is alone with them.
        pool = ThreadPoolExecutor(self._readers, "quiver-pack")
        try:
            made = begun(partial(pool.map, self._made, pending))
            return _taken(map(self._made, pending) if made is None else made)
        finally:
            pool.shutdown(cancel_futures=True)

    def _made(self, pending: Pending) -> Cargo | QuiverError:
        try:
            return self._packer.pack(pending)
        except MissingError:
            return Cargo(pending, is_gone=True)
        except QuiverError as error:
            return error

    def _items(self, cargo: Sequence[Cargo]) -> tuple[Item, ...]:
        time_ms = self._clock.wall_ns() // MILLISECOND
        segments = _segments(cargo)
        return tuple(
            Item(place, time_ms, encode_payload(segment)) for place, segment in enumerate(segments)
        )


def _taken(made: Iterable[Cargo | QuiverError]) -> tuple[list[Cargo], QuiverError | None]:
    """Take what was made, up to one that is refused, or is to be the first of its batch."""
    cargo: list[Cargo] = []
    for each in made:
        if isinstance(each, QuiverError):
            return cargo, each
        if each.rejected and cargo:
            break
        cargo.append(each)
    return cargo, None


def _segments(cargo: Sequence[Cargo]) -> list[ShippedSegment]:
    return [each.segment for each in cargo if each.segment is not None]


def _spans(cargo: Sequence[Cargo]) -> tuple[Span, ...]:
    """Say which segments of which cores these are."""
    found: dict[tuple[bytes, int], tuple[int, int]] = {}
    for segment in _segments(cargo):
        first, _ = found.get(segment.source, (segment.segment_seq, 0))
        found[segment.source] = first, segment.segment_seq
    return tuple(Span(*source, *span) for source, span in found.items())
