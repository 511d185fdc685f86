"""What is around items is read once for many requests: as it is read of each alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from otlp_strategies import few, requests

from quiver.errors import InputError
from quiver.otel import Signal
from quiver.otel.otlp import Limits, decode
from quiver.otel.otlp.containers import Part, read_parts
from quiver.otel.otlp.senders import read_request
from quiver.otel.wire import Source, frame, take_apart

LOGS = Signal.LOGS
RECORD = frame(2, b"\x10\x09")


def told(parts: list[Part]) -> list[Any]:
    return [
        (
            part.items.owner.tolist(),
            part.items.start.tolist(),
            part.items.end.tolist(),
            [(name, column.type, column.to_pylist()) for name, column in part.around],
            [(name, column.type, column.to_pylist()) for name, column in part.ours],
            {
                slot: (batch.schema, repr(batch.to_pylist()))
                for slot, batch in part.payloads.items()
            },
        )
        for part in parts
    ]


def assert_read_alike(request: bytes, limits: Limits | None = None) -> None:
    limits = limits or Limits()
    whole = told(list(read_parts(Source(request), limits)))
    for _ in range(2):
        assert told(list(read_request(Source(request), limits))) == whole


def refusal(way: Any, request: bytes) -> str | None:
    try:
        list(way(Source(request), Limits()))
    except InputError as error:
        return error.message
    return None


@few
@given(st.sampled_from(Signal).flatmap(requests), st.integers(1, 4))
def test_requests_are_read_as_the_long_way_reads_them(request: Any, items: int) -> None:
    data = request.SerializeToString()
    assert_read_alike(data)
    assert_read_alike(data, Limits(batch_items=items))


@few
@given(requests(LOGS), st.data())
def test_broken_requests_are_refused_as_the_long_way_refuses_them(request: Any, data: Any) -> None:
    octets = bytearray(request.SerializeToString() or b"\x0a\x00")
    octets[data.draw(st.integers(0, len(octets) - 1))] ^= data.draw(st.integers(1, 255))
    refused = refusal(read_parts, bytes(octets))
    assert refusal(read_request, bytes(octets)) == refused
    if refused is None:
        assert_read_alike(bytes(octets))


@pytest.mark.parametrize("scopes", [1, 3, 24, 25, 60])
@pytest.mark.parametrize("resources", [1, 2, 30])
def test_few_and_many_senders(resources: int, scopes: int) -> None:
    scope = [
        frame(2, frame(1, frame(1, b"%d" % each)) + RECORD * (each % 3 + 1))
        for each in range(scopes)
    ]
    resource = frame(1, frame(1, frame(1, frame(1, b"key"))) + b"".join(scope))
    assert_read_alike(resource * resources)


@pytest.mark.parametrize(
    "scope",
    [
        b"",
        frame(1, b""),
        RECORD + frame(1, frame(1, b"late")) + RECORD,
        frame(1, frame(1, b"a")) + RECORD + frame(1, frame(2, b"more of it")),
        b"\x92\x00\x02\x10\x09" + RECORD,
        b"\x12\x82\x00\x10\x09" + RECORD,
        b"\x12\x82\x80\x80\x00\x10\x09" + RECORD,
        b"\x10\x07" + RECORD + b"\x7b\x08\x01\x7c" + RECORD,
        RECORD + frame(15, b"unknown") + frame(3, b"schema"),
        frame(2, b"\x1a\xa0\x01" + b"t" * 160) * 2,
    ],
)
def test_odd_ways_to_write_a_scope(scope: bytes) -> None:
    assert_read_alike(frame(1, frame(2, scope)))
    assert_read_alike(frame(1, frame(2, scope) + frame(1, b"") + frame(2, scope)))
    assert_read_alike(b"\x8a\x00" + frame(1, frame(2, scope))[1:] + frame(1, frame(2, scope)))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_scope_that_ends_too_early_is_told_where_it_lies(cut: int) -> None:
    good = frame(1, frame(2, frame(1, frame(1, b"a")) + RECORD))
    scope = frame(1, frame(1, b"scope")) + frame(2, b"\x1a\x04INFO")
    bad = frame(1, frame(2, scope[:-cut]))
    refused = refusal(read_request, good + bad)
    assert refusal(read_parts, good + bad) == refused
    assert (refused is None) == (cut == len(frame(2, b"\x1a\x04INFO")))
    if refused is not None:
        assert int(refused.split("at byte ")[1].split(",")[0]) >= len(good)


def test_requests_do_not_change_each_other() -> None:
    """What is kept of one is given to the next: the slots of a batch are its own."""
    around = frame(1, frame(1, frame(1, b"key")))
    with_attributes = frame(2, frame(6, frame(1, b"key of a record")))
    long = frame(1, around + frame(2, with_attributes))
    short = frame(1, around + frame(2, RECORD))
    for data, slots in ((long, 3), (short, 2), (long, 3), (short, 2)):
        [batch] = decode(LOGS, data)
        assert len(batch.bundle) == slots


def test_limits_hold_though_a_request_was_read_before() -> None:
    value = frame(2, frame(5, frame(1, b"")))
    around = frame(1, frame(1, frame(1, b"key") + value) * 3)
    request = frame(1, around + frame(2, RECORD * 5))
    assert decode(LOGS, request)
    for limits in (Limits(parts=2), Limits(items=4), Limits(depth=5)):
        with pytest.raises(InputError):
            decode(LOGS, request, limits=limits)


def test_a_message_is_taken_apart() -> None:
    source = Source(b"\x08\x01" + RECORD + b"\x0a\x00" + frame(2, b"x" * 300))
    start, end, others = take_apart(source, 0, source.size, tag=0x12)
    assert [source.data[low:high] for low, high in zip(start, end, strict=True)] == [
        b"\x10\x09",
        b"x" * 300,
    ]
    assert others == b"\x08\x01\x0a\x00"
    for size in range(1, source.size):
        short = Source(source.data[:size])
        if size not in {2, 6, 8}:
            with pytest.raises(InputError):
                take_apart(short, 0, size, tag=0x12)
