"""A program that others instrument, through ``quiver run`` that is killed, to Parquet and OTLP.

QUIVER_SDK_REQUESTS says how many requests the program serves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from otlp_sinks import GrpcSink, grpc_sink
from run_child import RunChild, free_port

REQUESTS = int(os.environ.get("QUIVER_SDK_REQUESTS", "200"))
APP = Path(__file__).parents[1] / "kit" / "instrumented_app.py"
PLACE = ["core", "segment_seq", "bundle_index", "part"]

HEAD = """\
service: {{drain_timeout: 30s}}
nodes:
  in:
    kind: receiver
    plugin_urn: urn:otel:otlp:receiver
    out_ports: {{out_port: {{destinations: [pass_through, convert_to_arrow]}}}}
    config:
      protocols:
        grpc: {{listening_addr: "127.0.0.1:{0}"}}
        http: {{listening_addr: "127.0.0.1:{1}"}}
"""
STORE = """\
  {0}:
    kind: processor
    plugin_urn: urn:otap:processor:persistence
    out_ports: {{out_port: {{destinations: [lake_{0}, otlp_{0}]}}}}
    config: {{path: data_{0}, otlp_handling: {0}}}
  lake_{0}:
    kind: exporter
    plugin_urn: urn:otel:parquet:exporter
    config: {{path: lake_{0}}}
  otlp_{0}:
    kind: exporter
    plugin_urn: urn:otel:otlp:exporter
    config: {{grpc_endpoint: "http://127.0.0.1:{1}", retry.initial_interval: 50ms}}
"""


def in_otlp(sink: GrpcSink) -> dict[str, Counter[Any]]:
    """What came to a sink, by the same keys as the program's."""
    found: dict[str, Counter[Any]] = {"spans": Counter(), "logs": Counter(), "points": Counter()}
    for signal, request in sink.came:
        if signal == "traces":
            scopes = [scope for one in request.resource_spans for scope in one.scope_spans]
            found["spans"].update(span.span_id.hex() for scope in scopes for span in scope.spans)
        elif signal == "logs":
            scopes = [scope for one in request.resource_logs for scope in one.scope_logs]
            records = [record for scope in scopes for record in scope.log_records]
            found["logs"].update(record.body.string_value for record in records)
        else:
            scopes = [scope for one in request.resource_metrics for scope in one.scope_metrics]
            for metric in (metric for scope in scopes for metric in scope.metrics):
                points = getattr(metric, metric.WhichOneof("data")).data_points
                found["points"].update((metric.name, point.time_unix_nano) for point in points)
    return found


def rows(lake: Path, table: str) -> list[dict[str, Any]]:
    """The rows of a table, times as numbers of nanoseconds."""
    found = ds.dataset(lake / table, partitioning="hive").to_table()
    for field in found.schema:
        if pa.types.is_timestamp(field.type):
            whole = found[field.name].cast(pa.int64())
            rest = found[f"{field.name}_rest"] if f"{field.name}_rest" in found.schema.names else 0
            time = pc.add(pc.multiply(whole, 1000), rest)
            found = found.set_column(found.schema.get_field_index(field.name), field.name, time)
    return found.to_pylist()


def in_lake(lake: Path) -> dict[str, Counter[Any]]:
    """The same of the tables; no row may be there twice."""
    spans, logs = rows(lake, "spans"), rows(lake, "logs")
    for table in (spans, logs):
        assert len({str(row) for row in table}) == len(table)
    metrics = {
        (*(row[name] for name in PLACE), row["id"]): row["name"]
        for row in rows(lake, "univariate_metrics")
    }
    points = Counter(
        (metrics[(*(row[name] for name in PLACE), row["parent_id"])], row["time_unix_nano"])
        for table in lake.glob("*_data_points")
        for row in rows(lake, table.name)
    )
    return {
        "spans": Counter(row["span_id"].hex() for row in spans),
        "logs": Counter(row["body"]["str"] for row in logs),
        "points": points,
    }


def served(path: Path, ports: tuple[int, int]) -> tuple[dict[str, Any], int]:
    """Run the program against ``quiver run``, killed when half is done; give what was taken."""
    command = [sys.executable, str(APP), *map(str, ports), str(REQUESTS)]
    with path.with_suffix(".app").open("w") as errors, RunChild(path) as first:
        first.wait_for("ready")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as app:
            try:
                assert app.stdout is not None
                assert app.stdout.readline() == "half\n", Path(errors.name).read_text()
                first.kill()
                with RunChild(path) as second:
                    second.wait_for("ready")
                    said, _ = app.communicate(timeout=120)
                    assert app.returncode == 0, Path(errors.name).read_text()
                    assert second.terminate() == 0
                    behind = second.wait_for("ended")["behind_exporter_count"]
            finally:
                app.kill()
    return json.loads(said), behind


@pytest.mark.timeout(240)
def test_all_that_an_instrumented_program_sent_is_in_both_sinks(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    path = tmp_path / "pipeline.yaml"
    handlings = ("pass_through", "convert_to_arrow")
    with grpc_sink() as kept, grpc_sink() as made:
        sinks = dict(zip(handlings, (kept, made), strict=True))
        path.write_text(
            HEAD.format(*ports) + "".join(STORE.format(each, sinks[each].port) for each in sinks)
        )
        taken, behind = served(path, ports)
    assert behind == 0
    sent = {
        "spans": Counter(taken["spans"]),
        "logs": Counter(taken["logs"]),
        "points": Counter((name, time) for name, time in taken["points"]),
    }
    orders = {f"order {n}{' failed' if n % 7 == 0 else ''}" for n in range(REQUESTS)}
    assert orders <= set(sent["logs"])
    assert len(sent["spans"]) >= 3 * REQUESTS
    assert len({name for name, _ in sent["points"]}) > 20
    for handling, sink in sinks.items():
        otlp, lake = in_otlp(sink), in_lake(tmp_path / f"lake_{handling}")
        for kind, expected in sent.items():
            missing = expected - otlp[kind], expected - lake[kind]
            assert missing == (Counter(), Counter()), (handling, kind)
            assert set(otlp[kind]) == set(lake[kind]), (handling, kind)
            assert not lake[kind] - otlp[kind], (handling, kind)
            # A batch that a store took, whose answer was cut off, is sent to it once more.
            again, twice = lake[kind] - expected, otlp[kind] - lake[kind]
            sys.stdout.write(f"{handling}, {kind}: {expected.total()} taken, ")
            sys.stdout.write(f"{again.total()} sent again, {twice.total()} twice by OTLP alone\n")
