"""A stream that is laid out as one before is taken for nothing that it would not be by itself."""

from __future__ import annotations

import functools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver import ipc
from quiver.errors import DamagedEntry
from quiver.ipc import decode_stream, encode_stream, schema_message
from quiver.ipc_messages import stream_decoded_bytes, stream_messages
from quiver.ipc_shapes import Shapes
from quiver.testing.same import difference
from quiver.testing.strategies import batches, schemas


def batch_of(number, count=30):
    return pa.record_batch(
        {
            "word": pa.array([f"{number}.{n % 7}" for n in range(count)]).dictionary_encode(),
            "level": pa.array([["low", None][n % 2] for n in range(count)]).dictionary_encode(),
            "list": pa.array([[n], None, []][n % 3] for n in range(count)),
            "n": pa.array(range(count)),
        }
    )


@functools.cache
def stream_of(number, count=30):
    return encode_stream(batch_of(number, count)).to_pybytes()


def learned():
    shapes = Shapes()
    data = memoryview(stream_of(1))
    shapes.learn(data, schema_message(data))
    return shapes


def is_plain(shapes, data):
    return shapes.is_plain(memoryview(data), schema_message(data))


def decoded(data, shapes, monkeypatch):
    """The batch, or None where it is refused."""
    monkeypatch.setattr(ipc, "_SHAPES", shapes)
    try:
        return decode_stream(data)
    except DamagedEntry:
        return None


def test_streams_of_one_schema_are_plain_once_one_was_followed(monkeypatch):
    followed = []
    real = ipc.stream_decoded_bytes
    monkeypatch.setattr(ipc, "stream_decoded_bytes", lambda data: followed.append(1) or real(data))
    shapes = Shapes()
    for number in range(5):
        found = decoded(stream_of(number, 20 + number), shapes, monkeypatch)
        assert difference(found, batch_of(number, 20 + number)) is None
    assert len(followed) == 1


def test_of_streams_that_are_anything_else_nothing_is_said():
    shapes, data = learned(), stream_of(2)
    assert is_plain(shapes, data)
    schema = schema_message(data)
    for other in (
        b"",
        schema,
        data[:-8],
        data[:-1],
        data + bytes(8),
        data + stream_of(1),
        data[:-8] + data[len(schema) :],
        encode_stream(batch_of(1).select([0, 3])).to_pybytes(),
    ):
        assert not is_plain(shapes, other)
    for options in (
        pa.ipc.IpcWriteOptions(compression="lz4"),
        pa.ipc.IpcWriteOptions(use_legacy_format=True),
    ):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch_of(1).schema, options=options) as writer:
            writer.write_batch(batch_of(1))
        other = sink.getvalue().to_pybytes()
        assert not is_plain(shapes, other)
        shapes.learn(memoryview(other), schema_message(other))
        assert not is_plain(shapes, other)


def test_a_length_that_leads_back_to_the_end_is_none():
    shapes, data = learned(), bytearray(stream_of(2))
    last = stream_messages(memoryview(data))[-1]
    body = -8 - (last.start + last.metadata_bytes)
    place = last.start + last.length_place
    data[place : place + 8] = body.to_bytes(8, "little", signed=True)
    assert not is_plain(shapes, bytes(data))


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_no_flipped_byte_hides_what_would_be_refused(bits, monkeypatch):
    shapes, content = learned(), stream_of(2)
    fits = 0
    for place in range(len(content)):
        data = bytearray(content)
        data[place] ^= bits
        if is_plain(shapes, bytes(data)):
            fits += 1
            assert stream_decoded_bytes(memoryview(data)) == 0
            alone = decoded(bytes(data), Shapes(), monkeypatch)
            found = decoded(bytes(data), shapes, monkeypatch)
            assert (alone is None) == (found is None)
            assert found is None or difference(alone, found) is None
    assert fits > len(content) // 4  # Most bytes are values.


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_numbers_anywhere_hide_what_would_be_refused(data):
    shapes, changed = learned(), bytearray(stream_of(2))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 8))
        number = data.draw(st.sampled_from([0, 1, 8, 0xFFFF, 1 << 31, (1 << 63) - 1, 1 << 63]))
        changed[place : place + 8] = number.to_bytes(8, "little")
    if is_plain(shapes, bytes(changed)):
        assert stream_decoded_bytes(memoryview(changed)) == 0
    with pytest.MonkeyPatch.context() as patch:
        alone = decoded(bytes(changed), Shapes(), patch)
        found = decoded(bytes(changed), shapes, patch)
    assert (alone is None) == (found is None)
    assert found is None or difference(alone, found) is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_batches_of_a_schema_come_back(data):
    schema = data.draw(schemas(columns_max=3))
    shapes = Shapes()
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(3):
            batch = data.draw(batches(schema, rows_max=4))
            found = decoded(encode_stream(batch).to_pybytes(), shapes, patch)
            assert difference(batch, found) is None
