"""Blocks as subscribers get them: sealed, finished, with all their copies (R43), and whole."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple

import blake3
import pyarrow as pa

from quiver.chain.peers import BlockName
from quiver.chain.record import Block, Record
from quiver.chain.subscribing.reach import Reach
from quiver.chain.subscribing.records import Taken
from quiver.errors import (
    DamagedEntry,
    DamageError,
    InputError,
    MissingError,
    PoisonedError,
    QuiverError,
    RemoteError,
    StorageError,
)
from quiver.segment import SegmentReader
from quiver.segment.memory import open_bytes
from quiver.slots import SlotTable

__all__ = ["Blocks", "Loaded", "is_ready"]

_KEPT: Final = 2
_FAILS: Final = (StorageError, PoisonedError, InputError, DamageError)
"""Of one copy; another one is asked then."""


class Loaded(NamedTuple):
    """A block in memory."""

    taken: Taken
    reader: SegmentReader
    slots: SlotTable

    def time_ns(self, index: int) -> int:
        """Say when a bundle was ingested."""
        return self.reader.bundle_entry(index).ingestion_ns or 0

    def bundle(self, index: int) -> Mapping[str, pa.RecordBatch]:
        """Give a bundle; DamagedEntry if its batches were none when the segment was made."""
        if lost := self.reader.lost.get(index):
            raise DamagedEntry(
                f"slots {', '.join(map(str, lost))} of bundle {index} held no batch",
                path=f"{self.taken.partition}/{self.taken.block}",
            )
        return {
            self.slots[slot_id].name: batch for slot_id, batch in self.reader.bundle(index).items()
        }

    def count_before(self, time_ns: int) -> int:
        """Say how many bundles, from the first one on, are earlier than a time."""
        count = 0
        while count < self.taken.bundle_count and self.time_ns(count) < time_ns:
            count += 1
        return count


class Blocks:
    """Finds and fetches blocks. For one thread at a time."""

    def __init__(self, reach: Reach) -> None:
        """Nothing is asked yet."""
        self._reach = reach
        self._kept: OrderedDict[tuple[str, int], Loaded] = OrderedDict()

    def record(self, partition: str) -> Record | None:
        """Read a partition's record; None before its first bundle (R8)."""
        try:
            return self._reach.partition(partition).read()
        except MissingError:
            return None

    def next(self, partition: str, number: int) -> tuple[Record, Block | None] | None:
        """Find the first block from a number on, if subscribers may have it by now (R43).

        None if there is no partition.
        """
        record = self.record(partition)
        if record is None:
            return None
        kept = self._reach.partition(partition)
        # A page has what was purged of it as long as anything of it is left.
        for paged in kept.blocks_from(record, max(number, record.purged_below)):
            if not paged.is_abandoned:
                block = kept.block(record, paged.number)
                return record, block if is_ready(block) else None
        return record, None

    def load(self, partition: str, number: int) -> Loaded:
        """Give a block, from memory or from whatever copy is whole.

        Raises MissingError if it was purged, and what the last copy that was asked said.
        """
        loaded = self._kept.get((partition, number))
        if loaded is None:
            kept = self._reach.partition(partition)
            loaded = self._fetched(partition, kept.block(kept.read(), number))
            mine = [key for key in self._kept if key[0] == partition]
            for key in mine[: len(mine) - _KEPT + 1]:
                del self._kept[key]
            self._kept[partition, number] = loaded
        self._kept.move_to_end((partition, number))
        return loaded

    def _fetched(self, partition: str, block: Block) -> Loaded:
        slots = self._reach.slots(partition)
        name = BlockName(partition, block.number)
        if slots is None:
            raise MissingError(f"nobody says what is in {partition}", path=partition)
        fault: QuiverError | None = None
        for location in reversed(block.locations):
            try:
                data = b"".join(self._reach.peers(location).segment(name))
                _check_digest(data, block, place=f"{location}/{partition}/{block.number}")
            except _FAILS as error:
                fault = error
                continue
            return _loaded(name, data, slots)
        raise RemoteError(
            f"no copy of block {block.number} of {partition} is to be had: {fault}",
            path=partition,
            retryable=True,
        ) from fault


def is_ready(block: Block) -> bool:
    """Whether subscribers may hear of a sealed block: it is finished, and at RF."""
    return bool(block.digest) and len(block.locations) >= block.rf


def _check_digest(data: bytes, block: Block, *, place: str) -> None:
    found = blake3.blake3(data).digest()
    if found != block.digest:
        raise DamagedEntry(
            "a segment is not the one that the record names",
            path=place,
            expected=block.digest.hex(),
            found=found.hex(),
        )


def _loaded(name: BlockName, data: bytes, slots: SlotTable) -> Loaded:
    reader = open_bytes(data, place=f"{name.partition}/{name.number}")
    count = reader.bundle_count
    first, last = (reader.bundle_entry(at).wal_seq for at in (0, count - 1))
    if first is None or last is None:
        raise InputError(f"the segment of {name.partition}/{name.number} does not say its numbers")
    return Loaded(Taken(name.partition, name.number, count, first, last + 1), reader, slots)
