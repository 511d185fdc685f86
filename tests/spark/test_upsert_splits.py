"""Where rows come from: what is in already is left out, and what comes next is noted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from quiver.errors import InputError
from quiver.spark.upsert import splits as rooms
from quiver.spark.upsert.places import QUIVER
from quiver.spark.upsert.splits import Ends, SplitPlan

KAFKA = SplitPlan(("topic", "partition"), ("offset",))


def kafka(*rows: tuple[str, int, int]) -> pa.Table:
    topics, partitions, offsets = zip(*rows, strict=True)
    return pa.table({"topic": topics, "partition": partitions, "offset": offsets})


def stored(*rows: tuple[str | None, int, int, int]) -> pa.Table:
    names = ("_store_id", "_core", "_segment_seq", "_bundle_index")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def test_the_next_offset_of_each_split_is_behind_the_greatest_one() -> None:
    ends = Ends(KAFKA)
    rows = kafka(("a", 0, 4), ("a", 1, 7), ("a", 0, 5), ("b", 0, 0))
    assert ends.sift(rows) is rows
    ends.sift(kafka(("a", 0, 3), ("a", 1, 8)))
    assert ends.next == {"a/0": 6, "a/1": 9, "b/0": 1}
    assert ends.left_out == 0


def test_rows_below_the_floor_of_their_split_are_left_out_and_still_count_as_seen() -> None:
    ends = Ends(KAFKA, {"a/0": 5, "gone/3": 9})
    left = ends.sift(kafka(("a", 0, 4), ("a", 0, 5), ("b", 0, 4), ("a", 0, 6)))
    assert left.column("offset").to_pylist() == [5, 4, 6]
    assert ends.next == {"a/0": 7, "b/0": 5}
    assert ends.left_out == 1
    assert ends.sift(kafka(("a", 0, 1))).num_rows == 0
    assert ends.next["a/0"] == 7


def test_a_bundle_of_a_store_is_an_offset_and_its_core_a_split() -> None:
    first = Ends(QUIVER)
    rows = stored(("s", 0, 1, 0), ("s", 0, 1, 1), ("s", 12, 0, 3), ("t", 0, 0, 0))
    first.sift(rows)
    assert sorted(first.next) == ["s/core_0", "s/core_12", "t/core_0"]
    again = Ends(QUIVER, first.next)
    assert again.sift(rows).num_rows == 0
    later = stored(("s", 0, 1, 1), ("s", 0, 1, 2), ("s", 0, 2, 0), ("s", 12, 0, 3), ("t", 1, 0, 0))
    assert again.sift(later).to_pylist() == [later.to_pylist()[row] for row in (1, 2, 4)]
    assert Ends(QUIVER).sift(stored((None, 0, 0, 0))).num_rows == 1  # Of another implementation.


def test_a_segment_with_many_bundles_is_below_the_one_that_follows() -> None:
    ends = Ends(QUIVER)
    ends.sift(stored(("s", 0, 6, (1 << 32) - 1)))
    assert Ends(QUIVER, ends.next).sift(stored(("s", 0, 7, 0))).num_rows == 1


def test_all_rows_may_be_of_one_split() -> None:
    ends = Ends(SplitPlan((), ("seq",), form="rows"), {"rows": 2})
    assert ends.sift(pa.table({"seq": [1, 2]})).to_pylist() == [{"seq": 2}]
    assert ends.next == {"rows": 3}


def test_splits_whose_names_have_slashes_are_told_apart() -> None:
    ends = Ends(SplitPlan(("a", "b"), ("at",)))
    ends.sift(pa.table({"a": ["x/y", "x", "%2F"], "b": ["z", "y/z", "/"], "at": [1, 2, 3]}))
    assert ends.next == {"x%2Fy/z": 2, "x/y%2Fz": 3, "%252F/%2F": 4}


def test_no_rows_say_nothing() -> None:
    ends = Ends(KAFKA)
    assert ends.sift(kafka(("a", 0, 0)).slice(1)).num_rows == 0
    assert ends.next == {}


@pytest.mark.parametrize(
    ("plan", "rows", "message"),
    [
        (KAFKA, {"topic": ["a"], "partition": [0], "offset": [None]}, "'offset' is null"),
        (KAFKA, {"topic": ["a"], "partition": [0], "offset": [-1]}, "'offset' is below zero"),
        (KAFKA, {"topic": ["a"], "partition": [0], "offset": ["1"]}, "'offset' is string"),
        (KAFKA, {"topic": ["a"], "partition": [None], "offset": [1]}, "'partition' is null"),
        (
            QUIVER,
            {"_store_id": ["s"], "_core": [0], "_segment_seq": [1], "_bundle_index": [1 << 32]},
            "too large",
        ),
    ],
)
def test_a_row_without_a_place_is_refused(plan: SplitPlan, rows: dict, message: str) -> None:
    if rows.get("offset") == [None]:
        rows = {**rows, "offset": pa.array([None], pa.int64())}
    with pytest.raises(InputError, match=message):
        Ends(plan).sift(pa.table(rows))


def test_a_column_that_names_no_splits_is_told_of_before_the_manifest_is_full(monkeypatch) -> None:
    monkeypatch.setattr(rooms, "SPLITS_MAX", 3)
    ends = Ends(KAFKA)
    ends.sift(kafka(*(("a", number, 0) for number in range(3))))
    with pytest.raises(InputError, match="more than 3 splits"):
        ends.sift(kafka(("a", 3, 0)))
