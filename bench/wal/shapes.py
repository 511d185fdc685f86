"""The bundles of the benchmark: what logs look like to the pipeline that the store was made for."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from quiver.bundle import fingerprint
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.wal.format import encode_bundle

__all__ = ["SLOTS", "encoded", "frames", "of_size", "standard"]

SLOTS: Final = ("records", "record_attrs", "resource_attrs", "scope_attrs")
_WORDS: Final = [f"value-{n}" for n in range(200)]


def standard(rows: int, seed: int = 0, *, narrow: bool = False) -> dict[str, pa.RecordBatch]:
    """Four slots: ``rows`` log records, three attributes to each, and few of resource and scope.

    Dictionaries have indices of 32 bits, or ``narrow`` ones of 8 and 16 bits, as OTAP has them.
    """
    lot = np.random.default_rng(seed)
    ids = pa.array(np.arange(rows, dtype=np.uint16))
    records = {
        "id": ids,
        "time": pa.array(lot.integers(1 << 60, 1 << 61, rows), pa.timestamp("ns")),
        "severity": pa.array(lot.integers(1, 24, rows, dtype=np.int32)),
        "trace_id": pa.array([lot.bytes(16) for _ in range(rows)], pa.binary(16)),
        "span_id": pa.array([lot.bytes(8) for _ in range(rows)], pa.binary(8)),
        "body": pa.array([f"request {n} took {n * 7 % 1000} ms" for n in range(rows)]),
    }
    return {
        "records": pa.record_batch(records),
        "record_attrs": _attributes(3 * rows, lot, narrow),
        "resource_attrs": _attributes(8, lot, narrow),
        "scope_attrs": _attributes(4, lot, narrow),
    }


def _attributes(rows: int, lot: np.random.Generator, narrow: bool) -> pa.RecordBatch:  # noqa: FBT001
    keys = pa.array([f"key.{n % 12}" for n in range(rows)]).dictionary_encode()
    values = pa.array([_WORDS[n] for n in lot.integers(0, len(_WORDS), rows)]).dictionary_encode()
    if narrow:
        keys = keys.cast(pa.dictionary(pa.uint8(), pa.string()))
        values = values.cast(pa.dictionary(pa.uint16(), pa.string()))
    parents = pa.array(np.arange(rows, dtype=np.uint16) // 3)
    return pa.record_batch({"parent_id": parents, "key": keys, "value": values})


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
