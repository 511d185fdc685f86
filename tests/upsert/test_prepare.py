"""Commands from tables: what is a key, a value, a deletion, an error; and values that changed."""

from __future__ import annotations

from itertools import filterfalse
from typing import Any

import pyarrow as pa
import pytest
from every_type import TYPES, column
from pyarrow import types as kinds

from quiver.casts.nested import repeated_child
from quiver.errors import InputError
from quiver.ipc import child_types
from quiver.upsert.persist import widen
from quiver.upsert.rows import (
    Commands,
    Plan,
    define,
    exact_bytes,
    prepare,
    reduce,
    wire_schema,
)

NUMBERS = pa.table({"k": [1, 2], "v": pa.array([10, 20], pa.int32())})
PLAN = Plan(key=["k"])
KNOWN = define(NUMBERS.schema, PLAN, 4)


def values(found: Commands) -> list[Any]:
    return [row and row["v"] for row in found.values.to_pylist()]


def test_all_columns_that_are_named_nowhere_else_are_the_value() -> None:
    table = pa.table({"a": [1], "k": [2], "t": [3], "gone": [False], "b": [4]})
    found = prepare(table, Plan(key=["k"], order_by=["t"], delete_when="gone"))
    assert found.values.to_pylist() == [{"a": 1, "b": 4}]
    assert found.keys.to_pylist() == [{"k": 2}]
    named = Plan(key=["k"], value=["t", "a"], order_by=["t"])
    assert prepare(table, named).values.to_pylist() == [{"t": 3, "a": 1}]


def test_a_value_of_nulls_alone_is_a_deletion_columns_of_the_order_aside() -> None:
    table = pa.table({"k": [1, 2, 3], "a": [1, None, None], "b": [None, "x", None], "t": [1, 1, 1]})
    plan = Plan(key=["k"], value=["a", "b", "t"], order_by=["t"])
    assert prepare(table, plan).values.is_valid().to_pylist() == [True, True, False]


def test_with_a_column_that_says_so_a_value_of_nulls_is_a_value() -> None:
    table = pa.table({"k": [1, 2, 3], "v": [None, "x", "y"], "gone": [False, True, None]})
    found = prepare(table, Plan(key=["k"], delete_when="gone"))
    assert found.values.to_pylist() == [{"v": None}, None, {"v": "y"}]


def test_keys_without_a_value_are_no_deletions() -> None:
    table = pa.table({"k": [1, 2], "gone": [False, True]})
    assert prepare(table.select(["k"]), PLAN).values.to_pylist() == [{}, {}]
    found = prepare(table, Plan(key=["k"], delete_when="gone"))
    assert found.values.to_pylist() == [{}, None]
    assert reduce(found).values.is_valid().to_pylist().count(True) == 1


def test_null_keys_are_errors_that_name_the_first_column() -> None:
    table = pa.table(
        {
            "a": pa.array([1, None, 1, None, None], pa.int64()),
            "b": pa.array(["x", "x", None, None, None]),
            "v": [1, 2, 3, 4, None],
        }
    )
    found = prepare(table, Plan(key=["a", "b"]))
    assert found.errors.to_pylist() == [
        None,
        "key is null in column a",
        "key is null in column b",
        "key is null in column a",
        None,  # The end of an error.
    ]
    assert values(found) == [1, None, None, None, None]
    assert len(set(found.hashes.tolist())) == 4


def test_chunks_views_and_dictionaries_give_the_same_commands() -> None:
    plain = pa.table({"k": ["a", "b", "a"], "v": ["x", None, "z"]})
    known = define(plain.schema, PLAN, 4)
    chunked = pa.concat_tables([plain.slice(0, 1), plain.slice(1, 0), plain.slice(1)])
    coded = pa.table({name: plain[name].dictionary_encode() for name in ("k", "v")})
    expected = prepare(plain, PLAN).to_table()
    for other in (chunked, coded, chunked.combine_chunks().to_batches()[0]):
        assert prepare(other, PLAN, known).to_table().equals(expected)
        assert prepare(other, PLAN).to_table().equals(expected)
    views = plain.cast(pa.schema([("k", pa.string_view()), ("v", pa.string_view())]))
    found = prepare(views, PLAN)
    assert found.hashes.tolist() == prepare(plain, PLAN).hashes.tolist()
    assert found.values.type.field("v").type == pa.large_string()


