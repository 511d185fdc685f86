"""The sides of the bench take the same commands, and ours holds what a dictionary holds."""

from __future__ import annotations

import os

import pytest

from bench.kit import Bench
from bench.upsert import batches
from bench.upsert.gauges import memory_of
from bench.upsert.load import GONE, KEY, ORDER, VALUE, VALUE_BYTES, last_of_each, mixed, snapshot
from bench.upsert.ours import Ours
from bench.upsert.sides import DELTA, OURS, SPARK, Sides

KEYS = 500


def applied(rows: dict[int, str], commands) -> dict[int, str]:
    for row in sorted(commands.to_pylist(), key=lambda row: row[ORDER]):
        if row[GONE]:
            rows.pop(row[KEY], None)
        else:
            rows[row[KEY]] = row[VALUE]
    return rows


def test_a_snapshot_has_each_key_once_and_batches_take_some_away() -> None:
    pieces = list(snapshot(KEYS, piece=200))
    assert [piece.num_rows for piece in pieces] == [200, 200, 100]
    assert sorted(key for piece in pieces for key in piece[KEY].to_pylist()) == list(range(KEYS))
    commands = mixed(2000, KEYS, 1)
    assert commands != mixed(2000, KEYS, 2)
    assert 0.03 < sum(commands[GONE].to_pylist()) / 2000 < 0.07
    assert {len(value or "") for value in commands[VALUE].to_pylist()} == {0, VALUE_BYTES}
    assert commands[VALUE].null_count == sum(commands[GONE].to_pylist())
    assert len(set(commands[KEY].to_pylist())) < 2000
    assert max(commands[KEY].to_pylist()) >= KEYS


def test_the_last_command_of_each_key_is_found() -> None:
    commands = mixed(2000, KEYS, 1)
    found = last_of_each(commands)
    assert len(set(found[KEY].to_pylist())) == found.num_rows
    assert applied({}, found) == applied({}, commands)


def test_ours_holds_what_a_dictionary_holds(tmp_path) -> None:
    ours = Ours(tmp_path / "collection", buckets=3)
    rows = {}
    for commands in (*snapshot(KEYS), mixed(300, KEYS, 1), mixed(300, KEYS, 2)):
        ours.take(commands)
        ours.tend()
        applied(rows, commands)
    ours.close()
    found = ours.rows()
    assert dict(zip(found[KEY].to_pylist(), found[VALUE].to_pylist(), strict=True)) == rows
    assert found.num_rows == len(rows)


def test_a_side_that_holds_other_rows_is_named(tmp_path) -> None:
    bench = Bench(tmp_path, rounds=1, scale=1, part="upsert", title="")
    (tmp_path / "sides").mkdir()
    sides = Sides(bench, tmp_path / "sides", None)
    sides.delta = Ours(tmp_path / "other")  # Not MERGE, but it has rows as well.
    for piece in snapshot(KEYS):
        sides.ours.take(piece)
        sides.delta.take(piece)
    assert sides.differing() == []
    sides.delta.take(mixed(10, KEYS, 1))
    assert sides.differing() == [DELTA]
    sides.delta.close()
    sides.stop()


@pytest.mark.parametrize(("size", "reached"), [(10_000, False), (1_000_000, True)])
def test_goals_are_held_against_merge_alone(tmp_path, size, reached) -> None:
    bench = Bench(tmp_path, rounds=3, scale=1, part="upsert", title="")
    took = {SPARK: [1.15] * 3, f"{SPARK}, whole": [2.0] * 3, DELTA: [1.0] * 3}
    took |= {OURS: [1.1] * 3, f"{OURS}, tended": [3.0] * 3, f"{DELTA}, reduced": [1.5] * 3}
    for side in (SPARK, OURS):
        batches.add(bench, side, size, took)
    assert [row["reached"] for row in bench.rows] == [reached, reached]


def test_memory_is_that_of_a_process() -> None:
    own = memory_of()
    assert own is not None
    assert memory_of(os.getpid()).most >= own.resident >= own.own > 1 << 20
    assert memory_of(1 << 30) is None
