"""Write the golden segment of format 1, once; refuses to touch what is there.

A reader of any later version must read it; a change of format gets a folder of its own.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from quiver.bundle import fingerprint
from quiver.disk import LocalDisk
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentLabel, segment_name, write_segment
from quiver.slots import Slot, SlotTable

FOLDER = Path(__file__).parent / "v1" / "segment"
SLOTS = SlotTable([Slot(0, "events", 0, "at"), Slot(1, "notes", 1)])
INGESTION_NS = 1_357_000_000_000_000_000
LABEL = SegmentLabel(
    segment_seq=42,
    store_id="5ca1ab1e5ca1ab1e5ca1ab1e5ca1ab1e",
    core=0,
    slots=SLOTS,
    wal_generation=7,
    wal_offset=0x0456,
)


def payload(slot_id: int, batch: pa.RecordBatch) -> Payload:
    """Encode one batch."""
    data = memoryview(encode_stream(batch))
    return Payload(slot_id, slot_id, fingerprint(batch.schema), batch.num_rows, data)


def bundles() -> list[EncodedBundle]:
    """Make two bundles; in the second the events have a column less and one more."""
    at = pa.array([1000, 2000], pa.timestamp("ms", "UTC"))
    level = pa.array(["warn", "info"]).dictionary_encode()
    first = pa.record_batch({"at": at, "level": level})
    second = pa.record_batch({"at": at[1:], "x": pa.array([None], pa.int16())})
    note = pa.record_batch({"s": pa.array(["a", None])})
    return [
        EncodedBundle(41, INGESTION_NS, (payload(0, first), payload(1, note))),
        EncodedBundle(42, INGESTION_NS + 1, (payload(0, second),)),
    ]


def main() -> None:
    """Write the file that is not there yet: each number is the layout of another time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    label = replace(LABEL, segment_seq=int(sys.argv[1]))
    path = FOLDER / segment_name(label.segment_seq)
    if path.exists():
        sys.exit(f"{path} is there already: golden files are written once")
    write_segment(LocalDisk(FOLDER), "", bundles(), label=label)


if __name__ == "__main__":
    main()
