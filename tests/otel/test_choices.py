"""Of fields that exclude each other the last one counts, as in libraries of protobuf."""

from __future__ import annotations

import itertools

import pytest
from google.protobuf.message import DecodeError, Message
from otlp_model import SHAPES, assert_same, parse, trimmed

from quiver.errors import InputError
from quiver.otel.otlp import decode, encode
from quiver.otel.signals import Signal


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


def metrics(*each: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, metric) for metric in each)))


def spans(*each: bytes) -> bytes:
    return field(1, field(2, b"".join(field(2, span) for span in each)))


def check(signal: Signal, data: bytes) -> None:
    (batch,) = decode(signal, data)
    assert_same(parse(signal, encode(batch)), trimmed(parse(signal, data)))


def written(message: Message) -> bytes:
    return message.SerializeToString()


KINDS = {
    5: b"\x0a\x09\x19\x01\x00\x00\x00\x00\x00\x00\x00",  # A gauge of one point.
    7: b"\x0a\x00\x10\x02\x18\x01",  # A sum of one point, cumulative and monotonic.
    9: b"\x0a\x00\x10\x01",  # A histogram of one point, of deltas.
    10: b"\x0a\x02\x42\x00",  # An exponential histogram of one point with positive buckets.
    11: b"\x0a\x00\x0a\x00",  # A summary of two points.
}


@pytest.mark.parametrize("first", KINDS)
def test_the_last_kind_of_a_metric_counts(first: int):
    told = [
        b"".join(field(number, KINDS[number]) for number in (first, *others))
        for length in range(3)
        for others in itertools.product(KINDS, repeat=length)
    ]
    check(Signal.METRICS, metrics(*told))


@pytest.mark.parametrize("bad", [b"\x0a\x01\x19", b"\x0a\x04\x3a\x02\x0a\x05", b"\x19"])
def test_what_counts_no_more_must_be_well_formed(bad: bytes):
    data = metrics(field(5, bad) + field(7, b""))
    with pytest.raises(DecodeError):
        parse(Signal.METRICS, data)
    with pytest.raises(InputError):
        decode(Signal.METRICS, data)


def test_a_kind_in_parts_is_one():
    sum_in_parts = field(7, b"\x0a\x00") + field(7, b"\x10\x02") + field(7, b"\x0a\x00\x18\x01")
    check(Signal.METRICS, metrics(sum_in_parts, field(7, b"\x10\x01") + field(7, b"\x10\x00")))


AS_DOUBLE, AS_INT = b"\x21" + b"\x00" * 8, b"\x31" + b"\x07" * 8


@pytest.mark.parametrize(
    "values", [[AS_DOUBLE], [AS_INT], [AS_DOUBLE, AS_INT], [AS_INT, AS_DOUBLE]]
)
def test_the_last_value_of_a_point_counts(values):
    points = b"".join(field(1, b"".join(each)) for each in ([], values, [*values, *values]))
    check(Signal.METRICS, metrics(field(5, points)))


def test_parts_of_a_status_are_one():
    parts = field(15, b"\x12\x02no") + field(15, b"\x18\x02") + field(15, b"")
    check(Signal.TRACES, spans(parts, field(15, b""), b""))


@pytest.mark.parametrize("each", [[b""], [b"", field(15, b"")]], ids=["none", "empty"])
def test_a_status_that_says_nothing_is_one(each: list[bytes]):
    data = spans(*each)
    check(Signal.TRACES, data)
    (batch,) = decode(Signal.TRACES, data)
    assert ("status" in batch.bundle["spans"].schema.names) is (len(each) > 1)


@pytest.mark.parametrize("many", [1, 40], ids=["few", "many"])
def test_numbers_are_cut_as_the_library_cuts_them(many: int):
    wide = varint(2**64 - 1)
    told = [
        b"\x30" + wide,  # An enum of 64 bits.
        b"\x50" + wide,  # An uint32 of 64 bits.
        b"\x30\x02\x30\x00",  # The last one is the default.
        b"\x3a\x01x",  # A time that is a text is a field that nobody knows.
        b"\x39" + b"\xff" * 8 + b"\x41" + b"\x00" * 8,  # It ends long before it starts.
    ]
    data = spans(*told * many)
    request = parse(Signal.TRACES, data)
    (batch,) = decode(Signal.TRACES, data)
    found = parse(Signal.TRACES, encode(batch))
    request.DiscardUnknownFields()
    assert_same(found, request)


def test_zeros_that_are_told_are_not_those_that_are_not():
    request = SHAPES[Signal.METRICS].request()
    scope = request.resource_metrics.add().scope_metrics.add()
    points = scope.metrics.add().histogram.data_points
    points.add()
    points.add(sum=0.0, min=0.0, max=-0.0)
    points.add(min=0.0)
    scope.metrics.add().summary.data_points.add(sum=-0.0).quantile_values.add(quantile=-0.0)
    buckets = scope.metrics.add().exponential_histogram.data_points
    buckets.add()
    buckets.add().positive.SetInParent()
    buckets.add(zero_threshold=-0.0).negative.bucket_counts.extend([0])
    scope.metrics.add().SetInParent()
    scope.metrics.add().gauge.SetInParent()
    check(Signal.METRICS, written(request))
