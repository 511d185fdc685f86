from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from bench.demo.source import cut

START = datetime(2013, 1, 31, 22, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def _stamps(*hours):
    return pa.array([None if h is None else START + timedelta(hours=h) for h in hours], TIME)


@pytest.fixture
def stamps():
    return _stamps


@pytest.fixture
def tables():
    """Five small tables over hours 0, 1, 2 and 4: nothing happened in hour 3."""
    flights = {
        "carrier": ["UA", "AA", "UA", "9E"],
        "tailnum": ["N1", "N2", "N1", None],
        "origin": ["EWR", "JFK", "JFK", "EWR"],
        "dest": ["IAH", "MIA", "EWR", "IAH"],
        "dep_delay": [2, None, -4, 0],
        "time_hour": _stamps(4, 1, 2, 1),
    }
    weather = {"origin": ["EWR", "EWR"], "temp": [39.02, None], "time_hour": _stamps(0, 1)}
    return {
        "flights": pa.table(flights),
        "weather": pa.table(weather),
        "planes": pa.table({"tailnum": ["N2", "N1", "N9"], "seats": [55, None, 2]}),
        "airports": pa.table({"faa": ["IAH", "EWR", "ZZZ", "MIA"]}),
        "airlines": pa.table({"carrier": ["9E", "UA"], "name": ["Endeavor", "United"]}),
    }


@pytest.fixture
def year(tables):
    return cut(tables)
