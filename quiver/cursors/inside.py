"""Bundles inside of a range of time: of one block, or of the log, in the order of a cursor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.arrays import integers
from quiver.bundle import RecordBundle
from quiver.cursors.blocks import Block
from quiver.cursors.message import Key, Message, Position
from quiver.disk import Disk
from quiver.errors import InputError, MissingError
from quiver.scan import OpenBundle
from quiver.segment import SegmentReader
from quiver.segment.events import event_place, event_ranges
from quiver.slots import SlotTable

__all__ = ["Opened", "Wanted", "open_block", "open_log"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a cursor asks of a partition: times from ``start_ns`` to ``end_ns``, both included.

    Of ``slot_ids``, or all. ``after`` is what it had last; that and all before it is left out.
    """

    slots: SlotTable
    start_ns: int
    end_ns: int
    slot_ids: frozenset[int] | None = None
    after: Position | None = None
    backwards: bool = False

    def mask(self, times: npt.NDArray[np.int64], seqs: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
        """Say which bundles of these times and numbers are asked for."""
        inside = (times >= self.start_ns) & (times <= self.end_ns)
        if self.after is not None:
            time_ns, seq = self.after
            if self.backwards:
                inside &= (times < time_ns) | ((times == time_ns) & (seqs < seq))
            else:
                inside &= (times > time_ns) | ((times == time_ns) & (seqs > seq))
        return inside

    def order(self, times: npt.NDArray[np.int64], seqs: npt.NDArray[np.int64]) -> Any:  # noqa: ANN401
        """List the places of those asked for, in the order of the cursor."""
        inside = np.flatnonzero(self.mask(times, seqs))
        found = inside[np.lexsort((seqs[inside], times[inside]))]
        return found[::-1] if self.backwards else found

    def named(self, batches: Collection[tuple[int, pa.RecordBatch]]) -> RecordBundle:
        """Give batches by the names of their slots."""
        return RecordBundle({self.slots[slot_id].name: batch for slot_id, batch in batches})


class Opened(Protocol):
    """Some bundles of one partition in their order; the first that is left is its head."""

    @property
    def head(self) -> Key | None:
        """The next bundle; None if there is none left."""
        ...

    def take(self) -> Message:
        """Read the next bundle and go on."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class _Found(NamedTuple):
    """What of a block is asked for: by place, with times and numbers."""

    places: list[int]
    times: list[int]
    seqs: list[int]


class _Block:
    """A block of which the manifest was read; streams are as they are touched."""

    def __init__(self, disk: Disk, block: Block, wanted: Wanted) -> None:
        self._block = block
        self._wanted = wanted
        self._next = 0
        try:
            self._reader = SegmentReader.open(disk, block.path, lazy=True)
        except MissingError as error:
            raise MissingError(
                f"segment {block.segment_seq} of partition {block.partition} was deleted before "
                "the cursor came to it",
                path=disk.locate(block.path),
                hint="go on with what is behind it, or let the store keep more: "
                "retention.steady_state_headroom",
            ) from error
        times = self._reader.manifest.ingestion_ns()
        seqs = self._reader.manifest.columns().wal_seq
        if times is None or seqs is None or seqs.null_count:
            raise InputError(f"{disk.locate(block.path)} does not say its times and numbers")
        numbers = integers(seqs)
        order = wanted.order(times, numbers)
        if wanted.slot_ids is not None:
            order = order[np.isin(order, self._filled(wanted.slot_ids))]
        self._found = _Found(order.tolist(), times[order].tolist(), numbers[order].tolist())

    def _filled(self, slot_ids: Collection[int]) -> Any:  # noqa: ANN401
        """List the bundles that fill one of these slots."""
        references = self._reader.manifest.references()
        return references.bundles[np.isin(references.slots, list(slot_ids))]

    @property
    def head(self) -> Key | None:
        found, at = self._found, self._next
        if at >= len(found.places):
            return None
        return Key(found.times[at], self._block.partition, found.seqs[at])

    def take(self) -> Message:
        found, at = self._found, self._next
        key = Key(found.times[at], self._block.partition, found.seqs[at])
        place = found.places[at]
        entry = self._reader.bundle_entry(place)
        batches = self._reader.bundle(place, slots=self._wanted.slot_ids)
        self._next += 1
        low, high = entry.event_ns_min, entry.event_ns_max
        event_ns = None if low is None or high is None else (low, high)
        return Message(*key, event_ns, self._wanted.named([*batches.items()]))

    def close(self) -> None:
        self._reader.close()


class _Log:
    """Bundles that are in the log and in no segment yet."""

    def __init__(self, disk: Disk, bundles: Sequence[OpenBundle], wanted: Wanted) -> None:
        """Keep those asked for."""
        times = np.array([bundle.ingestion_ns for bundle in bundles], np.int64)
        seqs = np.array([bundle.wal_seq for bundle in bundles], np.int64)
        self._disk = disk
        self._wanted = wanted
        ids = wanted.slot_ids
        ordered = [bundles[place] for place in wanted.order(times, seqs)[::-1]]
        self._bundles = [
            b for b in ordered if ids is None or any(slot.slot_id in ids for slot in b.slots)
        ]

    @property
    def head(self) -> Key | None:
        """The next bundle; None if there is none left."""
        if not self._bundles:
            return None
        bundle = self._bundles[-1]
        return Key(bundle.ingestion_ns, bundle.core, bundle.wal_seq)

    def take(self) -> Message:
        """Read the next bundle and go on; MissingError if it left the log meanwhile."""
        bundle, ids = self._bundles[-1], self._wanted.slot_ids
        batches = [
            (slot.slot_id, batch)
            for slot in bundle.slots
            if ids is None or slot.slot_id in ids
            if (batch := bundle.batch(self._disk, slot.slot_id)) is not None
        ]
        self._bundles.pop()
        event_ns = self._event_range(bundle)
        key = Key(bundle.ingestion_ns, bundle.core, bundle.wal_seq)
        return Message(*key, event_ns, self._wanted.named(batches))

    def _event_range(self, bundle: OpenBundle) -> tuple[int, int] | None:
        """Find what the manifest of its segment will say, of all its slots."""
        low: list[int] = []
        high: list[int] = []
        for slot in bundle.slots:
            name = self._wanted.slots[slot.slot_id].event_time
            if not name:
                continue
            batch = bundle.batch(self._disk, slot.slot_id)
            place = None if batch is None else event_place(batch.schema, name)
            if batch is None or place is None:
                continue
            ranges = event_ranges([batch.column(place)])
            low += ranges.low[ranges.known].tolist()
            high += ranges.high[ranges.known].tolist()
        return (min(low), max(high)) if low else None

    def close(self) -> None:
        """Let go of it."""
        self._bundles = []


def open_block(disk: Disk, block: Block, wanted: Wanted) -> Opened:
    """Open a block; raises MissingError if it was deleted since."""
    return _Block(disk, block, wanted)


def open_log(disk: Disk, bundles: Sequence[OpenBundle], wanted: Wanted) -> Opened:
    """Give bundles of the log as something opened."""
    return _Log(disk, bundles, wanted)
