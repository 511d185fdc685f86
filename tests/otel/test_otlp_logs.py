"""Log records go through Arrow and come back as they were."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from calls_kit import calls_of
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from otlp_everything import everything
from otlp_model import assert_same, canonical, items, parse, trimmed
from otlp_model import count as count_of
from otlp_strategies import few, requests

import quiver
from quiver.bundle import RecordBundle
from quiver.errors import InputError
from quiver.otel import TELEMETRY, Batch, Signal
from quiver.otel.batch import of_bundle, of_request
from quiver.otel.otlp import Limits, count, decode, encode
from quiver.otel.wire import frame, varint_bytes

LOGS = Signal.LOGS


def there_and_back(request: Any, limits: Limits) -> Any:
    batches = decode(LOGS, request.SerializeToString(), limits=limits)
    assert all(0 < batch.items <= limits.batch_items for batch in batches)
    return parse(LOGS, b"".join(encode(batch) for batch in batches))


@few
@given(requests(LOGS))
def test_every_request_comes_back(request: Any) -> None:
    assert_same(there_and_back(request, Limits()), trimmed(request))


@few
@given(requests(LOGS), st.integers(1, 3))
def test_a_request_with_too_many_items_comes_back_in_parts(request: Any, items_max: int) -> None:
    back = there_and_back(request, Limits(batch_items=items_max))
    assert_same(canonical(back), canonical(request))
    assert [each[0] for each in items(back)] == [each[0] for each in items(request)]


def test_each_field_comes_back() -> None:
    request = everything(LOGS)
    assert_same(there_and_back(request, Limits()), trimmed(request))


@few
@given(requests(LOGS))
def test_items_are_counted(request: Any) -> None:
    assert count(LOGS, request.SerializeToString()) == count_of(request)


@few
@given(requests(LOGS))
def test_a_store_keeps_it(request: Any) -> None:
    """What is decoded is what a store of telemetry takes: every slot and every type of column."""
    for batch in decode(LOGS, request.SerializeToString()):
        assert set(batch.bundle) <= {slot.name for slot in TELEMETRY}
        for payload in batch.bundle.values():
            payload.validate(full=True)


def many(count: int, *, attributes: int = 5) -> Any:
    request = ExportLogsServiceRequest()
    for number in range(count):
        if number % 400 == 0:
            resource = request.resource_logs.add()
            resource.resource.attributes.add(key="n").value.int_value = number
        if number % 100 == 0:
            scope = resource.scope_logs.add()
            scope.scope.name = f"scope {number % 3}"
        record = scope.log_records.add(time_unix_nano=number, severity_number=9)
        record.body.string_value = f"line {number}"
        record.attributes.add(key="level").value.string_value = "info"
        for each in range(attributes - 1):
            value = record.attributes.add(key=f"key {each}").value
            value.string_value = f"{number} of {each}"
        if number % 5 == 0:
            record.trace_id, record.span_id = bytes([number % 200 + 1] * 16), bytes([7] * 8)
    return request


@pytest.mark.parametrize("number", [1, 30, 1_000])
def test_many_records_come_back(number: int) -> None:
    request = many(number)
    assert_same(there_and_back(request, Limits()), request)


def test_values_that_come_again_are_dictionaries() -> None:
    [batch] = decode(LOGS, many(1_000).SerializeToString())
    attributes = batch.bundle["log_attrs"].schema
    assert attributes.field("key").type == pa.dictionary(pa.uint8(), pa.string())
    assert attributes.field("str").type == pa.string()
    logs = batch.bundle["logs"].schema
    assert logs.field("severity_number").type == pa.dictionary(pa.uint8(), pa.int32())
    [batch] = decode(LOGS, many(1_000, attributes=1).SerializeToString())
    again = pa.dictionary(pa.uint16(), pa.string())
    assert batch.bundle["log_attrs"].schema.field("str").type == again


@pytest.mark.parametrize("numbers", [[1, 0, 24], [9], [0, 0], [25, 1, 0], [-1, 2**31 - 1, 17]])
def test_severities_of_any_number(numbers: list[int]) -> None:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    data = b"".join(frame(2, b"\x10" + varint_bytes(each % 2**64)) for each in numbers * 30)
    scope.MergeFromString(data)
    [batch] = decode(LOGS, request.SerializeToString())
    logs = batch.bundle["logs"]
    if any(numbers):
        assert logs.column("severity_number").to_pylist() == [each or None for each in numbers] * 30
        assert logs.schema.field("severity_number").type == pa.dictionary(pa.uint8(), pa.int32())
    assert_same(there_and_back(request, Limits()), request)


def test_what_no_row_has_is_no_column() -> None:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add()
    [batch] = decode(LOGS, request.SerializeToString())
    assert list(batch.bundle) == ["logs"]
    names = ["id", "resource", "scope", "time_unix_nano", "observed_time_unix_nano"]
    assert batch.bundle["logs"].schema.names == [*names, "quiver_absent"]


def test_a_request_without_items_is_no_batch() -> None:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add()
    assert decode(LOGS, request.SerializeToString()) == []
    assert decode(LOGS, b"") == []
    assert count(LOGS, b"") == 0


def test_times_after_2262_keep_their_bits() -> None:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.time_unix_nano, record.observed_time_unix_nano = 2**64 - 1, 2**63
    [batch] = decode(LOGS, request.SerializeToString())
    assert batch.bundle["logs"]["time_unix_nano"].cast(pa.int64()).to_pylist() == [-1]
    assert_same(parse(LOGS, encode(batch)), request)


def test_more_items_than_ids_are_several_batches() -> None:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    scope.log_records.extend([scope.log_records.add(flags=7)] * 65_536)
    batches = decode(LOGS, request.SerializeToString())
    assert [batch.items for batch in batches] == [65_536, 1]


def test_requests_that_were_kept_are_one_request() -> None:
    first, second = many(3), many(5)
    kept = [of_request(LOGS, each.SerializeToString(), count_of(each)) for each in (first, second)]
    payloads = [batch.bundle["otlp_logs"] for batch in kept]
    both = pa.Table.from_batches(payloads).combine_chunks().to_batches()[0]
    batch = Batch(LOGS, RecordBundle({"otlp_logs": both}))
    first.MergeFrom(second)
    assert_same(parse(LOGS, encode(batch)), first)


def test_a_batch_goes_through_a_store(tmp_path: Any) -> None:
    request = many(300)
    with quiver.open(tmp_path / "store", slots=TELEMETRY) as store:
        subscriber = store.subscribe("out")
        for batch in decode(LOGS, request.SerializeToString()):
            store.append(batch.bundle)
        store.finalize()
        delivered = subscriber.poll()
        assert delivered is not None
        with delivered:
            back = encode(of_bundle(RecordBundle(delivered)))
    assert_same(parse(LOGS, back), request)


def shuffled(batch: Batch) -> Batch:
    """Give the same in another order, as another producer may: rows, ids, and types of columns."""
    bundle = {}
    for name, payload in batch.bundle.items():
        table = payload.take(pa.array(range(payload.num_rows))[::-1])
        columns = [
            column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column
            for column in table.columns
        ]
        bundle[name] = pa.RecordBatch.from_arrays(columns, names=payload.schema.names)
    return Batch(batch.signal, RecordBundle(bundle))


def test_rows_in_any_order_say_the_same() -> None:
    request = many(500)
    [batch] = decode(LOGS, request.SerializeToString())
    back = parse(LOGS, encode(shuffled(batch)))
    assert_same(canonical(back), canonical(request))
    assert len(back.resource_logs) == 2


@pytest.mark.parametrize(
    ("slot", "column", "values"),
    [
        ("log_attrs", "type", pa.array([9], pa.uint8())),
        ("log_attrs", "parent_id", pa.array(["x"])),
        ("log_attrs", "str", pa.array([[1]])),
        ("logs", "resource", pa.array([1])),
        ("logs", "trace_id", pa.array([1])),
        ("logs", "time_unix_nano", pa.array([1.5])),
    ],
)
def test_columns_that_are_not_those_of_otap_are_refused(
    slot: str, column: str, values: pa.Array[Any]
) -> None:
    request = many(1, attributes=1)
    [batch] = decode(LOGS, request.SerializeToString())
    payload = batch.bundle[slot]
    place = payload.schema.names.index(column)
    changed = payload.set_column(place, column, values)
    bad = Batch(LOGS, RecordBundle({**batch.bundle, slot: changed}))
    with pytest.raises(InputError, match=column if column != "type" else "type 9"):
        encode(bad)


def test_a_batch_without_its_root_is_refused() -> None:
    [batch] = decode(LOGS, many(1).SerializeToString())
    rest = {name: payload for name, payload in batch.bundle.items() if name != "logs"}
    with pytest.raises(InputError, match="'logs'"):
        encode(Batch(LOGS, RecordBundle(rest)))


@pytest.mark.parametrize("limits", [Limits(items=9), Limits(parts=49)], ids=["items", "attributes"])
def test_too_much_is_refused(limits: Limits) -> None:
    data = many(10).SerializeToString()
    with pytest.raises(InputError, match="at most"):
        decode(LOGS, data, limits=limits)
    assert decode(LOGS, data, limits=Limits(items=10, parts=50))[0].items == 10


def verdict(read: Any, data: bytes) -> Any:
    try:
        return read(data)
    except (InputError, DecodeError):
        return None


@few
@given(requests(LOGS), st.data())
def test_agrees_with_protobuf_about_mutants(request: Any, data: st.DataObject) -> None:
    octets = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(octets)))
        octets[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    mutant = bytes(octets)
    theirs = verdict(ExportLogsServiceRequest.FromString, mutant)
    assert verdict(lambda found: count(LOGS, found), mutant) == (
        None if theirs is None else count_of(theirs)
    )
    batches = verdict(lambda found: decode(LOGS, found), mutant)
    assert (batches is None) == (theirs is None)
    if theirs is not None:
        theirs.DiscardUnknownFields()
        assert_same(parse(LOGS, b"".join(map(encode, batches))), trimmed(theirs))


def test_records_take_few_calls_each() -> None:
    """A request takes its calls, and a record little more than being found in its scope."""
    small, large = many(500).SerializeToString(), many(2_500).SerializeToString()
    first, second = (calls_of(lambda data=data: decode(LOGS, data)) for data in (small, large))
    assert first <= 1_800
    assert second - first <= 3 * 2_000
    few_of_them = many(20).SerializeToString()
    assert calls_of(lambda: decode(LOGS, few_of_them)) <= 3_000
    batches = [decode(LOGS, data)[0] for data in (small, large)]
    first, second = (calls_of(lambda batch=batch: encode(batch)) for batch in batches)
    assert first <= 3_000
    assert second - first <= 500
