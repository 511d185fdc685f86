"""A web shop as people have them: Flask, sqlite3, logging and requests, instrumented by what
OpenTelemetry has for them, in a process of its own, since instrumentations are of a whole process.

    python instrumented_app.py GRPC_PORT HTTP_PORT REQUEST_COUNT

says ``half`` when half of the requests are done, and at the end, as JSON, what was taken.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

PATIENCE = 60


def noting(exporter: Any, keys: Callable[[Any], Iterator[Any]]) -> tuple[Any, list[Any]]:
    """Have an exporter note the keys of what it was told to be taken."""
    taken: list[Any] = []
    export = exporter.export

    def noted(batch: Any, *args: Any, **more: Any) -> Any:
        result = export(batch, *args, **more)
        if result.name == "SUCCESS":
            taken.extend(keys(batch))
        return result

    exporter.export = noted
    return exporter, taken


def of_spans(spans: Any) -> Iterator[str]:
    for span in spans:
        yield format(span.context.span_id, "016x")


def of_logs(records: Any) -> Iterator[str]:
    for record in records:
        yield record.log_record.body


def of_points(data: Any) -> Iterator[tuple[str, int]]:
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    yield metric.name, point.time_unix_nano


def telemetry(grpc_port: int, http_port: int) -> tuple[list[Any], dict[str, list[Any]]]:
    """Make providers, spans and metrics by gRPC, logs by HTTP, and instrument what there is."""
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.instrumentation.logging import LoggingInstrumentor
    from opentelemetry.instrumentation.requests import RequestsInstrumentor
    from opentelemetry.instrumentation.sqlite3 import SQLite3Instrumentor
    from opentelemetry.instrumentation.system_metrics import SystemMetricsInstrumentor
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "shop"})
    options = {"endpoint": f"127.0.0.1:{grpc_port}", "insecure": True, "timeout": PATIENCE}
    url = f"http://127.0.0.1:{http_port}/v1/logs"
    spans, span_ids = noting(OTLPSpanExporter(**options), of_spans)
    metrics, points = noting(OTLPMetricExporter(**options), of_points)
    logs, bodies = noting(OTLPLogExporter(endpoint=url, timeout=PATIENCE), of_logs)
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=100))
    loggers = LoggerProvider(resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs, schedule_delay_millis=100))
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=300)
    meters = MeterProvider([reader], resource)
    set_logger_provider(loggers)  # LoggingInstrumentor looks nowhere else.
    logging.getLogger().setLevel(logging.INFO)
    LoggingInstrumentor().instrument(tracer_provider=tracers)
    for kind in (SQLite3Instrumentor, RequestsInstrumentor, SystemMetricsInstrumentor):
        kind().instrument(tracer_provider=tracers, meter_provider=meters)
    taken = {"spans": span_ids, "logs": bodies, "points": points}
    return [tracers, loggers, meters], taken


def shop(tracers: Any, meters: Any) -> Any:
    """An app that writes orders into a table; every seventh fails."""
    from flask import Flask
    from opentelemetry.instrumentation.flask import FlaskInstrumentor

    app = Flask("shop")
    FlaskInstrumentor().instrument_app(app, tracer_provider=tracers, meter_provider=meters)
    table = sqlite3.connect(":memory:", check_same_thread=False)
    table.cursor().execute("create table orders (number integer, who text)")

    @app.get("/order/<int:number>")
    def order(number: int) -> dict[str, int]:
        rows = table.cursor()  # What a connection executes by itself is not traced.
        rows.execute("insert into orders values (?, ?)", (number, f"user {number % 5}"))
        if number % 7 == 0:
            app.logger.error("order %d failed", number, extra={"stock": [0, None, "none"]})
            raise ValueError(number)
        more = {"user": f"u{number % 5}"} if number % 2 else {"total": number / 4}
        app.logger.warning("order %d", number, extra=more)
        return {"count": rows.execute("select count(*) from orders").fetchone()[0]}

    return app


def main(grpc_port: int, http_port: int, count: int) -> None:
    providers, taken = telemetry(grpc_port, http_port)
    tracers, _, meters = providers
    import requests
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, shop(tracers, meters), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with requests.Session() as calls:
        for number in range(count):
            if number == count // 3:
                flushed = [provider.force_flush(PATIENCE * 1000) for provider in providers]
                assert all(flushed)
            if number == count // 2:
                tell("half")
            answer = calls.get(f"http://127.0.0.1:{server.port}/order/{number}", timeout=PATIENCE)
            assert answer.status_code == (500 if number % 7 == 0 else 200)
    server.shutdown()
    thread.join()
    server.server_close()
    for provider in providers:
        assert provider.force_flush(PATIENCE * 1000)
        provider.shutdown()
    tell(json.dumps(taken))


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
