"""Which paths are queues, what their options mean, and that secrets are shown nowhere."""

from __future__ import annotations

import json
import pickle
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles
from pyspark.sql.types import LongType, StructType
from spark_queue_kit import Depot, Machine, batch_rows, log, rows, source, stream

from quiver.errors import ConfigError, DamagedEntry, InputError, MissingError, QuiverError
from quiver.ship.objects import FolderBucket
from quiver.ship.queue import NewEntry, Queue, changing
from quiver.spark import QuiverDataSource
from quiver.spark.options import Options
from quiver.spark.queue.address import is_queue
from quiver.spark.queue.entries import LOCATIONS_MAX
from quiver.spark.queue.memory import recall

ALL = ReadAllAvailable()
N = StructType().add("n", LongType())
SECRET = "hunter2hunter2"


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot(FolderBucket(str(tmp_path / "queue")))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"file://{tmp_path}/queue"


def test_a_scheme_or_a_manifest_makes_a_queue(tmp_path: Path, depot: Depot, write) -> None:
    assert is_queue("s3://bucket/path")
    assert is_queue("memory:x")
    folder = str(tmp_path / "queue")
    assert not is_queue(folder)
    depot.logs(1)
    assert is_queue(folder)
    store = write([log(1)])
    assert not is_queue(store)
    Path(store, "manifest").touch()
    assert not is_queue(store)
    assert not is_queue(str(tmp_path / "nothing"))
    assert not is_queue("")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("memory:x", "memory: is of one process"),
        ("hdfs://host/path", "no stores of the kind hdfs:"),
        ("s3://", "no name of a bucket"),
        (f"s3://user:{SECRET}@bucket/path", "may have no user"),
    ],
)
def test_a_place_that_cannot_be_is_refused(path: str, message: str) -> None:
    made = source(path, slot="logs")
    for ask in (made.schema, lambda: made.reader(N), lambda: made.streamReader(N)):
        with pytest.raises(ConfigError, match=message) as caught:
            ask()
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_store_is_not_loaded_as_a_queue(write) -> None:
    store = write([log(1)])
    with pytest.raises(ConfigError, match="is a store and no queue"):
        source(f"file://{store}", slot="logs").schema()
    with pytest.raises(ConfigError, match=r"bucket\.region: has no meaning for a store"):
        source(store, slot="logs", **{"bucket.region": "x"}).reader(N)


def test_a_queue_is_not_written(place: str) -> None:
    for write in (source(place).writer, source(place).streamWriter):
        with pytest.raises(ConfigError, match="quiver ship DIR URL"):
            write(N, overwrite=False)


@pytest.mark.parametrize(
    "name", ["mergeSchema", "pushdown", "startingSegment", "endingSegment", "subscriber", "consume"]
)
def test_a_batch_refuses_options_without_meaning(depot: Depot, place: str, name: str) -> None:
    values = {"pushdown": "once", "subscriber": "me", "startingSegment": "1", "endingSegment": "1"}
    depot.logs(1)
    with pytest.raises(ConfigError, match=f"{name}: has no meaning for reading a batch from a"):
        batch_rows(place, slot="logs", **{name: values.get(name, "true")})


@pytest.mark.parametrize("name", ["startingSegment", "subscriber", "endingTime", "createIfMissing"])
def test_a_stream_refuses_options_without_meaning(depot: Depot, place: str, name: str) -> None:
    values = {"endingTime": "1", "subscriber": "me", "startingSegment": "1"}
    depot.logs(1)
    with pytest.raises(ConfigError, match=f"{name}: has no meaning for reading a stream from"):
        stream(place, slot="logs", **{name: values.get(name, "true")})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": "a"}, "columns: has no meaning without the option slot"),
        ({"includeMetadata": "true"}, "includeMetadata: has no meaning without"),
        ({"slot": "logs", "startingOffsets": "latest", "startingTime": "1"}, "is given too"),
        ({"slot": "logs", "consume": "false", "sink": "/x"}, "sink: has no meaning with consume"),
        ({"slot": "logs", "pollInterval": "soon"}, "pollInterval"),
        ({"slot": "logs", "bucket.endpoint": "x"}, "no meaning for"),
    ],
)
def test_options_that_do_not_go_together_are_refused(place, options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        stream(place, N, **options)


def test_secrets_are_in_no_text(monkeypatch) -> None:
    monkeypatch.setattr(changing, "_FAULTS_MAX", 0)
    options = {
        "path": "s3://bucket/path",
        "slot": "logs",
        "Bucket.Access_Key_Id": "someone",
        "bucket.secret_access_key": SECRET,
        "bucket.endpoint": "http://127.0.0.1:9",
        "bucket.allow_http": "true",
        "bucket.max_retries": "0",
        "bucket.timeout": "1s",
    }
    given = Options(options)
    assert given.bucket["access_key_id"] == "someone"
    assert repr(given).startswith("Options(path, slot, bucket.access_key_id")
    assert SECRET not in repr(given)
    made = pickle.loads(pickle.dumps(QuiverDataSource(options)))
    with pytest.raises(QuiverError) as caught:
        made.schema()
    text = "".join(traceback.format_exception(caught.value))
    assert "s3://bucket/path" in text
    assert SECRET not in text
    wrong = {**options, "bucket.secret_key": SECRET}
    with pytest.raises(ConfigError, match="S3 has no option 'secret_key'") as refused:
        QuiverDataSource(wrong).schema()
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_limits_are_told_to_spark(depot: Depot, place: str) -> None:
    depot.logs(1)
    depot.logs(2)
    assert stream(place, N, slot="logs").getDefaultReadLimit() == ALL
    reader = stream(place, N, slot="logs", maxSegmentsPerTrigger="1")
    assert reader.getDefaultReadLimit() == ReadMaxFiles(1)
    start = reader.initialOffset()
    assert rows(reader, start, reader.latestOffset(start, ReadMaxFiles(1))) == [1]
    assert rows(reader, start, reader.latestOffset(start, ALL)) == [1, 2]
    some = stream(place, N, slot="logs", maxBytesPerTrigger="1kB")
    assert some.getDefaultReadLimit() == ReadMaxBytes(1000)


def test_new_columns_end_a_stream_or_are_left_out(depot: Depot, place: str) -> None:
    depot.logs(1)
    strict = stream(place, slot="logs")
    lax = stream(place, slot="logs", schemaChange="ignore")
    named = stream(place, slot="logs", columns="n")
    start = strict.initialOffset()
    depot.logs(2, s="x")
    end = strict.latestOffset(start, ALL)
    with pytest.raises(InputError, match="new columns of slot 'logs': s"):
        rows(strict, start, end)
    for reader in (lax, named):
        begin = reader.initialOffset()
        assert rows(reader, begin, reader.latestOffset(begin, ALL)) == [1, 2]
    again = stream(place, slot="logs")
    assert rows(again, start, end, "s") == [None, "x"]
    depot.put(Machine().segment({"logs": pa.record_batch({"n": ["text"]})}))
    later = again.latestOffset(end, ALL)
    with pytest.raises(InputError, match="'n' of slot 'logs' as string"):
        rows(again, end, later)


def test_where_a_row_is_from_is_told_by_a_stream_too(depot: Depot, place: str) -> None:
    depot.logs(1)
    reader = stream(place, slot="logs", includeMetadata="true")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end, "_store_id") == [depot.machine.store_id]
    assert rows(reader, start, end, "_segment_seq") == [0]
    assert rows(reader, start, end, "_row_index") == [0]


