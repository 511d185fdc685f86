from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from quiver.bundle import fingerprint
from quiver.disk import LocalDisk
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentInfo, SegmentLabel, SegmentReader, write_segment
from quiver.slots import Slot, SlotTable

SLOTS = SlotTable([Slot(0, "events", 10, "at"), Slot(5, "resources", 11), Slot(63, "last", 12)])


def encode_bundle(
    wal_seq: int,
    batches: Mapping[int, pa.RecordBatch],
    *,
    prints: Mapping[int, bytes] | None = None,
) -> EncodedBundle:
    """A bundle that came ``wal_seq`` seconds after the epoch."""
    payloads = [
        Payload(
            slot_id,
            slot_id,
            (prints or {}).get(slot_id, fingerprint(batch.schema)),
            batch.num_rows,
            encode_stream(batch).to_pybytes(),
        )
        for slot_id, batch in batches.items()
    ]
    return EncodedBundle(wal_seq, wal_seq * 10**9, tuple(payloads))


class Shelf:
    """A folder, and short ways to write and read segments in it."""

    def __init__(self, disk: LocalDisk) -> None:
        self.disk = disk
        self.slots = SLOTS
        self.encode = encode_bundle

    def label(self, segment_seq: int = 7, **changes: Any) -> SegmentLabel:
        values: dict[str, Any] = {
            "segment_seq": segment_seq,
            "store_id": "5ca1ab1e" * 4,
            "core": 2,
            "slots": self.slots,
            "wal_generation": 3,
            "wal_offset": 4096,
        }
        return SegmentLabel(**(values | changes))

    def write(self, *bundles: Mapping[int, pa.RecordBatch], seq: int = 7) -> SegmentInfo:
        """Write bundles with log sequences 100, 101, ..."""
        ready = [encode_bundle(100 + i, batches) for i, batches in enumerate(bundles)]
        return write_segment(self.disk, "", ready, label=self.label(seq))

    def read(self, info: SegmentInfo) -> SegmentReader:
        return SegmentReader.open(self.disk, info.path)

    def load(self, info: SegmentInfo) -> bytes:
        return bytes(self.disk.map(info.path))

    def save(self, data: bytes, name: str = "0000000000000007.qseg") -> str:
        if self.disk.stat(name) is not None:
            self.disk.unlink(name)
        file = self.disk.create(name)
        file.write(0, data)
        file.close()
        return name


@pytest.fixture
def shelf(tmp_path) -> Shelf:
    return Shelf(LocalDisk(tmp_path))


@pytest.fixture
def numbers() -> Callable[..., pa.RecordBatch]:
    """Make a batch of one int64 column."""
    return lambda *values, name="n": pa.record_batch({name: pa.array(values, pa.int64())})
