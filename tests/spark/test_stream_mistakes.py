"""What a streaming query is told wrongly, or finds changed, is said and costs no row."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from held_files import held
from pyspark.sql.streaming.datasource import ReadAllAvailable

import quiver
from quiver.checkpoint import CheckpointFolder, read_notes
from quiver.errors import ConfigError, MissingError
from quiver.spark import QuiverDataSource

ALL = ReadAllAvailable()


def log(*numbers: int, **more: Any) -> dict[str, pa.RecordBatch]:
    columns = {name: [value] * len(numbers) for name, value in more.items()}
    return {"logs": pa.record_batch({"n": list(numbers), **columns})}


def reader(store: str, **options: str) -> Any:
    source = QuiverDataSource({"path": store, "slot": "logs", **options})
    return source.streamReader(source.schema())


def rows(stream: Any, start: Any, end: Any) -> list[Any]:
    found = []
    for partition in stream.partitions(start, end):
        for batch in stream.read(partition):
            found += batch.column("n").to_pylist()
    return found


@pytest.fixture
def store(write) -> str:
    return write([log(0, 1)], [log(2)], [log(3)])


@pytest.fixture
def checkpoint(tmp_path) -> Any:
    return Checkpoint(tmp_path / "ck")


class Checkpoint:
    """What Spark writes of a query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.options = {
            "subscriber": "spark",
            "checkpointLocation": str(folder),
            "sink": "synced",
        }

    def put(self, batch: int, *offsets: Any, commit: bool = True) -> None:
        lines = "\n".join(map(json.dumps, offsets))
        texts = {"metadata": '{"id":"it"}', f"offsets/{batch}": "v1\n{}\n" + lines}
        if commit:
            texts[f"commits/{batch}"] = 'v1\n{"nextBatchWatermarkMs":0}'
        for name, text in texts.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@pytest.mark.parametrize("loss", ["true", "false"])
def test_an_executor_that_does_not_see_the_store_says_so_and_passes_over_nothing(
    store, tmp_path, loss
) -> None:
    stream = reader(store, failOnDataLoss=loss)
    start = stream.initialOffset()
    (share,) = stream.partitions(start, stream.latestOffset(start, ALL))
    kept = shutil.move(store, tmp_path / "elsewhere")
    host = socket.gethostname()
    with pytest.raises(MissingError, match=f"cannot be seen from {host} .*object storage"):
        list(stream.read(share))
    Path(store).mkdir()  # Where something is to be mounted.
    with pytest.raises(MissingError, match=f"on {host} is not the store .*object storage"):
        list(stream.read(share))
    with quiver.open(store, slots=["logs"], core=0) as other:
        for number in range(3):
            other.append(log(100 + number))
            other.finalize()
    with pytest.raises(MissingError, match=f"on {host} is not the store"):
        list(stream.read(share))
    assert Path(kept).exists()


def test_one_name_in_two_stores_is_two_subscribers(store, tmp_path, checkpoint) -> None:
    other = str(tmp_path / "other")
    with quiver.open(other, slots=["logs"], core=0) as opened:
        opened.append(log(7, word="a"))
        opened.finalize()
    checkpoint.folder.mkdir()
    streams = [reader(path, **checkpoint.options) for path in (store, other)]
    at = [stream.initialOffset() for stream in streams]
    ends = [stream.latestOffset(start, ALL) for stream, start in zip(streams, at, strict=True)]
    checkpoint.put(0, *ends)
    assert [s.latestOffset(end, ALL) for s, end in zip(streams, ends, strict=True)] == ends
    notes = list(read_notes(CheckpointFolder(str(checkpoint.folder))))
    assert {note.store for note in notes} == {store, other}
    assert reader(store, **checkpoint.options)._query.stored.names == ["n"]


def test_a_query_that_becomes_a_subscriber_keeps_what_its_checkpoint_has_not_read(
    store, checkpoint
) -> None:
    alone = reader(store, maxSegmentsPerTrigger="1")
    begin = alone.initialOffset()
    end = alone.latestOffset(begin, alone.getDefaultReadLimit())
    checkpoint.put(0, end)
    stream = reader(store, startingOffsets="latest", **checkpoint.options)
    stream.latestOffset(end, ALL)
    with quiver.open(store, core=0, worker=False) as opened:
        opened.maintain()
        assert opened.info().segments == 2
    assert rows(stream, end, stream.latestOffset(end, ALL)) == [2, 3]


def test_a_checkpoint_in_which_spark_commits_nothing_is_not_the_querys(store, checkpoint) -> None:
    stream = reader(store, **checkpoint.options)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    with pytest.raises(ConfigError, match="has no batch, and Spark has committed one"):
        stream.commit(end)
    checkpoint.put(0, end)
    stream.commit(end)


def test_a_core_that_is_named_as_start_has_to_be_there(store) -> None:
    with pytest.raises(ConfigError, match="core_1: the store has no such core") as told:
        reader(store, startingSegment="core_0:2,core_1:1").initialOffset()
    assert "core_0" in told.value.hint
    assert reader(store, startingSegment="core_0:2").initialOffset()["splits"]


def test_a_query_that_cannot_begin_holds_nothing_open(store, checkpoint) -> None:
    checkpoint.put(0, {})
    stream = reader(store, startingSegment="core_0:1", **checkpoint.options)
    before = held(Path(store))
    with pytest.raises(ConfigError, match="begins with one number"):
        stream.initialOffset()
    assert not held(Path(store)) - before


def test_a_subscriber_does_not_begin_where_a_core_is_not_yet(store, checkpoint) -> None:
    with pytest.raises(ConfigError, match="core_0 is at segment 3 only"):  # 3 to 8 would go.
        reader(store, startingSegment="9", **checkpoint.options).initialOffset()
    stream = reader(store, startingSegment="3", **checkpoint.options)
    start = stream.initialOffset()
    with quiver.open(store, core=0, worker=False) as opened:
        opened.append(log(4))
        opened.finalize()
        opened.maintain()
    end = stream.latestOffset(start, ALL)
    assert rows(stream, start, end) == [4]
    stream.stop()
    checkpoint.put(0, end)  # From here on its start is of no matter.
    reader(store, startingSegment="9", **checkpoint.options).latestOffset(end, ALL)
