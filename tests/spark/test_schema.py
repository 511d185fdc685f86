"""The table of types, row by row: which Spark type each becomes, and with which values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from quiver.errors import InputError
from quiver.spark.schema import arrow_schema, to_spark, to_spark_schema

UTC = dt.UTC
MOMENT = dt.datetime(2024, 2, 29, 12, 30, 45, 123456)  # noqa: DTZ001 - of a type without zone
INSTANT = MOMENT.replace(tzinfo=UTC)
DAY = dt.date(1969, 7, 20)
NOON = dt.time(12, 0, 0, 5)
SPAN = dt.timedelta(days=-1, microseconds=7)
PER_SECOND = 10**9


def _ns(kind: pa.DataType, *numbers: int | None) -> Any:
    return pa.array(numbers, pa.int64()).cast(kind)


# name, Arrow array, Spark type, values
ZOO: list[tuple[str, Any, str, list[Any]]] = [
    ("bool", pa.array([True, None]), "boolean", [True, None]),
    ("int8", pa.array([-128, None], pa.int8()), "tinyint", [-128, None]),
    ("int16", pa.array([-(2**15), None], pa.int16()), "smallint", [-(2**15), None]),
    ("int32", pa.array([-(2**31), None], pa.int32()), "int", [-(2**31), None]),
    ("int64", pa.array([-(2**63), None]), "bigint", [-(2**63), None]),
    ("uint8", pa.array([255, None], pa.uint8()), "smallint", [255, None]),
    ("uint16", pa.array([2**16 - 1, None], pa.uint16()), "int", [2**16 - 1, None]),
    ("uint32", pa.array([2**32 - 1, None], pa.uint32()), "bigint", [2**32 - 1, None]),
    (
        "uint64",
        pa.array([2**64 - 1, None], pa.uint64()),
        "decimal(20,0)",
        [Decimal(2**64 - 1), None],
    ),
    ("float16", pa.array([1.5, None], pa.float16()), "float", [1.5, None]),
    ("float32", pa.array([0.25, None], pa.float32()), "float", [0.25, None]),
    ("float64", pa.array([0.1, None]), "double", [0.1, None]),
    (
        "decimal32",
        pa.array([Decimal("1.25"), None], pa.decimal32(5, 2)),
        "decimal(5,2)",
        [Decimal("1.25"), None],
    ),
    (
        "decimal64",
        pa.array([Decimal("1.25"), None], pa.decimal64(18, 2)),
        "decimal(18,2)",
        [Decimal("1.25"), None],
    ),
    (
        "decimal128",
        pa.array([Decimal(10**37), None], pa.decimal128(38, 0)),
        "decimal(38,0)",
        [Decimal(10**37), None],
    ),
    (
        "decimal_negative",
        pa.array([Decimal(1200), None], pa.decimal128(3, -2)),
        "decimal(5,0)",
        [Decimal(1200), None],
    ),
    (
        "decimal_negative_wide",
        pa.array([Decimal(1200), None], pa.decimal128(38, -2)),
        "string",
        ["1.2E+3", None],
    ),
    (
        "decimal_small",
        pa.array([Decimal("0.0012"), None]).cast(pa.decimal128(2, 4)),
        "decimal(4,4)",
        [Decimal("0.0012"), None],
    ),
    (
        "decimal256",
        pa.array([Decimal("1.5"), None], pa.decimal256(38, 1)),
        "decimal(38,1)",
        [Decimal("1.5"), None],
    ),
    (
        "decimal256_wide",
        pa.array([Decimal(10**50), None], pa.decimal256(60, 0)),
        "string",
        [str(10**50), None],
    ),
    ("string", pa.array(["ä", None]), "string", ["ä", None]),
    ("large_string", pa.array(["ä", None], pa.large_string()), "string", ["ä", None]),
    ("string_view", pa.array(["ä" * 20, None], pa.string_view()), "string", ["ä" * 20, None]),
    ("binary", pa.array([b"\0x", None]), "binary", [b"\0x", None]),
    ("large_binary", pa.array([b"\0x", None], pa.large_binary()), "binary", [b"\0x", None]),
    ("binary_view", pa.array([b"\0x", None], pa.binary_view()), "binary", [b"\0x", None]),
    ("fixed_size_binary", pa.array([b"abcd", None], pa.binary(4)), "binary", [b"abcd", None]),
    ("date32", pa.array([DAY, None]), "date", [DAY, None]),
    ("date64", pa.array([DAY, None], pa.date64()), "date", [DAY, None]),
    (
        "timestamp_s",
        pa.array([MOMENT.replace(microsecond=0), None], pa.timestamp("s")),
        "timestamp_ntz",
        [MOMENT.replace(microsecond=0), None],
    ),
    (
        "timestamp_us",
        pa.array([MOMENT, None], pa.timestamp("us")),
        "timestamp_ntz",
        [MOMENT, None],
    ),
    (
        "timestamp_ns",
        _ns(pa.timestamp("ns"), 1_999, -1, None),
        "timestamp_ntz",
        [
            dt.datetime(1970, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
            None,
        ],
    ),
    (
        "timestamp_utc",
        pa.array([INSTANT, None], pa.timestamp("ms", "UTC")),
        "timestamp",
        [INSTANT.replace(microsecond=123_000), None],
    ),
    (
        "timestamp_zone",
        pa.array([INSTANT, None], pa.timestamp("us", "Asia/Tokyo")),
        "timestamp",
        [INSTANT, None],
    ),
    (
        "timestamp_zone_ns",
        _ns(pa.timestamp("ns", "+02:00"), -1_001, None),
        "timestamp",
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999_998, tzinfo=UTC), None],
    ),
    ("time32", pa.array([dt.time(1), None], pa.time32("s")), "time(6)", [dt.time(1), None]),
    ("time64_us", pa.array([NOON, None], pa.time64("us")), "time(6)", [NOON, None]),
    (
        "time64_ns",
        pa.array([12 * 3600 * PER_SECOND + 5_999, None], pa.time64("ns")),
        "time(6)",
        [NOON, None],
    ),
    ("duration_s", _ns(pa.duration("s"), -60), "interval day to second", [dt.timedelta(0, -60)]),
    ("duration_us", pa.array([SPAN, None]), "interval day to second", [SPAN, None]),
    (
        "duration_ns",
        _ns(pa.duration("ns"), -1, 1_999),
        "interval day to second",
        [dt.timedelta(microseconds=-1), dt.timedelta(microseconds=1)],
    ),
    (
        "interval",
        pa.array([(1, -2, 3), None], pa.month_day_nano_interval()),
        "struct<months:int,days:int,nanoseconds:bigint>",
        [{"months": 1, "days": -2, "nanoseconds": 3}, None],
    ),
    ("null", pa.nulls(2), "void", [None, None]),
    ("dictionary", pa.array(["a", None, "a"]).dictionary_encode(), "string", ["a", None, "a"]),
    (
        "dictionary_unsigned",
        pa.array([7, None], pa.uint32()).dictionary_encode(),
        "bigint",
        [7, None],
    ),
    (
        "run_end_encoded",
        pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([1, None], pa.uint8())),
        "smallint",
        [1, 1, None],
    ),
    ("uuid", pa.array([b"x" * 16, None], pa.uuid()), "binary", [b"x" * 16, None]),
    (
        "bool8",
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
        "boolean",
        [True, False, None],
    ),
    ("list", pa.array([[1], None, []]), "array<bigint>", [[1], None, []]),
    (
        "large_list",
        pa.array([["a"], None], pa.large_list(pa.large_string())),
        "array<string>",
        [["a"], None],
    ),
    (
        "fixed_size_list",
        pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)),
        "array<smallint>",
        [[1, 2], None],
    ),
    (
        "list_view",
        pa.array([[1, 2], None], pa.list_view(pa.int32())),
        "array<int>",
        [[1, 2], None],
    ),
    (
        "list_of_dictionaries",
        pa.array([["a", "b", "a"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        "array<string>",
        [["a", "b", "a"], None],
    ),
    (
        "struct",
        pa.array(
            [{"u": 1, "t": 1_999}, None], pa.struct([("u", pa.uint8()), ("t", pa.time64("ns"))])
        ),
        "struct<u:smallint,t:time(6)>",
        [{"u": 1, "t": dt.time(0, 0, 0, 1)}, None],
    ),
    (
        "map",
        pa.array([[("k", [1])], None], pa.map_(pa.large_string(), pa.list_(pa.uint16()))),
        "map<string,array<int>>",
        [[("k", [1])], None],
    ),
]


def _converted(array: Any, **options: Any) -> tuple[str, list[Any]]:
    batch = pa.record_batch({"x": array})
    schema = to_spark_schema(batch.schema, **options)
    target = arrow_schema(schema)
    ready = to_spark(batch, target)
    ready.validate(full=True)
    assert ready.schema.equals(target)
    return schema["x"].dataType.simpleString(), ready.column("x").to_pylist()


@pytest.mark.parametrize("name,array,spark_type,values", ZOO, ids=[row[0] for row in ZOO])
def test_each_type_becomes_the_documented_one_with_the_same_values(
    name: str, array: Any, spark_type: str, values: list[Any]
) -> None:
    assert _converted(array) == (spark_type, values)


@pytest.mark.parametrize("name,array,spark_type,values", ZOO, ids=[row[0] for row in ZOO])
def test_slices_become_the_same_values(
    name: str, array: Any, spark_type: str, values: list[Any]
) -> None:
    assert _converted(array[1:]) == (spark_type, values[1:])


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns"), pa.time64("ns")]
)
def test_nanoseconds_can_be_kept_as_numbers(kind: pa.DataType) -> None:
    array = pa.array([1_999, None], pa.int64()).view(kind)
    assert _converted(array, nanoseconds="int64") == ("bigint", [1_999, None])
    nested = pa.array([[1_999]], pa.list_(kind))
    assert _converted(nested, nanoseconds="int64") == ("array<bigint>", [[1_999]])


def test_coarser_times_stay_times_when_nanoseconds_are_kept_as_numbers() -> None:
    array = pa.array([MOMENT], pa.timestamp("us"))
    assert _converted(array, nanoseconds="int64") == ("timestamp_ntz", [MOMENT])


def test_the_oldest_nanosecond_is_floored_without_wrapping_round() -> None:
    oldest = -(2**63) + 1
    schema = pa.schema([("x", pa.timestamp("ns"))])
    batch = pa.record_batch([pa.array([oldest], pa.int64()).view(pa.timestamp("ns"))], schema)
    ready = to_spark(batch, arrow_schema(to_spark_schema(schema)))
    assert ready.column("x").cast(pa.int64()).to_pylist() == [oldest // 1000]


def test_all_columns_are_nullable_in_every_depth() -> None:
    inner = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    schema = pa.schema([pa.field("x", pa.list_(pa.field("item", inner, nullable=False)), False)])
    field = to_spark_schema(schema)["x"]
    assert field.nullable
    assert field.dataType.containsNull
    assert field.dataType.elementType["a"].nullable


def test_metadata_does_not_reach_spark() -> None:
    field = pa.field("x", pa.int8(), metadata={"SPARK::metadata::json": '{"a": 1}'})
    assert to_spark_schema(pa.schema([field]))["x"].metadata == {}


def test_missing_columns_are_null_and_the_order_is_the_targets() -> None:
    target = arrow_schema(to_spark_schema(pa.schema([("b", pa.string()), ("a", pa.int64())])))
    ready = to_spark(pa.record_batch({"a": [1], "z": [2]}), target)
    assert ready.to_pylist() == [{"b": None, "a": 1}]


def test_a_missing_column_is_null_whatever_its_type_and_else_refused() -> None:
    batch = pa.record_batch({"n": [1, 2]})
    runs = pa.struct([("r", pa.run_end_encoded(pa.int32(), pa.string()))])
    made = to_spark(batch, pa.schema([("lost", runs)]))
    made.validate(full=True)
    assert made["lost"].to_pylist() == [None, None]
    none = pa.schema([("lost", pa.struct([("u", pa.sparse_union([]))]))])
    with pytest.raises(InputError, match=r"column .lost. is missing: .* has no values"):
        to_spark(batch, none)


@pytest.mark.parametrize(
    "kind",
    [
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.list_(pa.sparse_union([pa.field("a", pa.int8())])),
        pa.map_(pa.string(), pa.dense_union([pa.field("a", pa.int8())])),
        pa.struct([]),
    ],
    ids=str,
)
def test_a_type_that_spark_lacks_is_refused_and_its_column_named(kind: pa.DataType) -> None:
    with pytest.raises(InputError, match=r"column 'x' is .* no type"):
        to_spark_schema(pa.schema([("x", kind)]))


def test_a_time_beyond_sparks_range_is_refused_and_its_column_named() -> None:
    schema = pa.schema([("x", pa.timestamp("s"))])
    batch = pa.record_batch([pa.array([2**60], pa.timestamp("s"))], schema)
    with pytest.raises(InputError, match=r"column 'x': .* beyond Spark's range"):
        to_spark(batch, arrow_schema(to_spark_schema(schema)))


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'x' is there twice"):
        to_spark_schema(pa.schema([("x", pa.int8()), ("x", pa.int8())]))


PAIR = pa.struct([("a", pa.int8()), ("a", pa.int8())])


@pytest.mark.parametrize(
    "kind",
    [PAIR, pa.list_(PAIR), pa.struct([("s", PAIR)]), pa.map_(pa.string(), PAIR)],
    ids=str,
)
def test_a_struct_that_has_a_name_twice_is_refused_and_its_column_named(kind) -> None:
    with pytest.raises(InputError, match="column 'x' has structs with 'a' twice"):
        to_spark_schema(pa.schema([("x", kind)]))
