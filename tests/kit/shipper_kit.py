"""A store on a disk in RAM, a queue in memory, and what a reader of the queue finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from beside_kit import Beside

from quiver.segment import SegmentReader, open_bytes, segment_name
from quiver.ship.batch import decode_batch
from quiver.ship.objects import Bucket, MemoryBucket, own_key
from quiver.ship.queue import Entry, Queue
from quiver.ship.shipper import Ahead, ShipOptions, ShippedSegment, Shipper, decode_payload

NAME = "ship"


class Rig(Beside):
    """One store and one queue; shippers come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket: Bucket = MemoryBucket("queue", clock=self.clock)
        self.told: list[Any] = []

    def queue(self, bucket: Bucket | None = None) -> Queue:
        return Queue(bucket or self.bucket, clock=self.clock)

    def shipper(
        self, name: str = NAME, *, queue: Queue | None = None, disk: Any = None, **options: Any
    ) -> Shipper:
        return Shipper(
            disk or self.disk,
            queue or self.queue(),
            name,
            options=ShipOptions(**options),
            clock=self.clock,
            watch=self.hear,
            keep=False,
        )

    def hear(self, told: object) -> None:
        """Keep what is told, but for how much there is to do."""
        if not isinstance(told, Ahead):
            self.told.append(told)

    def ship(self, name: str = NAME, **options: Any) -> Any:
        return self.shipper(name, **options).run()


def entries(bucket: Bucket) -> list[Entry]:
    return list(Queue(bucket).read().entries())


def shipped(bucket: Bucket) -> Iterator[tuple[ShippedSegment, SegmentReader]]:
    """Go through the segments in the queue, each held against its payload."""
    for entry in entries(bucket):
        data = bucket.get(own_key(bucket, entry.location)).data
        records = decode_batch(data)
        assert [item.start_index for item in entry.items] == list(range(len(records)))
        for item, record in zip(entry.items, records, strict=True):
            segment = decode_payload(item.payload)
            reader = open_bytes(bytes(record), place=entry.location)
            reader.verify()
            assert reader.bundle_count == segment.bundle_count
            assert reader.store_id == segment.store_id
            assert reader.footer.extension is not None
            extra = reader.footer.extension
            assert extra.segment_seq == segment.segment_seq
            assert extra.wal_seq_first == segment.wal_seq_first
            assert extra.wal_seq_last == segment.wal_seq_last
            slots = {stream.slot_id for stream in reader.streams}
            assert segment.slots == sum(1 << slot for slot in slots)
            yield segment, reader


def numbers_of(reader: SegmentReader) -> list[int]:
    return [_number(reader.bundle(index)) for index in range(reader.bundle_count)]


def _number(bundle: dict[int, pa.RecordBatch]) -> int:
    return int(bundle[0].column("n")[0].as_py())


def arrived(bucket: Bucket) -> list[int]:
    """Give the numbers of all bundles in the queue, in its order."""
    return [number for _, reader in shipped(bucket) for number in numbers_of(reader)]


def damage(disk: Any, path: str, change: Callable[[bytearray], None]) -> None:
    """Replace a file by a changed copy."""
    data = bytearray(disk.map(path))
    change(data)
    disk.unlink(path)
    file = disk.create(path)
    file.write(0, bytes(data))
    file.sync()
    file.close()
    disk.sync_dir(path.rpartition("/")[0])


def segment_path(seq: int) -> str:
    return f"core_0/segments/{segment_name(seq)}"


def rot_stream(rig: Rig, seq: int, slot_id: int) -> None:
    """Flip a bit in the streams of one slot."""
    with SegmentReader.open(rig.disk, segment_path(seq)) as reader:
        places = [
            stream.byte_offset + stream.byte_length // 2
            for stream in reader.streams
            if stream.slot_id == slot_id
        ]

    def change(data: bytearray) -> None:
        for place in places:
            data[place] ^= 1

    damage(rig.disk, segment_path(seq), change)
