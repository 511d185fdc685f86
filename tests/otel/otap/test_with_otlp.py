"""Requests of OTLP over a stream of OTAP and back, and streams as the collector in Go makes them.

The latter are made by hand from what its sources say: ids and parents as differences without a word
in the metadata, times of UTC, rows in its order, columns left out, keys of 8 bits until there are
too many words, then of 16 under another schema id.
"""

import io

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_everything import everything
from otlp_model import assert_same, bytes_of, canonical, parse
from otlp_strategies import requests_of

from quiver.otel import Batch, Signal
from quiver.otel.otap import StreamReader, StreamWriter
from quiver.otel.otap.format import ArrowPayload, BatchRecords, decode_records, encode_records
from quiver.otel.otlp import decode, encode

U8, U16, U32 = pa.uint8(), pa.uint16(), pa.uint32()
UTC = pa.timestamp("ns", "UTC")


def there_and_back(signal: Signal, *requests) -> None:
    writer, reader = StreamWriter(signal), StreamReader(signal)
    for request in requests:
        found = [
            reader.read(decode_records(encode_records(writer.write(batch))))
            for batch in decode(signal, bytes_of(request))
        ]
        arrived = parse(signal, b"".join(map(encode, found)))
        assert_same(canonical(arrived), canonical(request))


@pytest.mark.parametrize("signal", list(Signal))
def test_all_that_otlp_can_say_arrives(signal: Signal) -> None:
    request = everything(signal)
    there_and_back(signal, request, request)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(Signal))
def test_any_requests_arrive_one_behind_the_other(data: st.DataObject, signal: Signal) -> None:
    there_and_back(signal, *data.draw(st.lists(requests_of([signal]), min_size=1, max_size=3)))


def messages(*batches: pa.RecordBatch) -> list[bytes]:
    sink, found, place = io.BytesIO(), [], 0
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            found.append(sink.getvalue()[place:])
            place = len(sink.getvalue())
    return found


def words(values: list[str | None], known: list[str], index: pa.DataType) -> pa.DictionaryArray:
    keys = [None if value is None else known.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(keys, index), pa.array(known))


