"""OTLP as JSON: as senders write it, there and back, and what is refused."""

from __future__ import annotations

import json
import math
import sys

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from otlp_everything import everything
from otlp_model import SHAPES, assert_same, items, map_messages, parse, signal_of
from otlp_strategies import few, requests_of

from quiver.errors import ConfigError, InputError
from quiver.otel.otlp import from_json, json_text, to_json
from quiver.otel.signals import Signal

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"

# What the collector of OpenTelemetry sent, which tailed a file of two lines.
COLLECTOR = """{"resourceLogs":[{"resource":{"attributes":[{"key":"service","value":{"kvlistValue":
{"values":[{"key":"name","value":{"stringValue":"shop"}}]}}}]},"scopeLogs":[{"scope":{},
"logRecords":[{"observedTimeUnixNano":"1795439599896578322","severityNumber":13,"severityText":
"warn","body":{"stringValue":"{\\"level\\":\\"warn\\",\\"msg\\":\\"disk at 91%\\"}"},"attributes":
[{"key":"deep","value":{"kvlistValue":{"values":[{"key":"x","value":{}}]}}},{"key":"n","value":
{"doubleValue":3}},{"key":"f","value":{"doubleValue":1.5}},{"key":"ok","value":{"boolValue":true}},
{"key":"tags","value":{"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":"b"}]}}}]},
{"observedTimeUnixNano":"1795439599896585403","body":{"stringValue":"plain line é"},"attributes":
[{"key":"log.file.name","value":{"stringValue":"in.log"}}]}]}]}]}"""


def test_what_a_collector_sends_is_read():
    request = parse(Signal.LOGS, from_json(Signal.LOGS, COLLECTOR.replace("\n", "")))
    (first, scope, resource), (second, _, _) = items(request)
    assert first.observed_time_unix_nano == 1795439599896578322
    assert first.severity_number == 13
    assert first.body.string_value == '{"level":"warn","msg":"disk at 91%"}'
    deep, n, f, ok, tags = first.attributes
    assert deep.value.kvlist_value.values[0].HasField("value")
    assert not deep.value.kvlist_value.values[0].value.WhichOneof("value")
    assert (n.value.double_value, f.value.double_value, ok.value.bool_value) == (3.0, 1.5, True)
    assert [each.string_value for each in tags.value.array_value.values] == ["a", "b"]
    assert second.body.string_value == "plain line é"
    assert scope.HasField("scope")
    assert resource.resource.attributes[0].key == "service"


def spans(**told):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [told]}]}]})


def span(**told):
    request = parse(Signal.TRACES, from_json(Signal.TRACES, spans(**told)))
    return next(items(request))[0]


def test_ids_are_hexadecimal_in_any_case():
    read = span(traceId=TRACE.upper(), spanId=SPAN, parentSpanId="", links=[{"traceId": TRACE}])
    assert (read.trace_id.hex(), read.span_id.hex(), read.parent_span_id) == (TRACE, SPAN, b"")
    assert read.links[0].trace_id.hex() == TRACE


@pytest.mark.parametrize("start", [2**64 - 1, str(2**64 - 1)], ids=repr)
def test_long_numbers_are_strings_or_numbers(start):
    assert span(startTimeUnixNano=start).start_time_unix_nano == 2**64 - 1


@pytest.mark.parametrize("kind", [3, "3", 3.0, "SPAN_KIND_CLIENT"], ids=repr)
def test_enums_are_numbers_and_names_are_taken(kind):
    assert span(kind=kind).kind == 3


@pytest.mark.parametrize("kind", [77, 2**31 - 1, -(2**31)])
def test_an_enum_of_a_later_version_is_kept(kind: int):
    assert span(kind=kind).kind == span(kind=str(kind)).kind == kind


def test_unknown_fields_are_passed_over():
    inside = {"traceId": "no hex", "deeper": [[[{}]]]}
    assert span(spanId=SPAN, later=inside, fields=[1, None]).span_id.hex() == SPAN


