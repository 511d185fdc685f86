"""What a collection was at one moment: everything that is needed to read it, in any process."""

from __future__ import annotations

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from quiver.errors import DamageError, InputError
from quiver.upsert.persist.definitions import decode_schema, widen
from quiver.upsert.persist.format import FileRef, Manifest, Source
from quiver.upsert.rows.definition import Definition

__all__ = ["Snapshot", "snapshot_of"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One manifest, read. Can be pickled; its files stay readable until they are swept."""

    manifest: Manifest
    definition: Definition
    place: str
    """Where the collection is, for messages."""

    @property
    def upper(self) -> int:
        """The epoch that the next append gets."""
        return self.manifest.upper

    @property
    def latest(self) -> int:
        """The last epoch as of which it can be read; that of the current state."""
        return self.manifest.upper - 1

    @property
    def since(self) -> int:
        """The first epoch as of which it can be read."""
        return self.manifest.since

    @property
    def buckets(self) -> int:
        """Among how many buckets keys are spread."""
        return self.manifest.buckets

    @property
    def sources(self) -> Mapping[str, Source]:
        """How far it has taken each of its sources."""
        return self.manifest.sources

    @property
    def files(self) -> tuple[FileRef, ...]:
        """All its files, by bucket."""
        return self.manifest.files

    @property
    def error_rows(self) -> int:
        """At most so many rows of its files are errors; with 0 there is none at any time."""
        return sum(ref.errors for ref in self.manifest.files)

    def base(self, bucket: int) -> FileRef | None:
        """Give the base of a bucket; None if nothing was folded yet."""
        return next((ref for ref in self._of(bucket) if ref.kind == "base"), None)

    def runs(self, bucket: int) -> tuple[FileRef, ...]:
        """Give the runs of a bucket, oldest first."""
        return tuple(ref for ref in self._of(bucket) if ref.kind == "run")

    def _of(self, bucket: int) -> tuple[FileRef, ...]:
        if not 0 <= bucket < self.buckets:
            raise InputError(f"there is no bucket {bucket}", hint=f"there are {self.buckets:,}")
        files = self.manifest.files
        start = bisect.bisect_left(files, bucket, key=lambda ref: ref.bucket)
        end = bisect.bisect_right(files, bucket, key=lambda ref: ref.bucket)
        return files[start:end]

    def check_epoch(self, epoch: int) -> int:
        """Give an epoch as of which it can be read; raises InputError."""
        if not self.since <= epoch < self.upper:
            raise InputError(
                f"{self.place} cannot be read as of epoch {epoch:,}",
                hint=f"it can from {self.since:,} to {self.latest:,}",
            )
        return epoch

    def time_ms(self, epoch: int) -> int:
        """Say when an epoch was appended, in milliseconds since 1970; raises InputError."""
        return self.manifest.times[self.check_epoch(epoch) - self.since]

    def epoch_at(self, wall_ms: int) -> int:
        """Give the last epoch that was appended at a time or before; raises InputError.

        Clocks of writers may go back: then it is the last epoch before the first later one.
        """
        times = self.manifest.times
        count = next((index for index, time in enumerate(times) if time > wall_ms), len(times))
        if not count:
            raise InputError(
                f"{self.place} cannot be read as of a time before {_written(times[0])}",
                hint="what was before is forgotten" if self.since else "it was made then",
            )
        return self.since + count - 1

    def widened(self, value: pa.Schema) -> Snapshot:
        """Give the same with a value that holds ``value`` as well; raises InputError."""
        wider = widen(self.definition, value)
        return self if wider is self.definition else replace(self, definition=wider)


def _written(wall_ms: int) -> str:
    """Write a time as people do, where it is one that they have a name for."""
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=wall_ms)
    except OverflowError:
        return f"{wall_ms} ms since 1970"
    return f"{found:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z"


def snapshot_of(manifest: Manifest, place: str) -> Snapshot:
    """Read the schemas of a manifest; raises DamageError."""
    try:
        key, value = decode_schema(manifest.key), decode_schema(manifest.value)
    except DamageError as error:
        raise error.at(place) from None
    return Snapshot(manifest, Definition(key, value, manifest.buckets), place)
