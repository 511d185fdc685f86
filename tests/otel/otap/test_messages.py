"""The messages of a stream, held against the protobuf library and against golden bytes."""

import struct
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from otap_kit import drawn_batch, told

from quiver.errors import InputError
from quiver.otel import Signal
from quiver.otel.otap.format import (
    MESSAGE_CHARS_MAX,
    PAYLOADS_MAX,
    SCHEMA_ID_BYTES_MAX,
    ArrowPayload,
    BatchRecords,
    BatchStatus,
    decode_records,
    decode_status,
    encode_records,
    encode_status,
)
from quiver.otel.otap.reading import StreamReader

GOLDEN = Path(__file__).parents[2] / "golden" / "v1" / "otap"
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)


def described():
    """The messages as the protocol describes them, made by the library."""
    file = descriptor_pb2.FileDescriptorProto(name="otap.proto", package="p", syntax="proto3")
    one, many = 1, 3
    i64, i32, text, data, inner = 3, 5, 9, 12, 11
    for name, fields in {
        "Payload": [("schema_id", one, text), ("type", one, i32), ("record", one, data)],
        "Records": [("batch_id", one, i64), ("payloads", many, inner), ("headers", one, data)],
        "Status": [("batch_id", one, i64), ("code", one, i32), ("message", one, text)],
    }.items():
        message = file.message_type.add(name=name)
        for number, (field, label, kind) in enumerate(fields, 1):
            added = message.field.add(name=field, number=number, label=label, type=kind)
            if kind == inner:
                added.type_name = ".p.Payload"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"p.{name}"))
        for name in ("Payload", "Records", "Status")
    }


KINDS = described()
PAYLOADS = st.lists(st.tuples(st.text(), st.integers(0, 99), st.binary()), max_size=4)


@given(NUMBERS, PAYLOADS, st.binary())
def test_batches_are_those_of_the_library(batch_id, payloads, headers) -> None:
    made = [KINDS["Payload"](schema_id=a, type=b, record=c) for a, b, c in payloads]
    theirs = KINDS["Records"](batch_id=batch_id, payloads=made, headers=headers)
    ours = BatchRecords(batch_id, tuple(ArrowPayload(*each) for each in payloads))
    assert decode_records(theirs.SerializeToString()) == ours
    theirs.ClearField("headers")
    # Read back by the library: it leaves out an empty text, and so may we.
    assert KINDS["Records"].FromString(encode_records(ours)) == theirs


@given(NUMBERS, st.integers(0, 20), st.text(max_size=MESSAGE_CHARS_MAX))
def test_answers_are_those_of_the_library(batch_id, code, message) -> None:
    theirs = KINDS["Status"](batch_id=batch_id, code=code, message=message)
    ours = BatchStatus(batch_id, code, message)
    assert encode_status(ours) == theirs.SerializeToString()
    assert decode_status(theirs.SerializeToString()) == ours


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_the_library_does_or_refused(data) -> None:
    try:
        ours = decode_status(data)
    except InputError:
        return
    try:
        theirs = KINDS["Status"].FromString(data)
    except Exception:  # noqa: BLE001 - we cut and mend texts that the library refuses
        return
    assert (ours.batch_id, ours.message) == (theirs.batch_id, theirs.message[:MESSAGE_CHARS_MAX])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x08", "ends inside the number"),
        (b"\x08" + b"\xff" * 10, "more than 10 bytes"),
        (b"\x12\x05\x00", "ends inside the field"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x00", "no possible number"),
        (b"\x10\x01", "a number where bytes"),
        (b"\x0a\x00", "bytes where a number"),
        (b"\x12\x03\x0a\x01\xff", "not UTF-8"),
        (b"\x09\x00", "ends inside the field"),
    ],
)
def test_what_is_no_message_is_refused(data, why) -> None:
    with pytest.raises(InputError, match=why):
        decode_records(data)


def test_what_is_too_much_is_refused_and_long_messages_are_cut() -> None:
    with pytest.raises(InputError, match="more than 64"):
        decode_records(b"\x12\x00" * (PAYLOADS_MAX + 1))
    long = ArrowPayload("x" * (SCHEMA_ID_BYTES_MAX + 1), 1, b"")
    with pytest.raises(InputError, match="schema id is longer"):
        decode_records(encode_records(BatchRecords(1, (long,))))
    assert len(decode_status(encode_status(BatchStatus(1, 3, "x" * 5000))).message) == 1024


@pytest.mark.parametrize("signal", list(Signal))
def test_golden_streams_say_what_they_said(signal: Signal) -> None:
    data, reader = (GOLDEN / f"{signal}.stream").read_bytes(), StreamReader(signal)
    for seed in (1, 2):
        (size,) = struct.unpack_from("<I", data)
        message, data = data[4 : 4 + size], data[4 + size :]
        records = decode_records(message)
        assert encode_records(records) == message
        assert told(reader.read(records)) == told(drawn_batch(signal, seed, rows=2))
    assert data == b""


def test_the_golden_answer_is_written_as_it_was() -> None:
    data = (GOLDEN / "status").read_bytes()
    assert decode_status(data) == BatchStatus(-2, 8, "no room für it")
    assert encode_status(decode_status(data)) == data
