"""Rows of bundles as commands, under a definition that grows wider with them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from quiver.errors import InputError
from quiver.upsert.feeding.options import FeedOptions
from quiver.upsert.feeding.shaping import Shaper
from quiver.upsert.rows import reduce


def shaper(**options: Any) -> Shaper:
    return Shaper(FeedOptions(**{"slot": "s", "key": ["k"]} | options))


def shown(commands) -> list[tuple[Any, ...]]:
    columns = commands.keys, commands.values, commands.errors
    return [
        (tuple(key.values()), None if value is None else tuple(value.values()), error)
        for key, value, error in zip(*(c.to_pylist() for c in columns), strict=True)
    ]


def test_all_columns_but_the_key_are_the_value() -> None:
    rows = pa.table({"a": [1, 2], "k": ["x", "y"], "b": ["p", None]})
    shaped = shaper().shape([rows], None)
    assert shaped.definition.key == pa.schema([("k", pa.string())])
    assert shaped.definition.value == pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert shaped.definition.buckets == 16
    assert shown(shaped.commands) == [(("x",), (1, "p"), None), (("y",), (2, None), None)]


def test_without_rows_there_is_nothing() -> None:
    assert shaper().shape([pa.table({}), pa.table({"k": pa.array([], pa.int64())})], None) is None


def test_chosen_values_and_composite_keys() -> None:
    rows = pa.table({"a": [1], "k": ["x"], "b": ["p"], "j": [2.5]})
    shaped = shaper(key=("k", "j"), value="b").shape([rows], None)
    assert shown(shaped.commands) == [(("x", 2.5), ("p",), None)]


def test_a_key_whose_value_is_null_throughout_goes() -> None:
    rows = pa.table({"k": [1, 2], "a": [None, 1], "b": [None, None]})
    shaped = shaper().shape([rows], None)
    assert [value for _, value, _ in shown(shaped.commands)] == [None, (1, None)]


@pytest.mark.parametrize(
    "when",
    ["gone", '"gone"', "gone = true", "op = 'd'", pc.field("op") == "d", "op in ('d', 'x')"],
)
def test_a_deletion_is_said_by_a_column_or_a_condition(when) -> None:
    rows = pa.table({"k": [1, 2, 3], "op": ["c", "d", None], "gone": [False, True, None]})
    shaped = shaper(delete_when=when, value=["op"]).shape([rows], None)
    assert [value for _, value, _ in shown(shaped.commands)] == [("c",), None, (None,)]


@pytest.mark.parametrize("when", ["gone", "op = 'd'", pc.field("op") == "d"])
def test_where_a_column_of_the_condition_is_missing_it_is_null(when) -> None:
    first = pa.table({"k": [1, 2], "op": ["c", "d"], "gone": [False, True]})
    later = pa.table({"k": [2], "other": [5]})
    made = shaper(delete_when=when, value=["op"])
    shaped = made.shape([later, first], None)
    assert [value for _, value, _ in shown(shaped.commands)] == [(None,), ("c",), None]
    shaped = made.shape([later], shaped.definition)
    assert [value for _, value, _ in shown(shaped.commands)] == [(None,)]
    if not isinstance(when, str) or "op" in when:  # The collection has that column.
        shaper(delete_when=when, value=["op"]).shape([later], shaped.definition)
    with pytest.raises(InputError, match="nope"):
        shaper(delete_when="nope").shape([first, later], shaped.definition)


def test_the_column_that_says_it_is_no_value_and_those_of_a_condition_are() -> None:
    rows = pa.table({"k": [1], "op": ["c"], "gone": [False], "_gone": [1]})
    assert shaper(delete_when="gone").shape([rows], None).definition.value.names == ["op", "_gone"]
    shaped = shaper(delete_when="not gone").shape([rows], None)
    assert shaped.definition.value.names == ["op", "gone", "_gone"]


def test_the_last_of_a_key_wins_or_the_greatest_by_order() -> None:
    one = pa.table({"k": [1, 1], "v": ["a", "b"], "at": pa.array([2, 1], pa.int32())})
    two = pa.table({"k": [1, 2], "v": ["c", "d"], "at": [1, 2**40]})
    commands = shaper().shape([one, two], None).commands
    assert sorted(shown(reduce(commands))) == [((1,), ("c", 1), None), ((2,), ("d", 2**40), None)]
    shaped = shaper(order_by="at").shape([one, two], None)
    assert shaped.definition.value.names == ["v"]
    assert sorted(shown(reduce(shaped.commands))) == [((1,), ("a",), None), ((2,), ("d",), None)]


def test_the_value_grows_wider() -> None:
    first = shaper().shape([pa.table({"k": [1], "v": pa.array([1], pa.int32())})], None)
    tables = [
        pa.table({"k": [2], "v": [2**40]}),
        pa.table({"k": [3], "w": ["new"]}),
        pa.table({"k": [4], "w": ["again"], "v": pa.array([4], pa.int8())}),
    ]
    shaped = shaper().shape(tables, first.definition)
    assert shaped.definition.value == pa.schema([("v", pa.int64()), ("w", pa.string())])
    assert shown(shaped.commands) == [
        ((2,), (2**40, None), None),
        ((3,), (None, "new"), None),
        ((4,), (4, "again"), None),
    ]


def test_dictionaries_are_what_they_stand_for() -> None:
    rows = pa.table({"k": pa.array(["x", "y"]).dictionary_encode(), "v": [1, 2]})
    shaped = shaper().shape([rows, pa.table({"k": ["z"], "v": [3]})], None)
    assert shaped.definition.key.field("k").type == pa.string()
    assert len(shaped.commands) == 3


def test_a_null_key_is_an_error_row() -> None:
    shaped = shaper().shape([pa.table({"k": [None, "x"], "v": [1, 2]})], None)
    (_, value, error), good = shown(shaped.commands)
    assert (value, good) == (None, (("x",), (2,), None))
    assert "key is null in column k" in error


def test_values_that_do_not_fit_end_it_by_default() -> None:
    first = shaper().shape([pa.table({"k": [1], "v": [1]})], None)
    with pytest.raises(InputError, match="'v' is int64"):
        shaper().shape([pa.table({"k": [1], "v": ["text"]})], first.definition)


@pytest.mark.parametrize("when", [None, "gone"])
def test_values_that_do_not_fit_are_error_rows_if_that_is_asked_for(when) -> None:
    made = shaper(misfit="error", delete_when=when)
    no = [False, False, False, True]
    first = made.shape([pa.table({"k": [0], "v": [1], "w": ["a"], "gone": [False]})], None)
    odd = pa.table(
        {"k": [1, 2, None, 4], "v": ["text", None, "x", "y"], "w": list("abcd"), "gone": no}
    )
    fine = pa.table({"k": [5], "v": [5], "w": ["e"], "gone": [False]})
    shaped = made.shape([odd, fine], first.definition)
    assert shaped.definition == first.definition
    found = shown(shaped.commands)
    keys = [key for key, _, _ in found]
    assert keys == [(1,), (2,), (None,), (4,), (5,)]
    values = [None if value is None else value[:2] for _, value, _ in found]
    assert values == [None, (None, "b"), None, None, (5, "e")]
    errors = [error for _, _, error in found]
    assert "column 'v'" in errors[0]
    assert "key is null" in errors[2]
    assert (errors[1], errors[4]) == (None, None)
    assert (errors[3] is None) == (when is not None)


def test_one_misfit_does_not_keep_other_columns_from_growing() -> None:
    made = shaper(misfit="error")
    first = made.shape([pa.table({"k": [1], "v": [1]})], None)
    shaped = made.shape([pa.table({"k": [1], "v": ["x"], "w": [1.5]})], first.definition)
    assert shaped.definition.value == pa.schema([("v", pa.int64()), ("w", pa.float64())])


@pytest.mark.parametrize(
    ("options", "table"),
    [
        ({"key": ["id"]}, {"k": [1]}),
        ({"order_by": ["at"]}, {"k": [1]}),
        ({"value": ["v"]}, {"k": [1]}),
        ({"delete_when": "gone"}, {"k": [1]}),
        ({"delete_when": "k"}, {"k": [1]}),
        ({"delete_when": "other = 1"}, {"k": [1]}),
    ],
)
def test_columns_that_are_not_there_are_named(options, table) -> None:
    with pytest.raises(InputError, match=r"column|delete_when"):
        shaper(**options).shape([pa.table(table)], None)


def test_a_key_of_another_type_is_refused() -> None:
    first = shaper().shape([pa.table({"k": pa.array([1], pa.int32()), "v": [1]})], None)
    shaped = shaper().shape([pa.table({"k": pa.array([7], pa.int8()), "v": [1]})], first.definition)
    assert shaped.commands.keys.type.field(0).type == pa.int32()
    with pytest.raises(InputError, match="column 'k' is int64"):
        shaper().shape([pa.table({"k": [1], "v": [1]})], first.definition)


@pytest.mark.parametrize(
    "options",
    [
        {"key": []},
        {"key": ["k", "k"]},
        {"rows": 0},
        {"buckets": 0},
        {"buckets": 1 << 17},
        {"history": 0},
        {"size": 0},
        {"size": "much"},
        {"every": "often"},
        {"misfit": "maybe"},
        {"delete_when": "op ="},
    ],
)
def test_options_that_make_no_sense_are_refused(options) -> None:
    with pytest.raises(InputError):
        shaper(**options)


def test_columns_of_one_name_are_refused_where_they_are_needed() -> None:
    rows = pa.table([[1], [2], [3], [True], [True]], names=["k", "v", "v", "gone", "gone"])
    for options in ({}, {"value": "v"}, {"order_by": "v"}, {"key": "v"}):
        with pytest.raises(InputError, match="column 'v' is there twice"):
            shaper(**options).shape([rows], None)
    with pytest.raises(InputError, match="column 'gone' is there twice"):
        shaper(value=(), delete_when="gone").shape([rows], None)
    rows = rows.append_column("w", [[4]])
    assert shown(shaper(value="w").shape([rows], None).commands) == [((1,), (4,), None)]


def test_columns_are_looked_for_before_there_are_rows() -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    shaper().check(schema, None)
    for options, name in (
        ({"key": ["k", "j"]}, "j"),
        ({"order_by": ["at"]}, "at"),
        ({"value": ["v", "w"]}, "w"),
        ({"delete_when": "op = 'd'"}, "op"),
        ({"delete_when": "gone"}, "gone"),
        ({"delete_when": "v = 'd'"}, "cannot be asked"),
    ):
        with pytest.raises(InputError, match=name):
            shaper(**options).check(schema, None)
    shaped = shaper().shape([pa.table({"k": [1], "w": [2], "op": ["c"]})], None)
    shaper(value=["v", "w"], delete_when="op = 'd'").check(schema, shaped.definition)