def test_names_of_the_proto_files_are_taken():
    assert span(trace_id=TRACE, end_time_unix_nano="5").trace_id.hex() == TRACE


def test_numbers_that_json_has_no_word_for_are_strings():
    point = '{"asDouble": "NaN"}, {"asDouble": "-Infinity"}, {"asInt": "-9223372036854775808"}'
    metric = f'{{"name": "m", "gauge": {{"dataPoints": [{point}]}}}}'
    text = f'{{"resourceMetrics": [{{"scopeMetrics": [{{"metrics": [{metric}]}}]}}]}}'
    read = next(items(parse(Signal.METRICS, from_json(Signal.METRICS, text))))[0]
    nan, low, least = read.gauge.data_points
    assert math.isnan(nan.as_double)
    assert low.as_double == -math.inf
    assert least.as_int == -(2**63)


def test_bytes_of_values_are_base64_in_either_alphabet():
    found = [{"key": "a", "value": {"bytesValue": text}} for text in ("+/8=", "-_8", "")]
    read = [each.value.bytes_value for each in span(attributes=found).attributes]
    assert read == [b"\xfb\xff", b"\xfb\xff", b""]


@pytest.mark.parametrize("signal", Signal)
def test_an_empty_request_is_one(signal: Signal):
    assert from_json(signal, "{}") == b""
    assert from_json(signal, b' {"later": 1} ') == b""
    assert to_json(signal, b"") == "{}"