def is_refused(kind: Any) -> bool:
    inner = child_types(kind)
    return kinds.is_union(kind) or repeated_child(kind) is not None or any(map(is_refused, inner))


@pytest.mark.parametrize("kind", list(filter(is_refused, TYPES)))
def test_unions_and_structs_that_name_a_child_twice_are_refused(kind: Any) -> None:
    with pytest.raises(InputError, match=r"column 'v' (holds a union|has 'x' twice)"):
        define(pa.schema([("k", pa.int8()), ("v", kind)]), PLAN, 1)


@pytest.mark.parametrize("kind", list(filterfalse(is_refused, TYPES)))
def test_every_type_can_be_key_and_value_and_comes_through_reducing(kind: Any) -> None:
    array = column(kind, 4)
    table = pa.table([array, array], names=["k", "v"])
    known = define(table.schema, PLAN, 4)
    found = reduce(prepare(pa.concat_tables([table, table]), PLAN, known))
    found.values.validate(full=True)
    assert found.values.type == pa.struct(list(known.value))
    assert len(set(found.hashes.tolist())) == len(found) <= max(len(array), 1)
    again = Commands.from_table(found.to_table())
    assert again.hashes.tolist() == found.hashes.tolist()
    assert exact_bytes(again.keys).equals(exact_bytes(found.keys))


def test_there_are_no_dictionaries_runs_or_views_in_a_definition() -> None:
    def check(kind: Any) -> None:
        forms = (kinds.is_dictionary, kinds.is_run_end_encoded, kinds.is_string_view)
        assert not any(is_of(kind) for is_of in forms)
        inner = range(kind.num_fields) if not kinds.is_union(kind) else ()
        for index in inner:
            check(kind.field(index).type)

    for kind in filterfalse(is_refused, TYPES):
        known = define(pa.schema([("k", kind), ("v", kind)]), PLAN, 1)
        check(known.key.field("k").type)
        assert known.value.field("v").nullable


BAD_PLANS = [
    (lambda: Plan(key=[]), "names no key"),
    (lambda: Plan(key="k"), "as a list"),
    (lambda: Plan(key=["k", "k"]), "named twice"),
    (lambda: Plan(key=["k"], order_by="t"), "not as the text 't'"),
]


@pytest.mark.parametrize("make, told", BAD_PLANS)
def test_plans_that_cannot_be_meant_are_refused(make: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        make()


@pytest.mark.parametrize(
    "plan, told",
    [
        (Plan(key=["x"]), "column 'x' is not there"),
        (Plan(key=["k"], value=["x"]), "column 'x' is not there"),
        (Plan(key=["k"], order_by=["x"]), "column 'x' is not there"),
        (Plan(key=["k"], delete_when="v"), "'v' is int32 and not bool"),
    ],
)
def test_columns_that_are_not_there_are_told(plan: Plan, told: str) -> None:
    with pytest.raises(InputError, match=told):
        prepare(NUMBERS, plan)


def test_a_column_that_is_there_twice_is_told() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["k", "k"])
    with pytest.raises(InputError, match="more than once"):
        prepare(twice, PLAN)


def test_narrower_values_and_missing_columns_are_taken_as_they_are() -> None:
    narrow = pa.table({"k": pa.array([1], pa.int8()), "v": pa.array([5], pa.int16())})
    found = prepare(narrow, PLAN, KNOWN)
    assert found.values.type == pa.struct([("v", pa.int32())])
    assert found.hashes.tolist() == prepare(NUMBERS.slice(0, 1), PLAN, KNOWN).hashes.tolist()
    gone = prepare(pa.table({"k": [1]}), PLAN, KNOWN)
    assert gone.values.to_pylist() == [{"v": None}]


