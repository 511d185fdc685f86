"""A batch that is read without its stream is what its stream says, or is refused as that is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver import ipc
from quiver.errors import DamagedEntry
from quiver.ipc import decode_stream, encode_stream, schema_message
from quiver.ipc_shapes import Shapes
from quiver.testing.same import difference
from quiver.testing.strategies import batches, schemas


class Metres(pa.ExtensionType):
    def __init__(self):
        super().__init__(pa.int64(), "quiver.test.metres")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls()


PLAIN = pa.record_batch(
    {
        "n": pa.array([1, None, 3]),
        "text": pa.array(["a", "", None]),
        "list": pa.array([[1.5], None, []]),
        "struct": pa.array([{"x": 1}, None, {"x": None}]),
        "flag": pa.array([True, False, None]),
    }
)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(ipc, "_KNOWN_SCHEMAS", {})
    monkeypatch.setattr(ipc, "_SHAPES", Shapes())


def ways(monkeypatch):
    """Note which way each stream is read."""
    said = []
    stream, alone = pa.ipc.open_stream, pa.ipc.read_record_batch
    monkeypatch.setattr(pa.ipc, "open_stream", lambda *a: said.append("stream") or stream(*a))
    monkeypatch.setattr(pa.ipc, "read_record_batch", lambda *a: said.append("alone") or alone(*a))
    return said


def test_the_second_one_of_a_schema_is_read_without_its_stream(monkeypatch):
    said = ways(monkeypatch)
    for rows in (3, 2, 1):
        batch = PLAIN.slice(0, rows)
        found = decode_stream(encode_stream(batch), rows=rows)
        assert difference(batch, found) is None
        assert found.schema.equals(batch.schema, check_metadata=True)
    assert said == ["stream", "alone", "alone"]
    with pytest.raises(DamagedEntry, match="rows"):
        decode_stream(encode_stream(PLAIN), rows=7)


@pytest.mark.parametrize(
    "batch",
    [
        pa.record_batch({"d": pa.array(["a", "b"]).dictionary_encode()}),
        pa.record_batch({"l": pa.array([["a"], None]).cast(pa.list_(pa.dictionary("i1", "str")))}),
        pa.record_batch([pa.ExtensionArray.from_storage(Metres(), pa.array([1, 2]))], ["m"]),
    ],
    ids=["dictionary", "dictionary in a list", "extension"],
)
def test_dictionaries_and_extensions_need_their_stream(monkeypatch, batch):
    said = ways(monkeypatch)
    for _ in range(3):
        assert decode_stream(encode_stream(batch)).num_rows == 2
    assert said == ["stream"] * 3


def test_a_type_that_is_registered_later_is_read_as_that():
    data = encode_stream(
        pa.record_batch([pa.ExtensionArray.from_storage(Metres(), pa.array([1, 2]))], ["m"])
    )
    for _ in range(2):
        assert decode_stream(data).schema.field("m").type == pa.int64()
    pa.register_extension_type(Metres())
    try:
        assert decode_stream(data).schema.field("m").type == Metres()
    finally:
        pa.unregister_extension_type("quiver.test.metres")
    assert decode_stream(data).schema.field("m").type == pa.int64()


def test_a_schema_that_another_writer_wrote_needs_its_stream():
    message = schema_message(encode_stream(PLAIN))
    assert ipc._stands_alone(PLAIN.schema, message)
    for place in range(len(message)):  # Among these bytes are the order of bytes, and all flags.
        other = bytearray(message)
        other[place] ^= 1
        assert not ipc._stands_alone(PLAIN.schema, bytes(other))


@given(st.data())
@settings(deadline=None)
def test_each_batch_of_any_schema_is_the_same_both_ways(data):
    schema = data.draw(schemas())
    for _ in range(3):
        stream = encode_stream(data.draw(batches(schema)))
        found, known = decode_stream(stream), ipc._KNOWN_SCHEMAS.copy()
        ipc._KNOWN_SCHEMAS.clear()
        other = decode_stream(stream)
        ipc._KNOWN_SCHEMAS.update(known)
        assert difference(other, found) is None
        assert found.schema.equals(other.schema, check_metadata=True)


def outcome(data):
    try:
        return decode_stream(bytes(data))
    except DamagedEntry:
        return None


def test_whatever_byte_is_wrong_it_is_read_or_refused_as_its_stream_is():
    whole = encode_stream(PLAIN).to_pybytes()
    decode_stream(whole)
    known = dict(ipc._KNOWN_SCHEMAS)
    assert list(known.values()) == [PLAIN.schema]
    for place in range(len(whole)):
        for bit in (0, 3, 7):
            wrong = bytearray(whole)
            wrong[place] ^= 1 << bit
            ipc._KNOWN_SCHEMAS.update(known)
            found = outcome(wrong)
            ipc._KNOWN_SCHEMAS.update(dict.fromkeys(known))
            other = outcome(wrong)
            assert (found is None) == (other is None), (place, bit)
            if found is not None and other is not None:
                assert difference(other, found) is None, (place, bit)