def _one_nan(message: Message) -> None:
    """Give each NaN the same bits: JSON has one word for all of them."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_DOUBLE and not field.is_repeated:
            setattr(message, field.name, math.nan if math.isnan(value) else value)
        elif field.type == field.TYPE_DOUBLE:
            value[:] = [math.nan if math.isnan(each) else each for each in value]


@few
@given(requests_of())
def test_there_and_back_is_the_same(request):
    signal = signal_of(request)
    map_messages(request, _one_nan)
    text = to_json(signal, request.SerializeToString())
    assert_same(parse(signal, from_json(signal, text)), request)


@pytest.mark.parametrize("signal", Signal)
def test_everything_comes_back(signal: Signal):
    request = everything(signal)
    text = to_json(signal, memoryview(request.SerializeToString()))
    assert_same(parse(signal, from_json(signal, text.encode())), request)
    assert "\n" not in text


def test_written_as_otlp_has_it():
    request = SHAPES[Signal.TRACES].request()
    made = request.resource_spans.add().scope_spans.add().spans.add(kind=2, name="a")
    made.trace_id, made.end_time_unix_nano = bytes.fromhex(TRACE), 7
    told = json.loads(to_json(Signal.TRACES, request.SerializeToString()))
    (found,) = told["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert found == {"traceId": TRACE, "kind": 2, "name": "a", "endTimeUnixNano": "7"}


@pytest.mark.parametrize(
    "text, place",
    [
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{"a": 1} x', "line 1, column 10"),
        ("[]", "ExportTraceServiceRequest"),
        ("null", "ExportTraceServiceRequest"),
        ('{"resourceSpans": {}}', "ExportTraceServiceRequest"),
        ('{"resourceSpans": [5]}', "ExportTraceServiceRequest.resourceSpans[0]"),
        ('{"resourceSpans": [null]}', "ExportTraceServiceRequest.resourceSpans"),
        (b'{"resourceSpans": "\xff"}', "byte 19"),
        (spans(traceId="5b8efff7980381"[:-1]), "resourceSpans[0].scopeSpans[0].spans[0].traceId"),
        (spans(traceId="zz"), "spans[0].traceId"),
        (spans(traceId="5b 8e"), "spans[0].traceId"),
        (spans(traceId=5), "spans[0].traceId"),
        (spans(spanId=["00"]), "spans[0].spanId"),
        (spans(kind="SPAN_KIND_LATER"), "spans[0].kind"),
        (spans(kind=True), "spans[0].kind"),
        (spans(kind={}), "spans[0].kind"),
        (spans(events=[[]]), "spans[0].events[0]"),
        (spans(kind=2**40), "spans[0].kind"),
        (spans(kind="٣"), "spans[0].kind"),
        (spans(kind=2.5), "spans[0].kind"),
        (spans(kind=2**31), "spans[0].kind"),
        (spans(kind="9" * 10), "spans[0].kind"),
        (spans(name=5), "Request"),
        (spans(name="\ud800"), "spans[0].name"),
        (spans(startTimeUnixNano=-1), "Request"),
        (spans(startTimeUnixNano="1.5"), "spans[0].startTimeUnixNano"),
        (spans(startTimeUnixNano=2**64), "Request"),
        (spans(attributes=[{"key": "a", "value": {"bytesValue": "!!"}}]), ".value.bytesValue"),
        (spans(attributes=[{"key": "a", "value": {"bytesValue": 7}}]), ".value.bytesValue"),
        (spans(attributes=[{"key": "a", "value": {"boolValue": "true"}}]), ".value.boolValue"),
        (spans(attributes=[{"value": {"intValue": 1, "boolValue": True}}]), "Request"),
        ('{"resourceSpans": [], "resourceSpans": []}', "an object"),
        ('{"later": NaN}', "a number"),
        ('{"later": ' + "7" * 5000 + "}", "a number"),
    ],
)
def test_what_is_no_request_is_refused_with_its_place(text, place):
    with pytest.raises(InputError) as refused:
        from_json(Signal.TRACES, text)
    assert place in refused.value.message
    assert "opentelemetry.io" in refused.value.hint


def test_what_is_refused_is_not_told():
    with pytest.raises(InputError) as refused:
        from_json(Signal.TRACES, spans(startTimeUnixNano="Bearer secret"))
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


def nested(depth: int) -> str:
    value = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
    return spans(attributes=[{"key": "a", "value": json.loads(value)}])


def test_values_lie_as_deep_as_in_protobuf():
    assert from_json(Signal.TRACES, nested(40))
    with pytest.raises(InputError, match="too deep"):
        from_json(Signal.TRACES, nested(60))


@pytest.mark.parametrize("bracket", ['{"a":', "["])
def test_a_text_of_brackets_is_refused(bracket: str):
    with pytest.raises(InputError, match="too deep"):
        from_json(Signal.TRACES, bracket * 100_000)


def test_too_much_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_text, "JSON_VALUES_MAX", 10)
    with pytest.raises(InputError, match="11 values"):
        from_json(Signal.LOGS, "[" + "{}," * 10)
    monkeypatch.setattr(json_text, "JSON_BYTES_MAX", 20)
    for text in ("x" * 21, b"x" * 21):
        with pytest.raises(InputError, match="21 bytes"):
            from_json(Signal.LOGS, text)


def test_bytes_that_are_no_request_become_no_json():
    with pytest.raises(InputError, match="traces"):
        to_json(Signal.TRACES, b"\x0a\xff")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch):
    for name in ("trace", "logs", "metrics"):
        module = f"opentelemetry.proto.collector.{name}.v1"
        monkeypatch.setitem(sys.modules, module, None)
    for signal in Signal:
        with pytest.raises(ConfigError, match=r"quiver-store\[otlp\]"):
            from_json(signal, "{}")


NAMES = ["resourceSpans", "scopeSpans", "spans", "traceId", "kind", "attributes", "value", "key"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "00", "x"]),
    lambda inside: (
        st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inside, max_size=3)
    ),
    max_leaves=12,
)


@few
@given(ANYTHING, st.sampled_from([[], ["resourceSpans"], ["resourceSpans", "scopeSpans", "spans"]]))
def test_anything_is_read_or_refused(told, path):
    for name in reversed(path):
        told = {name: [told]}
    try:
        found = from_json(Signal.TRACES, json.dumps(told))
    except InputError:
        return
    parse(Signal.TRACES, found)
