"""Values of every kind, lists and maps in each other: as OTLP, as CBOR, and back."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from calls_kit import calls_of
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from otlp_model import assert_same, parse
from otlp_strategies import any_values, few

from quiver.bundle import RecordBundle
from quiver.errors import InputError
from quiver.otel import Batch, Signal
from quiver.otel.otlp import count, decode, encode
from quiver.otel.otlp.uncbor import cbor_as_list, cbor_as_map
from quiver.otel.wire import frame

LOGS = Signal.LOGS
DEEP = 1_000


def of_body(body: bytes) -> bytes:
    """Give a request of one record with these bytes as its body."""
    return frame(1, frame(2, frame(2, frame(5, body))))


def read(data: bytes) -> Any:
    [batch] = decode(LOGS, data)
    return parse(LOGS, encode(batch))


@few
@given(any_values(nesting=6))
def test_a_value_of_any_depth_comes_back(value: Any) -> None:
    data = of_body(value.SerializeToString())
    assert_same(read(data), parse(LOGS, data))


@few
@given(st.lists(any_values(), min_size=2, max_size=4))
def test_values_one_behind_the_other_are_what_protobuf_makes_of_them(values: list[Any]) -> None:
    """The last kind counts, and lists or maps that follow each other are one."""
    data = of_body(b"".join(each.SerializeToString() for each in values))
    assert_same(read(data), parse(LOGS, data))
    nested = frame(5, frame(1, b"".join(each.SerializeToString() for each in values)))
    assert_same(read(of_body(nested)), parse(LOGS, of_body(nested)))
    parts = b"".join(frame(5, each.SerializeToString()) for each in values)
    whole = frame(1, frame(2, frame(2, parts)))
    assert_same(read(whole), parse(LOGS, whole))


def nested(depth: int, *, maps: bool) -> bytes:
    value = AnyValue(int_value=1).SerializeToString()
    for _ in range(depth):
        value = frame(6, frame(1, frame(2, value))) if maps else frame(5, frame(1, value))
    return value


@pytest.mark.parametrize("maps", [False, True])
def test_values_may_lie_as_deep_as_protobuf_lets_them(*, maps: bool) -> None:
    for around in (of_body, lambda value: frame(1, frame(2, frame(2, frame(6, frame(2, value)))))):
        for depth in (29, 30, 31, 32, 33, 46, 47, 48, 49):
            data = around(nested(depth, maps=maps))
            try:
                theirs = ExportLogsServiceRequest.FromString(data)
            except DecodeError:
                with pytest.raises(InputError, match="too deep"):
                    decode(LOGS, data)
            else:
                assert_same(read(data), theirs)


def test_values_that_lie_far_too_deep_are_refused() -> None:
    """Python's own stack is not what ends it."""
    for maps in (False, True):
        with pytest.raises(InputError, match="too deep"):
            decode(LOGS, of_body(nested(DEEP, maps=maps)))
    with pytest.raises(InputError, match="too deep"):
        cbor_as_list(b"\x81" * DEEP + b"\x80", 90)
    with pytest.raises(InputError, match="too deep"):
        cbor_as_map(b"\xa1\x60" * DEEP + b"\xa0", 90)


def listed(*cbor: bytes) -> Any:
    """Read a list of CBOR of which each element is given."""
    value = AnyValue()
    data = cbor_as_list(bytes([0x80 | len(cbor)]) + b"".join(cbor), 90)
    value.array_value.ParseFromString(data)
    return value.array_value.values


