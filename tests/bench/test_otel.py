"""Requests of ``make bench-otel`` are what they are said to be."""

from __future__ import annotations

from otlp_model import parse

from bench.otel.requests import BODY_BYTES, log_request, metric_request, number_in, span_request
from quiver.otel.otlp import count, decode, encode
from quiver.otel.signals import Signal


def test_a_request_is_known_by_its_number_however_it_was_encoded_since() -> None:
    for signal, template in (
        (Signal.LOGS, log_request(20)),
        (Signal.TRACES, span_request(20)),
        (Signal.METRICS, metric_request(20)),
    ):
        request = template.numbered(0xABC)
        assert number_in(request) == number_in(template.numbered(7)) + 0xABC - 7
        (batch,) = decode(signal, request)
        assert number_in(encode(batch)) == 0xABC
        assert count(signal, request) == count(signal, template.request)


def test_log_records_have_five_attributes_and_a_body_of_a_hundred_bytes() -> None:
    found = parse(Signal.LOGS, log_request(20).numbered(1))
    records = found.resource_logs[0].scope_logs[0].log_records
    assert len(records) == 20
    assert {len(record.attributes) for record in records} == {5}
    assert {len(record.body.string_value) for record in records} == {BODY_BYTES}
