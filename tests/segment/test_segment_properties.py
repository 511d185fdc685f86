from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quiver.bundle import fingerprint
from quiver.disk import LocalDisk
from quiver.ipc import encode_stream
from quiver.payload import EncodedBundle, Payload
from quiver.segment import SegmentLabel, SegmentReader, write_segment
from quiver.slots import SlotTable

SLOTS = SlotTable.of(["a", "b", "c"])

LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(max_size=20)),
    (pa.string_view(), st.text(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.timestamp("us", "UTC"), st.integers(-(2**50), 2**50)),
    (pa.decimal128(10, 0), st.integers(-(10**9), 10**9)),
    (pa.null(), st.none()),
]
IN_DICTIONARIES = [pa.int8(), pa.uint64(), pa.float64(), pa.string(), pa.binary(3)]
INDEXES = [pa.int8(), pa.uint16(), pa.int64()]


@st.composite
def column_types(draw: st.DrawFn) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    kind, values = draw(st.sampled_from(LEAVES))
    values = st.one_of(st.none(), values)
    for _ in range(draw(st.integers(0, 2))):
        match draw(st.sampled_from(["dictionary", "list", "struct", "map", "large list"])):
            case "dictionary" if kind in IN_DICTIONARIES:
                kind = pa.dictionary(draw(st.sampled_from(INDEXES)), kind)
            case "list":
                kind, values = pa.list_(kind), st.one_of(st.none(), st.lists(values, max_size=3))
            case "large list":
                kind, values = pa.large_list(kind), st.lists(values, max_size=3)
            case "struct":
                kind = pa.struct([("x", kind), ("y", pa.int32())])
                values = st.fixed_dictionaries({"x": values, "y": st.integers(0, 9)})
            case "map":
                kind = pa.map_(pa.string(), kind)
                values = st.lists(st.tuples(st.text(max_size=2), values), max_size=2)
    return kind, values


@st.composite
def schemas(draw: st.DrawFn) -> tuple[pa.Schema, list[st.SearchStrategy[Any]]]:
    columns = draw(st.lists(column_types(), max_size=3))
    metadata = draw(st.sampled_from([None, {"key": "value"}]))
    fields = [pa.field(f"c{i}", kind) for i, (kind, _) in enumerate(columns)]
    return pa.schema(fields, metadata=metadata), [values for _, values in columns]


def build(schema: pa.Schema, columns: list[list[Any]], rows: int) -> pa.RecordBatch:
    if not schema.names:
        one = pa.record_batch({"n": pa.nulls(rows)}).select([])
        return one.replace_schema_metadata(schema.metadata)
    arrays = [pa.array(v, field.type) for field, v in zip(schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@st.composite
def bundle_lists(draw: st.DrawFn) -> list[dict[int, pa.RecordBatch]]:
    kinds = draw(st.lists(schemas(), min_size=1, max_size=3))
    bundles = []
    for _ in range(draw(st.integers(1, 5))):
        bundle = {}
        for slot_id in draw(st.sets(st.integers(0, 2), min_size=1)):
            schema, values = draw(st.sampled_from(kinds))
            rows = draw(st.integers(0, 5))
            columns = [draw(st.lists(v, min_size=rows, max_size=rows)) for v in values]
            bundle[slot_id] = build(schema, columns, rows)
        bundles.append(bundle)
    return bundles


def encode(index: int, bundle: dict[int, pa.RecordBatch]) -> EncodedBundle:
    payloads = tuple(
        Payload(s, s, fingerprint(b.schema), b.num_rows, encode_stream(b).to_pybytes())
        for s, b in bundle.items()
    )
    return EncodedBundle(index, index, payloads)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(bundles=bundle_lists())
def test_any_bundles_come_back_value_for_value_with_their_exact_schemas(bundles):
    with tempfile.TemporaryDirectory() as folder:
        disk = LocalDisk(folder)
        label = SegmentLabel(1, "", 0, SLOTS, 0, 0)
        encoded = [encode(index, bundle) for index, bundle in enumerate(bundles)]
        info = write_segment(disk, "", encoded, label=label)
        reader = SegmentReader.open(disk, info.path)
        reader.verify()
        for index, bundle in enumerate(bundles):
            found = reader.bundle(index)
            assert list(found) == sorted(bundle)
            for slot_id, batch in bundle.items():
                assert found[slot_id].schema.equals(batch.schema, check_metadata=True)
                assert found[slot_id].num_rows == batch.num_rows
                assert found[slot_id].to_pylist() == batch.to_pylist()
        first = bytes(disk.map(info.path))
        write_segment(disk, "", encoded, label=label)
        assert bytes(disk.map(info.path)) == first
