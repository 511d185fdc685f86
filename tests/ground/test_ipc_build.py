"""Arrow files that are put together from messages are files to every reader."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa
import pytest

from quiver.ipc import encode_stream
from quiver.ipc_build import build_file, encode_messages, own_messages

WORDS = pa.array(["a", "bb", "ccc"])
SCHEMA = pa.schema(
    [
        pa.field("w", pa.dictionary(pa.int8(), pa.string())),
        pa.field("n", pa.int64(), nullable=False, metadata={"unit": "m"}),
    ],
    metadata={"key": "value"},
)
PLAIN = pa.schema([("", pa.int8()), ("", pa.int64())])


def batches(count: int) -> list[pa.RecordBatch]:
    return [
        pa.record_batch([pa.array([n % 3, None], pa.int8()), pa.array([n, -n])], schema=PLAIN)
        for n in range(count)
    ]


def built(count: int, compression: str = "none") -> bytes:
    messages = [
        encode_messages([batch], compression=compression, body_bytes=100)
        for batch in batches(count)
    ]
    empty = pa.DictionaryArray.from_arrays(pa.array([], pa.int8()), WORDS)
    return b"".join(build_file(SCHEMA, [empty], messages, compression=compression))


def rows(count: int) -> list[dict[str, object]]:
    words = WORDS.to_pylist()
    return [
        {"w": word, "n": number}
        for n in range(count)
        for word, number in ((words[n % 3], n), (None, -n))
    ]


@pytest.mark.parametrize("count", [0, 1, 3, 200])
@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_pyarrow_reads_it(count, compression):
    reader = pa.ipc.open_file(built(count, compression))
    assert reader.schema.equals(SCHEMA, check_metadata=True)
    assert reader.num_record_batches == count
    table = reader.read_all()
    table.validate(full=True)
    assert table.to_pylist() == rows(count)
    for index in range(count):
        assert reader.get_batch(index).to_pylist() == rows(count)[2 * index : 2 * index + 2]


def test_it_can_be_read_as_a_stream_too():
    data = built(3)
    with pa.ipc.open_stream(data[8:]) as reader:
        assert reader.read_all().to_pylist() == rows(3)


@pytest.mark.parametrize("count", [1, 3, 200])
def test_an_implementation_in_rust_reads_it(count):
    assert pl.read_ipc(io.BytesIO(built(count))).to_dicts() == rows(count)


def test_messages_of_streams_are_taken_as_they_are():
    schema = pa.schema([("n", pa.int64()), ("t", pa.list_(pa.string()))], metadata={"k": "v"})
    whole = [
        pa.record_batch([pa.array(range(n)), pa.array([["x"] * n] * n)], schema=schema)
        for n in range(4)
    ]
    payloads = [memoryview(encode_stream(batch)) for batch in whole]
    messages = own_messages(payloads)
    assert messages is not None
    data = b"".join(build_file(schema, [], [messages]))
    assert list(map(pa.ipc.open_file(data).get_batch, range(4))) == whole


@pytest.mark.parametrize("cut", [1, 8, 20, 200, 400])
def test_what_is_no_stream_of_one_batch_has_no_messages(cut):
    payload = memoryview(encode_stream(pa.record_batch({"n": range(100)})))
    assert own_messages([payload]) is not None
    assert own_messages([payload[:-cut]]) is None
    assert own_messages([payload, payload[cut:]]) is None
