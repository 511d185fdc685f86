"""Fixed-size lists of fixed-size lists, of which Arrow's ``take`` gives values of other rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from store_kit import writer

from quiver.casts.nested import decode
from quiver.casts.picking import has_stacked_lists, levelled, rows_at, rows_where
from quiver.scan import scan

MATRIX = pa.list_(pa.list_(pa.int32(), 2), 3)
COUNT, BEGIN, ROWS = 40, 7, 11


def matrix(n: int) -> list[list[int]]:
    return [[n, n + 100], [n + 200, n + 300], [n + 400, n + 500]]


SHAPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "alone": (MATRIX, matrix),
    "in a struct": (
        pa.struct([("a", pa.int8()), ("m", MATRIX)]),
        lambda n: {"a": 1, "m": matrix(n)},
    ),
    "thrice": (pa.list_(MATRIX, 2), lambda n: [matrix(n), matrix(n + 1)]),
    "in lists": (pa.list_(MATRIX), lambda n: [matrix(n)] * (n % 3)),
    "in maps": (pa.map_(pa.int32(), MATRIX), lambda n: [(n, matrix(n))]),
    "with nulls": (MATRIX, lambda n: matrix(n) if n % 4 else None),
    "of bits": (pa.list_(pa.list_(pa.bool_(), 2), 3), lambda n: [[n % 2 > 0, n % 3 > 0]] * 3),
    "of binary": (pa.list_(pa.list_(pa.binary(1), 2), 3), lambda n: [[b"%c" % n, b"a"]] * 3),
}


def sliced(kind: pa.DataType, value: Callable[[int], Any]) -> tuple[Any, list[Any]]:
    every: Any = pa.array([value(n) for n in range(COUNT)], kind)
    return every.slice(BEGIN, ROWS), every.to_pylist()[BEGIN : BEGIN + ROWS]


@pytest.mark.parametrize(("kind", "value"), SHAPES.values(), ids=SHAPES)
def test_each_row_that_is_picked_has_its_own_values(kind, value) -> None:
    array, wanted = sliced(kind, value)
    places = np.array([10, 0, 3, 3])
    mask = np.arange(ROWS) % 3 == 1
    table = pa.table({"v": pa.chunked_array([array, array]), "n": list(range(2 * ROWS))})
    batch = pa.record_batch({"v": array})
    assert has_stacked_lists(batch.schema)
    for rows in (array, pa.chunked_array([array]), batch, table):
        is_array = isinstance(rows, pa.Array | pa.ChunkedArray)
        one, other = rows_at(rows, places), rows_where(rows, np.resize(mask, len(rows)))
        assert type(one) is type(rows)
        taken, kept = (found if is_array else found.column("v") for found in (one, other))
        assert taken.to_pylist() == [wanted[place] for place in places]
        assert kept.to_pylist()[:3] == [wanted[1], wanted[4], wanted[7]]
        if not is_array:
            assert one.schema.equals(rows.schema, check_metadata=True)
    last_first = levelled(table).sort_by([("n", "descending")]).column("v")
    assert last_first.to_pylist() == (wanted + wanted)[::-1]


def test_values_of_a_dictionary_that_begin_later_are_looked_up() -> None:
    array, wanted = sliced(MATRIX, matrix)
    coded = pa.DictionaryArray.from_arrays(pa.array([4, None, 0]), array)
    assert decode(coded).to_pylist() == [wanted[4], None, wanted[0]]
    assert rows_at(coded, [2]).to_pylist() == [wanted[0]]


def test_lists_around_values_that_begin_later_are_picked() -> None:
    array, wanted = sliced(MATRIX, matrix)
    around = pa.ListArray.from_arrays(pa.array([0, 2, 5], pa.int32()), array)
    assert rows_at(around, [1, 0]).to_pylist() == [wanted[2:5], wanted[:2]]


def test_what_arrow_does_right_is_left_to_it() -> None:
    for kind in (
        pa.list_(pa.int32(), 2),
        pa.list_(pa.list_(pa.int32())),
        pa.list_(pa.struct([]), 2),
    ):
        assert not has_stacked_lists(pa.schema([("v", kind)]))
        array = pa.nulls(3, kind).slice(1)
        assert levelled(array) is array


def test_arrow_itself_mistakes_the_rows() -> None:
    """Where this fails Arrow was mended: what goes around it may go."""
    array, wanted = sliced(MATRIX, matrix)
    assert array.take(pa.array(range(ROWS))).to_pylist() != wanted
    assert array.filter(pa.array([True] * ROWS)).to_pylist() != wanted


def test_a_scan_that_filters_gives_each_row_its_own_values(tmp_path) -> None:
    count = 100_000  # Arrow cuts tables into pieces of 32,768 rows before it filters.
    numbers = np.arange(6 * count, dtype=np.int32)
    inner = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 2)
    rows = {"v": pa.FixedSizeListArray.from_arrays(inner, 3), "n": pa.array(np.arange(count))}
    rows["few"] = pa.array(np.arange(count) % 1000)
    batch = pa.record_batch(rows)
    path = writer(tmp_path / "store")([{"logs": batch.slice(10)}])
    found = scan(path, slot="logs")
    some = found.select(where=pc.field("few") == 7).to_table()
    assert some.num_rows == 99
    for row in some.to_pylist():
        assert row["v"][0][0] == 6 * row["n"]
    later = found.dataset().filter(pc.field("n") >= 20)  # All rows of it are one view.
    taken = later.take([0, 50_000, count - 21])
    assert taken["n"].to_pylist() == [20, 50_020, count - 1]
    last = later.sort_by([("n", "descending")]).head(3)
    assert last["n"].to_pylist() == [count - 1, count - 2, count - 3]
    for row in [*taken.to_pylist(), *last.to_pylist()]:
        assert row["v"][2][1] == 6 * row["n"] + 5
