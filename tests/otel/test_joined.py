"""Telemetry as rows, one bundle at a time."""

import pyarrow as pa
import pytest
from otap_kit import drawn_batch

from quiver.otel import Batch, Signal
from quiver.otel.joined import PLACES, SCHEMAS, SIGNALS, joined_rows, places_in_trees


def rows(kind: str, batch: Batch) -> list[dict]:
    return [row for found in joined_rows(kind, batch) for row in found.to_pylist()]


@pytest.mark.parametrize("kind", list(SCHEMAS))
def test_rows_of_any_bundle_are_sound_and_of_one_schema(kind: str) -> None:
    for seed in range(8):
        batch = drawn_batch(SIGNALS[kind], seed, rows=10)
        for found in joined_rows(kind, batch):
            found.validate(full=True)
            assert found.schema == SCHEMAS[kind]


def test_attributes_are_those_that_hang_from_a_row() -> None:
    batch = drawn_batch(Signal.LOGS, 5, rows=10)
    attributes = batch.bundle["log_attrs"].to_pylist()
    keys = {}
    for each in attributes:
        keys.setdefault(each["parent_id"], set()).add(each["key"])
    wanted = [keys.get(row["id"], set()) for row in batch.bundle["logs"].to_pylist()]
    assert [{key for key, _ in row["attributes"]} for row in rows("logs", batch)] == wanted
    assert any(wanted)


def test_points_that_hang_from_no_metric_are_left_out_and_no_records_are_no_rows() -> None:
    batch = drawn_batch(Signal.METRICS, 5, rows=10)
    slots = dict(batch.bundle)
    numbers = slots["number_data_points"]
    known = len(rows("points", Batch(Signal.METRICS, slots)))
    lost = pa.array([60_000] * numbers.num_rows, pa.uint16())
    index = numbers.schema.get_field_index("parent_id")
    slots["number_data_points"] = numbers.set_column(index, "parent_id", lost)
    assert len(rows("points", Batch(Signal.METRICS, slots))) == known - numbers.num_rows
    empty = {name: each.slice(0, 0) for name, each in slots.items()}
    for kind in SCHEMAS:
        assert rows(kind, Batch(Signal.METRICS, empty)) == []


def test_times_without_a_value_and_ids_of_zeros_are_null() -> None:
    logs = pa.record_batch(
        {
            "time_unix_nano": pa.array([0, -1, 1999], pa.int64()).view(pa.timestamp("ns")),
            "trace_id": pa.array([b"\0" * 16, None, b"\xab" * 16], pa.binary(16)),
        }
    )
    found = rows("logs", Batch(Signal.LOGS, {"logs": logs.slice(0)}))
    assert [row["trace_id"] for row in found] == [None, None, "ab" * 16]
    assert [row["time_unix_nano"] for row in found] == [None, -1, 1999]
    assert [row["time"] and row["time"].microsecond for row in found] == [None, 999_999, 1]
    assert rows("logs", Batch(Signal.LOGS, {"logs": logs.slice(2)})) == found[2:]


def places(*spans: tuple[str | None, str | None, str], depth_max: int = 8) -> dict:
    columns = list(zip(*spans, strict=True))
    names = ("span_id", "parent_span_id", "name")
    table = dict(zip(names, (pa.array(each, pa.utf8()) for each in columns), strict=True))
    batch = pa.record_batch({"trace_id": pa.array(["t"] * len(spans)), **table})
    found = list(places_in_trees([batch], depth_max))
    assert all(each.schema == PLACES for each in found)
    return {row["span_id"]: row for each in found for row in each.to_pylist()}


def test_a_span_without_an_id_is_the_parent_of_nobody() -> None:
    found = places(("a", None, "A"), ("b", "a", "B"), (None, None, "nameless"))
    assert {name: row["depth"] for name, row in found.items()} == {"a": 0, "b": 1, None: 0}


def test_circles_and_what_is_too_deep_have_no_place_in_a_tree() -> None:
    found = places(
        *(("a", None, "A"), ("b", "a", "B"), ("c", "gone", "C")),
        *(("x", "y", "X"), ("y", "x", "Y"), ("self", "self", "S")),
    )
    assert {name: row["depth"] for name, row in found.items()} == {
        "a": 0,
        "b": 1,
        "c": 0,
        "x": None,
        "y": None,
        "self": None,
    }
    assert found["b"]["path"] == ["A", "B"]
    assert found["b"]["root_span_id"] == "a"
    assert found["x"]["path"] is None
    line = [(str(n), str(n - 1) if n else None, "n") for n in range(5)]
    deep = places(*reversed(line), depth_max=3)
    assert [deep[str(n)]["depth"] for n in range(5)] == [0, 1, 2, 3, None]
    assert list(places_in_trees([], 8)) == []
