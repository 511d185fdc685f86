"""A queue read as a DataFrame, without a JVM."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType
from spark_queue_kit import Depot, Machine, batch_rows, log, source

from quiver.errors import DamagedEntry, InputError, MissingError, SourceError
from quiver.ship.batch import encode_batch
from quiver.ship.consumer import Fetcher
from quiver.ship.objects import FolderBucket
from quiver.ship.queue import Item, NewEntry, Queue
from quiver.ship.shipper import Shipper
from quiver.spark.queue import raw, slots
from quiver.spark.queue.entries import descriptor_of

N = StructType().add("n", LongType())


@pytest.fixture(autouse=True)
def nothing_is_learned() -> None:
    slots._learned.clear()


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot(FolderBucket(str(tmp_path / "queue")))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"file://{tmp_path}/queue"


def test_what_stores_have_shipped_is_read_in_the_order_of_the_queue(depot: Depot, place) -> None:
    other = Machine("metrics", "logs")
    depot.logs(0, 1)
    depot.put(other.segment(log(2), log(3), core=1), depot.machine.segment(log(4)))
    depot.logs(5)
    assert batch_rows(place, slot="logs") == [0, 1, 2, 3, 4, 5]
    assert batch_rows(place.removeprefix("file://"), slot="logs") == [0, 1, 2, 3, 4, 5]


def test_what_a_shipper_ships_is_read(depot: Depot, place) -> None:
    machine = Machine()
    for number in range(3):
        machine.segment(log(number), log(number, s="x"), core=number % 2)
    shipper = Shipper(machine.disk, depot.queue, "ship", clock=machine.clock, keep=False)
    for _ in range(2):
        shipper.run()
    asked = {"slot": "logs", "includeMetadata": "true"}
    assert sorted(batch_rows(place, **asked)) == [0, 0, 1, 1, 2, 2]
    assert sorted(batch_rows(place, "_core", **asked)) == [0, 0, 0, 0, 1, 1]
    assert set(batch_rows(place, "_store_id", **asked)) == {machine.store_id}


def test_columns_of_all_segments_are_there_and_types_are_widened(depot: Depot, place) -> None:
    depot.logs(0)
    depot.put(depot.machine.segment({"logs": pa.record_batch({"s": ["x"]})}))
    small = pa.record_batch({"n": pa.array([7], pa.int16()), "t": [True]})
    depot.put(Machine().segment({"logs": small}))
    assert source(place, slot="logs").schema().simpleString() == (
        "struct<n:bigint,s:string,t:boolean>"
    )
    assert batch_rows(place, slot="logs") == [0, None, 7]
    assert batch_rows(place, "s", slot="logs", columns="s,n") == [None, "x", None]
    assert source(place, slot="logs", columns="s, n").schema().names == ["s", "n"]
    with pytest.raises(InputError, match="no column 'z'"):
        source(place, slot="logs", columns="z").schema()


def test_one_batch_is_fetched_for_each_schema(depot: Depot, place, monkeypatch) -> None:
    fetched = []
    fetch = Fetcher.fetch

    def count(self, descriptor):
        fetched.append(descriptor.sequence)
        return fetch(self, descriptor)

    monkeypatch.setattr(Fetcher, "fetch", count)
    for number in range(4):
        depot.logs(number)
    depot.logs(4, s="x")
    depot.put(Machine().segment(log(5)))
    depot.put(Machine("metrics").segment({"metrics": log(1)["logs"]}))
    source(place, slot="logs").schema()
    assert fetched == [0, 4, 6]
    source(place, slot="logs").schema()
    source(place, slot="metrics").schema()
    assert fetched == [0, 4, 6]


def test_batches_that_are_known_to_have_nothing_of_the_slot_are_not_fetched(
    depot: Depot, place
) -> None:
    depot.logs(0)
    depot.put(depot.machine.segment({"metrics": log(1)["logs"]}))
    depot.logs(2)
    made = source(place, slot="logs")
    schema = made.schema()
    shares = [part.value for part in made.reader(schema).partitions()]
    assert [d.sequence for share in shares for d in share.descriptors] == [0, 2]


def test_a_schema_of_the_user_needs_no_batch(depot: Depot, place) -> None:
    depot.logs(0, s="x")
    gone = depot.logs(1)
    depot.bucket.delete([gone])
    reader = source(place, slot="logs").reader(N)
    assert len(reader.partitions()) == 1
    depot.put(Machine().segment({"logs": pa.record_batch({"n": pa.array([2], pa.int8())})}))
    later = {"failOnDataLoss": "false"}
    assert batch_rows(place, schema=N, slot="logs", **later) == [0, 2]
    both = StructType().add("s", StringType()).add("n", LongType()).add("m", LongType())
    assert batch_rows(place, "s", schema=both, slot="logs", **later) == ["x", None]
    assert batch_rows(place, "m", schema=both, slot="logs", **later) == [None, None]


def test_a_schema_of_the_user_that_does_not_hold_the_values_is_refused(depot: Depot, place) -> None:
    depot.logs(0, s="x")
    for narrow in (StructType().add("n", IntegerType()), StructType().add("s", LongType())):
        with pytest.raises(InputError, match="the schema asks for"):
            batch_rows(place, schema=narrow, slot="logs")


def test_where_a_row_is_from_is_told(depot: Depot, place) -> None:
    depot.logs(0)
    other = Machine()
    depot.put(other.segment(log(1), log(2), core=3))
    asked = {"slot": "logs", "includeMetadata": "true"}
    assert source(place, **asked).schema().names[-1] == "_store_id"
    ids = [depot.machine.store_id, other.store_id, other.store_id]
    assert batch_rows(place, "_store_id", **asked) == ids
    assert batch_rows(place, "_core", **asked) == [0, 3, 3]
    assert batch_rows(place, "_bundle_index", **asked) == [0, 0, 1]
    loose = StructType().add("_store_id", StringType()).add("n", LongType())
    assert batch_rows(place, "_store_id", schema=loose, **asked) == ids
    depot.put(other.segment({"logs": pa.record_batch({"_core": [1]})}))
    with pytest.raises(InputError, match="'_core' would be there twice"):
        source(place, **asked).schema()


def test_a_range_of_times_leaves_out_bundles_and_whole_batches(depot: Depot, place) -> None:
    machine, begin = depot.machine, depot.machine.clock.wall_ns()
    for number in range(4):
        first = machine.segment(log(10 * number))
        machine.clock.step("1s")
        depot.put(first)
    times = {"startingTime": str(begin + 10**9), "endingTime": str(begin + 3 * 10**9)}
    made = source(place, slot="logs", **times)
    reader = made.reader(made.schema())
    shares = [part.value for part in reader.partitions()]
    assert [d.sequence for share in shares for d in share.descriptors] == [1, 2]
    assert batch_rows(place, slot="logs", **times) == [10, 20]
    with machine.opened() as store:
        store.append(log(1))
        machine.clock.step("1ms")
        store.append(log(2))
        store.finalize()
    depot.put(machine.newest())
    now = str(machine.clock.wall_ns())
    assert batch_rows(place, slot="logs", startingTime=now) == [2]
    last = str(begin + 4 * 10**9)
    assert batch_rows(place, slot="logs", startingTime=last, endingTime=now) == [1]


def test_a_load_is_one_snapshot_and_changes_nothing(depot: Depot, place) -> None:
    key = depot.logs(0)
    made = source(place, slot="logs")
    schema = made.schema()
    depot.logs(1)
    before = bytes(depot.bucket.get("manifest").data)
    assert len(made.reader(schema).partitions()[0].value.descriptors) == 1
    assert batch_rows(place, slot="logs") == [0, 1]
    depot.bucket.delete([key])
    with pytest.raises(SourceError, match=rf"entry 0 of .*{key}, is gone") as caught:
        batch_rows(place, schema=schema, slot="logs")
    assert "load it again" in str(caught.value)
    assert batch_rows(place, slot="logs", failOnDataLoss="false") == [1]
    assert bytes(depot.bucket.get("manifest").data) == before
    assert not list(depot.bucket.list("dead/"))


def test_a_damaged_batch_is_named(depot: Depot, place) -> None:
    depot.logs(0)
    key = depot.logs(1)
    data = bytearray(depot.bucket.get(key).data)
    data[len(data) // 2] ^= 1
    depot.bucket.put(key, bytes(data))
    with pytest.raises(SourceError, match=f"{key}, cannot be read"):
        batch_rows(place, slot="logs")
    assert batch_rows(place, slot="logs", failOnDataLoss="false") == [0]


def test_a_record_that_is_another_segment_is_damage(depot: Depot, place) -> None:
    payload, _ = depot.machine.segment(log(1))
    _, data = depot.machine.segment(log(2))
    depot.put((payload, data))
    with pytest.raises(SourceError, match="is not the segment that the queue names") as caught:
        batch_rows(place, schema=N, slot="logs")
    assert isinstance(caught.value.__cause__, DamagedEntry)


def test_a_segment_that_is_there_twice_is_read_once(depot: Depot, place) -> None:
    one, two = depot.machine.segment(log(1)), depot.machine.segment(log(2))
    depot.put(one)
    depot.put(one, two)
    depot.put(two)
    assert batch_rows(place, slot="logs") == [1, 2]


def test_partitions_are_packed_by_size(depot: Depot, place) -> None:
    for number in range(6):
        depot.logs(number, sized=number != 5)
    made = source(place, slot="logs", maxPartitionBytes="25000", minPartitions="1")
    reader = made.reader(made.schema())
    sizes = [len(part.value.descriptors) for part in reader.partitions()]
    assert sum(sizes) == 6
    assert len(sizes) > 1
    assert batch_rows(place, slot="logs", maxPartitionBytes="25000") == list(range(6))


def test_a_slot_that_nothing_has_is_an_error_that_says_what_is_there(depot: Depot, place) -> None:
    depot.logs(0)
    with pytest.raises(MissingError, match="slots that are there: logs"):
        source(place, slot="lags").schema()
    empty = Depot(FolderBucket(place.removeprefix("file://") + "2"))
    with pytest.raises(MissingError, match="slots that are there: none"):
        source(place + "2", slot="logs").schema()
    assert batch_rows(place + "2", schema=N, slot="logs") == []
    Queue(empty.bucket).start()
    assert batch_rows(place + "2", schema=N, slot="logs") == []


def test_an_entry_that_is_kept_for_its_marks_tells_columns_and_no_rows(depot, place) -> None:
    gone = depot.ship(log(1, s="x"))
    queue = depot.queue
    queue.dequeue(0, epoch=queue.start().epoch)
    assert depot.sequences == []
    assert source(place, slot="logs").schema().names == ["n", "s"]
    assert batch_rows(place, slot="logs") == []
    slots._learned.clear()
    depot.bucket.delete([gone])
    with pytest.raises(MissingError, match="slots that are there: none"):
        source(place, slot="logs").schema()


def test_more_schemas_than_are_sensible_are_not_looked_up(depot, place, monkeypatch) -> None:
    monkeypatch.setattr(slots, "FETCHES_MAX", 2)
    for number in range(3):
        depot.logs(number, **{f"c{number}": 1})
    with pytest.raises(InputError, match=r"more than 2 schemas.*\.schema"):
        source(place, slot="logs").schema()
    assert batch_rows(place, schema=N, slot="logs") == [0, 1, 2]


def test_records_of_anybody_are_read_as_they_are(depot: Depot, place) -> None:
    depot.put((b"about", b"one"), (b"", b"two"), time_ms=1_700_000_000_000)
    depot.logs(1)
    assert source(place).schema().names == [
        *("sequence", "index", "ingestion_time", "metadata", "value")
    ]
    assert batch_rows(place, "value")[:2] == [b"one", b"two"]
    assert batch_rows(place, "metadata")[:2] == [b"about", b""]
    assert batch_rows(place, "sequence") == [0, 0, 1]
    assert batch_rows(place, "index") == [0, 1, 0]
    assert batch_rows(place, "index", startingTime="2020-01-01T00:00:00Z") == [0, 1]
    some = StructType().add("index", IntegerType()).add("sequence", LongType())
    assert batch_rows(place, "sequence", schema=some) == [0, 0, 1]
    with pytest.raises(InputError, match="asks for column 'n', which is not"):
        batch_rows(place, schema=N)


def test_many_records_come_in_batches_that_are_not_too_large(depot, place, monkeypatch) -> None:
    monkeypatch.setattr(raw, "ROWS_MAX", 3)
    monkeypatch.setattr(raw, "_BYTES_MAX", 10)
    values = [b"x" * size for size in (1, 1, 1, 1, 8, 3, 20, 1)]
    encoded = encode_batch(values)
    depot.bucket.put("a.batch", encoded.parts)
    items = [Item(1, 5, b"m"), Item(8, 6, b"none")]
    depot.queue.append(NewEntry("a.batch", items))
    found = [range(*some) for some in ((0, 1), (1, 4), (4, 5), (5, 6), (6, 7), (7, 8))]
    batch = Fetcher(depot.bucket).fetch(descriptor_of(next(depot.queue.read().entries())))
    assert [some for _, all_of in raw._calls(batch) for some in raw._portions(batch, all_of)] == (
        found
    )
    assert batch_rows(place, "value") == values
    assert batch_rows(place, "metadata") == [None, *[b"m"] * 7]
    assert batch_rows(place, "ingestion_time")[0] is None


def test_columns_that_go_together_are_read_where_others_do_not(depot: Depot, place) -> None:
    def mixed(number: int) -> tuple[dict, dict]:
        return (
            {"logs": pa.record_batch({"n": [number], "x": [1]}), **other},
            {"logs": pa.record_batch({"n": [number], "x": ["text"]}), **other},
        )

    other = {"metrics": log(1)["logs"]}
    bad = {"metrics": pa.record_batch({"n": ["text"]})}
    depot.put(depot.machine.segment(*mixed(1)))
    depot.put(depot.machine.segment(*mixed(2), bad))
    assert batch_rows(place, slot="logs", columns="n") == [1, 1, 2, 2]
    with pytest.raises(InputError, match="'x'"):
        source(place, slot="logs").schema()
    with pytest.raises(InputError, match="'n'"):
        source(place, slot="metrics").schema()


def test_a_call_without_a_record_is_damage(depot: Depot, place) -> None:
    payload, data = depot.machine.segment(log(1))
    encoded = encode_batch([data])
    depot.bucket.put("a.batch", encoded.parts)
    again, _ = depot.machine.segment(log(2))
    depot.queue.append(NewEntry("a.batch", [Item(0, 0, payload), Item(1, 0, again)]))
    with pytest.raises(SourceError, match="a call has no record"):
        batch_rows(place, schema=N, slot="logs")
    assert batch_rows(place, schema=N, slot="logs", failOnDataLoss="false") == [1]


def test_what_was_learned_does_not_grow_without_end(depot: Depot, place, monkeypatch) -> None:
    monkeypatch.setattr(slots, "_LEARNED_MAX", 1)
    depot.logs(1)
    depot.logs(2, s="x")
    depot.put(depot.machine.segment({"metrics": log(1)["logs"]}))
    assert batch_rows(place, slot="logs") == [1, 2]
    assert len(slots._learned) == 1
    assert batch_rows(place, schema=N, slot="logs") == [1, 2]


def test_records_that_are_no_segments_have_no_slots(depot: Depot, place) -> None:
    depot.logs(1)
    depot.put((b"about", b"one"))
    with pytest.raises(InputError, match=r"entry 1 of .* no segments.*leave the option slot out"):
        source(place, slot="logs").schema()
    with pytest.raises(InputError, match="entry 1 of"):
        batch_rows(place, schema=N, slot="logs")
