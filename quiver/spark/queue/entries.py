"""Which segments an entry of the queue brings, and which of them are to be read.

Where records are read as they are, an entry is a repeat if its batch was there a few entries ago:
whoever appended it never saw the answer, and appended it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import blake3

from quiver.errors import InputError
from quiver.ship.consumer import CallRange, Descriptor
from quiver.ship.queue import Entry
from quiver.ship.shipper import ShippedSegment, decode_payload, is_payload
from quiver.spark.queue.offsets import Marks

__all__ = ["LOCATIONS_MAX", "Seen", "Sieve", "descriptor_of", "segments_of"]

LOCATIONS_MAX: Final = 64
"""So many of the last locations are known; a repeat is one or two entries behind."""
_DIGEST_BYTES: Final = 16


def segments_of(entry: Entry, *, place: str) -> tuple[ShippedSegment, ...]:
    """Say which segments an entry brings, in order.

    Raises InputError for records that are no segments, DamageError, VersionError.
    """
    if not entry.items or not all(is_payload(item.payload) for item in entry.items):
        raise InputError(
            f"entry {entry.sequence} of {place} has records that are no segments of a store",
            hint="they are of a producer of its own: leave the option slot out, and read records "
            "as they are",
        )
    return tuple(decode_payload(item.payload) for item in entry.items)


def descriptor_of(entry: Entry, leave_out: tuple[int, ...] = ()) -> Descriptor:
    """Say where the batch of an entry is, and which of its calls a fetch leaves out."""
    calls = tuple(CallRange(*item) for item in entry.items)
    size, checksum = entry.batch or (None, None)
    return Descriptor(entry.sequence, entry.location, calls, size, checksum, leave_out)


class Seen(NamedTuple):
    """What came of looking at one entry."""

    marks: Marks
    """What came for the first time."""
    descriptor: Descriptor | None
    """What is to be fetched; None if nothing of the entry is wanted."""

    @property
    def wanted_count(self) -> int:
        """How many calls are to be read."""
        found = self.descriptor
        return 0 if found is None else max(1, len(found.calls) - len(found.repeats))


class Sieve:
    """Lets each segment through once. What it has let through is all that it knows."""

    def __init__(
        self,
        seen: Marks,
        *,
        place: str,
        is_wanted: Callable[[ShippedSegment], bool] = lambda _: True,
        has_segments: bool = True,
    ) -> None:
        """Go on behind ``seen``; what is not wanted counts as let through, and is not read.

        Without ``has_segments`` records may be anything.
        """
        self._has_segments = has_segments
        self.seen = dict(seen)
        self._place = place
        self._is_wanted = is_wanted

    def look(self, entry: Entry) -> Seen:
        """Look at the next entry; raises what ``segments_of`` does."""
        if not self._has_segments:
            return self._look_at_location(entry)
        left_out: list[int] = []
        highest: dict[str, int] = {}
        for index, segment in enumerate(segments_of(entry, place=self._place)):
            core = f"{segment.store_id}/core_{segment.core}"
            if segment.segment_seq <= highest.get(core, self.seen.get(core, -1)):
                left_out.append(index)
                continue
            highest[core] = segment.segment_seq
            if not self._is_wanted(segment):
                left_out.append(index)
        is_empty = len(left_out) == len(entry.items)
        return Seen(highest, None if is_empty else descriptor_of(entry, tuple(left_out)))

    def _look_at_location(self, entry: Entry) -> Seen:
        digest = blake3.blake3(entry.location.encode()).hexdigest(_DIGEST_BYTES)
        if digest in self.seen:
            return Seen({}, None)
        return Seen({digest: entry.sequence}, descriptor_of(entry))

    def let_through(self, seen: Seen) -> None:
        """Note that what came is behind us."""
        self.seen |= seen.marks
        if not self._has_segments and len(self.seen) > LOCATIONS_MAX:
            del self.seen[min(self.seen, key=lambda digest: self.seen[digest])]
