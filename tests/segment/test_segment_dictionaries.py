from __future__ import annotations

import pyarrow as pa
import pytest

from quiver.config import LimitsConfig
from quiver.errors import InputError
from quiver.ipc import check_schema


def words(
    *values: object,
    index: pa.DataType = pa.int32(),  # noqa: B008
    kind: pa.DataType | None = None,
    ordered: bool = False,
) -> pa.DictionaryArray:
    """A dictionary of just these values in this order, each used once, and a null at the end."""
    indices = pa.array([*range(len(values)), None], index)
    return pa.DictionaryArray.from_arrays(indices, pa.array(values, kind), ordered=ordered)


def ends(array: pa.Array) -> pa.Array:
    return pa.array(range(len(array) + 1), pa.int32())


def map_keys(array: pa.Array) -> pa.Array:
    keys = array.filter(array.is_valid())
    return pa.MapArray.from_arrays(ends(keys), keys, pa.array(range(len(keys))))


def zeros(array: pa.Array) -> pa.Array:
    return pa.array([0] * len(array), pa.int8())


NESTED = {
    "struct": lambda a: pa.StructArray.from_arrays([a], ["x"]),
    "list": lambda a: pa.ListArray.from_arrays(ends(a), a),
    "fixed list": lambda a: pa.FixedSizeListArray.from_arrays(a, 1),
    "list view": lambda a: pa.ListViewArray.from_arrays(ends(a)[:-1], pa.array([1] * len(a)), a),
    "map value": lambda a: pa.MapArray.from_arrays(ends(a), pa.array(range(len(a))), a),
    "map key": map_keys,
    "sparse union": lambda a: pa.UnionArray.from_sparse(zeros(a), [a]),
    "dense union": lambda a: pa.UnionArray.from_dense(zeros(a), ends(a)[:-1], [a]),
    "run ends": lambda a: pa.RunEndEncodedArray.from_arrays(ends(a)[1:], a),
}


def nested(kinds: str, inner: pa.Array) -> pa.Array:
    """Wrap an array into types, the last one named first."""
    for kind in reversed(kinds.split(" of ")):
        inner = NESTED[kind](inner)
    return inner


def round_trip(shelf, arrays: list[pa.Array]) -> list[int]:
    """Write each array as a bundle, compare what comes back, and count the chunks by stream."""
    schema = pa.schema([("c", arrays[0].type), ("n", pa.int64())])
    batches = [
        pa.record_batch([array, pa.array(range(len(array)))], schema=schema) for array in arrays
    ]
    reader = shelf.read(shelf.write(*({0: batch} for batch in batches)))
    reader.verify()
    for index, batch in enumerate(batches):
        found = reader.bundle(index)[0]
        assert found.schema.equals(batch.schema, check_metadata=True)
        assert found.to_pylist() == batch.to_pylist()
    assert len({(s.slot_id, s.fingerprint) for s in reader.streams}) == 1
    return [stream.chunk_count for stream in reader.streams]


@pytest.mark.parametrize("count", [2, 3])
def test_differing_values_over_several_bundles_share_one_dictionary(shelf, count):
    arrays = [words("shared", f"own {i}") for i in range(count)]
    assert round_trip(shelf, arrays) == [count]


def test_one_bundle_keeps_its_dictionary_as_it_is(shelf):
    batch = pa.record_batch({"c": words("b", "b", "unused", "a")})
    assert shelf.read(shelf.write({0: batch})).bundle(0)[0].equals(batch)


