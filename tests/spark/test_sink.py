"""Writing, without a session: what is planned, what is refused, how bundles are cut."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.types import StructField, StructType

import quiver
from quiver.errors import ConfigError, InputError, MissingError, QuiverError, VersionError
from quiver.spark import QuiverDataSource
from quiver.spark.schema import to_spark_schema
from quiver.spark.sink import cut
from quiver.spark.sink_schema import check_fits, stored_schema

N = StructType([StructField("n", t.LongType())])

STRUCT = StructType([StructField("a", t.IntegerType()), StructField("b", t.StringType())])
STAMPS = t.MapType(t.IntegerType(), t.ArrayType(t.TimestampType()))

TYPES = [
    (t.BooleanType(), pa.bool_(), "boolean"),
    (t.ByteType(), pa.int8(), "tinyint"),
    (t.ShortType(), pa.int16(), "smallint"),
    (t.IntegerType(), pa.int32(), "int"),
    (t.LongType(), pa.int64(), "bigint"),
    (t.FloatType(), pa.float32(), "float"),
    (t.DoubleType(), pa.float64(), "double"),
    (t.DecimalType(38, 18), pa.decimal128(38, 18), "decimal(38,18)"),
    (t.StringType(), pa.string(), "string"),
    (t.BinaryType(), pa.binary(), "binary"),
    (t.DateType(), pa.date32(), "date"),
    (t.TimestampType(), pa.timestamp("us", "UTC"), "timestamp"),
    (t.TimestampNTZType(), pa.timestamp("us"), "timestamp_ntz"),
    (t.TimeType(3), pa.time64("ns"), "time(6)"),
    (t.DayTimeIntervalType(), pa.duration("us"), "interval day to second"),
    (t.DayTimeIntervalType(1, 1), pa.duration("us"), "interval day to second"),
    (t.NullType(), pa.null(), "void"),
    (t.ArrayType(t.IntegerType()), pa.list_(pa.field("element", pa.int32())), "array<int>"),
    (STRUCT, pa.struct({"a": pa.int32(), "b": pa.string()}), "struct<a:int,b:string>"),
    (t.MapType(t.StringType(), t.LongType()), pa.map_(pa.string(), pa.int64()), None),
    (STAMPS, None, "map<int,array<timestamp>>"),
]


@pytest.mark.parametrize(("kind", "stored", "back"), TYPES)
def test_each_type_is_stored_as_the_table_says_and_comes_back(kind, stored, back) -> None:
    found = stored_schema(StructType([StructField("c", kind, nullable=False)]))
    assert found.field(0).nullable
    assert not found.field(0).metadata
    if stored is not None:
        assert found.field(0).type == stored
    assert to_spark_schema(found)[0].dataType.simpleString() == (back or kind.simpleString())


def test_not_null_children_become_nullable() -> None:
    inner = StructType([StructField("a", t.IntegerType(), nullable=False)])
    kind = t.ArrayType(inner, containsNull=False)
    found = stored_schema(StructType([StructField("c", kind, nullable=False)])).field(0).type
    assert found.value_field.nullable
    assert found.value_type.field("a").nullable


V = t.VariantType()


@pytest.mark.parametrize(
    "kind",
    [
        V,
        t.YearMonthIntervalType(),
        t.CalendarIntervalType(),
        t.ArrayType(V),
        t.MapType(t.IntegerType(), V),
        StructType([StructField("a", V)]),
        StructType([]),
        StructType([*N, *N]),
    ],
)
def test_other_types_are_refused_by_name_of_the_column(kind) -> None:
    with pytest.raises(InputError, match="column 'c' is") as caught:
        stored_schema(StructType([StructField("c", kind)]))
    assert "sink_schema" in caught.value.hint


def test_columns_that_are_there_twice_and_none_at_all_are_refused() -> None:
    with pytest.raises(InputError, match="'n' is there twice"):
        stored_schema(StructType([*N, *N]))
    with pytest.raises(InputError, match="no column"):
        stored_schema(StructType([]))


def test_what_can_be_promoted_fits_and_what_cannot_is_refused() -> None:
    stored = pa.schema({"n": pa.int32(), "s": pa.string()})
    check_fits(stored, pa.schema({"n": pa.int64(), "new": pa.bool_()}))
    with pytest.raises(InputError, match="column 's' is list"):
        check_fits(stored, pa.schema({"s": pa.list_(pa.int8())}))


def test_bundles_are_cut_by_rows_and_bytes_and_no_row_is_lost() -> None:
    batches = [pa.record_batch({"n": list(range(k, k + size))}) for k, size in ((0, 3), (3, 25))]
    batches.append(pa.record_batch({"n": pa.array([], pa.int64())}))
    for rows_max, bytes_max in ((1, 999), (4, 999), (100, 80), (100, 1), (100, 999)):
        bundles = list(cut(batches, rows_max=rows_max, bytes_max=bytes_max))
        assert [n for b in bundles for n in b.column("n").to_pylist()] == list(range(28))
        assert all(0 < b.num_rows <= rows_max for b in bundles)
        assert all(b.nbytes <= max(bytes_max, 8) for b in bundles)
    assert len(list(cut(batches, rows_max=100, bytes_max=999))) == 1
    assert list(cut(batches[2:], rows_max=1, bytes_max=1)) == []


def source(path, **options) -> QuiverDataSource:
    return QuiverDataSource({"path": str(path), "slot": "logs", **options})


def test_one_write_without_spark_around_it(write) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    writer = pickle.loads(pickle.dumps(source(path).writer(N, overwrite=False)))
    batch = pa.record_batch({"n": pa.array([2, 3])})
    message = pickle.loads(pickle.dumps(writer.write(iter([batch]))))
    assert quiver.scan(path, slot="logs").to_table()["n"].to_pylist() == [1]
    writer.commit([message])
    assert quiver.scan(path, slot="logs").to_table()["n"].to_pylist() == [1, 2, 3]


def test_a_task_that_fails_takes_back_what_it_staged(write, tmp_path) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    writer = source(path, maxRowsPerBundle="1").writer(N, overwrite=False)

    def failing():
        yield pa.record_batch({"n": pa.array(range(5))})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        writer.write(failing())
    staging = tmp_path / "store" / "staging"
    assert not staging.exists() or not list(staging.iterdir())


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"slot": ""}, ConfigError, "needs the option 'slot'"),
        ({"slot": "nowhere"}, QuiverError, "nowhere"),
        ({"columns": "n"}, ConfigError, "columns: has no meaning for writing"),
        ({"sinkId": "a"}, ConfigError, "go together"),
        ({"batchId": "1"}, ConfigError, "go together"),
        ({"sinkId": "a/b", "batchId": "1"}, InputError, "cannot name a sink"),
        ({"batchId": "-1"}, ConfigError, "batchId: must be"),
        ({"config": "/nowhere.toml"}, QuiverError, "nowhere.toml"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_staged(write, options, error, match) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    with pytest.raises(error, match=match):
        source(path, **options).writer(N, overwrite=False)


def test_a_sink_may_have_the_longest_name(write) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    writer = source(path, sinkId="a" * 100, batchId="1").writer(N, overwrite=False)
    writer.commit([writer.write(iter([pa.record_batch({"n": pa.array([2])})]))])
    assert (Path(path) / "sinks" / f"{'a' * 100}--0.json").exists()
    with pytest.raises(InputError, match="cannot name a sink"):
        source(path, sinkId="a" * 101, batchId="1").writer(N, overwrite=False)


def test_overwrite_and_other_types_are_refused_and_a_stream_has_its_own_sink(write) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    for plan in (source(path).writer, source(path).streamWriter):
        with pytest.raises(InputError, match="never overwrites") as caught:
            plan(N, overwrite=True)
        assert "append" in caught.value.hint
        wrong = StructType([StructField("n", t.ArrayType(t.LongType()))])
        with pytest.raises(InputError, match=r"column 'n' is list"):
            plan(wrong, overwrite=False)
    with pytest.raises(ConfigError, match="have no meaning for a stream"):
        source(path, sinkId="a", batchId="1").streamWriter(N, overwrite=False)
    with pytest.raises(ConfigError, match="which streaming query"):
        source(path).streamWriter(N, overwrite=False).write(iter([]))


def test_a_store_is_made_if_that_is_asked_for(tmp_path) -> None:
    path = tmp_path / "new"
    with pytest.raises(MissingError, match="no Quiver store") as caught:
        source(path).writer(N, overwrite=False)
    assert "createIfMissing" in caught.value.hint
    assert not path.exists()
    with pytest.raises(ConfigError, match="is not among them"):
        source(path, slots="a, b", createIfMissing="true").writer(N, overwrite=False)
    source(path, slots="metrics, logs", createIfMissing="true").writer(N, overwrite=False)
    with quiver.open(path) as store:
        assert [slot.name for slot in store.slots] == ["metrics", "logs"]
    source(path, createIfMissing="true").writer(N, overwrite=False)  # It is there, as it is.
    with pytest.raises((VersionError, InputError)):
        source(path, slot="other", createIfMissing="true").writer(N, overwrite=False)


def test_a_path_that_is_not_there_on_an_executor_names_the_host(write, tmp_path) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    writer = source(path).writer(N, overwrite=False)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    with pytest.raises(MissingError, match=r"host .* does not see"):
        writer.write(iter([pa.record_batch({"n": [1]})]))
