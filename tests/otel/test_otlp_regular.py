"""Items whose attributes are alike are read at once, and as those are that are read otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from calls_kit import calls_of
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from otlp_model import assert_same, parse

from quiver.errors import InputError
from quiver.otel import Signal
from quiver.otel.otlp import attributes, columns, decode, encode, values
from quiver.otel.wire import Source, short_sizes, span, varint_bytes

LOGS = Signal.LOGS
NUMBER = 30


def alike(number: int = NUMBER, text: str = "é text", severity: str = "INFO") -> Any:
    """Records with the same five attributes, which differ in their values."""
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for each in range(number):
        record = scope.log_records.add(time_unix_nano=each + 1, severity_text=severity)
        record.body.string_value = f"{text} {each}"
        record.attributes.add(key="a.text").value.string_value = f"{text} {each % 7}"
        record.attributes.add(key="a.number").value.int_value = 10**each if each < 19 else -each
        record.attributes.add(key="a.double").value.double_value = each / 3
        record.attributes.add(key="a.flag").value.bool_value = each % 3 == 0
        record.attributes.add(key="a.text").value.string_value = "again"
        record.trace_id, record.span_id = bytes([each % 255 + 1] * 16), bytes([7] * 8)
    return request


def plain(batch: Any) -> dict[str, Any]:
    """Give its tables as values: which of them are dictionaries says a sample."""
    return {name: payload.to_pylist() for name, payload in batch.bundle.items()}


def verdict(data: bytes) -> Any:
    try:
        return [plain(batch) for batch in decode(LOGS, data)]
    except InputError as error:
        return str(error)


def nobody(*_: Any, **__: Any) -> None:
    """Read nothing at once."""


def otherwise(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(attributes, "read_regular", nobody)
        patch.setattr(values, "read_texts", nobody)
        patch.setattr(columns, "_short_texts", nobody)
        return verdict(data)


@pytest.mark.parametrize("text", ["x" * 200, "é", "", "\0"], ids=["long", "short", "none", "zero"])
@pytest.mark.parametrize("severity", ["INFO", "\0", "é", "E\0", "of nine b"], ids=ascii)
def test_what_is_alike_comes_back(text: str, severity: str, monkeypatch: Any) -> None:
    request = alike(text=text, severity=severity)
    data = request.SerializeToString()
    assert_same(parse(LOGS, encode(decode(LOGS, data)[0])), request)
    assert verdict(data) == otherwise(data, monkeypatch)
    for payload in decode(LOGS, data)[0].bundle.values():
        payload.validate(full=True)


def test_texts_of_few_values_among_others(monkeypatch: Any) -> None:
    request = alike()
    records = request.resource_logs[0].scope_logs[0].log_records
    for each, text in zip(records, ["E", "E\0", "", "\0", "\0E", "EEEEEEEE"] * 5, strict=True):
        each.severity_text = text
    data = request.SerializeToString()
    assert verdict(data) == otherwise(data, monkeypatch)
    for each in records:
        each.severity_text = each.severity_text.replace("\0", "")
    [batch] = decode(LOGS, request.SerializeToString())
    column = batch.bundle["logs"]["severity_text"]
    assert column.type == pa.dictionary(pa.uint8(), pa.string())
    assert column.to_pylist() == ["E", "E", None, None, "E", "EEEEEEEE"] * 5


def where(data: bytes, number: int) -> tuple[int, int]:
    """Give where the bytes of a record are."""
    time = (number + 1).to_bytes(8, "little")
    at = data.index(b"\x09" + time)
    return at, data.index(b"\x09" + (number + 2).to_bytes(8, "little"))


@pytest.mark.parametrize("number", [0, 13])
@pytest.mark.parametrize("change", [1, 0x80, 0xFF, 7, 0x20])
def test_one_byte_of_one_item_is_another(number: int, change: int, monkeypatch: Any) -> None:
    data = alike().SerializeToString()
    for at in range(*where(data, number)):
        mutant = bytearray(data)
        mutant[at] ^= change
        assert verdict(bytes(mutant)) == otherwise(bytes(mutant), monkeypatch), at


def field(number: int, content: bytes, *, long: bool = False) -> bytes:
    size = varint_bytes(len(content))
    if long:  # A length may be spelled in more bytes than it needs.
        size = size[:-1] + bytes([size[-1] | 0x80, 0])
    return bytes([span(number)]) + size + content


@pytest.mark.parametrize(
    "odd",
    [
        field(1, b"a.text") + field(2, b""),
        field(1, b"a.text"),
        field(2, b"\x0a\x01x") + field(1, b"a.text"),
        field(1, b"a.text") + field(2, b"\x0a\x01x\x18\x05"),
        field(1, b"a.text") + field(2, b"\x0a\x01x", long=True),
        field(1, b"a.text", long=True) + field(2, b"\x0a\x01x"),
        field(1, b"a.text") + field(2, b"\x0a\x01x") + field(2, b"\x18\x05"),
        field(1, b"a.text") + field(2, b"\x0a\x01x") + b"\x18\x05",
        field(1, b"a.text") + field(2, b"\x18" + b"\x80" * 9 + b"\x01"),
        field(1, b"a.text") + field(2, b"\x18" + b"\x80" * 10 + b"\x01"),
        field(1, b"a.text") + field(2, b"\x10\x80\x01"),
        field(1, b"a.text") + field(2, b"\x2a\x00"),
        field(1, b"a.texts") + field(2, b"\x0a\x01x"),
        field(1, b"\xff.text") + field(2, b"\x0a\x01x"),
        b"",
    ],
    ids=range(15),
)
@pytest.mark.parametrize("number", [1, NUMBER])
def test_items_that_are_laid_out_otherwise(odd: bytes, number: int, monkeypatch: Any) -> None:
    usual = field(1, b"a.text") + field(2, b"\x0a\x01y")
    records = [field(6, odd if each < number else usual) for each in range(NUMBER)]
    data = field(1, field(2, b"".join(field(2, each + each) for each in records)))
    assert verdict(data) == otherwise(data, monkeypatch)


def test_a_request_that_ends_in_a_head(monkeypatch: Any) -> None:
    usual = field(6, field(1, b"a" * 100) + field(2, b"\x0a\x01y"))
    last = field(6, field(1, b"a" * 3))
    data = field(1, field(2, b"".join(field(2, each) for each in [usual] * 40 + [last])))
    assert verdict(data) == otherwise(data, monkeypatch)


def test_requests_of_one_format_take_few_calls() -> None:
    small, large = (alike(number).SerializeToString() for number in (100, 1_500))
    first, second = (calls_of(lambda data=data: decode(LOGS, data)) for data in (small, large))
    assert first <= 800
    assert second <= first + 100


def test_lengths_of_one_and_two_bytes() -> None:
    source = Source(b"\x7f\x80\x01\xff\x7f\x80\x80\x01")
    for at, sizes, ends in [([0], [127], [1]), ([0, 1, 3], [127, 128, 16_383], [1, 3, 5])]:
        found = short_sizes(source, np.array(at))
        assert found is not None
        assert [each.tolist() for each in found] == [sizes, ends]
    assert short_sizes(source, np.array([0, 5])) is None
