"""From tables to differences: prepared, reduced, compared with what was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from quiver.upsert.rows import Commands, Looked, Plan, define, differences, prepare, reduce

PLAN = Plan(key=["a", "b"], order_by=["t"])


def table(*rows: tuple[Any, ...]) -> pa.Table:
    names = ("a", "b", "v", "t")
    columns = list(zip(*rows, strict=True)) or [()] * 4
    kinds = (pa.int64(), pa.string(), pa.string(), pa.int64())
    return pa.table(
        {n: pa.array(list(c), k) for n, c, k in zip(names, columns, kinds, strict=True)}
    )


def test_the_greatest_order_wins_and_the_first_on_a_tie() -> None:
    found = reduce(
        prepare(
            table((1, "x", "old", 1), (2, "y", "b", 5), (1, "x", "new", 7), (2, "y", "c", 5)), PLAN
        )
    )
    assert {
        (k["a"], v["v"])
        for k, v in zip(found.keys.to_pylist(), found.values.to_pylist(), strict=True)
    } == {
        (1, "new"),
        (2, "b"),
    }
    assert (np.diff(found.hashes.astype(object)) > 0).all()


def test_differences_to_what_was() -> None:
    first = reduce(
        prepare(table((1, "x", "one", 1), (2, "y", "two", 1), (3, "z", "three", 1)), PLAN)
    )
    old = pa.table(
        {"hash": first.hashes, "key": first.keys, "value": first.values, "error": first.errors}
    )
    now = reduce(
        prepare(
            table((1, "x", "uno", 2), (2, "y", None, 2), (3, "z", "three", 2), (4, "w", "four", 2)),
            PLAN,
        )
    )
    index = [
        next((i for i, k in enumerate(old["key"].to_pylist()) if k == key), -1)
        for key in now.keys.to_pylist()
    ]
    found = differences(now, Looked(old, np.array(index)), 9)
    assert found.schema == define(table().schema, PLAN, 4).diffs
    rows = [(r["key"]["a"], r["value"]["v"], r["diff"]) for r in found.to_pylist()]
    assert sorted(rows) == [(1, "one", -1), (1, "uno", 1), (2, "two", -1), (4, "four", 1)]
    assert rows.index((1, "one", -1)) + 1 == rows.index((1, "uno", 1))
    assert set(found["time"].to_pylist()) == {9}


def test_commands_travel_as_a_table() -> None:
    sent = prepare(table((1, "x", "one", 1), (None, "y", "two", 1), (3, None, None, 1)), PLAN)
    got = Commands.from_table(sent.to_table())
    assert got.hashes.tolist() == sent.hashes.tolist()
    assert got.errors.to_pylist() == [None, "key is null in column a", None]
    assert got.values.to_pylist() == [{"v": "one"}, None, None]
    assert got.order is not None
    assert got.order.equals(sent.order)
