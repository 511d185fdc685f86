"""Whether what the marks say was shipped can still be had.

A run may sleep between its put and its append, for so long that a sweeper takes the object, and be
killed behind the append, before it sees that it was late. The marks say then that the segments are
in, and nobody has them but the store. So who is about to ack by the marks looks here first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from quiver.consumer import Pending
from quiver.errors import DamagedEntry, InputError, MissingError, QuiverError, RemoteError
from quiver.ship.objects import own_key
from quiver.ship.queue import Entry, Queue
from quiver.ship.shipper.format import ShippedSegment, decode_payload, is_payload
from quiver.ship.shipper.loading import Loader

__all__ = ["Place", "put_back_lost"]

Place: TypeAlias = tuple[int, int]
"""A segment, by core and number."""

_FEW: Final = 16
"""So many objects are asked for one by one; more are looked up in one listing of all."""


def put_back_lost(
    queue: Queue, loader: Loader, pending: Sequence[Pending], *, store_id: bytes
) -> dict[Place, DamagedEntry]:
    """See that the objects are there which brought these segments, and make those that are not.

    Gives the segments whose object is lost for good, with the reason. What is dequeued was had by
    somebody. Raises InputError if the queue has others under their numbers, RemoteError, and
    DamageError for a manifest that cannot be read.
    """
    mine = {(each.core, each.info.segment_seq): each for each in pending}
    lost: dict[Place, DamagedEntry] = {}
    for entry in _lost_entries(queue, store_id, mine):
        brought = [(each.core, each.segment_seq) for each in _segments(entry, store_id)]
        places = [place for place in brought if place in mine]
        try:
            loader.make_again(entry, [mine[place] for place in places])
        except DamagedEntry as error:
            lost |= dict.fromkeys(places, error)
    return lost


def _lost_entries(queue: Queue, store_id: bytes, mine: Mapping[Place, Pending]) -> list[Entry]:
    """Find the entries that brought any of these, and whose object is not there."""
    found = _entries(queue, store_id, mine)
    missing = {own_key(queue.bucket, location) for location in found}
    for prefix in sorted(missing) if len(missing) <= _FEW else [""]:
        missing.difference_update(each.key for each in queue.bucket.list(prefix))
    if missing:  # A consumer may have had them, and a sweeper taken them, while this looked.
        found = _entries(queue, store_id, mine)
    return [entry for name, entry in found.items() if own_key(queue.bucket, name) in missing]


def _entries(queue: Queue, store_id: bytes, mine: Mapping[Place, Pending]) -> dict[str, Entry]:
    """Find the entries that wait and brought any of these segments, by location."""
    found: dict[str, Entry] = {}
    try:
        for entry in queue.read().entries():
            for segment in _segments(entry, store_id):
                pending = mine.get((segment.core, segment.segment_seq))
                if pending is not None:
                    _check_same(segment, pending)
                    found[entry.location] = entry
    except MissingError as error:
        raise RemoteError(
            f"what waits in the queue cannot be seen: {error.message}",
            path=queue.place,
            retryable=True,
            hint="a page of it is gone; if it does not come back the queue is damaged",
        ) from error
    return found


def _segments(entry: Entry, store_id: bytes) -> list[ShippedSegment]:
    """Say which segments of a store an entry brought, in its order."""
    found: list[ShippedSegment] = []
    for item in entry.items:
        if is_payload(item.payload):
            with suppress(QuiverError):  # What is not ours, or of a newer Quiver.
                segment = decode_payload(item.payload)
                if segment.source[0] == store_id:
                    found.append(segment)
    return found


def _check_same(segment: ShippedSegment, pending: Pending) -> None:
    """Refuse to ack a segment because the queue has another one of its number.

    A store that was put back from a backup, or copied, gives numbers a second time.
    """
    info = pending.info
    first_ns, last_ns = info.ingestion_ns_min, info.ingestion_ns_max
    if first_ns is None or last_ns is None:
        return
    if segment.last_ns < first_ns or last_ns < segment.first_ns:
        raise InputError(
            f"the queue has another segment {segment.segment_seq} of core {segment.core} of this "
            "store",
            hint="was the store put back from a backup, or copied? ship it to a new queue",
        )
