"""What a view shows of a collection, without a JVM: state, history, changes, errors, columns."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, IntegerType, LongType, StringType, StructType
from view_kit import STEP_MS, Board, batch, rows_of, source, total

from quiver.errors import ConfigError, InputError, MissingError, SourceError
from quiver.ship.objects import FolderBucket

A, B, C = ("a", 1), ("b", 2), ("c", 3)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "collection")


@pytest.fixture
def board(place: str) -> Board:
    return Board(FolderBucket(place))


@pytest.fixture
def storied(board: Board) -> Board:
    """Four epochs, for who adds to them."""
    return told(board)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """The same, only read."""
    return told(Board(FolderBucket(str(tmp_path_factory.mktemp("kept")))))


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """The same with bases as of the second, only read."""
    board = told(Board(FolderBucket(str(tmp_path_factory.mktemp("folded")))))
    board.fold(2)
    return board


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """The same with what was before the second forgotten, only read."""
    board = told(Board(FolderBucket(str(tmp_path_factory.mktemp("old")))))
    board.forget(2)
    return board


def told(board: Board) -> Board:
    """Append keys that come, change, go and come again."""
    board.put({1: A, 2: B, 3: C})
    board.put({1: ("a2", 4), 2: None})
    board.put({2: ("b2", 5), 4: A})
    board.put({1: None, 3: C})
    return board


def of(state: dict) -> list:
    return sorted(((key, *value) for key, value in state.items()), key=repr)


def test_a_view_is_the_state_of_now(kept: Board) -> None:
    place = kept.store.place
    assert batch(place) == of(kept.states[4]) == [(2, "b2", 5), (3, "c", 3), (4, "a", 1)]
    assert batch(f"file://{place}") == batch(place)
    names = [(field.name, type(field.dataType)) for field in source(place).schema()]
    assert names == [("id", LongType), ("name", StringType), ("size", LongType)]


def test_a_collection_without_epochs_is_empty(board: Board, place: str) -> None:
    assert batch(place) == []
    assert batch(place, changes="true") == []
    assert source(place).schema().names == ["id", "name", "size"]
    board.put({})
    assert batch(place) == []
    assert batch(place, asOf="0") == []


@pytest.mark.parametrize("name", ["kept", "folded"])
@pytest.mark.parametrize("epoch", range(5))
def test_each_epoch_that_is_kept_can_be_read(
    kept: Board, folded: Board, epoch: int, name: str
) -> None:
    storied = {"kept": kept, "folded": folded}[name]
    place = storied.store.place
    assert batch(place, asOf=str(epoch)) == of(storied.states[epoch])
    when = datetime.fromtimestamp(epoch * STEP_MS / 1000, UTC)
    for text in (when.isoformat(), when.replace(tzinfo=None).isoformat()):
        assert batch(place, asOf=text) == of(storied.states[epoch])
    later = when.replace(microsecond=999_000).isoformat()
    assert batch(place, asOf=later) == of(storied.states[epoch])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"asOf": "5"}, InputError, "cannot be read as of epoch 5 .it can from 2 to 4"),
        ({"asOf": "1"}, InputError, "cannot be read as of epoch 1 .it can from 2 to 4"),
        ({"asOf": "1970-01-01T00:00:01"}, InputError, "as of a time before"),
        ({"asOf": "soon"}, ConfigError, "asOf: 'soon' is no epoch and no time"),
        ({"asOf": "-1"}, ConfigError, "asOf: '-1' is no epoch"),
        ({"changes": "true", "fromEpoch": "2"}, SourceError, "has forgotten epoch 2: it can be"),
        ({"changes": "true", "fromEpoch": "6"}, ConfigError, "has no epoch 6 yet"),
        ({"changes": "true", "fromEpoch": "5", "throughEpoch": "3"}, ConfigError, "comes behind"),
        ({"changes": "true", "throughEpoch": "5"}, InputError, "cannot be read as of epoch 5"),
        ({"changes": "true", "fromEpoch": "1970-01-01"}, InputError, "before"),
        (
            {"changes": "true", "fromEpoch": "1", "startingState": "true"},
            SourceError,
            "has forgotten epoch 1",
        ),
    ],
)
def test_times_that_cannot_be_had_are_refused(old, options, error, message) -> None:
    with pytest.raises(error, match=message):
        batch(old.store.place, **options)


def test_changes_add_up_to_every_state(kept: Board, folded: Board, old: Board) -> None:
    for board, first in ((kept, 0), (folded, 0), (old, 2)):
        rows = batch(board.store.place, changes="true")
        assert min(time for *_, time, _ in rows) == max(1, first)
        for epoch in range(first, 5):
            assert total(rows, through=epoch) == board.states[epoch]
    names = source(kept.store.place, changes="true").schema().names
    assert names == ["id", "name", "size", "_time", "_diff"]


def test_a_range_of_changes_is_what_happened_in_it(kept: Board) -> None:
    second = [(1, "a", 1, 2, -1), (1, "a2", 4, 2, 1), (2, "b", 2, 2, -1)]
    third = [(2, "b2", 5, 3, 1), (4, "a", 1, 3, 1)]
    last = [(1, "a2", 4, 4, -1)]

    def changes(**options: str) -> list:
        return batch(kept.store.place, changes="true", **options)

    assert changes(fromEpoch="2", throughEpoch="2") == second
    assert changes(fromEpoch="2", throughEpoch="3") == sorted(second + third, key=repr)
    assert changes(fromEpoch="3") == sorted(third + last, key=repr)
    assert changes(fromEpoch="5") == []
    assert changes(fromEpoch="3", throughEpoch="2") == []
    assert changes(fromEpoch="1970-01-01T00:00:02Z", throughEpoch="1970-01-01T00:00:03.5") == (
        sorted(second + third, key=repr)
    )
    assert changes(fromEpoch="1969-01-01", throughEpoch="1") == changes(throughEpoch="1")
    assert changes(startingState="false") == changes(fromEpoch="1") == changes(fromEpoch="0")
    state = [(key, *value, 3, 1) for key, value in kept.states[3].items()]
    assert changes(fromEpoch="3", startingState="true") == sorted(state + last, key=repr)


def test_a_load_sees_one_epoch_however_often_it_is_read(storied: Board, place: str) -> None:
    made = source(place)
    before = of(storied.states[4])
    assert rows_of(made) == before
    storied.put({9: C, 2: None})
    storied.fold()
    assert rows_of(made) == rows_of(pickle.loads(pickle.dumps(made))) == before
    assert batch(place) == of(storied.states[5])


def test_a_task_is_told_only_what_it_reads(kept: Board) -> None:
    made = source(kept.store.place)
    reader = made.reader(made.schema())
    names = [ref.name.encode() for ref in kept.snapshot.files]
    assert not [name for name in names if name in pickle.dumps(reader)]
    (part,) = reader.partitions()
    assert all(name in pickle.dumps(part) for name in names)


def test_a_snapshot_whose_files_are_gone_has_expired(storied: Board, place: str) -> None:
    made = source(place, changes="true")
    storied.forget(4)
    with pytest.raises(
        MissingError, match=r"the snapshot has expired: .* .load the DataFrame again"
    ):
        rows_of(made)


def test_errors_are_told_left_out_or_shown(storied: Board, place: str) -> None:
    storied.put({2: "size is no number", 7: "key is odd"})
    with pytest.raises(InputError, match=r"has 2 error rows, such as .\"id\": ") as caught:
        batch(place)
    assert "errors=only shows them" in str(caught.value)
    assert batch(place, asOf="4") == of(storied.states[4])
    good = {key: value for key, value in storied.states[5].items() if not isinstance(value, str)}
    assert batch(place, errors="skip") == of(good)
    assert batch(place, errors="only") == [(2, "size is no number"), (7, "key is odd")]
    assert source(place, errors="only").schema().names == ["id", "_error"]
    changed = batch(place, errors="only", changes="true")
    assert changed == [(2, "size is no number", 5, 1), (7, "key is odd", 5, 1)]
    storied.put({2: B, 7: None})
    assert batch(place) == of(storied.states[6])
    assert batch(place, errors="only") == []
    with pytest.raises(InputError, match="error rows, such as"):
        batch(place, changes="true")
    assert total(batch(place, changes="true", errors="skip")) == storied.states[6]


def test_columns_are_chosen_by_option_or_by_schema(kept: Board) -> None:
    place = kept.store.place
    assert batch(place, columns="size,id") == sorted(
        ((size, key) for key, (_, size) in kept.states[4].items()), key=repr
    )
    asked = StructType().add("name", StringType())
    assert batch(place, asked) == [("a",), ("b2",), ("c",)]
    assert batch(place, columns="_diff,id", changes="true", fromEpoch="4") == [(-1, 1)]
    with pytest.raises(InputError, match=r"has no column .nope. .its columns are: id, name, size"):
        batch(place, columns="nope")
    with pytest.raises(InputError, match="columns: 'id' is there twice"):
        batch(place, columns="id,id")
    with pytest.raises(InputError, match="asks for column 'size' as int"):
        batch(place, StructType().add("size", IntegerType()))


def test_a_column_of_key_and_value_is_for_the_user_to_choose(place: str) -> None:
    value = pa.schema([("id", pa.string()), ("_time", pa.uint64()), ("x", pa.int64())])
    board = Board(FolderBucket(place), value=value)
    board.put({1: ("one", 7, 3)})
    with pytest.raises(InputError, match="'id' is there twice: in the key, and in the value"):
        batch(place)
    assert batch(place, columns="x,_time") == [(3, 7)]
    with pytest.raises(InputError, match="'id' is there twice: in the key"):
        batch(place, columns="id")
    with pytest.raises(InputError, match="'_time' would be there twice: a view adds"):
        batch(place, columns="_time", changes="true")
    key, inner = {"id": 1}, {"id": "one", "_time": 7, "x": 3}
    assert batch(place, layout="structs") == [(key, inner)]
    assert batch(place, layout="structs", changes="true") == [(key, inner, 1, 1)]
    assert batch(place, layout="structs", columns="value") == [(inner,)]
    schema = source(place, layout="structs").schema()
    assert schema["value"].dataType["_time"].dataType == DecimalType(20, 0)


def test_values_are_those_of_spark(place: str) -> None:
    value = pa.schema(
        [("at", pa.timestamp("ns", "Europe/Berlin")), ("words", pa.list_(pa.large_string()))]
    )
    key = pa.schema([("id", pa.uint16()), ("day", pa.date32())])
    board = Board(FolderBucket(place), key=key, value=value)
    board.put({(1, 2): (1_001, ["x", None]), (2, None): "key is null in column 'day'"})
    ((number, day, at, words),) = batch(place, errors="skip")
    assert (number, day.isoformat(), words) == (1, "1970-01-03", ["x", None])
    assert at == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    ((_, _, at, _),) = batch(place, errors="skip", timestampUnit="int64")
    assert at == 1_001
    assert batch(place, errors="only") == [(2, None, "key is null in column 'day'")]


def test_a_value_that_has_grown_shows_nulls_where_it_was_not(storied: Board, place: str) -> None:
    wider = pa.schema([("name", pa.string()), ("size", pa.int64()), ("more", pa.bool_())])
    made = source(place)
    old = dict(storied.states[4])
    storied.put({5: ("e", 1 << 40, True)}, value=wider)
    assert batch(place) == sorted(
        [*((key, *value, None) for key, value in old.items()), (5, "e", 1 << 40, True)], key=repr
    )
    assert rows_of(made) == of(old)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"asOf": "1", "changes": "true"}, "asOf: has no meaning for reading changes of a coll"),
        ({"fromEpoch": "1"}, "fromEpoch: has no meaning for reading the state of a collection"),
        ({"maxEpochsPerTrigger": "1"}, "it is for reading a stream of changes"),
        ({"slot": "x"}, "format quiver-view has no option 'slot'"),
        ({"as_of": "1"}, "did you mean asOf"),
        ({"errors": "hide"}, "errors: 'hide' is none of fail, skip, only"),
        ({"bucket.region": "x"}, "'region' has no meaning for"),
    ],
)
def test_options_without_meaning_are_refused(kept, options, message) -> None:
    with pytest.raises(ConfigError, match=message):
        batch(kept.store.place, **options)


def test_what_is_no_collection_is_said(tmp_path: Path, write) -> None:
    with pytest.raises(MissingError, match="there is no collection in"):
        batch(str(tmp_path / "nothing"))
    store = write([{"logs": pa.record_batch({"n": [1]})}])
    with pytest.raises(ConfigError, match=r"is a store and no collection .*format\(.quiver.\)"):
        batch(store)
    with pytest.raises(ConfigError, match="memory: is of one process"):
        batch("memory:x")
    with pytest.raises(ConfigError, match="format quiver-view needs the option 'path'"):
        source("")
    with pytest.raises(ConfigError, match="a stream of a collection is one of its changes"):
        Board(FolderBucket(str(tmp_path / "board")))
        source(str(tmp_path / "board")).streamReader(StructType())


def test_a_view_is_not_written(tmp_path: Path) -> None:
    made = source(str(tmp_path / "nothing"))
    for write in (made.writer, made.streamWriter):
        with pytest.raises(ConfigError, match="a view is only read"):
            write(StructType(), overwrite=False)
