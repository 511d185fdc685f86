"""Write the golden files of the write-ahead log, format version 1. Run once; never again.

They were written by the first version of the format and stay as they are: a reader of any later
version must read them. A change of format gets a folder of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa

from quiver.bundle import fingerprint
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.slots import SlotTable
from quiver.wal.format import Place, encode_bundle, encode_header
from quiver.wal.sidecar import encode_sidecar

FOLDER = Path(__file__).parent / "v1"
SLOTS = SlotTable.of(["events", "notes"])


def payload(slot_id: int, batch: pa.RecordBatch) -> Payload:
    """Encode one batch."""
    data = memoryview(encode_stream(batch))
    return Payload(slot_id, slot_id, fingerprint(batch.schema), batch.num_rows, data)


def write(name: str, data: bytes) -> None:
    """Write a file that is not there yet."""
    path = FOLDER / name
    if path.exists():
        sys.exit(f"{path} is there already: golden files are written once")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main() -> None:
    """Write a log with two bundles, and a sidecar."""
    events = pa.record_batch({"x": pa.array([1, 2, 3], pa.int16())})
    notes = pa.record_batch({"s": pa.array(["a", None])})
    first = EncodedBundle(41, 1_357_000_000_000_000_000, (payload(0, events),))
    second = EncodedBundle(
        42, 1_357_000_000_000_000_001, (payload(0, events.slice(1)), payload(1, notes))
    )
    log = encode_header(SLOTS.digest()) + encode_bundle(first) + encode_bundle(second)
    write("wal/quiver.wal", log)
    write("wal/truncate.offset", encode_sidecar(Place(7, 30 + len(encode_bundle(first)))))


if __name__ == "__main__":
    main()
