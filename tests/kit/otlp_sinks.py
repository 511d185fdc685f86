"""Receivers of OTLP that answer as a test says: a server of gRPC with the services of
opentelemetry-proto, and one of HTTP."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2, logs_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from quiver.otel.batch import Batch, of_request
from quiver.otel.signals import Signal

CODES = {code.name: code for code in grpc.StatusCode}


def logs_request(*texts: str) -> bytes:
    """An export request with a log record for each text."""
    request = logs_service_pb2.ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for text in texts:
        record = records.add(time_unix_nano=1_700_000_000_000_000_000, severity_number=9)
        record.body.string_value = text
    return request.SerializeToString()


def log_texts(request: bytes) -> list[str]:
    """The bodies in an export request."""
    found = logs_service_pb2.ExportLogsServiceRequest.FromString(request)
    return [
        record.body.string_value
        for resource in found.resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def logs_batch(*texts: str) -> Batch:
    return of_request(Signal.LOGS, logs_request(*texts), len(texts))


def spans_batch(*names: str) -> Batch:
    request = trace_service_pb2.ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for name in names:
        spans.add(name=name, trace_id=b"t" * 16, span_id=b"s" * 8)
    return of_request(Signal.TRACES, request.SerializeToString(), len(names))


def metrics_batch(*names: str) -> Batch:
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for name in names:
        metrics.add(name=name).gauge.data_points.add(as_int=1)
    return of_request(Signal.METRICS, request.SerializeToString(), len(names))


@dataclass
class Answer:
    """What a sink answers: a status, or what it accepts but for some items."""

    code: str = "OK"
    details: str = ""
    retry_after: float | None = None
    rejected: int = 0
    message: str = ""
    hangs: bool = False


@dataclass
class GrpcSink:
    """What came, as (signal, request), and the answers for what comes; then all is accepted."""

    port: int = 0
    came: list[tuple[str, Any]] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    server: Any = None

    @property
    def texts(self) -> list[str]:
        return [
            text
            for signal, request in list(self.came)
            if signal == "logs"
            for text in log_texts(request.SerializeToString())
        ]

    def answer(self, signal: str, request: Any, context: Any, response: Any) -> Any:
        with self.lock:
            answer = self.answers.pop(0) if self.answers else Answer()
            self.metadata.append(dict(context.invocation_metadata()))
            if answer.code == "OK":
                self.came.append((signal, request))
        if answer.hangs:
            self.released.wait(60)
        if answer.code != "OK":
            if answer.retry_after is not None:
                status = status_pb2.Status(code=CODES[answer.code].value[0])
                info = error_details_pb2.RetryInfo()
                info.retry_delay.FromNanoseconds(int(answer.retry_after * 1e9))
                status.details.add().Pack(info)
                context.set_trailing_metadata(
                    [("grpc-status-details-bin", status.SerializeToString())]
                )
            context.abort(CODES[answer.code], answer.details)
        if answer.rejected or answer.message:
            part = response.partial_success
            part.error_message = answer.message
            name = {"logs": "log_records", "traces": "spans", "metrics": "data_points"}[signal]
            setattr(part, f"rejected_{name}", answer.rejected)
        return response


@contextmanager
def grpc_sink(
    *answers: Answer, port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> Iterator[GrpcSink]:
    """Serve on loopback for the length of a block."""
    sink = GrpcSink(answers=list(answers))

    def servicer(base: type, signal: str, response: Callable[[], Any]) -> Any:
        def export(self: object, request: Any, context: Any) -> Any:
            return sink.answer(signal, request, context, response())

        return type("Servicer", (base,), {"Export": export})()

    threads = ThreadPoolExecutor(8)
    server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(
        servicer(
            logs_service_pb2_grpc.LogsServiceServicer,
            "logs",
            logs_service_pb2.ExportLogsServiceResponse,
        ),
        server,
    )
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(
        servicer(
            trace_service_pb2_grpc.TraceServiceServicer,
            "traces",
            trace_service_pb2.ExportTraceServiceResponse,
        ),
        server,
    )
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(
        servicer(
            metrics_service_pb2_grpc.MetricsServiceServicer,
            "metrics",
            metrics_service_pb2.ExportMetricsServiceResponse,
        ),
        server,
    )
    where = f"127.0.0.1:{port}"
    if credentials is None:
        sink.port = server.add_insecure_port(where)
    else:
        sink.port = server.add_secure_port(where, credentials)
    server.start()
    sink.server = server
    try:
        yield sink
    finally:
        sink.released.set()
        server.stop(0).wait(10)
        threads.shutdown()


@dataclass
class HttpAnswer:
    """What a sink of HTTP answers. ``drops``: it closes the connection instead."""

    status: int = 200
    headers: dict[str, str] = field(
        default_factory=lambda: {"content-type": "application/x-protobuf"}
    )
    body: bytes = b""
    drops: bool = False
    hangs: bool = False
    drips: bool = False
    """A header without an end, a byte at a time."""


@dataclass
class HttpSink:
    """What came, as (path, headers, body), and the answers for what comes."""

    port: int = 0
    came: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[HttpAnswer] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def http_sink(*answers: HttpAnswer) -> Iterator[HttpSink]:
    """Serve on loopback for the length of a block."""
    sink = HttpSink(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {name.lower(): value for name, value in self.headers.items()}
            with sink.lock:
                sink.came.append((self.path, headers, body))
                answer = sink.answers.pop(0) if sink.answers else HttpAnswer()
            if answer.hangs:
                sink.released.wait(60)
            while answer.drips and not sink.released.wait(0.02):
                try:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nx: " if answer.status else b"y")
                except OSError:
                    break
                answer.status = 0
            if answer.drops or answer.drips or answer.hangs:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    sink.port = server.server_port
    try:
        yield sink
    finally:
        sink.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
