"""Telemetry in Spark: what was put into a store as OTLP, or as Arrow, comes out as joined rows."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import quiver
from quiver.errors import ConfigError, InputError
from quiver.otel import TELEMETRY, Signal
from quiver.otel.batch import of_request
from quiver.otel.joined import SCHEMAS
from quiver.otel.otlp import decode
from quiver.spark import otel

pytestmark = pytest.mark.spark

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND
TRACE = bytes(range(16))


def request(first: int, count: int) -> bytes:
    """Log records of two services; each has attributes of every kind."""
    made = ExportLogsServiceRequest()
    for number in range(first, first + count):
        outer = made.resource_logs.add()
        outer.resource.attributes.add(key="service.name").value.string_value = f"s{number % 2}"
        inner = outer.scope_logs.add()
        inner.scope.name = "lib"
        inner.scope.attributes.add(key="built").value.bool_value = True
        record = inner.log_records.add(
            time_unix_nano=NOON + number * SECOND + 1, severity_number=9 + number % 9
        )
        record.trace_id, record.span_id = TRACE, TRACE[:8]
        record.body.string_value = f"line {number}"
        for key, name, value in (
            ("text", "string_value", "ü"),
            ("whole", "int_value", number),
            ("half", "double_value", 0.5),
            ("raw", "bytes_value", b"\xff"),
        ):
            setattr(record.attributes.add(key=key).value, name, value)
        entry = record.attributes.add(key="list").value.array_value.values.add()
        entry.kvlist_value.values.add(key="deep").value.int_value = 1
        record.attributes.add(key="empty")
    return made.SerializeToString()


def spans_bundle() -> dict[str, pa.RecordBatch]:
    """A trace of three spans, and one whose parent is elsewhere; the second has an event."""
    u16, u32 = pa.uint16(), pa.uint32()
    ids = [bytes([n]) * 8 for n in range(1, 5)]
    spans = pa.record_batch(
        {
            "id": pa.array([0, 1, None, None], u16),
            "start_time_unix_nano": pa.array([NOON] * 4, pa.int64()).view(pa.timestamp("ns")),
            "duration_time_unix_nano": pa.array([SECOND, 500, 1, 2], pa.duration("ns")),
            "trace_id": pa.array([TRACE] * 4, pa.binary(16)),
            "span_id": pa.array(ids, pa.binary(8)),
            "parent_span_id": pa.array([None, ids[0], ids[1], b"elsewher"], pa.binary(8)),
            "name": pa.array(["get", "query", "row", "lost"]).dictionary_encode(),
            "kind": pa.array([2, 3, None, 99], pa.int32()),
        }
    )
    key, text = pa.array(["db", "db"]), pa.array(["x", "y"])
    kinds = pa.array([1, 1], pa.uint8())
    attributes = {"parent_id": pa.array([1, 0], u16), "key": key, "type": kinds, "str": text}
    event = {
        "id": pa.array([7], u32),
        "parent_id": pa.array([1], u16),
        "time_unix_nano": pa.array([NOON + 5], pa.int64()).view(pa.timestamp("ns")),
        "name": pa.array(["slow"]),
    }
    of_event = {
        "parent_id": pa.array([7], u32),
        "key": pa.array(["rows"]),
        "type": pa.array([2], pa.uint8()),
        "int": pa.array([3], pa.int64()),
    }
    return {
        "spans": spans,
        "span_attrs": pa.record_batch(attributes),
        "span_events": pa.record_batch(event),
        "span_event_attrs": pa.record_batch(of_event),
    }


def metrics_bundle() -> dict[str, pa.RecordBatch]:
    u16, times = pa.uint16(), pa.array([NOON, NOON], pa.int64()).view(pa.timestamp("ns"))
    root = {
        "id": pa.array([5, 3], u16),
        "metric_type": pa.array([2, 3], pa.uint8()),
        "name": pa.array(["requests", "latency"]),
        "unit": pa.array(["1", "ms"]),
        "aggregation_temporality": pa.array([2, 1], pa.int32()),
        "is_monotonic": pa.array([True, None]),
    }
    numbers = {
        "id": pa.array([0, 1], pa.uint32()),
        "parent_id": pa.array([5, 5], u16),
        "time_unix_nano": times,
        "int_value": pa.array([7, None], pa.int64()),
        "double_value": pa.array([None, 0.5], pa.float64()),
    }
    of_numbers = {
        "parent_id": pa.array([1], pa.uint32()),
        "key": pa.array(["code"]),
        "type": pa.array([2], pa.uint8()),
        "int": pa.array([200], pa.int64()),
    }
    histogram = {
        "parent_id": pa.array([3], u16),
        "time_unix_nano": times[:1],
        "count": pa.array([3], pa.uint64()),
        "bucket_counts": pa.array([[1, 2]], pa.list_(pa.uint64())),
        "explicit_bounds": pa.array([[10.0]]),
    }
    return {
        "univariate_metrics": pa.record_batch(root),
        "number_data_points": pa.record_batch(numbers),
        "number_dp_attrs": pa.record_batch(of_numbers),
        "histogram_data_points": pa.record_batch(histogram),
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three segments: requests as they came, requests as Arrow, then spans and metrics."""
    path = tmp_path_factory.mktemp("telemetry") / "store"
    with quiver.open(path, slots=TELEMETRY) as opened:
        keep_logs(opened)
        opened.append(spans_bundle())
        opened.append(metrics_bundle())
        opened.finalize()
    return path


