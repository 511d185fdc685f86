"""The bundles of the benchmark: what logs look like to the pipeline that the store was made for."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from quiver.bundle import fingerprint
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.units import SECOND
from quiver.wal.format import encode_bundle

__all__ = ["SLOTS", "encoded", "frames", "lot", "of_size", "standard"]

SLOTS: Final = ("records", "record_attrs", "resource_attrs", "scope_attrs")
_LOT_BYTES: Final = 40_000_000
_ATTRIBUTES: Final = 4
"""Of each record."""
_Columns: TypeAlias = dict[str, Any]


def lot(rows: int) -> list[dict[str, pa.RecordBatch]]:
    """Give different standard bundles, of 40 MB together, but 12 at least."""
    first = standard(rows)
    byte_count = sum(len(encode_stream(batch)) for batch in first.values())
    count = max(_LOT_BYTES // byte_count, 12)
    return [first, *(standard(rows, seed) for seed in range(1, count))]


def standard(rows: int, seed: int = 0) -> dict[str, pa.RecordBatch]:
    """Four slots as OTAP has them: ``rows`` log records, four attributes to each, few others.

    Bodies, one for four records, and values of attributes, one for two, are new in each seed: that
    is the hard case for whoever unites dictionaries.
    """
    some = _Some(rows, seed)
    return {
        "records": pa.record_batch(_records(some)),
        "record_attrs": pa.record_batch(_attributes(some, _ATTRIBUTES * rows, _ATTRIBUTES)),
        "resource_attrs": pa.record_batch(_few_attributes(some, 8)),
        "scope_attrs": pa.record_batch(_few_attributes(some, 4)),
    }


class _Some:
    """Random columns of a bundle."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.seed = seed
        self.lot = np.random.default_rng(seed)

    def words(self, text: str, count: int, rows: int, *, kind: Any = np.uint8) -> Any:
        """A dictionary of so many words of which rows are picked; a long one's are its own."""
        own = f"{self.seed}." if kind is np.uint16 else ""
        values = pa.array([f"{text} {own}{n}" for n in range(count)])
        indices: Any = pa.array(self.lot.integers(0, count, rows).astype(kind))
        return pa.DictionaryArray.from_arrays(indices, values)

    def bytes(self, width: int) -> Any:
        kind = pa.binary(width)
        data = pa.py_buffer(self.lot.bytes(width * self.rows))
        return pa.Array.from_buffers(kind, self.rows, [None, data])


def _records(some: _Some) -> _Columns:
    rows, lot = some.rows, some.lot
    places = np.arange(rows)
    times = 1_700_000_000_000_000_000 + some.seed * SECOND + np.sort(lot.integers(0, SECOND, rows))
    severity = pa.array(lot.integers(1, 24, rows, dtype=np.int32)).dictionary_encode()
    body = "GET /api/v1/customers/cart/items took longer than expected, request number"
    return {
        "id": pa.array(places.astype(np.uint16)),
        "resource_id": pa.array((places % 4).astype(np.uint16)),
        "scope_id": pa.array((places % 2).astype(np.uint16)),
        "time_unix_nano": pa.array(times, pa.timestamp("ns")),
        "observed_time_unix_nano": pa.array(times + 1_000, pa.timestamp("ns")),
        "trace_id": some.bytes(16),
        "span_id": some.bytes(8),
        "severity_number": severity.cast(pa.dictionary(pa.uint8(), pa.int32())),
        "severity_text": some.words("level", 6, rows),
        "event_name": some.words("event", 20, rows),
        "body": some.words(body, max(rows // 4, 1), rows, kind=np.uint16),
        "flags": pa.array(lot.integers(0, 2, rows, dtype=np.uint32)),
        "dropped_attributes_count": pa.array(np.zeros(rows, np.uint32)),
    }


def _attributes(some: _Some, rows: int, each: int) -> _Columns:
    lot = some.lot
    return {
        **_few_attributes(some, rows, each),
        "int": pa.array(lot.integers(0, 1_000, rows)),
        "double": pa.array(lot.random(rows)),
        "bool": pa.array(lot.integers(0, 2, rows) == 1),
        "dropped": pa.array(np.zeros(rows, np.uint8)),
    }


def _few_attributes(some: _Some, rows: int, each: int = 2) -> _Columns:
    count = max(min(rows, some.rows // 2), 1)
    return {
        "parent_id": pa.array((np.arange(rows) // each).astype(np.uint16)),
        "type": pa.array(np.full(rows, 1, np.uint8)),
        "key": some.words("attribute", min(12, rows), rows),
        "str": some.words("the value of an attribute", count, rows, kind=np.uint16),
    }


def of_size(byte_count: int) -> dict[str, pa.RecordBatch]:
    """One slot whose payload takes about so many bytes."""
    body = np.frombuffer(np.random.default_rng(1).bytes(max(byte_count - 300, 8)), np.uint8)
    return {SLOTS[0]: pa.record_batch({"b": pa.array(body)})}


def encoded(bundle: dict[str, pa.RecordBatch], wal_seq: int) -> EncodedBundle:
    """Encode a bundle as an append does."""
    payloads = [
        Payload(
            SLOTS.index(name),
            SLOTS.index(name),
            fingerprint(batch.schema),
            batch.num_rows,
            memoryview(encode_stream(batch)),
        )
        for name, batch in bundle.items()
    ]
    return EncodedBundle(wal_seq, 1_700_000_000_000_000_000, tuple(payloads))


def frames(bundles: list[EncodedBundle]) -> list[bytes]:
    """The bytes that the log writes for them."""
    return [encode_bundle(bundle) for bundle in bundles]
