"""What a consumer gives: where a batch is, and what is in it. All of it can be pickled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from quiver.disk import Bytes

__all__ = ["Batch", "CallRange", "Descriptor"]


@dataclass(frozen=True, slots=True)
class CallRange:
    """One call of a producer: which records of a batch it made, when, and its metadata."""

    start: int
    ingestion_time_ms: int
    metadata: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One entry of the queue: where its batch is, and how it must be."""

    sequence: int
    location: str
    """From the root of the store."""
    calls: tuple[CallRange, ...]
    byte_count: int | None = None
    """Size of the object; None if whoever appended it did not say."""
    crc32c: int | None = None
    repeats: tuple[int, ...] = ()
    """Calls that were delivered before, by their place in ``calls``; a fetch leaves them out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The records of one entry, in the order in which they were produced."""

    sequence: int
    location: str
    records: Sequence[Bytes] = field(repr=False)
    calls: tuple[CallRange, ...]
    byte_count: int
    """Of the object."""

    def of_call(self, index: int) -> Sequence[Bytes]:
        """Give the records of one of ``calls``."""
        after = index + 1
        end = self.calls[after].start if after < len(self.calls) else len(self.records)
        return self.records[self.calls[index].start : end]

    def __reduce__(self) -> tuple[object, ...]:
        """Travel between processes with copies of the records."""
        records = tuple(bytes(record) for record in self.records)
        return type(self), (self.sequence, self.location, records, self.calls, self.byte_count)
