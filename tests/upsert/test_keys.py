"""Canonical bytes and hashes of keys, against HASHING.md told once more in plain Python."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from every_type import TYPES, column
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import types as kinds

from quiver.ipc import child_types
from quiver.testing.drawn_types import types
from quiver.testing.drawn_values import arrays
from quiver.upsert.rows import (
    buckets_of,
    exact_bytes,
    key_bytes,
    key_hashes,
    rows_of_buckets,
    same_keys,
)
from quiver.upsert.rows import same_values as same_exactly

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def plain(array: Any, row: int) -> tuple[Any, int]:
    """Give the array and the row where a value is really written."""
    if isinstance(array, pa.DictionaryArray):
        index = array.indices[row].as_py()
        if index is None:
            return pa.nulls(1, plain_null(array.type.value_type)), 0
        return plain(array.dictionary, index)
    if isinstance(array, pa.RunEndEncodedArray):
        return plain(array.values, array.find_physical_offset() + run_of(array, row))
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage, row)
    return array, row


def pieces(array: Any, row: int, *, exact: bool) -> tuple[bytes, list[bytes]]:
    """Give what is fixed and what varies of one value, as the page tells it."""
    array, row = plain(array, row)
    kind = array.type
    if kinds.is_decimal(kind):  # Of some, pyarrow makes no scalars.
        kind = pa.binary(kind.bit_width // 8)
        parts = array.buffers()
        array = pa.Array.from_buffers(kind, len(array), parts, offset=array.offset)
    there = array[row].is_valid
    flag = bytes([there])
    if kinds.is_null(kind):
        return flag, []
    if kinds.is_struct(kind):
        return children(array, row, exact=exact)
    if kinds.is_boolean(kind):
        return flag + bytes([bool(there and array[row].as_py())]), []
    if str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary"):
        wide = array.cast(pa.large_string()) if "string" in str(kind) else array
        data = (wide.cast(pa.large_binary())[row].as_py() or b"") if there else b""
        return flag + struct.pack("<I", len(data)), [data]
    if kinds.is_nested(kind):
        return listed(array, row, exact=exact)
    return flag + bits_of(array, row, exact=exact), []


def children(array: Any, row: int, *, exact: bool) -> tuple[bytes, list[bytes]]:
    there = array[row].is_valid
    fixed, varying = bytes([there]), []
    for index, field in enumerate(array.type):
        child = array.field(index) if there else pa.nulls(1, plain_null(field.type))
        more, further = pieces(child, row if there else 0, exact=exact)
        fixed, varying = fixed + more, varying + further
    return fixed, varying


def bits_of(array: Any, row: int, *, exact: bool) -> bytes:
    kind, there = array.type, array[row].is_valid
    width = kind.bit_width // 8
    raw = array.buffers()[1]
    place = (array.offset + row) * width
    bits = bytes(raw)[place : place + width] if there and width else bytes(width)
    if kinds.is_floating(kind) and there and not exact:
        form = {2: "<e", 4: "<f", 8: "<d"}[width]
        number = struct.unpack(form, bits)[0]
        bits = struct.pack(form, math.nan if math.isnan(number) else number + 0.0)
    return bits


def plain_null(kind: Any) -> Any:
    """Give a type of which pyarrow makes a null, with the same bytes."""
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return plain_null(kind.value_type)
    return plain_null(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def run_of(array: Any, row: int) -> int:
    ends = array.run_ends.to_pylist()
    first = array.find_physical_offset()
    return next(i for i, end in enumerate(ends) if end > array.offset + row) - first


def listed(array: Any, row: int, *, exact: bool) -> tuple[bytes, list[bytes]]:
    one = array.slice(row, 1)
    if not one.is_valid()[0].as_py():
        return b"\0" + struct.pack("<I", 0), [b""]
    if kinds.is_map(array.type):
        start, stop = one.offsets[0].as_py(), one.offsets[1].as_py()
        inner = b"".join(
            entry(array.keys, array.items, place, exact=exact) for place in range(start, stop)
        )
    else:
        values = one.flatten()
        rows = (pieces(values, place, exact=exact) for place in range(len(values)))
        inner = b"".join(b"".join(flatten(one)) for one in rows)
    return b"\1" + struct.pack("<I", len(inner)), [inner]


def entry(keys: Any, items: Any, place: int, *, exact: bool) -> bytes:
    (one, more), (two, further) = (pieces(a, place, exact=exact) for a in (keys, items))
    return b"\1" + one + two + b"".join(more + further)


def flatten(found: tuple[bytes, list[bytes]]) -> list[bytes]:
    return [found[0], *found[1]]


def expected(columns: list[Any], row: int, *, exact: bool = False) -> bytes:
    found = [pieces(one, row, exact=exact) for one in columns]
    return b"".join([f for f, _ in found] + [v for _, more in found for v in more])


def mix(word: int) -> int:
    word ^= word >> 32
    word = word * 0xBF58476D1CE4E5B9 & MASK
    word ^= word >> 29
    word = word * 0x94D049BB133111EB & MASK
    return word ^ word >> 32


def expected_hash(data: bytes) -> int:
    words = max(1, (len(data) + 7) // 8)
    padded = data.ljust(words * 8, b"\0")
    total = len(data) * STEP
    for index, (word,) in enumerate(struct.iter_unpack("<Q", padded)):
        total += mix((word + (index + 1) * STEP) & MASK)
    return mix(total & MASK)


def struct_of(columns: list[Any]) -> Any:
    return pa.StructArray.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])


def has_no_union(kind: Any) -> bool:
    return not kinds.is_union(kind) and all(map(has_no_union, child_types(kind)))


def check(columns: list[Any]) -> None:
    keys = struct_of(columns)
    found, exactly = key_bytes(keys), exact_bytes(keys)
    rows = range(len(keys))
    assert found.to_pylist() == [expected(columns, row) for row in rows]
    assert exactly.to_pylist() == [expected(columns, row, exact=True) for row in rows]
    assert key_hashes(found).tolist() == [expected_hash(data) for data in found.to_pylist()]
    if len(keys) > 1:
        one, other = keys.slice(1), keys.slice(0, len(keys) - 1)
        told = [found[row] == found[row + 1] for row in rows[:-1]]
        assert same_keys(one, other).tolist() == told
        told = [exactly[row] == exactly[row + 1] for row in rows[:-1]]
        assert same_exactly(one, other).tolist() == told


@pytest.mark.parametrize("kind", list(filter(has_no_union, TYPES)))
def test_every_type_has_its_bytes(kind: Any) -> None:
    whole = column(kind, 5)
    check([whole])
    part = whole.slice(1)
    check([part, pa.array(["", "a", None, "bc"])[: len(part)]])


@pytest.mark.parametrize("kind", [pa.ListArray, pa.LargeListArray])
def test_lists_of_what_arrow_cannot_build_anew_have_their_bytes(kind: Any) -> None:
    indices = pa.array([0, 1, 0], pa.int8())
    words = pa.DictionaryArray.from_arrays(indices, pa.array([1.5, 2.5], pa.float16()))
    lists = kind.from_arrays([0, 2, 2, 3], words)
    nulls = pa.nulls(3, lists.type)
    for keys in (lists, lists.slice(1), nulls, nulls.slice(1)):
        check([keys, pa.array(["a", "", None])[: len(keys)]])
    view = pa.ListViewArray.from_arrays(
        pa.array([0, 0, 2], pa.int32()), pa.array([2, 0, 1], pa.int32()), words
    )
    for start in (0, 1):
        assert key_bytes(struct_of([view.slice(start)])) == key_bytes(
            struct_of([lists.slice(start)])
        )


@settings(max_examples=60)
@given(st.data())
def test_keys_of_many_columns_have_their_bytes(data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 4))
    drawn = data.draw(st.lists(types().filter(has_no_union), min_size=1, max_size=3))
    start = data.draw(st.integers(0, rows - 1))
    columns = [data.draw(arrays(kind, rows)).slice(start) for kind in drawn]
    check(columns)


def test_zero_and_nan_have_one_spelling_each_in_keys_and_every_one_in_values() -> None:
    for kind, bits in ((pa.float64(), np.uint64), (pa.float32(), np.uint32)):
        width = np.dtype(bits).itemsize * 8
        ones = (1 << width) - 1
        spelt = np.array([0, 1 << (width - 1), ones, ones >> 1], bits)
        floats = pa.Array.from_buffers(kind, 4, [None, pa.py_buffer(spelt)])
        keys = struct_of([floats])
        data = key_bytes(keys)
        assert data[0] == data[1]
        assert data[2] == data[3]
        assert data[0] != data[2]
        assert len(set(exact_bytes(keys).to_pylist())) == 4
        swapped = struct_of([floats.take(pa.array([1, 0, 3, 2]))])
        assert same_keys(keys, swapped).all()
        assert not same_exactly(keys, swapped).any()


@pytest.mark.parametrize(
    "one, other",
    [
        (["ab", "c"], ["a", "bc"]),
        (["", None], [None, ""]),
        (["a\0", ""], ["a", "\0"]),
        ([[1], [2, 3]], [[1, 2], [3]]),
        ([[[1], []]], [[[], [1]]]),
        ([None], [[]]),
        ([[None]], [[]]),
        ([{"x": None}], [None]),
        ([0], [None]),
    ],
)
def test_what_is_put_together_otherwise_has_other_bytes(one: list[Any], other: list[Any]) -> None:
    columns = [pa.array([left, right]) for left, right in zip(one, other, strict=True)]
    data = key_bytes(struct_of(columns))
    assert data[0] != data[1]
    assert not same_keys(struct_of(columns).slice(1), struct_of(columns).slice(0, 1)).any()


def test_how_values_are_written_does_not_matter() -> None:
    text = ["a", None, "a", "bc"]
    ways = [
        pa.array(text),
        pa.array(text, pa.large_string()),
        pa.array(text, pa.string_view()),
        pa.array(text).dictionary_encode(),
        pa.array(["x", *text]).slice(1),
    ]
    assert len({tuple(key_bytes(struct_of([way])).to_pylist()) for way in ways}) == 1


GOLDEN = [
    ([pa.array([0], pa.int64())], "010000000000000000", 0x94FB5CC8E70840C9),
    ([pa.array([""])], "0100000000", 0x1E9AF554D5B03A30),
    ([pa.array([None], pa.string())], "0000000000", 0x43B515D70CFEDBC6),
    (
        [pa.array([7], pa.int32()), pa.array(["key"])],
        "010700000001030000006b6579",
        0x025E56BFD5606B30,
    ),
    ([pa.array([[1, 2]], pa.list_(pa.int8()))], "010400000001010102", 0xDBD434C7075B988B),
    ([pa.array([Decimal("1.5")], pa.decimal128(4, 1))], "010f" + "00" * 15, 0x338CC273065AF886),
    ([pa.array([{"x": 1.0, "y": None}])], "0101000000000000f03f00", 0x3D6BDB2E0F8299A2),
]


@pytest.mark.parametrize("columns, text, number", GOLDEN)
def test_golden_bytes_and_hashes(columns: list[Any], text: str, number: int) -> None:
    """Never change these: files out there are sorted by them."""
    data = key_bytes(struct_of(columns))
    assert data[0].as_py().hex() == text
    assert int(key_hashes(data)[0]) == number


def test_hashes_of_many_rows_are_those_of_one() -> None:
    long = [b"y" * 100_003]
    short = [b"", b"\0", b"x" * 7, b"x" * 8, b"x" * 9, b""] * 6_000
    texts = long + short + long + short[:500]  # More than one window, and no multiple of one.
    many = pa.array(texts, pa.large_binary())
    found = key_hashes(many)
    assert len(found) == len(many)
    alone = {data: expected_hash(data) for data in set(texts)}
    assert all(int(number) == alone[data] for number, data in zip(found, texts, strict=True))
    assert key_hashes(many.slice(3, 5)).tolist() == found[3:8].tolist()
    assert key_hashes(many.slice(0, 0)).tolist() == []


def test_buckets_are_the_remainders_of_hashes() -> None:
    hashes = np.array([0, 5, MASK], np.uint64)
    assert buckets_of(hashes, 4).tolist() == [0, 1, 3]
    assert buckets_of(hashes, 1).tolist() == [0, 0, 0]


def test_hashes_spread_over_buckets_evenly() -> None:
    keys = struct_of([pa.array(range(40_000))])
    counts = np.bincount(buckets_of(key_hashes(key_bytes(keys)), 16))
    assert counts.min() > 2_300
    assert counts.max() < 2_700
    assert len(set(key_hashes(key_bytes(keys)).tolist())) == 40_000


@pytest.mark.parametrize("buckets", [1, 2, 7, 300, 70_000])
def test_rows_of_buckets_are_each_row_once_in_its_bucket_and_in_order(buckets) -> None:
    hashes = np.random.default_rng(buckets).integers(0, MASK, 500, np.uint64, endpoint=True)
    order, edges = rows_of_buckets(hashes, buckets)
    assert (len(edges), edges[0], edges[-1]) == (buckets + 1, 0, 500)
    found = {}
    for bucket in np.flatnonzero(np.diff(edges)).tolist():
        rows = order[edges[bucket] : edges[bucket + 1]].tolist()
        assert rows == sorted(rows)
        found |= dict.fromkeys(rows, bucket)
    assert found == {row: int(number) % buckets for row, number in enumerate(hashes.tolist())}
    none, ends = rows_of_buckets(hashes[:0], buckets)
    assert (len(none), set(ends.tolist())) == (0, {0})


def test_what_lies_below_a_null_row_is_no_part_of_a_key() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int16()), [True, False])
    text = pa.array(["a", "b"])
    below = pa.StructArray.from_arrays([text, runs], names=["a", "b"], mask=pa.array([True, True]))
    keys = struct_of([below])
    one, other = key_bytes(keys).to_pylist()
    assert one == other
    assert same_keys(keys.slice(0, 1), keys.slice(1)).tolist() == [True]
    assert same_exactly(keys.slice(0, 1), keys.slice(1)).tolist() == [True]


def test_views_of_dictionaries_that_arrow_cannot_build_are_keys():
    halves = np.array([1, 2], np.float16)
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.int8()), pa.array(halves))
    views = pa.ListViewArray.from_arrays(
        pa.array([1, 0], pa.int32()), pa.array([2, 1], pa.int32()), words
    )
    lists = pa.array([[halves[1], halves[1]], [halves[0]]], pa.list_(pa.float16()))
    ends = pa.array([0, 0], pa.int32())
    none = pa.ListViewArray.from_arrays(ends, ends, words)
    rows, plain, empty = (
        pa.StructArray.from_arrays([each], names=["a"]) for each in (views, lists, none)
    )
    assert key_bytes(rows).to_pylist() == key_bytes(plain).to_pylist()
    assert key_bytes(rows.slice(1)).to_pylist() == key_bytes(plain.slice(1)).to_pylist()
    assert len(set(key_bytes(empty).to_pylist())) == 1
