"""Manifests of entries that a test makes up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from quiver.ipc import encode_file
from quiver.segment.manifest import BundleColumns, References, encode_manifest
from quiver.segment.tables import BundleEntry

__all__ = ["manifest_of"]


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
