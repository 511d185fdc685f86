"""What a payload says of a segment without anybody having to fetch it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from store_kit import on_memory, writer

from quiver.disk import LocalDisk
from quiver.segment import SegmentReader
from quiver.ship.shipper.facts import Facts, facts_of, schema_number
from quiver.testing import MemoryDisk


def facts(disk: LocalDisk | MemoryDisk, seq: int, core: int = 0) -> Facts:
    folder = f"core_{core}/segments"
    paths = sorted(stat.name for stat in disk.list_dir(folder))
    with SegmentReader.open(disk, f"{folder}/{paths[seq]}") as reader:
        return facts_of(reader, record_bytes=17)


def column(values: list[object], kind: pa.DataType, **metadata: str) -> dict[str, pa.RecordBatch]:
    schema = pa.schema([pa.field("x", kind)], metadata=metadata or None)
    return {"logs": pa.record_batch([pa.array(values, kind)], schema=schema)}


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    other = {"metrics": pa.record_batch({"y": ["a"]})}
    writer(tmp_path / "store")(
        [column([1], pa.int64())],
        [column([2, 3], pa.int64(), made="elsewhere")],
        [column(["a"], pa.string()), other],
        [other],
        [column([1], pa.int64()), column(["a"], pa.string())],
        [column([1], pa.int32()), column([1], pa.int64())],
    )
    return LocalDisk(tmp_path / "store")


def test_slots_and_size_are_told(disk: LocalDisk) -> None:
    assert [facts(disk, seq).slots for seq in range(4)] == [1, 1, 3, 2]
    assert facts(disk, 0).record_bytes == 17
    assert len(facts(disk, 2).schemas) == 2


def test_equal_schemas_have_one_number_whatever_their_metadata_says(disk: LocalDisk) -> None:
    (first,) = facts(disk, 0).schemas
    assert facts(disk, 1).schemas == (first,)
    text, other = facts(disk, 2).schemas
    assert facts(disk, 3).schemas == (other,)
    assert len({first, text, other, 0}) == 4


def test_another_slot_of_the_same_schema_has_another_number() -> None:
    schema = pa.schema([("x", pa.int64())])
    assert schema_number("logs", schema) != schema_number("metrics", schema)
    assert schema_number("logs", schema) == schema_number("logs", schema.with_metadata({"a": "b"}))


def test_of_a_slot_under_several_schemas_the_one_that_all_fit_counts(disk: LocalDisk) -> None:
    assert facts(disk, 5).schemas == facts(disk, 0).schemas


def test_a_slot_whose_schemas_have_nothing_in_common_has_no_number(disk: LocalDisk) -> None:
    assert facts(disk, 4).schemas == (0,)


def test_times_are_those_of_the_first_and_the_last_bundle() -> None:
    disk = MemoryDisk()
    with on_memory(disk) as store:
        clock = store._core.clock
        begin = clock.wall_ns()
        for _ in range(3):
            store.append({"events": pa.record_batch({"n": [1]})})
            clock.step("1ms")
        store.finalize()
    found = facts(disk, 0)
    assert (found.first_ns, found.last_ns) == (begin, begin + 2_000_000)