def test_records_of_anybody_come_as_a_stream(depot: Depot, place: str) -> None:
    depot.put((b"about", b"one"), (b"", b"two"))
    reader = stream(place)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end, "value") == [b"one", b"two"]
    reader.commit(end)
    assert depot.sequences == []


def test_records_of_a_batch_that_is_there_twice_are_read_once(depot: Depot, place: str) -> None:
    def twice() -> None:
        (*_, entry) = depot.queue.read().entries()
        Queue(depot.bucket).append(NewEntry(entry.location, entry.items, entry.batch))

    depot.put((b"", b"one"))
    twice()
    assert batch_rows(place, "value") == [b"one"]
    reader = stream(place)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end, "value") == [b"one"]
    twice()
    later = stream(place)
    more = later.latestOffset(end, ALL)
    assert (more["sequence"], rows(later, end, more, "value")) == (3, [])
    for number in range(LOCATIONS_MAX + 1):
        depot.put((b"", str(number).encode()))
    last = later.latestOffset(more, ALL)
    assert len(rows(later, more, last, "value")) == LOCATIONS_MAX + 1
    assert len(last["seen"]) == LOCATIONS_MAX


def test_a_query_knows_its_columns_when_all_is_acked(tmp_path, depot: Depot, place: str) -> None:
    checkpoint = tmp_path / "checkpoint"
    places = {"checkpointLocation": str(checkpoint), "sink": "synced"}
    depot.logs(1, s="x")
    reader = stream(place, slot="logs", **places)
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)  # Spark has made no folder yet.
    assert (reader._query.checkpoint, reader._query.sink) == (str(checkpoint), "synced")
    checkpoint.mkdir()
    end = reader.latestOffset(start, ALL)
    queue = depot.queue.read()
    depot.queue.dequeue(0, epoch=queue.epoch)
    with pytest.raises(MissingError):
        source(place, slot="logs").schema()
    again = source(place, slot="logs", **places)
    assert again.schema().names == ["n", "s"]
    assert source(place, slot="logs", columns="s", **places).schema().names == ["s"]
    with pytest.raises(InputError, match="no column 'z'"):
        source(place, slot="logs", columns="z", **places).schema()
    depot.logs(2, t=True)
    assert source(place, slot="logs", **places).schema().names == ["n", "s", "t"]
    later = stream(place, slot="logs", **places)
    assert rows(later, end, later.latestOffset(end, ALL), "t") == [True]
    depot.put(Machine().segment({"logs": pa.record_batch({"s": [1]})}))
    with pytest.raises(InputError, match="read before it was started again"):
        source(place, slot="logs", **places).schema()
    (note,) = (checkpoint / "quiver").glob("*.queue")
    note.write_text("{}")
    with pytest.raises(DamagedEntry, match="cannot be read"):
        recall(str(checkpoint), queue=place.removeprefix("file://"), slot="logs")


def test_a_checkpoint_elsewhere_is_not_looked_for_here(depot: Depot, place: str) -> None:
    depot.logs(1)
    reader = stream(
        place, N, slot="logs", checkpointLocation="s3a://lake/checkpoint", sink="synced"
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert rows(reader, start, end) == [1]
    reader.commit(end)
    assert depot.sequences == []


def test_offsets_of_another_make_are_refused(depot: Depot, place: str) -> None:
    depot.logs(1)
    reader = stream(place, N, slot="logs")
    start: dict[str, Any] = reader.initialOffset()
    for change in (
        {"version": 2},
        {"sequence": -1},
        {"sequence": True},
        {"seen": {"x": 1}},
        {"seen": None},
        {"since": "now"},
        {"connector": "quiver"},
        {"more": 1},
        {"slot": "metrics"},
    ):
        with pytest.raises(QuiverError, match=r"offset|checkpoint"):
            reader.latestOffset({**start, **change}, ALL)
    text = json.loads(json.dumps(start))
    assert reader.latestOffset(text, ALL) != start