def test_cbor_of_others_is_read() -> None:
    """RFC 8949's own examples, as far as OTLP has a place for them."""
    found = listed(
        b"\x00", b"\x18\x64", b"\x1b\x7f" + b"\xff" * 7, b"\x20", b"\x3b\x7f" + b"\xff" * 7
    )
    assert [each.int_value for each in found] == [0, 100, 2**63 - 1, -1, -(2**63)]
    found = listed(
        b"\xf9\x3c\x00", b"\xfa\x47\xc3\x50\x00", b"\xfb\x3f\xf1" + b"\x99" * 5 + b"\x9a"
    )
    assert [each.double_value for each in found] == [1.0, 100000.0, 1.1]
    found = listed(b"\x65hello", b"\x7f\x62he\x63llo\xff")
    assert [each.string_value for each in found] == ["hello", "hello"]
    found = listed(b"\x5f\x42ab\x41c\xff", b"\x40")
    assert [each.bytes_value for each in found] == [b"abc", b""]
    found = listed(b"\xf4", b"\xf5", b"\xf6", b"\xf7")
    assert [each.WhichOneof("value") for each in found] == ["bool_value", "bool_value", None, None]
    found = listed(b"\x9f\x01\x02\xff", b"\xbf\x61a\x01\xff")
    assert [each.int_value for each in found[0].array_value.values] == [1, 2]
    assert found[1].kvlist_value.values[0].key == "a"


