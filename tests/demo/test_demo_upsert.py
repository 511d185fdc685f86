"""Pandas has of the board what a dictionary has, and the judge finds whatever is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import quiver
from bench.demo_upsert import model, writer
from bench.demo_upsert.board import board
from bench.demo_upsert.judge import CHANGES, STATE, Found, judge
from bench.demo_upsert.slots import COLUMNS, KEY, ORDER, SLOT

DAYS = 4


@pytest.fixture(scope="module")
def year():
    """Make a board of few aircraft with many flights, each ninth cancelled, some without one."""
    rng = np.random.default_rng(7)
    count = 600
    day = rng.integers(1, DAYS + 1, count)
    minute, hour = rng.integers(0, 60, count), rng.integers(5, 23, count)
    gone = rng.random(count) < 1 / 9
    delay = np.where(gone, np.nan, rng.integers(-10, 90, count))
    aircraft = [
        None if g and n % 3 == 0 else f"N{n}"
        for g, n in zip(gone, rng.integers(0, 40, count), strict=True)
    ]
    hours = np.array([f"2013-01-{d:02}T{h:02}" for d, h in zip(day, hour, strict=True)], "M8[us]")
    flights = pa.table(
        {
            "year": np.full(count, 2013),
            "month": np.full(count, 1),
            "day": day,
            "dep_time": pa.array(np.where(gone, np.nan, hour * 100.0), from_pandas=True),
            "dep_delay": pa.array(delay, from_pandas=True),
            "arr_delay": pa.array(delay + 3, from_pandas=True),
            "carrier": ["UA"] * count,
            "flight": np.arange(count),
            "tailnum": aircraft,
            "origin": ["EWR"] * count,
            "dest": ["ORD"] * count,
            "air_time": pa.array(np.where(gone | (minute == 7), np.nan, 100.0), from_pandas=True),
            "distance": np.full(count, 719),
            "minute": minute,
            "time_hour": pa.array(hours, pa.timestamp("us", "UTC")),
        }
    )
    return board({"flights": flights})


@pytest.fixture
def found(year):
    """Give what a collection without faults would have, of epochs of six bundles."""
    ends = year.ends[[*range(5, len(year.ends) - 1, 6), len(year.ends) - 1]]
    epochs = list(range(3, 3 + len(ends)))
    changes = model.changes(year.commands, epochs, ends)
    then = model.state(year.commands.iloc[: ends[4]])
    return Found(
        table(model.state(year.commands), STATE), table(then, STATE), 7, table(changes, CHANGES)
    )


def table(frame, schema) -> pa.Table:
    return pa.Table.from_pandas(frame, schema, preserve_index=False)


def test_the_state_is_what_a_dictionary_has_when_one_command_follows_the_other(year) -> None:
    rows = {}
    for row in table(year.commands, COLUMNS).to_pylist():
        key = row["tailnum"], row["day"]
        if row.pop("cancelled"):
            rows.pop(key, None)
        elif row["tailnum"] is not None:
            rows[key] = row
    state = table(model.state(year.commands), STATE).to_pylist()
    assert {(row["tailnum"], row["day"]): row for row in state} == rows
    assert len(state) == len(rows)


def test_changes_are_those_between_states(year, found) -> None:
    at = {3 + i: end for i, end in enumerate(year.ends[[*range(5, len(year.ends) - 1, 6), -1]])}
    before = set()
    every = {}
    for row in found.changes.to_pylist():
        time, diff = row.pop("time"), row.pop("diff")
        every.setdefault((time, diff), set()).add(tuple(row.values()))
    for epoch, end in at.items():
        state = table(model.state(year.commands.iloc[:end]), STATE)
        now = {tuple(row.values()) for row in state.to_pylist()}
        assert every.get((epoch, 1), set()) == now - before
        assert every.get((epoch, -1), set()) == before - now
        before = now


def test_counts_of_an_aircraft_grow_as_it_flies(year) -> None:
    commands = year.commands
    assert commands[ORDER].tolist() == list(range(len(commands)))
    assert commands["at"].is_monotonic_increasing
    for _, rows in commands[commands["tailnum"].notna()].groupby(KEY):
        assert rows["status"].iloc[0] == "planned"
        assert rows["legs"].is_monotonic_increasing
        assert rows["legs"].iloc[-1] == (rows["status"] == "departed").sum()
        assert rows["miles"].iloc[-1] == 719 * (rows["status"] == "landed").sum()


def test_each_bundle_ends_with_a_row_that_stays(year) -> None:
    assert year.ends[-1] == len(year.commands)
    assert not year.commands["cancelled"].iloc[year.ends[:-1] - 1].any()
    assert (np.diff(year.ends) > 0).all()


def test_a_collection_without_faults_is_found_good(year, found) -> None:
    verdict = judge(year, found)
    assert verdict.is_good, verdict
    assert verdict.epochs == len(set(found.changes["time"].to_pylist()))


def test_each_fault_is_found(year, found) -> None:
    now, then, changes = found.now, found.then, found.changes
    stale = changes.set_column(len(STATE), "time", pa.array([5] * changes.num_rows))
    other = now.set_column(
        STATE.get_field_index("legs"), "legs", pa.array([9] * now.num_rows, pa.int64())
    )
    faults = [
        {"now": now.slice(1)},
        {"now": pa.concat_tables([now, now.slice(3, 1)])},
        {"now": other},
        {"then": now},
        {"epoch": found.epoch + 1},
        {"changes": changes.slice(1)},
        {"changes": pa.concat_tables([changes, changes.slice(3, 1)])},
        {"changes": stale},
        {"changes": changes.slice(0, 0)},
    ]
    for fault in faults:
        assert not judge(year, found._replace(**fault)).is_good, fault
    assert then.num_rows


def test_the_writer_appends_the_board_and_goes_on_where_it_was_cut_off(
    year, tmp_path, monkeypatch
) -> None:
    file, store = str(tmp_path / "board.arrow"), str(tmp_path / "store")
    year.save(file)
    said = []
    monkeypatch.setattr(writer, "say", said.append)
    monkeypatch.setattr(writer, "_SECONDS", 0.0)
    writer.main(store, file)
    assert said.pop() == "done"
    writer.main(store, file)
    assert said[-1] == "done"
    assert said.count("ready") == 2
    with quiver.open(store) as opened:
        assert opened.info().next_wal_seq == len(year.ends)
    rows = quiver.scan(store, slot=SLOT).to_table()
    assert rows.sort_by(ORDER) == table(year.commands, COLUMNS)
    assert rows != rows.sort_by(ORDER)