def keep_logs(opened: quiver.Store) -> None:
    for first in (0, 10):
        opened.append(of_request(Signal.LOGS, request(first, 10), 10).bundle)
    opened.finalize()
    for first in (20, 30):
        for batch in decode(Signal.LOGS, request(first, 10)):
            opened.append(batch.bundle)
    opened.finalize()


@pytest.fixture(scope="module")
def page(spark: SparkSession, store: Path) -> dict[str, Any]:
    """What the samples of the page make. Each frame that is made asks Python anew: not twice."""
    text = (Path(otel.__file__).parents[1] / "OTEL.md").read_text()
    samples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(samples) == 6
    names = {"spark": spark, "path": store}
    exec("".join(samples), names)
    return names


def test_the_samples_of_the_page_run(page: dict[str, Any]) -> None:
    assert [each["count"] for each in page["errors"].collect()] == [2, 2]
    # What the others mean is found out without rows.
    assert page["slow_events"].columns == ["name", "event"]
    assert page["rates"].columns == ["name", "attributes[code]", "avg(value)"]
    assert page["first"].columns == ["tag"]
    assert page["tree"].columns == ["trace_id", "path", "duration_nano"]
    assert page["same"].schema == page["logs"].schema


def test_log_records_are_the_same_whichever_way_they_were_kept(page: dict[str, Any]) -> None:
    rows = {row.body: row for row in page["logs"].collect()}
    assert set(rows) == {f"line {number}" for number in range(40)}
    for number in (3, 33):
        row = rows[f"line {number}"]
        assert row.time == datetime.fromtimestamp(1_700_000_000 + number, UTC).replace(tzinfo=None)
        assert row.time_unix_nano == NOON + number * SECOND + 1
        assert (row.trace_id, row.span_id) == (TRACE.hex(), TRACE[:8].hex())
        assert row.severity_number == 9 + number % 9
        assert row.resource == {"service.name": "s1"}
        assert (row.scope_name, row.scope_attributes) == ("lib", {"built": "true"})
        assert row.attributes == {
            "text": "ü",
            "whole": str(number),
            "half": "0.5",
            "raw": base64.b64encode(b"\xff").decode(),
            "list": '[{"deep":1}]',
            "empty": None,
        }
    assert (rows["line 3"]._segment_seq, rows["line 33"]._segment_seq) == (0, 1)


def test_spans_have_their_events_and_stand_in_a_tree(page: dict[str, Any]) -> None:
    twice = page["spans"].selectExpr("*", "explode(array(1, 2)) as again").drop("again")
    rows = {row.name: row for row in otel.span_tree(twice).collect()}
    assert len(rows) == 4
    query = rows["query"]
    assert query.attributes == {"db": "x"}
    assert (query.kind, rows["row"].kind, rows["lost"].kind) == ("client", "unspecified", None)
    assert (query.duration_nano, query.end_time) == (500, query.start_time)
    (event,) = query.events
    assert (event.name, event.attributes) == ("slow", {"rows": "3"})
    assert event.time_unix_nano == NOON + 5
    assert rows["get"].events == rows["get"].links == []
    assert rows["row"].path == ["get", "query", "row"]
    assert rows["row"].root_span_id == rows["get"].span_id
    assert {name: row.depth for name, row in rows.items()} == {
        "get": 0,
        "query": 1,
        "row": 2,
        "lost": 0,
    }


