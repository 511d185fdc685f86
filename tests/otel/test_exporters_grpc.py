"""OTLP over gRPC, against the services of opentelemetry-proto on a real server."""

from __future__ import annotations

import pytest
from otlp_sinks import Answer, GrpcSink, grpc_sink, logs_batch, metrics_batch, spans_batch

from quiver.otel.batch import Batch, of_request
from quiver.otel.exporters.endpoint import Endpoint, OtlpOptions
from quiver.otel.exporters.otlp_grpc import OtlpGrpcExporter
from quiver.otel.exporters.requests import joined
from quiver.otel.nodes import Accepted, Delivered, Outcome, Refused, Retry
from quiver.otel.signals import Signal
from quiver.units import SECOND


def send(sink: GrpcSink, *batches: Batch, **options: object) -> list[Outcome]:
    where = Endpoint.parse(f"127.0.0.1:{sink.port}", port=4317)
    exporter = OtlpGrpcExporter(OtlpOptions(endpoint=where, **options), joined)  # type: ignore[arg-type]
    try:
        return list(exporter.export([Delivered(batch, None) for batch in batches]))
    finally:
        exporter.close()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_each_signal_goes_to_its_service_with_its_bytes(compression: str) -> None:
    batches = [logs_batch("a", "b"), spans_batch("s"), metrics_batch("m", "n")]
    with grpc_sink() as sink:
        found = send(sink, *batches, compression=compression, headers={"X-Tenant": "blue"})
    assert found == [Accepted(), Accepted(), Accepted()]
    came = {signal: request.SerializeToString() for signal, request in sink.came}
    assert came == {str(batch.signal): joined(batch) for batch in batches}
    assert all(metadata["x-tenant"] == "blue" for metadata in sink.metadata)


def test_requests_of_one_batch_become_one_request() -> None:
    import pyarrow as pa

    from quiver.bundle import RecordBundle

    two = [logs_batch("a"), logs_batch("b", "c")]
    slot = pa.concat_batches([each.bundle["otlp_logs"] for each in two])
    with grpc_sink() as sink:
        assert send(sink, Batch(Signal.LOGS, RecordBundle({"otlp_logs": slot}))) == [Accepted()]
    assert sink.texts == ["a", "b", "c"]
    assert len(sink.came) == 1


@pytest.mark.parametrize(
    "answer, expected",
    [
        (Answer("UNAVAILABLE", "busy", 2.5), Retry("UNAVAILABLE: busy", 2.5)),
        (Answer("UNAVAILABLE"), Retry("UNAVAILABLE")),
        (Answer("UNAVAILABLE", "", 1e6), Retry("UNAVAILABLE", 300.0)),
        (Answer("UNAVAILABLE", "", -5.0), Retry("UNAVAILABLE", 0.0)),
        (Answer("RESOURCE_EXHAUSTED", "full", 1.0), Retry("RESOURCE_EXHAUSTED: full", 1.0)),
        (Answer("RESOURCE_EXHAUSTED", "too large"), Refused("RESOURCE_EXHAUSTED: too large")),
        (Answer("INVALID_ARGUMENT", "no\x1b[2J"), Refused("INVALID_ARGUMENT: no [2J")),
        (Answer("INTERNAL"), Refused("INTERNAL")),
        (Answer("UNKNOWN", "x"), Refused("UNKNOWN: x")),
        (Answer("UNAUTHENTICATED"), Retry("UNAUTHENTICATED")),
        (Answer("PERMISSION_DENIED"), Retry("PERMISSION_DENIED")),
        (Answer("UNIMPLEMENTED"), Retry("UNIMPLEMENTED")),
        *(
            (Answer(code), Retry(code))
            for code in ("CANCELLED", "ABORTED", "OUT_OF_RANGE", "DATA_LOSS", "DEADLINE_EXCEEDED")
        ),
        (Answer(rejected=3, message="odd"), Accepted(3, "odd")),
        (Answer(message="be careful"), Accepted(0, "be careful")),
    ],
)
def test_an_answer_becomes_what_the_specification_says(answer: Answer, expected: Outcome) -> None:
    with grpc_sink(answer) as sink:
        assert send(sink, logs_batch("a")) == [expected]


def test_a_slow_answer_and_no_server_at_all_are_tried_again() -> None:
    with grpc_sink(Answer(hangs=True)) as sink:
        (late,) = send(sink, logs_batch("a"), timeout=SECOND // 10)
    assert isinstance(late, Retry)
    assert late.reason.startswith("DEADLINE_EXCEEDED")
    (gone,) = send(sink, logs_batch("a"))
    assert isinstance(gone, Retry)
    assert gone.reason.startswith("UNAVAILABLE")


def test_batches_of_one_call_are_under_way_together() -> None:
    hang = Answer(hangs=True)
    with grpc_sink(hang, hang, Answer("INVALID_ARGUMENT"), Answer()) as sink:
        batches = [logs_batch(str(n)) for n in range(4)]
        found = send(sink, *batches, timeout=SECOND // 5, in_flight=4)
    kinds = sorted(type(outcome).__name__ for outcome in found)
    assert kinds == ["Accepted", "Refused", "Retry", "Retry"]


def test_an_answer_of_any_length_costs_no_more_than_the_limit_and_was_a_success() -> None:
    with grpc_sink(Answer(message="x" * 100_000)) as sink:
        (found,) = send(sink, logs_batch("a"), answer_bytes=1000)
    assert found == Accepted(reason="the answer was too long to be read")


def test_what_the_other_side_repeats_of_a_secret_is_not_told() -> None:
    headers = {"Authorization": "Bearer s3cr3t-token"}
    with grpc_sink(Answer("UNAUTHENTICATED", "bad token s3cr3t-token")) as sink:
        (found,) = send(sink, logs_batch("a"), headers=headers)
    assert found == Retry("UNAUTHENTICATED: bad token ***")
    where = Endpoint.parse("http://me:pass-word@h:1", port=4317)
    options = OtlpOptions(endpoint=where, headers=headers)
    assert "s3cr3t" not in repr(options)
    assert "pass-word" not in repr(options)


def test_what_cannot_be_encoded_is_refused_alone() -> None:
    arrow = of_request(Signal.LOGS, b"", 0)
    broken = Batch(Signal.TRACES, arrow.bundle)
    with grpc_sink() as sink:
        first, second = send(sink, broken, logs_batch("a"))
    assert isinstance(first, Refused)
    assert second == Accepted()
