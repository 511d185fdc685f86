"""OTLP over HTTP, against a server that answers as a test says."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from otlp_sinks import (
    HttpAnswer,
    HttpSink,
    http_sink,
    log_texts,
    logs_batch,
    metrics_batch,
    spans_batch,
)

from quiver.errors import ConfigError, StorageError
from quiver.otel.batch import Batch
from quiver.otel.exporters.endpoint import Endpoint, OtlpOptions, Tls
from quiver.otel.exporters.otlp_http import OtlpHttpExporter
from quiver.otel.exporters.requests import joined
from quiver.otel.nodes import Accepted, Delivered, Outcome, Refused, Retry
from quiver.testing import ManualClock
from quiver.units import SECOND

PROTO = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json; charset=utf-8"}


def send(sink: HttpSink, *batches: Batch, path: str = "", **options: object) -> list[Outcome]:
    where = Endpoint.parse(f"http://127.0.0.1:{sink.port}{path}", port=4318)
    given = OtlpOptions(endpoint=where, **options)  # type: ignore[arg-type]
    exporter = OtlpHttpExporter(given, joined, clock=ManualClock())
    try:
        return list(exporter.export([Delivered(batch, None) for batch in batches]))
    finally:
        exporter.close()


def partial(rejected: int, message: str) -> bytes:
    response = ExportLogsServiceResponse()
    response.partial_success.rejected_log_records = rejected
    response.partial_success.error_message = message
    return response.SerializeToString()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_each_signal_goes_to_its_path_with_its_bytes(compression: str) -> None:
    batches = [logs_batch("a" * 1000), spans_batch("s"), metrics_batch("m")]
    with http_sink() as sink:
        found = send(sink, *batches, path="/otlp/", compression=compression, headers={"X-A": "b"})
    assert found == [Accepted()] * 3
    came = {path: body for path, _, body in sink.came}
    assert came == {f"/otlp/v1/{batch.signal}": joined(batch) for batch in batches}
    headers = [headers for _, headers, _ in sink.came]
    assert all(each["content-type"] == "application/x-protobuf" for each in headers)
    assert all(each["x-a"] == "b" for each in headers)


@pytest.mark.parametrize(
    "answer, expected",
    [
        (HttpAnswer(body=partial(2, "old")), Accepted(2, "old")),
        (HttpAnswer(body=partial(-2, "")), Accepted()),
        (HttpAnswer(204, {}), Accepted()),
        (HttpAnswer(headers=JSON, body=b"{}"), Accepted()),
        (
            HttpAnswer(
                headers=JSON,
                body=b'{"partialSuccess":{"rejectedLogRecords":"4","errorMessage":"e"}}',
            ),
            Accepted(4, "e"),
        ),
        (HttpAnswer(headers=JSON, body=b"[1"), Accepted(reason="the answer could not be read")),
        (HttpAnswer(body=b"\x0a\xff"), Accepted(reason="the answer could not be read")),
        (
            HttpAnswer(headers={"content-type": "text/html"}, body=b"<html>log in"),
            Retry("the answer is text/html, not OTLP"),
        ),
        (HttpAnswer(429, {"retry-after": "7"}), Retry("status 429", 7.0)),
        (HttpAnswer(503, {"retry-after": "999999999999"}), Retry("status 503", 300.0)),
        (HttpAnswer(503, {"retry-after": "tomorrow"}), Retry("status 503")),
        (
            HttpAnswer(503, {"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}),
            Retry("status 503", 10.0),
        ),
        (HttpAnswer(502), Retry("status 502")),
        (HttpAnswer(504), Retry("status 504")),
        (HttpAnswer(500), Refused("status 500")),
        (HttpAnswer(400, PROTO, b"\x08\x03\x12\x03bad"), Refused("status 400: bad")),
        (HttpAnswer(413, {"content-type": "text/plain"}, b"big\n!"), Refused("status 413: big !")),
        (HttpAnswer(401), Retry("status 401")),
        (HttpAnswer(403), Retry("status 403")),
        (HttpAnswer(404), Retry("status 404")),
        (
            HttpAnswer(307, {"location": "http://elsewhere/"}),
            Retry("status 307: it is moved, and nobody follows with credentials"),
        ),
    ],
)
def test_an_answer_becomes_what_the_specification_says(
    answer: HttpAnswer, expected: Outcome
) -> None:
    with http_sink(answer) as sink:
        assert send(sink, logs_batch("a")) == [expected]
        assert len(sink.came) == 1


def test_a_dropped_connection_a_slow_answer_and_no_server_are_tried_again() -> None:
    with http_sink(HttpAnswer(drops=True), HttpAnswer(hangs=True)) as sink:
        (dropped,) = send(sink, logs_batch("a"))
        (late,) = send(sink, logs_batch("a"), timeout=SECOND // 10)
    (gone,) = send(sink, logs_batch("a"))
    assert [type(each) for each in (dropped, late, gone)] == [Retry] * 3


def test_an_answer_that_comes_byte_by_byte_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quiver.otel.exporters.otlp_http._GRACE", 0.1)
    with http_sink(HttpAnswer(drips=True)) as sink:
        (found,) = send(sink, logs_batch("a"), timeout=SECOND // 5)
        assert isinstance(found, Retry)
        assert not sink.released.is_set()


def test_a_long_answer_is_not_read_to_its_end() -> None:
    with http_sink(HttpAnswer(body=b"x" * 300_000), HttpAnswer(400, {}, b"x" * 300_000)) as sink:
        first, second = (send(sink, logs_batch("a"), answer_bytes=1000)[0] for _ in range(2))
    assert first == Accepted(reason="the answer was too long to be read")
    assert second == Refused("status 400")


def test_many_go_at_once_and_come_back_in_order() -> None:
    answers = [HttpAnswer(429), *(HttpAnswer() for _ in range(30))]
    with http_sink(*answers) as sink:
        found = send(sink, *(logs_batch(str(n)) for n in range(31)), in_flight=4)
        refused = [log_texts(body)[0] for _, _, body in sink.came[:1]]
    assert [n for n, each in enumerate(found) if each != Accepted()] == [int(refused[0])]


def test_who_stands_in_the_address_is_told_as_a_header_and_to_nobody_else() -> None:
    with http_sink(HttpAnswer(401, {"content-type": "text/plain"}, b"no me:word-1 here")) as sink:
        where = Endpoint.parse(f"http://me:word-1@127.0.0.1:{sink.port}", port=1)
        exporter = OtlpHttpExporter(OtlpOptions(endpoint=where), joined, clock=ManualClock())
        (found,) = exporter.export([Delivered(logs_batch("a"), None)])
        exporter.close()
    assert sink.came[0][1]["authorization"] == "Basic bWU6d29yZC0x"
    assert found == Retry("status 401: no *** here")
    assert "word-1" not in repr(exporter) + where.shown


@pytest.mark.parametrize(
    "text", ["", "http://", "ftp://h:1", "http://h:99999", "http://h:x", "http://h:0", "h:1?a=b"]
)
def test_what_is_no_address_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Endpoint.parse(text.replace("h:", "me:secret@h:"), port=4318)
    assert "secret" not in str(caught.value)


def test_addresses_are_read() -> None:
    shown = [
        Endpoint.parse(text, port=4318).shown
        for text in ("h", "h:1/", "https://[::1]/a/b/", "grpcs://u:p@h:2")
    ]
    assert shown == ["http://h:4318", "http://h:1", "https://[::1]:4318/a/b", "https://h:2"]


def test_headers_and_files_that_cannot_be_are_refused_at_once(tmp_path: object) -> None:
    where = Endpoint.parse("https://h:1", port=1)
    with pytest.raises(ConfigError):
        OtlpOptions(endpoint=where, headers={"a": "b\r\nc: d"})
    for name in ("Content-Length", "grpc-timeout", "x-bin", "Host"):
        with pytest.raises(ConfigError):
            OtlpOptions(endpoint=where, headers={name: "1"})
    with pytest.raises(ConfigError):
        Tls(cert_file="a")
    with pytest.raises(StorageError):
        OtlpHttpExporter(
            OtlpOptions(endpoint=where, tls=Tls(ca_file=f"{tmp_path}/no")),
            joined,
            clock=ManualClock(),
        )


def test_a_token_is_read_anew_for_each_call_and_told_to_nobody(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first-token\n")
    refused = HttpAnswer(401, {"content-type": "text/plain"}, b"second-token is old")
    with http_sink(HttpAnswer(), refused) as sink:
        where = Endpoint.parse(f"127.0.0.1:{sink.port}", port=1)
        options = OtlpOptions(endpoint=where, token_file=str(file))
        exporter = OtlpHttpExporter(options, joined, clock=ManualClock())
        exporter.export([Delivered(logs_batch("a"), None)])
        file.write_text("second-token")
        (found,) = exporter.export([Delivered(logs_batch("a"), None)])
        exporter.close()
    told = [headers["authorization"] for _, headers, _ in sink.came]
    assert told == ["Bearer first-token", "Bearer second-token"]
    assert found == Retry("status 401: *** is old")
    file.write_text("")
    with pytest.raises(ConfigError):
        OtlpOptions(endpoint=where, token_file=str(file))
