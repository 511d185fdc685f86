"""A directory read by a mould is what decoding it gives, and anything else is decoded."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.errors import DamagedEntry, QuiverError
from quiver.segment import directory
from quiver.segment.directory import Description, decode_directory, encode_directory
from quiver.segment.format import Footer
from quiver.segment.mould import Mould, Moulds
from quiver.segment.tables import StreamEntry
from quiver.slots import SlotTable
from tests.kit.manifests import A_STREAM

END = 1 << 40
SCHEMA = pa.schema([("a", pa.int64())])
SLOTS = SlotTable.of(["events", "notes"])
STREAM = replace(A_STREAM, byte_length=64)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
TIMES = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(autouse=True)
def moulds(monkeypatch):
    """Moulds of this test alone."""
    fresh = Moulds()
    monkeypatch.setattr(directory, "_MOULDS", fresh)
    return fresh


def encode(streams, seq=7, **about):
    return encode_directory(streams, Description("id", 2, seq, SLOTS, **about), {0: SCHEMA})


def decode(data, count):
    footer = Footer(count, 2, END - 200, 100, END - 100, 100)
    return decode_directory(data, footer, end=END)


def outcome(data, count):
    """What decoding gives, or how it is refused."""
    try:
        return decode(data, count)
    except QuiverError as error:
        return type(error), error.message


def cold(data, count):
    """The same by a process that has read nothing yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(directory, "_MOULDS", Moulds())
        return outcome(data, count)


def refuse(*_):
    raise AssertionError("it was decoded")


def apart(*streams):
    """Streams that lie one behind the other."""
    return [replace(s, stream_id=i, byte_offset=64 * i) for i, s in enumerate(streams)]


def test_a_directory_that_differs_in_numbers_only_is_not_decoded(monkeypatch):
    streams = apart(STREAM, replace(STREAM, event_ns_min=1, event_ns_max=2))
    decode(encode(streams, seq=123), 2)
    monkeypatch.setattr(directory, "_decode_table", refuse)
    others = [
        replace(one, slot_id=1, row_count=2**63, crc32c=8, ingestion_ns_min=-1, null_counts=(7, 1))
        for one in streams
    ]
    found, about = decode(encode(others, seq=987), 2)
    assert found == tuple(others)
    assert (about.segment_seq, about.store_id, about.slots) == (987, "id", SLOTS)
    with pytest.raises(AssertionError, match="decoded"):
        decode(encode(others, seq=7), 2)


@pytest.mark.parametrize(
    "change",
    [
        {"payload_type": "evenst"},
        {"fingerprint": b"g" * 32},
        {"omitted_columns": b"\x05"},
        {"event_ns_min": 3},
        {"null_counts": (1, None)},
        {"declared_schema": b"x"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_anything_but_numbers_is_decoded(change):
    streams = apart(STREAM, STREAM)
    decode(encode(streams), 2)
    others = [streams[0], replace(streams[1], **change)]
    assert decode(encode(others), 2)[0] == tuple(others)


def test_impossible_numbers_are_found_by_a_mould_too():
    decode(encode(apart(STREAM, STREAM)), 2)
    with pytest.raises(DamagedEntry, match="overlaps"):
        decode(encode([STREAM, replace(STREAM, stream_id=1, byte_offset=63)]), 2)
    with pytest.raises(DamagedEntry, match="disagree about its rows"):
        decode(encode(apart(STREAM, STREAM)), 3)


entries = st.builds(
    StreamEntry,
    stream_id=st.integers(0, 3),
    slot_id=st.integers(0, 64),
    fingerprint=st.sampled_from([b"f" * 32, b"g" * 32]),
    byte_offset=st.integers(0, 4).map(lambda place: place * 64),
    byte_length=st.sampled_from([1, 64, 65]),
    row_count=U64,
    chunk_count=st.sampled_from([0, 1, 10_000_000, 2**32 - 1]),
    payload_type=st.sampled_from(["a", "b"]),
    crc32c=U32,
    ingestion_ns_min=TIMES,
    ingestion_ns_max=TIMES,
    event_ns_min=st.none() | TIMES,
    event_ns_max=st.none() | TIMES,
    null_counts=st.tuples(U64) | st.tuples(U64, U64) | st.tuples(st.none()),
    omitted_columns=st.sampled_from([None, b"", b"\x01"]),
    declared_schema=st.sampled_from([None, b"s"]),
)


@given(
    st.lists(
        st.tuples(
            st.lists(entries, max_size=2),
            st.integers(0, 200),
            st.sampled_from([{}, {"lost": {1: (0,)}}, {"compression": "lz4"}]),
        ),
        min_size=2,
        max_size=12,
    )
)
def test_what_a_mould_gives_is_what_decoding_gives(drawn):
    for streams, seq, about in drawn:
        data = encode(streams, seq, **about)
        assert outcome(data, len(streams)) == cold(data, len(streams))


def test_each_changed_byte_is_read_as_if_there_were_no_mould():
    data = encode(apart(STREAM, replace(STREAM, event_ns_min=1)), seq=10)
    decode(data, 2)
    for place in range(data.size):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        same = pa.py_buffer(bytes(changed))
        assert outcome(same, 2) == cold(same, 2), place


def test_numbers_that_lie_on_each_other_make_no_mould():
    digits = bytes(memoryview(encode([STREAM])))
    data = pa.py_buffer(bytes(64) + digits)

    def column(start, kind=pa.uint32(), count=2):  # noqa: B008
        return pa.Array.from_buffers(kind, count, [None, data.slice(start, count * 4)])

    rows = [[0, 0], [0, 0]]
    assert Mould.of(data, [column(0), column(8)], rows) is not None
    assert Mould.of(data, [column(0), column(4)], rows) is None
    assert Mould.of(data, [column(0), column(4, pa.float32())], rows) is None
    assert Mould.of(data.slice(4), [column(0), column(8)], rows) is None
    assert Mould.of(data.slice(0, 8), [column(0)], rows) is None


def test_a_few_moulds_are_kept_of_each_length_and_of_a_few_lengths(moulds, monkeypatch):
    names = ["events", "eventS", "evenTs", "eveNts", "evEnts"]
    for name in names:
        decode(encode([replace(STREAM, payload_type=name)]), 1)
    monkeypatch.setattr(directory, "_decode_table", refuse)
    for name in names[1:]:
        decode(encode([replace(STREAM, payload_type=name)]), 1)
    with pytest.raises(AssertionError, match="decoded"):
        decode(encode([replace(STREAM, payload_type=names[0])]), 1)
    monkeypatch.undo()
    monkeypatch.setattr(directory, "_MOULDS", moulds)
    for count in range(1, 34):
        decode(encode([replace(STREAM, payload_type="e" * 8 * count)]), 1)
    monkeypatch.setattr(directory, "_decode_table", refuse)
    decode(encode([replace(STREAM, payload_type="e" * 8 * 33)]), 1)
    with pytest.raises(AssertionError, match="decoded"):
        decode(encode([STREAM]), 1)


def test_a_directory_of_hundreds_of_streams_is_decoded_each_time(monkeypatch):
    streams = apart(*[STREAM] * 900)
    decode(encode(streams), 900)
    monkeypatch.setattr(directory, "_decode_table", refuse)
    with pytest.raises(AssertionError, match="decoded"):
        decode(encode(streams), 900)
