from __future__ import annotations

import pyarrow as pa
import pytest

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def at(kind: pa.DataType, *values: int | None) -> pa.RecordBatch:
    return pa.record_batch({"at": pa.array(values, kind)})


@pytest.mark.parametrize(
    "what,batch,expected",
    [
        ("seconds", at(pa.timestamp("s"), 7, 3, None), (3 * 10**9, 7 * 10**9)),
        ("milliseconds", at(pa.timestamp("ms", "UTC"), -1, 2), (-(10**6), 2 * 10**6)),
        ("microseconds", at(pa.timestamp("us", "Europe/Berlin"), 5), (5000, 5000)),
        ("nanoseconds", at(pa.timestamp("ns"), I64_MIN, I64_MAX), (I64_MIN, I64_MAX)),
        ("the far future", at(pa.timestamp("s"), 1, I64_MAX), (10**9, I64_MAX)),
        ("only the far future", at(pa.timestamp("s"), 10**18), (I64_MAX, I64_MAX)),
        ("only the far past", at(pa.timestamp("ms"), -(10**18)), (I64_MIN, I64_MIN)),
        ("all null", at(pa.timestamp("ns"), None, None), (None, None)),
        ("no rows", at(pa.timestamp("ns")), (None, None)),
        ("no such column", pa.record_batch({"then": [1]}), (None, None)),
        ("no timestamp", at(pa.int64(), 5), (None, None)),
        ("the name twice", pa.record_batch([[1], [2]], ["at", "at"]), (None, None)),
    ],
)
def test_event_times_of_bundle_and_stream_are_nanoseconds(shelf, what, batch, expected):
    reader = shelf.read(shelf.write({0: batch}))
    bundle, (stream,) = reader.bundle_entry(0), reader.streams
    assert (bundle.event_ns_min, bundle.event_ns_max) == expected
    assert (stream.event_ns_min, stream.event_ns_max) == expected


def test_event_times_are_of_all_slots_of_a_bundle_and_all_chunks_of_a_stream(shelf):
    shelf.slots = type(shelf.slots).of(
        [type(s)(s.slot_id, s.name, s.payload_type_id, "at") for s in shelf.slots]
    )
    ns = pa.timestamp("ns")
    reader = shelf.read(
        shelf.write({0: at(ns, 10), 5: at(ns, 1)}, {0: at(ns, None)}, {0: at(ns, 30, 20)})
    )
    bundles = [reader.bundle_entry(i) for i in range(3)]
    assert [(b.event_ns_min, b.event_ns_max) for b in bundles] == [(1, 10), (None, None), (20, 30)]
    assert [(s.event_ns_min, s.event_ns_max) for s in reader.streams] == [(10, 30), (1, 1)]


def test_a_slot_without_an_event_time_has_none(shelf):
    reader = shelf.read(shelf.write({5: at(pa.timestamp("ns"), 10)}))
    assert reader.streams[0].event_ns_min is None


def test_ingestion_times_and_sequences_are_kept_for_each_bundle(shelf, numbers):
    reader = shelf.read(shelf.write({0: numbers(1)}, {5: numbers(1)}, {0: numbers(2)}))
    entries = [reader.bundle_entry(i) for i in range(3)]
    assert [entry.wal_seq for entry in entries] == [100, 101, 102]
    assert [entry.ingestion_ns // 10**9 for entry in entries] == [100, 101, 102]
    first, second = reader.streams
    assert (first.ingestion_ns_min, first.ingestion_ns_max) == (100 * 10**9, 102 * 10**9)
    assert (second.ingestion_ns_min, second.ingestion_ns_max) == (101 * 10**9, 101 * 10**9)


def test_byte_counts_are_those_of_the_payloads(shelf, numbers):
    bundle = shelf.encode(100, {0: numbers(1), 5: numbers(2, 3)})
    reader = shelf.read(shelf.write({0: numbers(1), 5: numbers(2, 3)}))
    assert reader.bundle_entry(0).byte_count == bundle.payload_bytes


def test_null_counts_are_of_what_reads_as_null_in_each_column_or_unknown(shelf):
    words = pa.array(["x", None])
    columns = {
        "plain": pa.array([1, None, None]),
        "full": pa.array([1, 2, 3]),
        "null": pa.nulls(3),
        "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 0, None]), words[:1]),
        "null word": pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), words),
        "null words": pa.DictionaryArray.from_arrays(pa.array([0, 0, 0]), pa.nulls(1)),
        "runs": pa.RunEndEncodedArray.from_arrays([1, 3], words),
        "union": pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([None, 1, 2])]),
        "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([None] * 3, pa.binary(16))),
    }
    (stream,) = shelf.read(shelf.write(*[{0: pa.record_batch(columns)}] * 2)).streams
    assert stream.null_counts == (4, 0, 6, 2, None, None, None, None, 6)


def test_columns_that_a_stream_lacks_are_marked_against_the_representative_schema(shelf):
    names = [f"c{i}" for i in range(10)]
    wide = pa.record_batch({name: [1] for name in names})
    drifted = wide.select(["c9", "c1"])
    other = pa.record_batch({"c10": ["new"], "c0": [1]})
    reader = shelf.read(shelf.write({0: wide}, {0: drifted}, {0: other}))
    schema = reader.representative_schemas()[0]
    assert schema.names == [*names, "c10"]
    for stream in reader.streams:
        present = set(reader.stream_schema(stream.stream_id).names)
        bits = int.from_bytes(stream.omitted_columns, "little")
        omitted = {name for i, name in enumerate(schema.names) if bits >> i & 1}
        assert omitted == set(schema.names) - present
        assert len(stream.omitted_columns) == 2


def test_types_without_a_common_one_leave_the_slot_without_representative_schema(shelf, numbers):
    text = pa.record_batch({"n": ["text"]})
    reader = shelf.read(shelf.write({0: numbers(1), 5: numbers(1)}, {0: text}))
    assert reader.representative_schemas() == {5: numbers().schema}
    assert [s.omitted_columns for s in reader.streams] == [None, b"\0", None]
    assert reader.bundle(1)[0].equals(text)
