"""The data source without a JVM: options, errors, planning and reading as Spark calls them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from quiver.errors import ConfigError, InputError, MissingError
from quiver.spark import QuiverDataSource

N = StructType([StructField("n", LongType())])


def _log(*numbers: int) -> dict[str, pa.RecordBatch]:
    text = [str(number) for number in numbers]
    return {"logs": pa.record_batch({"n": list(numbers), "text": text})}


def _source(path: str, **options: str) -> QuiverDataSource:
    return QuiverDataSource({"path": path, "slot": "logs", **options})


def _rows(source: QuiverDataSource, schema: StructType | None = None) -> list[dict[str, Any]]:
    """Read all as Spark would, each step in another process."""
    source = pickle.loads(pickle.dumps(source))
    reader = source.reader(source.schema() if schema is None else schema)
    rows: list[dict[str, Any]] = []
    for partition in list(reader.partitions()) or [InputPartition(None)]:
        worker, share = pickle.loads(pickle.dumps((reader, partition)))
        for batch in worker.read(share):
            rows += batch.to_pylist()
    return rows


def test_rows_come_in_order(write) -> None:
    store = write([_log(1), _log(2)], [_log(3)])
    assert [row["n"] for row in _rows(_source(store))] == [1, 2, 3]


def test_option_names_are_taken_in_any_case(write) -> None:
    store = write([_log(1)])
    source = QuiverDataSource(
        {"PATH": store, "Slot": "logs", "timestampunit": "int64", "MAXPARTITIONBYTES": "1MiB"}
    )
    assert len(_rows(source)) == 1


def test_the_columns_option_chooses_and_orders(write) -> None:
    source = _source(write([_log(1)]), columns=" text , n")
    assert source.schema().names == ["text", "n"]
    assert _rows(source) == [{"text": "1", "n": 1}]


def test_a_given_schema_chooses_the_columns_that_are_read(write) -> None:
    assert _rows(_source(write([_log(1)])), N) == [{"n": 1}]


def test_a_given_schema_with_an_unknown_column_is_refused_and_the_known_ones_listed(write) -> None:
    schema = StructType([StructField("m", LongType())])
    with pytest.raises(InputError, match=r"column 'm', which is not in the store .*n, text"):
        _source(write([_log(1)])).reader(schema)


def test_a_given_schema_with_another_type_is_refused_and_both_types_named(write) -> None:
    schema = StructType([StructField("n", StringType())])
    with pytest.raises(InputError, match="'n' as string, the store has bigint"):
        _source(write([_log(1)])).reader(schema)


def test_not_null_holds_until_a_null_is_met(write) -> None:
    schema = StructType([StructField("n", LongType(), nullable=False)])
    store = write([_log(1)])
    assert _rows(_source(store), schema) == [{"n": 1}]
    write([{"logs": pa.record_batch({"text": ["no n"]})}])
    with pytest.raises(InputError, match="NOT NULL"):
        _rows(_source(store), schema)


@pytest.mark.parametrize(
    "options,message",
    [
        ({}, "needs the option 'path'"),
        ({"path": "x", "slot": "logs", "colums": "a"}, "no option 'colums'.*did you mean columns"),
        ({"path": "x", "slot": "logs", "timestampUnit": "ns"}, "timestampUnit: 'ns'"),
        ({"path": "x", "slot": "logs", "maxPartitionBytes": "0"}, "maxPartitionBytes"),
        ({"path": "x", "slot": "logs", "maxPartitionBytes": "big"}, "maxPartitionBytes"),
        ({"path": "x", "slot": "logs", "minPartitions": "1.5"}, "minPartitions"),
        ({"path": "x", "slot": "logs", "minPartitions": "0"}, "minPartitions"),
    ],
)
def test_a_bad_option_is_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        QuiverDataSource(options)


def test_what_keeps_a_snapshot_from_being_taken_is_told_to_who_reads(write) -> None:
    store = write([_log(1)])
    for options, kind, message in (
        ({"path": store, "slot": "traces"}, InputError, "its slots are: logs, metrics"),
        ({"path": f"{store}/nowhere", "slot": "logs"}, MissingError, "nowhere"),
        ({"path": store}, ConfigError, "needs the option 'slot'"),
    ):
        source = pickle.loads(pickle.dumps(QuiverDataSource(options)))
        for act in (source.schema, lambda source=source: source.reader(N)):
            with pytest.raises(kind, match=message):
                act()


def test_a_slot_that_nothing_finalized_holds_is_an_error_or_empty_by_a_given_schema(write) -> None:
    source = _source(write([{"metrics": pa.record_batch({"m": [1.0]})}]))
    with pytest.raises(MissingError, match="no finalized segment"):
        source.schema()
    assert _rows(source, N) == []


def test_the_snapshot_is_taken_when_the_source_is_made(write) -> None:
    store = write([_log(1)])
    source = _source(store)
    write([_log(2)])
    assert len(_rows(source)) == 1
    assert len(_rows(_source(store))) == 2


def test_a_segment_deleted_since_then_is_missed_with_advice(write) -> None:
    store = write([_log(1)], [_log(2)])
    planned, unplanned = _source(store), _source(store)
    planned.schema()
    Path(store, "core_0", "segments", f"{0:016}.qseg").unlink()
    for source in (planned, unplanned):
        with pytest.raises(MissingError, match="segment 0 of core 0 is gone"):
            _rows(source, N)


def test_drifted_types_meet_in_sparks_type(write) -> None:
    bundles = [
        {"logs": pa.record_batch({"x": pa.array([values[0]], kind)})}
        for kind, values in (
            (pa.uint64(), [2**64 - 1]),
            (pa.int8(), [-1]),
            (pa.dictionary(pa.int8(), pa.uint8()), [7]),
            (pa.null(), [None]),
        )
    ]
    source = _source(write(bundles[:2], bundles[2:]))
    assert source.schema()["x"].dataType.simpleString() == "decimal(20,0)"
    assert [row["x"] for row in _rows(source)] == [2**64 - 1, -1, 7, None]


def test_many_small_bundles_become_few_batches(write) -> None:
    store = write([_log(number) for number in range(50)])
    source = _source(store)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(partition)] == [50]


def test_the_reader_has_no_filter_push_down_because_spark_would_refuse_it(write) -> None:
    source = _source(write([_log(1)]))
    assert type(source.reader(N)).pushFilters is DataSourceReader.pushFilters


def test_without_pyspark_the_import_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        "try:\n    import quiver.spark\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "quiver.spark needs PySpark: pip install 'quiver-store[spark]'\n"
