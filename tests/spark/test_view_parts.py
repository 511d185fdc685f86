"""Which buckets of a view go to which task, which to none, and that secrets are nowhere."""

from __future__ import annotations

import datetime as dt
import pickle
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import datasource as s
from view_kit import Board, batch, source

from quiver.errors import InputError, MissingError, QuiverError
from quiver.ship.objects import FolderBucket
from quiver.spark.options import Options
from quiver.spark.view import QuiverViewDataSource
from quiver.spark.view.options import TABLE
from quiver.spark.view.plan import bytes_by_bucket, bytes_by_epoch, only_buckets
from quiver.spark.view.pruning import buckets_of
from quiver.spark.view.shares import Range, share_out
from quiver.upsert.persist import close_all
from quiver.upsert.rows import Definition
from quiver.upsert.rows.hashing import key_hashes
from quiver.upsert.rows.keys import key_bytes

MIB = 1 << 20
SECRET = "hunter2hunter2"
PLACE = ["region", "day"]
DEFINITION = Definition(
    pa.schema([("region", pa.string()), ("day", pa.date32())]), pa.schema([("n", pa.int64())]), 64
)


@pytest.mark.parametrize(
    ("sizes", "count_min", "shares"),
    [
        ({}, 2, []),
        ({0: 0, 1: 0}, 2, []),
        ({0: 10, 1: 10, 2: 10}, 2, [(0, 1, 2)]),
        (dict.fromkeys(range(4), 8 * MIB), 2, [(0, 1), (2, 3)]),
        (dict.fromkeys(range(3), 8 * MIB), 8, [(0,), (1,), (2,)]),
        ({0: 60 * MIB, 5: 8 * MIB, 9: 8 * MIB}, 2, [(0,), (5, 9)]),
        (dict.fromkeys(range(8), 64 * MIB), 2, [(0, 1), (2, 3), (4, 5), (6, 7)]),
    ],
)
def test_buckets_are_packed_into_a_partition_for_each_core(sizes, count_min, shares) -> None:
    assert share_out(sizes, bytes_max=128 * MIB, count_min=count_min) == shares


def test_what_is_read_of_each_bucket_is_known(tmp_path: Path) -> None:
    board = Board(FolderBucket(str(tmp_path)), buckets=2)
    for number in range(1, 5):
        board.put(dict.fromkeys(range(8), ("x", number)))
    at = board.snapshot
    sizes = {(ref.bucket, ref.last): ref.byte_count for ref in at.files}
    assert len(sizes) == 8

    def of(bucket: int, *epochs: int) -> int:
        return sum(sizes[bucket, epoch] for epoch in epochs)

    assert bytes_by_bucket(at, Range(state=0)) == {}
    assert bytes_by_bucket(at, Range(state=3)) == {b: of(b, 1, 2, 3) for b in (0, 1)}
    assert bytes_by_bucket(at, Range(first=2, last=3)) == {b: of(b, 2, 3) for b in (0, 1)}
    assert bytes_by_bucket(at, Range(1, 2, 4)) == {b: of(b, 1, 2, 3, 4) for b in (0, 1)}
    assert bytes_by_bucket(at, Range(first=5, last=4)) == {}
    per_epoch = [of(0, epoch) + of(1, epoch) for epoch in range(1, 5)]
    assert bytes_by_epoch(at).tolist() == per_epoch
    board.fold(3)
    at = board.snapshot
    bases = {ref.bucket: ref.byte_count for ref in at.files if ref.kind == "base"}
    for epoch, more in ((4, (4,)), (3, ()), (2, (3,)), (0, (1, 2, 3))):
        expected = {b: bases[b] + of(b, *more) for b in (0, 1)}
        assert bytes_by_bucket(at, Range(state=epoch)) == expected
    assert bytes_by_epoch(at).tolist() == per_epoch
    few = only_buckets(at, [1])
    assert {ref.bucket for ref in few.files} == {1}
    assert len(pickle.dumps(few)) < len(pickle.dumps(at))


def bucket_of(region: str, day: dt.date) -> int:
    keys: Any = pa.array([{"region": region, "day": day}], pa.struct(list(DEFINITION.key)))
    return int(key_hashes(key_bytes(keys))[0] % np.uint64(64))


DAY = dt.date(2013, 7, 1)
ONE = frozenset({bucket_of("eu", DAY)})
TWO = ONE | {bucket_of("us", DAY)}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([s.EqualTo(("region",), "eu"), s.EqualTo(("day",), DAY)], ONE),
        ([s.EqualNullSafe(("region",), "eu"), s.In(("day",), [DAY, None])], ONE),
        ([s.In(("region",), ["eu", "us"]), s.EqualTo(("day",), DAY)], TWO),
        (
            [s.In(("region",), ["eu", "us"]), s.EqualTo(("region",), "eu"), s.In(("day",), [DAY])],
            ONE,
        ),
        ([s.EqualTo(("region",), "eu")], None),
        ([s.EqualTo(("region",), "eu"), s.GreaterThan(("day",), DAY)], None),
        ([s.EqualTo(("region",), "eu"), s.EqualTo(("day",), 7)], None),
        ([s.EqualTo(("region",), "eu"), s.Not(s.EqualTo(("day",), DAY))], None),
        ([s.EqualTo(("region",), None), s.EqualTo(("day",), DAY)], None),
        ([s.EqualTo(("n",), 1)], None),
        ([s.In(("region",), list(map(str, range(1001)))), s.EqualTo(("day",), DAY)], None),
        ([], None),
    ],
)
def test_filters_on_whole_keys_leave_buckets_out(filters, expected) -> None:
    assert buckets_of(filters, DEFINITION, layout="flat") == expected
    inner = [_inside(one) for one in filters]
    assert buckets_of(inner, DEFINITION, layout="structs") == expected
    assert buckets_of(filters, DEFINITION, layout="structs") is None


