"""What waits: one command of each key and time, in memory that grows with their number alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upsert_model import PLAN, Command, Memory, definition, table

from quiver.errors import InputError
from quiver.upsert.operator import Upsert
from quiver.upsert.persist import widen
from quiver.upsert.rows import Commands, Plan, define, prepare
from quiver.upsert.stash import Stash
from quiver.upsert.stash.shelf import ROWS_LOOSE


def commands(*given: Command) -> Commands:
    return prepare(table(given), PLAN, definition())


def told(stash: Stash, time: int, rows: int = 7) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    last = -1
    for window in stash.windows(time, rows):
        assert 0 < len(window) <= rows
        assert last < int(window.hashes[0])  # Sorted, across windows and shelves too.
        last = int(window.hashes[-1])
        for key, value in zip(window.keys.to_pylist(), window.values.to_pylist(), strict=True):
            assert key["k"] not in found
            found[key["k"]] = value and value["v"]
    return found


MADE = st.builds(
    Command,
    st.integers(0, 9),
    st.sampled_from([None, "a", "b"]),
    st.integers(0, 2),
    st.integers(0, 3),
)


@settings(max_examples=60)
@given(
    pushes=st.lists(st.lists(MADE, max_size=8), max_size=10),
    most=st.sampled_from([200, 1 << 30]),
    looks=st.booleans(),
)
def test_each_key_and_time_has_the_one_that_wins(
    pushes: list[Any], most: int, *, looks: bool
) -> None:
    stash = Stash(bytes_most=most)
    won: dict[tuple[int, int], Command] = {}
    for push in pushes:
        for time in range(3):
            some = [command for command in push if command.time == time]
            stash.add(commands(*some), time)
            for command in some:
                best = won.get((time, command.key))
                if best is None or command.at > best.at:
                    won[time, command.key] = command
        if looks:  # What is there is reduced before more comes.
            told(stash, 0)
            told(stash, 2)
    for time in range(3):
        for _ in range(2):  # They stay.
            expected = {key: c.value for (at, key), c in won.items() if at == time}
            assert told(stash, time) == expected
    assert stash.first == min((time for time, _ in won), default=None)


@pytest.mark.parametrize("looks", [False, True])
def test_without_an_order_the_later_push_wins(looks: bool) -> None:  # noqa: FBT001
    stash, plan = Stash(), Plan(key=["k"], value=["v"])
    for number in range(4):
        some = [Command(key, f"v{number}", 0) for key in range(number, 6)] * 2
        stash.add(prepare(table(some), plan, definition()), 0)
        if looks:
            told(stash, 0)
    assert told(stash, 0) == {0: "v0", 1: "v1", 2: "v2", 3: "v3", 4: "v3", 5: "v3"}


def test_shelves_are_parted_and_the_memory_of_a_push_is_let_go() -> None:
    one, many = Stash(), Stash(bytes_most=20_000)
    rng = np.random.default_rng(2)
    for number in range(20):
        some = commands(
            *(Command(int(k), f"v{number}", 0, number) for k in rng.integers(0, 999, 500))
        )
        one.add(some, 0)
        many.add(some, 0)
    assert told(many, 0, 100) == told(one, 0, 100)
    assert len(one) == len(many) == len(told(one, 0))
    assert len(list(many.windows(0, 10_000))) > 2
    assert len(list(one.windows(0, 10_000))) == 1
    (only,) = one.windows(0, 10_000)
    assert abs(one.nbytes - only.nbytes) < 100


def test_memory_grows_with_keys_and_times_and_not_with_commands() -> None:
    stash = Stash()
    hot = commands(*(Command(k, "x" * 20, 0, k) for k in range(100)))
    most = 0
    for _ in range(3_000):
        stash.add(hot, 0)
        most = max(most, len(stash))
    assert most <= ROWS_LOOSE + 200  # Of 300,000.
    distinct = Stash()
    count = 0
    for start in range(0, 60_000, 5_000):
        distinct.add(commands(*(Command(k, "x", 0) for k in range(start, start + 5_000))), 0)
        count += 5_000
        assert len(distinct) == count


def test_long_values_are_reduced_sooner() -> None:
    stash = Stash()
    long = commands(Command(1, "x" * (4 << 20), 0))
    for _ in range(20):
        stash.add(long, 0)
        assert stash.nbytes < 25 << 20


def test_times_are_apart_counted_and_dropped() -> None:
    stash = Stash()
    for time in (5, 3, 9):
        stash.add(commands(Command(1, f"t{time}", time), Command(2, "x", time)), time)
    stash.add(commands(), 1)
    assert (stash.first, len(stash)) == (3, 6)
    assert (stash.count(3, 9), stash.count(4, None), stash.count(10, None)) == (4, 4, 0)
    assert stash.drop_before(5) == 2
    assert (stash.first, told(stash, 3)) == (5, {})
    stash.drop(5)
    assert told(stash, 9) == {1: "t9", 2: "x"}
    stash.drop(9)
    assert (stash.first, len(stash), stash.nbytes) == (None, 0, 0)


def test_an_order_that_does_not_go_with_the_others_is_refused_before_it_is_taken() -> None:
    stash = Stash()
    stash.add(commands(Command(1, "a", 0, 5)), 0)
    without = prepare(table([Command(1, "b", 0)]), Plan(key=["k"], value=["v"]), definition())
    text = table([Command(1, "b", 0)]).set_column(2, "from", pa.array(["x"]))
    for other in (without, prepare(text, PLAN, definition())):
        with pytest.raises(InputError, match=r"order|'from'"):
            stash.add(other, 0)
    assert told(stash, 0) == {1: "a"}
    wide = table([Command(1, "c", 0)]).set_column(2, "from", pa.array([1 << 63], pa.uint64()))
    stash.add(prepare(wide, PLAN, definition()), 0)
    assert told(stash, 0) == {1: "c"}
    stash.drop(0)
    stash.add(without, 1)
    assert told(stash, 1) == {1: "b"}


def test_what_waits_is_cast_when_values_become_wider() -> None:
    narrow = pa.table({"k": [1, 2], "v": pa.array([5, 6], pa.int32())})
    plan = Plan(key=["k"])
    kind = define(narrow.schema, plan, 4)
    operator = Upsert(kind, 0)
    operator.push(prepare(narrow, plan, kind), 0)
    wide = pa.table({"k": [2, 3], "v": [1 << 40, 7], "w": ["a", "b"]})
    wider = widen(kind, wide.select(["v", "w"]).schema)
    operator.widen(wider)
    operator.push(prepare(wide, plan, wider), 0)
    collection = Memory(wider)
    collection.append(0, operator.step(1, collection).diffs)
    assert {row["key"]["k"]: row["value"] for row in collection.rows.to_pylist()} == {
        1: {"v": 5, "w": None},
        2: {"v": 1 << 40, "w": "a"},
        3: {"v": 7, "w": "b"},
    }
    other = define(pa.schema([("k", pa.string()), ("v", pa.int32())]), plan, 4)
    with pytest.raises(InputError, match="a key cannot change"):
        operator.widen(other)