def struct(**columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def log_payloads(
    bodies: list[str], known: list[str], index: pa.DataType
) -> dict[str, pa.RecordBatch]:
    """Records of two resources, of which each but the first has an attribute ``n``."""
    count = len(bodies)
    half = count // 2
    scope = struct(id=pa.array([0] * half + [1] + [0] * (count - half - 1), U16))
    logs = {
        "id": pa.array([None, 0] + [1] * (count - 2), U16),
        "resource": struct(id=scope.field(0)),
        "scope": struct(id=scope.field(0), name=words(["lib"] * count, ["lib"], U8)),
        "time_unix_nano": pa.array(range(count), pa.int64()).view(UTC),
        "observed_time_unix_nano": pa.array([0] * count, pa.int64()).view(UTC),
        "severity_text": words(bodies, known, index),
        "body": struct(type=pa.array([1] * count, U8), str=words(bodies, known, U16)),
    }
    # Of the records with ids 0 to count - 2 all have the same attribute.
    attributes = {
        "parent_id": pa.array([0] + [1] * (count - 2), U16),
        "key": words(["n"] * (count - 1), ["n"], U8),
        "type": pa.array([2] * (count - 1), U8),
        "int": pa.array([7] * (count - 1), pa.int64()),
    }
    of_resources = {
        "parent_id": pa.array([0, 1, 0, 1], U16),
        "key": words(["os", "os", "service.name", "service.name"], ["os", "service.name"], U8),
        "type": pa.array([1] * 4, U8),
        "str": words(["linux", "linux", "a", "b"], ["linux", "a", "b"], U16),
    }
    return {
        "logs": pa.record_batch(logs),
        "log_attrs": pa.record_batch(attributes),
        "resource_attrs": pa.record_batch(of_resources),
    }


def logs_said(bodies: list[str]) -> ExportLogsServiceRequest:
    said = ExportLogsServiceRequest()
    half = len(bodies) // 2
    for name, first, last in (("a", 0, half), ("b", half, len(bodies))):
        outer = said.resource_logs.add()
        outer.resource.attributes.add(key="os").value.string_value = "linux"
        outer.resource.attributes.add(key="service.name").value.string_value = name
        inner = outer.scope_logs.add()
        inner.scope.name = "lib"
        for number in range(first, last):
            record = inner.log_records.add(time_unix_nano=number, severity_text=bodies[number])
            record.body.string_value = bodies[number]
            if number:
                record.attributes.add(key="n").value.int_value = 7
    return said


NUMBERS = {"logs": 30, "log_attrs": 31, "resource_attrs": 1}


def test_log_records_as_the_collector_in_go_sends_them() -> None:
    few, more = ["x", "y", "x", "z"], [f"w{index}" for index in range(300)]
    narrow = [log_payloads(few, ["x", "y", "z"], U8), log_payloads(few, ["x", "y", "z", "q"], U8)]
    wide = log_payloads(more, more, U16)
    reader = StreamReader(Signal.LOGS)
    told = {slot: messages(*(each[slot] for each in narrow)) for slot in NUMBERS}
    for turn in range(2):
        payloads = [ArrowPayload(f"{slot}:u8", NUMBERS[slot], told[slot][turn]) for slot in NUMBERS]
        batch = reader.read(BatchRecords(turn, tuple(payloads)))
        assert_same(canonical(parse(Signal.LOGS, encode(batch))), canonical(logs_said(few)))
    # There are more words than 8 bits have keys for: the schema of one payload changes.
    payloads = [ArrowPayload("logs:u16", 30, messages(wide["logs"])[0])]
    payloads += [
        ArrowPayload(f"{slot}:u8", NUMBERS[slot], messages(wide[slot])[0])
        for slot in ("log_attrs", "resource_attrs")
    ]
    batch = reader.read(BatchRecords(2, tuple(payloads)))
    assert_same(canonical(parse(Signal.LOGS, encode(batch))), canonical(logs_said(more)))


def test_spans_as_the_collector_in_go_sends_them() -> None:
    trace, (first, second) = b"t" * 16, (b"1" * 8, b"2" * 8)
    spans = {
        "id": pa.array([0, 1], U16),
        "start_time_unix_nano": pa.array([5, 6], pa.int64()).view(UTC),
        "duration_time_unix_nano": pa.DictionaryArray.from_arrays(
            pa.array([0, 0], U8), pa.array([3], pa.duration("ns"))
        ),
        "trace_id": pa.array([trace] * 2, pa.binary(16)),
        "span_id": pa.array([first, second], pa.binary(8)),
        "name": words(["get", "put"], ["get", "put"], U8),
        "kind": pa.DictionaryArray.from_arrays(pa.array([0, 0], U8), pa.array([2], pa.int32())),
    }
    # Sorted by name, then by parent: the second "retry" is the same as the row before it.
    events = {
        "id": pa.array([0, 1, 1], U32),
        "parent_id": pa.array([1, 0, 1], U16),
        "time_unix_nano": pa.array([7, 8, 9], pa.int64()).view(UTC),
        "name": words(["done", "retry", "retry"], ["done", "retry"], U8),
    }
    of_events = {
        "parent_id": pa.array([1, 1, 0], U32),
        "key": words(["n", "n", "n"], ["n"], U8),
        "type": pa.array([2, 2, 2], U8),
        "int": pa.array([4, 4, 5], pa.int64()),
    }
    tables = {40: spans, 42: events, 44: of_events}
    payloads = [
        ArrowPayload(str(kind), kind, messages(pa.record_batch(table))[0])
        for kind, table in tables.items()
    ]
    batch: Batch = StreamReader(Signal.TRACES).read(BatchRecords(0, tuple(payloads)))
    said = ExportTraceServiceRequest()
    outer = said.resource_spans.add()
    outer.resource.SetInParent()  # OTAP cannot say that there is none.
    inner = outer.scope_spans.add()
    inner.scope.SetInParent()
    for name, span_id, start in (("get", first, 5), ("put", second, 6)):
        inner.spans.add(
            name=name,
            trace_id=trace,
            span_id=span_id,
            kind=2,
            start_time_unix_nano=start,
            end_time_unix_nano=start + 3,
        )
    done = inner.spans[1].events.add(name="done", time_unix_nano=7)
    done.attributes.add(key="n").value.int_value = 5
    for span, time in ((inner.spans[0], 8), (inner.spans[1], 9)):
        retry = span.events.add(name="retry", time_unix_nano=time)
        retry.attributes.add(key="n").value.int_value = 4
    assert_same(canonical(parse(Signal.TRACES, encode(batch))), canonical(said))