@pytest.mark.parametrize(
    ("cbor", "said"),
    [
        (b"", "ends early"),
        (b"\x00", "no list"),
        (b"\x80\x00", "more bytes follow"),
        (b"\x82\x00", "ends early"),
        (b"\x9b" + b"\xff" * 8, "ends early"),
        (b"\x81\x5b" + b"\xff" * 8, "ends early"),
        (b"\x81\x1c", "no CBOR"),
        (b"\x81\xc0\x60", "tags"),
        (b"\x81\xe0", "simple value"),
        (b"\x81\x1b" + b"\xff" * 8, "64 bits"),
        (b"\x81\x61\xff", "UTF-8"),
        (b"\x81\xa1\x00\x00", "key is no text"),
        (b"\x81\x7f\x41a\xff", "another kind"),
        (b"\x81\x7f\x7f\xff\xff", "another kind"),
        (b"\x9f\x00", "ends early"),
        (b"\x81\xff", "simple value"),
    ],
)
def test_cbor_that_otlp_has_no_place_for_is_refused(cbor: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        cbor_as_list(cbor, 90)


@few
@given(st.binary(max_size=30))
def test_no_bytes_break_the_reader_of_cbor(data: bytes) -> None:
    for read_it in (cbor_as_list, cbor_as_map):
        for cbor in (data, b"\x83" + data, b"\xbf" + data):
            try:
                found = read_it(cbor, 90)
            except InputError:
                continue
            AnyValue.FromString(frame(5 if read_it is cbor_as_list else 6, found))


def record(fields: bytes) -> bytes:
    return frame(1, frame(2, frame(2, fields)))


HOSTILE = {
    "records of no bytes": lambda n: frame(1, frame(2, b"\x12\x00" * n)),
    "attributes of no bytes": lambda n: record(b"\x32\x00" * n),
    "attributes of empty values": lambda n: record(b"\x32\x02\x12\x00" * n),
    "attributes of empty lists": lambda n: record(b"\x32\x04\x12\x02\x2a\x00" * n),
    "bodies": lambda n: record(b"\x2a\x02\x2a\x00" * n),
    "lists in a body": lambda n: record(frame(5, b"\x2a\x02\x0a\x00" * n)),
    "lists of one": lambda n: record(frame(5, frame(5, frame(1, b"\x2a\x02\x0a\x00" * n)))),
    "a long list": lambda n: record(frame(5, frame(5, b"\x0a\x00" * n))),
    "resources": lambda n: b"\x0a\x00" * n + b"\x0a\x04\x12\x02\x12\x00",
    "scopes": lambda n: frame(1, b"\x12\x00" * n + b"\x12\x02\x12\x00"),
    "scopes of a record": lambda n: frame(1, b"\x12\x02\x12\x00" * n),
    "references": lambda n: frame(1, frame(1, b"\x1a\x00" * n) + frame(2, b"\x12\x00")),
    "groups": lambda n: record(b"\x7b\x7c" * n),
    "groups in each other": lambda n: record((b"\x7b" * 50 + b"\x7c" * 50) * (n // 50)),
    "fields that nobody knows": lambda n: record(b"\x78\x00" * n),
    "one field again and again": lambda n: record(b"\x10\x09" * n),
}
CALLS_PER_BYTE = 8
BYTES_PER_BYTE = 150


@pytest.mark.parametrize("name", HOSTILE)
def test_work_and_memory_grow_with_the_bytes(name: str) -> None:
    few_, many_ = HOSTILE[name](500), HOSTILE[name](1_500)
    base, calls = calls_of(lambda: decode(LOGS, few_)), calls_of(lambda: decode(LOGS, many_))
    assert calls - base <= CALLS_PER_BYTE * (len(many_) - len(few_))
    base, memory = memory_of(lambda: decode(LOGS, few_)), memory_of(lambda: decode(LOGS, many_))
    assert memory - base <= BYTES_PER_BYTE * (len(many_) - len(few_))
    theirs = ExportLogsServiceRequest.FromString(many_)
    ours = b"".join(encode(batch) for batch in decode(LOGS, many_))
    items = [r for a in theirs.resource_logs for s in a.scope_logs for r in s.log_records]
    assert count(LOGS, ours) == count(LOGS, many_) == len(items)


def memory_of(act: Any) -> int:
    """Tell the most memory that something has at once; numpy's is in it, Arrow's is not."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_scopes_that_share_their_attributes_are_not_multiplied_without_end() -> None:
    """Arrow of others may say that one scope's attributes are those of thousands of resources."""
    request = ExportLogsServiceRequest()
    for number in range(2_000):
        scope = request.resource_logs.add().scope_logs.add()
        scope.log_records.add()
        scope.scope.name = "one"
        for each in range(1_000 if number == 0 else 0):
            scope.scope.attributes.add(key=str(each))
    [batch] = decode(LOGS, request.SerializeToString())
    logs = batch.bundle["logs"]
    scope = logs["scope"]
    shared = pa.StructArray.from_arrays([pa.array([0] * 2_000, pa.uint16())], names=["id"])
    changed = logs.set_column(logs.schema.names.index("scope"), "scope", shared)
    assert len(scope) == 2_000
    bad = Batch(LOGS, RecordBundle({**batch.bundle, "logs": changed}))
    with pytest.raises(InputError, match="scope_attrs"):
        encode(bad)


BAD = b"\xff"


@pytest.mark.parametrize(
    "data",
    [
        frame(1, frame(3, BAD)),
        frame(1, frame(1, frame(1, frame(1, BAD)))),
        frame(1, frame(1, frame(1, frame(2, frame(1, BAD))))),
        frame(1, frame(1, frame(3, frame(3, BAD)))),
        frame(1, frame(2, frame(3, BAD))),
        frame(1, frame(2, frame(1, frame(1, BAD)))),
        frame(1, frame(2, frame(1, frame(3, frame(1, BAD))))),
        record(frame(3, BAD) + frame(3, b"ok")),
        record(frame(12, BAD)),
        record(frame(6, frame(1, BAD) + frame(1, b"ok"))),
        record(frame(5, frame(1, BAD) + b"\x10\x01")),
        record(frame(5, frame(5, frame(1, frame(1, BAD) + b"\x10\x01")))),
        record(frame(5, frame(6, frame(1, frame(1, BAD))))),
        record(frame(5, frame(5, frame(1, frame(1, BAD))) + b"\x10\x01")),
    ],
)
def test_no_text_that_is_not_utf8_goes_unseen(data: bytes) -> None:
    """Not where another value takes its place, and not around no item at all."""
    with pytest.raises(DecodeError):
        ExportLogsServiceRequest.FromString(data)
    with pytest.raises(InputError, match="not UTF-8"):
        decode(LOGS, data)
    with pytest.raises(InputError):
        count(LOGS, data)
