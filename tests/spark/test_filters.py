"""What is said of Spark's filters, tried on rows: what Spark would keep is never left out."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as s

from quiver.scan.rows import mask_of
from quiver.spark.filters import expression

N, T, F, D = ("n",), ("t",), ("f",), ("d",)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
NS = int(NOON.timestamp()) * 10**9

ROWS = pa.record_batch(
    {
        "n": pa.array([1, 2, None, 4], pa.uint32()),
        "s": ["ab", "b", None, "abc"],
        "t": pa.array([NS - 1, NS, NS + 999, NS + 1000], pa.timestamp("ns", "UTC")),
        "f": pa.array([1.0, float("nan"), None, 3.0]),
        "d": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), ["x", None]),
        "day": pa.array([0, 1, None, 3], pa.date32()),
        "flag": [True, False, None, True],
        "u": pa.array([1, 2**64 - 1, None, 4], pa.uint64()),
        "c": [{"x": 1}, {"x": 2}, None, {"x": 4}],
        "half": pa.array([0.1, 0.2, None, 0.4], pa.float32()),
    }
)


def _kept(*filters: Any) -> list[int] | None:
    where = expression(filters, ROWS.schema)
    return None if where is None else [i for i, keep in enumerate(mask_of(ROWS, where)) if keep]


@pytest.mark.parametrize(
    "one,kept",
    [
        (s.EqualTo(N, 2), [1]),
        (s.EqualTo(N, -1), None),
        (s.EqualNullSafe(N, 2), [1]),
        (s.EqualNullSafe(N, None), [2]),
        (s.LessThan(N, 2), [0]),
        (s.LessThanOrEqual(N, 2), [0, 1]),
        (s.GreaterThan(N, 2), [3]),
        (s.GreaterThanOrEqual(N, 2), [1, 3]),
        (s.In(N, [1, None, 4]), [0, 3]),
        (s.In(N, []), None),
        (s.IsNull(N), [2]),
        (s.IsNotNull(N), [0, 1, 3]),
        (s.Not(s.IsNull(N)), [0, 1, 3]),
        (s.Not(s.EqualTo(N, 2)), None),
        (s.EqualTo(("s",), "b"), [1]),
        (s.StringStartsWith(("s",), "ab"), [0, 3]),
        (s.StringEndsWith(("s",), "c"), None),
        (s.EqualTo(T, NOON), [1, 2]),
        (s.LessThan(T, NOON), [0]),
        (s.LessThanOrEqual(T, NOON), [0, 1, 2]),
        (s.GreaterThan(T, NOON), [3]),
        (s.GreaterThanOrEqual(T, NOON), [1, 2, 3]),
        (s.EqualTo(T, NOON.replace(tzinfo=None)), None),
        (s.LessThan(F, 2.0), [0]),
        (s.GreaterThan(F, 2.0), None),
        (s.EqualTo(F, float("nan")), None),
        (s.EqualTo(("half",), 0.1), None),
        (s.IsNull(D), None),
        (s.IsNotNull(D), None),
        (s.EqualTo(("day",), dt.date(1970, 1, 2)), [1]),
        (s.EqualTo(("flag",), True), [0, 3]),
        (s.EqualTo(("u",), Decimal(4)), None),
        (s.EqualTo(("c", "x"), 1), None),
        (s.IsNotNull(("c",)), [0, 1, 3]),
        (s.EqualTo(("gone",), 1), None),
    ],
    ids=str,
)
def test_what_a_filter_keeps(one: Any, kept: list[int] | None) -> None:
    assert _kept(one) == kept


def test_text_in_a_dictionary_may_be_compared() -> None:
    assert _kept(s.EqualTo(D, "x")) in ([0, 3], None)


def test_several_hold_together_and_those_that_cannot_be_said_are_passed_over() -> None:
    assert _kept(s.GreaterThan(N, 1), s.StringEndsWith(("s",), "c"), s.LessThan(N, 4)) == [1]
    assert _kept() is None


@pytest.mark.parametrize(
    "unit,time,kept",
    [
        ("s", NOON, [1]),
        ("ms", NOON, [1]),
        ("us", NOON, [1]),
        ("s", NOON + dt.timedelta(microseconds=1), None),
        ("us", dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, dt.UTC), []),
    ],
)
def test_coarser_times_are_whole_microseconds(unit: str, time: dt.datetime, kept: Any) -> None:
    per = {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    values = pa.array([0, NS // 10**9 * per], pa.timestamp(unit, "UTC"))
    rows = pa.record_batch({"t": values})
    where = expression([s.EqualTo(T, time)], rows.schema)
    found = None if where is None else [i for i, keep in enumerate(mask_of(rows, where)) if keep]
    assert found == kept
