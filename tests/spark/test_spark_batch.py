"""The options of a batch read in Spark itself: snapshots, filters, metadata, views and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PLACE = ["_core", "_segment_seq", "_bundle_index"]


def _log(*numbers: int) -> dict[str, pa.RecordBatch]:
    text = [str(number) for number in numbers]
    return {"logs": pa.record_batch({"n": list(numbers), "text": text})}


def _load(spark: SparkSession, store: str, **options: Any) -> DataFrame:
    return spark.read.format("quiver").options(slot="logs", **options).load(store)


def _numbers(frame: DataFrame) -> list[int]:
    return sorted(row["n"] for row in frame.collect())


def _rows_read(frame: DataFrame) -> int:
    """Run a query, and ask its plan how many rows the scan gave: what Spark's web page shows."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaf = plan.collectLeaves().head()
    return int(leaf.metrics().apply("numOutputRows").value())


def test_a_view_and_its_joins_read_one_snapshot_while_the_store_changes(spark, write) -> None:
    store = write([_log(1)], [_log(2)])
    _load(spark, store).createOrReplaceTempView("pinned")
    query = "SELECT a.n FROM pinned a JOIN pinned b ON a.n = b.n WHERE a.n > 0 AND b.n < 100"
    try:
        assert _numbers(spark.sql(query)) == [1, 2]
        write([_log(3)])
        assert _numbers(spark.sql(query)) == [1, 2]
        Path(store, "core_0", "segments", f"{0:016}.qseg").unlink()
        with pytest.raises(PySparkException, match="snapshot has expired: segment 0 of core 0"):
            # Of a join both sides may fail at once, which PySpark has no exception of its own for.
            spark.table("pinned").collect()
    finally:
        spark.catalog.dropTempView("pinned")


def _pushed(spark: SparkSession, store: str, condition: str) -> DataFrame:
    return _load(spark, store, pushdown="once").where(condition)


def test_filters_reach_the_source_and_spark_shows_fewer_rows(spark, write) -> None:
    store = write(*([_log(*range(first, first + 100))] for first in range(0, 400, 100)))
    for condition, expected in (
        ("n >= 395 AND text <> '397'", [395, 396, 398, 399]),
        ("n IN (5, 205)", [5, 205]),
        ("n = 5 OR text = '205'", [5, 205]),
    ):
        assert _numbers(_pushed(spark, store, condition)) == expected
    assert _rows_read(_pushed(spark, store, "n = 250")) == 1
    assert _rows_read(_load(spark, store).where("n = 250")) == 400


def test_spark_still_takes_the_filters_of_one_query_for_another_of_the_same_load(
    spark, write
) -> None:
    """When this fails Spark was mended, and ``pushdown`` need not be asked for."""
    store = write([_log(*range(10))])
    for wanted, expected in (("never", 10), ("once", 1)):
        frame = _load(spark, store, pushdown=wanted)
        assert frame.where("n = 1").count() == 1
        assert frame.count() == expected


def test_times_and_floats_in_filters_mean_what_spark_means(spark, write) -> None:
    nanoseconds = [10**18 - 1, 10**18, 10**18 + 999, 10**18 + 1000]
    time = pa.array(nanoseconds, pa.timestamp("ns", "UTC"))
    numbers = [1.0, float("nan"), 7.0, 0.0]
    store = write([{"logs": pa.record_batch({"n": [0, 1, 2, 3], "t": time, "x": numbers})}])
    moment = "timestamp'2001-09-09 01:46:40'"
    assert _numbers(_pushed(spark, store, f"t = {moment}")) == [1, 2]
    assert _rows_read(_pushed(spark, store, f"t < {moment}")) == 1
    assert _numbers(_pushed(spark, store, "x > 5")) == [1, 2]
    assert _numbers(_pushed(spark, store, "x = double('NaN')")) == [1]


def test_slots_of_one_bundle_are_joined_back_by_where_it_lies(spark, write) -> None:
    def bundle(number: int) -> dict[str, pa.RecordBatch]:
        metric = pa.record_batch({"m": [number / 2]})
        return {**_log(number, number + 100), **({"metrics": metric} if number % 2 else {})}

    store = write([bundle(0), bundle(1)], [bundle(2), bundle(3)])
    logs = _load(spark, store, includeMetadata="true")
    metrics = spark.read.format("quiver").options(slot="metrics", includeMetadata="true")
    joined = logs.join(metrics.load(store).drop("_ingestion_time"), PLACE)
    found = sorted((row["n"], row["m"]) for row in joined.collect())
    assert found == [(1, 0.5), (3, 1.5), (101, 0.5), (103, 1.5)]


def test_a_table_that_was_created_says_how_its_options_are_given_again(spark, write) -> None:
    store = write([_log(1, 2)])
    spark.sql(f"CREATE TABLE kept USING quiver OPTIONS (path '{store}', slot 'logs')")
    try:
        assert spark.table("kept").columns == ["n", "text"]
        with pytest.raises(PySparkException, match=r"TEMPORARY VIEW, or say SELECT .* WITH"):
            spark.table("kept").collect()
        rows = spark.sql(f"SELECT n FROM kept WITH (`path`='{store}', `slot`='logs')").collect()
        assert [row["n"] for row in rows] == [1, 2]
    finally:
        spark.sql("DROP TABLE kept")


def test_the_measured_settings_are_on_beside_those_that_were_given(spark) -> None:
    given = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    assert "-Darrow.enable_unsafe_memory_access=true" in given
    assert "TieredStopAtLevel=1" in given
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    assert spark.conf.get("spark.python.unix.domain.socket.enabled") == "true"
