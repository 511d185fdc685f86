"""A stream of a collection's changes as Spark asks for it, without a JVM."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles
from pyspark.sql.types import LongType, StructType
from view_kit import Board, between, stream, total

from quiver.errors import ConfigError, InputError, SourceError, VersionError
from quiver.ship.objects import FolderBucket
from quiver.spark.view.offsets import Offset, decode_offset, encode_offset

A, B, C = ("a", 1), ("b", 2), ("c", 3)
ALL = ReadAllAvailable()
STEPS_MAX = 20


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "collection")


@pytest.fixture
def board(place: str) -> Board:
    board = Board(FolderBucket(place))
    board.put({1: A, 2: B})
    board.put({1: None, 3: C})
    return board


def steps(reader: Any, start: Any, limit: Any = ALL) -> list[tuple[Any, Any]]:
    """Go from batch to batch until there is nothing new."""
    found: list[tuple[Any, Any]] = []
    for _ in range(STEPS_MAX):
        end = reader.latestOffset(start, limit)
        if json.dumps(end) == json.dumps(start):
            return found
        found.append((start, end))
        start = end
    raise AssertionError("there is no end of it")


def test_a_query_begins_with_the_state_and_goes_on_with_changes(board: Board, place: str) -> None:
    reader = stream(place)
    start = reader.initialOffset()
    assert reader.initialOffset() == start
    assert json.dumps(start) == json.dumps(start, sort_keys=True)
    assert {name: start[name] for name in ("epoch", "first", "state")} == {
        "epoch": 2,
        "first": 2,
        "state": True,
    }
    ((_, end),) = steps(reader, start)
    assert between(reader, start, end) == [(2, "b", 2, 2, 1), (3, "c", 3, 2, 1)]
    assert reader.latestOffset(end, ALL) == end
    board.put({2: None, 4: A})
    ((_, more),) = steps(reader, end)
    assert between(reader, end, more) == [(2, "b", 2, 3, -1), (4, "a", 1, 3, 1)]
    assert between(reader, more, more) == []


def test_the_first_batch_is_the_same_when_it_is_done_again_later(board: Board, place: str) -> None:
    reader = stream(place)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    before = between(reader, reader.initialOffset(), end)
    board.put({2: None, 4: A})
    board.fold()
    again = stream(place)
    start = again.initialOffset()
    assert start["epoch"] == 3
    assert between(again, start, end) == before
    rows = before + between(again, end, again.latestOffset(end, ALL))
    assert total(rows) == board.states[3]


def test_all_batches_of_a_query_add_up_to_the_state(board: Board, place: str) -> None:
    rows: list[Any] = []
    offset = stream(place).initialOffset()
    for epoch in range(3, 9):
        board.put({epoch: A, epoch - 1: ("x", epoch), 2: None if epoch % 2 else B})
        if epoch == 5:
            board.fold(4)
        if epoch % 3 == 0:
            reader = stream(place)  # The query was started again.
            end = reader.latestOffset(offset, ALL)
            rows += between(reader, offset, end)
            offset = end
    rows += between(reader, offset, reader.latestOffset(offset, ALL))
    for epoch in range(2, 9):
        assert total(rows, through=epoch) == board.states[epoch]


@pytest.mark.parametrize(
    ("options", "first", "state"),
    [
        ({"startingState": "false"}, 3, False),
        ({"fromEpoch": "1"}, 1, False),
        ({"fromEpoch": "0"}, 1, False),
        ({"fromEpoch": "2"}, 2, False),
        ({"fromEpoch": "3"}, 3, False),
        ({"fromEpoch": "1", "startingState": "true"}, 1, True),
        ({"fromEpoch": "1970-01-01T00:00:02Z"}, 2, False),
        ({"fromEpoch": "2100-01-01"}, 3, False),
    ],
)
def test_where_a_query_begins_is_an_option(board, place, options, first, state) -> None:
    reader = stream(place, **options)
    start = reader.initialOffset()
    assert (start["epoch"], start["first"], start["state"]) == (first, first, state)
    board.put({5: B})
    rows = [row for begin, end in steps(reader, start) for row in between(reader, begin, end)]
    expected = {time for *_, time, _ in rows}
    assert expected == set(range(first, 4))
    if first == 1:
        assert total(rows) == board.states[3]


def test_an_epoch_that_is_not_there_yet_or_not_any_more_is_no_place_to_begin(board, place) -> None:
    with pytest.raises(ConfigError, match=r"has no epoch 4 yet .the last one is 2"):
        stream(place, fromEpoch="4").initialOffset()
    board.forget(2)
    reader = stream(place, fromEpoch="2")
    start = reader.initialOffset()
    with pytest.raises(SourceError, match="has forgotten epoch 2"):
        reader.partitions(start, reader.latestOffset(start, ALL))


@pytest.mark.parametrize(
    ("options", "kind", "ends"),
    [
        ({}, ReadAllAvailable, [6]),
        ({"maxEpochsPerTrigger": "1"}, ReadMaxFiles, [3, 4, 5, 6]),
        ({"maxEpochsPerTrigger": "3"}, ReadMaxFiles, [5, 6]),
        ({"maxBytesPerTrigger": "1"}, ReadMaxBytes, [3, 4, 5, 6]),
        ({"maxBytesPerTrigger": "1GiB"}, ReadMaxBytes, [6]),
    ],
)
def test_limits_hold_and_one_epoch_at_least_is_read(board, place, options, kind, ends) -> None:
    reader = stream(place, **options)
    start = reader.initialOffset()
    for number in range(3, 6):
        board.put({number: A})
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, kind)
    assert [end["epoch"] for _, end in steps(reader, start, limit)] == ends
    assert [end["epoch"] for _, end in steps(reader, start)] == [6]


def test_available_now_ends_with_what_was_there(board: Board, place: str) -> None:
    reader = stream(place, maxEpochsPerTrigger="1")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    board.put({7: A})
    assert [end["epoch"] for _, end in steps(reader, start, ReadMaxFiles(1))] == [3]


def test_the_manifest_is_looked_at_only_so_often(board: Board, place: str) -> None:
    reader = stream(place, pollInterval="1h")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    board.put({7: A})
    assert reader.latestOffset(end, ALL) == end
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, ALL)["epoch"] == 4


def test_how_far_behind_a_query_is(board: Board, place: str) -> None:
    reader = stream(place)
    reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.reportLatestOffset() == {
        "behind": {"bytes": 0, "epochs": 0},
        "collection": place,
        "epoch": 3,
    }
    board.put({7: A})
    behind = reader.reportLatestOffset()["behind"]
    assert behind["epochs"] == 1
    assert behind["bytes"] == sum(ref.byte_count for ref in board.snapshot.files if ref.last == 3)


def test_epochs_that_are_forgotten_end_the_query_or_are_passed_over(board, place, caplog) -> None:
    start = stream(place, fromEpoch="1").initialOffset()
    first = stream(place).initialOffset()
    for number in range(3, 6):
        board.put({number: B, 1: (f"a{number}", number)})
    board.forget(4)
    reader = stream(place)
    for begin in (start, first):
        with pytest.raises(SourceError, match=r"has forgotten epoch .*failOnDataLoss=false"):
            reader.partitions(begin, reader.latestOffset(begin, ALL))
    reader = stream(place, failOnDataLoss="false")
    rows = between(reader, start, reader.latestOffset(start, ALL))
    assert {time for *_, time, _ in rows} == {5}
    rows = between(reader, first, reader.latestOffset(first, ALL))
    assert total(rows) == board.states[5]
    assert [record.getMessage() for record in caplog.records] == ["spark.changes_lost"] * 2
    assert between(reader, start, {**start, "epoch": 3}) == []


def test_errors_end_a_query_unless_they_are_left_out(board: Board, place: str) -> None:
    reader = stream(place)
    start = reader.initialOffset()
    board.put({2: "no number"})
    end = reader.latestOffset(start, ALL)
    with pytest.raises(InputError, match=r"has one error row .\"id\": 2.: 'no number'"):
        reader.partitions(start, end)
    rows = between(stream(place, errors="skip"), start, end)
    assert total(rows) == {3: C}
    assert between(stream(place, errors="only"), start, end) == [(2, "no number", 3, 1)]


def test_columns_that_come_later_end_a_query_unless_it_ignores_them(board, place) -> None:
    asked = StructType().add("size", LongType()).add("_diff", LongType())
    fixed = (stream(place, columns="id,_diff"), stream(place, asked))
    reader, ignoring = stream(place), stream(place, schemaChange="ignore")
    start = reader.initialOffset()
    more = pa.schema([("name", pa.string()), ("size", pa.uint32()), ("more", pa.bool_())])
    board.put({5: ("e", 9, True)}, value=more)
    end = reader.latestOffset(start, ALL)
    with pytest.raises(InputError, match=r"new columns: more .*start it again"):
        reader.partitions(start, end)
    assert (5, "e", 9, 3, 1) in between(ignoring, start, end)
    assert (5, 1) in between(fixed[0], start, end)
    assert (9, 1) in between(fixed[1], start, end)
    assert (5, "e", 9, True, 3, 1) in between(stream(place), start, end)
    wider = pa.schema([("name", pa.string()), ("size", pa.int64()), ("more", pa.bool_())])
    board.put({5: ("e", 1 << 40, True)}, value=wider)
    for one in (ignoring, fixed[1]):
        with pytest.raises(InputError, match="has column 'size' as int64 by now"):
            one.partitions(start, end)


def test_another_collection_under_the_same_name_is_seen(board, place, tmp_path) -> None:
    reader = stream(place)
    start = reader.initialOffset()
    other = Board(FolderBucket(str(tmp_path / "other")))
    Path(place, "manifest").write_bytes(Path(tmp_path, "other", "manifest").read_bytes())
    with pytest.raises(InputError, match="is another one than when the query was made"):
        reader.latestOffset(start, ALL)
    with pytest.raises(InputError, match=r"the checkpoint is of the collection .* begin anew"):
        stream(place).latestOffset(start, ALL)
    assert other.snapshot.upper == 1


def test_a_collection_that_went_back_in_time_is_seen(board: Board, place: str) -> None:
    manifest = Path(place, "manifest")
    before = manifest.read_bytes()
    board.put({7: A})
    reader = stream(place)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    manifest.write_bytes(before)
    for ask in (
        lambda: reader.latestOffset(end, ALL),
        lambda: reader.partitions(start, end),
    ):
        with pytest.raises(SourceError, match=r"the checkpoint is at epoch 4 .* there is 3"):
            ask()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"version": 2}, VersionError, "offsets of version 2"),
        ({"version": "x"}, InputError, "this is no offset"),
        ({"connector": "quiver"}, InputError, "this is no offset"),
        ({"epoch": -1}, InputError, "this is no offset"),
        ({"epoch": True}, InputError, "this is no offset"),
        ({"first": 9}, InputError, "this is no offset"),
        ({"state": 1}, InputError, "this is no offset"),
        ({"more": 1}, InputError, "this is no offset"),
        ({"collection": "other"}, InputError, "is of the collection 'other'"),
    ],
)
def test_what_is_no_offset_is_refused(change, error, message) -> None:
    good = encode_offset(Offset(5, 3, state=True), collection="c")
    assert decode_offset(good, collection="c", place="p") == Offset(5, 3, state=True)
    with pytest.raises(error, match=message):
        decode_offset({**good, **change}, collection="c", place="p")


def test_a_reader_goes_to_tasks_without_what_decides(board: Board, place: str) -> None:
    reader = stream(place)
    start = reader.initialOffset()
    (part, *_) = reader.partitions(start, reader.latestOffset(start, ALL))
    copy = pickle.loads(pickle.dumps(reader))
    assert copy._driver is None
    assert sum(rows.num_rows for rows in copy.read(part)) > 0
    reader.commit(start)
    reader.stop()
    assert reader._driver is None