def test_spans_without_an_id_are_not_taken_for_one(page: dict[str, Any]) -> None:
    spans = page["spans"]
    nameless = spans.selectExpr(
        *(
            "IF(name IN ('row', 'lost'), NULL, span_id) AS span_id" if each == "span_id" else each
            for each in spans.columns
        )
    )
    rows = {row.name: row for row in otel.span_tree(nameless).collect()}
    assert sorted(rows) == ["get", "lost", "query", "row"]
    assert (rows["query"].depth, rows["query"].path) == (1, ["get", "query"])
    for name in ("row", "lost"):
        assert (rows[name].depth, rows[name].path, rows[name].root_span_id) == (None, None, None)


def test_points_of_all_kinds_are_rows(page: dict[str, Any]) -> None:
    rows = sorted(page["points"].collect(), key=lambda row: (row.name, row.value or 0))
    latency, half, seven = rows
    assert (latency.kind, latency.unit, latency.temporality) == ("histogram", "ms", "delta")
    assert (latency["count"], latency.bucket_counts, latency.explicit_bounds) == (3, [1, 2], [10.0])
    assert (half.kind, half.is_monotonic, half.value, half.int_value) == ("sum", True, 0.5, None)
    assert half.attributes == {"code": "200"}
    assert (seven.value, seven.int_value, seven.attributes) == (7.0, 7, {})
    assert seven.exemplars == []


def test_a_query_that_died_goes_on_and_only_what_it_committed_is_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "out")}
    ours = {"subscriber": "lake", "sink": places["path"], "maxSegmentsPerTrigger": "1"}
    ours["checkpointLocation"] = places["checkpointLocation"]
    with quiver.open(tmp_path / "store", slots=TELEMETRY, core=0, worker=False) as opened:
        keep_logs(opened)

        def run(body: str) -> None:
            logs = otel.logs(spark, tmp_path / "store", stream=True, **ours).selectExpr(body)
            writer = logs.writeStream.format("parquet").options(**places)
            query = writer.trigger(availableNow=True).start()
            assert query.awaitTermination(60)

        def left() -> int:
            opened.maintain()
            return opened.info().segments

        with pytest.raises(StreamingQueryException, match="a kill"):
            run("if(body = 'line 35', raise_error('a kill'), body) as body")
        assert left() == 1, "the first batch is committed, the second was cut off"
        run("body")
        assert left() == 0
    found = sorted(row.body for row in spark.read.parquet(places["path"]).collect())
    assert found == sorted(f"line {number}" for number in range(40))


def test_what_cannot_be_read_so_is_said(page: dict[str, Any], store: Path, tmp_path: Path) -> None:
    def asked(path: Path, **options: str) -> None:
        otel.TelemetryDataSource({"path": str(path), "rows": "logs", **options})

    quiver.open(tmp_path / "other", slots=["a"]).close()
    with pytest.raises(ConfigError, match="it is none of telemetry"):
        asked(tmp_path / "other")
    with pytest.raises(ConfigError, match="no option 'columns'"):
        asked(store, columns="body")
    with pytest.raises(ConfigError, match="rows"):
        asked(store, rows="all")
    with pytest.raises(InputError, match="a stream never has"):
        otel.span_tree(page["coming"])


def test_columns_of_the_page_are_those_there_are() -> None:
    page = (Path(otel.__file__).parents[1] / "OTEL.md").read_text()
    shared = {"resource", "scope_attributes", "resource_schema_url", "scope_name"}
    shared |= {"scope_version", "schema_url"}
    for rows, schema in SCHEMAS.items():
        (line,) = re.findall(rf"^\| `{rows}` \| (.*) \|$", page, re.MULTILINE)
        assert {*re.findall(r"`(\w+)`", line)} == {*schema.names} - shared