INDEX_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16()]
INDEX_TYPES += [pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
def test_dictionaries_of_every_index_type_come_back_with_it(shelf, index):
    assert round_trip(shelf, [words("a", "b", index=index), words("c", index=index)]) == [2]


@pytest.mark.parametrize("index,size", [(pa.int8(), 100), (pa.uint8(), 200)], ids=str)
def test_an_index_type_that_overflows_splits_the_stream_and_not_the_type(shelf, index, size):
    arrays = [words(*(f"{i}.{j}" for j in range(size)), index=index) for i in range(5)]
    assert sum(round_trip(shelf, arrays)) == 5
    assert len(round_trip(shelf, arrays)) == 5


def test_only_as_many_streams_are_made_as_halving_needs(shelf):
    arrays = [words(*(f"{i}.{j}" for j in range(30)), index=pa.int8()) for i in range(8)]
    assert round_trip(shelf, arrays) == [4, 4]


def test_many_repeats_of_the_same_values_stay_one_dictionary(shelf):
    values = [f"value {i}" for i in range(200)]
    arrays = [words(*values[i:], *values[:i], index=pa.uint8()) for i in range(50)]
    assert round_trip(shelf, arrays) == [50]


DEEP = ["struct of struct of struct", "list of struct of map value", "dense union of list"]


@pytest.mark.parametrize("kind", [*NESTED, *DEEP])
def test_dictionaries_inside_other_types_share_one_stream(shelf, kind):
    arrays = [nested(kind, words("a", "b")), nested(kind, words("c", "b"))]
    assert round_trip(shelf, arrays) == [2]


@pytest.mark.parametrize(
    "kind",
    [pa.int64(), pa.float64(), pa.bool_(), pa.timestamp("s", "UTC"), pa.uint8(), pa.date32()],
    ids=str,
)
def test_dictionaries_of_values_other_than_text_share_one_stream(shelf, kind):
    arrays = [words(0, 1, kind=pa.int64()), words(1, kind=pa.int64())]
    steps = [kind] if kind != pa.date32() else [pa.int32(), kind]
    for step in steps:
        arrays = [
            pa.DictionaryArray.from_arrays(a.indices, a.dictionary.cast(step)) for a in arrays
        ]
    assert round_trip(shelf, arrays) == [2]


def test_the_order_of_an_ordered_dictionary_is_never_changed(shelf):
    low, high = words("low", "high", ordered=True), words("cold", "low", ordered=True)
    assert round_trip(shelf, [low, high]) == [1, 1]
    assert round_trip(shelf, [low, low]) == [2]
    batch = pa.record_batch({"c": high})
    reader = shelf.read(shelf.write({0: pa.record_batch({"c": low})}, {0: batch}))
    assert reader.bundle(1)[0].column(0).dictionary.to_pylist() == ["cold", "low"]


DIFFICULT = {
    "values that are structs": lambda *v: words(*({"k": x} for x in v)),
    "values that are lists": lambda *v: words(*([x] for x in v)),
    "values that are null": lambda *v: words(*v, None),
    "only nulls": lambda *v: words(*(None for _ in v), kind=pa.null()),
    "values that hold dictionaries": lambda *v: pa.DictionaryArray.from_arrays(
        pa.array(range(len(v))), nested("list", words(*v)[:-1])
    ),
}


@pytest.mark.parametrize("make", DIFFICULT.values(), ids=DIFFICULT)
def test_dictionaries_that_cannot_be_united_are_split_and_equal_ones_are_not(shelf, make):
    assert round_trip(shelf, [make("a", "b"), make("c", "b", "d")]) == [1, 1]
    assert round_trip(shelf, [make("a", "b"), make("a", "b")]) == [2]


def test_bundles_without_rows_among_others_keep_their_place(shelf):
    full = words("a", "b")
    assert round_trip(shelf, [full[:0], full, words("c")[:0], words("c"), full[:0]]) == [5]


def test_zero_and_nan_values_of_dictionaries_stay_apart(shelf):
    arrays = [words(0.0, float("nan")), words(-0.0, float("inf"))]
    reader = shelf.read(shelf.write(*({0: pa.record_batch({"c": a})} for a in arrays)))
    for index, array in enumerate(arrays):
        found = reader.bundle(index)[0].column(0).cast(pa.float64()).to_pylist()
        assert repr(found) == repr(array.cast(pa.float64()).to_pylist())


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string())),
        pa.dictionary(pa.int8(), pa.uuid()),
        pa.list_(pa.dictionary(pa.int8(), pa.uuid())),
    ],
    ids=["dictionary of dictionaries", "dictionary of extensions", "inside a list"],
)
def test_what_the_arrow_format_cannot_keep_is_refused_before_it_is_taken(kind):
    with pytest.raises(InputError, match="cannot keep"):
        check_schema(pa.schema([("c", kind)]), LimitsConfig())
