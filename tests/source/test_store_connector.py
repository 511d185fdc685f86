"""The cores of a store as splits: any state gives what follows it, and acks go to the store."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress

import pyarrow as pa
import pytest
from store_kit import writer

import quiver
from quiver.errors import ClosedError, InputError, MissingError, SourceError
from quiver.source.stores import StoreConnector
from quiver.source.stores import reader as stores_reader


def log(*numbers: int) -> dict[str, pa.RecordBatch]:
    text = [f"row {number}" for number in numbers]
    return {"logs": pa.record_batch({"n": list(numbers), "text": text})}


METRIC = {"metrics": pa.record_batch({"m": [1.5]})}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def write(path):
    return writer(path)


def drain(reader):
    """Give all batches that are there, as (numbers, offsets, state)."""
    found = []
    while (got := reader.next(0)) is not None:
        assert len(got.offsets) == got.batch.num_rows
        numbers = got.batch.column("n").to_pylist() if got.batch.num_rows else []
        found.append((numbers, got.offsets.to_pylist(), got.state))
    return found


def test_every_state_gives_exactly_what_follows_it(path, write) -> None:
    write([log(1, 2), METRIC, log(3)], [METRIC], [log(4), log(5)])
    connector = StoreConnector(path, "logs")
    enumerator = connector.enumerator()
    (split,) = enumerator.list_splits()
    whole = drain(connector.reader(split, None, None))
    assert [number for numbers, _, _ in whole for number in numbers] == [1, 2, 3, 4, 5]
    assert whole[0][1][1] == {"segment_seq": 0, "bundle_index": 0, "row": 1}
    places = [str(place) for _, offsets, _ in whole for place in offsets]
    assert len(set(places)) == len(places)
    for index, (_, _, state) in enumerate(whole):
        assert drain(connector.reader(split, state, None)) == whole[index + 1 :]
    enumerator.close()


def test_new_cores_are_new_splits_and_one_that_goes_is_drained(path, write) -> None:
    write([log(1)])
    connector = StoreConnector(path, "logs")
    enumerator = connector.enumerator()
    assert [split.id for split in enumerator.list_splits()] == ["core_0"]
    write([log(2)], core=1)
    first, second = enumerator.list_splits()
    assert (first.id, second.id) == ("core_0", "core_1")
    reader = connector.reader(second, None, ["n"])
    assert [numbers for numbers, _, _ in drain(reader) if numbers] == [[2]]
    assert not reader.is_drained()
    shutil.rmtree(path / "core_1")
    assert reader.next(0) is None
    assert reader.is_drained()
    assert enumerator.list_splits() == [first]


def test_columns_come_in_the_order_that_was_asked_for(path, write) -> None:
    write([log(1)], [{"logs": pa.record_batch({"n": [2]})}])
    connector = StoreConnector(path, "logs")
    (split,) = connector.enumerator().list_splits()
    reader = connector.reader(split, None, ["text", "n"])
    names = [got.batch.schema.names for got in iter(lambda: reader.next(0), None)]
    assert names == [["text", "n"], ["text", "n"]]
    reader = connector.reader(split, None, ["text", "n"])
    assert [reader.next(0).batch.to_pylist() for _ in range(2)] == [
        [{"text": "row 1", "n": 1}],
        [{"text": None, "n": 2}],
    ]
    with pytest.raises(InputError, match="no column 'other'"):
        connector.reader(split, None, ["other"]).next(0)
    assert connector.reader(split, None, []).next(0).batch.num_rows == 1


def test_a_reader_waits_for_what_comes_and_is_woken_by_close(path, write) -> None:
    write([log(1)])
    connector = StoreConnector(path, "logs")
    (split,) = connector.enumerator().list_splits()
    reader = connector.reader(split, None, None)
    drain(reader)
    late = threading.Thread(target=write, args=([log(2)],))
    late.start()
    got = reader.next(30)
    late.join()
    assert got.batch.column("n").to_pylist() == [2]
    drain(reader)
    closer = threading.Thread(target=reader.close)
    closer.start()
    with pytest.raises(ClosedError):
        reader.next(30)
    closer.join()
    reader.close()


def test_states_of_others_are_refused(path, write, tmp_path) -> None:
    write([log(1)])
    writer(tmp_path / "other")([log(1)])
    connector = StoreConnector(path, "logs")
    (split,) = connector.enumerator().list_splits()
    state = StoreConnector(tmp_path / "other", "logs").reader(split, None, None).next(0).state
    with pytest.raises(InputError, match="state of store"):
        connector.reader(split, state, None)
    with pytest.raises(InputError, match="no state"):
        connector.reader(split, "{}", None)
    with pytest.raises(InputError, match="no slot"):
        StoreConnector(path, "nothing").enumerator()
    with pytest.raises(MissingError):
        StoreConnector(tmp_path / "nowhere", "logs").enumerator()


def test_what_was_acknowledged_is_deleted_and_nothing_before(path, write) -> None:
    write([log(1)], [log(2)], [log(3)])
    connector = StoreConnector(path, "logs", subscriber="reader")
    (split,) = connector.enumerator().list_splits()
    batches = drain(connector.reader(split, None, None))
    with quiver.open(path, worker=False) as store:
        store.maintain()
        assert store.info().segments == 3
        connector.acknowledge({split.id: batches[1][2]})
        store.maintain()
        assert store.info().segments == 1
        connector.acknowledge({split.id: batches[-1][2]})
        store.maintain()
        assert store.info().segments == 0
    connector.close()


def test_data_that_went_before_it_was_read_is_an_error_unless_allowed(path, write) -> None:
    write([log(1)], [log(2)])
    connector = StoreConnector(path, "logs")
    (split,) = connector.enumerator().list_splits()
    state = connector.reader(split, None, None).next(0).state
    write([log(3)])
    (path / "core_0" / "segments" / f"{1:016}.qseg").unlink()
    reader = connector.reader(split, state, None)
    with pytest.raises(SourceError, match="segment 1 of core 0 is gone") as told:
        reader.next(0)
    assert told.value.split == "core_0"
    lenient = StoreConnector(path, "logs", fail_on_data_loss=False).reader(split, state, None)
    assert [numbers for numbers, _, _ in drain(lenient) if numbers] == [[3]]


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_reader_that_failed_gives_the_same_again_when_it_is_asked_again(
    path, write, monkeypatch, fails_at
) -> None:
    write([log(1), log(2), log(3)], [log(4)])
    read, failures = stores_reader.read_span, [OSError("for a moment")]

    def failing(*arguments, **more):
        for place, found in enumerate(read(*arguments, **more)):
            if failures and place == fails_at:
                raise failures.pop()
            yield found

    monkeypatch.setattr(stores_reader, "read_span", failing)
    connector = StoreConnector(path, "logs")
    enumerator = connector.enumerator()
    (split,) = enumerator.list_splits()
    reader = connector.reader(split, None, ["n"])
    found = []
    for _ in range(9):
        with suppress(OSError):
            got = reader.next(0)
            found += [] if got is None else got.batch.column("n").to_pylist()
    assert found == [1, 2, 3, 4]
    assert not failures
    reader.close()
    enumerator.close()
