"""A line of text says which rows delete their key."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quiver.errors import InputError
from quiver.upsert.feeding.conditions import ask, parse_condition

ROWS = pa.table(
    {
        "op": pa.array(["c", "d", None, "it's", "d"]),
        "kind": pa.array(["c", "d", None, "d", "e"]).dictionary_encode(),
        "n": pa.array([1, 2, 3, None, 5], pa.int16()),
        "x": [0.5, -1.0, 2e3, float("nan"), None],
        "gone": [False, True, None, False, True],
        "is it": [True, False, None, True, False],
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("op = 'd'", [1, 4]),
        ("op == 'd'", [1, 4]),
        ("op='it''s'", [3]),
        ("op != 'd'", [0, 3]),
        ("op <> 'd'", [0, 3]),
        ("kind = 'd'", [1, 3]),
        ("kind in ('d', 'e')", [1, 3, 4]),
        ("gone", [1, 4]),
        ('"is it"', [0, 3]),
        ("gone = true", [1, 4]),
        ("not gone", [0, 3]),
        ("op is null", [2]),
        ("op is not null and n is null", [3]),
        ("n < 2", [0]),
        ("n <= 2", [0, 1]),
        ("n > 3", [4]),
        ("n >= +3", [2, 4]),
        ("n in (1, 5)", [0, 4]),
        ("x = -1", [1]),
        ("x >= 2e3", [2]),
        ("op = 'c' or op = 'd' and n = 5", [0, 4]),
        ("(op = 'c' or op = 'd') and n = 5", [4]),
        ("NOT (n = 1 OR n = 2) AND gone", [4]),
    ],
)
def test_conditions_are_asked_of_rows(text, rows) -> None:
    found = ask(ROWS, parse_condition(text).expression)
    assert [row for row, yes in enumerate(found.to_pylist()) if yes] == rows
    assert found.null_count == 0


def test_order_holds_over_many_chunks() -> None:
    rows = pa.table({"n": pa.chunked_array([[i] * 3 for i in range(50)])})
    found = ask(rows, parse_condition("n = 7 or n = 31").expression)
    assert [i for i, yes in enumerate(found.to_pylist()) if yes] == [21, 22, 23, 93, 94, 95]


def test_a_name_and_nothing_else_is_a_column() -> None:
    assert parse_condition("gone").column == "gone"
    assert parse_condition('"a ""b"""').column == 'a "b"'
    assert parse_condition("not gone").column is None
    assert parse_condition("gone = true").column is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "op =",
        "= 'd'",
        "op = d",
        "op = 'd",
        "op 'd'",
        "op = 'd' and",
        "op in 'd'",
        "op in ()",
        "op in ('d', 1)",
        "(op = 'd'",
        "op = 'd')",
        "op is",
        "op is not",
        "not",
        "null",
        "op = 1a",
        "op ; drop",
        '""',
        "(" * 200 + "gone" + ")" * 200,
        "not " * 200 + "gone",
        "x" * 10_001,
    ],
)
def test_garbage_is_refused(text) -> None:
    with pytest.raises(InputError, match="delete_when"):
        parse_condition(text)


@pytest.mark.parametrize("text", ["other = 1", "op = 1", "op < true", "n", "op in (1, 2)"])
def test_what_cannot_be_asked_of_these_rows_is_refused(text) -> None:
    with pytest.raises(InputError, match="delete_when"):
        ask(ROWS, parse_condition(text).expression)


def test_pyarrow_says_it_as_well() -> None:
    assert ask(ROWS, pc.field("n") == 2).to_pylist().index(True) == 1
