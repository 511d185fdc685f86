"""Records of a partition with many blocks, and metadata that count what is put."""

from __future__ import annotations

from quiver.chain.metadata import BucketMetadata
from quiver.chain.record import Claim, Following, Partition, Record, claimed, committed
from quiver.chain.sealing import Sealed
from quiver.ship.objects import MemoryBucket

__all__ = [
    "CHAIN",
    "CountingMetadata",
    "begun",
    "claim_of",
    "purged_in_part",
    "rolled",
    "sealed_at",
]

CHAIN = ("node-a", "node-b", "node-c")


def claim_of(record: Record) -> Claim:
    return Claim(record.epoch, record.sealing_by)


def begun(record: Record | None = None, *, rf: int = 3, is_rising: bool = True) -> Record:
    """Open the first block."""
    record = claimed(record or Record(rf=rf, is_rising=is_rising), "loader")
    return committed(record, claim_of(record), None, following=Following("loader", CHAIN))


def sealed_at(record: Record, *, start: int | None = None, length: int = 100) -> Sealed:
    """Ten nanoseconds and ten entries from the end of what there is."""
    begin = max(record.end, 0) + 1 if start is None else start
    return Sealed(length, record.last_seq + 10, begin, begin + 9, CHAIN)


def rolled(record: Record, **where: int) -> Record:
    """End the open block and open the next one."""
    sealed = sealed_at(record, **where)
    record = claimed(record, "loader")
    return committed(record, claim_of(record), sealed, following=Following("loader", CHAIN))


def purged_in_part(partition: Partition) -> Record:
    """Fill a partition with 300 blocks, some of them in a page, and purge 49 of that."""
    partition.create(rf=3)
    partition.change(begun)

    def roll(record: Record) -> Record:
        for _ in range(300):
            record = rolled(record)
        return record

    partition.change(roll)
    record = partition.purge(491)
    assert record.purged_below == 49
    assert record.pages
    return record


class CountingMetadata(BucketMetadata):
    """Counts puts and their bytes."""

    def __init__(self) -> None:
        super().__init__(MemoryBucket())
        self.puts = 0
        self.bytes_put = 0
        self.bytes_read = 0

    def cas(self, key, revision, data):
        self.puts += 1
        self.bytes_put += len(data)
        return super().cas(key, revision, data)

    def get(self, key):
        kept = super().get(key)
        self.bytes_read += len(kept.data)
        return kept
