"""What ``segment.schema_metadata`` and ``segment.dictionary_cardinality`` do to a store."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import quiver
from quiver.bundle import fingerprint
from quiver.disk import LocalDisk
from quiver.segment import SegmentReader
from quiver.testing.same import difference
from tests.kit.store_kit import abandon


def batch(number: int) -> pa.RecordBatch:
    words = pa.array([f"word {number}", "same"]).dictionary_encode()
    schema = pa.schema(
        [pa.field("w", words.type, metadata={"batch": str(number)}), pa.field("u", pa.uuid())],
        metadata={"batch": str(number)},
    )
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16, None], pa.binary(16)))
    return pa.RecordBatch.from_arrays([words, uuids], schema=schema)


def write(folder: Any, *, crash: bool, **segment: object) -> SegmentReader:
    """Append four batches, crash if asked to, and open the one segment that they end up in."""
    config = {"segment": segment}
    store = quiver.open(folder, slots=["a"], worker=False, config=config)
    for number in range(4):
        store.append({"a": batch(number)})
    if crash:
        abandon(store)
        store = quiver.open(folder, worker=False, config=config)
    store.close()
    disk = LocalDisk(f"{folder}/core_0/segments")
    (entry,) = disk.list_dir("")
    return SegmentReader.open(disk, entry.name)


@pytest.mark.parametrize("crash", [False, True])
def test_metadata_that_is_kept_makes_a_stream_of_each_and_dropped_one_of_all(tmp_path, crash):
    kept = write(tmp_path / "keep", crash=crash)
    assert [stream.chunk_count for stream in kept.streams] == [1, 1, 1, 1]
    assert difference(kept.bundle(3)[0], batch(3)) is None

    dropped = write(tmp_path / "drop", crash=crash, schema_metadata="drop")
    (stream,) = dropped.streams
    bare = pa.schema([("w", pa.dictionary(pa.int32(), pa.string())), ("u", pa.uuid())])
    assert stream.fingerprint == fingerprint(bare)
    for number in range(4):
        found = dropped.bundle(number)[0]
        assert (
            difference(found, pa.RecordBatch.from_arrays(batch(number).columns, schema=bare))
            is None
        )


def test_the_configured_cardinality_rotates_the_streams_of_a_store(tmp_path):
    config = {"dictionary_cardinality": 3, "schema_metadata": "drop"}
    reader = write(tmp_path, crash=False, **config)
    assert [stream.chunk_count for stream in reader.streams] == [2, 2]
    words = [reader.bundle(number)[0].column(0).to_pylist()[0] for number in range(4)]
    assert words == [f"word {number}" for number in range(4)]


def test_a_batch_of_no_columns_loses_its_metadata_and_keeps_its_rows(tmp_path):
    config = {"segment": {"schema_metadata": "drop"}}
    rows = pa.record_batch({"n": [1, 2, 3]}).select([]).replace_schema_metadata({"a": "b"})
    with quiver.open(tmp_path, slots=["a"], worker=False, config=config) as store:
        store.append({"a": rows})
        store.finalize()
        handle = store.subscribe("reader").poll()
        with handle:
            assert (handle["a"].num_rows, handle["a"].schema.metadata) == (3, None)
