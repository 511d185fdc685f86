"""The rows: some numbers, a time, text of few and of many values; and wider ones of 20 columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import quiver

BUNDLE_ROWS = 8192
_NAMES = np.array([f"service-{i:03}/operation-{i % 7}-abcde" for i in range(50)])


def bundle(random: np.random.Generator, first: int, *, extra: int) -> pa.RecordBatch:
    """Make the rows of one bundle; ``extra`` columns of numbers come behind six others."""
    rows = BUNDLE_ROWS
    ids = np.arange(first, first + rows)
    columns = {
        "id": pa.array(ids),
        "time": pa.array(ids * 1000 + 1_700_000_000_000_000, pa.timestamp("us", "UTC")),
        "value": pa.array(random.normal(size=rows)),
        "code": pa.array(random.integers(0, 500, rows, dtype=np.int32)),
        "trace": pa.array(np.char.mod("%016x", random.integers(0, 2**62, rows))),
        "name": pa.array(_NAMES[random.integers(0, len(_NAMES), rows)]),
    }
    for number in range(extra):
        numbers = random.normal(size=rows) if number % 2 else random.integers(0, 1000, rows)
        columns[f"x{number}"] = pa.array(numbers)
    return pa.record_batch(columns)


def write_store(path: Path, rows: int, *, extra: int) -> None:
    """Write a store of one slot, ``d``, all of it finalized."""
    random = np.random.default_rng(1)
    with quiver.open(path, slots=["d"], worker=False) as store:
        for first in range(0, rows, BUNDLE_ROWS):
            store.append({"d": bundle(random, first, extra=extra)})
        store.finalize()