def _inside(one: Any) -> Any:
    if isinstance(one, s.Not):
        return s.Not(_inside(one.child))
    return type(one)(("key", *one.attribute), one.value)


def test_filters_that_are_pushed_down_read_fewer_buckets_and_rows(tmp_path: Path, caplog) -> None:
    caplog.set_level("INFO")
    board = Board(FolderBucket(str(tmp_path)), buckets=16)
    board.put({key: ("x", key % 10) for key in range(200)})

    def read(*filters: Any) -> list[int]:
        made = source(str(tmp_path), pushdown="once")
        reader = made.reader(made.schema())
        assert list(reader.pushFilters(list(filters))) == list(filters)
        parts = reader.partitions()
        reader = pickle.loads(pickle.dumps(reader))
        return sorted(
            number
            for part in parts
            for rows in reader.read(part)
            for number in rows.column("id").to_pylist()
        )

    assert read(s.EqualTo(("id",), 77)) == [77]
    assert caplog.records[-1].getMessage() == "spark.view_planned"
    assert caplog.records[-1].bucket_count == 1
    assert read(s.EqualTo(("size",), 3)) == list(range(3, 200, 10))
    assert caplog.records[-1].skipped_bucket_count == 0
    assert read(s.EqualTo(("id",), 77), s.EqualTo(("id",), 78)) == []
    made = source(str(tmp_path))
    assert "pushFilters" not in vars(type(made.reader(made.schema())))


def test_errors_are_told_before_any_row_is_read(tmp_path: Path) -> None:
    board = Board(FolderBucket(str(tmp_path)), buckets=1)
    board.put({1: ("x", 1), 2: "wrong"})
    made = source(str(tmp_path), pushdown="once")
    reader = made.reader(made.schema())
    reader.pushFilters([s.EqualTo(("id",), 1)])
    with pytest.raises(InputError, match="has one error row"):
        reader.partitions()
    others = source(str(tmp_path), errors="skip")
    (part,) = others.reader(others.schema()).partitions()
    with pytest.raises(InputError, match=r"has an error row, .*: 'wrong'"):
        list(reader.read(part))


def test_only_files_that_had_errors_are_looked_at_for_them(tmp_path: Path) -> None:
    board = Board(FolderBucket(str(tmp_path)), buckets=1)
    board.put({1: "wrong"})
    board.put({1: ("x", 1)})
    board.put({2: ("y", 2)})
    for ref in board.snapshot.files:
        if ref.last == 3:
            Path(tmp_path, ref.name).unlink()
    close_all()
    changed = {"changes": "true", "fromEpoch": "3"}
    made = source(str(tmp_path), **changed)
    assert len(made.reader(made.schema()).partitions()) == 1
    with pytest.raises(MissingError, match="the snapshot has expired"):
        batch(str(tmp_path))
    with pytest.raises(InputError, match="has 2 error rows"):
        batch(str(tmp_path), changes="true", throughEpoch="2")


def test_secrets_are_in_no_text() -> None:
    options = {
        "path": "s3://bucket/path",
        "Bucket.Access_Key_Id": "someone",
        "bucket.secret_access_key": SECRET,
        "bucket.endpoint": "http://127.0.0.1:9",
        "bucket.allow_http": "true",
        "bucket.max_retries": "0",
        "bucket.timeout": "1s",
    }
    given = Options(options, TABLE)
    assert SECRET not in repr(given)
    made = pickle.loads(pickle.dumps(QuiverViewDataSource(options)))
    for ask in (made.schema, lambda: made.reader(None), lambda: made.streamReader(None)):
        with pytest.raises(QuiverError) as caught:
            ask()
        text = "".join(traceback.format_exception(caught.value))
        assert "s3://bucket/path" in text
        assert SECRET not in text
    assert SECRET not in repr(vars(made)["_given"]) + repr(vars(made)["_found"])


def test_buckets_that_never_had_an_error_are_not_read_for_errors(tmp_path: Path) -> None:
    board = Board(FolderBucket(str(tmp_path)), buckets=16)
    board.put({**{key: ("x", key) for key in range(64)}, 77: "wrong"})
    made = source(str(tmp_path), errors="only")
    (part,) = made.reader(made.schema()).partitions()
    assert len(part.value.buckets) == 1
    assert batch(str(tmp_path), errors="only") == [(77, "wrong")]
