"""What the options of a batch read choose, without a JVM: ranges, metadata, filters, losses."""

from __future__ import annotations

import json
import pickle
import shutil
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as s
from pyspark.sql.datasource import InputPartition

import quiver
from quiver.errors import ConfigError, InputError, MissingError
from quiver.spark import QuiverDataSource
from quiver.spark.reader import FilteringReader, QuiverReader


def _log(*numbers: int) -> dict[str, pa.RecordBatch]:
    return {"logs": pa.record_batch({"n": list(numbers), "text": [str(n) for n in numbers]})}


def _source(path: str, **options: str) -> QuiverDataSource:
    return QuiverDataSource({"path": path, "slot": "logs", **options})


def _reader(source: QuiverDataSource, *filters: Any) -> QuiverReader:
    """Plan as Spark would, in other processes, and hand down the filters."""
    source = pickle.loads(pickle.dumps(source))
    reader = source.reader(source.schema())
    if filters:
        assert list(reader.pushFilters(list(filters))) == list(filters)
    return reader


def _rows(source: QuiverDataSource, *filters: Any) -> list[dict[str, Any]]:
    reader = _reader(source, *filters)
    rows: list[dict[str, Any]] = []
    for partition in list(reader.partitions()) or [InputPartition(None)]:
        worker, share = pickle.loads(pickle.dumps((reader, partition)))
        for batch in worker.read(share):
            rows += batch.to_pylist()
    return rows


def _numbers(source: QuiverDataSource, *filters: Any) -> list[int]:
    return [row["n"] for row in _rows(source, *filters)]


def _segment(store: str, seq: int) -> Path:
    return Path(store, "core_0", "segments", f"{seq:016}.qseg")


def test_a_range_of_segments_is_half_open(write) -> None:
    store = write([_log(0)], [_log(1)], [_log(2)])
    assert _numbers(_source(store, startingSegment="1")) == [1, 2]
    assert _numbers(_source(store, endingSegment="core_0:1")) == [0]
    assert _numbers(_source(store, startingSegment="1", endingSegment="2")) == [1]


def test_a_range_without_segments_is_empty_and_has_the_schema_of_the_store(write) -> None:
    source = _source(write([_log(0)]), startingSegment="5")
    assert source.schema().names == ["n", "text"]
    assert _rows(source) == []


def test_a_range_that_lost_its_start_is_an_error_unless_losses_are_allowed(write) -> None:
    store = write([_log(0)], [_log(1)], [_log(2)])
    for seq in (0, 1):
        _segment(store, seq).unlink()
    with pytest.raises(MissingError, match=r"segment 1 of core_0.* there no more"):
        _source(store, startingSegment="1").schema()
    assert _numbers(_source(store, startingSegment="1", failOnDataLoss="false")) == [2]


def test_a_range_of_time_is_half_open_and_of_appends(write) -> None:
    store = write([_log(0), _log(1)], [_log(2)])
    times = [row["_ingestion_time"] for row in _rows(_source(store, includeMetadata="true"))]
    assert times == sorted(times)
    whole = _source(store, includeMetadata="true", timestampUnit="int64")
    exact = [row["_ingestion_time"] for row in _rows(whole)]
    middle = str(exact[1])
    assert _numbers(_source(store, startingTime=middle)) == [1, 2]
    assert _numbers(_source(store, endingTime=middle)) == [0]
    assert _numbers(_source(store, startingTime="2000-01-01", endingTime="2000-01-02")) == []
    with pytest.raises(ConfigError, match="startingTime: 'soon' is no time"):
        _source(store, startingTime="soon")


def test_metadata_says_where_each_row_lies(write) -> None:
    store = write([_log(0, 1), _log(2)], [_log(3)])
    source = _source(store, includeMetadata="true")
    assert source.schema().simpleString() == (
        "struct<n:bigint,text:string,_core:int,_segment_seq:bigint,_bundle_index:bigint,"
        "_ingestion_time:timestamp,_row_index:bigint,_store_id:string>"
    )
    place = ("_core", "_segment_seq", "_bundle_index", "_row_index")
    found = [(row["n"], *(row[name] for name in place)) for row in _rows(source)]
    assert found == [(0, 0, 0, 0, 0), (1, 0, 0, 0, 1), (2, 0, 0, 1, 0), (3, 0, 1, 0, 0)]
    (store_id,) = {row["_store_id"] for row in _rows(source)}
    assert store_id == json.loads(Path(store, "quiver.json").read_text())["store_id"]
    chosen = _rows(_source(store, includeMetadata="true", columns="text", startingSegment="1"))
    assert [(row["text"], row["_segment_seq"]) for row in chosen] == [("3", 1)]


def test_metadata_says_where_rows_lie_when_schemas_alternate_and_partitions_cut(write) -> None:
    other = {"logs": pa.record_batch({"n": pa.array([7], pa.int8())})}
    store = write([_log(0), other, _log(2), other], [_log(index) for index in range(9)])
    source = _source(store, includeMetadata="true", maxPartitionBytes="1")
    assert len(_reader(source).partitions()) > 2
    found = [(row["n"], row["_segment_seq"], row["_bundle_index"]) for row in _rows(source)]
    assert found == [
        *((n, 0, index) for index, n in enumerate([0, 7, 2, 7])),
        *((n, 1, n) for n in range(9)),
    ]


