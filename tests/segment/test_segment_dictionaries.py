from __future__ import annotations

import pyarrow as pa
import pytest

from quiver.config import LimitsConfig
from quiver.errors import InputError
from quiver.ipc import check_schema
from quiver.segment.dictionaries import _leaves
from quiver.testing.same import difference


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
        assert difference(batch, found) is None
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


def test_a_stream_is_filled_in_order_as_far_as_its_index_type_goes(shelf):
    arrays = [words(*(f"{i}.{j}" for j in range(30)), index=pa.int8()) for i in range(9)]
    assert round_trip(shelf, arrays) == [4, 4, 1]


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
    more = words("low", "high", "higher", ordered=True)
    assert round_trip(shelf, [low, high]) == [1, 1]
    assert round_trip(shelf, [low, low]) == [2]
    assert round_trip(shelf, [more, low, more, high, more]) == [3, 1, 1]
    batch = pa.record_batch({"c": high})
    reader = shelf.read(shelf.write({0: pa.record_batch({"c": low})}, {0: batch}))
    assert reader.bundle(1)[0].column(0).dictionary.to_pylist() == ["cold", "low"]


UNUSUAL = {
    "values that are structs": lambda *v: words(*({"k": x, "l": None} for x in v), None),
    "values that are lists": lambda *v: words(*([x, None] for x in v), [], None),
    "values that are fixed lists": lambda *v: words(
        *([x, x] for x in v), None, kind=pa.list_(pa.string(), 2)
    ),
    "values that are maps": lambda *v: words(
        *([(x, 1)] for x in v), [], kind=pa.map_(pa.string(), pa.int8())
    ),
    "values that are views": lambda *v: words(*v, None, kind=pa.string_view()),
    "values that are null": lambda *v: words(*v, None),
    "values that come twice": lambda *v: words(*v, *v),
    "only nulls": lambda *v: words(*(None for _ in v), kind=pa.null()),
}


@pytest.mark.parametrize("make", UNUSUAL.values(), ids=UNUSUAL)
def test_dictionaries_of_unusual_values_share_one_too(shelf, make):
    assert round_trip(shelf, [make("a", "b"), make("c", "b", "d"), make("b")]) == [3]
    assert round_trip(shelf, [make("a", "b"), make("a", "b")]) == [2]


WHOLE = {
    "values that hold dictionaries": lambda *v: pa.DictionaryArray.from_arrays(
        pa.array(range(len(v))), nested("list", words(*v)[:-1])
    ),
    "values that are unions": lambda *v: pa.DictionaryArray.from_arrays(
        pa.array(range(len(v))), nested("sparse union", pa.array(v))
    ),
}


@pytest.mark.parametrize("make", WHOLE.values(), ids=WHOLE)
def test_dictionaries_whose_values_cannot_be_told_apart_share_one_if_they_are_equal(shelf, make):
    one, other = make("a", "b"), make("c", "b", "d")
    assert round_trip(shelf, [one, other]) == [1, 1]
    assert round_trip(shelf, [one, make("a", "b"), other, other, one]) == [2, 2, 1]


@pytest.mark.parametrize("kind", ["struct", "list", "run ends", "dense union"])
def test_three_hundred_bundles_of_the_same_three_hundred_values_keep_three_hundred(shelf, kind):
    values = [f"value {i}" for i in range(300)]
    arrays = [
        words(*values[i:], *values[:i]) if i % 3 else words(*values[: 300 - i]) for i in range(300)
    ]
    for made in (arrays, [nested(kind, array) for array in arrays]):
        batches = [pa.record_batch({"c": array}) for array in made]
        reader = shelf.read(shelf.write(*({0: batch} for batch in batches)))
        assert [stream.chunk_count for stream in reader.streams] == [300]
        column = reader.bundle(299)[0].column(0)
        assert [len(leaf.dictionary) for leaf in _leaves(column)] == [300]
        assert difference(batches[299], reader.bundle(299)[0]) is None


def test_values_stand_in_a_united_dictionary_in_order_of_first_appearance(shelf):
    arrays = [words("m", "k"), words("z", "k", "a"), words("a", "b", "m")]
    reader = shelf.read(shelf.write(*({0: pa.record_batch({"c": array})} for array in arrays)))
    assert reader.bundle(0)[0].column(0).dictionary.to_pylist() == ["m", "k", "z", "a", "b"]


def test_bundles_without_rows_among_others_keep_their_place(shelf):
    full = words("a", "b")
    assert round_trip(shelf, [full[:0], full, words("c")[:0], words("c"), full[:0]]) == [5]


def test_zero_and_nan_values_of_dictionaries_stay_apart(shelf):
    arrays = [words(0.0, float("nan")), words(-0.0, float("inf"))]
    assert round_trip(shelf, arrays) == [2]
    apart = [words(0.0), words(-0.0)]
    assert round_trip(shelf, apart) == [2]


def test_nan_values_of_different_bits_stay_apart(shelf):
    bits = [0x7FF8000000000001, 0xFFF8000000000002, 0x7FF0000000000003]
    values = [pa.array([each], pa.uint64()).view(pa.float64()) for each in bits]
    index = pa.array([0, None], pa.int8())
    assert round_trip(shelf, [pa.DictionaryArray.from_arrays(index, v) for v in values]) == [3]


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
