"""Spark to Quiver and back to Spark."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import quiver

pytestmark = pytest.mark.spark

EVERYTHING = """
    select cast(id as tinyint) ti, cast(id as smallint) si, cast(id as int) i, id l,
        cast(id as float) f, cast(id as double) d, cast(id as decimal(38,18)) de,
        if(id % 2 = 0, concat('text ', id), null) s, cast(cast(id as string) as binary) b,
        id % 2 = 0 bo, date_add(date'2020-01-01', cast(id as int)) dt,
        timestamp'2020-06-01 12:00:00.123456' + make_dt_interval(id) ts,
        timestamp_ntz'0001-01-01 00:00:00.000001' tn, make_dt_interval(id, 1, 2, 3.000004) iv,
        time'23:59:59.999999' tm, null v, array(id, null) a, map('k', id) m,
        named_struct('x', id, 'y', array(named_struct('z', id))) st,
        cast(id as varchar(5)) vc, cast(id as char(5)) ch
    from range(0, 10, 1, 3)
"""


def rows(path, slot="logs"):
    return sorted(quiver.scan(path, slot=slot).to_table()["n"].to_pylist())


def test_all_types_go_there_and_back(spark, tmp_path) -> None:
    path = str(tmp_path / "store")
    frame = spark.sql(EVERYTHING)
    writing = frame.write.format("quiver").mode("append").option("slot", "logs")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        expected = sorted(map(str, frame.collect()))
        with pytest.raises(PySparkException, match="no Quiver store"):
            writing.save(path)
        writing.option("createIfMissing", "true").save(path)
        back = spark.read.format("quiver").option("slot", "logs").load(path)
        assert sorted(map(str, back.collect())) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    dtypes = [kind if kind != "interval day" else "x" for _, kind in frame.dtypes]
    assert [kind for _, kind in back.dtypes] == dtypes
    assert quiver.scan(path, slot="logs").schema.field("ts").type == pa.timestamp("us", "UTC")
    assert len(list((tmp_path / "store" / "core_0" / "segments").iterdir())) == 1
    assert not list((tmp_path / "store" / "staging").iterdir())


def test_a_task_that_fails_lets_nothing_in(spark, write, tmp_path) -> None:
    path = write([{"logs": pa.record_batch({"n": [1]})}])
    for tasks in (1, 2):  # Of two the other may be at it still, and its file is garbage then.
        frame = spark.sql(
            f"select if(id = 7, raise_error('no'), id) n from range(0, 8, 1, {tasks})"
        )
        frame = frame.selectExpr("cast(n as bigint) n")
        with pytest.raises(PySparkException, match="no"):
            frame.write.format("quiver").mode("append").option("slot", "logs").save(path)
        assert rows(path) == [1]
        staging = tmp_path / "store" / "staging"
        assert tasks == 2 or not staging.exists() or not list(staging.iterdir())
    for mode, match in (("overwrite", "never overwrites"), ("error", "ErrorIfExists")):
        with pytest.raises(PySparkException, match=match):
            frame.write.format("quiver").mode(mode).option("slot", "logs").save(path)


def test_a_stream_is_in_once_also_when_a_batch_is_repeated(spark, write, tmp_path) -> None:
    path = write([{"logs": pa.record_batch({"n": pa.array([-1])})}])
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()

    def add(number: int) -> None:
        lines = [json.dumps({"n": number * 10 + k}) for k in range(3)]
        (source / f"{number}.json").write_text("\n".join(lines))

    def run() -> None:
        frame = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1)
        query = (
            frame.json(str(source))
            .writeStream.format("quiver")
            .option("slot", "logs")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start(path)
        )
        assert query.awaitTermination(60)

    for number in (0, 1):
        add(number)
    run()
    assert rows(path) == [-1, 0, 1, 2, 10, 11, 12]
    for file in ("1", ".1.crc"):  # As a kill between the sink's commit and Spark's leaves it.
        (checkpoint / "commits" / file).unlink()
    add(2)
    run()
    assert rows(path) == [-1, 0, 1, 2, 10, 11, 12, 20, 21, 22]
    assert sorted(file.name for file in (checkpoint / "commits").glob("[0-9]")) == ["0", "1", "2"]


def test_a_batch_with_a_name_is_in_once(spark, write) -> None:
    path = write([{"logs": pa.record_batch({"n": pa.array([-1])})}])
    for number in (0, 0, 1, 1):
        writing = spark.range(number, number + 1).toDF("n").write.format("quiver").mode("append")
        writing.option("sinkId", "nightly").option("batchId", number).option("slot", "logs").save(
            path
        )
    assert rows(path) == [-1, 0, 1]
