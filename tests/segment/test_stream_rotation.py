"""Dictionaries that are full are followed by fresh ones; stored indices are as narrow as can be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.config import LimitsConfig, SegmentConfig
from quiver.errors import DamagedEntry
from quiver.ipc_file import ArrowFile
from quiver.segment import write_segment
from quiver.segment.dictionaries import read_declared, restore, restore_table, unite
from quiver.testing.same import difference
from tests.kit.every_type import Colour, known
from tests.segment.test_segment_dictionaries import NESTED, nested, words

LIMITS = LimitsConfig()
INDEXES = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
INDEXES += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


def chunks(arrays: list[pa.Array], cardinality: int) -> list[int]:
    """Unite arrays as bundles of one column, compare what is restored, and count by stream."""
    batches = [pa.record_batch({"c": array}) for array in arrays]
    streams = unite(batches[0].schema, batches, cardinality=cardinality)
    assert [i for stream in streams for i in stream.chunks] == list(range(len(batches)))
    for stream in streams:
        for index, batch in zip(stream.chunks, stream.batches, strict=True):
            batch.validate(full=True)
            assert difference(batches[index], restore(batch, batches[0].schema)) is None
    return [len(stream.chunks) for stream in streams]


def test_past_the_configured_cardinality_the_next_bundle_begins_a_fresh_stream():
    arrays = [words(*(f"{i}.{j}" for j in range(3))) for i in range(7)]
    assert chunks(arrays, 9) == [3, 3, 1]
    assert chunks(arrays, 8) == [2, 2, 2, 1]
    assert chunks(arrays, 21) == [7]


def test_one_bundle_alone_always_fits_and_so_do_those_that_add_nothing():
    large = words(*(f"{i}" for i in range(50)))
    assert chunks([large, large[:7], words("new"), words("3", "1"), large], 10) == [2, 2, 1]
    assert chunks([large, words("3", "1"), words("49"), words("new")], 10) == [3, 1]


def test_a_dictionary_larger_than_its_index_type_can_address_stands_alone():
    values = pa.array([f"{i}" for i in range(300)])
    array = pa.DictionaryArray.from_arrays(pa.array([5, 127], pa.int8()), values)
    other = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), values[299:])
    assert chunks([array, other, array, array], 1000) == [1, 1, 2]


def test_the_dictionaries_of_all_columns_share_the_fate_of_the_first_that_is_full():
    batches = [
        pa.record_batch({"a": words("x", "y"), "b": words(f"{i}", "same"), "n": [1, 2, i]})
        for i in range(6)
    ]
    streams = unite(batches[0].schema, batches, cardinality=4)
    assert [len(stream.chunks) for stream in streams] == [3, 3]


def test_the_streams_of_a_segment_follow_the_configured_cardinality(shelf):
    batches = [pa.record_batch({"c": words(f"{i}", "same")}) for i in range(6)]
    bundles = [shelf.encode(i, {0: batch}) for i, batch in enumerate(batches)]
    config = SegmentConfig(dictionary_cardinality=3)
    info = write_segment(shelf.disk, "", bundles, label=shelf.label(), config=config)
    reader = shelf.read(info)
    assert [stream.chunk_count for stream in reader.streams] == [2, 2, 2]
    assert len({stream.fingerprint for stream in reader.streams}) == 1
    for index, batch in enumerate(batches):
        assert difference(batch, reader.bundle(index)[0]) is None


def sizes() -> list[tuple[pa.DataType, int, int]]:
    """Index types, numbers of values that they address, and the bits that these need."""
    needs = {True: {5: 8, 128: 8, 129: 16, 300: 16, 40_000: 32}}
    needs[False] = needs[True] | {129: 8, 40_000: 16}
    return [
        (index, count, bits)
        for index in INDEXES
        for count, bits in needs[pa.types.is_signed_integer(index)].items()
        if bits <= index.bit_width
    ]


@pytest.mark.parametrize("index,count,bits", sizes())
def test_the_narrowest_index_of_the_declared_sign_is_stored(shelf, index, count, bits):
    signed = pa.types.is_signed_integer(index)
    array = words(*range(count), index=index)
    reader = shelf.read(shelf.write({0: pa.record_batch({"c": array})}))
    (entry,) = reader.streams
    data = shelf.load(reader.info)[entry.byte_offset :][: entry.byte_length]
    stored = ArrowFile(data).schema.field(0).type.index_type
    assert stored.bit_width == bits
    assert pa.types.is_signed_integer(stored) == signed
    assert (entry.declared_schema is None) == (stored == index)
    assert reader.stream_schema(0).field(0).type.index_type == index
    assert difference(reader.bundle(0)[0], pa.record_batch({"c": array})) is None


@pytest.mark.parametrize("kind", [*NESTED, "list of struct of map value", "run ends of list"])
def test_indices_inside_of_other_types_are_narrowed_too(kind):
    batch = pa.record_batch({"c": nested(kind, words("a", "b"))})
    (stream,) = unite(batch.schema, [batch], cardinality=10)
    assert "indices=int8" in str(stream.schema.field(0).type)
    assert difference(batch, restore(stream.batches[0], batch.schema)) is None


def test_the_storage_of_extension_types_keeps_its_index_type():
    kind = Colour(pa.dictionary(pa.int32(), pa.string()))
    with known(kind):
        arrays = [pa.ExtensionArray.from_storage(kind, words(v, "same")) for v in "abc"]
        assert chunks(arrays, 10) == [3]
        batch = pa.record_batch({"c": arrays[0]})
        (stream,) = unite(batch.schema, [batch], cardinality=10)
        assert stream.schema == batch.schema
    unknown = pa.field("c", kind.storage_type, metadata={"ARROW:extension:name": "some.type"})
    schema = pa.schema([unknown])
    batch = pa.RecordBatch.from_arrays([words("a")], schema=schema)
    (stream,) = unite(schema, [batch, batch], cardinality=10)
    assert stream.schema.equals(schema, check_metadata=True)


def test_a_batch_that_is_stored_as_declared_comes_back_as_it_is():
    batch = pa.record_batch({"c": words("a", index=pa.int8())})
    assert restore(batch, batch.schema) is batch


def test_what_stands_under_a_null_index_is_never_looked_up():
    buffers = [pa.py_buffer(b"\x02"), pa.py_buffer(b"\xff\xff\xff\x7f\0\0\0\0")]
    index = pa.Array.from_buffers(pa.int32(), 2, buffers)
    arrays = [
        pa.DictionaryArray.from_arrays(index, pa.array([word, "same"]), safe=False)
        for word in ("a", "b", "c")
    ]
    assert chunks(arrays, 10) == [3]


def test_a_declared_schema_that_is_not_that_of_the_stream_is_damage():
    def schema(*kinds: pa.DataType) -> pa.Schema:
        return pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])

    narrow, wide = (pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.int32()))
    stored = schema(narrow, pa.int8())
    good = schema(wide, pa.int8())
    assert read_declared(good.serialize().to_pybytes(), stored, LIMITS).equals(good)
    for bad in (
        schema(wide),
        schema(wide, pa.int16()),
        schema(pa.dictionary(pa.uint32(), pa.string()), pa.int8()),
        schema(pa.dictionary(pa.int32(), pa.large_string()), pa.int8()),
        schema(pa.dictionary(pa.int32(), pa.string(), ordered=True), pa.int8()),
        good.with_metadata({"a": "b"}),
    ):
        with pytest.raises(DamagedEntry, match="another stream"):
            read_declared(bad.serialize().to_pybytes(), stored, LIMITS)
    with pytest.raises(DamagedEntry, match="another stream"):  # Narrower than what is stored.
        read_declared(stored.serialize().to_pybytes(), good, LIMITS)
    for data in (b"", b"no schema", good.serialize().to_pybytes()[:40]):
        with pytest.raises(DamagedEntry, match="cannot be read"):
            read_declared(data, stored, LIMITS)


DICTIONARIES = st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(DICTIONARIES, min_size=1, max_size=12), st.integers(1, 6), st.booleans())
def test_streams_are_filled_greedily_in_order(drawn, cardinality, ordered):
    arrays = [words(*values, kind=pa.string(), ordered=ordered) for values in drawn]
    found = chunks(arrays, cardinality)
    begin = 0
    for size, after in zip(found, [*found[1:], 0], strict=True):
        inside = drawn[begin : begin + size]
        begin += size
        if after and not ordered:
            # The next one did not fit: it brings a new value, and there are too many by then.
            whole = {value for values in inside for value in values}
            assert len(whole | set(drawn[begin])) > min(cardinality, len(whole))


NANS = np.array([0x7FF8_0000_0000_0001, 0x7FF8_0000_0000_0002, 0], np.uint64).view(np.float64)
VOCABULARIES = [
    pa.array(["a", "b", None]),
    pa.array([b"a", b"b", b""], pa.large_binary()),
    pa.array([1, 2, 3], pa.timestamp("ms")),
    pa.array([True, False, None]),
    pa.array(NANS),
    pa.array([[1], [], [2, 3]], pa.list_(pa.int8())),
]


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    vocabulary=st.sampled_from(VOCABULARIES),
    is_first=st.booleans(),
)
def test_a_whole_table_is_restored_as_its_chunks_are(lengths, vocabulary, is_first):
    def batch(length: int, index: pa.DataType) -> pa.RecordBatch:
        places = pa.array([0, None, 2][:length], index)
        numbers = pa.array(range(length), pa.int64())
        columns = {"w": pa.DictionaryArray.from_arrays(places, vocabulary), "n": numbers}
        return pa.record_batch(columns if is_first else dict(reversed(columns.items())))

    stored = [batch(length, pa.int8()) for length in lengths]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, stored[0].schema) as writer:
        for each in stored:
            writer.write_batch(each)
    table = pa.ipc.open_file(sink.getvalue()).read_all()
    wide = [batch(length, pa.int32()) for length in lengths]
    found = restore_table(table, wide[0].schema)
    found.validate(full=True)
    assert [len(chunk) for chunk in found.column(0).chunks] == lengths
    rows = 0
    for expected, length in zip(wide, lengths, strict=True):
        (part,) = found.slice(rows, length).to_batches() or [expected]
        assert difference(expected, part) is None
        rows += length
    assert found.num_rows == rows
