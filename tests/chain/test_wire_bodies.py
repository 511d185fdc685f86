"""Bodies of frames: Flight checks nothing of where a value begins and ends."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pyarrow as pa
import pytest

from quiver.chain.wire.bodies import (
    BEHIND_BYTES_MAX,
    SCHEMA,
    send_frame,
    sent,
    taken,
    with_body,
)
from quiver.chain.wire.format import encode_frame
from quiver.chain.wire.messages import Frame, FrameKind
from quiver.errors import DamagedEntry, TornEntry

BODY = b"entry" * 20_000
SMALL = b"entry" * 100
FRAME = Frame(FrameKind.ENTRIES, 3, 5)
_OFFSETS = struct.Struct("<qq")


def chunk_of(batch, head=None):
    return SimpleNamespace(app_metadata=pa.py_buffer(head or with_body(FRAME, BODY)[1]), data=batch)


def over_a_wire(begin, end):
    """Write a batch, and change on its way where its value begins and ends."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(with_body(FRAME, BODY)[0])
    data = sink.getvalue().to_pybytes()
    was = _OFFSETS.pack(0, len(BODY))
    assert data.count(was) == 1
    (batch,) = pa.ipc.open_stream(data.replace(was, _OFFSETS.pack(begin, end)))
    return batch


def test_a_body_comes_as_it_was_sent():
    frame, body = taken(chunk_of(over_a_wire(0, len(BODY))))
    assert (bytes(body), frame.body_len) == (BODY, len(BODY))


@pytest.mark.parametrize("body", [b"", SMALL, bytes(BEHIND_BYTES_MAX)], ids=len)
def test_a_small_body_comes_behind_its_head(body):
    frame = FRAME if body else Frame(FrameKind.HEARTBEAT, 3, 5)
    batch, beside = with_body(frame, memoryview(body))
    assert batch.num_rows == 0
    head, came = taken(SimpleNamespace(app_metadata=beside, data=batch))
    assert (bytes(came), head.body_len) == (body, len(body))
    head, came = taken(SimpleNamespace(app_metadata=beside, data=None))
    assert (bytes(came), head.body_len) == (body, len(body))


@pytest.mark.parametrize("cut", [1, 55, 56, 57, 555])
def test_a_body_behind_its_head_that_ends_early_is_torn(cut):
    beside = with_body(FRAME, SMALL)[1].to_pybytes()
    with pytest.raises(TornEntry):
        taken(SimpleNamespace(app_metadata=pa.py_buffer(beside[:cut]), data=None))


def test_a_flipped_bit_of_a_body_behind_its_head_is_damage():
    beside = bytearray(with_body(FRAME, SMALL)[1].to_pybytes())
    beside[100] ^= 8
    with pytest.raises(DamagedEntry, match="checksum of a body"):
        taken(SimpleNamespace(app_metadata=pa.py_buffer(bytes(beside)), data=None))


class Written:
    """A stream of Flight that notes what was written to it."""

    def write_metadata(self, beside):
        self.chunk = SimpleNamespace(app_metadata=beside, data=None)

    def write_with_metadata(self, batch, beside):
        self.chunk = SimpleNamespace(app_metadata=beside, data=batch)


@pytest.mark.parametrize("body", [SMALL, BODY], ids=len)
def test_what_goes_down_a_stream_has_the_checksums_of_its_entries_alone(body):
    stream = Written()
    send_frame(stream, FRAME, memoryview(body))
    frame, came = sent(stream.chunk)
    assert (bytes(came), frame) == (body, FRAME._replace(body_len=len(body)))
    with pytest.raises(DamagedEntry, match="checksum of a body"):  # Who reads has no other one.
        taken(stream.chunk)


def test_a_body_of_another_length_is_torn():
    stream = Written()
    send_frame(stream, FRAME, memoryview(SMALL))
    stream.chunk.app_metadata = stream.chunk.app_metadata.slice(0, 100)
    with pytest.raises(TornEntry, match="another length"):
        sent(stream.chunk)


def test_two_bodies_are_damage():
    with pytest.raises(DamagedEntry, match="two bodies"):
        taken(chunk_of(with_body(FRAME, BODY)[0], with_body(FRAME, SMALL)[1].to_pybytes()))


@pytest.mark.parametrize("body", [SMALL, BODY], ids=len)
def test_what_is_sent_is_in_memory_of_arrows_own(body):
    before = pa.total_allocated_bytes()
    batch, beside = with_body(FRAME, memoryview(pa.py_buffer(body)))
    values = batch.column(0).buffers() if batch.num_rows else []
    sizes = [each.size for each in (*values, beside) if each is not None]
    assert sum(sizes) > len(body)
    assert pa.total_allocated_bytes() - before >= sum(sizes)
    del batch, beside, values
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        (0, 200 << 20),
        (-(200 << 20), 0),
        (1 << 40, (1 << 40) + 500),
        (500, 0),
        (0, -1),
        (1, 100_600),
    ],
)
def test_a_value_outside_of_what_came_is_damage_and_touches_no_memory(begin, end):
    head = Frame(FrameKind.ENTRIES, 3, 5, body_len=min(max(end - begin, 1), 200 << 20), body_crc=1)
    with pytest.raises(DamagedEntry, match="is no value"):
        taken(chunk_of(over_a_wire(begin, end), encode_frame(head)))


@pytest.mark.parametrize(
    "batch",
    [
        pa.RecordBatch.from_arrays([pa.array([b"x", b"y"], pa.large_binary())], ["body"]),
        pa.RecordBatch.from_arrays([pa.array([b"x"], pa.binary())], ["body"]),
        pa.RecordBatch.from_arrays([pa.array([None], pa.large_binary())], ["body"]),
        pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([]))),
    ],
    ids=["two", "another type", "null", "no column"],
)
def test_what_is_no_single_value_is_damage(batch):
    with pytest.raises(DamagedEntry, match="than one value"):
        taken(chunk_of(batch))
