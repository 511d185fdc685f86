"""What a streaming source answers to Spark, asked without a JVM."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles
from pyspark.sql.types import LongType, StringType, StructType

import quiver
from quiver.clock import SystemClock
from quiver.config import Config
from quiver.disk import LocalDisk
from quiver.engine.migration import Changes, migrate
from quiver.errors import ConfigError, InputError, MissingError, SourceError, SubscriberError
from quiver.spark import QuiverDataSource
from quiver.spark.stream_read import check_query

ALL = ReadAllAvailable()


def log(*numbers: int, **more: Any) -> dict[str, pa.RecordBatch]:
    columns = {name: [value] * len(numbers) for name, value in more.items()}
    return {"logs": pa.record_batch({"n": list(numbers), **columns})}


def source(store: str, **options: str) -> QuiverDataSource:
    return QuiverDataSource({"path": store, "slot": "logs", **options})


def reader(store: str, **options: str) -> Any:
    made = source(store, **options)
    schema = made.schema()
    return pickle.loads(pickle.dumps(made)).streamReader(schema)


def rows(stream: Any, start: Any, end: Any) -> list[Any]:
    """Read a batch as tasks do: each from a pickled copy."""
    found = []
    for partition in stream.partitions(start, end):
        copy, share = pickle.loads(pickle.dumps((stream, partition)))
        for batch in copy.read(share):
            found += batch.column("n").to_pylist()
    return found


@pytest.fixture
def store(write) -> str:
    return write([log(0, 1)], [log(2)], [log(3)])


def test_a_batch_is_what_lies_between_two_offsets_and_the_same_again(store, write) -> None:
    stream = reader(store)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert rows(stream, start, end) == [0, 1, 2, 3]
    assert json.dumps(stream.latestOffset(end, ALL)) == json.dumps(end)
    write([log(4)], core=1)
    more = stream.latestOffset(end, ALL)
    assert rows(stream, end, more) == [4]
    assert rows(reader(store), start, end) == [0, 1, 2, 3]


def test_a_first_batch_that_is_done_again_begins_where_it_did(store, write) -> None:
    stream = reader(store, startingOffsets="latest")
    start = stream.initialOffset()
    assert stream.latestOffset(start, ALL) == start
    write([log(4)])
    end = stream.latestOffset(start, ALL)
    write([log(5)])
    again = reader(store, startingOffsets="latest")
    assert rows(again, again.initialOffset(), end) == [4]
    assert rows(again, again.initialOffset(), start) == []
    assert rows(again, end, again.latestOffset(end, ALL)) == [5]
    with pytest.raises(InputError, match="first: 1 is no place"):
        again.partitions(start, {**end, "first": 1})


def test_offsets_are_the_same_text_whatever_order_they_are_made_in(store, write) -> None:
    for core in range(1, 12):
        write([log(core)], core=core)
    stream = reader(store)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    text = json.dumps(end)
    assert text == json.dumps(end, sort_keys=True)
    assert json.dumps(stream.latestOffset(json.loads(text), ALL)) == text


@pytest.mark.parametrize(
    ("options", "limit", "numbers"),
    [
        ({}, ALL, [0, 1, 2, 3]),
        ({"maxSegmentsPerTrigger": "2"}, ReadMaxFiles(2), [0, 1, 2]),
        ({"maxSegmentsPerTrigger": "2"}, ALL, [0, 1, 2, 3]),
        ({"maxBytesPerTrigger": "1"}, ReadMaxBytes(1), [0, 1]),
        ({"maxBytesPerTrigger": "1GB", "maxSegmentsPerTrigger": "1"}, ReadMaxFiles(1), [0, 1]),
    ],
)
def test_limits_are_told_to_spark_and_hold_unless_all_is_asked_for(
    store, options, limit, numbers
) -> None:
    stream = reader(store, **options)
    if limit != ALL:
        assert stream.getDefaultReadLimit() == limit
    start = stream.initialOffset()
    assert rows(stream, start, stream.latestOffset(start, limit)) == numbers


def test_a_run_to_the_end_of_what_is_there_ends(store, write) -> None:
    stream = reader(store, maxSegmentsPerTrigger="2")
    stream.prepareForTriggerAvailableNow()
    at = stream.initialOffset()
    write([log(9)])
    write([log(8)], core=1)
    found = []
    for _ in range(9):
        end = stream.latestOffset(at, ReadMaxFiles(2))
        if json.dumps(end) == json.dumps(at):
            break
        found += rows(stream, at, end)
        at = end
    assert found == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"startingOffsets": "earliest"}, [0, 1, 2, 3, 4]),
        ({"startingOffsets": "latest"}, [4]),
        ({"startingSegment": "1"}, [2, 3, 4]),
        ({"startingTime": "2013-01-01T00:00Z"}, [0, 1, 2, 3, 4]),
        ({"startingTime": "2999-01-01"}, [4]),
    ],
)
def test_a_query_starts_where_it_was_told(store, write, options, numbers) -> None:
    stream = reader(store, **options)
    start = stream.initialOffset()
    write([log(4)])
    assert rows(stream, start, stream.latestOffset(start, ALL)) == numbers


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest", "startingSegment": "1"}, "startingSegment is given too"),
        ({"startingSegment": "soon"}, "no place in a store"),
        ({"startingTime": "latest"}, "no time"),
        ({"subscriber": "x"}, "needs the option checkpointLocation"),
        ({"checkpointLocation": "/x"}, "without the option subscriber"),
        ({"schemaChange": "maybe"}, "none of fail, ignore"),
        ({"maxSegmentsPerTrigger": "0"}, "above zero"),
    ],
)
def test_options_that_make_no_sense_are_refused(store, options, said) -> None:
    with pytest.raises(ConfigError) as told:
        reader(store, **options)
    assert said in str(told.value)


def test_new_columns_are_an_error_or_left_out_as_it_was_told(store, write) -> None:
    strict, lenient = reader(store), reader(store, schemaChange="ignore")
    named = reader(store, columns="n")
    given = source(store).streamReader(StructType().add("n", LongType()))
    start = strict.initialOffset()
    write([log(4, word="new")])
    end = strict.latestOffset(start, ALL)
    with pytest.raises(InputError, match=r"segment 3 .*new columns of slot 'logs': word") as told:
        rows(strict, start, end)
    assert "start it again" in told.value.hint
    for stream in (lenient, named, given):
        assert rows(stream, start, end) == [0, 1, 2, 3, 4]
    assert rows(reader(store), start, end) == [0, 1, 2, 3, 4]


def test_a_type_that_the_query_cannot_hold_is_always_an_error(write) -> None:
    store = write([{"logs": pa.record_batch({"n": pa.array([1], pa.int32())})}])
    stream = reader(store, schemaChange="ignore")
    start = stream.initialOffset()
    write([{"logs": pa.record_batch({"n": pa.array([1 << 40], pa.int64())})}])
    with pytest.raises(InputError, match="as int64, and the query was started with int32"):
        rows(stream, start, stream.latestOffset(start, ALL))


def test_rows_of_a_bundle_are_counted_on_where_it_is_cut(write) -> None:
    count = 100_000
    stream = reader(write([log(*range(count)), log(7)]), includeMetadata="true")
    start = stream.initialOffset()
    (part,) = stream.partitions(start, stream.latestOffset(start, ALL))
    batches = list(stream.read(part))
    assert max(batch.num_rows for batch in batches) < count
    found = [number for batch in batches for number in batch.column("_row_index").to_pylist()]
    assert found == [*range(count), 0]


def test_where_a_row_lies_and_since_when_comes_with_it_if_that_is_wanted(write) -> None:
    store = write([log(1), log(2)])
    stream = reader(store, includeMetadata="true")
    named = reader(store, includeMetadata="true", columns="n")
    given = source(store, includeMetadata="true")
    asked = given.schema()
    given = given.streamReader(type(asked)([asked["_segment_seq"], asked["n"]]))
    start = stream.initialOffset()
    write([log(3)], core=1)
    end = stream.latestOffset(start, ALL)
    for each in (stream, named):
        found = [
            row
            for part in each.partitions(start, end)
            for batch in each.read(part)
            for row in batch.to_pylist()
        ]
        places = [(r["n"], r["_core"], r["_segment_seq"], r["_bundle_index"]) for r in found]
        assert sorted(places) == [(1, 0, 0, 0), (2, 0, 0, 1), (3, 1, 0, 0)]
        assert {row["_store_id"] for row in found} == {stream._query.store_id}
        assert all(row["_ingestion_time"].year > 2000 for row in found)
    (first, *_) = given.partitions(start, end)
    assert next(given.read(first)).to_pylist()[0] == {"_segment_seq": 0, "n": 1}
    assert "_core" not in stream._query.in_files.names
    write([log(4, _core=9)])
    with pytest.raises(InputError, match="new columns of slot 'logs': _core"):
        rows(stream, end, stream.latestOffset(end, ALL))
    with pytest.raises(InputError, match="'_core' would be there twice"):
        reader(store, includeMetadata="true")


def test_columns_that_a_segment_lacks_are_null(write) -> None:
    store = write([log(1, word="a")])
    stream = reader(store)
    start = stream.initialOffset()
    write([log(2)])
    end = stream.latestOffset(start, ALL)
    (partition,) = stream.partitions(start, end)
    (batch,) = stream.read(partition)
    assert batch.to_pylist() == [{"n": 1, "word": "a"}, {"n": 2, "word": None}]


def test_a_slot_without_segments_is_read_under_a_given_schema(write) -> None:
    store = write([{"metrics": pa.record_batch({"m": [1.0]})}])
    with pytest.raises(MissingError, match="no finalized segment"):
        reader(store)
    schema = StructType().add("n", LongType()).add("word", StringType())
    stream = source(store).streamReader(schema)
    start = stream.initialOffset()
    write([log(1, word="a")])
    assert rows(stream, start, stream.latestOffset(start, ALL)) == [1]


def test_data_that_went_is_told_at_planning_and_in_a_task(store) -> None:
    def remove(seq: int) -> None:
        (Path(store) / "core_0" / "segments" / f"{seq:016}.qseg").unlink()

    strict, lenient = reader(store), reader(store, failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    (planned,) = strict.partitions(start, end)
    (allowed,) = lenient.partitions(start, end)
    remove(1)
    with pytest.raises(SourceError, match="segment 1 of core 0 went") as told:
        list(strict.read(planned))
    assert "failOnDataLoss=false" in told.value.hint
    (batch,) = lenient.read(allowed)
    assert batch.column("n").to_pylist() == [0, 1, 3]
    with pytest.raises(SourceError, match="segment 1 of core 0 is gone"):
        reader(store).latestOffset(start, ALL)
    assert rows(reader(store, failOnDataLoss="false"), start, end) == [0, 1, 3]


def test_a_slot_that_is_added_to_the_store_changes_nothing(store, write) -> None:
    stream = reader(store)
    start = stream.initialOffset()
    changes = Changes(add={"more": None})
    migrate(LocalDisk(store), changes, config=Config(), clock=SystemClock())
    with quiver.open(store, worker=False) as opened:
        opened.append({"more": pa.record_batch({"x": [1]}), **log(7)})
        opened.finalize()
    assert rows(stream, start, stream.latestOffset(start, ALL)) == [0, 1, 2, 3, 7]


class Spark:
    """What Spark writes of a query, as far as acks go by it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def log(self, batch: int, offset: Any) -> None:
        self.write("metadata", '{"id":"the query"}')
        self.write(f"offsets/{batch}", "v1\n{}\n" + json.dumps(offset))

    def commit(self, batch: int) -> None:
        self.write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def subscribed(store, tmp_path) -> Any:
    ck = tmp_path / "ck"
    options = {"subscriber": "spark", "checkpointLocation": str(ck), "sink": "synced"}
    return Spark(ck), lambda **more: reader(store, **options, **more)


