"""One command for each key, against a dictionary: any order columns, hot keys, repeats or none."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.errors import InputError
from quiver.upsert.rows import Commands, Plan, prepare, reduce, settled

ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["x", "y", None]),
        st.one_of(st.none(), st.integers(-2, 2)),
        st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
    ),
    max_size=25,
)
PLAN = Plan(key=["a", "b"], value=["n"], order_by=["one", "two"])


def written(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    kinds = {"a": pa.int64(), "b": pa.string(), "one": pa.int32(), "two": pa.string()}
    table = {
        name: pa.array(list(column), kind)
        for (name, kind), column in zip(kinds.items(), columns, strict=True)
    }
    return pa.table(table | {"n": pa.array(range(len(rows)), pa.int64())})


def least(value: Any) -> tuple[bool, Any]:
    """Order null before all else."""
    return value is not None, value


def told(found: Commands) -> dict[tuple[Any, ...], int]:
    assert len({tuple(key.values()) for key in found.keys.to_pylist()}) == len(found)
    text = found.keys.to_pylist()
    numbers = found.to_table()["value"].to_pylist()
    return {
        tuple(key.values()): value and value["n"] for key, value in zip(text, numbers, strict=True)
    }


@settings(max_examples=150)
@given(rows=ROWS)
def test_the_greatest_order_wins_column_by_column_and_then_the_first(
    rows: list[tuple[Any, ...]],
) -> None:
    won: dict[tuple[Any, ...], int] = {}
    for number, row in enumerate(rows):
        best = won.get(row[:2])
        if best is None or [*map(least, row[2:])] > [*map(least, rows[best][2:])]:
            won[row[:2]] = number
    expected = {key: None if None in key else number for key, number in won.items()}
    assert told(reduce(prepare(written(rows), PLAN))) == expected


@settings(max_examples=60)
@given(rows=ROWS)
def test_without_an_order_the_last_wins(rows: list[tuple[Any, ...]]) -> None:
    last = {row[:2]: None if None in row[:2] else number for number, row in enumerate(rows)}
    plan = Plan(key=["a", "b"], value=["n"])
    assert told(reduce(prepare(written(rows), plan))) == last


@settings(max_examples=60)
@given(rows=ROWS, cut=st.integers(0, 25), ordered=st.booleans())
def test_reducing_parts_first_changes_nothing(
    rows: list[tuple[Any, ...]], cut: int, *, ordered: bool
) -> None:
    plan = PLAN if ordered else Plan(key=["a", "b"], value=["n"])
    table = written(rows)
    parts = [prepare(part, plan) for part in (table.slice(0, cut), table.slice(cut))]
    both = reduce(Commands.concat([reduce(part) for part in parts]))
    assert told(both) == told(reduce(prepare(table, plan)))


ORDERS = [
    pa.array([3, None, 250, 4], pa.uint8()),
    pa.array([3, -250, 250, 4], pa.int16()),
    pa.array([0.5, float("-inf"), 1e300, -0.0]),
    pa.array([False, None, True, False]),
    pa.array(["b", "", "ba", None]),
    pa.array([b"b", b"", b"ba", None], pa.large_binary()),
    pa.array(["b", "a", "c", "a"]).dictionary_encode(),
    pa.array([5, 1, 1 << 62, 5], pa.timestamp("ns", "UTC")),
    pa.array([5, 1, 1 << 30, 5], pa.date32()),
    pa.array([5, 1, 1 << 62, 5], pa.duration("us")),
    pa.array(["1.50", "-2.00", "7.25", None]).cast(pa.decimal128(9, 2)),
    pa.array([1, 2, (1 << 64) - 1, 1 << 63], pa.uint64()),
]


@pytest.mark.parametrize("column", ORDERS)
def test_anything_that_has_an_order_can_be_one(column: Any) -> None:
    """Row 2 is the greatest of each."""
    table = pa.table({"k": [1] * 4, "v": ["0", "1", "2", "3"], "o": column})
    found = reduce(prepare(table, Plan(key=["k"], value=["v"], order_by=["o"])))
    assert found.values.to_pylist() == [{"v": "2"}]
    turned = reduce(prepare(table.take([2, 1, 0, 3]), Plan(key=["k"], order_by=["o"])))
    assert turned.values.to_pylist() == [{"v": "2"}]


def test_a_column_of_nulls_alone_orders_nothing() -> None:
    table = pa.table({"k": [1, 1], "v": ["a", "b"], "o": pa.nulls(2)})
    found = reduce(prepare(table, Plan(key=["k"], order_by=["o"])))
    assert found.values.to_pylist() == [{"v": "a"}]


INTERVALS = pa.array([pa.MonthDayNano([1, 2, 3])] * 2)


@pytest.mark.parametrize("column", [[{"x": 1}] * 2, [[1], [2]], INTERVALS])
def test_what_has_no_order_is_refused(column: Any) -> None:
    table = pa.table({"k": [1, 1], "v": [1, 2], "o": column})
    with pytest.raises(InputError, match="commands cannot be ordered by"):
        reduce(prepare(table, Plan(key=["k"], order_by=["o"])))


def test_nan_is_greater_than_any_number() -> None:
    table = pa.table({"k": [1, 1, 1], "v": ["a", "b", "c"], "o": [float("nan"), 1.0, 2.0]})
    plan = Plan(key=["k"], order_by=["o"])
    for rows in ([0, 1, 2], [2, 1, 0]):
        assert reduce(prepare(table.take(rows), plan)).values.to_pylist() == [{"v": "a"}]


@pytest.mark.parametrize("rows_of_a_key", [1, 10, 50_000])
def test_hot_keys_repeats_of_ten_to_one_and_keys_that_never_repeat(rows_of_a_key: int) -> None:
    count = 50_000
    keys = np.random.default_rng(1).permutation(count) // rows_of_a_key
    table = pa.table({"k": keys, "v": np.arange(count), "o": np.arange(count)[::-1].copy()})
    found = reduce(prepare(table, Plan(key=["k"], order_by=["o"])))
    first: dict[int, int] = {}
    for place, key in enumerate(keys.tolist()):
        first.setdefault(key, place)
    keys_found = [row["k"] for row in found.keys.to_pylist()]
    values = [row["v"] for row in found.values.to_pylist()]
    assert dict(zip(keys_found, values, strict=True)) == first
    assert len(found) == -(-count // rows_of_a_key)
    assert (found.hashes[1:] >= found.hashes[:-1]).all()


def test_commands_with_and_without_an_order_do_not_mix() -> None:
    table = written([(1, "x", 1, "a")])
    one, other = prepare(table, PLAN), prepare(table, Plan(key=["a", "b"], value=["n"]))
    with pytest.raises(InputError, match="some commands have an order"):
        Commands.concat([one, other])


def test_orders_of_several_types_meet_in_one_that_holds_them() -> None:
    plan = Plan(key=["k"], order_by=["o"])
    narrow = pa.table({"k": [1], "v": ["a"], "o": pa.array([5], pa.int8())})
    wide = pa.table({"k": [1], "v": ["b"], "o": pa.array([1 << 40])})
    for parts, won in (((narrow, wide), "b"), ((wide, narrow), "b")):
        both = Commands.concat([prepare(part, plan) for part in parts])
        assert reduce(both).values.to_pylist() == [{"v": won}]
    other = pa.table({"k": [1], "v": ["b"], "o": ["x"]})
    with pytest.raises(InputError, match="column 'o'"):
        Commands.concat([prepare(narrow, plan), prepare(other, plan)])


def test_values_of_several_types_are_put_together_by_nobody() -> None:
    plan = Plan(key=["k"])
    one, other = (prepare(pa.table({"k": [1], "v": [v]}), plan) for v in ("a", 2))
    with pytest.raises(InputError, match="values of several types"):
        Commands.concat([one, other])


ORDERS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(st.none(), st.integers(-1, 1)) | st.integers(-1, 1),
        st.integers(-1, 1),
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(rows=ORDERS, is_log=st.booleans(), unsigned=st.booleans())
def test_an_order_that_is_that_of_the_rows_is_left_out_and_no_other(
    rows: list[tuple[Any, ...]], *, is_log: bool, unsigned: bool
) -> None:
    if is_log:
        rows = sorted(rows, key=lambda row: (least(row[1]), row[2]))
    shift = 1 if unsigned else 0
    table = pa.table(
        {
            "a": pa.array([row[0] for row in rows], pa.int64()),
            "one": pa.array(
                [None if row[1] is None else row[1] + shift for row in rows],
                pa.uint8() if unsigned else pa.timestamp("us"),
            ),
            "two": pa.array([row[2] for row in rows], pa.int16()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    commands = prepare(table, Plan(key=["a"], value=["n"], order_by=["one", "two"]))
    found = settled(commands)
    orders = [row[1:] for row in rows]
    grows = all(None not in (*here, *behind) and here < behind for here, behind in pairwise(orders))
    assert (found.order is None) == (len(rows) > 1 and grows) or len(rows) < 2
    assert told(reduce(found)) == told(reduce(commands))