def test_a_column_named_as_metadata_is_refused_when_both_are_asked_for(write) -> None:
    store = write([{"logs": pa.record_batch({"_core": ["mine"]})}])
    assert _rows(_source(store)) == [{"_core": "mine"}]
    with pytest.raises(InputError, match="column '_core' would be there twice"):
        _source(store, includeMetadata="true").schema()


def test_without_merging_the_newest_segment_says_the_schema(write) -> None:
    store = write(
        [{"logs": pa.record_batch({"a": pa.array([1], pa.int8()), "old": ["x"]})}],
        [{"logs": pa.record_batch({"a": pa.array([2], pa.int16()), "new": [1]})}],
    )
    assert _source(store).schema().names == ["a", "old", "new"]
    source = _source(store, mergeSchema="false")
    assert source.schema().simpleString() == "struct<a:smallint,new:bigint>"
    assert _rows(source) == [{"a": 1, "new": None}, {"a": 2, "new": 1}]
    write([{"logs": pa.record_batch({"a": pa.array([3], pa.int8())})}])
    with pytest.raises(InputError, match="column 'a' is int16, which int8 does not hold"):
        _rows(_source(store, mergeSchema="false"))


@pytest.mark.parametrize("planned", [False, True])
def test_a_snapshot_that_has_expired_is_an_error_unless_losses_are_allowed(write, planned) -> None:
    store = write([_log(0)], [_log(1)])
    strict, lenient = _source(store), _source(store, failOnDataLoss="false")
    if planned:
        strict.schema()
        lenient.schema()
    _segment(store, 0).unlink()
    with pytest.raises(MissingError, match=r"snapshot has expired: segment 0 of core 0.*load"):
        _rows(strict)
    assert _numbers(lenient) == [1]


def test_a_store_that_an_executor_cannot_see_is_told_with_the_host_and_a_way_out(write) -> None:
    store = write([_log(0)])
    reader = _reader(_source(store))
    (partition,) = reader.partitions()
    shutil.move(store, f"{store}-elsewhere")
    host = socket.gethostname()
    with pytest.raises(MissingError, match=f"cannot be seen from {host} .*object storage"):
        list(reader.read(partition))
    with quiver.open(store, slots=["logs"], worker=False) as other:
        other.append(_log(5))
    with pytest.raises(MissingError, match=f"on {host} is not the store .*object storage"):
        list(reader.read(partition))


def test_filters_are_handed_down_only_where_that_is_asked_for(write) -> None:
    store = write([_log(0)])
    assert type(_reader(_source(store))) is QuiverReader
    assert type(_reader(_source(store, pushdown="once"))) is FilteringReader


def test_a_filter_leaves_out_what_cannot_pass_and_is_given_back(write, caplog) -> None:
    caplog.set_level("INFO", "quiver.spark")
    store = write(*([_log(10 * seq), _log(10 * seq + 1)] for seq in range(4)))
    source = _source(store, pushdown="once")
    assert _numbers(source, s.GreaterThan(("n",), 20)) == [21, 30, 31]
    (record,) = caplog.records
    assert record.getMessage() == "spark.planned"
    assert (record.segment_count, record.skipped_segment_count) == (4, 2)
    assert (record.row_count, record.skipped_row_count) == (8, 5)
    assert record.partition_count == 1


def test_a_filter_takes_rows_out_unless_nearly_all_pass(write) -> None:
    store = write([_log(*range(100))])
    source = _source(store, pushdown="once")
    assert _numbers(source, s.LessThan(("n",), 50)) == [*range(50)]
    assert _numbers(source, s.LessThan(("n",), 90)) == [*range(100)]


def test_a_filter_on_metadata_is_tried_on_rows(write) -> None:
    source = _source(write([_log(0)], [_log(1)]), includeMetadata="true", pushdown="once")
    assert _numbers(source, s.EqualTo(("_segment_seq",), 1), s.IsNotNull(("n",))) == [1]


def test_one_column_of_a_damaged_segment_is_read_if_the_damage_is_elsewhere(write) -> None:
    rows = 4096
    store = write([{"logs": pa.record_batch({"a": [1] * rows, "b": [2] * rows})}])
    path = _segment(store, 0)
    data = bytearray(path.read_bytes())
    data[data.index((2).to_bytes(8, "little") * 64) + 8192] ^= 0xFF
    path.chmod(0o600)
    path.write_bytes(data)
    assert len(_rows(_source(store, columns="a"))) == rows


def test_a_task_is_told_of_its_own_segments_only(write) -> None:
    store = write(*([_log(seq)] for seq in range(30)))
    reader = _reader(_source(store, maxPartitionBytes="1"))
    partitions = reader.partitions()
    assert len(partitions) > 10
    assert len(pickle.dumps(reader)) < 5000
    assert len(pickle.dumps(partitions[0])) < len(pickle.dumps(partitions)) / 5


def test_segments_whose_dictionaries_do_not_fit_into_one_are_read_together(write) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    words = [[f"{first}{number}" for number in range(100)] for first in "ab"]
    store = write(
        *([{"logs": pa.record_batch({"n": pa.array(some).cast(kind)})}] for some in words)
    )
    assert [row["n"] for row in _rows(_source(store))] == words[0] + words[1]