def test_only_what_spark_committed_is_acked_at_any_of_its_questions(store, subscribed) -> None:
    spark, make = subscribed
    stream = make(maxSegmentsPerTrigger="1")
    with quiver.open(store, core=0, worker=False) as opened:

        def left() -> int:
            opened.maintain()
            return opened.info().segments

        at, ends = stream.initialOffset(), []
        for batch in range(3):
            ends.append(stream.latestOffset(at, ReadMaxFiles(1)))
            spark.log(batch, ends[-1])
            rows(stream, at, ends[-1])
            assert left() == 3 - batch
            at = ends[-1]
            if batch < 2:
                spark.commit(batch)
                stream.commit(ends[batch])
                assert left() == 2 - batch
        stream.stop()
        spark.commit(2)
        again = make()
        again.latestOffset(at, ALL)
        assert left() == 0


def test_without_a_subscriber_nothing_is_kept_and_nothing_acked(store) -> None:
    stream = reader(store)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    stream.commit(end)
    with quiver.open(store, core=0, worker=False) as opened:
        opened.maintain()
        assert (opened.info().segments, opened.lags()) == (3, ())


def test_a_query_without_its_checkpoint_goes_on_as_its_subscriber(store, subscribed) -> None:
    spark, make = subscribed
    first = make(maxSegmentsPerTrigger="2")
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxFiles(2))
    spark.log(0, end)
    spark.commit(0)
    first.commit(end)
    second = make(startingOffsets="latest")
    begin = second.initialOffset()
    assert begin == end
    with pytest.raises(SubscriberError, match="no longer the subscriber"):
        first.latestOffset(end, ALL)


def test_a_paused_subscriber_is_given_nothing(store, subscribed) -> None:
    _, make = subscribed
    stream = make()
    start = stream.initialOffset()
    with quiver.open(store, core=0, worker=False) as opened:
        opened.maintain()
        opened.pause("spark")
        opened.maintain()
        assert stream.latestOffset(start, ALL) == start
        opened.resume("spark")
        opened.maintain()
        assert stream.latestOffset(start, ALL) != start


def test_the_checkpoint_of_another_query_is_found_out_in_a_task(subscribed) -> None:
    spark, make = subscribed
    query = make()._query
    spark.log(0, {})
    check_query(query.checkpoint, "the query")
    check_query(query.checkpoint, None)
    with pytest.raises(ConfigError, match="is of query the query, and this is another"):
        check_query(query.checkpoint, "another")


def test_dictionaries_that_do_not_fit_into_one_are_in_one_share(write) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    words = [[f"{first}{number}" for number in range(100)] for first in "ab"]
    store = write(
        *([{"logs": pa.record_batch({"n": pa.array(some).cast(kind)})}] for some in words)
    )
    stream = reader(store)
    start = stream.initialOffset()
    assert rows(stream, start, stream.latestOffset(start, ALL)) == words[0] + words[1]