def test_a_wider_value_is_refused_until_the_definition_is_wider() -> None:
    wide = pa.table({"k": [1], "v": pa.array([1 << 40]), "new": ["x"]})
    with pytest.raises(InputError, match="'new' is not in the collection"):
        prepare(wide, PLAN, KNOWN)
    with pytest.raises(InputError, match="'v' is int64, which int32 does not hold"):
        prepare(wide.drop(["new"]), PLAN, KNOWN)
    wider = widen(KNOWN, wide.select(["v", "new"]).schema)
    assert prepare(wide, PLAN, wider).values.to_pylist() == [{"v": 1 << 40, "new": "x"}]
    assert wider.key == KNOWN.key
    old = prepare(NUMBERS, PLAN, KNOWN).conform(wider)
    assert old.values.to_pylist() == [{"v": 10, "new": None}, {"v": 20, "new": None}]


def test_a_key_of_another_type_is_refused_also_where_values_may_be_errors() -> None:
    other = pa.table({"k": ["x"], "v": pa.array([1], pa.int32())})
    with pytest.raises(InputError, match="column 'k' is string, which int64 does not hold"):
        prepare(other, PLAN, KNOWN, misfit="error")


def test_values_that_do_not_fit_become_errors_where_that_is_wanted() -> None:
    other = pa.table({"k": [1, 2, 3, None], "v": ["x", None, None, "y"], "new": [None, 1, None, 2]})
    found = prepare(other, PLAN, KNOWN, misfit="error")
    assert found.errors.to_pylist() == [
        "column 'v' is string, which int32 does not hold",
        "column 'new' is not in the collection",
        None,  # A deletion.
        "key is null in column k",
    ]
    assert found.values.null_count == 4
    assert found.values.type == pa.struct(list(KNOWN.value))


@pytest.mark.parametrize(
    "wrap", [lambda a: a, lambda a: [[x] for x in a]], ids=["plain", "in a list"]
)
def test_only_rows_whose_value_is_lost_become_errors(wrap: Any) -> None:
    floats = define(pa.schema([("k", pa.int64()), ("v", pa.array(wrap([1.5])).type)]), PLAN, 1)
    numbers = [1, (1 << 53) + 1, None, -(1 << 60), 7]
    table = pa.table({"k": range(5), "v": wrap(numbers)})
    found = prepare(table, PLAN, floats, misfit="error")
    bad = [error is not None for error in found.errors.to_pylist()]
    assert bad == [False, True, False, True, False]
    assert "cannot become" in str(found.errors[1])
    assert values(found)[0] == wrap([1.0])[0]
    assert values(found)[4] == wrap([7.0])[0]


def test_many_rows_that_do_not_fit_are_told_at_once() -> None:
    floats = define(pa.schema([("k", pa.int64()), ("v", pa.float64())]), PLAN, 1)
    count = 200_000
    table = pa.table({"k": range(count), "v": range(1 << 60, (1 << 60) + count)})
    found = prepare(table, PLAN, floats, misfit="error")
    assert found.errors.null_count == 0


def test_the_wire_has_only_types_that_spark_knows_beside_those_of_the_rows() -> None:
    table = pa.table({"k": [1], "v": pa.array([2], pa.int32()), "t": [5]})
    plan = Plan(key=["k"], order_by=["t"])
    known = define(table.schema, plan, 1)
    sent = prepare(table, plan, known).to_table()
    assert sent.schema == wire_schema(known, pa.schema([("t", pa.int64())]))
    assert sent.schema.field("hash").type == pa.int64()
    assert prepare(table, PLAN).to_table().schema.names == ["hash", "key", "value", "error"]
