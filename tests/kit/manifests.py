"""Rows of the tables of a segment that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from quiver.ipc import encode_file
from quiver.segment.manifest import BundleColumns, References, encode_manifest
from quiver.segment.tables import BundleEntry, StreamEntry

__all__ = ["A_STREAM", "manifest_of"]

A_STREAM = StreamEntry(
    stream_id=0,
    slot_id=0,
    fingerprint=b"f" * 32,
    byte_offset=0,
    byte_length=100,
    row_count=9,
    chunk_count=3,
    payload_type="events",
    crc32c=1,
    ingestion_ns_min=5,
    ingestion_ns_max=6,
    event_ns_min=None,
    event_ns_max=None,
    null_counts=(0, 2),
    omitted_columns=b"\x04",
)
"""A good stream of two columns, the slot's third one left out."""


def manifest_of(entries: Sequence[BundleEntry]) -> pa.Buffer:
    """Write the manifest of these bundles."""
    rows = [
        (index, ref.slot_id, ref.stream_id, ref.chunk_index)
        for index, entry in enumerate(entries)
        for ref in entry.refs
    ]
    references = References(*np.array(rows, np.int64).reshape(-1, 4).T)
    columns = (
        pa.array([getattr(entry, name) for entry in entries], pa.int64())
        for name in BundleColumns._fields
    )
    table = pa.ipc.open_file(encode_manifest(references, BundleColumns(*columns))).get_batch(0)
    indices = pa.array([entry.bundle_index for entry in entries], pa.uint32())
    arrays = [indices, *table.columns[1:]]
    return encode_file(table.schema, [pa.RecordBatch.from_arrays(arrays, schema=table.schema)])
